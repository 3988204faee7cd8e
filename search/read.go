package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"doublet/note"
	"doublet/search/index"
	"doublet/store"
	"doublet/store/layout"
)

// learned is the result of reading one note.
type learned struct {
	db  note.DatabaseID
	id  note.ID
	seq uint64
	// date is the note's date. what is nil if the note has no text. gone is set if the note no longer exists.
	date int64
	what *analysed
	gone bool
	// message is the recipe id of the note's message, 0 for none.
	message note.RecipeID
}

// step collects the changes that are written to the index in one batch.
type step struct {
	list []learned
	// bytes is the size of list, and room the size from which the step is full.
	bytes, room int
	// begin holds databases that are new to the index. lost holds those that could not be read, each with the sequence
	// before the first change that was missed. drop holds those to be removed.
	begin map[note.DatabaseID]bool
	lost  map[note.DatabaseID]uint64
	drop  map[note.DatabaseID]bool
	// upto caches the positions of the databases used in this step.
	upto map[note.DatabaseID]*reach
}

// reach is the position of a database's builds within a step.
type reach struct {
	active bool // there is an active build
	// tail is set if there are enough notes behind the active build to index them.
	tail bool
	upto note.ID
	next note.ID // the position of the next build
	// ids holds the numbers of the active and the next build, 0 for none.
	ids [2]uint32
	// read holds the messages that this step has read already.
	read map[note.ID]note.RecipeID
}

func newStep(room int) *step {
	return &step{
		room:  room,
		begin: map[note.DatabaseID]bool{}, lost: map[note.DatabaseID]uint64{}, drop: map[note.DatabaseID]bool{},
		upto: map[note.DatabaseID]*reach{},
	}
}

func (t *step) full() bool { return t.bytes >= t.room }

// read processes a batch of changes from the feed. It reports whether there are more.
func (w *worker) read(ctx context.Context) (more bool, err error) {
	var list []store.Change
	next, err := w.s.store.Feed(w.cur, func(c store.Change) bool {
		if len(list) == batchChanges {
			more = true
			return false
		}
		list = append(list, c)
		return true
	})
	if errors.Is(err, store.ErrFeedCut) {
		return true, w.cut(ctx)
	}
	if err != nil || next == w.cur {
		return false, err
	}
	t := newStep(w.room)
	for _, list := range byDatabase(list) {
		for len(list) > 0 {
			if err := ctx.Err(); err != nil {
				return false, err
			}
			done, err := w.changes(ctx, t, list)
			if err != nil {
				return false, err
			}
			list = list[done:]
			if t.full() {
				// The cursor stays: after a crash the whole batch is read again.
				if err := w.write(ctx, t, w.cur); err != nil {
					return false, err
				}
				t = newStep(w.room)
			}
		}
	}
	return more, w.write(ctx, t, next)
}

// byDatabase groups changes by database, and keeps one change of each note: at the place of its first, with the
// sequence of its last. The notes of a group are in the order in which they were created or first changed.
func byDatabase(list []store.Change) [][]store.Change {
	type key struct {
		db note.DatabaseID
		id note.ID
	}
	var out [][]store.Change
	groups := make(map[note.DatabaseID]int)
	places := make(map[key]int, len(list))
	for _, c := range list {
		n, ok := groups[c.Database]
		if !ok {
			n = len(out)
			groups[c.Database], out = n, append(out, nil)
		}
		if at, ok := places[key{c.Database, c.Note}]; ok {
			out[n][at].Seq = c.Seq
			continue
		}
		places[key{c.Database, c.Note}] = len(out[n])
		out[n] = append(out[n], c)
	}
	return out
}

// learnAll reads the notes of changes until the step is full. It returns the number of changes processed.
func (w *worker) learnAll(r *store.Reader, at *reach, t *step, list []store.Change, kind texts) (done int, err error) {
	for _, c := range list {
		l := learned{db: c.Database, id: c.Note, seq: c.Seq}
		what, err := w.learn(r, at, &l, kind)
		if err != nil {
			return done, err
		}
		done++
		if what {
			t.add(l)
		}
		if t.full() {
			break
		}
	}
	return done, nil
}

