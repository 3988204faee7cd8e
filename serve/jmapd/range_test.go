package jmapd

import (
	"math"
	"strconv"
	"testing"

	"doublet/wire/jmap"
)

// FuzzRange parses arbitrary Range fields for blobs of any size. The result must lie within the blob.
func FuzzRange(f *testing.F) {
	for _, s := range []string{
		"bytes=0-", "bytes=-5", "bytes=3-7", "bytes=0-9223372036854775807", "bytes=9223372036854775807-",
		"bytes=-9223372036854775807",
		"bytes=5-9223372036854775806", "bytes=18446744073709551616-", "bytes=0-18446744073709551615",
		"bytes=-99999999999999999999999", "bytes=-0", "bytes=+1-+2",
		"bytes=7-3", "bytes=1-2,3-4", "lines=1-2", "bytes=-", "bytes= 1 - 2 ", "",
	} {
		f.Add(s, int64(10))
		f.Add(s, int64(0))
		f.Add(s, int64(math.MaxInt64))
	}
	f.Fuzz(func(t *testing.T, field string, size int64) {
		if size < 0 {
			return
		}
		from, to, ok := oneRange(field, size)
		if ok && (from < 0 || to < from || to > size) {
			t.Errorf("%q of %d octets is taken for %d to %d", field, size, from, to)
		}
	})
}

// TestRange checks oneRange against RFC 9110 section 14.1.2 for positions after the end.
func TestRange(t *testing.T) {
	for _, c := range []struct {
		field    string
		from, to int64
		ok       bool
	}{
		{"bytes=0-9223372036854775807", 0, 10, true}, {"bytes=4-99999999999999999999", 4, 10, true},
		{"bytes=-9223372036854775807", 0, 10, true},
		{"bytes=-99999999999999999999", 0, 10, true}, {"bytes=9223372036854775807-", 0, 0, false},
		{"bytes=10-", 0, 0, false}, {"bytes=9-", 9, 10, true},
		{"bytes=-3", 7, 10, true}, {"bytes=2-2", 2, 3, true}, {"bytes=+2-3", 0, 10, true},
	} {
		from, to, ok := oneRange(c.field, 10)
		if ok != c.ok || ok && (from != c.from || to != c.to) {
			t.Errorf("%s: %d to %d, %v", c.field, from, to, ok)
		}
	}
}

// FuzzPiece parses arbitrary offsets and lengths. The result must not end before it begins.
func FuzzPiece(f *testing.F) {
	for _, n := range []int64{0, 1, 9, 10, 11, 1 << 53, math.MaxInt64 - 1, math.MaxInt64} {
		for _, m := range []int64{0, 1, 10, 1 << 53, math.MaxInt64} {
			f.Add(n, m, int64(10))
		}
	}
	f.Fuzz(func(t *testing.T, offset, length, size int64) {
		if size < 0 {
			return
		}
		v, err := jmap.Parse(`{"offset":`+strconv.FormatInt(offset, 10)+`,"length":`+strconv.FormatInt(length, 10)+`}`,
			jmap.Bounds{})
		if err != nil {
			t.Fatal(err)
		}
		from, to, err := piece(v, size)
		if err == nil && (from < 0 || to < from || offset < 0 || length < 0) {
			t.Errorf("offset %d and length %d are taken for %d to %d", offset, length, from, to)
		}
	})
}
