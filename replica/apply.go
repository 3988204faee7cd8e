package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// incoming is a received note with its message and objects.
type incoming struct {
	Change
	message *store.Message
	objects []*store.Object
	refs    []store.ObjectRef
	// composed is the result of parsing a person's message.
	composed *mailbox.Composed
}

func (n *incoming) release() {
	if n.composed != nil {
		n.composed.Release()
	} else if n.message != nil {
		n.message.Release()
	}
	for _, o := range n.objects {
		o.Release()
	}
}

// Apply implements Side.
func (l *Local) Apply(ctx context.Context, db note.DatabaseID, p *ChangePage) (Ack, error) {
	var ack Ack
	err := l.mayPush(ctx, db)
	if err != nil {
		return ack, err
	}
	if p.Info != nil {
		if !l.who.System {
			return ack, store.ErrDenied
		}
		if err := l.s.Replicate(ctx, db, func(w *store.Writer) error { return w.ApplyInfo(p.Info) }); err != nil {
			return ack, err
		}
	}
	var ready []*incoming
	defer func() {
		for _, n := range ready {
			n.release()
		}
	}()
	for i := range p.Notes {
		n, err := l.prepare(ctx, db, p.Notes[i], &ack)
		switch {
		case err != nil && !ofNote(err):
			return ack, err
		case err != nil:
			ack.Refused = append(ack.Refused, refuse(p.Notes[i].Note.UNID, err))
		case n != nil:
			ready = append(ready, n)
		}
	}
	if err := l.applyAll(ctx, db, ready, &ack); err != nil {
		return ack, err
	}
	for _, n := range ready {
		l.stage.used(l.key(note.Digest{}).who, n.refs)
		if !n.Thin {
			l.came.add(db, n.Note, p.From.Replica)
		}
	}
	l.stat.took(&ack)
	ack.Position, err = l.position(ctx, db)
	return ack, err
}

func (l *Local) position(ctx context.Context, db note.DatabaseID) (store.Position, error) {
	c, _, err := l.current(ctx, db)
	return c.Position, err
}

// prepare receives a note's message and objects, before any lock is taken. It returns nil if objects are missing and
// lists them in the Ack.
func (l *Local) prepare(ctx context.Context, db note.DatabaseID, c Change, ack *Ack) (*incoming, error) {
	n := &incoming{Change: c}
	if c.Thin {
		return n, nil
	}
	for _, leaf := range c.Note.Tree.Leaves() {
		if !leaf.Deleted && c.Note.Contents[leaf.Rev] == nil {
			return nil, formatError("note %s: the content of %s is not there", c.Note.UNID, leaf.Rev)
		}
	}
	var err error
	if n.refs, err = objectsOf(c.Note); err != nil {
		return nil, err
	}
	missing, err := l.missing(n.refs)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		ack.Missing = append(ack.Missing, missing...)
		ack.Again = append(ack.Again, c.Note.UNID)
		return nil, nil
	}
	if err := l.bring(ctx, db, n); err != nil {
		n.release()
		if errors.Is(err, ErrMissing) { // dropped between the check and the use
			ack.Again = append(ack.Again, c.Note.UNID)
			return nil, nil
		}
		return nil, err
	}
	return n, nil
}

// missing lists the objects that are neither in the store nor staged. For a person's note, only objects that this
// person sent count.
func (l *Local) missing(refs []store.ObjectRef) (out []store.ObjectRef, err error) {
	if l.who.System {
		if refs, err = l.s.Lacks(refs); err != nil {
			return nil, err
		}
	}
	for _, ref := range refs {
		if l.stage.take(l.key(ref.Digest), ref) == nil {
			out = append(out, ref)
		}
	}
	return out, nil
}

func (l *Local) fetch(ref store.ObjectRef) ([]byte, error) {
	if b := l.stage.take(l.key(ref.Digest), ref); b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrMissing, ref.Digest)
}

