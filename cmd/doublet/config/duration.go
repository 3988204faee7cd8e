package config

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a time.Duration that the file holds as text: 500us, 30s, 1h30m.
//
// It is a struct, not an integer, so that the decoder rejects a bare number, which has no unit.
type Duration struct{ time.Duration }

// String writes µ as u, so that the file stays ASCII, and omits zero parts.
func (d Duration) String() string {
	s := strings.ReplaceAll(d.Duration.String(), "µ", "u")
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// UnmarshalText parses a duration of the file.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 500us, 30s or 1h30m", text)
	}
	d.Duration = v
	return nil
}

// MarshalText returns the duration as the file holds it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
