package mailbox

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// roll is an in-memory index for queries over a whole mail file: an entry of 32 bytes for each message, updated by
// MODSEQ. It holds no access rights: a query uses only the entries whose folders the person may read.
//
// Invariant, under mu: entries are sorted by note id, order lists them by date, and both describe the mail file at mod.
type roll struct {
	mu      sync.Mutex
	db      note.DatabaseID
	replica note.ReplicaID // the replica that was loaded; the id alone could refer to another one later
	mod     note.ModSeq
	loaded  bool

	entries []rollEntry
	order   []uint32 // indexes into entries, by date and then id
	dead    int      // number of entries without a folder
	threads map[note.UNID]uint32
	members interned // sets of folders: sorted note ids, 8 bytes each
	marks   interned // persons who have seen the message, then keywords; see appendMarks

	counts []rollCounts // counts for the persons who asked last
	used   uint64       // guarded by rolls.mu, as are users and size: clock value of the last use
	users  int
	size   int64
}

// rollEntry is one message. If it was deleted, or is marked \Deleted in all its folders, its set of folders is the
// empty one.
type rollEntry struct {
	id      note.ID
	date    int64
	size    uint32
	thread  uint32 // number in roll.threads
	members uint32 // number in roll.members
	marks   uint32
}

// interned assigns numbers to byte strings. In a roll, number 0 is the empty string.
type interned struct {
	list []string
	by   map[string]uint32
	size int
}

func (t *interned) number(key []byte) uint32 {
	if n, ok := t.by[string(key)]; ok {
		return n
	}
	if t.by == nil {
		t.by = make(map[string]uint32)
	}
	n, s := uint32(len(t.list)), string(key)
	t.list = append(t.list, s)
	t.by[s] = n
	t.size += len(s) + 64
	return n
}

// rolls caches rolls, as many as fit into the memory for them.
type rolls struct {
	mu    sync.Mutex
	open  map[note.DatabaseID]*roll
	clock uint64
	size  int64
}

// rollShare limits one roll to 1/rollShare of Options.RollMemory, so that a huge mail file leaves memory for others.
const rollShare = 2

// withRoll calls fn with the up-to-date roll of the mail file, and a reader of the same moment that sees everything.
func (hd *handle) withRoll(ctx context.Context, fn func(*roll, *store.Reader) error) error {
	t, size := &hd.svc.rolls, int64(0)
	l := t.take(hd.db)
	defer func() { t.give(l, size, hd.svc.opt.RollMemory) }()
	l.mu.Lock()
	defer func() { size = l.weight(); l.mu.Unlock() }()
	return hd.svc.store.Read(ctx, note.System, hd.db, func(r *store.Reader) error {
		if r.Info().State != layout.InService {
			return fmt.Errorf("%w: %s", store.ErrOutOfService, r.Info().Title)
		}
		if err := l.advance(ctx, r, hd.svc.opt.RollMemory/rollShare); err != nil {
			l.reset()
			return err
		}
		return fn(l, r)
	})
}

func (t *rolls) take(db note.DatabaseID) *roll {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.open[db]
	if l == nil {
		if t.open == nil {
			t.open = make(map[note.DatabaseID]*roll)
		}
		l = &roll{db: db}
		t.open[db] = l
	}
	t.clock++
	l.used = t.clock
	l.users++
	return l
}

// give returns a roll to the cache. While the rolls together exceed room bytes, it drops the least recently used ones.
func (t *rolls) give(l *roll, size, room int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.users--
	if t.open[l.db] == l {
		t.size += size - l.size
		l.size = size
	}
	for t.size > room {
		var oldest *roll
		for _, x := range t.open {
			if x.users == 0 && (oldest == nil || x.used < oldest.used) {
				oldest = x
			}
		}
		if oldest == nil {
			return
		}
		t.size -= oldest.size
		delete(t.open, oldest.db)
	}
}

// weight returns the approximate size of the roll in memory, in bytes.
func (l *roll) weight() int64 {
	return int64(cap(l.entries))*int64(unsafe.Sizeof(rollEntry{})) + 4*int64(cap(l.order)) + 48*int64(len(l.threads)) +
		int64(l.members.size+l.marks.size) + 512
}