// bring writes a note's message and attachments to the store.
func (l *Local) bring(ctx context.Context, db note.DatabaseID, n *incoming) error {
	if len(n.Note.Message) > 0 {
		d, size, _, err := store.RecipeParts(n.Note.Message)
		if err != nil {
			return err
		}
		if !l.who.System && size > l.opt.MaxMessage {
			return fmt.Errorf("%w: message of %d bytes, maximum is %d", ErrTooLarge, size, l.opt.MaxMessage)
		}
		if n.Note.Size != size || !names(n.Note, d) {
			return formatError("note %s: the message is not its own", n.Note.UNID)
		}
		if n.message, err = l.s.Receive(ctx, n.Note.Message, l.fetch, db); err != nil {
			return err
		}
	}
	for _, rev := range liveLeaves(n.Note) {
		for _, a := range n.Note.Contents[rev].Attachments {
			o, err := l.attach(ctx, db, store.ObjectRef{Digest: a.Digest, Size: a.Size})
			if err != nil {
				return err
			}
			n.objects = append(n.objects, o)
		}
	}
	return nil
}

// names reports whether a content of a note refers to message d.
func names(n *store.Remote, d note.Digest) bool {
	for _, c := range n.Contents {
		if c.Message == d {
			return true
		}
	}
	return false
}

func (l *Local) attach(ctx context.Context, db note.DatabaseID, ref store.ObjectRef) (*store.Object, error) {
	if o, err := l.s.ReceiveObject(ctx, ref, nil, db); err == nil || !errors.Is(err, store.ErrNotFound) {
		return o, err
	}
	b, err := l.fetch(ref)
	if err != nil {
		return nil, err
	}
	return l.s.ReceiveObject(ctx, ref, b, db)
}

