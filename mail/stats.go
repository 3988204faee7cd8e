package mail

import (
	"time"

	"doublet/stat"
	"doublet/wire/smtp"
)

// depositStats holds the statistics of accepted messages and local deliveries, under Domino's names.
type depositStats struct {
	delivered, routed, bytes, limited *stat.Counter
	scriptFailures                    *stat.Counter
	time                              *stat.Histogram
	// size and hops have the extremes of messages, hopped the sum of hops, once for each recipient. They are not in the
	// tree themselves.
	size, hops stat.Histogram
	hopped     stat.Counter
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
	t.GaugeFunc("Mail.AverageSizeDelivered", "KB of an average message delivered",
		func() float64 { return s.each(s.bytes) / 1024 })
	t.GaugeFunc("Mail.AverageServerHops", "servers that a delivered message has passed (Received fields), on average",
		func() float64 { return s.each(&s.hopped) })
	t.GaugeFunc("Mail.AverageDeliverTime", "seconds from taking a message to its commit, on average",
		func() float64 { return average(s.time) })
	extremes(t, "SizeDelivered", "KB of a message delivered", &s.size, 1.0/1024)
	extremes(t, "ServerHops", "servers that a delivered message has passed (Received fields)", &s.hops, 1)
	extremes(t, "DeliverTime", "seconds from taking a message to its commit", s.time, 1)
	return s
}

// extremes registers Domino's Mail.Minimum… and Mail.Maximum… of a histogram, in its unit times scale.
func extremes(t *stat.Tree, name, help string, h *stat.Histogram, scale float64) {
	t.GaugeFunc("Mail.Minimum"+name, help+", at least", func() float64 { return scale * h.Distribution().Min })
	t.GaugeFunc("Mail.Maximum"+name, help+", at most", func() float64 { return scale * h.Distribution().Max })
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

// deliveredTo counts a message of size bytes that was put into n mail files. hops are its Received fields.
func (s *depositStats) deliveredTo(n int, size int64, hops int) {
	if n == 0 {
		return
	}
	s.delivered.Add(uint64(n))
	s.bytes.Add(uint64(n) * uint64(size))
	s.size.Observe(size)
	s.hops.Observe(int64(hops))
	s.hopped.Add(uint64(n) * uint64(hops))
}

// each returns a sum divided by the number of deliveries.
func (s *depositStats) each(sum *stat.Counter) float64 {
	n := s.delivered.Value()
	if n == 0 {
		return 0
	}
	return float64(sum.Value()) / float64(n)
}

// hopsOf returns the number of Received fields of a message, of which the doors allow fewer than most.
func hopsOf(raw []byte) int {
	const most = 1000
	return smtp.CountReceived(raw, most)
}
