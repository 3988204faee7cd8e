package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/smtp"
)

// Mates are the other members of the cluster. They deliver to mail files that have no replica here. Until one has
// delivered, the message waits in mail.box.
type Mates interface {
	// Elsewhere reports whether a missing mail file exists on mates, so that it must not be created here.
	Elsewhere(db note.DatabaseID) bool
	// Deliver returns when a message is durable in a replica of the mail file. An error that wraps mailbox.ErrOverQuota
	// comes from the mail file. After any other error the call may be repeated, even if the message was delivered.
	Deliver(ctx context.Context, h *Handed, raw []byte) error
	// Recall asks the live mates to recall a scheduled message. It returns the decision of its home. If the home is not
	// reachable, but a mate knows the message, it returns RecalledElsewhere. If no mate knows it, it returns
	// RecalledNone.
	Recall(ctx context.Context, id note.UNID) Recalled
	// Delivered asks the mates that have a mail file whether they delivered a message to a person, as
	// Service.DeliveredTo does.
	Delivered(ctx context.Context, db note.DatabaseID, person note.UNID, message []byte) (bool, error)
}

// Handed is a delivery for a mate. It is made only once per ID and recipient.
type Handed struct {
	ID       note.UNID // queue ID
	Date     time.Time
	Person   note.UNID // recipient
	Kind     directory.TargetKind
	Database note.DatabaseID
	// From and To are the envelope's addresses, "" for the null sender. A member of an older release sends none.
	From, To string
	// Always ignores the quota. Junk delivers to the junk folder. Unproven is set if the sender may be forged: a script
	// must not answer it.
	Always, Junk, Unproven bool
	// Proven is set if the author is verified. A member of an older release never sets it.
	Proven bool
	// Folder is queue.Entry.Folder. A member of an older release ignores it and delivers to the INBOX.
	Folder string `json:",omitempty"`
	// Outside is set for mail from outside. A member of an older release ignores it.
	Outside bool `json:",omitempty"`
}

// Take delivers a message that a mate hands over. It returns when the message is durable here.
func (s *Depositor) Take(ctx context.Context, h *Handed, raw []byte) error {
	if _, err := s.store.Info(h.Database); errors.Is(err, store.ErrNotFound) && h.Kind == directory.TargetPerson &&
		!s.files.elsewhere(h.Database) {
		// After a bulk import, or if the creation was interrupted. The server that leads the directory creates the mail
		// file.
		if err := s.dir.People.EnsureMailFile(ctx, h.Person); err != nil {
			return err
		}
	}
	a, err := s.files.find(ctx, &queue.Recipient{Target: h.Person, Kind: h.Kind}, h.Junk)
	switch {
	case err != nil:
		return err
	case a.reply != nil:
		return a.reply
	case a.elsewhere || a.away || a.database != h.Database:
		return fmt.Errorf("mail: %w: mail file %s", store.ErrNotFound, h.Database)
	}
	c, err := s.mailbox.Compose(ctx, raw, h.Database)
	if err != nil {
		return err
	}
	defer c.Release()
	a.junk, a.always, a.sent, a.folder = h.Junk, h.Always, h.To, h.Folder
	if err = s.takeRuled(ctx, h, raw, c, &a.delivery); err == nil {
		s.stat.deliveredTo(1, int64(len(raw)), hopsOf(raw))
	}
	return err
}

// takeRuled delivers a message from a mate as the recipient's script wants. The messages that the script causes, and
// the report of a rejection, go to a mail.box of this server.
func (s *Depositor) takeRuled(ctx context.Context, h *Handed, raw []byte, c *mailbox.Composed, d *delivery) error {
	from, err := smtp.ParsePath(h.From)
	if err != nil {
		from = smtp.Path{}
	}
	l, err := s.letterFrom(ctx, h, raw, from)
	if err != nil {
		return err
	}
	b := &batch{date: h.Date, again: true,
		entry: queue.Entry{ID: h.ID, From: from, Created: h.Date, ReturnPath: l.returnPath}}
	defer b.release()
	s.learned.judge(ctx, b, c, d, l)
	box := s.queue.Boxes.Place(h.ID)
	names := []note.DatabaseID{d.database}
	for {
		var moved queue.Tally
		err := s.commit(ctx, b, names, func(tx *store.Tx) error {
			noneDue(b.out)
			err := s.deliverRuled(tx, c, h.Date, h.ID, d, l)
			refused := errors.Is(err, errRuledOut)
			if err != nil && !refused {
				return err
			}
			due := b.out
			if refused {
				due = []*outgoing{{composed: c, entry: s.refusedEntry(b, d, l), due: true}}
			}
			if !slices.ContainsFunc(due, func(o *outgoing) bool { return o.due }) {
				return nil
			}
			if len(names) == 1 {
				return errNeedBox
			}
			w, err := tx.Database(box)
			if err == nil {
				moved, err = enterDue(s.queue, w, due, h.Date)
			}
			return err
		})
		switch {
		case errors.Is(err, errNeedBox):
			names = append(names, box)
		case errors.Is(err, errNeedRuling):
			if err := s.filter.compose(ctx, b, d, l); err != nil {
				return err
			}
		default:
			if err == nil && len(names) > 1 {
				s.queue.Moved(box, moved)
			}
			return err
		}
	}
}

// refusedEntry returns an entry that reports to the sender that a script rejects the message.
func (s *Depositor) refusedEntry(b *batch, d *delivery, l *letter) queue.Entry {
	notify := smtp.Notify(0)
	if l.unproven {
		notify = smtp.NotifyNever
	}
	e := b.entry
	e.ID = note.DeriveUNID(e.ID[:], []byte("rejected"), d.id[:])
	e.Recipients = []queue.Recipient{{Address: d.address(), Name: d.name, Target: d.id, Kind: d.kind,
		Notify: notify, State: queue.Failed, Reply: d.ruling.reply().Error()}}
	return e
}
