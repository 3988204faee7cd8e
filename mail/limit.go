package mail

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/keep"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/mime"
)

// RoleBulk is the role of people without sending limits.
const RoleBulk = "Bulk Sender"

// limits counts the messages that people send to other domains per day (UTC). With a Keep, the counts persist across
// restarts, except for the last second before a power failure.
type limits struct {
	env *env.Env
	// messages and recipients are the limits per day; 0 means no limit.
	messages, recipients int
	keep                 *keep.Table
	exceeded             *stat.Counter

	mu     sync.Mutex
	day    int64
	counts map[note.UNID]sendCount
}

type sendCount struct{ messages, recipients int }

// admit counts a message of a person with a number of remote recipients. It returns false, and counts nothing, if that
// exceeds a limit.
func (s *limits) admit(who *note.Who, recipients int) bool {
	if recipients == 0 || who == nil || who.System || s.messages <= 0 && s.recipients <= 0 ||
		slices.Contains(who.Roles, RoleBulk) {
		return true
	}
	day := s.today()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.day != day || s.counts == nil {
		s.day, s.counts = day, make(map[note.UNID]sendCount)
	}
	c := s.counts[who.Person]
	c.messages++
	c.recipients += recipients
	if s.messages > 0 && c.messages > s.messages || s.recipients > 0 && c.recipients > s.recipients {
		s.exceeded.Inc()
		return false
	}
	s.counts[who.Person] = c
	if s.keep != nil {
		s.keep.Put(who.Person.String(), fmt.Sprintf("%d %d %d", day, c.messages, c.recipients))
	}
	return true
}

// recall reads the counts of today from before the restart.
func (s *limits) recall(ctx context.Context) error {
	if s.keep == nil {
		return nil
	}
	s.day, s.counts = s.today(), make(map[note.UNID]sendCount)
	return s.keep.Each(ctx, func(key, value string) {
		var day int64
		var c sendCount
		id, err := note.ParseUNID(key)
		_, bad := fmt.Sscanf(value, "%d %d %d", &day, &c.messages, &c.recipients)
		if err != nil || bad != nil || day != s.day {
			s.keep.Drop(key)
			return
		}
		s.counts[id] = c
	})
}

// today returns the number of the current day.
func (s *limits) today() int64 { return s.env.Clock.Now().Unix() / int64(24*time.Hour/time.Second) }

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
	b.entry.UTF8 = sub.Params.UTF8
	b.entry.TLS = demand(b.entry.TLS, sub.Message)
	b.entry.Urgency, b.entry.MessageID = headerWords(sub.Message)
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

// headerWords returns the urgency and the Message-ID in a message's header.
//
// Implements: RFC 2156 §5.3.6 Importance and Priority as the order in the queue
func headerWords(message []byte) (u queue.Urgency, id string) {
	set := func(value string, high, low []string) {
		switch w := fields.FirstWord(value); {
		case slices.Contains(high, w) && u == queue.Normal:
			u = queue.High
		case slices.Contains(low, w) && u == queue.Normal:
			u = queue.Low
		}
	}
	for f := range mime.Fields(message[:mime.HeaderEnd(message)]) {
		switch {
		case f.Is("Importance"):
			set(f.Text(), []string{"high"}, []string{"low"})
		case f.Is("Priority"):
			set(f.Text(), []string{"urgent"}, []string{"non-urgent"})
		case f.Is("X-Priority"):
			set(f.Text(), []string{"1", "2"}, []string{"4", "5"})
		case f.Is("Precedence"):
			set(f.Text(), nil, []string{"bulk", "junk", "list"})
		case f.Is("Message-ID"):
			if id == "" {
				id = fields.OneLine(f.Text())
			}
		}
	}
	return u, id[:min(len(id), 500)]
}
