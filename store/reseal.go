package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// settleNotes and settleBytes bound what one batch of Settle changes: notes, and bytes of their messages.
const (
	settleNotes = 64
	settleBytes = 16 << 20
)

// Settle seals what a database holds from before it got its key or, after DropKey, unseals it. What is done already is
// passed over, so that a pass that was interrupted is continued by the next. A note that cannot be read stays as it is,
// and its error is returned when all others are done. Readers and writers go on. No note changes: nobody is told, and
// nothing is replicated. progress gets the number of notes that were looked at, and may be nil. While there is no space
// above the floor, it fails with ErrNoSpace.
func (s *Store) Settle(ctx context.Context, id note.DatabaseID, progress func(notes uint64)) error {
	for before := 1; ; { // notes that the pass before has written
		turn := s.keying.turn(id)
		info, err := s.Info(id)
		if err != nil || info.Key == nil || info.Key.Settled {
			return err
		}
		if s.Locked(&info) {
			return ErrLocked
		}
		p := &settling{s: s, ctx: ctx, id: id, progress: progress}
		if err := p.pass(&info); err != nil {
			return err
		}
		switch {
		case p.skipped == 0 && p.left == 0:
			return s.settled(&info, turn)
		case p.skipped == 0, before == 0 && p.written == 0:
			return p.unfinished()
		}
		before = p.written
	}
}

// settled records that all of a database is as its key says. It does nothing if the key was dropped or set since turn:
// what was written between the two may be behind the pass.
func (s *Store) settled(was *layout.Info, turn uint64) error {
	if err := s.keying.begin(); err != nil {
		return err
	}
	defer s.keying.end()
	info, err := s.keyed(was.ID)
	if err != nil || s.keying.turns[was.ID] != turn {
		return ignoreNoKey(err)
	}
	if info.Key.Leaving {
		err = s.replaceKey(was.ID, nil)
		if err == nil {
			s.keys.drop(was.ID)
		}
		return err
	}
	// What lay in the database until now is still on the disk: Erase removes it.
	s.keying.settled++
	if err := s.eng.Set(layout.MetaKey(metaErased), (&erasure{}).row(s.incarnation), pebble.NoSync); err != nil {
		return engineError(err)
	}
	next := *info.Key
	next.Settled = true
	return s.replaceKey(was.ID, &next)
}

func ignoreNoKey(err error) error {
	if errors.Is(err, ErrNoKey) {
		return nil
	}
	return err
}

// settling is one pass of Settle.
type settling struct {
	s        *Store
	ctx      context.Context
	id       note.DatabaseID
	progress func(uint64)
	key      *sealKey // nil if the database is to have none
	looked   uint64
	written  int
	skipped  int // notes that changed meanwhile
	left     int // notes that cannot be read
	errs     []error
}

// settleErrors bounds the errors of notes that one pass returns.
const settleErrors = 10

// passOver counts a note that stays as it is if err says that it cannot be read. It returns other errors.
func (p *settling) passOver(id note.ID, err error) error {
	if !slices.ContainsFunc([]error{ErrDamaged, ErrMismatch, ErrNotFound, ErrAway}, func(unreadable error) bool {
		return errors.Is(err, unreadable)
	}) {
		return err
	}
	if p.left++; len(p.errs) < settleErrors {
		p.errs = append(p.errs, fmt.Errorf("note %d: %w", id, err))
	}
	return nil
}

// unfinished returns the error of a pass that left notes as they were.
func (p *settling) unfinished() error {
	if p.left == 0 {
		p.errs = []error{errChanged}
	}
	return fmt.Errorf("store: settle database %s: %d notes are left: %w", p.id, p.left+p.skipped,
		errors.Join(p.errs...))
}

// resealed is a note that is to be written in another form.
type resealed struct {
	id      note.ID
	recipe  note.RecipeID // at the time when it was prepared
	message *Message      // nil if the recipe stays
	objects []*Message
}

