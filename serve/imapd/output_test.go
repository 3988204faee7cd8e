package imapd

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"doublet/serve/listen"
)

// TestPages appends to an output at random, begins pages, leaves holes, and cuts it back to positions that it had. The
// text and the holes are those of an output in one piece.
func TestPages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var o output
		o.Take()
		type state struct {
			mark
			text  string
			holes []int
		}
		var now state
		var marks []state
		for range 200 {
			switch r.IntN(6) {
			case 0:
				o.turn(r.IntN(2 * pageSize))
			case 1:
				now.holes = append(slices.Clip(now.holes), len(now.text))
				o.leave(nil, span{int64(len(now.text)), 1})
			case 2:
				now.mark = o.here()
				marks = append(marks, now)
			case 3:
				if len(marks) > 0 {
					n := r.IntN(len(marks))
					now = marks[n]
					marks = marks[:n+1]
					o.cut(now.mark)
				}
			default:
				s := strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(20_000))
				o.B = append(o.B, s...)
				now.text += s
			}
		}
		var text []byte
		var holes []int
		size := int64(cap(o.B))
		add := func(b []byte, list []hole) {
			for _, h := range list {
				holes = append(holes, len(text)+h.at)
			}
			text = append(text, b...)
		}
		for _, p := range o.full {
			size += int64(cap(p.B))
			add(p.B, p.holes)
		}
		add(o.B, o.holes)
		if string(text) != now.text || !slices.Equal(holes, now.holes) || o.size() != size {
			t.Fatalf("seed %d: %d bytes, holes %v, size %d; want %d, %v, %d", seed, len(text), holes, o.size(),
				len(now.text), now.holes, size)
		}
	}
}

// attacked opens a server with a message whose To field and body are long.
func attacked(t *testing.T, memory *listen.Budget) *house {
	t.Helper()
	h := open(t, settings{Config: Config{Memory: memory}})
	var to strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&to, "\r\n\tPerson number %d <person%d@far.example>,", i, i)
	}
	h.fill(t, 1, "Subject: attack\r\nTo: last@far.example,"+strings.TrimSuffix(to.String(), ",")+
		"\r\n\r\n"+strings.Repeat("0123456789abcdef\r\n", 10_000))
	return h
}

// TestLongResponses requests the same long items many times in one FETCH, which makes a response of many pages. Each
// item has the same content as alone. A FETCH for which there is no memory is refused whole, and the session goes on.
func TestLongResponses(t *testing.T) {
	t.Parallel()
	memory := listen.NewBudget(24 << 20)
	h := attacked(t, memory)
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	items := []string{"ENVELOPE", "BODY.PEEK[]", "BODY.PEEK[HEADER.FIELDS (TO)]", "BODYSTRUCTURE", "BINARY.PEEK[1]",
		"BODY.PEEK[]<7.32000>", "BINARY.SIZE[1]", "RFC822.SIZE"}
	var all, want []string
	for _, it := range items {
		got := talk(t, c, r, "c FETCH 1 ("+it+")")
		got, ok := strings.CutPrefix(got, "* 1 FETCH (")
		got, done := strings.CutSuffix(got, ")\r\nc OK FETCH completed\r\n")
		if !ok || !done {
			t.Fatalf("%s: %.100q", it, got)
		}
		for range 4 {
			all, want = append(all, it), append(want, got)
		}
	}
	rand.Shuffle(len(all), func(i, k int) {
		all[i], all[k] = all[k], all[i]
		want[i], want[k] = want[k], want[i]
	})
	got := talk(t, c, r, "d FETCH 1 ("+strings.Join(all, " ")+")")
	if got != "* 1 FETCH ("+strings.Join(want, " ")+")\r\nd OK FETCH completed\r\n" {
		t.Errorf("%d bytes of %d, beginning %.200q", len(got), len(strings.Join(want, " ")), got)
	}
	got = talk(t, c, r, "e FETCH 1 ("+strings.Repeat("UID ENVELOPE ", 120)+"BODY.PEEK[])")
	if !strings.HasPrefix(got, "e NO [LIMIT]") {
		t.Errorf("a response over the budget: %.200q", got)
	}
	if got := talk(t, c, r, "f NOOP"); got != "f OK NOOP completed\r\n" {
		t.Errorf("%q", got)
	}
	if used := memory.Used(); used != 0 {
		t.Errorf("%d bytes stay reserved", used)
	}
}

// TestLongResponsesAllocate checks that a long response takes about its own size of memory until it is sent. An output
// that grows by copies takes five times that, which is not in the budget and lies about until the next collection.
func TestLongResponsesAllocate(t *testing.T) {
	h := attacked(t, listen.NewBudget(64<<20))
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	for _, item := range []string{"ENVELOPE", "BODY.PEEK[HEADER.FIELDS (TO)]", "BODY.PEEK[]<0.32768>"} {
		line := []byte("c FETCH 1 (" + strings.Repeat(item+" ", 60) + "UID)\r\n")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := c.Write(line); err != nil {
			t.Fatal(err)
		}
		size, last := 0, []byte(nil)
		for !bytes.HasPrefix(last, []byte("c OK")) {
			b, err := r.ReadSlice('\n')
			if err != nil && err != io.EOF && len(b) < r.Size() {
				t.Fatalf("%s: %v after %d bytes, %.100q", item, err, size, b)
			}
			size, last = size+len(b), b
		}
		runtime.ReadMemStats(&after)
		took := int(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: %d bytes allocated for a response of %d", item, took, size)
		if took > 4*size { // the race detector drops pooled memory
			t.Errorf("%s: %d bytes allocated for a response of %d", item, took, size)
		}
	}
}
