package imapd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	client "doublet/client/imap"
	"doublet/test/long"
	wire "doublet/wire/imap"
	"doublet/wire/scram"
)

// talk sends lines and returns all responses up to the tagged one of the last line.
func talk(t testing.TB, c net.Conn, r *bufio.Reader, line string) string {
	t.Helper()
	if _, err := io.WriteString(c, line+"\r\n"); err != nil {
		t.Fatal(err)
	}
	tag, _, _ := strings.Cut(line, " ")
	var b strings.Builder
	for {
		l, err := r.ReadString('\n')
		b.WriteString(l)
		if err != nil {
			t.Fatalf("%s: %v after %q", line, err, b.String())
		}
		if strings.HasPrefix(l, tag+" ") {
			return b.String()
		}
	}
}

func (h *house) raw(t testing.TB) (net.Conn, *bufio.Reader) {
	t.Helper()
	c := h.connect(t)
	r := bufio.NewReaderSize(c, 64<<10)
	if _, err := r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return c, r
}

// Implements: RFC 7677 SCRAM-SHA-256
func TestScram(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	for _, o := range []struct {
		user, password string
		ok             bool
	}{{"alice", "demo", true}, {"alice", "wrong", false}, {"stranger", "demo", false}} {
		c, err := client.New(h.connect(t), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = c.Authenticate(&scramClient{c: scram.NewClient(o.user, o.password, "client-nonce-of-the-test")})
		if (err == nil) != o.ok {
			t.Errorf("%+v: %v", o, err)
		}
		if o.ok {
			if _, err := c.Select(&wire.Select{Mailbox: "INBOX"}, false); err != nil {
				t.Error(err)
			}
		}
	}
	if n := h.server.stats.authFailures.Value(); n != 2 {
		t.Error("failures:", n)
	}
}

type scramClient struct{ c *scram.Client }

func (s *scramClient) Mechanism() string { return "SCRAM-SHA-256" }

func (s *scramClient) Next(challenge []byte) ([]byte, error) {
	out, _, err := s.c.Next(challenge)
	return out, err
}

// TestShutdown checks that a shutdown sends BYE to sessions between commands and in IDLE, and lets a running command
// finish.
func TestShutdown(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	quiet, r1 := h.raw(t)
	talk(t, quiet, r1, "a LOGIN alice demo")
	idle, r2 := h.raw(t)
	talk(t, idle, r2, "a LOGIN alice demo")
	talk(t, idle, r2, "b SELECT INBOX")
	fmt.Fprint(idle, "c IDLE\r\n")
	if l, err := r2.ReadString('\n'); l != "+ idling\r\n" {
		t.Fatal(l, err)
	}
	busy, r3 := h.raw(t)
	talk(t, busy, r3, "a LOGIN alice demo")
	fmt.Fprint(busy, "b APPEND INBOX {10}\r\n")
	if l, err := r3.ReadString('\n'); l != "+ OK\r\n" {
		t.Fatal(l, err)
	}
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		done <- h.Front.Shutdown(ctx)
	}()
	for i, r := range []*bufio.Reader{r1, r2} {
		if b, err := io.ReadAll(r); string(b) != "* BYE [UNAVAILABLE] Server is shutting down\r\n" {
			t.Errorf("%d: %q %v", i, b, err)
		}
	}
	fmt.Fprint(busy, "a: b\r\n\r\ncd\r\n")
	b, _ := io.ReadAll(r3)
	if !strings.HasPrefix(string(b), "b OK [APPENDUID ") || !strings.HasSuffix(string(b),
		"* BYE [UNAVAILABLE] Server is shutting down\r\n") {
		t.Errorf("%q", b)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestTimeouts checks that clients that don't authenticate or stay silent are disconnected.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{LoginTimeout: 20 * time.Millisecond, IdleTimeout: 20 * time.Millisecond}})
	_, r := h.raw(t)
	if b, _ := io.ReadAll(r); string(b) != "* BYE Autologout; no sign-in\r\n" {
		t.Errorf("%q", b)
	}
	h = open(t, settings{Config: Config{IdleTimeout: 20 * time.Millisecond}})
	for _, line := range []string{"", "b IDLE"} {
		c, r := h.raw(t)
		fmt.Fprint(c, "a LOGIN alice demo\r\n"+line+"\r\n")
		b, _ := io.ReadAll(r)
		if !strings.HasSuffix(string(b), "* BYE Autologout; idle for too long\r\n") {
			t.Errorf("%q", b)
		}
	}
}

func TestTooManyBadCommands(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c, r := h.raw(t)
	for range 3 {
		for range 9 {
			talk(t, c, r, "a NONSENSE")
		}
		talk(t, c, r, "a NOOP") // a valid command between them resets the count
	}
	fmt.Fprint(c, strings.Repeat("a NONSENSE\r\n", 11))
	b, _ := io.ReadAll(r)
	if strings.Count(string(b), "BAD") != 10 || !strings.HasSuffix(string(b), "* BYE Too many bad commands\r\n") {
		t.Errorf("%q", b)
	}
	if n := h.server.stats.bad.Value(); n != 37 {
		t.Error("counted:", n)
	}
	if h.server.verbs["NOOP"].count.Value() != 3 {
		t.Error("NOOP not counted")
	}
}

// TestLargeMessages checks that messages larger than any buffer are streamed, whole and in parts, and that later
// messages follow correctly.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	h := open(t, settings{message: 8 << 20})
	var b strings.Builder
	b.WriteString("Subject: large\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\ntext\r\n--b\r\n" +
		"Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	for i := range 40_000 {
		fmt.Fprintf(&b, "%s%04d\r\n", strings.Repeat("QUJD", 18), i%10_000)
	}
	b.WriteString("--b--\r\n")
	msg := b.String()
	c := h.login(t, "alice")
	for range 3 {
		if _, err := c.Append("INBOX", nil, time.Time{}, strings.NewReader(msg), int64(len(msg))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Select(&wire.Select{Mailbox: "INBOX"}, false); err != nil {
		t.Fatal(err)
	}
	items := []wire.FetchItem{
		{Kind: wire.ItemBodySection}, {Kind: wire.ItemUID},
		{Kind: wire.ItemBodySection, Section: wire.Section{Part: []uint32{2}}, HasPartial: true, Offset: 70_000,
			Size: 1_000_000},
	}
	body := msg[strings.Index(msg, "QUJD"):]
	n := 0
	err := c.Fetch(&wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 0}}}, Items: items}, false,
		func(d *wire.FetchData) error {
			n++
			if len(d.Sections) != 2 || string(d.Sections[0].Data) != msg ||
				string(d.Sections[1].Data) != body[70_000:1_070_000] {
				return errors.New("not what was stored")
			}
			return nil
		}, nil)
	if err != nil || n != 3 {
		t.Error(n, err)
	}
}

