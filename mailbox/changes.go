package mailbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Changes lists the objects that changed since a state. Each object is in one list only.
type Changes struct {
	Created, Updated, Destroyed []note.UNID
	State                       State // the state that the client has after these changes
	More                        bool
	// CountsOnly reports, for folders, that only the message counts of the updated ones changed.
	CountsOnly bool
}

func (c *Changes) count() int { return len(c.Created) + len(c.Updated) + len(c.Destroyed) }

// tells returns ErrForgotten if the changes between a state and now cannot be reported to the person.
func (d *Reading) tells(s, now State) error {
	c := d.r.Counters()
	if s.base() < c.Floor || !c.Ledger.Knows(s.Mod) || !c.Ledger.Knows(s.Base) || s.Access != now.Access ||
		s.Mod > c.Ledger.Last {
		return ErrForgotten
	}
	return nil
}

// since checks a state and returns an empty Changes for one type of object. s.Mod may be above the latest change of
// that type if the state was made for another type.
func (d *Reading) since(s State, of func(*States) State) (out Changes, err error) {
	states, err := d.States()
	if err != nil {
		return out, err
	}
	out.State = of(&states)
	if err := d.tells(s, out.State); err != nil {
		return Changes{}, err
	}
	out.State.Mod = max(out.State.Mod, s.Mod)
	return out, nil
}

// walk computes the changes of messages since a state, in the order of their MODSEQs.
type walk struct {
	d *Reading
	s State
	// partial is set if there are folders that the person may not read.
	partial bool
	// whole is set if the person may read folders that have no ACL of their own.
	whole bool
	// left holds the notes that have left a folder of the person since s. told holds the messages already reported as
	// destroyed.
	left map[note.ID]bool
	told map[note.UNID]bool
}

// fate is the kind of change to a message, as the person sees it.
type fate uint8

const (
	nothing fate = iota
	created
	updated
	destroyed
)

// step evaluates one change. It returns the message, its thread (zero if the thread is no longer known) and the kind of
// change.
func (w *walk) step(c *layout.Change) (u note.UNID, thread note.UNID, f fate, err error) {
	if c.Expunged {
		u, thread, f = w.expunged(c)
		return u, thread, f, nil
	}
	row, err := w.d.r.Row(c.Note)
	if err != nil || !isMessage(row) {
		return u, thread, nothing, ignoreGone(err)
	}
	visible, marked, old := w.look(row)
	switch {
	case visible && old:
		f = updated
	case visible:
		f = created
	case row.Hidden() && row.Shown <= w.s.base(): // the person did not see it at the state either
	case row.Created <= w.s.Mod && (marked && row.Shown > w.s.base() || w.left[c.Note]):
		f = destroyed
	}
	return row.UNID, row.Thread, f, nil
}

// expunged is step for an expunge.
func (w *walk) expunged(c *layout.Change) (u note.UNID, thread note.UNID, f fate) {
	if c.Folder == 0 {
		return u, thread, nothing
	}
	w.leave(c)
	if !c.Gone || !w.left[c.Note] || c.Class != 0 && c.Thread.IsZero() { // the last: not a message
		return u, thread, nothing
	}
	// Leave out a message that came and went after s, and one that the person could not see at any time.
	if c.Class != 0 && (c.Created > w.s.Mod || c.Hidden && c.Shown <= w.s.base()) || w.told[c.UNID] {
		return c.UNID, c.Thread, nothing
	}
	return c.UNID, c.Thread, destroyed
}

// leave records that an expunged note has left a folder that the person may read. If the folder no longer exists, the
// database's ACL decides. That is right: a state from a time when the folder had its own ACL is rejected as unknown.
func (w *walk) leave(c *layout.Change) {
	mine := !w.partial
	if !mine {
		_, err := w.d.r.Folder(c.Folder)
		mine = err != nil && w.whole || w.d.readable(c.Folder) != nil
	}
	if mine {
		w.left[c.Note] = true
	}
}

