package imapd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
)

// compress turns on compression at the client.
func (x *wanderer) compress(tag string) {
	x.t.Helper()
	if heard := x.ask(tag + " COMPRESS DEFLATE"); !strings.HasPrefix(heard[len(heard)-1], tag+" OK") {
		x.t.Fatal(heard)
	}
	x.c = pack(x.t, x.c)
	x.in = bufio.NewReader(x.c)
}

// TestCompressedMoves checks that a compressed session moves like any other: the member that has the client's
// connection compresses it, wherever the home is, and a former home has no part in it.
func TestCompressedMoves(t *testing.T) {
	t.Parallel()
	for _, first := range []int{0, 1} {
		w := newCluster(t, 3)
		w.HandOver(first)
		x := w.connect(0)
		x.ask("a SELECT INBOX")
		x.compress("b")
		for n, to := range []int{2, 1, 0, 1, 2, 0} {
			w.HandOver(to)
			_, _, err := w.File().Append(context.Background(), "INBOX", []byte(moveLetter), mailbox.Flags{},
				time.Unix(1_700_000_000, 0))
			w.must(err)
			if heard := strings.Join(x.ask("c NOOP"), ""); !strings.Contains(heard, fmt.Sprintf("* %d EXISTS", n+1)) {
				t.Errorf("at %d: %s", to, heard)
			}
			for i, m := range w.Members {
				want := int64(0)
				if i == 0 && to != 0 {
					want = 1
				}
				if now := m.Stats.Gauge("Server.Cluster.Sessions.Current", "").Value(); now != want {
					t.Errorf("the home is %d, and %d carries %d sessions", to, i, now)
				}
			}
			if heard := strings.Join(x.ask("d CAPABILITY"), ""); strings.Contains(heard, "COMPRESS") {
				t.Error(heard)
			}
			if heard := strings.Join(x.ask("e COMPRESS DEFLATE"), ""); !strings.HasPrefix(heard,
				"e NO [COMPRESSIONACTIVE]") {
				t.Error(heard)
			}
		}
		x.leaving = true
		x.ask("y LOGOUT")
	}
}

// TestLiteralsMove checks that a command with many literals is executed at the new home if the mail file moves before
// the last of them has come, and that the next literal is invited again.
func TestLiteralsMove(t *testing.T) {
	t.Parallel()
	w := newCluster(t, 2)
	x := w.connect(0)
	x.ask("a SELECT INBOX")
	text := strings.Repeat("x", 1000)
	x.say("b SEARCH")
	for i := range 150 {
		x.say(fmt.Sprintf(" TEXT {%d}\r\n", len(text)))
		x.until("+")
		if i == 149 {
			w.HandOver(1)
		}
		x.say(text)
	}
	x.say("\r\n")
	if heard := x.until("b "); !strings.HasPrefix(heard[len(heard)-1], "b OK") {
		t.Error(heard[len(heard)-1])
	}
	w.HandOver(0)
	x.ask("c STARTTLS") // BAD
	x.say("d STATUS {5}\r\n")
	x.until("+")
	if heard := x.ask2("d", "INBOX (MESSAGES)\r\n"); !strings.HasPrefix(heard[len(heard)-1], "d OK") {
		t.Error(heard)
	}
	if n := w.Moved(); n != 2 {
		t.Errorf("moved %d times", n)
	}
}

// TestLargeAppendMoves checks that a message of any size is appended at the new home if the mail file moved before the
// command, with one continuation request.
func TestLargeAppendMoves(t *testing.T) {
	t.Parallel()
	w := newCluster(t, 2)
	x := w.connect(0)
	large := moveLetter + strings.Repeat("0123456789abcdef0123456789abcd\r\n", (maxAgain+1<<20)/32)
	for n, plus := range []string{"", "+"} {
		w.HandOver(1 - n)
		x.say(fmt.Sprintf("b%d APPEND {5+}\r\nINBOX {%d%s}\r\n", n, len(large), plus))
		if plus == "" {
			x.until("+")
		}
		heard := x.ask2(fmt.Sprint("b", n), large+"\r\n")
		if len(heard) != 1 || !strings.Contains(heard[0], " OK [APPENDUID") {
			t.Errorf("%.300q", heard)
		}
	}
	if n := w.Moved(); n != 2 {
		t.Errorf("moved %d times", n)
	}
}

// TestMoveWithoutMemory checks that a session ends with an explanation if one of the members that its move passes has
// no memory for messages left: the old home, the client's member, or the new home.
func TestMoveWithoutMemory(t *testing.T) {
	t.Parallel()
	for full := range 3 {
		w := newCluster(t, 3)
		w.HandOver(1)
		x := w.connect(0)
		x.ask("a SELECT INBOX")
		all := w.Members[full].Memory
		all.Take(all.Max())
		w.HandOver(2)
		x.leaving = true
		x.say("b NOOP\r\n")
		if heard := x.line(); !strings.HasPrefix(heard, "* BYE [UNAVAILABLE] ") {
			t.Errorf("without memory at %d: %s", full, heard)
		}
		if _, err := x.in.ReadByte(); err != io.EOF {
			t.Errorf("without memory at %d: %v", full, err)
		}
		all.Give(all.Max())
	}
}
