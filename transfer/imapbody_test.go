package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
)

// remote is an IMAP server with three messages in INBOX, of which a test writes the bodies.
type remote struct {
	t *testing.T
	s *Service
	// bodies answers each FETCH of bodies, one function after another. A function that returns false closes the
	// connection.
	bodies []func(w *bufio.Writer) bool
}

// importFrom imports what the server returns.
func (r *remote) importFrom() Result {
	r.t.Helper()
	r.s.env.Dial = func(string, string, time.Duration) (net.Conn, error) {
		r.free("on connecting")
		client, server := net.Pipe()
		go r.serve(server)
		return client, nil
	}
	out := must[[]IMAPPerson](r.t)(r.s.job().IMAP(context.Background(), &IMAP{Server: "remote.example", TLS: "none",
		Wait: "5m", Auth: "login", User: "ada", Login: "ada", Password: "x"}))
	if len(r.bodies) > 0 {
		r.t.Errorf("%d answers are left", len(r.bodies))
	}
	return out[0].Result
}

func (r *remote) serve(c net.Conn) {
	defer c.Close()
	w := bufio.NewWriter(c)
	fmt.Fprint(w, "* OK [CAPABILITY IMAP4rev1] ready\r\n")
	for in := bufio.NewScanner(c); w.Flush() == nil && in.Scan(); {
		tag, command, _ := strings.Cut(in.Text(), " ")
		switch {
		case strings.HasPrefix(command, "CAPABILITY"):
			fmt.Fprint(w, "* CAPABILITY IMAP4rev1\r\n")
		case strings.HasPrefix(command, "LIST"):
			fmt.Fprint(w, "* LIST () \"/\" INBOX\r\n")
		case strings.HasPrefix(command, "EXAMINE"), strings.HasPrefix(command, "SELECT"):
			fmt.Fprint(w, "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 4] x\r\n")
		case strings.HasPrefix(command, "UID SEARCH"):
			fmt.Fprint(w, "* SEARCH 1 2 3\r\n")
		case strings.HasPrefix(command, "UID FETCH") && strings.Contains(command, "RFC822.SIZE"):
			for n := 1; n <= 3; n++ {
				fmt.Fprintf(w,
					"* %d FETCH (UID %[1]d FLAGS () INTERNALDATE \"01-Jan-2026 00:00:00 +0000\" RFC822.SIZE 9)\r\n", n)
			}
		case strings.HasPrefix(command, "UID FETCH"):
			if len(r.bodies) == 0 {
				r.t.Errorf("unexpected %s", command)
				return
			}
			answer := r.bodies[0]
			if r.bodies = r.bodies[1:]; !answer(w) {
				_ = w.Flush()
				return
			}
		}
		fmt.Fprint(w, tag+" OK done\r\n")
	}
}

// begin writes the response of a message of size bytes up to its data.
func begin(w *bufio.Writer, uid, size int) {
	fmt.Fprintf(w, "* %d FETCH (UID %[1]d BODY[] {%d}\r\n", uid, size)
}

// data writes n bytes of a message, and waits until the client has read them.
func data(w *bufio.Writer, n int) {
	fmt.Fprint(w, "Subject: x\r\n\r\n"+strings.Repeat("x", n-14))
	_ = w.Flush()
}

// literal writes a message of size bytes.
func literal(w *bufio.Writer, uid, size int) {
	begin(w, uid, size)
	data(w, size)
	fmt.Fprint(w, ")\r\n")
	_ = w.Flush()
}

// free checks that all memory is free, or becomes free when the messages so far are committed.
func (r *remote) free(where string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := r.s.memory.all.Acquire(ctx, memoryBytes); err != nil {
		r.t.Errorf("%s: the import holds memory", where)
		return
	}
	r.s.memory.all.Release(memoryBytes)
}

// TestIMAPMemory checks that an import from another server holds no memory for a message of which no data has arrived,
// for one that is sent twice, and for one at which the connection broke.
func TestIMAPMemory(t *testing.T) {
	t.Parallel()
	s := newService(t)
	add(t, s, "Ada", "ada")
	r := &remote{t: t, s: s}
	const large = 3 << 20
	r.bodies = []func(*bufio.Writer) bool{func(w *bufio.Writer) bool {
		begin(w, 1, large)
		fmt.Fprint(w, strings.Repeat("x", 100_000))
		_ = w.Flush()
		r.free("announced")
		fmt.Fprint(w, strings.Repeat("x", large-100_000)+")\r\n")
		literal(w, 1, large)
		r.free("sent twice")
		begin(w, 2, large)
		data(w, large/2)
		return false
	}, func(w *bufio.Writer) bool {
		literal(w, 2, 100)
		return true
	}, func(w *bufio.Writer) bool {
		literal(w, 3, large)
		return true
	}}
	if got := r.importFrom(); got.Messages != 3 || got.Failed != 0 || got.Bytes != 2*large+100 {
		t.Errorf("%+v", got)
	}
	r.free("at the end")
}

// TestIMAPStringAfterLargeBody checks that a message that arrives as a string after one that is too large is imported.
func TestIMAPStringAfterLargeBody(t *testing.T) {
	t.Parallel()
	s := newService(t)
	s.mailbox = mailbox.New(s.store, s.env, mailbox.Options{MessageSize: 10_000})
	add(t, s, "Ada", "ada")
	r := &remote{t: t, s: s}
	r.bodies = []func(*bufio.Writer) bool{func(w *bufio.Writer) bool {
		literal(w, 1, 10_001)
		fmt.Fprint(w, "* 2 FETCH (UID 2 BODY[] \"short\")\r\n")
		literal(w, 3, 10_000)
		return true
	}}
	got := r.importFrom()
	if got.Messages != 2 || got.Failed != 1 || got.Bytes != 10_005 ||
		!strings.Contains(got.Errors[0], mailbox.ErrTooBig.Error()) {
		t.Errorf("%+v", got)
	}
}

// TestBodySink checks that a broken message leaves neither memory nor a large buffer, and that a message for which
// there is no memory ends with an error.
func TestBodySink(t *testing.T) {
	t.Parallel()
	m := newMemory()
	memory := m.reader()
	ctx, cancel := context.WithCancel(context.Background())
	sink := bodySink{ctx: ctx, memory: &memory, limit: 5 << 20}
	half := make([]byte, 2<<20)
	if _, err := sink.take(nil, 4<<20).Write(half); err != nil || memory.held != weight(4<<20) {
		t.Fatalf("%v, %d reserved", err, memory.held)
	}
	sink.reset()
	if memory.held != 0 || sink.b.Cap() > unreserved {
		t.Errorf("%d bytes reserved for a buffer of %d", memory.held, sink.b.Cap())
	}
	cancel()
	m.all.TryAcquire(memoryBytes)
	if _, err := sink.take(nil, 4<<20).Write(half); !errors.Is(err, context.Canceled) {
		t.Errorf("a large message without memory: %v", err)
	}
}
