package bayes

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6 {
		t.Errorf("%s is %.7f, want %.7f", what, got, want)
	}
}

// TestChiSquare compares with values from tables of the distribution (R: pchisq(x, df, lower.tail=FALSE)).
func TestChiSquare(t *testing.T) {
	t.Parallel()
	near(t, "2 degrees at 0", chiSquare(0, 1), 1)
	near(t, "2 degrees at 5.991465", chiSquare(5.991465, 1), 0.05)
	near(t, "4 degrees at 10", chiSquare(10, 2), 0.0404277)
	near(t, "20 degrees at 31.410433", chiSquare(31.410433, 10), 0.05)
	near(t, "300 degrees at 5000", chiSquare(5000, 150), 0)
}

// TestScore compares with values computed by hand from 4 junk and 8 good messages.
func TestScore(t *testing.T) {
	t.Parallel()
	token := func(i uint32) uint32 { return i << 24 }
	m := NewModel(8)
	for i := range 4 {
		x := Tokens{token(1)}
		if i < 1 {
			x = append(x, token(3))
		}
		m.Learn(x, Junk)
	}
	near(t, "without good messages", m.Score(Tokens{token(1)}), 0.5)
	for i := range 8 {
		x := Tokens{token(2)}
		if i < 2 {
			x = append(x, token(3))
		}
		m.Learn(x, Good)
	}
	// 0.45 neutral observations in 12 messages: 0.0375 for each class.
	near(t, "all junk", m.probability(m.counts[1]), (1+0.0375)/(1+0.075))
	near(t, "all good", m.probability(m.counts[2]), 0.0375/(1+0.075))
	near(t, "a quarter of both", m.probability(m.counts[3]), 0.5)
	near(t, "never seen", m.probability(m.counts[4]), 0.5)
	f := 1.0375 / 1.075
	// One clue: chi-square with 2 degrees of freedom is exp(-x/2), so the terms are f and 1-f.
	near(t, "one clue", m.Score(Tokens{token(1), token(3), token(4)}), (1+f-(1-f))/2)
	near(t, "clues that contradict each other", m.Score(Tokens{token(1), token(2)}),
		(1+twoClues(f, 0.0375/1.075)-twoClues(1-f, 1-0.0375/1.075))/2)
	near(t, "no clue", m.Score(Tokens{token(3), token(4)}), 0.5)
	near(t, "no token", m.Score(nil), 0.5)
}

// twoClues is chi-square with 4 degrees of freedom of two probabilities: ab(1-ln ab).
func twoClues(a, b float64) float64 { return a * b * (1 - math.Log(a*b)) }

// TestClues checks that the tokens farthest from neutral decide, and that there are maxClues of them.
func TestClues(t *testing.T) {
	t.Parallel()
	m := NewModel(10)
	m.junk, m.good = 100, 100
	m.make()
	var all Tokens
	for i := range 1000 {
		m.counts[i] = count{uint16(i / 10), uint16(100 - i/10)}
		all = append(all, uint32(i)<<22)
	}
	got := m.clues(all)
	if len(got) != maxClues {
		t.Fatalf("%d clues", len(got))
	}
	want := make([]float64, 0, len(all))
	for i := range all {
		want = append(want, math.Abs(m.probability(m.counts[i])-0.5))
	}
	slices.Sort(want)
	least := want[len(want)-maxClues]
	for _, f := range got {
		if math.Abs(f-0.5) < least-1.0/512 {
			t.Errorf("clue %.3f is nearer to neutral than %.3f", f, least)
		}
	}
}

// TestAge checks that the counts of a class are halved at its limit, and those of the other class are not.
func TestAge(t *testing.T) {
	t.Parallel()
	m := NewModel(8)
	x := Tokens{7 << 24}
	m.Learn(x, Junk)
	for range MaxMessages {
		m.Learn(x, Good)
	}
	if junk, good := m.Messages(); junk != 1 || good != MaxMessages {
		t.Errorf("%d and %d before", junk, good)
	}
	m.Learn(x, Good)
	if junk, good := m.Messages(); junk != 1 || good != MaxMessages/2 || m.counts[7] != (count{1, MaxMessages / 2}) {
		t.Errorf("%d and %d after, %v", junk, good, m.counts[7])
	}
	for range MaxMessages {
		m.Unlearn(x, Good)
	}
	if m.good != 0 || m.counts[7] != (count{1, 0}) {
		t.Errorf("%d, %v after all was taken back", m.good, m.counts[7])
	}
}

// TestMemory learns random messages in random classes, again and again, and compares with a memory that learned each
// once in its last class.
func TestMemory(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	m := NewMemory(10)
	last := map[byte]Class{}
	tokens := func(id byte) (x Tokens) {
		r := rand.New(rand.NewPCG(uint64(id), 3))
		for range 50 {
			x = append(x, r.Uint32())
		}
		return x
	}
	for range 5000 {
		id, c := byte(r.IntN(200)), Class(r.IntN(3))
		if changed := m.Learn([]byte{id}, tokens(id), c); changed != (last[id] != c) {
			t.Fatalf("message %d from %s to %s: changed %t", id, last[id], c, changed)
		}
		last[id] = c
		if m.ClassOf([]byte{id}) != c {
			t.Fatalf("message %d is %s", id, m.ClassOf([]byte{id}))
		}
		if r.IntN(100) == 0 {
			again, err := ReadMemory(m.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			m = again
		}
	}
	once := NewMemory(10)
	for id, c := range last {
		once.Learn([]byte{id}, tokens(id), c)
	}
	if m.Model.junk != once.Model.junk || m.Model.good != once.Model.good ||
		!slices.Equal(m.Model.counts, once.Model.counts) {
		t.Error("the counts differ from those of messages that are learned once")
	}
}

// TestMemoryIsBounded checks the limits of both rings, and that the oldest entries go.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	m := NewMemory(MinBits)
	address := func(i int) string { return string(rune('a'+i%26)) + string(rune(0x4000+i)) + "@far.example" }
	for i := range MaxKnown + 10 {
		if !m.Know(address(i)) || m.Know(address(i)) {
			t.Fatalf("address %d", i)
		}
	}
	id := func(i int) []byte { return []byte{byte(i >> 16), byte(i >> 8), byte(i)} }
	for i := range MaxLearned + 10 {
		m.Learn(id(i), Tokens{uint32(i)}, Good)
	}
	m, err := ReadMemory(m.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if m.Known() != MaxKnown || m.Knows(address(9)) || !m.Knows(address(10)) || !m.Knows(address(MaxKnown+9)) {
		t.Error("known addresses")
	}
	if m.ClassOf(id(9)) != Unknown || m.ClassOf(id(10)) != Good || len(m.learned.list) != MaxLearned {
		t.Error("learned messages")
	}
	m.Know("new@far.example")
	if m.Knows(address(10)) || !m.Knows(address(11)) {
		t.Error("the oldest address did not go after reading")
	}
}

func FuzzMemory(f *testing.F) {
	m := NewMemory(MinBits)
	m.Learn([]byte("a"), Tokens{1 << 24, 9 << 24}, Junk)
	m.Know("a@far.example")
	f.Add(m.Append(nil))
	f.Add([]byte{version, MinBits, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ReadMemory(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		s := m.Model.Score(Tokens{1, 1 << 31})
		if math.IsNaN(s) || s < 0 || s > 1 {
			t.Errorf("score %v", s)
		}
		again, err := ReadMemory(m.Append(nil))
		if err != nil || !bytes.Equal(again.Append(nil), m.Append(nil)) {
			t.Errorf("not the same after writing: %v", err)
		}
	})
}
