package mail

import (
	"time"

	"doublet/stat"
)

// stats are the statistics of the room, under Domino's names.
type stats struct {
	delivered, routed, failures, reports *stat.Counter
	bytes                                *stat.Counter
	time                                 *stat.Histogram
	sent, transferFailed, sentBytes      *stat.Counter
	delays, expired, dropped, limited    *stat.Counter
	sendTime, delay                      *stat.Histogram
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
	s.sent = t.Counter("Mail.Transferred", "recipients whose mail was sent to other servers")
	s.transferFailed = t.Counter("Mail.TransferFailures", "recipients that other servers refused for good, or that could not be reached for too long")
	sentBytes := t.Counter("Mail.TotalBytesTransferred", "bytes of messages sent to other servers, once for each transaction")
	s.sentBytes = sentBytes
	t.CounterFunc("Mail.TotalKBTransferred", "KB of messages sent to other servers", func() float64 {
		return float64(sentBytes.Value() / 1024)
	})
	s.delays = t.Counter("Mail.TotalDelayReports", "reports that a message is still under way")
	s.expired = t.Counter("Mail.Expired", "recipients elsewhere given up after too long")
	s.dropped = t.Counter("Mail.DeadRemoved", "dead messages removed after their time")
	s.limited = t.Counter("Mail.TransferLimited", "messages refused because their sender has sent too much in a day")
	s.sendTime = t.Histogram("Mail.TransferTime", "time of one transaction with another server", stat.Seconds)
	s.delay = t.Histogram("Mail.TransferDelay", "time from taking a message to its transfer to another server", stat.Seconds)
	delay := s.delay
	t.GaugeFunc("Mail.AverageTransferTime", "seconds from taking a message to its transfer, on average", func() float64 { return average(delay) })
	s.time = t.Histogram("Mail.DeliverTime", "time from taking a message to its commit", stat.Seconds)
	took := s.time
	t.GaugeFunc("Mail.AverageDeliverTime", "seconds from taking a message to its commit, on average", func() float64 { return average(took) })
}

func average(h *stat.Histogram) float64 {
	return h.Distribution().Mean
}

// transferred counts a transaction in which so many recipients got their mail.
func (s *stats) transferred(recipients int, size uint64, took, delay time.Duration) {
	if recipients == 0 {
		return
	}
	s.sent.Add(uint64(recipients))
	s.sentBytes.Add(size)
	s.sendTime.ObserveDuration(took)
	s.delay.ObserveDuration(delay)
}

func (s *stats) deliveredTo(n int, size int64) {
	s.delivered.Add(uint64(n))
	s.bytes.Add(uint64(n) * uint64(size))
}

func (s *stats) took(d time.Duration) {
	s.routed.Inc()
	s.time.ObserveDuration(d)
}