func (l *roll) reset() {
	l.mod, l.loaded, l.entries, l.order, l.dead, l.counts = 0, false, nil, nil, 0, nil
	l.threads, l.members, l.marks = make(map[note.UNID]uint32), interned{}, interned{}
	l.members.number(nil)
	l.marks.number(nil)
}

// advance updates the roll to the moment of the reader. It returns ErrLimit if the roll would exceed room bytes.
func (l *roll) advance(ctx context.Context, r *store.Reader, room int64) error {
	c, info := r.Counters(), r.Info()
	fits := l.loaded && l.replica == info.Replica && l.mod >= c.Floor && c.Ledger.Knows(l.mod) && !l.crowded()
	if fits && l.mod == c.Ledger.Last {
		return nil
	}
	if fits {
		var inner error
		err := r.Changes(l.mod, func(_ note.ModSeq, c layout.Change) bool {
			fits, inner = l.change(r, c)
			return fits && inner == nil
		})
		if err = errors.Join(err, inner); err != nil {
			return err
		}
	}
	if !fits {
		l.reset()
		if err := l.load(ctx, r, room); err != nil {
			return err
		}
		l.replica, l.loaded = info.Replica, true
	}
	l.mod, l.counts = c.Ledger.Last, nil
	if l.weight() > room {
		return fmt.Errorf("%w: the mail file has %d", ErrLimit, len(l.entries))
	}
	return nil
}

// crowded reports whether the roll holds too many entries, threads or sets that are no longer used.
func (l *roll) crowded() bool {
	n := len(l.entries)
	return l.dead > n/4+100 || len(l.threads) > n+n/4+100 || len(l.members.list) > n+100 || len(l.marks.list) > n+100
}

func (l *roll) load(ctx context.Context, r *store.Reader, room int64) error {
	if n := int64(r.Counters().Notes); n < room/int64(unsafe.Sizeof(rollEntry{})) {
		l.entries = make([]rollEntry, 0, n+n/16)
	}
	var inner error
	kept := bins(r)
	err := r.Notes(0, func(id note.ID, n *layout.Note) bool {
		if !isMessage(n) || isIn(n, kept) && n.Hidden() {
			return true // one that is recovered later makes the roll load again
		}
		l.entries = append(l.entries, l.entry(id, n))
		if len(l.entries)%1024 == 0 {
			if inner = ctx.Err(); inner == nil && l.weight() > room {
				inner = fmt.Errorf("%w: the mail file has more than %d", ErrLimit, len(l.entries))
			}
		}
		return inner == nil
	})
	if err = errors.Join(err, inner); err != nil {
		return err
	}
	l.order = make([]uint32, len(l.entries), cap(l.entries))
	sorted := true
	for i := range l.order {
		l.order[i] = uint32(i)
		sorted = sorted && (i == 0 || l.entries[i-1].date <= l.entries[i].date)
		if l.entries[i].members == 0 {
			l.dead++
		}
	}
	if !sorted {
		slices.SortFunc(l.order, func(a, b uint32) int { return l.compare(&l.entries[a], &l.entries[b]) })
	}
	return nil
}

func (l *roll) compare(a, b *rollEntry) int {
	return cmp.Or(cmp.Compare(a.date, b.date), cmp.Compare(a.id, b.id))
}

// isMessage reports whether a note is a message.
func isMessage(n *layout.Note) bool {
	return n.Class == note.Document && n.Foldered && !n.Stub && n.Recipe != 0
}

func (l *roll) entry(id note.ID, n *layout.Note) rollEntry {
	var room [256]byte
	e := rollEntry{id: id, date: n.Date, size: uint32(min(n.Size, 1<<32-1))}
	thread, ok := l.threads[n.Thread]
	if !ok {
		thread = uint32(len(l.threads))
		l.threads[n.Thread] = thread
	}
	e.thread = thread
	key := room[:0]
	for _, m := range n.Members {
		if !m.Deleted {
			key = binary.BigEndian.AppendUint64(key, uint64(m.Folder))
		}
	}
	if len(key) > 8 {
		sortWords(key)
	}
	e.members = l.members.number(key)
	e.marks = l.marks.number(appendMarks(room[:0], n))
	return e
}

