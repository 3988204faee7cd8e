package stat

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Unit is the unit of a histogram's observations.
type Unit uint8

// Units of observations. Seconds are observed in nanoseconds and shown in seconds.
const (
	Count Unit = iota + 1
	Bytes
	Seconds
)

func (u Unit) String() string {
	switch u {
	case Bytes:
		return "bytes"
	case Seconds:
		return "seconds"
	}
	return ""
}

// scale converts an observation to the unit shown.
func (u Unit) scale(v float64) float64 {
	if u == Seconds {
		return v / float64(time.Second)
	}
	return v
}

// Buckets are log-linear: each power of two is divided into 16 equal parts, so a quantile is off by at most 1/32 (3.2
// %) over the whole range. Each number below 16 has its own bucket.
const (
	subBits     = 4
	subBuckets  = 1 << subBits
	bucketCount = (64 - subBits) * subBuckets
)

// Histogram is a distribution of whole numbers ≥ 0. Observe is lock-free. A Histogram takes 8 KB, whatever it holds.
// The zero value has the unit Count.
type Histogram struct {
	unit    Unit
	sum     atomic.Uint64
	max     atomic.Int64
	low     atomic.Int64 // math.MaxInt64 minus the smallest observation, so that 0 means none
	buckets [bucketCount]atomic.Uint64
}

// Observe adds one observation in the histogram's unit. A negative one counts as 0.
func (h *Histogram) Observe(v int64) {
	v = max(v, 0)
	h.buckets[bucketOf(uint64(v))].Add(1)
	h.sum.Add(uint64(v))
	if v > h.max.Load() {
		raise(&h.max, v)
	}
	if low := math.MaxInt64 - v; low > h.low.Load() {
		raise(&h.low, low)
	}
}

// ObserveDuration adds one observation to a histogram in Seconds.
func (h *Histogram) ObserveDuration(d time.Duration) { h.Observe(int64(d)) }

func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	exp := bits.Len64(v) - 1 - subBits // ≥ 0
	return exp*subBuckets + int(v>>exp)
}

// bucketLow returns the smallest number in bucket i.
func bucketLow(i int) uint64 {
	if i < 2*subBuckets {
		return uint64(i)
	}
	exp := i/subBuckets - 1
	return uint64(subBuckets+i%subBuckets) << exp
}

// Distribution is a copy of a histogram at one moment, in the unit shown. Without observations all values are 0.
type Distribution struct {
	Count               uint64
	Sum, Mean, Min, Max float64

	unit    Unit
	buckets [bucketCount]uint64
}

// Distribution returns a copy of the histogram. It may or may not contain observations made at the same time.
func (h *Histogram) Distribution() *Distribution {
	d := &Distribution{unit: h.unit}
	for i := range h.buckets {
		n := h.buckets[i].Load()
		d.buckets[i] = n
		d.Count += n
	}
	d.Sum = h.unit.scale(float64(h.sum.Load()))
	d.Max = h.unit.scale(float64(h.max.Load()))
	if d.Count > 0 {
		d.Mean = d.Sum / float64(d.Count)
		// An observation that is made at the same time may be in a bucket already, and not in low.
		if low := h.low.Load(); low > 0 {
			d.Min = h.unit.scale(float64(math.MaxInt64 - low))
		}
	}
	return d
}

// Quantile returns the value below which the fraction q (0 … 1) of the observations lies, off by at most 3.2 %; 0 if
// there are none.
func (d *Distribution) Quantile(q float64) float64 {
	if d.Count == 0 {
		return 0
	}
	rank := uint64(q * float64(d.Count))
	rank = min(rank, d.Count-1)
	var seen uint64
	for i, n := range d.buckets {
		seen += n
		if seen > rank {
			low := bucketLow(i)
			middle := float64(low)
			if i+1 < bucketCount {
				middle += float64(bucketLow(i+1)-low-1) / 2
			}
			return min(d.unit.scale(middle), d.Max)
		}
	}
	return d.Max
}

// below returns the number of observations smaller than 1<<exp; exp must be at least subBits.
func (d *Distribution) below(exp int) uint64 {
	var n uint64
	for i := 0; i < bucketOf(1<<exp); i++ {
		n += d.buckets[i]
	}
	return n
}

func (h *Histogram) kind() Kind { return KindHistogram }

func (h *Histogram) entries(name, help string, to []Entry) []Entry {
	d := h.Distribution()
	unit := h.unit.String()
	add := func(suffix, what string, v float64, unit string) {
		to = append(to, Entry{Name: name + suffix, Help: help + ": " + what, Kind: KindHistogram, Value: v, Unit: unit})
	}
	add(".Count", "observations", float64(d.Count), "")
	add(".Mean", "mean", d.Mean, unit)
	add(".P50", "median", d.Quantile(0.50), unit)
	add(".P95", "95th percentile", d.Quantile(0.95), unit)
	add(".P99", "99th percentile", d.Quantile(0.99), unit)
	add(".Max", "maximum", d.Max, unit)
	return to
}
