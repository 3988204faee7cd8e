package mailbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
)

// FilterKind is the property that a Filter tests.
type FilterKind uint8

// The kinds of filters (RFC 8621 section 4.4.1). The first three combine the filters in Of: FilterNot matches a message
// that none of them matches.
const (
	FilterAnd FilterKind = iota
	FilterOr
	FilterNot
	FilterIn         // in one of Folders
	FilterElsewhere  // in at least one folder that is not in Folders
	FilterBefore     // received before Time
	FilterAfter      // received at or after Time
	FilterMin        // Size bytes or larger
	FilterMax        // smaller than Size bytes
	FilterKeyword    // Keyword is set on the message
	FilterThreadSome // Keyword is set on at least one message of the thread
	FilterThreadAll  // Keyword is set on all messages of the thread
	FilterAttached   // has attachments
	FilterText       // Text matches
)

// Filter selects messages of a mail file, in all its folders. The zero Filter selects all messages.
type Filter struct {
	Kind    FilterKind
	Of      []Filter
	Folders []note.UNID
	Time    time.Time
	Size    uint64
	Keyword string
	Text    Criteria
	// Fleeting means that the same search may become another filter later, as it depends on the day or on names.
	Fleeting bool
}

// OrderKind is the property by which messages are sorted.
type OrderKind uint8

// The sort properties (RFC 8621 section 4.4.2).
const (
	OrderReceived OrderKind = iota
	OrderSize
	OrderFrom
	OrderTo
	OrderSubject
	OrderSent
	OrderKeyword
	OrderThreadSome
	OrderThreadAll
)

// Order is one sort key. Smaller values come first; messages without the keyword come before those with it.
type Order struct {
	Kind       OrderKind
	Keyword    string
	Descending bool
}

// Query describes a search for messages, sorted. Messages with equal keys are in order of note id, oldest first, or
// newest first if the first key is descending.
type Query struct {
	Filter Filter
	Sort   []Order // empty: by date, the latest first
	// Collapse keeps only the first message of each thread.
	Collapse bool
	// Position is the index of the first result to return; a negative one counts from the end. With an Anchor, the
	// first result is the one at Offset from the anchor, and Position is ignored.
	Position int64
	Anchor   note.UNID
	Offset   int64
	// Limit is the maximum number of results. Total asks for the total number of results.
	Limit int
	Total bool
}

// Hit is a message that a query found.
type Hit struct {
	ID   note.ID
	UNID note.UNID
}

// Found is the result of a query.
type Found struct {
	Hits     []Hit
	Position int
	Total    int // number of all results; valid only if Query.Total is set
	States   States
}

// ErrNoAnchor reports an anchor that is not among the results.
var ErrNoAnchor = errors.New("anchor is not among the results")

// Exact reports whether the changes in the results of a query can be computed. They cannot if the query tests text,
// because the search index may learn the words of a message late, nor if the filter is fleeting.
func (q *Query) Exact() bool { return q.Filter.exact() }

func (f *Filter) exact() bool {
	for i := range f.Of {
		if !f.Of[i].exact() {
			return false
		}
	}
	return f.Kind != FilterText && !f.Fleeting
}

// mutable reports whether the results can change or move although no message was added or removed.
func (q *Query) mutable() bool {
	for _, o := range q.Sort {
		if o.Kind >= OrderKeyword {
			return true
		}
	}
	return q.Collapse || q.Filter.mutable()
}

func (f *Filter) mutable() bool {
	switch f.Kind {
	case FilterIn, FilterElsewhere, FilterKeyword, FilterThreadSome, FilterThreadAll:
		return true
	}
	return slices.ContainsFunc(f.Of, func(g Filter) bool { return g.mutable() })
}

// threads reports whether the place of a message in the results depends on other messages of its thread.
func (q *Query) threads() bool {
	for _, o := range q.Sort {
		if o.Kind == OrderThreadSome || o.Kind == OrderThreadAll {
			return true
		}
	}
	return q.Collapse || q.Filter.threads()
}

func (f *Filter) threads() bool {
	return f.Kind == FilterThreadSome || f.Kind == FilterThreadAll ||
		slices.ContainsFunc(f.Of, func(g Filter) bool { return g.threads() })
}

// querying is a running query. The roll does not change while it runs.
type querying struct {
	f   *File
	l   *roll
	r   *store.Reader
	ctx context.Context
	q   *Query
	// shown holds, for each set of folders in the roll, whether the person sees messages in that set.
	shown []bool
	root  filterNode
	text  *search
	looks int
	// left is the number of results that are still wanted, 0 for all.
	left int
	// asked counts the messages whose text the index could not decide, and that were read one by one.
	asked int
	// guessing makes match fail with errUnread where it would read a message.
	guessing bool
}

