package record

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range of a histogram, in microseconds. A longer latency counts as the longest.
const (
	shortest = 1
	longest  = int64(time.Hour / time.Microsecond)
	digits   = 3
)

// Histogram counts latencies. The zero value is empty and ready to use; it is not safe for concurrent use. It holds
// only the counters that are not zero, because a run of an hour has tens of thousands of histograms of a few values
// each.
type Histogram struct {
	h *hdrhistogram.PackedHistogram
	// sum is exact, in microseconds, because the documents compare averages.
	sum int64
}

// Add counts one latency.
func (g *Histogram) Add(d time.Duration) {
	us := min(max(int64(d/time.Microsecond), shortest), longest)
	g.room()
	_ = g.h.RecordValue(us) // never fails within the range
	g.sum += us
}

// Merge adds the counts of another histogram.
func (g *Histogram) Merge(other *Histogram) {
	if other.h == nil {
		return
	}
	g.room()
	g.h.Merge(other.h)
	g.sum += other.sum
}

func (g *Histogram) room() {
	if g.h == nil {
		g.h = hdrhistogram.NewPacked(shortest, longest, digits)
	}
}

// Count returns the number of latencies.
func (g *Histogram) Count() int64 {
	if g.h == nil {
		return 0
	}
	return g.h.TotalCount()
}

// Mean returns the average, 0 if the histogram is empty.
func (g *Histogram) Mean() time.Duration {
	if n := g.Count(); n > 0 {
		return time.Duration(g.sum/n) * time.Microsecond
	}
	return 0
}

// Sum returns the sum of all latencies.
func (g *Histogram) Sum() time.Duration { return time.Duration(g.sum) * time.Microsecond }

// Percentile returns the latency that p percent (0–100) do not exceed, 0 if the histogram is empty.
func (g *Histogram) Percentile(p float64) time.Duration {
	if g.h == nil {
		return 0
	}
	return time.Duration(g.h.ValueAtPercentile(p)) * time.Microsecond
}

// Max returns the longest latency, 0 if the histogram is empty.
func (g *Histogram) Max() time.Duration {
	if g.h == nil {
		return 0
	}
	return time.Duration(g.h.Max()) * time.Microsecond
}

// Reset empties the histogram and keeps its memory.
func (g *Histogram) Reset() {
	if g.h != nil {
		g.h.Reset()
	}
	g.sum = 0
}

// Clone returns a copy that shares no memory.
func (g *Histogram) Clone() Histogram {
	if g.h == nil {
		return Histogram{}
	}
	return Histogram{g.h.Clone(), g.sum}
}

// sum adds up many histograms. It has room for every counter, which makes additions fast.
type sum struct {
	h   *hdrhistogram.Histogram
	sum int64
}

func (s *sum) add(g *Histogram) {
	if g.h == nil {
		return
	}
	if s.h == nil {
		s.h = hdrhistogram.New(shortest, longest, digits)
	}
	g.h.MergeInto(s.h)
	s.sum += g.sum
}

func (s *sum) histogram() (g Histogram) {
	if s.h == nil {
		return g
	}
	g.room()
	g.h.MergeFrom(s.h)
	g.sum = s.sum
	return g
}

// stored is the form in the file: HDR's own V2 encoding (compressed, base64), and the exact sum.
type stored struct {
	HDR string `json:"hdr"`
	Sum int64  `json:"sum_us"`
}

// MarshalJSON implements json.Marshaler.
func (g Histogram) MarshalJSON() ([]byte, error) {
	if g.Count() == 0 {
		return []byte("null"), nil
	}
	b, err := g.h.Encode()
	if err != nil {
		return nil, fmt.Errorf("record: histogram: %w", err)
	}
	return json.Marshal(stored{string(b), g.sum})
}

// UnmarshalJSON implements json.Unmarshaler.
func (g *Histogram) UnmarshalJSON(b []byte) error {
	*g = Histogram{}
	if string(b) == "null" {
		return nil
	}
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("record: histogram: %w", err)
	}
	h, err := decode(s.HDR)
	if err != nil {
		return err
	}
	if h.LowestTrackableValue() != shortest || h.HighestTrackableValue() != longest ||
		h.SignificantFigures() != digits {
		// Convert it to our range, so that any two histograms can be merged.
		foreign := h
		h = hdrhistogram.NewPacked(shortest, longest, digits)
		if dropped := h.Merge(foreign); dropped > 0 {
			return fmt.Errorf("record: histogram: %d values out of range", dropped)
		}
	}
	g.h = h
	g.sum = s.Sum
	return nil
}

// maxEncoded is the size limit of a histogram in a file, in bytes; one with every counter set is far smaller.
const maxEncoded = 1 << 20

// decode decodes a histogram. The library trusts its input, so decode turns its panics into errors.
func decode(text string) (h *hdrhistogram.PackedHistogram, err error) {
	if len(text) > maxEncoded {
		return nil, fmt.Errorf("record: histogram of %d bytes", len(text))
	}
	defer func() {
		if r := recover(); r != nil {
			h, err = nil, fmt.Errorf("record: histogram: %v", r)
		}
	}()
	h, err = hdrhistogram.DecodePacked([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("record: histogram: %w", err)
	}
	return h, nil
}

// MarshalJSON implements json.Marshaler: seconds, to the microsecond.
func (d Duration) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Duration(d)/time.Microsecond)/1e6, 'f', -1, 64), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	s, err := strconv.ParseFloat(string(b), 64)
	if err != nil || s < 0 || s > 1e9 {
		return fmt.Errorf("record: %q is no time in seconds", b)
	}
	*d = Duration(time.Duration(s*1e6+0.5) * time.Microsecond)
	return nil
}
