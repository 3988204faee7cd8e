package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// ApplyLedger applies a page of the home's ledger to a follower. messages holds the messages of the page's notes, as
// Receive returned them, by digest; objects are the attachments that the page brings. ErrGap, ErrParted, ErrBehind and
// ErrIncomplete tell the caller what to do first. An error that a single note causes is a *NoteError. After any error
// nothing has changed. Applying a page twice changes nothing.
func (s *Store) ApplyLedger(ctx context.Context, id note.DatabaseID, page *LedgerPage,
	messages map[note.Digest]*Message, objects ...*Object) error {
	for {
		var left bool
		err := s.Replicate(ctx, id, func(w *Writer) (err error) {
			for _, o := range objects {
				w.Keep(o)
			}
			d := &dictation{Writer: w, page: page, messages: messages, taken: make(map[note.ID]bool)}
			left, err = d.apply()
			return err
		})
		if err != nil || !left {
			return err
		}
		// A complete copy has ended, and there is more to remove than one update removes.
		page, messages, objects = &LedgerPage{From: page.To, To: page.To, Whole: true, Floor: page.Floor,
			Of: page.Of}, nil, nil
	}
}

// dictation is the application of a page.
type dictation struct {
	*Writer
	page       *LedgerPage
	messages   map[note.Digest]*Message
	incomplete []note.UNID
	// closed holds folders that were removed; their heads are removed after their notes.
	closed []*txNote
	// taken holds the notes whose numbers the page has brought so far.
	taken map[note.ID]bool
}

// apply applies the page. It never assigns a number itself, and removes none without instruction from the page. left
// means that a complete copy has ended and there is still something to remove.
func (d *dictation) apply() (left bool, err error) {
	begun, err := d.begins()
	if err != nil || !begun {
		return false, err
	}
	p := d.page
	if err := d.floor(); err != nil {
		return false, err
	}
	if p.Info != nil {
		if err := d.ApplyInfo(p.Info); err != nil {
			return false, err
		}
	}
	if err := d.takeAll(true); err != nil {
		return false, err
	}
	for i := range p.Expunged {
		if err := d.expunge(&p.Expunged[i]); err != nil {
			return false, noteError(p.Expunged[i].Note, err)
		}
	}
	if err := d.takeAll(false); err != nil {
		return false, err
	}
	if d.incomplete != nil {
		return false, &IncompleteError{d.incomplete}
	}
	if err := d.told(); err != nil {
		return false, err
	}
	for _, t := range d.closed {
		if err := d.dropFolder(t.id); err != nil {
			return false, err
		}
	}
	return d.ends()
}

// takeAll applies the page's folders, or its other notes.
func (d *dictation) takeAll(folders bool) error {
	for _, list := range [][]Numbered{d.page.Notes, d.page.Again} {
		for i := range list {
			n := &list[i]
			if (n.Folder != nil) != folders {
				continue
			}
			if err := d.take(n); err != nil {
				return noteError(n.UNID, err)
			}
		}
	}
	return nil
}

// NoteError names the note that caused an error. The rest of the page can be applied without that note.
type NoteError struct {
	UNID note.UNID
	Err  error
}

func (e *NoteError) Error() string { return fmt.Sprintf("note %s: %v", e.UNID, e.Err) }

// Unwrap returns the cause.
func (e *NoteError) Unwrap() error { return e.Err }

func noteError(u note.UNID, err error) error { return &NoteError{u, err} }

// admit returns an error if the replica cannot apply pages, or not this one.
func (d *dictation) admit() error {
	switch {
	case !d.who.System:
		return ErrDenied
	case !d.st.counters.Ledger.Shared:
		return fmt.Errorf("%w: %s", ErrNotShared, d.st.info.Title)
	case d.numbers:
		return fmt.Errorf("%w: the replica leads", ErrParted)
	case d.page.Of.Partial:
		return ErrBehind
	}
	return nil
}

