package queue

import (
	"doublet/stat"
)

// Tally is the contribution of entries of mail.box to the gauges.
type Tally struct{ waiting, recipients, local, transfer, dead, hold int64 }

// Plus returns the sum of two tallies.
func (t Tally) Plus(u Tally) Tally {
	return Tally{
		t.waiting + u.waiting, t.recipients + u.recipients, t.local + u.local,
		t.transfer + u.transfer, t.dead + u.dead, t.hold + u.hold,
	}
}

func (t Tally) minus(u Tally) Tally {
	return Tally{
		t.waiting - u.waiting, t.recipients - u.recipients, t.local - u.local,
		t.transfer - u.transfer, t.dead - u.dead, t.hold - u.hold,
	}
}

// tally returns the tally of one entry.
func (e *Entry) tally() Tally {
	t := Tally{recipients: int64(len(e.Recipients))}
	for i := range e.Recipients {
		switch e.Recipients[i].State {
		case Pending:
			t.local++
		case Waiting:
			t.transfer++
		}
	}
	switch {
	case e.Dead:
		t.dead = 1
	case e.Held:
		t.hold = 1
	default:
		t.waiting = 1
	}
	return t
}

// gauges holds the statistics of mail.box, under Domino's names.
type gauges struct {
	waiting, recipients, dead, hold, local, transfer *stat.Gauge
	uncounted                                        *stat.Gauge
}

func newGauges(t *stat.Tree) *gauges {
	g := &gauges{
		uncounted: t.Gauge("Mail.Uncounted",
			"mail.box databases of which the messages of before the start are still being counted: the figures "+
				"below are too low meanwhile"),
		waiting:    t.Gauge("Mail.Waiting", "messages in mail.box that are not dead or on hold"),
		recipients: t.Gauge("Mail.WaitingRecipients", "recipients of messages in mail.box"),
		local:      t.Gauge("Mail.WaitingForDelivery", "recipients here of messages in mail.box"),
		transfer:   t.Gauge("Mail.WaitingForTransfer", "recipients elsewhere of messages in mail.box"),
		dead:       t.Gauge("Mail.Dead", "messages in mail.box that can neither be delivered nor returned"),
		hold:       t.Gauge("Mail.Hold", "messages in mail.box that an administrator holds"),
	}
	t.GaugeFunc("Mail.TotalPending", "messages in mail.box that are not dead",
		func() float64 { return float64(g.waiting.Value() + g.hold.Value()) })
	return g
}

// add adds a tally to the gauges.
func (g *gauges) add(t Tally) {
	g.waiting.Add(t.waiting)
	g.recipients.Add(t.recipients)
	g.local.Add(t.local)
	g.transfer.Add(t.transfer)
	g.dead.Add(t.dead)
	g.hold.Add(t.hold)
}
