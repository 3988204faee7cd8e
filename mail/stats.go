package mail

import (
	"time"

	"doublet/stat"
)

// stats are the statistics of the room, under Domino's names.
type stats struct {
	delivered, routed, failures, reports *stat.Counter
	bytes                                *stat.Counter
	waiting, recipients, dead, hold      *stat.Gauge
	local                                *stat.Gauge
	time                                 *stat.Histogram
}

func (s *stats) init(t *stat.Tree) {
	s.delivered = t.Counter("Mail.Delivered", "messages put into mail files here, one for each recipient")
	s.routed = t.Counter("Mail.TotalRouted", "messages taken in charge")
	s.failures = t.Counter("Mail.TotalFailures", "recipients that could not be delivered to for good")
	s.reports = t.Counter("Mail.TotalReports", "delivery reports made")
	bytes := t.Counter("Mail.TotalBytesDelivered", "bytes of messages put into mail files, once for each recipient")
	s.bytes = bytes
	delivered := s.delivered
	t.CounterFunc("Mail.TotalKBDelivered", "KB of messages put into mail files, once for each recipient", func() float64 {
		return float64(bytes.Value() / 1024)
	})
	t.GaugeFunc("Mail.AverageSizeDelivered", "KB of an average message delivered", func() float64 {
		n := delivered.Value()
		if n == 0 {
			return 0
		}
		return float64(bytes.Value()) / 1024 / float64(n)
	})
	// Nothing is sent to other servers by this version.
	t.Counter("Mail.TotalKBTransferred", "KB of messages sent to other servers")
	s.waiting = t.Gauge("Mail.Waiting", "messages in mail.box that are not dead or on hold")
	s.recipients = t.Gauge("Mail.WaitingRecipients", "recipients of messages in mail.box")
	s.local = t.Gauge("Mail.WaitingForDelivery", "recipients here of messages in mail.box")
	s.dead = t.Gauge("Mail.Dead", "messages in mail.box that can neither be delivered nor returned")
	s.hold = t.Gauge("Mail.Hold", "messages in mail.box that an administrator holds")
	s.time = t.Histogram("Mail.DeliverTime", "time from taking a message to its commit", stat.Seconds)
}

// tally is what one entry of mail.box, or all of them, add to the gauges.
type tally struct{ waiting, recipients, local, dead, hold int64 }

func (t tally) plus(u tally) tally {
	return tally{t.waiting + u.waiting, t.recipients + u.recipients, t.local + u.local, t.dead + u.dead, t.hold + u.hold}
}

func (t tally) minus(u tally) tally {
	return tally{t.waiting - u.waiting, t.recipients - u.recipients, t.local - u.local, t.dead - u.dead, t.hold - u.hold}
}

// queue moves the gauges.
func (s *stats) queue(t tally) {
	s.waiting.Add(t.waiting)
	s.recipients.Add(t.recipients)
	s.local.Add(t.local)
	s.dead.Add(t.dead)
	s.hold.Add(t.hold)
}

func (s *stats) deliveredTo(n int, size int64) {
	s.delivered.Add(uint64(n))
	s.bytes.Add(uint64(n) * uint64(size))
}

func (s *stats) took(d time.Duration) {
	s.routed.Inc()
	s.time.ObserveDuration(d)
}
