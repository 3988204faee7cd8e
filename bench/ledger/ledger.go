// Package ledger writes down what servers have acknowledged to simulated people: messages sent, added, moved and
// deleted, and flags set. When servers were killed in the middle it says what of it is gone, what is there twice, and
// what has come back.
//
// A message is known by its Message-ID, of which every message of the benchmark has its own, and by the person in
// whose mail file it is. What was tried and not acknowledged may be done or not; it must not be there twice.
package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"doublet/bench/record"
)

// The folders that simulated people use.
const (
	Inbox   = "INBOX"
	Archive = "Archive"
)

// state is what is known of one message in one mail file.
type state struct {
	// there: it was acknowledged. deleted, moved, flagged: that was.
	there, deleted, moved, flagged bool
	// maybeDeleted, maybeMoved: that was tried, and nobody knows what came of it.
	maybeDeleted, maybeMoved bool
}

type key struct{ person, id string }

// Ledger is what was acknowledged. Its methods may be called from any goroutine; on nil they do nothing.
type Ledger struct {
	mu       sync.Mutex
	messages map[key]*state
}

// New begins a ledger.
func New() *Ledger { return &Ledger{messages: make(map[key]*state)} }

func (l *Ledger) change(person, id string, fn func(*state)) {
	if l == nil || id == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := key{person, id}
	s := l.messages[k]
	if s == nil {
		s = &state{}
		l.messages[k] = s
	}
	fn(s)
}

// Sent notes a message to people, by their addresses; accepted says for whom the server took it, nil for nobody.
func (l *Ledger) Sent(id string, to []string, accepted func(i int) bool) {
	for i, person := range to {
		l.change(person, id, func(s *state) { s.there = s.there || accepted != nil && accepted(i) })
	}
}

// Added notes a message that somebody put into his own mail file.
func (l *Ledger) Added(person, id string, err error) {
	l.change(person, id, func(s *state) { s.there = s.there || err == nil })
}

// Deleted notes that somebody deleted a message for good.
func (l *Ledger) Deleted(person, id string, err error) {
	l.change(person, id, func(s *state) { s.deleted, s.maybeDeleted = s.deleted || err == nil, true })
}

// Moved notes that somebody filed a message into Archive.
func (l *Ledger) Moved(person, id string, err error) {
	l.change(person, id, func(s *state) { s.moved, s.maybeMoved = s.moved || err == nil, true })
}

// Flagged notes that somebody gave a message a flag.
func (l *Ledger) Flagged(person, id string, err error) {
	l.change(person, id, func(s *state) { s.flagged = s.flagged || err == nil })
}

// Message is one that was found in a mail file.
type Message struct {
	Folder, ID string
	Flagged    bool
}

// Inventory takes up what is there before people begin.
func (l *Ledger) Inventory(person string, found []Message) {
	for _, m := range found {
		l.change(person, m.ID, func(s *state) {
			s.there, s.flagged, s.moved = true, m.Flagged, m.Folder == Archive
			s.maybeMoved = s.moved
		})
	}
}

// maxNamed bounds what is named.
const maxNamed = 20

// found counts something that is not as it was acknowledged, and names the first.
func found(v *record.Verdict, n *int, format string, args ...any) {
	*n++
	if len(v.Named) < maxNamed {
		v.Named = append(v.Named, fmt.Sprintf(format, args...))
	}
}

// Check compares all with what each person's mail file holds at a server.
func (l *Ledger) Check(server string, files map[string][]Message) record.Verdict {
	v := record.Verdict{Server: server}
	type count struct {
		inbox, archive int
		flagged        bool
	}
	have := make(map[key]count)
	for person, list := range files {
		for _, m := range list {
			c := have[key{person, m.ID}]
			if m.Folder == Archive {
				c.archive++
			} else {
				c.inbox++
			}
			c.flagged = c.flagged || m.Flagged
			have[key{person, m.ID}] = c
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	order := slices.SortedFunc(maps.Keys(l.messages), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.person, b.person), cmp.Compare(a.id, b.id))
	})
	for _, k := range order {
		s, c := l.messages[k], have[k]
		all := c.inbox + c.archive
		for _, known := range []bool{s.there, s.deleted, s.moved, s.flagged} {
			if known {
				v.Acknowledged++
			}
		}
		switch {
		case s.deleted && all > 0:
			found(&v, &v.Resurrected, "resurrected: message %s of %s was deleted", k.id, k.person)
		case s.deleted:
		case all > 1:
			found(&v, &v.Doubled, "doubled: message %s of %s is there %d times", k.id, k.person, all)
		case all == 0 && s.there && !s.maybeDeleted:
			found(&v, &v.Lost, "lost: message %s of %s", k.id, k.person)
		case all == 0:
		case s.moved && c.inbox > 0:
			found(&v, &v.Lost, "lost: that message %s of %s was filed", k.id, k.person)
		case c.archive > 0 && !s.maybeMoved:
			found(&v, &v.Doubled, "message %s of %s is in %s, where nobody has put it", k.id, k.person, Archive)
		case s.flagged && !c.flagged:
			found(&v, &v.Lost, "lost: the flag of message %s of %s", k.id, k.person)
		}
	}
	return v
}
