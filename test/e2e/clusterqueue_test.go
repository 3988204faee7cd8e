package e2e

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doublet/env"
	"doublet/mail/outbound/sink"
	"doublet/test/long"
	"doublet/test/program"
)

// until repeats a command at a member until its output contains text or, if text begins with "!", no longer contains
// it.
func (m *member) until(text string, args ...string) string {
	m.T.Helper()
	want, absent := strings.CutPrefix(text, "!")
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got = m.Doublet(args...); strings.Contains(got, want) != absent {
			return got
		}
	}
	m.T.Fatalf("%v never came to %q: %s\n%s", args, text, got, m.Out)
	return ""
}

// TestClusterQueue: a server accepts mail for a foreign domain that is unavailable, and is then lost with its disk. A
// mate sends the mail, once. When the server returns with its old data, it does not send it again, and routes its own
// mail.
func TestClusterQueue(t *testing.T) {
	t.Parallel()
	long.Test(t)
	var open atomic.Bool
	var refused atomic.Int32
	far, err := sink.New(env.Real(slog.New(slog.DiscardHandler)), "127.0.0.1:0",
		sink.Options{Reply: func(_ int, line string) string {
			if strings.HasPrefix(line, "RCPT") && !open.Load() {
				refused.Add(1)
				return "451 4.3.0 later"
			}
			return ""
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	path, one, two := pair(t, fmt.Sprintf("DOUBLET_ROUTER_SMARTHOST=127.0.0.1:%d", far.Port()),
		"DOUBLET_ROUTER_SMARTHOST_TLS=none",
		"DOUBLET_ROUTER_RETRY_FIRST=1s", "DOUBLET_ROUTER_RETRY_MAX=1s")
	one.Doublet("group", "add", "Far", "x@far.example", "--address", "far@cluster.example")
	for deadline := time.Now().Add(time.Minute); strings.Count(two.Doublet("db", "list"),
		"mail.box of") < 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a mate gets no replica of mail.box\n%s", two.Out)
		}
	}
	arrived := func(subjects ...string) {
		t.Helper()
		var got []string
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline) &&
			len(got) < len(subjects); time.Sleep(50 * time.Millisecond) {
			got = nil
			for _, m := range far.Messages() {
				_, rest, _ := strings.Cut(m.Data, "Subject: ")
				line, _, _ := strings.Cut(rest, "\r\n")
				got = append(got, line)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(subjects) {
			t.Fatalf("sent were %q, want %q\n%s\n\n%s", got, subjects, one.Out, two.Out)
		}
	}

	one.deliverTo("entrusted", "far@cluster.example")
	for deadline := time.Now().Add(time.Minute); refused.Load() == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nothing was tried\n%s", one.Out)
		}
	}
	if list := two.Doublet("queue", "list"); strings.Contains(list, "x@far.example") {
		t.Errorf("two mail servers route one message: %s", list)
	}
	gone := one.Data + ".gone"
	one.Stop(syscall.SIGKILL)
	if err := os.Rename(one.Data, gone); err != nil {
		t.Fatal(err)
	}
	two.until("x@far.example", "queue", "list")
	open.Store(true)
	arrived("entrusted")
	two.until("!x@far.example", "queue", "list")

	if err := os.Rename(gone, one.Data); err != nil {
		t.Fatal(err)
	}
	one.serve()
	one.deliverTo("returned", "far@cluster.example") // wherever its mail.box is led by now
	arrived("entrusted", "returned")
	open.Store(false)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(one.Out.String(),
		"routes mail.box"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("mail.box does not come home\n%s\n\n%s", one.Out, two.Out)
		}
	}
	one.deliverTo("at home", "far@cluster.example")
	one.until("x@far.example", "queue", "list")
	open.Store(true)
	arrived("entrusted", "returned", "at home")
	for _, m := range []*member{one, two} {
		m.until("!x@far.example", "queue", "list")
		m.Stop(syscall.SIGTERM)
		if out, err := program.Command(path, "check", "--data", m.Data); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
	arrived("entrusted", "returned", "at home")
}
