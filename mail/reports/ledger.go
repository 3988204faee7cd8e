package reports

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"doublet/mail/keep"
	"doublet/mail/verify"
	"doublet/stat"
)

// cell identifies a counter: a day (UTC), the domain that gets the report, and a digest of the properties that all
// counted events share.
type cell struct{ day, domain, sub string }

func (c cell) key() string { return c.day + " " + c.domain + " " + c.sub }

func parseCell(key string) (cell, bool) {
	f := strings.Split(key, " ")
	if len(f) != 3 {
		return cell{}, false
	}
	return cell{f[0], f[1], f[2]}, true
}

// bounds are the limits of a ledger.
type bounds struct {
	domains   int // per day
	perGroup  int // domains of one organization per day
	perDomain int // cells of a domain per day
	perDay    int // cells per day
}

// page is a copy of a domain's cells of a day.
type page[T any] struct {
	day, domain string
	rows        []*T
	subs        []string // the sub of each row's cell
	// others counts the events beyond the limits of cells.
	others int64
}

// part returns the page with only the rows at some indexes.
func (p *page[T]) part(rows []int) *page[T] {
	out := &page[T]{day: p.day, domain: p.domain}
	for _, i := range rows {
		out.rows, out.subs = append(out.rows, p.rows[i]), append(out.subs, p.subs[i])
	}
	return out
}

type book struct {
	cells  map[string]struct{}
	others int64
}

// ledger counts events in memory, within limits. Its save method makes the changes durable. A crash loses the counts
// since the last save.
type ledger[T any] struct {
	keep *keep.Table
	most bounds
	lost *stat.Counter
	// without subtracts an earlier copy of a row from the row. It reports whether nothing is left.
	without func(row, counted *T) (empty bool)

	mu    sync.Mutex
	rows  map[cell]*T
	books map[[2]string]*book // by day and domain
	days  map[string]*dayCount
	dirty map[cell]struct{}
}

// dayCount counts the domains and cells of a day.
type dayCount struct {
	domains, cells int
	groups         map[string]int // domains of an organization
}

// othersCell is the sub of the row with the number of events beyond the limits.
const othersCell = "-"

// openLedger opens a ledger and reads the saved counts.
func openLedger[T any](
	k *keep.Table, most bounds, lost *stat.Counter, without func(row, counted *T) bool,
) (*ledger[T], error) {
	l := &ledger[T]{
		keep: k, most: most, lost: lost, without: without,
		rows: map[cell]*T{}, books: map[[2]string]*book{}, days: map[string]*dayCount{}, dirty: map[cell]struct{}{},
	}
	err := k.Each(context.Background(), func(key, value string) {
		c, ok := parseCell(key)
		if ok && c.sub == othersCell {
			var n int64
			if b := l.book(c.day, c.domain); b != nil && json.Unmarshal([]byte(value), &n) == nil {
				b.others = n
				return
			}
		}
		row := new(T)
		if !ok || c.sub == othersCell || json.Unmarshal([]byte(value), row) != nil || !l.room(c) {
			k.Drop(key)
			return
		}
		l.rows[c] = row
	})
	return l, err
}

// book returns the book of a domain's day. If there is none, it creates one, or returns nil at the limit. The caller
// holds mu, or is the only user of the ledger.
func (l *ledger[T]) book(day, domain string) *book {
	at := [2]string{day, domain}
	if b := l.books[at]; b != nil {
		return b
	}
	n := l.days[day]
	if n == nil {
		n = &dayCount{groups: map[string]int{}}
		l.days[day] = n
	}
	group := verify.Organization(domain)
	if n.domains >= l.most.domains || n.groups[group] >= l.most.perGroup {
		return nil
	}
	n.groups[group]++
	b := &book{cells: map[string]struct{}{}}
	l.books[at] = b
	n.domains++
	return b
}

// room reports whether a cell can be counted. It creates the cell if necessary.
func (l *ledger[T]) room(c cell) bool {
	b := l.book(c.day, c.domain)
	if b == nil {
		return false
	}
	if _, ok := b.cells[c.sub]; ok {
		return true
	}
	n := l.days[c.day]
	if len(b.cells) >= l.most.perDomain || n.cells >= l.most.perDay {
		b.others++
		l.dirty[cell{c.day, c.domain, othersCell}] = struct{}{}
		return false
	}
	b.cells[c.sub] = struct{}{}
	n.cells++
	return true
}

// count calls fn to change the row of a cell. It creates the row if necessary.
func (l *ledger[T]) count(c cell, fn func(*T)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.room(c) {
		l.lost.Inc()
		return
	}
	row := l.rows[c]
	if row == nil {
		row = new(T)
		l.rows[c] = row
	}
	fn(row)
	l.dirty[c] = struct{}{}
}

// save passes the changes to the persistent table.
func (l *ledger[T]) save() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.dirty {
		var v any = l.rows[c]
		if c.sub == othersCell {
			b := l.books[[2]string{c.day, c.domain}]
			if b == nil {
				continue
			}
			v = b.others
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		l.keep.Put(c.key(), string(text))
	}
	clear(l.dirty)
	return nil
}

// crowded reports whether the page of a domain is nearly full: what distinguishes further cells should be little.
func (l *ledger[T]) crowded(day, domain string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[[2]string{day, domain}]
	return b != nil && len(b.cells) >= l.most.perDomain*4/5
}

// before returns the day and domain of all pages of the days before a day, in this order.
func (l *ledger[T]) before(day string) [][2]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out [][2]string
	for at := range l.books {
		if at[0] < day {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b [2]string) int { return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1]) })
	return out
}

// page returns a copy of a page.
func (l *ledger[T]) page(day, domain string) page[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := page[T]{day: day, domain: domain}
	b := l.books[[2]string{day, domain}]
	if b == nil {
		return p
	}
	p.others = b.others
	for _, sub := range slices.Sorted(maps.Keys(b.cells)) {
		if row := clone(l.rows[cell{day, domain, sub}]); row != nil {
			p.rows, p.subs = append(p.rows, row), append(p.subs, sub)
		}
	}
	return p
}

// clone returns a deep copy of a row.
func clone[T any](row *T) *T {
	text, err := json.Marshal(row)
	out := new(T)
	if err != nil || json.Unmarshal(text, out) != nil {
		return nil
	}
	return out
}

// drop deletes the counts in a page. Counts since the copy was made stay.
func (l *ledger[T]) drop(p *page[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books[[2]string{p.day, p.domain}]
	if b == nil {
		return
	}
	n := l.days[p.day]
	for i, sub := range p.subs {
		c := cell{p.day, p.domain, sub}
		if row := l.rows[c]; row != nil && !l.without(row, p.rows[i]) {
			l.dirty[c] = struct{}{}
			continue
		}
		l.forget(c)
		delete(b.cells, sub)
		n.cells--
	}
	b.others -= p.others
	rest := cell{p.day, p.domain, othersCell}
	if b.others > 0 {
		l.dirty[rest] = struct{}{}
	} else {
		l.forget(rest)
	}
	if len(b.cells) > 0 || b.others > 0 {
		return
	}
	delete(l.books, [2]string{p.day, p.domain})
	n.groups[verify.Organization(p.domain)]--
	if n.domains--; n.domains <= 0 {
		delete(l.days, p.day)
	}
}

// forget deletes a cell's row in memory and in the persistent table. The caller holds mu.
func (l *ledger[T]) forget(c cell) {
	delete(l.rows, c)
	delete(l.dirty, c)
	l.keep.Drop(c.key())
}