// resume returns how a replica with this ledger continues with the page, and from which MODSEQ. Below the page's floor
// only a complete copy continues.
func (p *LedgerPage) resume(l *note.Ledger) (how note.Resumption, from note.ModSeq) {
	how, from = p.Of.Resume(l)
	if p.Whole && (how == note.GoOn && from < p.Floor || how == note.CopyOn && l.Began < p.Floor) {
		return note.CopyOn, 0
	}
	return how, from
}

// begins reports whether there is anything to apply, and sets the ledger to where the page begins.
func (d *dictation) begins() (bool, error) {
	if err := d.admit(); err != nil {
		return false, err
	}
	p, l := d.page, &d.st.counters.Ledger
	how, from := p.resume(l)
	switch {
	case how == note.Parted:
		return false, ErrParted
	case how != note.IsAhead && p.From == from && p.Whole == (how == note.CopyOn):
	case p.To <= l.Last:
		return false, nil // it was applied already
	default:
		return false, fmt.Errorf("%w: begins at %x, ledger of %s ends at %x", ErrGap, uint64(p.From), d.st.info.Title,
			uint64(l.Last))
	}
	l = &d.mutable().counters.Ledger
	l.Part()
	if from < l.Last {
		// Either some pages of a run were applied whose rest nobody has, or a copy begins. The expunges in those pages
		// will come again.
		if err := d.forgetExpunges(from, noRecent); err != nil {
			return false, err
		}
	}
	if how == note.CopyOn && from == 0 {
		l.High, l.Copy, l.Began = max(l.High, l.Last), d.st.counters.Seq+1, p.Of.Last
	}
	l.Last = from
	return true, nil
}

// forgetExpunges removes the rows of expunges after one MODSEQ and up to another.
func (num *numbering) forgetExpunges(after, upto note.ModSeq) error {
	lo, hi := layout.IDKey(num.db.num, layout.KindModSeq, uint64(after)+1), layout.IDKey(num.db.num, layout.KindModSeq,
		uint64(upto)+1)
	return scanRange(num.eng, lo, hi, func(k, v []byte) error {
		c, err := layout.ReadChange(v)
		if err != nil {
			return fmt.Errorf("%w: change in database %s", ErrDamaged, num.db.id)
		}
		if c.Expunged {
			num.trimmed = append(num.trimmed, note.ModSeq(layout.Tail64(k)))
			num.mutable().counters.Expunged--
		}
		return nil
	})
}

// floor removes the expunges that the home has forgotten.
func (d *dictation) floor() error {
	c := &d.mutable().counters
	if d.page.Floor <= c.Floor {
		return nil
	}
	was := c.Floor
	if c.Floor = d.page.Floor; d.page.Whole && d.page.From == 0 {
		return nil // all were removed already
	}
	return d.forgetExpunges(was, c.Floor)
}

// expunge ends a membership or a note as the home did.
func (d *dictation) expunge(e *Expunge) error {
	if e.Mod <= d.st.counters.Ledger.Last {
		return note.ErrCorrupt
	}
	c := &d.mutable().counters
	row := layout.Change{
		Expunged: true, Gone: e.Gone, UID: e.UID, UNID: e.Note, Time: e.Time, Class: e.Class, Thread: e.Thread,
		Created: e.Created,
	}
	if f := d.headOf(string(e.Folder[:])); f != nil {
		row.Folder = f.Note
		h, err := d.head(f.Note)
		if err != nil {
			return err
		}
		h.Mod, h.UIDNext = max(h.Mod, e.Mod), max(h.UIDNext, e.UID+1)
	} else if e.UID != 0 {
		row.Folder = layout.NoFolder
	}
	var err error
	if row.Note, err = d.expungeNote(e); err != nil {
		return err
	}
	if e.Mod <= c.Floor {
		return nil // the sender still remembers the expunge, this replica no longer
	}
	c.Expunged++
	d.ended(e.Mod, row)
	return nil
}

