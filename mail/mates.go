package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
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
	// Always ignores the quota. Junk delivers to the junk folder.
	Always, Junk bool
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
	c, err := s.mailbox.Compose(ctx, raw)
	if err != nil {
		return err
	}
	defer c.Release()
	a.junk, a.always = h.Junk, h.Always
	err = s.store.Update(ctx, note.System, []note.DatabaseID{a.database}, func(tx *store.Tx) error {
		return s.files.deliver(tx, c, h.Date, h.ID, &a.delivery)
	})
	if err == nil {
		s.stat.deliveredTo(1, int64(len(raw)))
	}
	return err
}