// look evaluates a message for the person. visible: the person sees it. marked: it is in one of the person's folders,
// with \Deleted set there. old: the person certainly saw it at the state.
func (w *walk) look(row *layout.Note) (visible, marked, old bool) {
	for i := range row.Members {
		m := &row.Members[i]
		switch {
		case w.d.readable(m.Folder) == nil:
		case m.Deleted:
			marked = true
		default:
			visible = true
			old = old || !w.partial || m.UID <= w.s.UID
		}
	}
	return visible, marked, old && max(row.Created, row.Shown) <= w.s.base()
}

func (d *Reading) walk(s State) (*walk, error) {
	a := accessOf(d.r, &d.who)
	w := &walk{d: d, s: s, partial: a.partial, left: map[note.ID]bool{}, told: map[note.UNID]bool{}}
	info := d.r.Info()
	w.whole = rightsOf(&info.ACL, &d.who)&note.Read != 0
	if s.Base == 0 {
		return w, nil
	}
	// A message that left a folder in the part already reported may be reported as destroyed later. So read that part
	// again.
	err := d.r.Changes(s.base(), func(mod note.ModSeq, c layout.Change) bool {
		if mod <= s.Mod && c.Expunged && c.Folder != 0 && !c.Gone {
			w.leave(&c)
		}
		return mod < s.Mod
	})
	return w, err
}

// EmailChanges returns the messages that were created, updated or destroyed since a state, at most limit of them (0:
// all).
//
// Implements: RFC 8621 §4.3 Email/changes
func (d *Reading) EmailChanges(since State, limit int) (Changes, error) {
	out, err := d.since(since, func(s *States) State { return s.Email })
	if err != nil {
		return out, err
	}
	w, err := d.walk(since)
	if err != nil {
		return out, err
	}
	var inner error
	last := since.Mod
	err = d.r.Changes(since.Mod, func(mod note.ModSeq, c layout.Change) bool {
		u, _, f, err := w.step(&c)
		if inner = err; err != nil {
			return false
		}
		if f != nothing && limit > 0 && out.count() >= limit {
			out.More = true
			return false
		}
		switch f {
		case created:
			out.Created = append(out.Created, u)
		case updated:
			out.Updated = append(out.Updated, u)
		case destroyed:
			w.told[u] = true
			out.Destroyed = append(out.Destroyed, u)
		}
		last = mod
		return true
	})
	if out.More {
		out.State = since.part(last, 0)
	}
	return out, errors.Join(err, inner)
}

// touchedThread is a thread to which messages were added or from which messages were removed. mod is the MODSEQ of the
// last such change; old is set if a removed message was certainly there at the state.
type touchedThread struct {
	mod note.ModSeq
	old bool
	// lost is set if a removed message may have been there at the state.
	lost bool
}

// ThreadChanges returns the threads that were created, updated or destroyed since a state. A thread counts as updated
// if messages were added or removed.
//
// Implements: RFC 8621 §3.2 Thread/changes
func (d *Reading) ThreadChanges(since State, limit int) (Changes, error) {
	out, err := d.since(since, func(s *States) State { return s.Email })
	if err != nil {
		return out, err
	}
	w, err := d.walk(since)
	if err != nil {
		return out, err
	}
	touched, err := w.threads()
	if err != nil {
		return out, err
	}
	list := slices.SortedFunc(maps.Keys(touched),
		func(a, b note.UNID) int { return cmp.Compare(touched[a].mod, touched[b].mod) })
	if limit > 0 && len(list) > limit {
		// A MODSEQ belongs to one change only, so the last MODSEQ of each thread is unique.
		list = list[:limit]
		out.More, out.State = true, since.part(touched[list[limit-1]].mod, 0)
	}
	for _, thread := range list {
		live, old, err := w.thread(thread)
		switch t := touched[thread]; {
		case err != nil:
			return out, err
		case live && (old || t.old):
			out.Updated = append(out.Updated, thread)
		case live: // report a thread that the client may not know as new
			out.Created = append(out.Created, thread)
		case t.lost:
			out.Destroyed = append(out.Destroyed, thread)
		}
	}
	return out, nil
}

