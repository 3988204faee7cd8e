package natsbus

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/direct"
)

func testSeals(t testing.TB) (seals, linkID) {
	k := direct.Keys{ID: [8]byte{1, 2, 3}, Ask: [32]byte{4}, Answer: [32]byte{5}}
	s, err := sealsOf(k)
	if err != nil {
		t.Fatal(err)
	}
	return s, k.ID
}

func TestMessage(t *testing.T) {
	t.Parallel()
	s, link := testSeals(t)
	h := messageHead{kind: kindAsk, link: link, number: 77}
	body := bytes.Repeat([]byte("body"), 1000)
	m := seal(s.ask, appendAsk(h.append(nil), 1500*time.Millisecond, "test.verb", body))
	if bytes.Contains(m, []byte("body")) || bytes.Contains(m, []byte("test.verb")) {
		t.Error("it can be read")
	}
	got, err := parseHead(m)
	if err != nil || got != h {
		t.Fatalf("head %+v, %v", got, err)
	}
	if _, err := unseal(s.answer, bytes.Clone(m)); !errors.Is(err, errSeal) {
		t.Errorf("with the key of the other direction: %v", err)
	}
	for i := range m { // a change of any bit is detected
		if i > 100 && i%97 != 0 {
			continue
		}
		bad := bytes.Clone(m)
		bad[i] ^= 1 << (i % 8)
		if _, err := parseHead(bad); err != nil {
			continue
		}
		if _, err := unseal(s.ask, bad); !errors.Is(err, errSeal) {
			t.Fatalf("byte %d was changed: %v", i, err)
		}
	}
	plain, err := unseal(s.ask, m)
	if err != nil {
		t.Fatal(err)
	}
	left, verb, out, err := parseAsk(plain)
	if err != nil || left != 1500*time.Millisecond || verb != "test.verb" || !bytes.Equal(out, body) {
		t.Errorf("%s %q, %d bytes, %v", left, verb, len(out), err)
	}
	largest := seal(s.ask, appendAsk(h.append(nil), 0, strings.Repeat("v", bus.MaxVerb), make([]byte, bus.MaxBody)))
	if len(largest) != maxMessage {
		t.Errorf("the largest message has %d bytes, not %d", len(largest), maxMessage)
	}
	if _, err := parseHead(append(largest, 0)); err == nil {
		t.Error("a larger one is taken")
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	server := bus.ServerID{1}
	if out, err := parseAnswer(appendDone(nil, []byte("x")), server, "v"); err != nil || string(out) != "x" {
		t.Errorf("%q, %v", out, err)
	}
	_, err := parseAnswer(appendRefusal(nil, "gap", "a page"), server, "v")
	var remote *bus.RemoteError
	if !errors.As(err, &remote) || *remote != (bus.RemoteError{Server: server, Verb: "v", Code: "gap",
		Text: "a page"}) {
		t.Errorf("%v", err)
	}
	for _, bad := range [][]byte{nil, {statusRefused}, {statusRefused, 9, 'x'}, {99}, {statusLate, 0}} {
		if _, err := parseAnswer(bad, server, "v"); !errors.Is(err, bus.ErrNoAnswer) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestWindow compares window with a set of all numbers.
func TestWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var w window
		seen, greatest := map[uint64]bool{}, uint64(0)
		at := uint64(1)
		for range 5000 {
			switch r.IntN(20) {
			case 0:
				at += uint64(r.IntN(3 * windowBits))
			case 1:
				at += windowBits
			default:
				at++
			}
			n := at
			if back := uint64(r.IntN(2 * windowBits)); r.IntN(2) == 0 && back < n {
				n -= back
			}
			want := n > 0 && !seen[n] && n+windowBits > greatest
			if got := w.take(n); got != want {
				t.Fatalf("seed %d: %d behind %d: taken %v, want %v", seed, n, greatest, got, want)
			}
			if want {
				seen[n] = true
				greatest = max(greatest, n)
			}
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	link := linkID{0, 1, 2, 0xff, 4, 5, 6, 0xf7}
	for _, n := range []uint64{0, 1, 1 << 63, 1<<64 - 1} {
		l, got, err := parseNumber(formatNumber(link, n))
		if err != nil || l != link || got != n {
			t.Errorf("%x %d, %v", l, got, err)
		}
	}
	for _, bad := range []string{"", "-", "01-1", "0001020304050607", "0001020304050607-", "0001020304050607-x",
		"+001020304050607-1"} {
		if l, n, err := parseNumber(bad); err == nil {
			t.Errorf("%q: %x %d", bad, l, n)
		}
	}
}

// FuzzMessage checks that parsing any input succeeds or returns an error.
func FuzzMessage(f *testing.F) {
	s, link := testSeals(f)
	h := messageHead{kind: kindAsk, link: link, number: 1}
	f.Add(seal(s.ask, appendAsk(h.append(nil), time.Second, "v", []byte("body"))))
	f.Add([]byte{messageVersion})
	f.Fuzz(func(t *testing.T, m []byte) {
		h, err := parseHead(m)
		if err != nil {
			return
		}
		if !bytes.Equal(h.append(nil), m[:headBytes]) {
			t.Errorf("the head %+v is written otherwise", h)
		}
		_, _ = unseal(s.ask, bytes.Clone(m))
		// Parse it as if it had been sealed with the right key.
		left, verb, body, err := parseAsk(m[headBytes:])
		if err == nil && left == left.Truncate(time.Millisecond) && left < time.Hour && left > 0 {
			if again := appendAsk(nil, left, verb, body); !bytes.Equal(again, m[headBytes:]) {
				t.Errorf("%s %q %d bytes is written otherwise", left, verb, len(body))
			}
		}
		_, _ = parseAnswer(m[headBytes:], bus.ServerID{}, "v")
	})
}
