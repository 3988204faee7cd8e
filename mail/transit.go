package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/mail/verify"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Mail goes from place to place of a domain by SMTP, between servers that know each other by the keys in their documents.
// What the protocol has no words for goes with it in a parameter of our own: what was found out about the message where it
// came in, and who of the directory a recipient is, so that no name is looked up twice and no group expanded twice. A server
// that has not got the mail file refuses for now and hands nothing on: until the directories agree the message waits at one
// place, and cannot go round.

// Transit is what a server of the domain says of a message that it hands on.
type Transit struct {
	// ID is the message, however often and to whomever of it it is handed on.
	ID note.UNID
	// Junk, Unsigned and Unproven are those of Entry and Submission.
	Junk, Unsigned, Unproven bool
	// Checked says that the message's first Authentication-Results field is of a server of the domain.
	Checked bool
}

// String is the value of the parameter of MAIL.
func (t Transit) String() string {
	s := t.ID.String()
	for _, m := range t.marks() {
		if *m.on {
			s += "." + m.word
		}
	}
	return s
}

// Submission is the queue id of the message for the recipients who were taken of it: handed on again for the same ones, after a
// lost answer, it is the same delivery. For others it is another: who was refused the first time is none of what is kept by then.
func (t *Transit) Submission(to []Recipient) note.UNID {
	parts := [][]byte{t.ID[:]}
	for i := range to {
		parts = append(parts, to[i].Target.ID[:])
	}
	return note.DeriveUNID(parts...)
}

func (t *Transit) marks() []transitMark {
	return []transitMark{{"junk", &t.Junk}, {"unsigned", &t.Unsigned}, {"unproven", &t.Unproven}, {"ar", &t.Checked}}
}

// Checker gives the authserv-id of the results that the domain put before a message, for Submission. The name itself is
// not in the parameter, which servers of earlier versions take up to 64 bytes of.
func (t *Transit) Checker(message []byte) string {
	if !t.Checked {
		return ""
	}
	text, _ := mime.Get(message[:mime.HeaderEnd(message)], "Authentication-Results")
	id, _ := verify.AuthservID(text)
	return id
}

type transitMark struct {
	word string
	on   *bool
}

// ParseTransit reads what String prints. Words of a later version are passed over.
func ParseTransit(text string) (t Transit, ok bool) {
	words := strings.Split(text, ".")
	id, err := note.ParseUNID(words[0])
	if err != nil || id.IsZero() {
		return t, false
	}
	t.ID = id
	for _, w := range words[1:] {
		for _, m := range t.marks() {
			*m.on = *m.on || m.word == w
		}
	}
	return t, true
}

// The letters of kinds of recipient in the parameter of RCPT.
const (
	transitPerson = "p-"
	transitMailIn = "m-"
)

func transitTo(q *queue.Recipient) string {
	if q.Kind == directory.TargetMailIn {
		return transitMailIn + q.Target.String()
	}
	return transitPerson + q.Target.String()
}

// The answers to servers of the domain.
var (
	replyTransit   = smtp.NewReply(501, 5, 5, 4, "Bad parameter")
	replyUnknown   = smtp.NewReply(451, 4, 4, 6, "The directory here does not have the recipient yet")
	replyElsewhere = smtp.NewReply(451, 4, 4, 6, "The mail file is at another place of the domain, says the directory here")
)

// Incoming is the recipient whom a server of the domain names. A refusal is a *smtp.Reply.
func (s *Service) Incoming(ctx context.Context, to smtp.Path, p smtp.RcptParams) (Recipient, error) {
	r := Recipient{To: to, Params: p}
	kind := directory.TargetPerson
	text, ok := strings.CutPrefix(p.Transit, transitPerson)
	if !ok {
		kind = directory.TargetMailIn
		text, ok = strings.CutPrefix(p.Transit, transitMailIn)
	}
	id, err := note.ParseUNID(text)
	if !ok || err != nil {
		return r, replyTransit
	}
	r.Target, err = s.dir.Names.TargetOf(ctx, id)
	switch {
	case errors.Is(err, directory.ErrNotFound), err == nil && r.Target.Kind != kind:
		return r, replyUnknown // or removed: the other server will know before it tries again
	case err != nil:
		return r, fmt.Errorf("directory: %w", err)
	}
	away, err := s.dir.Servers.Away(ctx, r.Target.MailServer)
	if err == nil && away {
		err = replyElsewhere
	}
	return r, err
}