// errUnread means that a message has to be read to know whether it matches.
var errUnread = errors.New("message not read")

// filterNode is a Filter prepared for matching. Tests of folders, marks and threads are computed once, for each number
// in the roll.
type filterNode struct {
	*Filter
	of   []filterNode
	set  []bool // result of the test, by the number of the folder set, the marks or the thread
	date int64
}

// Query runs a query and returns the results in its window.
func (f *File) Query(ctx context.Context, q *Query) (Found, error) {
	var out Found
	err := f.withRoll(ctx, func(l *roll, r *store.Reader) (err error) {
		x := f.querying(ctx, l, r, q)
		if out.States, err = f.svc.states(r, &f.who); err != nil {
			return err
		}
		var list []uint32
		if list, err = x.window(&out); err != nil {
			return err
		}
		out.Hits, err = x.hits(list)
		return err
	})
	return out, err
}

func (f *File) querying(ctx context.Context, l *roll, r *store.Reader, q *Query) *querying {
	x := &querying{f: f, l: l, r: r, ctx: ctx, q: q}
	x.shown = l.shown(r, &f.who)
	x.root = x.prepare(&q.Filter)
	return x
}

// shown returns, for each set of folders, whether the person may read at least one of them.
func (l *roll) shown(r *store.Reader, who *note.Who) []bool {
	heads := readableHeads(r, who)
	out := make([]bool, len(l.members.list))
	for i, set := range l.members.list {
		out[i] = anyOf(set, heads)
	}
	return out
}

// readableHeads returns the folders that the person may look up and read.
func readableHeads(r *store.Reader, who *note.Who) map[note.ID]note.UNID {
	heads := r.AllFolders()
	out := make(map[note.ID]note.UNID, len(heads))
	info := r.Info()
	whole := rightsOf(&info.ACL, who)
	for _, h := range heads {
		g := whole
		if h.HasACL {
			g = rightsOf(&h.ACL, who)
		}
		if g&note.Read != 0 && g&note.Lookup != 0 {
			out[h.Note] = h.UNID
		}
	}
	return out
}

func anyOf(set string, heads map[note.ID]note.UNID) bool {
	for i := 0; i+8 <= len(set); i += 8 {
		if _, ok := heads[folderAt(set, i)]; ok {
			return true
		}
	}
	return false
}

func folderAt(set string, i int) note.ID {
	return note.ID(binary.BigEndian.Uint64([]byte(set[i : i+8])))
}

func (x *querying) prepare(f *Filter) filterNode {
	n := filterNode{Filter: f, date: f.Time.Unix()}
	if f.Time.Nanosecond() > 0 { // dates have whole seconds, so round up
		n.date++
	}
	// Tests that read stored data run last, because they are slow.
	for _, dear := range []bool{false, true} {
		for i := range f.Of {
			if g := &f.Of[i]; (g.Kind == FilterText || g.Kind == FilterAttached) == dear {
				n.of = append(n.of, x.prepare(g))
			}
		}
	}
	l := x.l
	switch f.Kind {
	case FilterIn, FilterElsewhere:
		heads := readableHeads(x.r, &x.f.who)
		for id, unid := range heads {
			if slices.Contains(f.Folders, unid) != (f.Kind == FilterIn) {
				delete(heads, id)
			}
		}
		n.set = make([]bool, len(l.members.list))
		for i, set := range l.members.list {
			n.set[i] = anyOf(set, heads)
		}
	case FilterKeyword:
		n.set = x.marked(f.Keyword)
	case FilterThreadSome, FilterThreadAll:
		n.set = x.threadsMarked(f.Keyword, f.Kind == FilterThreadAll)
	case FilterText:
		if x.text == nil {
			text := newSearch(x.ctx, viewOf(x.f))
			text.r = x.r
			x.text = &text
		}
		_ = x.text.prepare(&f.Text) // fails only on sets of UIDs, which a Filter cannot contain
	}
	return n
}

// marked returns, for each set of marks, whether it contains the keyword. Seen refers to the person of the query.
func (x *querying) marked(keyword string) []bool {
	out := make([]bool, len(x.l.marks.list))
	for i, m := range x.l.marks.list {
		if keyword == Seen {
			out[i] = seenIn(m, x.f.who.Person)
		} else {
			out[i] = hasWord(m, keyword)
		}
	}
	return out
}