// threads returns the threads to which messages were added or from which messages were removed.
func (w *walk) threads() (map[note.UNID]touchedThread, error) {
	touched := map[note.UNID]touchedThread{}
	var inner error
	err := w.d.r.Changes(w.s.Mod, func(mod note.ModSeq, c layout.Change) bool {
		u, thread, f, err := w.step(&c)
		if inner = err; err != nil {
			return false
		}
		if f == nothing || f == updated {
			return true
		}
		if thread.IsZero() {
			inner = ErrForgotten // a row of an older version does not hold the thread
			return false
		}
		certain := false
		if f == destroyed {
			w.told[u] = true
			if certain, inner = w.saw(&c); inner != nil {
				return false
			}
		}
		touched[thread] = touchedThread{mod, touched[thread].old || certain, touched[thread].lost || f == destroyed}
		return true
	})
	return touched, errors.Join(err, inner)
}

// saw reports whether the person certainly saw a message at the state. c is the change that took it away.
func (w *walk) saw(c *layout.Change) (bool, error) {
	switch {
	case w.partial:
		return false, nil
	case c.Gone:
		return !c.Hidden && max(c.Created, c.Shown) <= w.s.base(), nil
	case !w.left[c.Note]:
		return false, nil
	}
	// A message that went to the bin was seen at the state if it was there, unless it was marked \Deleted then and
	// unmarked since.
	row, err := w.d.r.Row(c.Note)
	return err == nil && row.Created <= w.s.base(), err
}

// thread evaluates a thread for the person. live: the person sees a message of it. old: the person saw one at the
// state.
func (w *walk) thread(thread note.UNID) (live, old bool, err error) {
	ids, err := w.d.r.Thread(thread)
	if err != nil {
		return false, false, err
	}
	for _, id := range ids {
		row, err := w.d.r.Row(id)
		if err != nil {
			if err = ignoreGone(err); err != nil {
				return false, false, err
			}
			continue
		}
		if isMessage(row) {
			visible, _, before := w.look(row)
			live, old = live || visible, old || before
		}
	}
	return live, old, nil
}

// FolderChanges returns the folders that were created, updated or destroyed since a state, at most limit of them (0:
// all).
//
// Implements: RFC 8621 §2.2 Mailbox/changes
func (d *Reading) FolderChanges(since State, limit int) (Changes, error) {
	out, err := d.since(since, func(s *States) State { return s.Folders })
	if err != nil {
		return out, err
	}
	list, err := d.folderChanges(since)
	if err != nil {
		return out, err
	}
	out.CountsOnly = true
	if limit > 0 && len(list) > limit {
		list = list[:limit]
		out.More, out.State = true, since.part(list[limit-1].mod, list[limit-1].order())
	}
	for _, c := range list {
		switch c.f {
		case created:
			out.Created = append(out.Created, c.unid)
		case updated:
			out.Updated = append(out.Updated, c.unid)
			out.CountsOnly = out.CountsOnly && c.counts
		case destroyed:
			out.Destroyed = append(out.Destroyed, c.unid)
		}
	}
	return out, nil
}

// folderChange is a change to a folder, at one MODSEQ. counts is set if only the message counts of the folder changed.
type folderChange struct {
	mod    note.ModSeq
	unid   note.UNID
	f      fate
	counts bool
}

// order returns the sort position of a folder among those that changed at the same MODSEQ. It is never 0.
func (c *folderChange) order() uint64 { return max(binary.BigEndian.Uint64(c.unid[:8]), 1) }

// folderWalk collects the changes since a state that concern folders.
type folderWalk struct {
	d       *Reading
	since   State
	gone    []folderChange
	rows    map[note.ID]*layout.Note // of folders whose own note changed
	threads map[note.UNID]note.ModSeq
}