// changes reads the notes of changes in one database. It returns the number of changes processed.
func (w *worker) changes(ctx context.Context, t *step, list []store.Change) (done int, err error) {
	db := list[0].Database
	if ok, known := w.kinds[db]; known && !ok || t.drop[db] {
		return len(list), nil
	}
	at, err := w.reach(t, db)
	if err != nil {
		return 0, err
	}
	var own error // an error of the index or of the engine, not of opening the database
	err = w.s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		info := r.Info()
		kind, ok := w.s.indexes(&info)
		if len(w.kinds) > 100_000 {
			clear(w.kinds)
		}
		w.kinds[db] = ok
		if !ok {
			// The cursor passes these changes, so a build that is there lacks them: it is dropped in the same batch.
			// If the database is switched on again meanwhile, look begins a new build.
			if at.active {
				t.drop[db] = true
			}
			done = len(list)
			return nil
		}
		if !at.active {
			t.begin[db] = true
			done = len(list)
			return nil
		}
		done, own = w.learnAll(r, at, t, list, kind)
		return own
	})
	switch {
	case ends(own) || ctx.Err() != nil:
		return done, errors.Join(own, ctx.Err())
	case errors.Is(err, store.ErrNotFound):
		t.drop[db] = true
	case err != nil && errors.Is(err, store.ErrClosed):
		return 0, err
	case err != nil:
		// The database is out of service, damaged or partly away: continue here when it is available again.
		t.lose(db, list)
	default:
		return done, nil
	}
	return len(list), nil
}

func (t *step) add(l learned) {
	if l.what != nil {
		t.bytes += l.what.size()
	}
	t.list = append(t.list, l)
}

// reach returns the position of a database.
func (w *worker) reach(t *step, db note.DatabaseID) (*reach, error) {
	if at := t.upto[db]; at != nil {
		return at, nil
	}
	s, err := w.x.State(db)
	if err != nil {
		return nil, err
	}
	at := &reach{}
	if s.Active != nil {
		at.active, at.upto, at.ids[0] = true, s.Active.Upto, s.Active.ID
	}
	if s.Next != nil {
		at.next, at.ids[1] = s.Next.Upto, s.Next.ID
	}
	t.upto[db] = at
	return at, nil
}

