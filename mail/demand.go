package mail

import (
	"slices"
	"strings"

	"doublet/mail/fields"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/wire/mime"
)

// outwards completes the entry of a batch that goes to mail.box, from the message's header. It reports whether the
// submitter's limits allow the message.
func (s *Depositor) outwards(sub *Submission, b *batch) bool {
	if len(b.later) == 0 {
		return true
	}
	n := 0
	for i := range b.later {
		if q := &b.later[i]; q.State == queue.Waiting && q.Target.IsZero() {
			n++
		}
	}
	if sub.Submitter != nil && !s.limits.admit(&sub.Submitter.Who, n) {
		return false
	}
	d := readDemands(sub.Message, b.entry.TLS)
	b.entry.UTF8, b.entry.TLS, b.entry.Urgency, b.entry.MessageID = sub.Params.UTF8, d.tls, d.urgency, d.messageID
	if p := &sub.Params; p.HasPriority {
		b.entry.Priority, b.entry.HasPriority, b.entry.Urgency = p.Priority, true, urgencyOf(p.Priority)
	}
	return true
}

// urgencyOf returns the position in the queue for a priority from -9 to 9. The priority of the envelope has precedence
// over the header.
//
// Implements: RFC 6710 §4.3 MT-PRIORITY as the order in the queue
func urgencyOf(priority int8) queue.Urgency {
	switch {
	case priority > 0:
		return queue.High
	case priority < 0:
		return queue.Low
	}
	return queue.Normal
}

// demands holds the requests of a header to the servers on the message's way, and its Message-ID.
type demands struct {
	urgency   queue.Urgency
	messageID string
	tls       outbound.Demand
}

// urgencies lists the fields that set the urgency, and the words that make it high and low.
var urgencies = []struct {
	field     string
	high, low []string
}{
	{"Importance", []string{"high"}, []string{"low"}},
	{"Priority", []string{"urgent"}, []string{"non-urgent"}},
	{"X-Priority", []string{"1", "2"}, []string{"4", "5"}},
	{"Precedence", nil, []string{"bulk", "junk", "list"}},
}

// readDemands reads the demands of a message's header. If the envelope requires TLS, the header cannot waive it.
//
// Implements: RFC 2156 §5.3.6 Importance and Priority as the order in the queue
// Implements: RFC 8689 §3 The TLS-Required header field, §4.1 The envelope goes before it
func readDemands(message []byte, envelope outbound.Demand) demands {
	d := demands{tls: outbound.Usual}
	if envelope == outbound.Required {
		d.tls = envelope
	}
	seen := false
	for f := range mime.Fields(message[:mime.HeaderEnd(message)]) {
		switch {
		case f.Is("Message-ID") && d.messageID == "":
			id := fields.OneLine(f.Text())
			d.messageID = id[:min(len(id), 500)]
		case f.Is("TLS-Required") && !seen:
			if seen = true; d.tls == outbound.Usual && strings.EqualFold(strings.TrimSpace(f.Text()), "No") {
				d.tls = outbound.Relaxed
			}
		}
		for _, u := range urgencies {
			if d.urgency != queue.Normal || !f.Is(u.field) {
				continue
			}
			if w := fields.FirstWord(f.Text()); slices.Contains(u.high, w) {
				d.urgency = queue.High
			} else if slices.Contains(u.low, w) {
				d.urgency = queue.Low
			}
		}
	}
	return d
}