// sortWords sorts b as big-endian words of 8 bytes.
func sortWords(b []byte) {
	words := make([]uint64, 0, len(b)/8)
	for i := 0; i < len(b); i += 8 {
		words = append(words, binary.BigEndian.Uint64(b[i:]))
	}
	slices.Sort(words)
	b = b[:0]
	for _, w := range words {
		b = binary.BigEndian.AppendUint64(b, w)
	}
}

// appendMarks appends the persons who have seen a message and its keywords: a count byte and 16 bytes per person, then
// each keyword after a length byte. The state is sorted, so equal marks have equal bytes.
func appendMarks(dst []byte, n *layout.Note) []byte {
	start := len(dst)
	dst = append(dst, 0)
	seen := 0
	for i := range n.State {
		if it := &n.State[i]; it.Kind == note.Seen && it.Value == note.On && len(it.Key) == len(note.UNID{}) &&
			seen < 255 {
			dst = append(dst, it.Key...)
			seen++
		}
	}
	dst[start] = byte(seen)
	for i := range n.State {
		if it := &n.State[i]; it.Kind == note.Keyword && it.Value == note.On && len(it.Key) <= 255 {
			dst = append(append(dst, byte(len(it.Key))), it.Key...)
		}
	}
	if len(dst) == start+1 && seen == 0 {
		return dst[:start]
	}
	return dst
}

// seenIn reports whether marks contain person as one who has seen the message.
func seenIn(marks string, person note.UNID) bool {
	if marks == "" {
		return false
	}
	for i := range int(marks[0]) {
		if marks[1+16*i:17+16*i] == string(person[:]) {
			return true
		}
	}
	return false
}

func hasWord(marks, word string) bool {
	if marks == "" {
		return false
	}
	for s := marks[1+16*int(marks[0]):]; s != ""; s = s[1+int(s[0]):] {
		if s[1:1+int(s[0])] == word {
			return true
		}
	}
	return false
}

func (l *roll) find(id note.ID) (int, bool) {
	if n := len(l.entries); n == 0 || l.entries[n-1].id < id {
		return n, false
	}
	return slices.BinarySearchFunc(l.entries, id, func(e rollEntry, id note.ID) int { return cmp.Compare(e.id, id) })
}

// change applies one change. It returns false if the roll has to be loaded again.
func (l *roll) change(r *store.Reader, c layout.Change) (bool, error) {
	i, ok := l.find(c.Note)
	if c.Expunged {
		if ok && c.Gone {
			l.put(i, 0)
		}
		return true, nil
	}
	n, err := r.Note(c.Note)
	if err != nil {
		return true, ignoreGone(err)
	}
	switch {
	case !isMessage(n):
		if ok {
			l.put(i, 0)
		}
		return true, nil
	case ok:
		e := l.entry(c.Note, n)
		l.put(i, e.members)
		l.entries[i].marks, l.entries[i].thread = e.marks, e.thread
		return l.entries[i].date == e.date && l.entries[i].size == e.size, nil
	case i < len(l.entries):
		return false, nil // ids normally ascend; load the roll again if one arrives late
	}
	e := l.entry(c.Note, n)
	l.entries = append(l.entries, e)
	if e.members == 0 {
		l.dead++
	}
	at := len(l.order)
	if at > 0 && l.compare(&l.entries[l.order[at-1]], &e) > 0 {
		at, _ = slices.BinarySearchFunc(l.order, &e, func(k uint32,
			e *rollEntry) int {
			return l.compare(&l.entries[k], e)
		})
	}
	l.order = slices.Insert(l.order, at, uint32(i))
	return true, nil
}

// put sets the folders of an entry and keeps dead up to date.
func (l *roll) put(i int, members uint32) {
	e := &l.entries[i]
	if e.members == 0 && members != 0 {
		l.dead--
	} else if e.members != 0 && members == 0 {
		l.dead++
	}
	e.members = members
}
