package imap

import (
	"reflect"
	"testing"
)

func TestSet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text     string
		max      uint32
		resolved string
	}{
		{"1", 9, "1"}, {"*", 9, "9"}, {"*:4", 9, "4:9"}, {"12:*", 9, "9:12"}, {"5,1:3,4,2", 9, "1:5"},
		{"7:3,*,20", 9, "3:7,9,20"},
		{"*", 0, ""}, {"1,4294967295,4294967294", 9, "1,4294967294:4294967295"},
	} {
		s, err := ParseSet(c.text, 10)
		if err != nil || s.String() != c.text {
			t.Errorf("%s: %v, %v", c.text, s, err)
			continue
		}
		r := s.Resolve(c.max)
		if r.String() != c.resolved {
			t.Errorf("%s up to %d: %s, want %s", c.text, c.max, r, c.resolved)
		}
		for n := uint32(1); n < 25 && c.max > 0; n++ {
			if r.Has(n) != s.Contains(n, c.max) {
				t.Errorf("%s: %d", c.text, n)
			}
		}
	}
	for _, bad := range []string{"", "0", "1:", ":1", "1,,2", ",1", "1,", "1:2:3", "a", "4294967296", "1 ", "**",
		"1:0", "$"} {
		if s, err := ParseSet(bad, 10); err != ErrSet {
			t.Errorf("%q: %v, %v", bad, s, err)
		}
	}
	if _, err := ParseSet("1,2,3", 2); err != ErrSetSize {
		t.Error(err)
	}
	var s Set
	for _, n := range []uint32{1, 2, 3, 7, 9, 10} {
		s = s.Add(n)
	}
	s = s.AddRange(11, 12)
	var all []uint32
	s.Each(func(n uint32) bool { all = append(all, n); return n < 11 })
	if s.String() != "1:3,7,9:12" || s.Len() != 8 || !reflect.DeepEqual(all, []uint32{1, 2, 3, 7, 9, 10, 11}) {
		t.Error(s, s.Len(), all)
	}
	Set{{4294967295, 4294967295}}.Each(func(uint32) bool { return true })
}

func FuzzSet(f *testing.F) {
	for _, s := range []string{"1", "1:*,5", "*:*", "9:3,4294967295", "1,2,3"} {
		f.Add(s, uint32(7))
	}
	f.Fuzz(func(t *testing.T, text string, max uint32) {
		s, err := ParseSet(text, 1000)
		if err != nil {
			return
		}
		again, err := ParseSet(s.String(), 1000)
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Fatalf("%q: %v, %v", text, again, err)
		}
		r := s.Resolve(max)
		for i := range r {
			if r[i].Start == 0 || r[i].Start > r[i].Stop || i > 0 && uint64(r[i].Start) <= uint64(r[i-1].Stop)+1 {
				t.Fatalf("%q up to %d: %v", text, max, r)
			}
		}
		if max > 0 {
			for n := max; n > 0 && n+9 > max; n-- {
				if r.Has(n) != s.Contains(n, max) {
					t.Fatalf("%q up to %d: %d", text, max, n)
				}
			}
		}
	})
}
