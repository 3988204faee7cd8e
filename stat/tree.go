// Package stat holds a server's statistics: counters, gauges, histograms, rates and active
// users under one tree of dotted names, as Domino has them (`Mail.TotalRouted`,
// `Server.Users.Active15Min`). `show stat` reads them through Snapshot, Prometheus through
// Collector. Counting is lock-free and allocates nothing; reading may lock.
package stat

import (
	"fmt"
	"sync"
	"time"
)

// Clock is the part of env.Clock that rates and active users need.
type Clock interface {
	Now() time.Time
}

// Kind says how an Entry's value behaves.
type Kind uint8

// The kinds of statistic.
const (
	KindCounter   Kind = iota + 1 // only grows while the server runs
	KindGauge                     // goes up and down
	KindHistogram                 // a figure of a distribution (count, mean, quantile, maximum)
	KindText                      // a word, such as a version or a state
)

func (k Kind) String() string {
	switch k {
	case KindCounter:
		return "counter"
	case KindGauge:
		return "gauge"
	case KindHistogram:
		return "histogram"
	case KindText:
		return "text"
	}
	return "unknown"
}

// MarshalText gives the kind's word to JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Kind) UnmarshalText(word []byte) error {
	for have := KindCounter; have <= KindText; have++ {
		if have.String() == string(word) {
			*k = have
			return nil
		}
	}
	return fmt.Errorf("stat: no kind %q", word)
}

// metric is anything that stands in the tree under a name of its own.
type metric interface {
	kind() Kind
	// entries appends what Snapshot shows of the metric.
	entries(name, help string, to []Entry) []Entry
}

type named struct {
	name, help string
	metric     metric
}

// Tree is one name tree of statistics. A server has one. Its methods may be called from any
// goroutine.
//
// Asking for a name a second time with the same kind gives the same object (several doors
// count into one name); for GaugeFunc and Text the newer function replaces the older one (a
// store that was closed and opened again). Asking with another kind, or for a name that is not
// made of dotted words, is a mistake in the program and panics.
//
// A nil *Tree hands out working statistics that nobody can read: for tests and tools.
type Tree struct {
	clock Clock

	mu     sync.RWMutex
	byName map[string]*named
	byProm map[string]string // Prometheus base name -> dotted name
}

// New makes an empty tree. clock is the server's (env.Clock).
func New(clock Clock) *Tree {
	return &Tree{clock: clock, byName: map[string]*named{}, byProm: map[string]string{}}
}

// register returns what stands under name, or what create makes.
func register[M metric](t *Tree, name, help string, create func() M) M {
	if t == nil {
		return create()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.byName[name]; have != nil {
		m, ok := have.metric.(M)
		if !ok {
			panic(fmt.Sprintf("stat: %s is already a %s", name, have.metric.kind()))
		}
		return m
	}
	if !validName(name) {
		panic(fmt.Sprintf("stat: %q is not a name of dotted words", name))
	}
	prom := promName(name)
	if other, taken := t.byProm[prom]; taken {
		panic(fmt.Sprintf("stat: %s and %s are both %s for Prometheus", name, other, prom))
	}
	m := create()
	t.byName[name] = &named{name: name, help: help, metric: m}
	t.byProm[prom] = name
	return m
}

// Counter returns the counter of that name.
func (t *Tree) Counter(name, help string) *Counter {
	return register(t, name, help, func() *Counter { return new(Counter) })
}

// Gauge returns the gauge of that name.
func (t *Tree) Gauge(name, help string) *Gauge {
	return register(t, name, help, func() *Gauge { return new(Gauge) })
}

// GaugeFunc puts a gauge into the tree whose value is asked for when it is read. f must be fast
// and safe for concurrent use.
func (t *Tree) GaugeFunc(name, help string, f func() float64) {
	register(t, name, help, func() *gaugeFunc { return new(gaugeFunc) }).f.Store(&f)
}

// CounterFunc is GaugeFunc for a number that only grows and is counted elsewhere.
func (t *Tree) CounterFunc(name, help string, f func() float64) {
	register(t, name, help, func() *counterFunc { return new(counterFunc) }).f.Store(&f)
}

// Text puts a word into the tree that is asked for when it is read.
func (t *Tree) Text(name, help string, f func() string) {
	register(t, name, help, func() *text { return new(text) }).f.Store(&f)
}

// Histogram returns the histogram of that name, whose observations are in unit.
func (t *Tree) Histogram(name, help string, unit Unit) *Histogram {
	h := register(t, name, help, func() *Histogram { return &Histogram{unit: unit} })
	if h.unit != unit {
		panic(fmt.Sprintf("stat: %s is already in another unit", name))
	}
	return h
}

// now is the tree's time. Without a tree every moment is the same one.
func (t *Tree) now() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.clock.Now()
}

// all returns the tree's metrics in no order, without holding the lock while they are read:
// a GaugeFunc may itself register or read statistics.
func (t *Tree) all() []*named {
	if t == nil {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make([]*named, 0, len(t.byName))
	for _, n := range t.byName {
		out = append(out, n)
	}
	return out
}

// validName accepts words of letters, digits and underscores, each starting with a letter or
// digit, joined by dots; the first starts with a letter.
func validName(name string) bool {
	start := true
	for i := 0; i < len(name); i++ {
		c := name[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		digit := '0' <= c && c <= '9'
		switch {
		case letter, digit && i > 0:
			start = false
		case c == '_' && !start:
		case c == '.' && !start:
			start = true
		default:
			return false
		}
	}
	return !start
}
