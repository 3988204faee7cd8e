//go:build !race

package imapd

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"runtime"
	"testing"
	"time"

	"doublet/test/door"
)

// TestStackOfIdle checks that the garbage collector shrinks the stack of a session in IDLE to 4 KB (see session.await),
// with TLS and without it.
func TestStackOfIdle(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("counters of coverage make frames larger")
	}
	// All stacks together, so that those of the test and of the store count too. The next larger stack has 8 KB.
	const sessions, most = 500, 6 << 10
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			h := open(t, settings{tls: secure})
			h.fill(t, 20, "Subject: x\r\n\r\nx")
			for range sessions {
				c, r := h.raw(t)
				if secure {
					talk(t, c, r, "s STARTTLS")
					c = tls.Client(c, door.ClientTLS)
					r = bufio.NewReader(c)
				}
				talk(t, c, r, "a LOGIN alice demo")
				talk(t, c, r, "b SELECT INBOX")
				fmt.Fprint(c, "c IDLE\r\n")
				if l, err := r.ReadString('\n'); l != "+ idling\r\n" {
					t.Fatal(l, err)
				}
			}
			each := most + 1
			for deadline := time.Now().Add(10 * time.Second); each > most && time.Now().Before(deadline); {
				each = stacks() / sessions // the last sessions may just begin to wait
			}
			if each > most {
				t.Errorf("the stack of a session in IDLE takes %d bytes, want at most %d", each, most)
			}
		})
	}
}

// stacks returns the memory of all stacks in bytes, after collections, each of which may halve a stack.
func stacks() int {
	for range 6 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}
