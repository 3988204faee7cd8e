package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written with a unit: 50MB, 64KiB, 1.5 GB, 1000. K, M, G, T and KB, MB, GB, TB are powers
// of 1024, as mail servers have always used them; KiB, MiB, GiB, TiB mean the same.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TB", 1 << 40}, {"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1},
}

// ParseSize parses a Size.
func ParseSize(text string) (Size, error) {
	s := strings.ToUpper(strings.TrimSpace(text))
	digits := strings.TrimRight(s, "BIKMGT ")
	unit := strings.TrimSpace(s[len(digits):])
	scale := int64(1)
	switch strings.Replace(unit, "I", "", 1) {
	case "", "B":
	case "K", "KB":
		scale = 1 << 10
	case "M", "MB":
		scale = 1 << 20
	case "G", "GB":
		scale = 1 << 30
	case "T", "TB":
		scale = 1 << 40
	default:
		return 0, fmt.Errorf("%q is not a size such as 50MB", text)
	}
	if unit == "I" || unit == "IB" {
		return 0, fmt.Errorf("%q is not a size such as 50MB", text)
	}
	if whole, err := strconv.ParseInt(digits, 10, 64); err == nil && whole >= 0 {
		if whole > math.MaxInt64/scale {
			return 0, fmt.Errorf("%q is too large", text)
		}
		return Size(whole * scale), nil
	}
	// Digits and one point only: ParseFloat also accepts 1e9, 0x1p4 and Inf.
	if strings.Trim(digits, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is not a size such as 50MB", text)
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a size such as 50MB", text)
	}
	if f *= float64(scale); f >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is too large", text)
	}
	return Size(f), nil
}

// String writes the size in the largest unit that divides it.
func (s Size) String() string {
	if s == 0 {
		return "0B"
	}
	for _, u := range sizeUnits {
		if int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// UnmarshalText parses a size of the file.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := ParseSize(string(text))
	if err == nil {
		*s = v
	}
	return err
}

// MarshalText returns the size as the file holds it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
