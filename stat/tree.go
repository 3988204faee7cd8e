// Package stat holds a server's statistics: counters, gauges, histograms, rates and active users in one tree of dotted
// names, as in Domino (`Mail.TotalRouted`, `Server.Users.Active15Min`). `show stat` reads them through Snapshot,
// Prometheus through Collector. Counting is lock-free and allocates nothing; reading may lock.
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

// Kind is the kind of an Entry's value.
type Kind uint8

// The kinds of statistic.
const (
	KindCounter   Kind = iota + 1 // only increases while the server runs
	KindGauge                     // increases and decreases
	KindHistogram                 // one value of a distribution (count, mean, quantile, maximum)
	KindText                      // a text, such as a version or a state
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

// MarshalText returns the name of the kind, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (k *Kind) UnmarshalText(word []byte) error {
	for have := KindCounter; have <= KindText; have++ {
		if have.String() == string(word) {
			*k = have
			return nil
		}
	}
	return fmt.Errorf("stat: no kind %q", word)
}

// metric is anything that has a name in the tree.
type metric interface {
	kind() Kind
	// entries appends the entries that Snapshot shows for the metric.
	entries(name, help string, to []Entry) []Entry
}

type named struct {
	name, help string
	metric     metric
}

// Tree is a tree of statistics by name. A server has one. Its methods may be called from any goroutine.
//
// Asking for a name again with the same kind returns the same object, so that several packages can count under one
// name. For GaugeFunc, CounterFunc and Text the newer function replaces the older one, as when a store is closed and
// opened again. Asking for a name with another kind, or for one that does not consist of dotted words, is a bug and
// panics.
//
// A nil *Tree returns working statistics that nobody can read, for tests and tools.
type Tree struct {
	clock Clock

	mu     sync.RWMutex
	byName map[string]*named
	byProm map[string]string // Prometheus base name -> dotted name
}

// New returns an empty tree. clock is the server's (env.Clock).
func New(clock Clock) *Tree {
	return &Tree{clock: clock, byName: map[string]*named{}, byProm: map[string]string{}}
}

// register returns the metric with that name, or adds the one that create returns.
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

// Counter returns the counter with that name.
func (t *Tree) Counter(name, help string) *Counter {
	return register(t, name, help, func() *Counter { return new(Counter) })
}

// Gauge returns the gauge with that name.
func (t *Tree) Gauge(name, help string) *Gauge {
	return register(t, name, help, func() *Gauge { return new(Gauge) })
}

// GaugeFunc adds a gauge whose value f returns when the gauge is read. f must be fast and safe for concurrent use.
func (t *Tree) GaugeFunc(name, help string, f func() float64) {
	register(t, name, help, func() *gaugeFunc { return new(gaugeFunc) }).f.Store(&f)
}

// CounterFunc is GaugeFunc for a number that only increases and is counted elsewhere.
func (t *Tree) CounterFunc(name, help string, f func() float64) {
	register(t, name, help, func() *counterFunc { return new(counterFunc) }).f.Store(&f)
}

// Text adds a text that f returns when it is read.
func (t *Tree) Text(name, help string, f func() string) {
	register(t, name, help, func() *text { return new(text) }).f.Store(&f)
}

// Histogram returns the histogram with that name. Its observations are in unit.
func (t *Tree) Histogram(name, help string, unit Unit) *Histogram {
	h := register(t, name, help, func() *Histogram { return &Histogram{unit: unit} })
	if h.unit != unit {
		panic(fmt.Sprintf("stat: %s is already in another unit", name))
	}
	return h
}

// now returns the tree's time. For a nil tree it is always the zero time.
func (t *Tree) now() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.clock.Now()
}

// all returns the tree's metrics in no order. The caller reads them without the lock, because a GaugeFunc may itself
// register or read statistics.
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

// validName reports whether name consists of words of letters, digits and underscores, joined by dots. Each word starts
// with a letter or digit, and the first one with a letter.
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