// learn reads a note that has changed, if a build contains it. It reports whether there is something to write to the
// index. The notes behind the builds are left to the queries until there are enough.
func (w *worker) learn(r *store.Reader, at *reach, l *learned, kind texts) (bool, error) {
	if l.id > at.upto {
		at.tail = at.tail || int(l.id-at.upto) >= w.s.opt.Tail
		if l.id > at.next {
			return false, nil
		}
	}
	row, err := r.Row(l.id)
	if errors.Is(err, store.ErrNotFound) {
		l.gone = true
		return true, nil
	}
	if errors.Is(err, store.ErrDamaged) {
		w.notes.unreadable(l, err)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if known, err := w.known(at, l, row); known || err != nil {
		return false, err
	}
	if at.read == nil {
		at.read = make(map[note.ID]note.RecipeID)
	}
	at.read[l.id] = row.Recipe
	return true, w.notes.fill(r, row, l, kind)
}

// known reports whether the builds already contain the note's current message. Then only its flags or folders changed.
func (w *worker) known(at *reach, l *learned, row *layout.Note) (bool, error) {
	if row.Recipe == 0 {
		return false, nil
	}
	if at.read[l.id] == row.Recipe {
		return true, nil
	}
	for i, upto := range []note.ID{at.upto, at.next} {
		if at.ids[i] == 0 || l.id > upto {
			continue
		}
		if had, err := w.x.Kept(l.db, at.ids[i], l.id); err != nil || had != row.Recipe {
			return false, err
		}
	}
	return true, nil
}

// reopen makes the builds of a database continue with the changes after a sequence.
func reopen(u *index.Writer, db note.DatabaseID, since uint64) error {
	s, err := u.State(db)
	if err != nil {
		return err
	}
	for _, b := range []*index.Build{s.Active, s.Next} {
		if b != nil && b.Seq == 0 {
			b.Done, b.Seq = false, since
		}
	}
	return nil
}

// write writes a step to the index and moves the cursor.
func (w *worker) write(ctx context.Context, t *step, next store.Cursor) error {
	err := w.x.Update(func(u *index.Writer) error {
		for db := range t.drop {
			if err := u.Drop(db); err != nil {
				return err
			}
		}
		for db := range t.begin {
			if err := u.Begin(db); err != nil {
				return err
			}
		}
		for i := range t.list {
			if l := &t.list[i]; !t.drop[l.db] {
				if err := w.put(u, l); err != nil {
					return err
				}
			}
		}
		for db, since := range t.lost {
			if err := reopen(u, db, since); err != nil {
				return err
			}
		}
		u.Cursor(index.Cursor{Incarnation: next.Incarnation, Seq: next.Seq})
		return nil
	})
	if err != nil {
		return err
	}
	w.cur = next
	w.written(t)
	for db := range t.begin {
		w.addPending(db)
	}
	for db, at := range t.upto {
		if at.tail {
			w.addTail(db)
		}
	}
	for db := range t.lost {
		w.addPending(db)
		w.blocked[db] = w.s.env.Clock.Now().Add(retryEvery)
	}
	return w.pack(ctx, t)
}

// put writes the result of reading a changed note into the builds that contain it.
func (w *worker) put(u *index.Writer, l *learned) error {
	s, err := u.State(l.db)
	if err != nil {
		return err
	}
	for _, b := range []*index.Build{s.Active, s.Next} {
		if b == nil || l.id > b.Upto {
			continue
		}
		if err := w.again(u, b, l); err != nil {
			return err
		}
	}
	return nil
}

// again writes the result of reading a note anew into a build that contains it.
func (w *worker) again(u *index.Writer, b *index.Build, l *learned) error {
	if l.gone {
		b.Gone++
		b.MaxSeq = max(b.MaxSeq, l.seq)
		u.Keep(l.db, b, l.id, 0)
		return nil
	}
	if l.what == nil {
		return nil
	}
	if l.message != 0 {
		had, err := u.Kept(l.db, b, l.id)
		if err != nil || had == l.message {
			return err
		}
	}
	// The note had other words before, or was deleted and came back.
	b.Again = true
	u.Put(l.db, b, w.piece(u, b, l, true))
	return nil
}

// first counts a note that a build has not contained before, and returns its piece, nil for none.
func (w *worker) first(u *index.Writer, b *index.Build, l *learned) *index.Piece {
	b.Upto = l.id
	if l.what == nil {
		return nil
	}
	a := l.what
	b.Notes++
	b.Text += a.bytes
	b.Encrypted += uint64(a.skipped.Encrypted)
	b.Broken += uint64(a.skipped.Broken)
	b.Beyond += uint64(a.skipped.Beyond)
	mutable := l.message == 0
	b.Again = b.Again || mutable
	return w.piece(u, b, l, mutable)
}

func (w *worker) piece(u *index.Writer, b *index.Build, l *learned, mutable bool) *index.Piece {
	u.Keep(l.db, b, l.id, l.message)
	b.MaxSeq = max(b.MaxSeq, l.seq)
	w.s.stat.read(l.what)
	p := l.what.piece()
	p.Note, p.Date = l.id, l.date
	if mutable {
		p.Flags |= index.Mutable
	}
	if l.what.later && !w.s.opt.NoAttachments {
		u.Late(l.db, b, l.id, false)
	}
	return p
}

// lose records that the changes of a database could not be read.
func (t *step) lose(db note.DatabaseID, list []store.Change) {
	if _, ok := t.lost[db]; !ok {
		first := slices.MinFunc(list, func(a, b store.Change) int { return cmp.Compare(a.Seq, b.Seq) })
		t.lost[db] = max(first.Seq, 2) - 1
	}
}

// later reports whether the step read notes whose attachments are still to be read.
func (t *step) later() bool {
	return slices.ContainsFunc(t.list, func(l learned) bool { return l.what != nil && l.what.later })
}

// pack turns waiting records into segments where there are enough.
func (w *worker) pack(ctx context.Context, t *step) error {
	for db := range t.upto {
		if err := w.packOne(ctx, db); err != nil {
			return err
		}
	}
	return nil
}

func (w *worker) packOne(ctx context.Context, db note.DatabaseID) error {
	s, err := w.x.State(db)
	if err != nil {
		return err
	}
	if (s.Active == nil || !s.Active.Full()) && (s.Next == nil || !s.Next.Full()) {
		if s.Active.Mergeable() || s.Next.Mergeable() {
			w.merges.add(db)
		}
		return ctx.Err()
	}
	merge := false
	err = w.x.Update(func(u *index.Writer) error {
		merge, err = w.packFull(u, db)
		return err
	})
	if merge {
		w.merges.add(db)
	}
	return err
}

// packFull packs the full builds of a database into segments. merge is set if one has segments to merge.
func (w *worker) packFull(u *index.Writer, db note.DatabaseID) (merge bool, err error) {
	s, err := u.State(db)
	if err != nil {
		return false, err
	}
	for _, b := range []*index.Build{s.Active, s.Next} {
		if b == nil || !b.Full() {
			continue
		}
		if err := u.Pack(db, b); err != nil {
			return merge, err
		}
		w.s.stat.segments.Inc()
		merge = merge || b.Mergeable()
	}
	return merge, nil
}

// build runs one step of reading the notes of one database that its build lacks, and waits as its share demands. It
// reports whether there was such a database.
func (w *worker) build(ctx context.Context) (bool, error) {
	begun := w.s.env.Clock.Now()
	for range len(w.pending) {
		db := w.pending[0]
		w.pending = w.pending[1:]
		if until, ok := w.blocked[db]; ok && begun.Before(until) {
			w.pending = append(w.pending, db)
			continue
		}
		st, err := w.x.State(db)
		if err != nil {
			return false, err
		}
		if st.Active == nil { // removed meanwhile
			delete(w.tails, db)
			continue
		}
		share := w.s.opt.RebuildShare
		if st.Active.Done && st.Next == nil {
			share = w.s.opt.Share // its newest notes
		}
		more := false
		if st.Next != nil && st.Active.Done && w.tails[db] { // it answers until the next build is complete
			_, err = w.buildOne(ctx, db, st.Active)
		}
		if err == nil {
			more, err = w.buildOne(ctx, db, st.Growing())
		}
		if more {
			w.pending = append(w.pending, db)
		}
		w.s.pace(ctx, begun, share)
		return true, err
	}
	return false, nil
}

// Limits of one build step: rows when catching up, notes when reading on.
const (
	buildRows  = 2000
	buildNotes = 512
)

// buildOne runs one step of building a database. It reports whether there is more to do.
func (w *worker) buildOne(ctx context.Context, db note.DatabaseID, b *index.Build) (more bool, err error) {
	t := newStep(w.room)
	p := progress{build: b.ID, last: b.Upto, since: b.Seq}
	var own error // an error in processing the notes, not in opening the database
	err = w.s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		info := r.Info()
		kind, ok := w.s.indexes(&info)
		if !ok {
			return store.ErrNotFound
		}
		if p.since != 0 {
			p.since, own = w.catchUp(r, t, db, b, kind)
			return own
		}
		p.last, p.ended, own = w.further(r, t, db, b.Upto, kind)
		return own
	})
	switch {
	case ends(own) || ctx.Err() != nil:
		return true, errors.Join(own, ctx.Err())
	case errors.Is(err, store.ErrNotFound):
		return false, w.x.Update(func(u *index.Writer) error { return u.Drop(db) })
	case errors.Is(err, store.ErrClosed):
		return true, err
	case err != nil:
		w.block(db, err)
		return true, nil
	}
	if b.Done && p.ended {
		delete(w.tails, db)
	}
	more = !p.ended
	if b.Done && b.Seq == 0 && p.last == b.Upto { // nothing was lacking
		return more, nil
	}
	err = w.x.Update(func(u *index.Writer) error { return w.advance(u, db, t, &p) })
	w.written(t)
	if err == nil {
		err = w.packOne(ctx, db)
	}
	return more, err
}