func (r *resealed) release() {
	if r.message != nil {
		r.message.Release()
	}
	for _, m := range r.objects {
		m.Release()
	}
}

func (p *settling) pass(info *layout.Info) (err error) {
	if p.key, err = p.s.writeKey(info); err != nil {
		return err
	}
	if p.key != nil {
		if err := p.dropViews(); err != nil {
			return err
		}
	}
	for from, more := note.ID(0), true; more; {
		if err := errors.Join(p.ctx.Err(), p.s.space.admit()); err != nil {
			return err
		}
		if from, more, err = p.step(from); err != nil {
			return fmt.Errorf("store: settle database %s: %w", p.id, err)
		}
		if p.progress != nil {
			p.progress(p.looked)
		}
	}
	return p.ctx.Err()
}

// dropViews removes the rows of views, which hold content and are not sealed. A database with a key has none.
func (p *settling) dropViews() error {
	return p.s.Derive(p.id, func(_ pebble.Reader, num uint32, b *pebble.Batch) error {
		drop := func(lo []byte, k layout.Kind) error {
			return b.DeleteRange(lo, layout.After(layout.Prefix(num, k)), nil)
		}
		return errors.Join(
			drop(layout.IDKey(num, layout.KindView, maxIndex+1), layout.KindView),
			drop(layout.Prefix(num, layout.KindViewNote), layout.KindViewNote),
			drop(layout.Prefix(num, layout.KindViewMeta), layout.KindViewMeta))
	})
}

// step prepares and writes a few notes from a note id on. It returns the next id.
func (p *settling) step(from note.ID) (next note.ID, more bool, err error) {
	var list []*resealed
	defer func() {
		for _, r := range list {
			r.release()
		}
	}()
	err = p.s.Read(p.ctx, note.System, p.id, func(r *Reader) error {
		bytes := uint64(0)
		var failed error
		err := r.everyNote(from, func(id note.ID, n *layout.Note, err error) bool {
			next, p.looked = id+1, p.looked+1
			var x *resealed
			if err == nil {
				x, err = p.prepare(r, id, n)
			}
			if failed = p.passOver(id, err); failed != nil {
				return false
			}
			if x == nil {
				return p.ctx.Err() == nil
			}
			list = append(list, x)
			bytes += n.Size
			more = len(list) >= settleNotes || bytes >= settleBytes
			return !more
		})
		return errors.Join(err, failed)
	})
	if err == nil && len(list) > 0 {
		err = p.write(list)
	}
	return next, more, err
}

// everyNote calls fn for every note from an id on, stubs included, until fn returns false. It gets ErrDamaged in place
// of a row that cannot be read.
func (sn *snapshot) everyNote(from note.ID, fn func(note.ID, *layout.Note, error) bool) error {
	hi := layout.After(layout.Prefix(sn.db.num, layout.KindNote))
	return scanRange(sn.eng, layout.NoteKey(sn.db.num, layout.KindNote, from), hi, func(k, v []byte) error {
		n, err := layout.ReadNote(v)
		if err != nil {
			err = fmt.Errorf("%w: its row in database %s", ErrDamaged, sn.db.id)
		}
		if !fn(note.ID(layout.Tail64(k)), n, err) {
			return errStop
		}
		return nil
	})
}