// expungeNote removes a note from a folder or entirely, and returns its id here. If the note does not exist here, only
// its deletion is stored, and the id is that of the stub, or 0 for a grave.
func (d *dictation) expungeNote(e *Expunge) (note.ID, error) {
	id, err := d.findOwn(e.Note)
	switch {
	case err == nil:
		return id, d.leaves(id, e)
	case errors.Is(err, ErrNotFound) && e.Stub != nil && !e.Stub.Bare():
		t, err := d.arrival(e.Stub, nil).receive()
		if err != nil {
			return 0, err
		}
		t.given, t.row.Unnumbered = true, false
		return t.id, nil
	case errors.Is(err, ErrNotFound) && e.Gone && e.Stub == nil && !d.st.info.Queue:
		d.graves = append(d.graves, e.Note)
		return 0, nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrGrave):
		return 0, nil
	}
	return 0, err
}

func (d *dictation) arrival(in *Remote, m *Message) *arrival { return &arrival{d.Writer, in, m} }

// leaves removes a local note from a folder, or entirely.
func (d *dictation) leaves(id note.ID, e *Expunge) error {
	t, err := d.change(id)
	if errors.Is(err, ErrNotFound) && d.dirty[id] != nil {
		return nil // an earlier row of this page removed it
	}
	if err != nil {
		return err
	}
	t.given = true
	// A UID is assigned once in a database, so it alone identifies the membership.
	t.row.Members = slices.DeleteFunc(t.row.Members,
		func(m layout.Membership) bool { return m.UID == e.UID && e.UID != 0 })
	if !e.Gone || e.Stub != nil && e.Stub.Bare() {
		// The note's own row holds its present folders. If that row never comes, the next home sorts it out.
		t.row.Unnumbered = t.row.Unnumbered || !d.taken[id]
		return nil
	}
	if t.row.Class == note.Folder {
		d.closed = append(d.closed, t)
	}
	if e.Stub == nil {
		return d.dig(t)
	}
	ar := d.arrival(e.Stub, nil)
	ar.seeStamps()
	ours := t.row.Unnumbered
	if _, err := ar.merge(t); err != nil {
		return err
	}
	t.row.Members, t.row.Mod, t.row.Created = nil, 0, 0
	if !t.row.Stub {
		t.row.Unnumbered = true // the note lives on for a change that the home did not know of
		return nil
	}
	t.dropMessage()
	t.row.Unnumbered = ours && !d.same(t, e.Stub)
	return nil
}

// dig removes a note of which the home has kept nothing, not even a deletion stub. A document that was edited here, and
// whose edit no home has seen, is created again as a new note.
func (d *dictation) dig(t *txNote) error {
	cur, err := d.load(t.id, t)
	if err != nil {
		return err
	}
	win, _ := cur.Tree.Winner()
	if t.row.Unnumbered && !win.Deleted && !t.row.Foldered && win.Rev.Generation > 1 {
		in, err := d.remote(t.id, t.row, false)
		if err != nil {
			return err
		}
		in.UNID = note.DeriveUNID(in.UNID[:], []byte(win.Rev.String()))
		if _, err := d.findOwn(in.UNID); errors.Is(err, ErrNotFound) {
			again, err := d.arrival(in, nil).receive()
			if err != nil {
				return err
			}
			again.row.Recipe, again.row.Size = t.row.Recipe, t.row.Size
		}
	}
	t.row = nil
	return nil
}

// same reports whether the local state of a note equals that of the home.
func (d *dictation) same(t *txNote, in *Remote) bool {
	cur, err := d.load(t.id, t)
	return err == nil && slices.Equal(t.row.State, in.State) && t.row.Foldered == in.Foldered &&
		sameLeaves(cur, &layout.Content{Tree: in.Tree})
}

