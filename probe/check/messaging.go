package check

import (
	"fmt"
	"strings"
	"time"

	"doublet/probe"
)

// Destination is the mail that waits for one destination.
type Destination struct {
	Name    string
	Waiting int
	// Failures counts the failed attempts in a row. Host and Reply are those of the last one.
	Failures    int
	Host, Reply string
}

// QueueLength reports destinations for which many messages wait.
var QueueLength = probe.Check[[]Destination]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "QueueLength",
		What: "messages in mail.box that wait for one destination",
		Cause: "The destination does not take mail, or takes it more slowly than it arrives; or a person or program " +
			"sends in bulk.",
		Remedy: "Look at `show queue --by-destination` and at the probe NextHop. For a sender in bulk: disable the " +
			"account, `queue drop` its mail, set router.messages_per_day.",
		Every: time.Minute, Hold: 2 * time.Minute, Clear: 5 * time.Minute,
		Limits: []probe.Limit{low(1000, probe.Number), high(5000, probe.Number), failure(20000, probe.Number)}},
	Find: func(list []Destination, l probe.Limits) (out []probe.Finding) {
		for _, d := range list {
			s, bad := l.Above(float64(d.Waiting))
			out = append(out, one(s, bad, d.Name, fmt.Sprintf("%d messages wait for %s", d.Waiting, d.Name))...)
		}
		return out
	},
}

// NextHop reports destinations that cannot be reached.
var NextHop = probe.Check[[]Destination]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "NextHop",
		What: "failed attempts in a row to reach the next hop of a destination",
		Cause: "The other server is down or refuses connections, DNS has no address for it, or a firewall blocks " +
			"port 25.",
		Remedy: "Read the reply. Try the host from this machine (port 25); ask its postmaster. `queue route DOMAIN` " +
			"tries at once.",
		Every: time.Minute, Clear: 5 * time.Minute,
		Limits: []probe.Limit{low(10, probe.Number), high(30, probe.Number)}},
	Find: func(list []Destination, l probe.Limits) (out []probe.Finding) {
		for _, d := range list {
			s, bad := l.Above(float64(d.Failures))
			reply := d.Reply
			if d.Host != "" {
				reply = d.Host + ": " + reply
			}
			out = append(out, one(s, bad, d.Name, fmt.Sprintf("%s was not reached in %s in a row, %d messages wait: %s",
				d.Name, plural(d.Failures, "attempt"), d.Waiting, reply))...)
		}
		return out
	},
}

// Oldest is the age of the oldest message that waits for a destination.
type Oldest struct {
	Destination string
	Age         time.Duration
}

// QueueAge reports destinations for which a message has waited for long.
var QueueAge = probe.Check[[]Oldest]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "QueueAge",
		What:   "age of the oldest message in mail.box for one destination (of the oldest 500 messages)",
		Cause:  "The destination has not taken mail for that time; or the router does not run.",
		Remedy: "Look at `show queue` and `trace ID` for the replies, and at `show tasks` for the Router.",
		Every:  5 * time.Minute, Clear: 10 * time.Minute,
		Limits: []probe.Limit{low((12 * time.Hour).Seconds(), probe.Time), high((2 * day).Seconds(), probe.Time)}},
	Find: func(list []Oldest, l probe.Limits) (out []probe.Finding) {
		for _, d := range list {
			s, bad := l.Older(d.Age)
			out = append(out, one(s, bad, d.Destination, "the oldest message for "+d.Destination+" has waited for "+
				age(d.Age))...)
		}
		return out
	},
}

// DeadMail reports messages that can neither be delivered nor returned.
var DeadMail = probe.Check[int]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "DeadMail",
		What: "dead messages in mail.box: they can neither be delivered nor returned",
		Cause: "The recipient was rejected, and the sender's server rejects the delivery report too. Mostly junk " +
			"with a forged sender.",
		Remedy: "Look at `queue list --state dead`; `queue retry` or `queue drop` them. They are removed after " +
			"router.keep_dead.",
		Every: 5 * time.Minute, Clear: 5 * time.Minute,
		Limits: []probe.Limit{low(10, probe.Number), high(1000, probe.Number)}},
	Find: func(n int, l probe.Limits) []probe.Finding {
		s, bad := l.Above(float64(n))
		return one(s, bad, "mail.box", plural(n, "dead message")+" in mail.box")
	},
}