// ends reports whether an error in reading notes ends the build. Damage and notes that are away concern one database.
func ends(err error) bool {
	return err != nil && !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrAway)
}

// written follows each write of a step to the index.
func (w *worker) written(t *step) {
	w.dirty = true
	if t.later() {
		signal(w.attachments.wake)
	}
}

// progress records how far one step has built an index: up to a note, or up to a sequence of changes.
type progress struct {
	build uint32
	last  note.ID
	since uint64
	ended bool
}

// advance writes the notes of a step into the build, unless another one has replaced it. A complete build replaces the
// active one.
func (w *worker) advance(u *index.Writer, db note.DatabaseID, t *step, p *progress) error {
	s, err := u.State(db)
	if err != nil {
		return err
	}
	to := s.Growing()
	if s.Active != nil && s.Active.ID == p.build {
		to = s.Active
	}
	if to == nil || to.ID != p.build {
		return nil
	}
	var pieces []*index.Piece
	for i := range t.list {
		l := &t.list[i]
		if l.id <= to.Upto {
			if err := w.again(u, to, l); err != nil {
				return err
			}
		} else if p := w.first(u, to, l); p != nil {
			pieces = append(pieces, p)
		}
	}
	if err := u.Add(db, to, pieces); err != nil {
		return err
	}
	to.Upto, to.Seq = max(to.Upto, p.last), p.since
	if !p.ended {
		return nil
	}
	to.Done = true
	if to == s.Next {
		return u.Swap(db)
	}
	return nil
}

