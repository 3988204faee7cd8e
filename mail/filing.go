package mail

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mail/fields"
	"doublet/mail/queue"
	"doublet/mail/rules"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// filings is a note that a script wants: the folders in which the message has the same flags.
type filings struct {
	folders []note.ID
	flags   mailbox.Flags
}

// file stores the message as the script of a delivery wants. A message in several folders is one note if its flags are
// the same everywhere.
func (s *Files) file(w *store.Writer, c *mailbox.Composed, date time.Time, id note.UNID, d *delivery) error {
	r := d.ruling
	if len(r.Filings) == 0 {
		return nil
	}
	if r.changed != nil {
		c = r.changed
	}
	notes, err := s.notesOf(w, c, d)
	if err != nil {
		return err
	}
	var missing []store.New
	for i, f := range notes {
		n := c.New(date)
		if n.UNID = note.DeriveUNID(id[:], d.id[:]); i > 0 {
			n.UNID = note.DeriveUNID(id[:], d.id[:], []byte(strconv.Itoa(i)))
		}
		if _, err := w.Find(n.UNID); err == nil || errors.Is(err, store.ErrGrave) {
			continue // delivered before, whatever the quota is now
		}
		f.on(&n, d)
		missing = append(missing, n)
	}
	if len(missing) == 0 {
		return nil
	}
	// All or none: the update continues without a recipient whose mail file is full.
	if err := room(&w.Reader, d.quota, uint64(len(missing))*uint64(c.Size())); err != nil && !d.always {
		return err
	}
	for _, n := range missing {
		if _, err := w.Create(n); err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrGrave) {
			return err
		}
	}
	return nil
}

// on sets the folders and the flags of a recipient's note.
func (f *filings) on(n *store.New, d *delivery) {
	n.Folders, n.Keywords, n.MarkDeleted = f.folders, f.flags.Keywords, f.flags.Deleted
	if f.flags.Seen {
		n.SeenBy = []note.UNID{d.id}
	}
}

// notesOf finds the folders of the filings. A folder that does not exist is replaced by the INBOX.
func (s *Files) notesOf(w *store.Writer, c *mailbox.Composed, d *delivery) (out []filings, err error) {
	taken := map[note.ID]bool{}
	for i := range d.ruling.Filings {
		f := &d.ruling.Filings[i]
		id, flags, err := s.filing(w, c, d, f)
		if err != nil {
			return nil, err
		}
		if taken[id] {
			continue
		}
		taken[id] = true
		if d.ruling.trouble != "" && len(out) == 0 {
			flags.Keywords = append(flags.Keywords, scripts.Keyword)
		}
		slices.Sort(flags.Keywords)
		flags.Keywords = slices.Compact(flags.Keywords)
		same := slices.IndexFunc(out, func(o filings) bool {
			return o.flags.Seen == flags.Seen && o.flags.Deleted == flags.Deleted &&
				slices.Equal(o.flags.Keywords, flags.Keywords)
		})
		if same >= 0 {
			out[same].folders = append(out[same].folders, id)
			continue
		}
		out = append(out, filings{[]note.ID{id}, flags})
	}
	return out, nil
}

// filing returns the folder and the flags of a filing.
func (s *Files) filing(w *store.Writer, c *mailbox.Composed, d *delivery, f *rules.Filing) (id note.ID,
	flags mailbox.Flags, err error) {
	flags = scripts.Flags(f.Flags)
	if f.Folder != "" {
		id, err = s.filingFolder(w, d, f)
		return id, flags, err
	}
	kept, err := usual(w, c, d)
	if err != nil {
		return 0, flags, err
	}
	flags.Seen = flags.Seen || kept.flags.Seen
	flags.Keywords = append(flags.Keywords, kept.flags.Keywords...)
	return kept.folders[0], flags, nil
}

// filingFolder returns the folder that a filing names. It creates the folder if the script wants that and this is the
// home.
func (s *Files) filingFolder(w *store.Writer, d *delivery, f *rules.Filing) (note.ID, error) {
	id, err := scripts.Folder(&w.Reader, f)
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return id, err
	}
	name, bad := mailbox.Normalize(f.Folder)
	if f.Create && bad == nil && w.Home() == nil {
		if id, err = createFolder(w, name, d.id); err == nil {
			return id, nil
		}
		s.env.Log.Warn("mail: script cannot create a folder", "recipient", d.name, "folder", fields.Logged(name),
			"err", err)
	}
	d.ruling.trouble = fmt.Sprintf("fileinto: folder %.80q does not exist", f.Folder)
	return folderOf(w, mailbox.Inbox)
}

// maxMade is the number of folders of a mail file up to which scripts create more. The names may come from messages, so
// that strangers choose their number.
const maxMade = 1000

// createFolder creates a folder and those above it, and subscribes the owner to it.
func createFolder(w *store.Writer, name string, owner note.UNID) (id note.ID, err error) {
	if n := len(w.AllFolders()) + 1 + strings.Count(name, "/"); n > maxMade {
		return 0, fmt.Errorf("%w: scripts create no more than %d folders", mailbox.ErrOverQuota, maxMade)
	}
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '/' {
			continue
		}
		if h, err := w.FolderNamed(name[:i]); err == nil {
			id = h.Note
			continue
		}
		if id, err = w.CreateFolder(name[:i], ""); err != nil {
			return 0, err
		}
		if err = w.Subscribe(id, owner, true); err != nil {
			return 0, err
		}
	}
	if id == 0 || strings.HasSuffix(name, "/") {
		return 0, mailbox.ErrBadName
	}
	return id, nil
}

// errRuledOut means that a recipient's script rejects the message.
var errRuledOut = errors.New("mail: the recipient's script rejects the message")

// deliverRuled delivers to one mail file as the recipient's script wants. Errors are those of Files.deliver,
// errNeedRuling, and errRuledOut.
func (s *Depositor) deliverRuled(tx *store.Tx, c *mailbox.Composed, date time.Time, id note.UNID, d *delivery,
	l *letter) error {
	w, err := tx.Database(d.database)
	if err != nil {
		return err
	}
	if err := s.filter.rule(w, c, d, l); err != nil {
		return err
	}
	if d.ruling.refuses() {
		return errRuledOut
	}
	if err := s.files.deliver(tx, c, date, id, d); err != nil {
		return err
	}
	if err := s.schedule(tx, c.Envelope.From, d, l); err != nil {
		return err
	}
	return s.filter.settled(w, d)
}

// enterDue enters the messages that are due into mail.box.
func enterDue(q *queue.Queue, w *store.Writer, out []*outgoing, date time.Time) (moved queue.Tally, err error) {
	for _, o := range out {
		if !o.due {
			continue
		}
		one, err := q.Enter(w, o.composed.New(date), o.entry)
		if err != nil {
			return moved, err
		}
		moved = moved.Plus(one)
	}
	return moved, nil
}