func (w *folderWalk) step(mod note.ModSeq, c *layout.Change) error {
	if c.Expunged {
		if c.Gone && c.Folder == 0 && c.Class == note.Folder && c.Created <= w.since.Mod {
			w.gone = append(w.gone, folderChange{mod: mod, unid: c.UNID, f: destroyed})
		}
		if !c.Thread.IsZero() {
			w.threads[c.Thread] = mod
		}
		return nil
	}
	row, err := w.d.r.Row(c.Note)
	switch {
	case err != nil:
		return ignoreGone(err)
	case row.Class == note.Folder:
		w.rows[c.Note] = row
	case isMessage(row):
		w.threads[row.Thread] = mod
	}
	return nil
}

func (d *Reading) folderChanges(since State) (list []folderChange, err error) {
	// A state with After set ends between two folders that changed at the same MODSEQ: read that MODSEQ again.
	from := since.Mod
	if since.After != 0 {
		from--
	}
	w := folderWalk{d: d, since: since, rows: map[note.ID]*layout.Note{}, threads: map[note.UNID]note.ModSeq{}}
	var inner error
	err = d.r.Changes(from, func(mod note.ModSeq, c layout.Change) bool {
		inner = w.step(mod, &c)
		return inner == nil
	})
	if err = errors.Join(err, inner); err != nil {
		return nil, err
	}
	around, err := d.around(w.threads)
	if err != nil {
		return nil, err
	}
	list = w.gone
	for _, h := range d.r.Folders() {
		c := folderChange{mod: max(h.Mod, around[h.Note]), unid: h.UNID, f: updated, counts: true}
		if row := w.rows[h.Note]; row != nil {
			c.mod, c.counts = max(c.mod, row.Mod), false
			if row.Created > since.base() {
				c.f = created
			}
		}
		if c.mod > from && ofMail(h) {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b folderChange) int {
		return cmp.Or(cmp.Compare(a.mod, b.mod), cmp.Compare(a.order(), b.order()))
	})
	return slices.DeleteFunc(list, func(c folderChange) bool { return c.mod <= since.Mod && c.order() <= since.After }),
		nil
}

// maxAround bounds the number of threads that around reads. With more threads, all folders count as changed.
const maxAround = 1000

// around returns the folders that hold messages of the given threads, with the MODSEQ of the latest change. A change to
// a thread affects all these folders, because a folder's count of unread threads depends on messages in other folders.
func (d *Reading) around(threads map[note.UNID]note.ModSeq) (map[note.ID]note.ModSeq, error) {
	out := map[note.ID]note.ModSeq{}
	if len(threads) > maxAround {
		last := note.ModSeq(0)
		for _, mod := range threads {
			last = max(last, mod)
		}
		for _, h := range d.r.AllFolders() {
			out[h.Note] = last
		}
		return out, nil
	}
	for thread, mod := range threads {
		ids, err := d.r.Thread(thread)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			row, err := d.r.Row(id)
			if err != nil {
				if err = ignoreGone(err); err != nil {
					return nil, err
				}
				continue
			}
			for _, m := range row.Members {
				out[m.Folder] = max(out[m.Folder], mod)
			}
		}
	}
	return out, nil
}

// QueryChanges describes how the results of a query changed since a state. A client first deletes Removed, then inserts
// Added in order.
type QueryChanges struct {
	Removed []note.UNID
	Added   []Added
	States  States
	Total   int
}

// Added is a new result and its index in the results.
type Added struct {
	UNID  note.UNID
	Index int
}

// ErrManyChanges reports that there are more changes than the client's limit.
var ErrManyChanges = errors.New("too many changes")

// QueryChanges computes the changes in the results of a query; it ignores the query's window. limit bounds the number
// of changes; a negative limit means no bound. upTo is the last result that the client knows: later additions are left
// out, but only if the query is not mutable.
//
// Implements: RFC 8621 §4.5 Email/queryChanges
func (f *File) QueryChanges(ctx context.Context, q *Query, since State, limit int,
	upTo note.UNID) (QueryChanges, error) {
	var out QueryChanges
	if !q.Exact() {
		return out, ErrForgotten
	}
	err := f.withRoll(ctx, func(l *roll, r *store.Reader) (err error) {
		d := &Reading{f: f, r: r, who: f.who}
		if out.States, err = d.States(); err != nil {
			return err
		}
		if err := d.tells(since, out.States.Email); err != nil {
			return err
		}
		x := f.querying(ctx, l, r, q)
		c, err := x.touched(since)
		if err != nil {
			return err
		}
		last := -1
		if !upTo.IsZero() && !q.mutable() {
			if id, err := r.Find(upTo); err == nil {
				if at, ok := l.find(id); ok {
					last = at
				}
			}
		}
		return x.compare(&out, c, last, limit)
	})
	return out, err
}