// take applies a note and its numbers.
func (d *dictation) take(n *Numbered) error {
	t, err := d.joined(n)
	if errors.Is(err, ErrIncomplete) {
		d.incomplete = append(d.incomplete, n.UNID)
		return nil
	}
	if err != nil {
		return err
	}
	t.given = true
	t.again = t.again || d.st.counters.Ledger.Copy != 0 // a note that a copy names gets a new sequence, so it is kept
	t.row.Mod, t.row.Created, d.taken[t.id] = n.Mod, n.Created, true
	t.row.Unnumbered = n.Ahead || !d.same(t, &n.Remote)
	if t.row.Stub && !t.row.Unnumbered {
		return note.ErrCorrupt
	}
	if n.Folder != nil {
		if err := d.folder(t, n); err != nil {
			return err
		}
	}
	members := t.row.Members[:0:0]
	for _, m := range n.Members {
		f := d.headOf(string(m.Folder[:]))
		if f == nil {
			d.incomplete = append(d.incomplete, m.Folder)
			continue
		}
		members = append(members, layout.Membership{Folder: f.Note, UID: m.UID, Saved: m.Saved, Deleted: m.Deleted})
	}
	t.row.Members = members
	return nil
}

// joined merges a note with the local one, or creates it. A note that lives at the home lives here too: a local grave
// was dug before the home learned of the change that restored the note.
func (d *dictation) joined(n *Numbered) (*txNote, error) {
	var m *Message
	if win, ok := n.Tree.Winner(); ok && n.Contents[win.Rev] != nil {
		m = d.messages[n.Contents[win.Rev].Message]
	}
	ar := d.arrival(&n.Remote, m)
	ar.seeStamps()
	id, err := d.findOwn(n.UNID)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrGrave):
		return ar.receive()
	case err != nil:
		return nil, err
	}
	t, err := d.change(id)
	if err == nil {
		_, err = ar.merge(t)
	}
	return t, err
}

// folder applies the home's numbers of a folder. The head becomes that of the home. Local changes of the folder become
// visible when the home has numbered them.
func (d *dictation) folder(t *txNote, n *Numbered) error {
	win, _ := n.Tree.Winner()
	c := n.Contents[win.Rev]
	if n.Class != note.Folder || c == nil {
		return note.ErrCorrupt
	}
	if d.st.folder(t.id) == nil {
		d.addHead(&layout.Folder{Note: t.id, UNID: n.UNID, UIDNext: 1, Told: 1})
	}
	f, err := d.head(t.id)
	if err != nil {
		return err
	}
	fillHead(f, &c.Items, n.State)
	f.Name = c.Items.Get(itemName).AsText()
	if n.Folder.UIDNext < f.UIDNext { // renumbered
		f.Told = min(f.Told, n.Folder.UIDNext)
	}
	f.UIDValidity, f.UIDNext, f.Mod = n.Folder.UIDValidity, n.Folder.UIDNext, n.Folder.Mod
	high, err := d.shown(f.Name)
	if err == nil && high < f.UIDValidity {
		d.names[f.Name] = f.UIDValidity
	}
	return err
}

// told raises the Told of folders to that of the home: messages that were reported to sessions there are not recent
// here.
func (d *dictation) told() error {
	for _, t := range d.page.Told {
		f := d.headOf(string(t.Folder[:]))
		if f == nil || f.Told >= t.UID {
			continue
		}
		h, err := d.head(f.Note)
		if err != nil {
			return err
		}
		h.Told = t.UID
	}
	return nil
}

// dropFolder closes a folder that is gone, unless it was restored.
func (d *dictation) dropFolder(id note.ID) error {
	if t := d.dirty[id]; d.st.folder(id) == nil || t.row != nil && !t.row.Stub {
		return nil
	}
	return d.closeFolder(id)
}

