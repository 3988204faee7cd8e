// Package ledger records what servers have acknowledged to simulated people: messages sent, added, moved and deleted,
// and flags set. After servers were killed it compares this with their mail files, and reports what is lost, what is
// there twice, and what has come back.
//
// A message is identified by its Message-ID, which is unique in the benchmark, and by the person whose mail file holds
// it. An action that was tried but not acknowledged may have happened or not; it must not have happened twice.
package ledger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"doublet/bench/record"
)

// The folders that simulated people use. Calendar holds events: over IMAP as messages, at servers with calendars as the
// calendar that nobody sees as a folder.
const (
	Inbox    = "INBOX"
	Archive  = "Archive"
	Calendar = "Calendar"
)

// Kind is the kind of what was sent.
type Kind uint8

// The kinds. An invitation or an answer is a mail with text/calendar (iMIP), or an event in a calendar.
const (
	Mail Kind = iota
	Invitation
	Answer
)

// AnswerID returns the id of an answer in the calendar of the organizer: that somebody accepted the event with a UID.
func AnswerID(uid, person string) string { return uid + " accepted by " + strings.ToLower(person) }

// state is the known state of one message in one mail file.
type state struct {
	// there, deleted, moved, flagged: the action was acknowledged.
	there, deleted, moved, flagged bool
	// maybeDeleted, maybeMoved: the action was tried, with or without success.
	maybeDeleted, maybeMoved bool
	kind                     Kind
}

type key struct{ person, id string }

// Ledger holds what was acknowledged. Its methods may be called from any goroutine; on nil they do nothing.
type Ledger struct {
	mu       sync.Mutex
	messages map[key]*state
}

// New returns an empty ledger.
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

// Sent records a message to people, by their addresses. accepted reports for which of them the server took it; nil
// means none.
func (l *Ledger) Sent(kind Kind, id string, to []string, accepted func(i int) bool) {
	for i, person := range to {
		l.change(person, id, func(s *state) {
			s.kind = kind
			s.there = s.there || accepted != nil && accepted(i)
		})
	}
}

// Added records that a person put a message into his own mail file, or failed to.
func (l *Ledger) Added(person, id string, err error) {
	l.change(person, id, func(s *state) { s.there = s.there || err == nil })
}

// Deleted records that a person deleted a message for good, or tried to.
func (l *Ledger) Deleted(person, id string, err error) {
	l.change(person, id, func(s *state) { s.deleted, s.maybeDeleted = s.deleted || err == nil, true })
}

// Moved records that a person filed a message into Archive, or tried to.
func (l *Ledger) Moved(person, id string, err error) {
	l.change(person, id, func(s *state) { s.moved, s.maybeMoved = s.moved || err == nil, true })
}

// Flagged records that a person flagged a message, or tried to.
func (l *Ledger) Flagged(person, id string, err error) {
	l.change(person, id, func(s *state) { s.flagged = s.flagged || err == nil })
}

// Message is a message found in a mail file.
type Message struct {
	Folder, ID string
	Flagged    bool
}

// Begin forgets everything: mailboxes have been put back to their initial state.
func (l *Ledger) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.messages)
}

// Inventory records the messages that exist before a step.
func (l *Ledger) Inventory(person string, found []Message) {
	for _, m := range found {
		l.change(person, m.ID, func(s *state) {
			s.there, s.flagged, s.moved = true, m.Flagged, m.Folder == Archive
			s.maybeMoved = s.moved
		})
	}
}

// maxNamed is the number of discrepancies that a verdict describes.
const maxNamed = 20

// found counts a discrepancy, and describes it if it is among the first.
func found(v *record.Verdict, n *int, format string, args ...any) {
	*n++
	if len(v.Named) < maxNamed {
		v.Named = append(v.Named, fmt.Sprintf(format, args...))
	}
}

// count counts in a verdict what is acknowledged of a message.
func (s *state) count(v *record.Verdict) {
	for _, known := range []bool{s.there, s.deleted, s.moved, s.flagged} {
		if known {
			v.Acknowledged++
		}
	}
	switch {
	case s.there && s.kind == Invitation:
		v.Invitations++
	case s.there && s.kind == Answer:
		v.Answers++
	}
}

// Check compares the ledger with the mail of each person in files, as a server has it.
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
		if _, read := files[k.person]; !read {
			continue // the recipient is not active, so nobody has read their mail
		}
		s, c := l.messages[k], have[k]
		all := c.inbox + c.archive
		s.count(&v)
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