// TestVanishedClients checks that a client that disconnects inside a literal, or stops reading, leaves nothing behind.
func TestVanishedClients(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.fill(t, 50, "Subject: x\r\n\r\n"+strings.Repeat("0123456789abcdef", 4000))
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	fmt.Fprint(c, "b APPEND INBOX {500000}\r\n")
	if l, err := r.ReadString('\n'); l != "+ OK\r\n" {
		t.Fatal(l, err)
	}
	fmt.Fprint(c, strings.Repeat("x", 400_000))
	_ = c.Close()
	c, r = h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	fmt.Fprint(c, "c FETCH 1:* BODY[]\r\n")
	_, _ = r.ReadString('\n')
	_ = c.Close()
	// The cleanup of house checks for remaining sessions and memory.
	c, r = h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	if got := talk(t, c, r, "b STATUS INBOX (MESSAGES)"); !strings.Contains(got, "MESSAGES 50") {
		t.Error(got)
	}
}

// TestIdleMemory opens many sessions, half of them in IDLE, and logs the memory per session: session, goroutine,
// buffers. It includes the client's side.
func TestIdleMemory(t *testing.T) {
	long.Test(t)
	const sessions = 2000
	h := open(t, settings{})
	h.fill(t, 20, "Subject: x\r\n\r\nx")
	before := inUse()
	conns := make([]net.Conn, sessions)
	r := bufio.NewReader(nil)
	for i := range conns {
		c, err := net.Dial("tcp", h.Addr.String())
		if err != nil {
			t.Skip("too few descriptors:", err)
		}
		conns[i] = c
		defer func() { _ = c.Close() }()
		r.Reset(c)
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		talk(t, c, r, "a LOGIN alice demo")
		talk(t, c, r, "b SELECT INBOX")
		talk(t, c, r, "c FETCH 1:* (UID FLAGS ENVELOPE)")
		if i%2 == 0 {
			fmt.Fprint(c, "d IDLE\r\n")
			if l, err := r.ReadString('\n'); l != "+ idling\r\n" {
				t.Fatal(l, err)
			}
		}
	}
	each := (inUse() - before) / sessions
	t.Logf("%d bytes a session, heap and stacks, both ends", each)
	if each > 40<<10 {
		t.Errorf("%d bytes a session", each)
	}
}