// catchUp reads the changes after a build's Seq, among the notes that the build contains. It returns the new Seq, or 0
// if it has caught up.
func (w *worker) catchUp(r *store.Reader, t *step, db note.DatabaseID, b *index.Build, kind texts) (uint64, error) {
	rows, since := 0, b.Seq
	var inner error
	at := &reach{active: true, upto: b.Upto, ids: [2]uint32{b.ID}}
	err := r.Since(since, func(seq uint64, id note.ID) bool {
		l := learned{db: db, id: id, seq: seq}
		what := false
		if what, inner = w.learn(r, at, &l, kind); inner != nil {
			return false
		}
		if what {
			t.add(l)
		}
		since = seq
		rows++
		return rows < buildRows && !t.full()
	})
	if err = errors.Join(err, inner); err != nil {
		return b.Seq, err
	}
	if rows < buildRows && !t.full() {
		since = 0
	}
	return since, nil
}

// further reads the notes after upto. It returns the last note read. ended means that there are no more notes.
func (w *worker) further(r *store.Reader, t *step, db note.DatabaseID, upto note.ID,
	kind texts) (last note.ID, ended bool, err error) {
	last, ended = upto, true
	rows, begun := 0, w.s.env.Clock.Now()
	e := r.Notes(upto+1, func(id note.ID, row *layout.Note) bool {
		l := learned{db: db, id: id, seq: row.Seq}
		if err = w.notes.fill(r, row, &l, kind); err != nil {
			return false
		}
		t.add(l)
		last = id
		rows++
		ended = rows < buildNotes && !t.full() && w.s.env.Clock.Now().Sub(begun) < time.Second
		return ended
	})
	if err == nil && errors.Is(e, store.ErrDamaged) {
		if rows > 0 {
			return last, false, nil // the next step begins at the damaged row
		}
		return w.pastDamage(r, t, db, upto, kind)
	}
	if ended {
		last = max(last, r.Counters().NextNote-1) // behind it there may be notes that are gone
	}
	return last, ended, errors.Join(e, err)
}
