package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// Release ends a hold. A message that a filter held is then processed as usual, with forwarding and vacation notices.
// If the message waits for a list's moderators, Release returns ErrModerated.
func (s *Moderation) Release(ctx context.Context, id note.UNID) error {
	for {
		e, err := s.queue.Decide(ctx, id)
		switch {
		case err != nil:
			return err
		case moderated(e):
			return ErrModerated
		case !e.Held || e.Reason == "":
			return s.queue.Change(ctx, id, func(e *queue.Entry) { e.Held = false })
		}
		if err := s.letGo(ctx, e); !errors.Is(err, queue.ErrChanged) {
			return err
		}
	}
}

// letGo delivers a message that a filter held. The same update ends the hold.
func (s *Moderation) letGo(ctx context.Context, e *queue.Entry) error {
	raw, err := s.queue.Message(ctx, s.queue.Boxes.KeyOf(e), 0)
	if err != nil {
		return queue.NotQueued(err)
	}
	c, err := s.mailbox.Compose(ctx, raw)
	if err != nil {
		return fmt.Errorf("mail: release: %w", err)
	}
	defer c.Release()
	b := &batch{
		answer: AnswerNone, again: true, date: e.Created, composed: c, size: uint64(len(raw)), hops: hopsOf(raw),
		in:      e.Box(),
		away:    s.deposit.files.awayNow(ctx),
		results: make([]error, len(e.Recipients)),
		entry: queue.Entry{ID: e.ID, From: e.From, Created: e.Created, ReturnPath: e.ReturnPath, Junk: e.Junk,
			Folder: e.Folder, Unsigned: e.Unsigned, Checker: e.Checker, TLS: e.TLS},
	}
	defer b.release()
	// The reason stays with copies to mailing lists: their moderators must still approve them.
	sub := &Submission{ID: e.ID, From: e.From, Message: raw[min(e.ReturnPath, len(raw)):], Junk: e.Junk, Hold: e.Reason,
		Date: e.Created}
	// A message with a forged sender is recognized by NOTIFY=NEVER for all its recipients.
	sub.Unproven, sub.unsigned = unproven(e), e.Unsigned
	b.letter = s.deposit.letterOf(ctx, sub, raw, min(e.ReturnPath, len(raw)))
	for i := range e.Recipients {
		if err := s.takeUp(ctx, b, i, &e.Recipients[i]); err != nil {
			return fmt.Errorf("mail: release: %w", err)
		}
	}
	if err := s.deposit.personal.apply(ctx, sub, b); err != nil {
		return fmt.Errorf("mail: release: %w", err)
	}
	s.deposit.toHomes(b)
	if err := s.deposit.outgoing(ctx, sub, b, raw); err != nil {
		return fmt.Errorf("mail: release: %w", err)
	}
	b.also = func(w *store.Writer) (queue.Tally, error) {
		return s.queue.Revise(w, e, func(cur *queue.Entry) {
			cur.Held, cur.Reason, cur.Recipients = false, "", b.rows
			b.rows = nil // the rows stay in this entry
		})
	}
	return s.deposit.place(ctx, b)
}

// takeUp adds a recipient of an entry to a batch. If the recipient's mail file is writable here, it becomes a delivery;
// otherwise the recipient is unchanged.
func (s *Moderation) takeUp(ctx context.Context, b *batch, i int, q *queue.Recipient) error {
	if q.State != queue.Pending {
		b.later = append(b.later, *q)
		return nil
	}
	a, err := s.deposit.files.find(ctx, q, b.entry.Junk)
	if err != nil {
		return err
	}
	to, err := smtp.ParsePath(q.Address)
	if a.reply != nil || err != nil { // the router reports the problem
		b.later = append(b.later, *q)
		return nil //nolint:nilerr // it says so of an address, too
	}
	d := a.delivery
	d.name, d.index, d.junk, d.folder = q.Name, i, b.entry.Junk, b.entry.Folder
	d.from = &Recipient{To: to, Params: smtp.RcptParams{ORcpt: q.ORcpt, Notify: q.Notify},
		Target: directory.Target{Kind: q.Kind, ID: q.Target, Name: q.Name}}
	d.always = AlwaysArrives(d.from.To)
	if q.Kind == directory.TargetPerson {
		p, err := s.dir.Names.Person(ctx, q.Target)
		if err != nil {
			return err
		}
		d.own, d.warning = true, p.Warning
		// For a member of a group, the address is the group's.
		if d.member = !slices.ContainsFunc(p.Addresses(),
			func(a string) bool { return strings.EqualFold(a, q.Address) }); d.member {
			d.from.Target.Kind = directory.TargetGroup
		}
	}
	if _, known := b.known(d.id, i); !known {
		b.now = append(b.now, d)
	}
	return nil
}