// prepare makes the objects of a note in the form that it is to have. It returns nil if the note has that form.
func (p *settling) prepare(r *Reader, id note.ID, n *layout.Note) (_ *resealed, err error) {
	rows, err := p.rows(r.eng, r.db.num, id, n.Attached)
	if err != nil {
		return nil, err
	}
	x := &resealed{id: id, recipe: n.Recipe}
	defer func() {
		if err != nil {
			x.release()
		}
	}()
	some := false
	for _, row := range rows {
		if row.sealed == (p.key != nil) {
			continue
		}
		some = true
		for _, a := range row.content.Attachments {
			loc, k, err := r.findAttached(a.Digest)
			if err != nil {
				return nil, err
			}
			from := &Message{s: p.s.objects, key: k, objects: []pinned{{name: k.name(a.Digest), loc: loc}}}
			f, err := (&Object{Digest: a.Digest, Size: a.Size, m: from}).form(p.key)
			if err != nil {
				return nil, err
			}
			if f != from {
				x.objects = append(x.objects, f)
			}
		}
	}
	if n.Recipe != 0 {
		row, k, err := p.s.storedRecipe(r.eng, n.Recipe)
		if err != nil {
			return nil, err
		}
		if k != p.key {
			d, size, _, err := RecipeParts(row)
			if err != nil {
				return nil, err
			}
			from := &Message{s: p.s.objects, key: k, Digest: d, Size: size, row: row}
			if x.message, err = from.form(p.key); err != nil {
				return nil, err
			}
			some = true
		}
	}
	if !some {
		return nil, nil
	}
	return x, nil
}

// contentRow is a row with content of a note: its own, or that of a leaf.
type contentRow struct {
	key, plain []byte
	sealed     bool
	content    note.Content
	names      []note.Digest // of the objects, as the row has them
}

// rows returns the rows with content of a note.
func (p *settling) rows(eng pebble.Reader, num uint32, id note.ID, leaves bool) (out []contentRow, err error) {
	add := func(key, v []byte, leaf bool) error {
		row := contentRow{key: append([]byte(nil), key...), sealed: layout.IsSealed(v)}
		plain, err := p.s.Unseal(key, v)
		if err != nil {
			return err
		}
		row.plain = append([]byte(nil), plain...)
		if leaf {
			row.content, _, err = note.ReadContent(row.plain)
		} else {
			var c *layout.Content
			if c, err = layout.ReadContentRow(row.plain); err == nil {
				row.content = c.Content
			}
		}
		if err != nil {
			return fmt.Errorf("%w: content of note %d of database %s", ErrDamaged, id, p.id)
		}
		var k *sealKey
		if row.sealed {
			k = p.s.keys.of(p.id)
		}
		row.names = k.namesIn(&row.content)
		out = append(out, row)
		return nil
	}
	key := layout.NoteKey(num, layout.KindContent, id)
	v, err := getValue(eng, key)
	if err == nil {
		err = add(key, v, false)
	}
	if err != nil || !leaves {
		return out, err
	}
	return out, scan(eng, layout.NoteKey(num, layout.KindLeaf, id), func(k, v []byte) error { return add(k, v, true) })
}

// write writes notes in the form that they are to have, in one batch.
func (p *settling) write(list []*resealed) error {
	db, err := p.s.dbs.acquire(p.id)
	if err != nil {
		return err
	}
	defer p.s.dbs.release(db)
	c, err := p.apply(db, list)
	if err != nil || c.batch == nil {
		return err
	}
	return p.s.finish(c)
}

func (p *settling) apply(db *database, list []*resealed) (commit, error) {
	db.write.Lock()
	defer db.write.Unlock()
	if db.gone {
		return commit{}, fmt.Errorf("%w: database %s", ErrNotFound, p.id)
	}
	st := *db.cur.Load()
	if k, err := p.s.writeKey(st.info); err != nil || k != p.key {
		p.skipped += len(list) // its key was set or dropped meanwhile
		return commit{}, err
	}
	var plans []plan
	for _, r := range list {
		x, err := p.plan(db.num, r)
		switch {
		case errors.Is(err, errChanged), errors.Is(err, ErrNotFound):
			p.skipped++
		case err != nil:
			if err := p.passOver(r.id, err); err != nil {
				return commit{}, err
			}
		default:
			plans = append(plans, x)
		}
	}
	if len(plans) == 0 {
		return commit{}, nil
	}
	sp, ceiling := p.s.hz.take(len(plans), nil)
	applied := false
	defer func() {
		if !applied { // the horizon would never pass the sequences
			_ = p.s.die(errors.New("settle ended between its numbers and its batch"))
		}
	}()
	b := p.s.eng.NewBatch()
	if ceiling != 0 {
		putUint(b, metaCeiling, ceiling)
	}
	for i := range plans {
		p.put(b, db.num, &plans[i], note.RecipeID(sp.first+uint64(i)))
	}
	p.s.timed(b)
	db.publish.Lock()
	defer db.publish.Unlock()
	// The rows of notes in memory may have the recipes of before.
	st.recent, st.listings = forgotten(&st.counters.Ledger), &listings{}
	p.s.dbs.listed.forget(db)
	err := p.s.eng.ApplyNoSyncWait(b, pebble.Sync)
	applied = true
	if err != nil {
		return commit{}, p.s.die(err)
	}
	db.cur.Store(&st)
	p.written += len(plans)
	return commit{batch: b, span: sp}, nil
}

