// Package size reads and prints numbers of bytes with a unit: 50MB, 64KiB, 1.5 GB, 1000. K, M, G, T and KB, MB, GB, TB
// are powers of 1024, as mail servers have always used them; KiB, MiB, GiB, TiB mean the same.
package size

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

type unit struct {
	name  string
	bytes int64
}

// units are the units, the largest first.
var units = []unit{{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}}

// Parse parses a number of bytes: digits with at most one decimal point, and an optional unit in any case.
func Parse(text string) (int64, error) {
	s := strings.ToUpper(strings.TrimSpace(text))
	digits := strings.TrimRight(s, "BIKMGT ")
	// K and KIB mean KB; I and IB mean nothing.
	name := strings.TrimSuffix(strings.TrimSpace(s[len(digits):]), "B")
	if len(name) == 2 {
		name = strings.TrimSuffix(name, "I")
	}
	i := slices.IndexFunc(units, func(u unit) bool { return u.name == name+"B" })
	// ParseFloat also accepts 1e9, 0x1p4 and Inf.
	if i < 0 || strings.Trim(digits, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a size such as 50MB", text)
	}
	scale := units[i].bytes
	if whole, err := strconv.ParseInt(digits, 10, 64); err == nil && whole <= math.MaxInt64/scale {
		return whole * scale, nil // exact, where a float has 53 bits
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size such as 50MB", text)
	}
	if f *= float64(scale); f >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return int64(f), nil
}

// Exact prints a number of bytes in the largest unit that divides it.
func Exact(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

// Rounded prints a number of bytes in the largest unit that it reaches, with at most one decimal digit.
func Rounded(n uint64) string {
	for _, u := range units[:4] {
		if n >= uint64(u.bytes) {
			return strconv.FormatFloat(math.Round(float64(n)/float64(u.bytes)*10)/10, 'f', -1, 64) + " " + u.name
		}
	}
	return strconv.FormatUint(n, 10) + " B"
}
