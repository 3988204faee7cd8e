package mail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/queue"
	"doublet/mail/rules"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// databaseTrouble reports whether an error concerns one of the databases rather than the whole server.
func databaseTrouble(err error) bool {
	return queue.DatabaseTrouble(err) || errors.Is(err, errNoFolder)
}

// errNoFolder means that a replica without the home does not have the destination folder yet.
var errNoFolder = errors.New("mail: the replica has no such folder yet")

// makeMissing creates missing mail files, and reports whether it created any. They are missing after a bulk import of
// people, or if a crash interrupted their creation.
func (s *Files) makeMissing(ctx context.Context, b *batch) bool {
	made := false
	for i := range b.now {
		d := &b.now[i]
		if _, err := s.store.Info(d.database); d.kind != directory.TargetPerson || !errors.Is(err, store.ErrNotFound) ||
			s.elsewhere(d.database) {
			continue
		}
		if err := s.dir.People.EnsureMailFile(ctx, d.id); err != nil {
			s.env.Log.Error("mail: make mail file", "recipient", d.name, "err", err)
			continue
		}
		_, err := s.store.Info(d.database)
		made = made || err == nil
	}
	return made
}

func (s *Files) inService(id note.DatabaseID) bool {
	info, err := s.store.Info(id)
	return err == nil && info.State == layout.InService
}

// takes reports whether this server can deliver to the INBOX or the junk folder of a mail file. If the replica is not
// the home, the folder has to exist already.
func (s *Files) takes(ctx context.Context, id note.DatabaseID, junk bool) bool {
	if !s.inService(id) {
		return false
	}
	if s.mates == nil || s.store.Leads(id) {
		return true
	}
	return s.store.Read(ctx, note.System, id, func(r *store.Reader) error {
		_, err := mailbox.FindUse(r, useFor(junk))
		return err
	}) == nil
}

// deliver creates a recipient's note in a mail file, where the recipient's script files it, or in the usual folder. The
// note's UNID is derived from the queue ID and the recipient, so that a repeated delivery has no effect.
func (s *Files) deliver(tx *store.Tx, c *mailbox.Composed, date time.Time, id note.UNID, d *delivery) error {
	w, err := tx.Database(d.database)
	if err != nil {
		return err
	}
	if d.ruling != nil {
		return s.file(w, c, date, id, d)
	}
	if d.marked != nil {
		c = d.marked
	}
	n := c.New(date)
	n.UNID = note.DeriveUNID(id[:], d.id[:])
	if err := room(&w.Reader, d.quota, uint64(c.Size())); err != nil && !d.always {
		if _, found := w.Find(n.UNID); found == nil || errors.Is(found, store.ErrGrave) {
			return nil // delivered before, whatever the quota is now
		}
		return err
	}
	f, err := usual(w, c, d)
	if err != nil {
		return err
	}
	f.on(&n, d)
	_, err = w.Create(n)
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
		return nil
	}
	return err
}

// usual returns the folder and the flags of a message that no script files: mail of senders that the owner blocked goes
// to the junk folder, other mail to the folder that a mail rule names, and answers in a muted conversation are archived
// as read. If this replica is not the home and does not have that folder yet, they go to the INBOX.
func usual(w *store.Writer, c *mailbox.Composed, d *delivery) (f filings, err error) {
	blocked, err := d.isBlocked(w, c.Envelope.From)
	if err != nil {
		return f, err
	}
	if d.folder != "" && !blocked {
		id, err := namedFolder(w, d)
		if f.folders = []note.ID{id}; id != 0 || err != nil {
			return f, err
		}
	}
	muted := false
	if !d.junk && !blocked {
		if muted, err = mailbox.Muted(&w.Reader, c.Thread()); err != nil {
			return f, err
		}
	}
	use := useFor(d.junk || blocked)
	if muted {
		use, f.flags.Keywords = mailbox.UseArchive, []string{mailbox.MutedKeyword}
		f.flags.Seen = d.kind == directory.TargetPerson
	}
	folder, err := folderOf(w, use)
	if (muted || blocked && !d.junk) && errors.Is(err, errNoFolder) {
		folder, err = folderOf(w, mailbox.Inbox)
	}
	f.folders = []note.ID{folder}
	return f, err
}

// namedFolder returns the folder that a mail rule names, and creates it in the home of the mail file. It returns 0 if
// there is none, so that the message goes to the INBOX: another replica may not have received the folder yet, and some
// names cannot be created.
func namedFolder(w *store.Writer, d *delivery) (note.ID, error) {
	id, err := scripts.Folder(&w.Reader, &rules.Filing{Folder: d.folder})
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return id, err
	}
	name, err := mailbox.Normalize(d.folder)
	if err != nil || w.Home() != nil {
		return 0, nil //nolint:nilerr // see above
	}
	id, err = createFolder(w, name, d.id)
	if errors.Is(err, mailbox.ErrBadName) || errors.Is(err, mailbox.ErrOverQuota) {
		return 0, nil
	}
	return id, err
}

// isBlocked reports whether the owner of the mail file blocked an author. A message with a ruling has passed this check
// in filter.rule.
func (d *delivery) isBlocked(w *store.Writer, authors []mime.Address) (bool, error) {
	if d.ruling != nil {
		return false, nil
	}
	return mailbox.Blocks(&w.Reader, d.database, authors)
}