// Delivered is the number of deliveries since the last reading, and their mean time.
type Delivered struct {
	Count uint64
	Mean  time.Duration
}

// DeliverTime reports slow deliveries.
var DeliverTime = probe.Check[Delivered]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "DeliverTime",
		What: "mean time from taking a message to its commit in the mail files here, of 10 or more deliveries in 5 " +
			"minutes",
		Cause:  "The disk is slow, the processor is busy, or a filter answers slowly.",
		Remedy: "Look at the probes DiskLatency and CPU, and at the filters in the log.",
		Every:  5 * time.Minute, Hold: 5 * time.Minute, Clear: 10 * time.Minute,
		Limits: []probe.Limit{low(5, probe.Time), high(30, probe.Time)}},
	Find: func(d Delivered, l probe.Limits) []probe.Finding {
		s, bad := l.Older(d.Mean)
		return one(s, bad && d.Count >= 10, "", fmt.Sprintf("%d deliveries took %s each", d.Count, age(d.Mean)))
	},
}

// Trip is a test mail under way or arrived.
type Trip struct {
	To string
	// Took is the time until it arrived or, if it has not arrived, the time so far.
	Took    time.Duration
	Arrived bool
	// Refused is the reason for which it was not accepted.
	Refused string
}

// TestMail reports test mails that arrive late or not at all.
var TestMail = probe.Check[[]Trip]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "TestMail",
		What: "the way of a test mail to probes.test_mail, a mail file here, and back from probes.echo, an address " +
			"elsewhere that answers; off without them",
		Cause: "Mail does not flow: the router does not run, the disk is full, the address does not exist, or the " +
			"way outside is blocked.",
		Remedy: "Look at `trace` for the test mail, at mail.box and at the other events of Messaging and System.",
		Every:  time.Minute, Clear: time.Minute,
		Limits: []probe.Limit{high(60, probe.Time), failure((15 * time.Minute).Seconds(), probe.Time)}},
	Find: func(list []Trip, l probe.Limits) (out []probe.Finding) {
		for _, t := range list {
			if t.Refused != "" {
				out = append(out, one(probe.Failure, true, t.To, "the test mail to "+t.To+" was not accepted: "+
					t.Refused)...)
				continue
			}
			word := " has been under way for "
			if t.Arrived {
				word = " took "
			}
			s, bad := l.Older(t.Took)
			out = append(out, one(s, bad, t.To, "the test mail to "+t.To+word+age(t.Took))...)
		}
		return out
	},
}

// Journaling holds what the mail journal failed to do since the last reading.
type Journaling struct {
	// Failures counts failed attempts to journal a message, Missed the messages that were delivered without an entry.
	Failures, Missed int
}

// JournalFailure reports messages that could not be journaled.
var JournalFailure = probe.Check[Journaling]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "JournalFailure",
		What:  "messages that could not be journaled: put off, or delivered without an entry (failure)",
		Cause: "The journal's database is out of service or damaged, or the disk is full.",
		Remedy: "Read the log. `db set DATABASE --service` puts the database back; if it is lost, `journal roll` " +
			"begins another one.",
		Every: time.Minute, Clear: time.Hour},
	Find: func(j Journaling, _ probe.Limits) []probe.Finding {
		if j.Missed > 0 {
			return one(probe.Failure, true, "", plural(j.Missed, "message")+" delivered without a journal entry")
		}
		return one(probe.WarningHigh, j.Failures > 0, "", plural(j.Failures, "attempt")+" to journal a message failed")
	},
}

// MailRules reports mail rules that cannot be read. The reading has them as "NAME: REASON".
var MailRules = probe.Check[[]string]{
	Kind: probe.Kind{Type: probe.Messaging, Name: "MailRules",
		What:  "mail rules that this server cannot read, and so does not apply",
		Cause: "A server of a later release wrote the rule, or its document was changed by other means than `rules`.",
		Remedy: "`rules list` shows the error. Update this server, write the rule anew with `rules edit`, or remove " +
			"it.",
		Every: time.Minute, Clear: time.Minute},
	Find: func(list []string, _ probe.Limits) (out []probe.Finding) {
		for _, rule := range list {
			name, _, _ := strings.Cut(rule, ": ")
			out = append(out, one(probe.WarningHigh, true, name, "the mail rule "+rule)...)
		}
		return out
	},
}
