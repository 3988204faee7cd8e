package stat

import (
	"math"
	"sync/atomic"
)

// Counter is a number that only increases while the server runs. The zero value is ready to use.
type Counter struct{ n atomic.Uint64 }

// Inc adds one.
func (c *Counter) Inc() { c.n.Add(1) }

// Add adds n.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Value returns the present count.
func (c *Counter) Value() uint64 { return c.n.Load() }

func (c *Counter) kind() Kind { return KindCounter }

func (c *Counter) entries(name, help string, to []Entry) []Entry {
	return append(to, Entry{Name: name, Help: help, Kind: KindCounter, Value: float64(c.Value())})
}

// Gauge is a whole number that increases and decreases, such as open sessions or entries of a cache. The zero value is
// ready to use.
type Gauge struct{ n atomic.Int64 }

// Set sets the value.
func (g *Gauge) Set(n int64) { g.n.Store(n) }

// Add adds n, which may be negative, and returns the new value.
func (g *Gauge) Add(n int64) int64 { return g.n.Add(n) }

// Max raises the gauge to n if it is lower. It records peaks.
func (g *Gauge) Max(n int64) { raise(&g.n, n) }

// Value returns the present value.
func (g *Gauge) Value() int64 { return g.n.Load() }

func (g *Gauge) kind() Kind { return KindGauge }

func (g *Gauge) entries(name, help string, to []Entry) []Entry {
	return append(to, Entry{Name: name, Help: help, Kind: KindGauge, Value: float64(g.Value())})
}

func raise(n *atomic.Int64, to int64) {
	for {
		have := n.Load()
		if have >= to || n.CompareAndSwap(have, to) {
			return
		}
	}
}

type gaugeFunc struct {
	f atomic.Pointer[func() float64]
}

func (g *gaugeFunc) kind() Kind { return KindGauge }

func (g *gaugeFunc) value() float64 {
	// A gauge has no value between its registration and the storing of its function.
	if f := g.f.Load(); f != nil {
		return (*f)()
	}
	return math.NaN()
}

func (g *gaugeFunc) entries(name, help string, to []Entry) []Entry {
	return append(to, Entry{Name: name, Help: help, Kind: KindGauge, Value: g.value()})
}

type counterFunc struct{ gaugeFunc }

func (c *counterFunc) kind() Kind { return KindCounter }

func (c *counterFunc) entries(name, help string, to []Entry) []Entry {
	return append(to, Entry{Name: name, Help: help, Kind: KindCounter, Value: c.value()})
}

type text struct {
	f atomic.Pointer[func() string]
}

func (x *text) kind() Kind { return KindText }

func (x *text) value() string {
	if f := x.f.Load(); f != nil {
		return (*f)()
	}
	return ""
}

func (x *text) entries(name, help string, to []Entry) []Entry {
	return append(to, Entry{Name: name, Help: help, Kind: KindText, Text: x.value()})
}