// threadsMarked returns, for each thread, whether the keyword is set on some of its messages, or on all if all is true.
// Only messages that the person sees count.
func (x *querying) threadsMarked(keyword string, all bool) []bool {
	marked := x.marked(keyword)
	out := make([]bool, len(x.l.threads))
	seen := make([]bool, len(out))
	for i := range x.l.entries {
		e := &x.l.entries[i]
		if !x.shown[e.members] {
			continue
		}
		switch {
		case !seen[e.thread]:
			seen[e.thread], out[e.thread] = true, marked[e.marks]
		case all:
			out[e.thread] = out[e.thread] && marked[e.marks]
		default:
			out[e.thread] = out[e.thread] || marked[e.marks]
		}
	}
	return out
}

// match reports whether the message e matches n.
func (x *querying) match(n *filterNode, e *rollEntry) (bool, error) {
	switch n.Kind {
	case FilterAnd, FilterOr, FilterNot:
		return x.matchOf(n, e)
	case FilterIn, FilterElsewhere:
		return n.set[e.members], nil
	case FilterKeyword:
		return n.set[e.marks], nil
	case FilterThreadSome, FilterThreadAll:
		return n.set[e.thread], nil
	case FilterBefore:
		return e.date < n.date, nil
	case FilterAfter:
		return e.date >= n.date, nil
	case FilterMin:
		return uint64(e.size) >= n.Size, nil
	case FilterMax:
		return uint64(e.size) < n.Size, nil
	case FilterAttached:
		s, ok, err := x.stored(e)
		if !ok || err != nil {
			return false, err
		}
		return attached(s.m.field)
	}
	return x.matchText(n, e)
}

// matchOf combines the results of the filters in n.
func (x *querying) matchOf(n *filterNode, e *rollEntry) (bool, error) {
	for i := range n.of {
		ok, err := x.match(&n.of[i], e)
		if err != nil || ok != (n.Kind == FilterAnd) {
			return ok && n.Kind == FilterOr, err
		}
	}
	return n.Kind != FilterOr, nil
}

// matchText reads the message only if the index cannot tell.
func (x *querying) matchText(n *filterNode, e *rollEntry) (bool, error) {
	if x.text.hopeless(&n.Text, e.id) {
		return false, nil
	}
	if x.text.sure(&n.Text, e.id) {
		return true, nil
	}
	s, ok, err := x.stored(e)
	if !ok || err != nil {
		return false, err
	}
	x.asked++
	return s.match(&n.Text)
}

// stored loads the row of a message, for tests that need more than its roll entry. ok is false if the message no longer
// exists.
func (x *querying) stored(e *rollEntry) (s *search, ok bool, err error) {
	if x.guessing {
		return nil, false, errUnread
	}
	if x.looks++; x.looks%64 == 0 {
		if err := x.ctx.Err(); err != nil {
			return nil, false, err
		}
	}
	if x.text == nil {
		x.text = &search{v: viewOf(x.f), r: x.r, ctx: x.ctx}
	}
	s = x.text
	if s.m.row != nil && s.m.ID == e.id {
		return s, true, nil
	}
	row, err := x.r.Row(e.id)
	if err != nil {
		return nil, false, ignoreGone(err)
	}
	s.m = Message{ID: e.id, v: s.v, r: x.r, row: row}
	s.reset()
	return s, true, nil
}

// byDate reports whether the results are sorted by date alone, and whether the latest comes first.
func (q *Query) byDate() (descending, ok bool) {
	if len(q.Sort) == 0 {
		return true, true
	}
	return q.Sort[0].Descending, q.Sort[0].Kind == OrderReceived
}

// each calls fn for the results in order, until fn returns false.
func (x *querying) each(fn func(i uint32) bool) error {
	var seen []uint64 // bit set of threads that already have a result
	if x.q.Collapse {
		seen = make([]uint64, len(x.l.threads)/64+1)
	}
	take := func(i uint32) bool {
		if seen != nil {
			t := x.l.entries[i].thread
			if seen[t/64]&(1<<(t%64)) != 0 {
				return true
			}
			seen[t/64] |= 1 << (t % 64)
		}
		return fn(i)
	}
	descending, ok := x.q.byDate()
	if !ok {
		list, err := x.sorted()
		if err != nil {
			return err
		}
		for _, i := range list {
			if !take(i) {
				return nil
			}
		}
		return nil
	}
	order := x.l.order
	return x.matching(len(order), func(k int) uint32 {
		if descending {
			k = len(order) - 1 - k
		}
		return order[k]
	}, func(i uint32) (bool, error) { return take(i), nil })
}