// touchedSince holds the messages that may have entered, left or moved within the results.
type touchedSince struct {
	gone []note.UNID
	// again holds entries that may have been results before; fresh holds entries that cannot have been.
	again, fresh map[uint32]bool
}

func (x *querying) touched(since State) (*touchedSince, error) {
	// This reader sees everything, so heads limits the walk to the folders that the person may read.
	d := &Reading{f: x.f, r: x.r, who: x.f.who, heads: readableHeads(x.r, &x.f.who)}
	w, err := d.walk(since)
	if err != nil {
		return nil, err
	}
	c := &touchedSince{again: map[uint32]bool{}, fresh: map[uint32]bool{}}
	threads := map[uint32]bool{}
	byThread, mutable := x.q.threads(), x.q.mutable()
	var inner error
	err = x.r.Changes(since.Mod, func(_ note.ModSeq, ch layout.Change) bool {
		u, thread, f, err := w.step(&ch)
		if inner = err; err != nil {
			return false
		}
		if f == nothing {
			return true
		}
		if f == destroyed {
			w.told[u] = true
			c.gone = append(c.gone, u)
		} else if i, ok := x.l.find(ch.Note); ok {
			c.add(uint32(i), f == created && x.createdSince(ch.Note, since), f == created || mutable)
		}
		if byThread && (f != updated || mutable) {
			if thread.IsZero() {
				inner = ErrForgotten
				return false
			}
			if n, ok := x.l.threads[thread]; ok {
				threads[n] = true
			}
		}
		return true
	})
	if len(threads) > 0 {
		x.touchThreads(c, threads)
	}
	return c, errors.Join(err, inner)
}

// add adds the entry i: as new, or as one whose place in the results may be another.
func (c *touchedSince) add(i uint32, fresh, again bool) {
	switch {
	case fresh:
		c.fresh[i] = true
	case again:
		c.again[i] = true
	}
}

// touchThreads adds the entries of threads in which a message changed.
func (x *querying) touchThreads(c *touchedSince, threads map[uint32]bool) {
	for i := range x.l.entries {
		if e := &x.l.entries[i]; threads[e.thread] && x.shown[e.members] && !c.fresh[uint32(i)] {
			c.again[uint32(i)] = true
		}
	}
}

// createdSince reports whether a message was created after a state. A message that only became visible to the person
// since then is not new: it may have been a result before.
func (x *querying) createdSince(id note.ID, since State) bool {
	row, err := x.r.Row(id)
	return err == nil && row.Created > since.base()
}

// compare fills out with the touched messages that are results now (Added) and those that may have been results before
// (Removed).
func (x *querying) compare(out *QueryChanges, c *touchedSince, last, limit int) error {
	removed := c.gone
	index, past := 0, false
	err := x.each(func(i uint32) bool {
		if !past && (c.again[i] || c.fresh[i]) {
			row, err := x.r.Row(x.l.entries[i].id)
			if err != nil {
				return true
			}
			out.Added = append(out.Added, Added{row.UNID, index})
		}
		past = past || int(i) == last
		index++
		return true
	})
	if err != nil {
		return err
	}
	out.Total = index
	for _, i := range sortedKeys(c.again) {
		row, err := x.r.Row(x.l.entries[i].id)
		if err != nil {
			return err
		}
		removed = append(removed, row.UNID)
	}
	out.Removed = removed
	if limit >= 0 && len(out.Removed)+len(out.Added) > limit {
		return ErrManyChanges
	}
	return nil
}

func sortedKeys(m map[uint32]bool) []uint32 {
	out := make([]uint32, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
