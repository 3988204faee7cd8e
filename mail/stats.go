package mail

import (
	"time"

	"doublet/stat"
)

// depositStats holds the statistics of accepted messages and local deliveries, under Domino's names.
type depositStats struct {
	delivered, routed, bytes, limited *stat.Counter
	scriptFailures                    *stat.Counter
	time                              *stat.Histogram
}

func newDepositStats(t *stat.Tree) *depositStats {
	s := &depositStats{
		delivered: t.Counter("Mail.Delivered", "messages put into mail files here, one for each recipient"),
		routed:    t.Counter("Mail.TotalRouted", "messages taken in charge"),
		bytes: t.Counter("Mail.TotalBytesDelivered",
			"bytes of messages put into mail files, once for each recipient"),
		limited: t.Counter("Mail.TransferLimited",
			"messages refused because their sender has sent too much in a day"),
		scriptFailures: t.Counter("Mail.SieveFailures",
			"deliveries at which a person's Sieve script failed, so that the message was kept"),
		time: t.Histogram("Mail.DeliverTime", "time from taking a message to its commit", stat.Seconds),
	}
	t.CounterFunc("Mail.TotalKBDelivered", "KB of messages put into mail files, once for each recipient",
		func() float64 { return float64(s.bytes.Value() / 1024) })
	t.GaugeFunc("Mail.AverageSizeDelivered", "KB of an average message delivered", func() float64 {
		n := s.delivered.Value()
		if n == 0 {
			return 0
		}
		return float64(s.bytes.Value()) / 1024 / float64(n)
	})
	t.GaugeFunc("Mail.AverageDeliverTime", "seconds from taking a message to its commit, on average",
		func() float64 { return average(s.time) })
	return s
}

// ruleStats holds the statistics of mail rules.
type ruleStats struct {
	matched, refused, failed *stat.Counter
	time                     *stat.Histogram
}

func newRuleStats(t *stat.Tree, m *MailRules) *ruleStats {
	t.Text("Mail.Rules.Matches", "messages that each mail rule matched, as RULE=NUMBER", m.matchesText)
	t.GaugeFunc("Mail.Rules.Unreadable", "mail rules that cannot be read, and are not applied", func() float64 {
		if table := m.table.Load(); table != nil {
			return float64(len(table.unreadable))
		}
		return 0
	})
	return &ruleStats{
		matched: t.Counter("Mail.Rules.Matched", "matches of mail rules, one for each rule and message"),
		refused: t.Counter("Mail.Rules.Refused", "messages refused by mail rules"),
		failed:  t.Counter("Mail.Rules.Failures", "actions of mail rules that could not be carried out"),
		time:    t.Histogram("Mail.Rules.Time", "time of the mail rules for one message", stat.Seconds),
	}
}

// routerStats holds the statistics of the router, under Domino's names.
type routerStats struct {
	failures, reports, delays, expired, dropped *stat.Counter
	sent, transferFailed, sentBytes             *stat.Counter
	sendTime, delay                             *stat.Histogram
}

func newRouterStats(t *stat.Tree) *routerStats {
	s := &routerStats{
		failures: t.Counter("Mail.TotalFailures", "recipients that could not be delivered to for good"),
		reports:  t.Counter("Mail.TotalReports", "delivery reports made"),
		sent:     t.Counter("Mail.Transferred", "recipients whose mail was sent to other servers"),
		transferFailed: t.Counter("Mail.TransferFailures",
			"recipients that other servers refused for good, or that could not be reached for too long"),
		sentBytes: t.Counter("Mail.TotalBytesTransferred",
			"bytes of messages sent to other servers, once for each transaction"),
		delays:   t.Counter("Mail.TotalDelayReports", "reports that a message is still under way"),
		expired:  t.Counter("Mail.Expired", "recipients elsewhere given up after too long"),
		dropped:  t.Counter("Mail.DeadRemoved", "dead messages removed after their time"),
		sendTime: t.Histogram("Mail.TransferTime", "time of one transaction with another server", stat.Seconds),
		delay: t.Histogram("Mail.TransferDelay",
			"time from taking a message to its transfer to another server", stat.Seconds),
	}
	t.CounterFunc("Mail.TotalKBTransferred", "KB of messages sent to other servers",
		func() float64 { return float64(s.sentBytes.Value() / 1024) })
	t.GaugeFunc("Mail.AverageTransferTime", "seconds from taking a message to its transfer, on average",
		func() float64 { return average(s.delay) })
	return s
}

func average(h *stat.Histogram) float64 {
	return h.Distribution().Mean
}

// transferred counts a transaction in which a number of recipients accepted the message.
func (s *routerStats) transferred(recipients int, size uint64, took, delay time.Duration) {
	if recipients == 0 {
		return
	}
	s.sent.Add(uint64(recipients))
	s.sentBytes.Add(size)
	s.sendTime.ObserveDuration(took)
	s.delay.ObserveDuration(delay)
}

func (s *depositStats) scriptFailed() { s.scriptFailures.Inc() }

func (s *depositStats) deliveredTo(n int, size int64) {
	s.delivered.Add(uint64(n))
	s.bytes.Add(uint64(n) * uint64(size))
}