// errChanged means that a note changed since it was prepared.
var errChanged = errors.New("store: the note changed")

// plan is a note that will be written, with its rows as they are while the database is locked.
type plan struct {
	*resealed
	n    *layout.Note
	rows []contentRow
}

// plan returns the rows of a note, or errChanged if it changed since it was prepared.
func (p *settling) plan(num uint32, r *resealed) (x plan, err error) {
	v, err := getValue(p.s.eng, layout.NoteKey(num, layout.KindNote, r.id))
	if err != nil {
		return x, err
	}
	x.resealed = r
	if x.n, err = layout.ReadNote(v); err != nil || x.n.Recipe != r.recipe {
		return x, errChanged
	}
	if x.rows, err = p.rows(p.s.eng, num, r.id, x.n.Attached); err != nil {
		return x, err
	}
	for i := range x.rows {
		if x.rows[i].sealed == (p.key != nil) {
			continue
		}
		for _, name := range p.key.namesIn(&x.rows[i].content) {
			if r.has(name) {
				continue
			}
			if _, err := p.s.locate(p.s.eng, name); err != nil {
				return x, errChanged
			}
		}
	}
	return x, nil
}

// put writes the rows of one note. recipe is the id of its message, if that is new.
func (p *settling) put(b *pebble.Batch, num uint32, x *plan, recipe note.RecipeID) {
	for i := range x.rows {
		p.putContent(b, num, x.id, &x.rows[i])
	}
	for _, m := range x.objects {
		for _, o := range m.objects {
			if o.isNew {
				set(b, layout.Key(layout.SpaceObject, o.name[:]), o.loc.Append(nil))
			}
		}
	}
	m := x.message
	if m == nil {
		return
	}
	if m.recipe == 0 {
		m.recipe = recipe
		m.put(b)
	}
	del(b, layout.RecipeRefKey(x.n.Recipe, num, x.id))
	set(b, layout.SweepRecipe(x.n.Recipe), nil)
	x.n.Recipe = m.recipe
	set(b, layout.RecipeRefKey(x.n.Recipe, num, x.id), nil)
	set(b, layout.NoteKey(num, layout.KindNote, x.id), layout.AppendNote(nil, x.n))
}

// has reports whether the note brings an object.
func (r *resealed) has(name note.Digest) bool {
	for _, m := range r.objects {
		for _, o := range m.objects {
			if o.name == name {
				return true
			}
		}
	}
	return false
}

// putContent writes a row with content, and the references to its objects.
func (p *settling) putContent(b *pebble.Batch, num uint32, id note.ID, row *contentRow) {
	set(b, row.key, p.key.sealContent(p.s.env, row.key, row.plain, &row.content))
	if row.sealed == (p.key != nil) {
		return
	}
	for _, name := range row.names {
		del(b, layout.ObjectByNote(name, num, id))
		set(b, layout.SweepObject(name), nil)
	}
	for _, name := range p.key.namesIn(&row.content) {
		set(b, layout.ObjectByNote(name, num, id), nil)
	}
}
