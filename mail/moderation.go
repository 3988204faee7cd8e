package mail

import (
	"context"
	"errors"
	"fmt"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// ErrModerated means that a message in mail.box waits for a list's moderators, so that only they can release it.
var ErrModerated = errors.New("mail: the message waits for the moderators of a list: approve or reject it")

// moderated reports whether an entry is a message held for a list.
func moderated(e *queue.Entry) bool {
	return e.Held && len(e.Recipients) == 1 && e.Recipients[0].Kind == directory.TargetGroup
}

// holdPost holds a message for a list's moderators in mail.box, and notifies them.
func (s *Lists) holdPost(ctx context.Context, b *batch, p *posting, from smtp.Path, rest []byte) error {
	g := &p.group
	raw := append(from.Append([]byte("Return-Path: <")), ">\r\n"...)
	n := len(raw)
	rows := []queue.Recipient{{Address: g.InternetAddress, Name: g.Name, Target: g.ID, Kind: directory.TargetGroup,
		State: queue.Pending, Notify: smtp.NotifyNever}}
	o, err := s.follow.send(ctx, b, "held "+g.ID.String(), append(raw, rest...), n, from, rows)
	if err != nil {
		return err
	}
	o.entry.Held, o.entry.Reason = true, p.hold
	o.record.Release() // the message is in the journal already
	o.record = nil
	o.entry.Unsigned, o.entry.Checker = b.entry.Unsigned, b.entry.Checker
	who := g.List.Moderators
	x, err := s.dir.Names.ExpandMembers(ctx, who)
	if err == nil && len(x.Recipients)+len(x.Outside) == 0 {
		x, err = s.owners(ctx, g)
	}
	if err != nil {
		return fmt.Errorf("moderators of %s: %w", g.Name, err)
	}
	h := fields.ReadFacts(rest)
	for _, row := range rowsOf(&x, part(g, "owner").String(), smtp.NotifyNever) {
		id := row.Target.String()
		if row.Target.IsZero() {
			id = row.Address
		}
		note1 := notice{
			from: part(g, "owner").String(), fromName: g.Name, to: row.Address, auto: "auto-generated",
			subject: "A message for " + g.Name + " waits for you",
			id:      note.DeriveUNID(o.entry.ID[:], []byte("moderate "+id)),
			text: fmt.Sprintf("A message for the list %s is held: %s.\n\n  From: %s\n  Subject: %s\n\n"+
				"To let it through:  doublet list approve %s\nTo refuse it:       doublet list reject %s\n",
				g.InternetAddress, p.hold, fields.OneLine(h.AuthorPath().String()),
				fields.OneLine(mime.DecodeWords(h.Subject)), o.entry.ID, o.entry.ID),
		}
		if _, err := s.follow.send(ctx, b, "moderate "+g.ID.String()+" "+id, s.follow.compose(&note1),
			len(nullReturnPath), nullPath, []queue.Recipient{row}); err != nil {
			return err
		}
	}
	return nil
}

// Post is a message that waits for a list's moderators.
type Post struct {
	queue.Entry
	List         string // name
	From, Author string
	Subject      string
}

// Pending returns the messages that wait for moderators: of one list, or of all lists if list is zero.
func (s *Moderation) Pending(ctx context.Context, list note.UNID) ([]Post, error) {
	var out []Post
	err := s.queue.Each(ctx, func(e *queue.Entry) bool {
		if moderated(e) && (list.IsZero() || e.Recipients[0].Target == list) {
			out = append(out, Post{Entry: *e, List: e.Recipients[0].Name, From: e.From.String()})
		}
		return len(out) < 10_000
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		raw, err := s.queue.Message(ctx, s.queue.Boxes.KeyOf(&out[i].Entry), 64<<10)
		if err != nil {
			continue // show the message without author and subject
		}
		h := fields.ReadFacts(raw)
		out[i].Author, out[i].Subject = h.AuthorPath().String(), mime.DecodeWords(h.Subject)
	}
	return out, nil
}

// Approve sends a held message to its list. Errors: queue.ErrNotQueued.
func (s *Moderation) Approve(ctx context.Context, id note.UNID) error {
	e, raw, err := s.heldPost(ctx, id)
	if err != nil {
		return err
	}
	g, err := s.dir.Groups.Get(ctx, e.Recipients[0].Target)
	if err != nil {
		return fmt.Errorf("list of %s: %w", id, err)
	}
	c, err := s.mailbox.Compose(ctx, raw)
	if err != nil {
		return fmt.Errorf("mail: approve: %w", err)
	}
	defer c.Release()
	b := &batch{answer: AnswerNone, again: true, date: e.Created, composed: c, size: uint64(len(raw)),
		entry: queue.Entry{ID: id, From: e.From, Created: e.Created, Unsigned: e.Unsigned, Checker: e.Checker,
			TLS: e.TLS}}
	defer b.release()
	if err := s.deposit.lists.distribute(ctx, b, &posting{group: g, strange: true}, "",
		raw[min(e.ReturnPath, len(raw)):]); err != nil {
		return fmt.Errorf("mail: approve: %w", err)
	}
	b.in = e.Box()
	b.also = func(w *store.Writer) (queue.Tally, error) { return s.queue.Revise(w, e, drop) }
	return s.deposit.place(ctx, b)
}

// Reject drops a held message, and notifies its sender if a reason is given.
func (s *Moderation) Reject(ctx context.Context, id note.UNID, reason string) error {
	e, raw, err := s.heldPost(ctx, id)
	if err != nil {
		return err
	}
	if reason == "" || e.From.IsNull() || fields.Machine(e.From) {
		return s.queue.ReviseAlone(ctx, e, drop)
	}
	g, err := s.dir.Groups.Get(ctx, e.Recipients[0].Target)
	if err != nil {
		return fmt.Errorf("list of %s: %w", id, err)
	}
	rows, err := s.deposit.follow.address(ctx, e.From.String(), smtp.NotifyNever)
	if err != nil {
		return fmt.Errorf("mail: reject: %w", err)
	}
	h := fields.ReadFacts(raw)
	n := notice{
		from: part(&g, "owner").String(), fromName: g.Name, to: e.From.String(), auto: "auto-replied",
		subject: "Your message to " + g.Name + " was not let through", id: note.DeriveUNID(id[:], []byte("rejected")),
		text: fmt.Sprintf("The moderators of the list %s did not let your message through.\n\n  Subject: %s\n\n%s\n",
			g.InternetAddress, fields.OneLine(mime.DecodeWords(h.Subject)), reason),
	}
	c, err := s.mailbox.Compose(ctx, raw)
	if err != nil {
		return fmt.Errorf("mail: reject: %w", err)
	}
	defer c.Release()
	b := &batch{answer: AnswerNone, date: s.env.Clock.Now(), composed: c, size: uint64(len(raw)),
		entry: queue.Entry{ID: id, Created: s.env.Clock.Now()}}
	defer b.release()
	if len(rows) > 0 {
		if _, err := s.deposit.follow.send(ctx, b, "rejected", s.deposit.follow.compose(&n), len(nullReturnPath),
			nullPath, rows); err != nil {
			return fmt.Errorf("mail: reject: %w", err)
		}
	}
	b.in = e.Box()
	b.also = func(w *store.Writer) (queue.Tally, error) { return s.queue.Revise(w, e, drop) }
	return s.deposit.place(ctx, b)
}

// heldPost returns a message that waits for moderators.
func (s *Moderation) heldPost(ctx context.Context, id note.UNID) (*queue.Entry, []byte, error) {
	e, err := s.queue.Decide(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	if !moderated(e) {
		return nil, nil, fmt.Errorf("%w: %s is not held for a list", queue.ErrNotQueued, id)
	}
	raw, err := s.queue.Message(ctx, s.queue.Boxes.KeyOf(e), 0)
	return e, raw, err
}

// drop removes all recipients from an entry, which removes the entry.
func drop(e *queue.Entry) { e.Recipients = nil }

// Moderation decides on messages that are held in mail.box for a list's moderators or by a filter.
type Moderation struct {
	env     *env.Env
	dir     *directory.Directory
	mailbox *mailbox.Service
	queue   *queue.Queue
	deposit *Depositor
}
