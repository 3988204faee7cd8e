package config

import "doublet/wire/size"

// Size is a number of bytes, written with a unit: 50MB, 64KiB, 1.5 GB, 1000. Units are powers of 1024.
type Size int64

// String writes the size in the largest unit that divides it.
func (s Size) String() string { return size.Exact(int64(s)) }

// UnmarshalText parses a size of the file.
func (s *Size) UnmarshalText(text []byte) error {
	v, err := size.Parse(string(text))
	if err == nil {
		*s = Size(v)
	}
	return err
}

// MarshalText returns the size as the file holds it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
