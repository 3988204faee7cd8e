package mail

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/env"
	"doublet/mail/keep"
	"doublet/note"
	"doublet/stat"
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
