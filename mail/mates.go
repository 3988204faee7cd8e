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

// Mates are the other servers of a cluster: they take deliveries into mail files of which there is no replica here. Until one
// has, the message waits in mail.box.
type Mates interface {
	// Elsewhere says that the mail file, which is not here, is not to be made here either.
	Elsewhere(db note.DatabaseID) bool
	// Deliver returns when a message is durable in a replica of the mail file. An error that wraps
	// mailbox.ErrOverQuota is the mail file's; after any other it may be tried again, also where it was delivered.
	Deliver(ctx context.Context, h *Handed, raw []byte) error
	// Recall asks those that live to take a message back that waits for its time: what the one says whose word counts, Elsewhere
	// where some know it and its home is not reached, None where nobody knows it.
	Recall(ctx context.Context, id note.UNID) Recalled
	// Delivered asks those that have a mail file whether they have delivered a message to a person, as Service.DeliveredTo does.
	Delivered(ctx context.Context, db note.DatabaseID, person note.UNID, message []byte) (bool, error)
}

// Handed is a delivery that a mate makes. Under the same ID and recipient it is made once.
type Handed struct {
	ID       note.UNID // the queue id
	Date     time.Time
	Person   note.UNID // the recipient
	Kind     directory.TargetKind
	Database note.DatabaseID
	// Always says that the mail arrives whatever the quota, Junk that it goes to the folder for junk.
	Always, Junk bool
}

// Take delivers what a mate hands on. It returns when the message is durable here.
func (s *Depositor) Take(ctx context.Context, h *Handed, raw []byte) error {
	if _, err := s.store.Info(h.Database); errors.Is(err, store.ErrNotFound) && h.Kind == directory.TargetPerson && !s.files.elsewhere(h.Database) {
		// Brought in bulk, or their making was cut short: the server that leads the directory makes it.
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
