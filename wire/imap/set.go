package imap

import (
	"errors"
	"slices"
	"strconv"
)

// Range is Start:Stop, both inclusive. 0 means `*`, the greatest number in use. As in the grammar, Start may be greater
// than Stop.
type Range struct{ Start, Stop uint32 }

// Set is a sequence-set or uid-set (RFC 9051 section 9).
type Set []Range

// ErrSet reports a text that is not a valid set of numbers.
var ErrSet = errors.New("imap: invalid set of numbers")

// ErrSetSize reports a set with more ranges than allowed.
var ErrSetSize = errors.New("imap: too many ranges in a set")

// ParseSet parses a set of at most max ranges.
func ParseSet(s string, max int) (Set, error) {
	n := 1
	for i := 0; i < len(s); i++ {
		if s[i] == ',' {
			n++
		}
	}
	if n > max {
		return nil, ErrSetSize
	}
	set := make(Set, 0, n)
	for i := 0; ; i++ {
		var r Range
		var ok bool
		if r.Start, i, ok = setNumber(s, i); !ok {
			return nil, ErrSet
		}
		r.Stop = r.Start
		if i < len(s) && s[i] == ':' {
			if r.Stop, i, ok = setNumber(s, i+1); !ok {
				return nil, ErrSet
			}
		}
		set = append(set, r)
		if i == len(s) {
			return set, nil
		}
		if s[i] != ',' {
			return nil, ErrSet
		}
	}
}

// setNumber parses nz-number or "*" at i.
func setNumber(s string, i int) (n uint32, next int, ok bool) {
	if i < len(s) && s[i] == '*' {
		return 0, i + 1, true
	}
	var v uint64
	start := i
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		v = v*10 + uint64(s[i]-'0')
		if v > 1<<32-1 {
			return 0, i, false
		}
	}
	return uint32(v), i, i > start && v != 0
}

// AppendSet prints a set. For an empty set it prints nothing, which is not valid in any grammar; callers must check.
func AppendSet(dst []byte, s Set) []byte {
	for i, r := range s {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendSetNumber(dst, r.Start)
		if r.Stop != r.Start {
			dst = append(dst, ':')
			dst = appendSetNumber(dst, r.Stop)
		}
	}
	return dst
}

func appendSetNumber(dst []byte, n uint32) []byte {
	if n == 0 {
		return append(dst, '*')
	}
	return strconv.AppendUint(dst, uint64(n), 10)
}

// String returns the text of the set.
func (s Set) String() string { return string(AppendSet(nil, s)) }

// resolved returns the bounds in ascending order, with max for `*`.
func (r Range) resolved(max uint32) (lo, hi uint32) {
	lo, hi = r.Start, r.Stop
	if lo == 0 {
		lo = max
	}
	if hi == 0 {
		hi = max
	}
	if lo > hi {
		lo, hi = hi, lo
	}
	return lo, hi
}

// Contains reports whether n is in the set, with max for `*`. It checks every range; to test many numbers call Resolve
// and Has.
func (s Set) Contains(n, max uint32) bool {
	for _, r := range s {
		if lo, hi := r.resolved(max); n >= lo && n <= hi {
			return true
		}
	}
	return false
}

// Has reports whether n is in a resolved set, with binary search.
func (s Set) Has(n uint32) bool {
	i, _ := slices.BinarySearchFunc(s, n, func(r Range, n uint32) int {
		switch {
		case r.Stop < n:
			return -1
		case r.Start > n:
			return 1
		}
		return 0
	})
	return i < len(s) && s[i].Start <= n && n <= s[i].Stop
}

// Dynamic reports whether the set contains `*`.
func (s Set) Dynamic() bool {
	for _, r := range s {
		if r.Start == 0 || r.Stop == 0 {
			return true
		}
	}
	return false
}

// Resolve replaces `*` with max and returns the ranges in ascending order, without overlaps and with adjacent ranges
// joined. If max is 0 (an empty mailbox), ranges of `*` alone are dropped.
func (s Set) Resolve(max uint32) Set {
	out := make(Set, 0, len(s))
	for _, r := range s {
		lo, hi := r.resolved(max)
		if hi == 0 {
			continue
		}
		if lo == 0 { // n:* in an empty mailbox
			lo = hi
		}
		out = append(out, Range{lo, hi})
	}
	return out.merge()
}

// Normalize is Resolve for a set without `*`.
func (s Set) Normalize() Set { return s.Resolve(0) }

func (s Set) merge() Set {
	sorted := true
	for i := 1; i < len(s); i++ {
		if s[i].Start < s[i-1].Start {
			sorted = false
			break
		}
	}
	if !sorted {
		slices.SortFunc(s, func(a, b Range) int {
			switch {
			case a.Start < b.Start:
				return -1
			case a.Start > b.Start:
				return 1
			}
			return 0
		})
	}
	out := s[:0]
	for _, r := range s {
		if n := len(out); n > 0 && uint64(r.Start) <= uint64(out[n-1].Stop)+1 {
			out[n-1].Stop = max(out[n-1].Stop, r.Stop)
			continue
		}
		out = append(out, r)
	}
	return out
}

// Len returns the number of elements of a resolved set.
func (s Set) Len() uint64 {
	var n uint64
	for _, r := range s {
		n += uint64(r.Stop) - uint64(r.Start) + 1
	}
	return n
}

// Add appends n to a set that is built in ascending order. It joins adjacent numbers.
func (s Set) Add(n uint32) Set {
	if k := len(s); k > 0 && s[k-1].Stop+1 == n {
		s[k-1].Stop = n
		return s
	}
	return append(s, Range{n, n})
}

// AddRange appends lo:hi to a set that is built in ascending order. It joins adjacent ranges.
func (s Set) AddRange(lo, hi uint32) Set {
	if k := len(s); k > 0 && s[k-1].Stop+1 == lo {
		s[k-1].Stop = hi
		return s
	}
	return append(s, Range{lo, hi})
}

// Each calls f for every number of a resolved set in order, until f returns false.
func (s Set) Each(f func(n uint32) bool) {
	for _, r := range s {
		for n := r.Start; ; n++ {
			if !f(n) {
				return
			}
			if n == r.Stop {
				break
			}
		}
	}
}
