package workload

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time such as "15m".
type Duration time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 || v > 1000*time.Hour {
		return fmt.Errorf("%q is no time such as 90s or 15m", b)
	}
	*d = Duration(v)
	return nil
}

// String returns the shortest form: "15m", not "15m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// Span is a time, "15m", or a range to draw from, "10s..20s".
type Span struct{ Min, Max Duration }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Span) UnmarshalText(b []byte) error {
	lo, hi, ranged := strings.Cut(string(b), "..")
	if !ranged {
		hi = lo
	}
	if err := s.Min.UnmarshalText([]byte(lo)); err != nil {
		return err
	}
	if err := s.Max.UnmarshalText([]byte(hi)); err != nil {
		return err
	}
	if s.Max < s.Min {
		return fmt.Errorf("%q: the second time is the shorter one", b)
	}
	return nil
}

// String returns the form in the file.
func (s Span) String() string {
	if s.Min == s.Max {
		return s.Min.String()
	}
	return s.Min.String() + ".." + s.Max.String()
}

// Bytes is a size such as "50KB"; KB and MB are 1,000 and 1,000,000, as in the documents.
type Bytes int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Bytes) UnmarshalText(b []byte) error {
	digits, unit := string(b), int64(1)
	for _, u := range []struct {
		name string
		n    int64
	}{{"MB", 1e6}, {"KB", 1e3}, {"B", 1}} {
		if cut, ok := strings.CutSuffix(digits, u.name); ok {
			digits, unit = cut, u.n
			break
		}
	}
	v, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || v < 0 || v*unit > 100e6 {
		return fmt.Errorf("%q is no size such as 500B, 50KB or 10MB (at most 100MB)", b)
	}
	*n = Bytes(v * unit)
	return nil
}

// String returns the form in the file.
func (n Bytes) String() string {
	switch {
	case n > 0 && n%1e6 == 0:
		return strconv.FormatInt(int64(n/1e6), 10) + "MB"
	case n > 0 && n%1e3 == 0:
		return strconv.FormatInt(int64(n/1e3), 10) + "KB"
	}
	return strconv.FormatInt(int64(n), 10) + "B"
}