// blocks reports whether a person blocked the author of a message, as far as this server has the mail file.
func (s *Files) blocks(ctx context.Context, db note.DatabaseID, author mime.Address) (blocked bool, err error) {
	if !s.inService(db) {
		return false, nil
	}
	err = s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		blocked, err = mailbox.Blocks(r, db, []mime.Address{author})
		return err
	})
	return blocked, err
}

// room checks the quota of a mail file, and the quota that the directory sets for its owner.
func room(r *store.Reader, quota, more uint64) error {
	if used := mailbox.Used(r); quota > 0 && used+more > quota {
		return fmt.Errorf("%w: %d of %d bytes are used", mailbox.ErrOverQuota, used, quota)
	}
	return mailbox.CheckQuota(r, more)
}

// useFor returns the use of the folder for a message.
func useFor(junk bool) string {
	if junk {
		return mailbox.UseJunk
	}
	return mailbox.Inbox
}

// folderOf returns the destination folder, and creates it if it is missing, for example in a new mail-in database. Only
// the home of the mail file creates folders. Another replica may not have received the folder yet, and would create a
// second one with the same name; there folderOf returns errNoFolder.
func folderOf(w *store.Writer, use string) (note.ID, error) {
	id, err := mailbox.FindUse(&w.Reader, use)
	if !errors.Is(err, store.ErrNotFound) {
		return id, err
	}
	if w.Home() != nil {
		return 0, errNoFolder
	}
	return mailbox.CreateUse(w, use)
}

// Room checks whether a recipient's mail file has room for a message of a size, before the message arrives. It returns
// mailbox.ErrOverQuota if not. It checks only mail files with a quota.
func (s *Files) Room(ctx context.Context, t *directory.Target, size uint64) error {
	if away, err := s.dir.Servers.Away(ctx, t.MailServer); err != nil || away {
		return err
	}
	info, err := s.store.Info(t.Database)
	if errors.Is(err, store.ErrNotFound) && s.elsewhere(t.Database) {
		return nil // the server that has the mail file checks it
	}
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	if info.Quota == 0 && t.Quota == 0 {
		return nil
	}
	return s.store.Read(ctx, note.System, t.Database, func(r *store.Reader) error {
		return room(r, t.Quota, max(size, 1))
	})
}

// attempt is a recipient that is due for delivery.
type attempt struct {
	delivery
	reply *smtp.Reply // why it cannot be delivered, found before the update
	final bool
	// elsewhere is set if only mates have the mail file, and handed once a mate has delivered. address is the
	// recipient's address.
	elsewhere, handed bool
	// away is set if the mail file is at another place of the domain.
	away    bool
	address string
}

// find returns the current mail file of a recipient.
func (s *Files) find(ctx context.Context, q *queue.Recipient, junk bool) (attempt, error) {
	a := attempt{delivery: delivery{id: q.Target, kind: q.Kind, sent: q.Address}, address: q.Address}
	removed, server := false, note.UNID{}
	var err error
	if q.Kind == directory.TargetMailIn {
		var m directory.MailIn
		m, err = s.dir.MailIns.Get(ctx, q.Target)
		a.database, server, removed = m.Database, m.MailServer, !m.Removed.IsZero()
	} else {
		var p directory.Person
		p, err = s.dir.Names.Person(ctx, q.Target)
		a.database, a.quota, server, removed = p.MailDatabase, p.Quota, p.MailServer, !p.Removed.IsZero()
	}
	if err == nil && !removed {
		a.away, err = s.dir.Servers.Away(ctx, server)
	}
	switch {
	case errors.Is(err, directory.ErrNotFound), err == nil && removed:
		a.reply, a.final = replyNoUser, true
	case err != nil:
		return a, fmt.Errorf("directory: %w", err)
	case a.database == 0:
		a.reply, a.final = replyNoFile, true
	case a.away:
	case s.takes(ctx, a.database, junk):
	case s.elsewhere(a.database):
		a.elsewhere = true
	default:
		a.reply = replyTrouble
	}
	return a, nil
}

// elsewhere reports whether only mates have a mail file.
func (s *Files) elsewhere(db note.DatabaseID) bool {
	return s.mates != nil && s.mates.Elsewhere(db)
}

// away reports whether a recipient's mail file is at another place of the domain. Recipients that no longer exist are
// handled here.
func (s *Files) away(ctx context.Context, q *queue.Recipient) bool {
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

// awayNow returns a function that reports whether a mail server is at another place.
func (s *Files) awayNow(ctx context.Context) func(note.UNID) bool {
	return func(mailServer note.UNID) bool {
		away, err := s.dir.Servers.Away(ctx, mailServer)
		return err == nil && away // an error means trouble with the store, which shows in the next step
	}
}

// ours reports whether this server delivers to a recipient. This includes a recipient that moved here from another
// place while the message waited to be sent there.
func (s *Files) ours(ctx context.Context, q *queue.Recipient) bool {
	return q.State == queue.Pending || q.State == queue.Waiting && !q.Target.IsZero() && !s.away(ctx, q)
}

// Files delivers to mail files. A mail file can be here, at a mate, or at another place of the domain.
type Files struct {
	store *store.Store
	env   *env.Env
	dir   *directory.Directory
	mates Mates // nil if all mail files are here
}