// sorted returns all matching entries, sorted. It builds one key per message, such that comparing the bytes of two keys
// gives the order.
func (x *querying) sorted() ([]uint32, error) {
	type keyed struct {
		i       uint32
		at, end int
	}
	var all []keyed
	var arena []byte
	sets := make([][]bool, len(x.q.Sort))
	for k, o := range x.q.Sort {
		switch o.Kind {
		case OrderKeyword:
			sets[k] = x.marked(o.Keyword)
		case OrderThreadSome, OrderThreadAll:
			sets[k] = x.threadsMarked(o.Keyword, o.Kind == OrderThreadAll)
		}
	}
	err := x.matching(len(x.l.entries), func(k int) uint32 { return uint32(k) }, func(i uint32) (bool, error) {
		start := len(arena)
		var err error
		if arena, err = x.appendKey(arena, &x.l.entries[i], sets); err != nil {
			return false, err
		}
		all = append(all, keyed{i, start, len(arena)})
		if int64(len(arena)+len(all)*24) > x.f.svc.opt.RollMemory/rollShare {
			return false, fmt.Errorf("%w: more than %d to sort", ErrLimit, len(all))
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b keyed) int {
		if c := slices.Compare(arena[a.at:a.end], arena[b.at:b.end]); c != 0 {
			return c
		}
		return int(int64(a.i) - int64(b.i))
	})
	out := make([]uint32, len(all))
	for i := range all {
		out[i] = all[i].i
	}
	return out, nil
}

func (x *querying) appendKey(dst []byte, e *rollEntry, sets [][]bool) ([]byte, error) {
	for k, o := range x.q.Sort {
		at := len(dst)
		switch o.Kind {
		case OrderReceived:
			dst = appendSortNumber(dst, e.date)
		case OrderSize:
			dst = appendSortNumber(dst, int64(e.size))
		case OrderKeyword:
			dst = appendFlag(dst, sets[k][e.marks])
		case OrderThreadSome, OrderThreadAll:
			dst = appendFlag(dst, sets[k][e.thread])
		default:
			s, ok, err := x.stored(e)
			if err != nil {
				return dst, err
			}
			if ok {
				if dst, err = s.appendOrder(dst, o.Kind); err != nil {
					return dst, err
				}
			}
		}
		if o.Descending {
			for i := at; i < len(dst); i++ {
				dst[i] = ^dst[i]
			}
		}
	}
	if len(x.q.Sort) > 0 && x.q.Sort[0].Descending {
		return appendSortNumber(dst, -int64(e.id)), nil
	}
	return appendSortNumber(dst, int64(e.id)), nil
}

// appendOrder appends a key that comes from the envelope: the display name of an address, the base subject, or the date
// sent.
//
// Implements: RFC 8621 §4.4.2 sorting
func (s *search) appendOrder(dst []byte, k OrderKind) ([]byte, error) {
	switch k {
	case OrderSubject:
		return s.appendSortKey(dst, imap.SortSubject)
	case OrderSent:
		return s.appendSortKey(dst, imap.SortDate)
	case OrderFrom:
		return s.appendSortKey(dst, imap.SortDisplayFrom)
	}
	return s.appendSortKey(dst, imap.SortDisplayTo)
}

// window returns the results that the query asks for and sets their position and, if it was counted, the total.
func (x *querying) window(out *Found) ([]uint32, error) {
	q := x.q
	var list []uint32
	if q.Anchor.IsZero() && q.Position >= 0 {
		n := int64(0)
		if !q.Total {
			x.left = int(min(q.Position, 1<<20)) + q.Limit
		}
		err := x.each(func(i uint32) bool {
			if n >= q.Position && len(list) < q.Limit {
				list = append(list, i)
			}
			n++
			x.left--
			return q.Total || len(list) < q.Limit
		})
		out.Position, out.Total = int(q.Position), int(n)
		return list, err
	}
	// An anchor or a position that counts from the end needs the whole list.
	if err := x.each(func(i uint32) bool { list = append(list, i); return true }); err != nil {
		return nil, err
	}
	out.Total = len(list)
	from := q.Position + int64(len(list))
	if !q.Anchor.IsZero() {
		id, err := x.r.Find(q.Anchor)
		at, ok := x.l.find(id)
		i := slices.Index(list, uint32(at))
		if err != nil || !ok || i < 0 {
			return nil, ErrNoAnchor
		}
		from = int64(i) + q.Offset
	}
	from = min(max(from, 0), int64(len(list)))
	out.Position = int(from)
	list = list[from:]
	return list[:min(len(list), q.Limit)], nil
}

// hits returns the note id and UNID of each message in list.
func (x *querying) hits(list []uint32) ([]Hit, error) {
	out := make([]Hit, 0, len(list))
	for _, i := range list {
		id := x.l.entries[i].id
		row, err := x.r.Row(id)
		if err != nil {
			return nil, err
		}
		out = append(out, Hit{id, row.UNID})
	}
	return out, nil
}

// viewOf returns a view of no folder, to search the texts of messages that were found by other means.
func viewOf(f *File) *View { return &View{knowledge: knowledge{opened: opened{f: f}}} }