func inUse() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC() // stacks shrink by one step per cycle
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// TestDamagedMessage checks that only the damaged message is unreadable. A small piece of it is rejected. For a large
// piece, which has been sent partly, the connection is closed.
func TestDamagedMessage(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	// A part over 32 KB is in its own segment.
	part := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz\r\n", 2000)
	h.fill(t, 1, "Subject: damaged\r\n\r\n"+part)
	h.fill(t, 1, "Subject: whole\r\n\r\nshort\r\n")
	h.flip(t)
	c, r := h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	got := talk(t, c, r, "c FETCH 1:2 BODY.PEEK[TEXT]<0.100>")
	if !strings.Contains(got, "c NO [CORRUPTION]") || !strings.Contains(got,
		"* 2 FETCH (BODY[TEXT]<0> {7}\r\nshort\r\n)") || strings.Contains(got, "* 1 FETCH") {
		t.Errorf("%q", got)
	}
	got = talk(t, c, r, "d FETCH 1:2 (UID BODY.PEEK[HEADER])")
	if !strings.Contains(got, "d OK") || strings.Count(got, "Subject: ") != 2 {
		t.Errorf("%q", got)
	}
	fmt.Fprint(c, "e FETCH 1 BODY.PEEK[]\r\n")
	b, err := io.ReadAll(r)
	if err != nil || !strings.HasPrefix(string(b), "* 1 FETCH (BODY[] {") || strings.Contains(string(b), "e OK") {
		t.Errorf("%q %v", b, err)
	}
	c, r = h.raw(t)
	talk(t, c, r, "a LOGIN alice demo")
	talk(t, c, r, "b SELECT INBOX")
	if got := talk(t, c, r, "c FETCH 2 BODY.PEEK[]"); !strings.Contains(got, "c OK") {
		t.Errorf("%q", got)
	}
}

// flip changes bytes in the middle of every object segment.
func (h *house) flip(t *testing.T) {
	t.Helper()
	n := 0
	var walk func(dir string)
	walk = func(dir string) {
		names, err := h.env.Mem.List(dir)
		if err != nil {
			return
		}
		for _, name := range names {
			path := h.env.Mem.PathJoin(dir, name)
			info, err := h.env.Mem.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				walk(path)
				continue
			}
			if !strings.HasSuffix(name, ".obj") && !strings.HasSuffix(name, ".seg") {
				continue
			}
			f, err := h.env.Mem.OpenReadWrite(path, "test")
			if err != nil {
				t.Fatal(err)
			}
			if _, err = f.WriteAt([]byte("damage"), info.Size()/2); err == nil {
				err = f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	walk("store")
	if n == 0 {
		t.Fatal("no segment found")
	}
}

// readAll sends text and reads to the end of the connection.
func readAll(c net.Conn, r *bufio.Reader, text string) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	b, err := io.ReadAll(r)
	return string(b), err
}
