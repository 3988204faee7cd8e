package ical

import (
	"testing"
	"time"
)

// TestNewTimezone compares the offsets of VTIMEZONEs that are made with those of the IANA database.
func TestNewTimezone(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "Asia/Tokyo",
		"Africa/Casablanca", "America/Sao_Paulo", "Europe/London", "Pacific/Auckland", "Asia/Kathmandu"} {
		const year = 2024
		z := NewTimezone(name, year)
		if z == nil {
			t.Fatal(name)
		}
		back, err := Parse(Append(nil, z), DefaultLimits)
		if err != nil {
			t.Fatal(err)
		}
		want := Named(name)
		noon := time.Date(year, 1, 1, 12, 0, 0, 0, time.UTC)
		for at := noon; at.Year() < year+ruledYears-2; at = at.AddDate(0, 0, 1) {
			wall := want.Wall(at)
			seconds, ok := back.offset(wall)
			if got := wall.Add(-time.Duration(seconds) * time.Second); !ok || !got.Equal(want.At(wall)) {
				t.Errorf("%s: %s is %s, want %s", name, wall, got, want.At(wall))
				break
			}
		}
	}
	if NewTimezone("UTC", 2024) != nil || NewTimezone("Nowhere", 2024) != nil {
		t.Error("a VTIMEZONE of UTC, or of a zone that does not exist")
	}
}

// TestNewTimezoneOfLaterYears checks that a zone is made for years whose changes follow the rule behind the table of
// the database, leap years among them.
func TestNewTimezoneOfLaterYears(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Tokyo"} {
		for year := 2020; year < 2100; year++ {
			z := NewTimezone(name, year)
			want := 1
			if name != "Asia/Tokyo" {
				want = 2 // a rule for each change of a year
			}
			if z == nil || len(z.Children) != want {
				t.Fatalf("%s in %d: %v", name, year, z)
			}
		}
	}
}