// applyAll applies notes in one update. If that fails, it applies them one by one, so that a bad note is set aside and
// the others are applied. A person's notes are always applied one by one.
func (l *Local) applyAll(ctx context.Context, db note.DatabaseID, list []*incoming, ack *Ack) error {
	if len(list) == 0 {
		return nil
	}
	if l.who.System {
		next := *ack
		err := l.s.Replicate(ctx, db, func(w *store.Writer) error {
			for _, n := range list {
				if err := l.applyNote(w, n, &next); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			*ack = next
			return nil
		}
		if !ofNote(err) {
			return err
		}
	}
	for _, n := range list {
		next := *ack
		err := l.applyOne(ctx, db, n, &next)
		switch {
		case err == nil:
			*ack = next
		case !ofNote(err):
			return err
		case errors.Is(err, store.ErrGrave) && stub(n.Note):
			// Deleted on both sides.
		case errors.Is(err, store.ErrIncomplete):
			ack.Again = append(ack.Again, n.Note.UNID)
		default:
			ack.Refused = append(ack.Refused, refuse(n.Note.UNID, err))
		}
	}
	return nil
}

func (l *Local) applyOne(ctx context.Context, db note.DatabaseID, n *incoming, ack *Ack) error {
	if !l.who.System && n.message != nil {
		if err := l.reread(ctx, db, n); err != nil {
			return err
		}
	}
	return l.s.Replicate(ctx, db, func(w *store.Writer) error { return l.applyNote(w, n, ack) })
}

// applyNote merges one note with the local version.
func (l *Local) applyNote(w *store.Writer, n *incoming, ack *Ack) error {
	id, err := w.Find(n.Note.UNID)
	known := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !l.who.System {
		if err := l.admit(w, id, known, n); err != nil {
			return err
		}
	}
	for _, o := range n.objects {
		w.Keep(o)
	}
	plausible, err := w.Apply(n.Note, n.message)
	if err != nil {
		return err
	}
	if !plausible {
		l.stat.ahead.Inc()
		l.env.Log.Warn("replica: timestamp of a note is over a minute in the future", "database", w.Database().String(),
			"note", n.Note.UNID.String())
	}
	switch {
	case known && stub(n.Note):
		ack.Deleted++
	case known:
		ack.Updated++
	case !stub(n.Note):
		ack.Added++
	}
	return nil
}

// admit checks a person's note against the access lists.
func (l *Local) admit(w *store.Writer, id note.ID, known bool, n *incoming) error {
	g := grantOf(&l.who, &w.Reader)
	if !known {
		info, c := w.Info(), w.Counters()
		if info.Quota > 0 && c.Size+n.Note.Size > info.Quota {
			return fmt.Errorf("note %s: %w", n.Note.UNID, mailbox.ErrOverQuota)
		}
		return g.admit(n.Note, nil)
	}
	have, err := w.Remote(id)
	if err != nil {
		return err
	}
	return g.admit(n.Note, have)
}

// errTrial rolls back an update that was only a trial.
var errTrial = errors.New("replica: only a trial")

// reread parses a message from a person as incoming mail is parsed. Lists then show what this server has parsed, not
// the summary that the person sent.
func (l *Local) reread(ctx context.Context, db note.DatabaseID, n *incoming) error {
	var raw bytes.Buffer
	err := l.s.Replicate(ctx, db, func(w *store.Writer) error {
		if _, err := w.Find(n.Note.UNID); err == nil {
			return errTrial // it was parsed here when it arrived
		}
		id := w.Counters().NextNote // the id that Apply assigns to a new note
		if _, err := w.Apply(n.Note, n.message); err != nil {
			return err
		}
		row, err := w.Row(id)
		if err != nil {
			return err
		}
		m, err := w.Message(row)
		if err != nil {
			return err
		}
		if _, err := m.WriteTo(&raw); err != nil {
			return err
		}
		return errTrial
	})
	if !errors.Is(err, errTrial) || raw.Len() == 0 {
		if errors.Is(err, errTrial) {
			err = nil
		}
		return err
	}
	n.composed, err = l.mail.Compose(ctx, raw.Bytes(), db)
	if err != nil {
		return fmt.Errorf("note %s: %w", n.Note.UNID, err)
	}
	n.message.Release()
	c := n.composed.New(l.env.Clock.Now())
	n.message, n.Note.Summary = c.Message, c.Summary
	return nil
}

// ApplyLedger implements Side. Only servers may call it. A note that cannot be applied is removed from the page and
// reported in Refused; the rest of the page is applied.
func (l *Local) ApplyLedger(ctx context.Context, db note.DatabaseID, p *LedgerPage) (Ack, error) {
	var ack Ack
	if !l.who.System || db == ID {
		return ack, store.ErrDenied
	}
	b := &batch{messages: map[note.Digest]*store.Message{}}
	defer b.release()
	page := p.LedgerPage
	var err error
	for _, list := range []*[]store.Numbered{&page.Notes, &page.Again} {
		if *list, err = l.prepareNumbered(ctx, db, *list, b, &ack); err != nil {
			return ack, err
		}
	}
	if len(ack.Missing) > 0 {
		return ack, nil // nothing is applied without them
	}
	before, _, err := l.current(ctx, db)
	if err != nil {
		return ack, err
	}
	for {
		err = l.s.ApplyLedger(ctx, db, &page, b.messages, b.objects...)
		var bad *store.NoteError
		if !errors.As(err, &bad) || !ofNote(bad.Err) || !without(&page, bad.UNID) {
			break
		}
		ack.Refused = append(ack.Refused, refuse(bad.UNID, bad.Err))
	}
	var incomplete *store.IncompleteError
	if errors.As(err, &incomplete) {
		ack.Again = incomplete.UNIDs
		return ack, nil
	}
	if err != nil {
		return ack, err
	}
	l.stage.used(note.UNID{}, b.refs)
	after, _, err := l.current(ctx, db)
	if err != nil {
		return ack, err
	}
	// Other goroutines may write at the same time, so the counts are derived from the page and from the change in the
	// number of notes.
	for i := range page.Expunged {
		if page.Expunged[i].Gone {
			ack.Deleted++
		}
	}
	ack.Added = min(len(page.Notes), max(0, int(after.Counters.Notes-before.Counters.Notes)+ack.Deleted))
	ack.Updated = len(page.Notes) - ack.Added
	l.stat.took(&ack)
	ack.Position = after.Position
	return ack, nil
}

// batch collects the messages and objects of the notes of a page.
type batch struct {
	messages map[note.Digest]*store.Message
	objects  []*store.Object
	refs     []store.ObjectRef
	ready    []*incoming
}

func (b *batch) release() {
	for _, n := range b.ready {
		n.release()
	}
}

// prepareNumbered prepares the notes of a page and omits those that cannot be applied.
func (l *Local) prepareNumbered(ctx context.Context, db note.DatabaseID, list []store.Numbered, b *batch,
	ack *Ack) ([]store.Numbered, error) {
	out := make([]store.Numbered, 0, len(list))
	for i := range list {
		if list[i].Contents == nil {
			out = append(out, list[i])
			continue
		}
		n, err := l.prepare(ctx, db, Change{Note: &list[i].Remote}, ack)
		switch {
		case err != nil && !ofNote(err):
			return nil, err
		case err != nil:
			ack.Refused = append(ack.Refused, refuse(list[i].UNID, err))
			continue
		}
		if out = append(out, list[i]); n == nil {
			continue // the note waits for objects, and so does the page
		}
		b.ready, b.refs, b.objects = append(b.ready, n), append(b.refs, n.refs...), append(b.objects, n.objects...)
		if n.message != nil {
			b.messages[n.message.Digest] = n.message
		}
	}
	return out, nil
}

// without removes a note from a page and reports whether it was there.
func without(p *store.LedgerPage, u note.UNID) bool {
	found := false
	for _, list := range []*[]store.Numbered{&p.Notes, &p.Again} {
		*list = slices.DeleteFunc(*list,
			func(n store.Numbered) bool { found = found || n.UNID == u; return n.UNID == u })
	}
	p.Expunged = slices.DeleteFunc(slices.Clone(p.Expunged),
		func(e store.Expunge) bool { found = found || e.Note == u; return e.Note == u })
	return found
}

// Bury implements Side.
func (l *Local) Bury(ctx context.Context, db note.DatabaseID, by Peer, unids []note.UNID) (Ack, error) {
	var ack Ack
	err := l.mayPush(ctx, db)
	if err != nil {
		return ack, err
	}
	rec, _, err := l.hist.of(ctx, db, by.Replica)
	if err != nil {
		return ack, err
	}
	for _, u := range unids {
		err := l.s.Replicate(ctx, db, func(w *store.Writer) error { return l.bury(w, u, rec.Given, &ack) })
		switch {
		case err != nil && !ofNote(err):
			return ack, err
		case err != nil && !errors.Is(err, store.ErrGrave) && !errors.Is(err, store.ErrNotFound):
			ack.Refused = append(ack.Refused, refuse(u, err))
		}
	}
	l.stat.took(&ack)
	ack.Position, err = l.position(ctx, db)
	return ack, err
}

// bury deletes a note that another replica deleted for good. If the note has an edit that the other replica never had,
// the edit is kept as a new note. The UNID of the new note is derived from the old UNID and the edit, so it is the same
// on every replica.
//
// A follower does not delete on its own, because the deletion would itself be a change that waits for the primary. It
// only withdraws the pending changes of a note that the primary has deleted.
func (l *Local) bury(w *store.Writer, u note.UNID, given uint64, ack *Ack) error {
	follows := w.Home() != nil
	id, err := w.Find(u)
	if err != nil {
		return err
	}
	n, err := w.Remote(id)
	switch {
	case err != nil:
		return err
	case stub(n) && follows:
		return w.Bury(u)
	case stub(n):
		return nil
	}
	if g := grantOf(&l.who, &w.Reader); !g.whole() {
		const both = note.DeleteMark | note.Expunge
		if g.everywhere(n)&both != both {
			return store.ErrDenied
		}
	}
	row, err := w.Note(id)
	if err != nil {
		return err
	}
	if win, _ := n.Tree.Winner(); win.Rev.Generation > 1 && row.Seq > given && len(n.Message) == 0 {
		if err := again(w, n, win.Rev); err != nil {
			return err
		}
		ack.Added++
	}
	ack.Deleted++
	switch {
	case follows:
		return w.Bury(u)
	case n.Class != note.Folder:
		return w.Destroy(id)
	}
	// Notes in the folder are moved elsewhere, as if the deletion had been received as an ordinary change.
	dead := &store.Remote{UNID: n.UNID, Class: n.Class, Tree: n.Tree, State: n.State}
	for _, l := range n.Tree.Leaves() {
		if !l.Deleted {
			dead.Tree = dead.Tree.Add(note.Node{Rev: note.NextRevision(l.Rev, n.Class, true, &note.Content{}),
				Parent: l.Rev, Deleted: true})
		}
	}
	_, err = w.Apply(dead, nil)
	return err
}

// itemConflict marks a note made from an edit that conflicts with a deletion, as in Domino.
const itemConflict = "$Conflict"

func again(w *store.Writer, n *store.Remote, rev note.Revision) error {
	c := *n.Contents[rev]
	c.Items = c.Items.With(itemConflict, note.Text(n.UNID.String()))
	var folders []note.ID
	for i := range n.State {
		if f, ok := folderOf(&n.State[i]); ok && n.State[i].Value != note.Off {
			if id, err := w.Find(f); err == nil {
				folders = append(folders, id)
			}
		}
	}
	_, err := w.Create(store.New{
		UNID: note.DeriveUNID(n.UNID[:], appendRevision(nil, rev)), Class: n.Class, Content: c, Summary: n.Summary,
		Date: n.Date, Thread: n.Thread, Folders: folders,
	})
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
		return nil
	}
	return err
}
