package archive

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// FuzzDecode checks that a malformed step is refused, and that one that is read is written again as it was understood.
func FuzzDecode(f *testing.F) {
	for _, s := range []*step{
		{Timeline: "1-a", Number: 1, Through: 5,
			batches: [][]byte{[]byte("batch"), nil, bytes.Repeat([]byte("x"), 300)}},
		{Timeline: "1-a", Number: 2, Through: 5, Segment: 7, Key: "k", From: 9, content: []byte("content")},
	} {
		b, err := s.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := decode(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		again, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(again)
		if err != nil || got.Number != s.Number || got.Segment != s.Segment || got.From != s.From ||
			!bytes.Equal(got.content, s.content) || !slices.EqualFunc(got.batches, s.batches, bytes.Equal) {
			t.Fatalf("%+v, %v, want %+v", got, err, s)
		}
	})
}

// TestStepNames checks that names of steps sort as their numbers do and that no other name is taken for one.
func TestStepNames(t *testing.T) {
	t.Parallel()
	name := stepName("1-a", 12, 34)
	if n, through, ok := parseStepName(name[len("archive/1-a/"):]); !ok || n != 12 || through != 34 {
		t.Error(name, n, through, ok)
	}
	for _, bad := range []string{"", "through", "12-34", "000000000000-00000000000000000034",
		"000000000012-00000000000000000034.tmp", "000000000012-0000000000000000003x"} {
		if _, _, ok := parseStepName(bad); ok {
			t.Errorf("%q is taken for a step", bad)
		}
	}
}

// TestTwice checks that of two blobs of one step, which a crash may leave, the later one counts: the next step follows
// it.
func TestTwice(t *testing.T) {
	t.Parallel()
	l := &timeline{steps: sorted([]named{{number: 1, through: 5}, {number: 2, through: 7}, {number: 2, through: 9},
		{number: 4, through: 20}})}
	if steps, through := l.after(1); len(steps) != 2 || through != 9 || steps[1].through != 9 {
		t.Errorf("%v %d", steps, through)
	}
	l.idle = idle{Step: 2, Through: 15}
	if _, through := l.after(1); through != 15 {
		t.Errorf("through %d", through)
	}
	if steps, through := l.after(3); len(steps) != 0 || through != 15 {
		t.Errorf("%v %d", steps, through)
	}
}