// away says that a recipient's mail file is at another place of the domain. One that is nobody's any more is dealt with here.
func (s *Service) away(ctx context.Context, q *queue.Recipient) bool {
	if q.Target.IsZero() {
		return false
	}
	t, err := s.dir.Names.TargetOf(ctx, q.Target)
	if err != nil {
		return false
	}
	away, err := s.dir.Servers.Away(ctx, t.MailServer)
	return err == nil && away
}

// awayNow says of mail servers that they are at another place.
func (s *Service) awayNow(ctx context.Context) func(note.UNID) bool {
	return func(mailServer note.UNID) bool {
		away, err := s.dir.Servers.Away(ctx, mailServer)
		return err == nil && away // else the store is in trouble, which shows in the next step
	}
}

// ours says that a recipient is to be delivered to here: also one that has come here from another place while the message
// waited to be sent there.
func (s *Service) ours(ctx context.Context, q *queue.Recipient) bool {
	return q.State == queue.Pending || q.State == queue.Waiting && !q.Target.IsZero() && !s.away(ctx, q)
}

// pause is how long a failed attempt, the one with this number (from 0), is not repeated. Within the domain it begins with
// seconds: a server is restarted, a directory catches up.
func (s *Service) pause(attempts int, inside bool) time.Duration {
	pause := s.backoff(attempts)
	if inside {
		pause = min(pause, matesPause<<min(attempts, 16))
	}
	return pause
}

// underway says that an entry is being sent.
func (s *Service) underway(k queue.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agenda.beingSent(k)
}

// hereName is the destination of a recipient who waits and is one of ours: nothing is sent there.
const hereName = "\x00"

// destinationFor is where the mail of a recipient that waits goes today. What demands another protection than usual
// goes to a destination of its own, so that no session is shared with other mail.
func (s *Service) destinationFor(ctx context.Context, tls outbound.Demand, q *queue.Recipient, to *smtp.Path) (string, outbound.Target, error) {
	name, t, err := s.usualFor(ctx, q, to)
	if name != heldName && name != hereName {
		name, t.TLS = name+tls.Suffix(), tls
	}
	return name, t, err
}

func (s *Service) usualFor(ctx context.Context, q *queue.Recipient, to *smtp.Path) (string, outbound.Target, error) {
	if q.Target.IsZero() {
		return s.destinationOf(ctx, to.Domain)
	}
	if !s.away(ctx, q) {
		return hereName, outbound.Target{}, nil
	}
	t, err := s.dir.Names.TargetOf(ctx, q.Target)
	if err != nil {
		return hereName, outbound.Target{}, nil //nolint:nilerr // gone since: who delivers here finds out
	}
	p, err := s.dir.Servers.PlaceOf(ctx, t.MailServer)
	if errors.Is(err, directory.ErrNotFound) {
		p, err = directory.Place{Name: t.MailServer.String()}, nil
	}
	target := outbound.Target{Place: p.Name}
	for _, x := range p.Servers {
		if at := x.Door("smtp"); at != "" {
			target.Peers = append(target.Peers, outbound.Peer{Name: x.Name, Address: at, Key: x.Key})
		}
	}
	return "domain server " + p.Name, target, err
}

// transitOf is what goes with a message to another place.
func transitOf(c *consignment) Transit {
	e := c.entry
	t := Transit{ID: note.DeriveUNID(e.ID[:], []byte("transit")), Junk: e.Junk, Unsigned: e.Unsigned, Unproven: true, Checked: e.Checker != ""}
	for _, i := range c.index {
		t.Unproven = t.Unproven && e.Recipients[i].Notify == smtp.NotifyNever
	}
	return t
}