// closeFolder removes the head of a folder and the memberships in it.
func (fh *folderHeads) closeFolder(id note.ID) error {
	ids, err := fh.membersNow(id)
	if err != nil {
		return err
	}
	for _, m := range ids {
		t, err := fh.change(m)
		if err != nil {
			return err
		}
		t.given = true
		t.row.Members = slices.DeleteFunc(t.row.Members, func(m layout.Membership) bool { return m.Folder == id })
	}
	fh.dropHead(id)
	return nil
}

// ends sets the ledger to where the page leads. After a complete copy it removes the notes that the copy did not name.
func (d *dictation) ends() (left bool, err error) {
	p := d.page
	if !p.More && d.st.counters.Ledger.Copy != 0 {
		if left, err = d.dropUnnamed(); err != nil {
			return false, err
		}
	}
	c := &d.mutable().counters
	c.LastUIDValidity = max(c.LastUIDValidity, p.Of.LastUIDValidity)
	l := &c.Ledger
	if l.Copy != 0 {
		l.Adopt(&p.Of.Ledger, max(p.To, l.Complete)) // what was there before is of the same history
		l.Last, l.High = p.To, max(l.High, p.Of.Last)
	} else {
		l.Adopt(&p.Of.Ledger, p.To)
		l.High = p.Of.Last
	}
	if !p.More && !left {
		l.Whole()
	}
	return left, nil
}

// dropUnnamed removes notes that no page of a complete copy named and that were not changed here.
func (d *dictation) dropUnnamed() (left bool, err error) {
	var ids, ours []note.ID
	lo, hi := layout.IDKey(d.db.num, layout.KindSequence, 0), layout.IDKey(d.db.num, layout.KindSequence,
		d.st.counters.Ledger.Copy)
	err = scanRange(d.eng, lo, hi, func(_, v []byte) error {
		id, err := layout.ReadUNIDRow(v)
		if err != nil {
			return fmt.Errorf("%w: sequence row in database %s", ErrDamaged, d.db.id)
		}
		if d.dirty[id] != nil {
			return nil
		}
		n, err := d.note(id)
		switch {
		case err != nil:
		case !n.Unnumbered:
			ids = append(ids, id)
		case n.Mod != 0 || n.Created != 0 || len(n.Members) > 0:
			ours = append(ours, id)
		}
		if left = len(ids) > maintainStep; left {
			return errStop
		}
		return err
	})
	for _, id := range ids {
		t, cerr := d.change(id)
		if cerr != nil {
			return false, cerr
		}
		if t.row.Class == note.Folder {
			// Its notes are removed too, or the copy named them with other memberships.
			t.row.Stub = true
			if err := d.dropFolder(id); err != nil {
				return false, err
			}
		}
		t.given, t.row = true, nil
	}
	if err == nil {
		err = d.unnumber(ours)
	}
	return left, err
}

// unnumber removes the numbers of notes that were changed here and that the home does not have. The home decides about
// them when they are offered to it.
func (num *numbering) unnumber(ids []note.ID) error {
	for _, id := range ids {
		t, err := num.change(id)
		if err != nil {
			return err
		}
		if t.row.Class == note.Folder && num.st.folder(id) != nil {
			if err := num.closeFolder(id); err != nil {
				return err
			}
		}
		t.given, t.row.Members, t.row.Mod, t.row.Created = true, nil, 0, 0
		t.row.Unnumbered = true
	}
	return nil
}

// unnumberUnnamed calls unnumber for notes that change during a complete copy and that the copy has not named yet.
// Afterwards it would be impossible to tell that the copy never named them. A note that the copy names later gets its
// numbers then.
func (num *numbering) unnumberUnnamed() error {
	began := num.st.counters.Ledger.Copy
	if began == 0 {
		return nil
	}
	var ids []note.ID
	for _, id := range num.order {
		if t := num.dirty[id]; t.orig != nil && t.row != nil && !t.given && t.orig.Seq < began && !t.unchanged() &&
			(t.orig.Mod != 0 || len(t.orig.Members) > 0) {
			ids = append(ids, id)
		}
	}
	return num.unnumber(ids)
}
