//go:build unix

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/client/imap"
	"doublet/test/external"
	wire "doublet/wire/imap"
)

// walker is a client that sends one command after another in one IMAP session, and knows the expected content.
type walker struct {
	t     *testing.T
	at    *member
	c     *imap.Client
	n     int
	total int
}

func walkerAt(t *testing.T, m *member) *walker {
	t.Helper()
	w := &walker{t: t, at: m, c: imapClient(t, m.Port["imap"], "anna", "secret")}
	if _, err := w.c.Enable("CONDSTORE"); err != nil {
		t.Fatal(err)
	}
	sel, err := w.c.Select(&wire.Select{Mailbox: "INBOX"}, false)
	if err != nil {
		t.Fatal(err)
	}
	w.total = int(sel.Exists)
	return w
}

// step stores a message, finds it under the reported UID, flags it, and counts all messages.
func (w *walker) step() {
	w.t.Helper()
	w.n++
	text := fmt.Sprintf("Subject: step %d\r\n\r\nbody\r\n", w.n)
	got, err := w.c.Append("INBOX", nil, time.Unix(1_700_000_000, 0), strings.NewReader(text), int64(len(text)))
	if err != nil || len(got.Target) != 1 {
		w.t.Fatalf("step %d: APPEND: %v, %v\n%s", w.n, got, err, w.at.Out)
	}
	w.total++
	uid := got.Target[0].Start
	if _, err := w.c.Store(&wire.Store{Target: wire.Target{Set: wire.Set{{Start: uid, Stop: uid}}}, Op: wire.StoreAdd,
		Flags: []wire.Flag{wire.Flagged}}, true, nil); err != nil {
		w.t.Fatalf("step %d: STORE: %v\n%s", w.n, err, w.at.Out)
	}
	w.counts()
	found := ""
	for _, r := range w.raw(fmt.Sprintf("UID FETCH %d (FLAGS BODY.PEEK[HEADER.FIELDS (SUBJECT)])", uid)) {
		found += r
	}
	if !strings.Contains(found, "Flagged") || !strings.Contains(found, "step "+strconv.Itoa(w.n)) {
		w.t.Fatalf("step %d: UID %d is %s", w.n, uid, found)
	}
}

func (w *walker) raw(command string) (out []string) {
	w.t.Helper()
	list, err := w.c.Raw(fmt.Sprintf("w%d %s", w.n, command))
	if err != nil {
		w.t.Fatalf("step %d: %s: %v\n%s", w.n, command, err, w.at.Out)
	}
	for i := range list {
		out = append(out, list[i].Raw)
	}
	if last := out[len(out)-1]; !strings.Contains(last, " OK") {
		w.t.Fatalf("step %d: %s: %s\n%s", w.n, command, last, w.at.Out)
	}
	return out
}

// counts compares the messages that the session can fetch with the stored ones.
func (w *walker) counts() {
	w.t.Helper()
	w.raw("NOOP")
	n := 0
	for _, r := range w.raw("FETCH 1:* UID") {
		if strings.Contains(r, "FETCH (") {
			n++
		}
	}
	if n != w.total {
		w.t.Fatalf("step %d: %d messages, want %d", w.n, n, w.total)
	}
}

// TestClusterMoves checks that sessions continue without an error while their mail file is handed over between members,
// and after the member that they are connected to was frozen while another one took over.
func TestClusterMoves(t *testing.T) {
	t.Parallel()
	curl := external.Need(t, "curl")[0]
	_, one, two := pair(t)
	one.deliver("first")
	two.sees(curl, "first")
	atOne, atTwo := walkerAt(t, one), walkerAt(t, two)
	both := func() {
		t.Helper()
		for _, w := range []*walker{atOne, atTwo} {
			other := map[*walker]*walker{atOne: atTwo, atTwo: atOne}[w]
			w.step()
			other.total++
		}
	}
	both()
	moves := func(to *member) { // told at one, which may be the home or the one that becomes it
		t.Helper()
		one.Doublet("cluster", "move", "anna", to.name())
	}
	pop := popAt(t, two)
	for i := range 6 {
		to := []*member{two, one}[i%2]
		moves(to)
		both()
		one.asks(curl, atOne.total)
		two.asks(curl, atOne.total)
		if got := pop("STAT"); !strings.HasPrefix(got, "+OK 3 ") {
			t.Fatalf("POP3 after %d moves: %s", i+1, got)
		}
	}
	pop("DELE 1")
	moves(two)
	if got := pop("QUIT"); !strings.HasPrefix(got, "+OK") {
		t.Fatal(got)
	}
	moves(one)
	one.leads(two)
	atOne.total--
	atTwo.total--
	both()

	// One is frozen; two takes over the mail file and receives mail.
	if err := one.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	two.deliver("meanwhile")
	eventually(t, "two leads Anna's mail file", func() string {
		for _, d := range two.placed() {
			if d.Title == "Anna" && d.Home == "two" {
				return ""
			}
		}
		return fmt.Sprintf("%+v", two.placed())
	})
	if err := one.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	atOne.total++
	atOne.step()
	for range 3 {
		atOne.step()
	}
	if n := one.counter("Server.Cluster.Sessions.Moved") + two.counter("Server.Cluster.Sessions.Moved"); n < 8 {
		t.Errorf("sessions have moved %v times", n)
	}
}

// popAt opens a POP3 session of Anna.
func popAt(t *testing.T, m *member) func(command string) string {
	t.Helper()
	do := lines(t, m.Port["pop3"])
	do("")
	do("USER anna")
	if got := do("PASS secret"); !strings.HasPrefix(got, "+OK") {
		t.Fatal(got)
	}
	return do
}

// lines opens a connection on which every command has a reply of one line.
func lines(t *testing.T, port string) func(command string) string {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	in := bufio.NewReader(c)
	return func(command string) string {
		t.Helper()
		if command != "" {
			if _, err := io.WriteString(c, command+"\r\n"); err != nil {
				t.Fatal(err)
			}
		}
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return line
	}
}
