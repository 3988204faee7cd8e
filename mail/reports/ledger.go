package reports

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"doublet/mail/keep"
	"doublet/stat"
)

// cell names what is counted together: a day of the calendar (UTC), the domain that is told of it, and what is
// the same of all that is counted.
type cell struct{ day, domain, sub string }

func (c cell) key() string { return c.day + " " + c.domain + " " + c.sub }

func parseCell(key string) (cell, bool) {
	f := strings.Split(key, " ")
	if len(f) != 3 {
		return cell{}, false
	}
	return cell{f[0], f[1], f[2]}, true
}

// bounds are those of a ledger.
type bounds struct {
	domains   int // of a day
	perDomain int // cells of a domain in a day
}

// page is a domain's cells of a day.
type page[T any] struct {
	day, domain string
	rows        []*T
	// others counts what had no room.
	others int64
}

type book struct {
	cells  map[string]struct{}
	others int64
}

// ledger counts in memory, within bounds, what is to be reported. Save makes what has changed since the last time
// durable: a crash loses what was counted between.
type ledger[T any] struct {
	keep *keep.Table
	most bounds
	lost *stat.Counter

	mu    sync.Mutex
	rows  map[cell]*T
	books map[[2]string]*book // by day and domain
	days  map[string]int      // domains of a day
	dirty map[cell]struct{}
}

// othersCell is the sub of the row that holds what had no room.
const othersCell = "-"

// openLedger reads what was kept.
func openLedger[T any](ctx context.Context, k *keep.Table, most bounds, lost *stat.Counter) (*ledger[T], error) {
	l := &ledger[T]{
		keep: k, most: most, lost: lost, rows: map[cell]*T{}, books: map[[2]string]*book{}, days: map[string]int{}, dirty: map[cell]struct{}{},
	}
	err := k.Each(ctx, func(key, value string) {
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

// book finds the book of a domain's day, or makes it where there is room. The caller holds mu, or has the ledger alone.
func (l *ledger[T]) book(day, domain string) *book {
	at := [2]string{day, domain}
	if b := l.books[at]; b != nil {
		return b
	}
	if l.days[day] >= l.most.domains {
		return nil
	}
	b := &book{cells: map[string]struct{}{}}
	l.books[at] = b
	l.days[day]++
	return b
}

// room reports whether a cell can be counted, and enters it.
func (l *ledger[T]) room(c cell) bool {
	b := l.book(c.day, c.domain)
	if b == nil {
		return false
	}
	if _, ok := b.cells[c.sub]; ok {
		return true
	}
	if len(b.cells) >= l.most.perDomain {
		b.others++
		l.dirty[cell{c.day, c.domain, othersCell}] = struct{}{}
		return false
	}
	b.cells[c.sub] = struct{}{}
	return true
}

// count lets fn change the row of a cell, a new one where it is the first.
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

// save hands what has changed to the table that keeps it.
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

// before gives copies of the pages of the days before a day, in order of day and domain.
func (l *ledger[T]) before(day string) []page[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []page[T]
	for _, at := range slices.SortedFunc(maps.Keys(l.books), func(a, b [2]string) int {
		return strings.Compare(a[0]+" "+a[1], b[0]+" "+b[1])
	}) {
		if at[0] >= day {
			continue
		}
		b := l.books[at]
		p := page[T]{day: at[0], domain: at[1], others: b.others}
		for _, sub := range slices.Sorted(maps.Keys(b.cells)) {
			if row := clone(l.rows[cell{at[0], at[1], sub}]); row != nil {
				p.rows = append(p.rows, row)
			}
		}
		out = append(out, p)
	}
	return out
}

// clone copies a row in depth.
func clone[T any](row *T) *T {
	text, err := json.Marshal(row)
	out := new(T)
	if err != nil || json.Unmarshal(text, out) != nil {
		return nil
	}
	return out
}

// drop forgets a page.
func (l *ledger[T]) drop(day, domain string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := [2]string{day, domain}
	b := l.books[at]
	if b == nil {
		return
	}
	b.cells[othersCell] = struct{}{}
	for sub := range b.cells {
		c := cell{day, domain, sub}
		delete(l.rows, c)
		delete(l.dirty, c)
		l.keep.Drop(c.key())
	}
	delete(l.books, at)
	if l.days[day]--; l.days[day] <= 0 {
		delete(l.days, day)
	}
}
