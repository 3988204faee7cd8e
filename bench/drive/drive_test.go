package drive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doublet/bench/ledger"
	"doublet/bench/workload"
	"doublet/env"
)

// script is a server's side of one connection, line by line. "S text" sends a line; "C text" waits for a line that
// begins with text after its tag; "L" reads the literal that the last line announced; "mail" reads the message after
// DATA; "stall" waits until the client gives up; "close" ends the connection. $T stands for the tag of the last
// command.
type script []string

// peer is a server that plays scripts, one for each connection.
type peer struct {
	t     *testing.T
	piece int // bytes to send at a time, 0 for all
	mu    sync.Mutex
	next  []script
	done  sync.WaitGroup
}

func (p *peer) dial(string, string, time.Duration) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.next) == 0 {
		return nil, errors.New("no more connections")
	}
	ours, theirs := net.Pipe()
	s := p.next[0]
	p.next = p.next[1:]
	p.done.Add(1)
	go func() {
		defer p.done.Done()
		defer theirs.Close()
		p.play(theirs, s)
	}()
	return pipeEnd{ours}, nil
}

func (p *peer) play(conn net.Conn, s script) {
	in := bufio.NewReader(conn)
	tag, last := "", ""
	for i, step := range s {
		what, text, _ := strings.Cut(step, " ")
		switch what {
		case "S":
			out := []byte(strings.ReplaceAll(text, "$T", tag) + "\r\n")
			for len(out) > 0 {
				n := len(out)
				if p.piece > 0 {
					n = min(n, p.piece)
				}
				if _, err := conn.Write(out[:n]); err != nil {
					return
				}
				out = out[n:]
			}
		case "C":
			line, err := in.ReadString('\n')
			if err != nil {
				p.t.Errorf("step %d awaits %q: %v", i, text, err)
				return
			}
			rest := line
			last = line
			if word, behind, ok := strings.Cut(line, " "); ok && text == "" || ok && strings.HasPrefix(behind, text) {
				tag, rest = word, behind
			}
			if !strings.HasPrefix(rest, text) {
				p.t.Errorf("step %d awaits %q, got %q", i, text, line)
				return
			}
		case "L":
			n := literal([]byte(last))
			if _, err := io.CopyN(io.Discard, in, n+2); err != nil {
				p.t.Errorf("step %d: a literal of %d: %v", i, n, err)
				return
			}
		case "mail":
			for line := ""; line != ".\r\n"; {
				var err error
				if line, err = in.ReadString('\n'); err != nil {
					p.t.Errorf("step %d: within a message: %v", i, err)
					return
				}
			}
		case "stall":
			_, _ = io.Copy(io.Discard, in)
		case "close":
			return
		}
	}
	if _, err := in.ReadByte(); err == nil {
		p.t.Errorf("more came than was awaited")
	}
}

// against returns a world of three users whose server plays scripts.
func against(t *testing.T, scripts ...script) (*World, *peer) {
	t.Helper()
	w, err := workload.Parse("test",
		[]byte("name='x'\ntitle='x'\nprotocol='imap'\nloop='1s'\n[sizes]\ns=[{body='100B',percent=100}]\n[[action]]\n"+
			"do='poll'\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, next: scripts}
	e := env.Real(slog.New(slog.DiscardHandler))
	e.Dial = p.dial
	out := &World{Env: e, Workload: w, Seed: 1, Label: "test",
		Target: Target{Doors: map[string]string{"imap": "x:1", "smtp": "x:2", "lmtp": "x:3", "pop3": "x:4"},
			Timeout: 10 * time.Second}}
	for i := range 3 {
		out.Users = append(out.Users, User{Index: i, Name: fmt.Sprintf("u%d", i), Password: `p"\`,
			Address: fmt.Sprintf("u%d@example.com", i)})
	}
	t.Cleanup(p.done.Wait)
	return out, p
}

// open signs user 0 in at the IMAP door.
func open(t *testing.T, w *World) *imapSession {
	t.Helper()
	s, _, err := w.Open(context.Background(), workload.IMAP, &w.Users[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.(*imapSession).conn.Close() })
	return s.(*imapSession)
}

// act performs an action.
func act(s Session, do workload.Verb) (Traffic, error) {
	return s.Do(context.Background(), &workload.Planned{Action: &workload.Action{Do: do, Sizes: "s", To: 2,
		Hold: workload.Duration(time.Millisecond)}})
}

var greeting = script{"S * OK hello", "C LOGIN \"u0\" \"p\\\"\\\\\"\r\n", "S $T OK in"}

func after(parts ...script) (out script) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

var inbox = script{
	"C SELECT INBOX\r\n", "S * FLAGS (\\Seen)", "S * 3 EXISTS", "S * OK [UIDNEXT 31] not a literal {99}",
	"S $T OK [READ-WRITE] selected",
	"C FETCH 1:3 (UID FLAGS", "S * 1 FETCH (UID 10 FLAGS (\\Seen) ENVELOPE (\"date\" \"UID 77 FLAGS (\\\\Seen)\"))",
	"S * 2 FETCH (ENVELOPE (\"date\" {12}\r\nUID 66 (\"\r\n) NIL) FLAGS (\\Answered) UID 20)",
	"S * 3 FETCH (FLAGS () UID 30 X (UID 99 FLAGS (\\Seen)))", "S $T OK done (0.001 secs)",
}

// TestReplyToGone checks that a reply to a message that was deleted or moved meanwhile marks no message as answered.
func TestReplyToGone(t *testing.T) {
	t.Parallel()
	goes := map[workload.Verb]script{
		workload.Delete: {"C UID STORE 30 ", "S $T OK", "C UID EXPUNGE 30", "S * 3 EXPUNGE", "S $T OK"},
		workload.Move:   {"C UID MOVE 30 ", "S * 3 EXPUNGE", "S $T OK"},
	}
	submission := script{
		"S 220 x", "C EHLO", "S 250 x", "C MAIL", "S 250 ok", "C RCPT", "S 250 ok", "C RCPT", "S 250 ok", "C DATA",
		"S 354 go on", "mail", "S 250 queued", "C QUIT", "S 221 bye",
	}
	for do, answers := range goes {
		w, _ := against(t, after(greeting, inbox, script{"C UID FETCH 30 (BODY[])\r\n",
			"S * 3 FETCH (UID 30 BODY[] {1}\r\nx)", "S $T OK"}, answers), submission)
		s := open(t, w)
		for _, do := range []workload.Verb{workload.Open, workload.Read} {
			if _, err := act(s, do); err != nil {
				t.Fatal(do, err)
			}
		}
		s.known = []uint32{30}
		for _, do := range []workload.Verb{do, workload.Reply} {
			if _, err := act(s, do); err != nil {
				t.Error(do, err)
			}
		}
	}
}

// TestSentCopies checks that a copy of each sent message is filed if the workload keeps copies, and that it is the
// message that was sent.
func TestSentCopies(t *testing.T) {
	t.Parallel()
	submission := script{"S 220 x", "C EHLO", "S 250 x", "C MAIL", "S 250 ok", "C RCPT", "S 250 ok", "C DATA",
		"S 354 go on", "mail", "S 250 queued", "C QUIT", "S 221 bye"}
	w, _ := against(t, after(greeting, script{`C APPEND Sent (\Seen) {`, "S + go on", "L", "S $T OK"}), submission)
	w.Workload.Sent = true
	s := open(t, w)
	m := w.compose(&w.Users[0], &workload.Planned{Action: &workload.Action{}})
	m.To = []string{"u1@example.com"}
	if err := s.submit(context.Background(), &m); err != nil {
		t.Error(err)
	}
}

// TestAppointment checks that an appointment over IMAP is a message in a folder of its own, which the ledger expects
// there once the server has taken it.
func TestAppointment(t *testing.T) {
	t.Parallel()
	w, _ := against(t, after(greeting, script{`C APPEND Calendar (\Seen) {`, "S + go on", "L", "S $T OK",
		`C APPEND Calendar (\Seen) {`, "S $T NO over quota"}))
	w.Ledger = ledger.New()
	s := open(t, w)
	for _, kind := range []string{"", "NO over quota"} {
		if _, err := act(s, workload.Appointment); Kind(err) != kind {
			t.Errorf("%v, want %q", err, kind)
		}
	}
	if v := w.Ledger.Check("x", map[string][]ledger.Message{s.u.Address: nil}); v.Acknowledged != 1 || v.Lost != 1 {
		t.Errorf("%+v", v)
	}
}

// TestAttachmentsRead checks that a message is read without its attachment, and that the share that the workload names
// is fetched.
func TestAttachmentsRead(t *testing.T) {
	t.Parallel()
	text := script{"C UID FETCH 20 (BODYSTRUCTURE BODY[1])\r\n", `S * 2 FETCH (UID 20 BODYSTRUCTURE ("text" "plain" ` +
		"NIL NIL NIL \"7bit\" 3 1) BODY[1] {3}\r\nx\r\n)", "S $T OK"}
	file := script{"C UID FETCH 30 (BODYSTRUCTURE BODY[1])\r\n", `S * 3 FETCH (UID 30 BODYSTRUCTURE (("text" "plain" ` +
		`NIL NIL NIL "7bit" 3 1)("application" "OCTET-STREAM" NIL NIL NIL "base64" 9) "mixed") ` +
		"BODY[1] {3}\r\nx\r\n)", "S $T OK"}
	fetched := script{"C UID FETCH 30 (BODY[2])\r\n", "S * 3 FETCH (UID 30 BODY[2] {4}\r\nAAAA)", "S $T OK"}
	for _, c := range []struct {
		pick uint64 // its upper half decides
		does script
	}{{24 << 32, after(file, fetched, text)}, {25 << 32, after(file, text)}} {
		w, _ := against(t, after(greeting, inbox, c.does))
		w.Workload.Attachments = 25
		s := open(t, w)
		for _, do := range []workload.Verb{workload.Open, workload.Read, workload.Read} {
			if _, err := s.Do(context.Background(), &workload.Planned{Pick: c.pick,
				Action: &workload.Action{Do: do}}); err != nil {
				t.Error(do, err)
			}
		}
	}
}

func TestAWholeSession(t *testing.T) {
	t.Parallel()
	all := after(greeting, inbox, script{
		"C UID FETCH 30 (BODY[])\r\n", "S * 3 FETCH (BODY[] {7}\r\n) x {\r\n FLAGS (\\Seen) UID 30)", "S $T OK",
		"C UID STORE ", "S * 2 FETCH (FLAGS (\\Flagged))", "S $T OK",
		"C UID MOVE ", "S * 1 EXPUNGE", "S $T OK",
		"C APPEND INBOX {", "S + go on", "L", "S * 4 EXISTS", "S $T OK",
		"C IDLE", "S * 5 EXISTS", "S + idling", "C DONE", "S * 6 EXISTS", "S $T OK",
		"C NOOP", "S $T OK", "C CLOSE", "S $T OK", "C LOGOUT", "S * BYE", "S $T OK",
	})
	for _, piece := range []int{0, 1, 7} {
		w, p := against(t, all)
		p.piece = piece
		s := open(t, w)
		for _, do := range []workload.Verb{workload.Open, workload.Read, workload.Update, workload.Move, workload.Add,
			workload.Idle, workload.Poll, workload.Close} {
			got, err := act(s, do)
			if err != nil {
				t.Fatalf("%d bytes at a time: %s: %v", piece, do, err)
			}
			switch {
			case do == workload.Open && (!slices.Equal(s.known, []uint32{10, 20, 30}) ||
				!slices.Equal(s.unread, []uint32{20, 30}) || s.exists != 3 || s.top != 1):
				t.Fatalf("known %v, unread %v, exists %d, listed from %d", s.known, s.unread, s.exists, s.top)
			case do == workload.Read && (!slices.Equal(s.unread, []uint32{20}) ||
				got.Received != uint64(len("* 3 FETCH (BODY[] {7}\r\n) x {\r\n FLAGS (\\Seen) UID 30)\r\n4 OK\r\n"))):
				t.Fatalf("unread %v, %+v", s.unread, got)
			case do == workload.Move && (len(s.known) != 2 || s.exists != 2):
				t.Fatalf("known %v, exists %d", s.known, s.exists)
			case do == workload.Idle && (got.Held < time.Millisecond || s.exists != 6):
				t.Fatalf("%+v, exists %d", got, s.exists)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatServersDo checks which error is counted, and whether the session continues.
func TestWhatServersDo(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*bufferSize)
	for _, c := range []struct {
		name   string
		answer script
		kind   string
		broken bool
	}{
		{"refuses", script{"S $T NO [UNAVAILABLE] later (0.003 + 0.000 secs)."}, "NO [UNAVAILABLE] later", false},
		{"does not know", script{"S $T BAD what?"}, "BAD what?", false},
		{"says a long no", script{"S $T NO " + strings.Repeat("ä", 200)}, "NO " + strings.Repeat("ä", 28), false},
		{"says goodbye", script{"S * BYE [UNAVAILABLE] shutting down", "close"},
			"BYE [UNAVAILABLE] shutting down", true},
		{"closes", script{"close"}, "connection closed by the server", true},
		{"closes within a line", script{"S * 5 EXISTS", "S * 6 EX", "close"}, "connection closed by the server", true},
		{"closes within a literal", script{"S * 1 FETCH (UID 5 BODY[] {1000}", "S abc", "close"},
			"connection closed by the server", true},
		{"stalls", script{"S * 5 EXISTS", "stall"}, "time-out", true},
		{"stalls within a literal", script{"S * 1 FETCH (UID 5 BODY[] {1000}", "S abc", "stall"}, "time-out", true},
		{"speaks another protocol", script{"S HTTP/1.1 400 Bad Request", "stall"}, "broken protocol", true},
		{"ends with another word", script{"S $T MAYBE", "stall"}, "broken protocol", true},
		{"asks for a literal", script{"S + go on", "stall"}, "broken protocol", true},
		{"answers another tag", script{"S zz9 OK", "stall"}, "broken protocol", true},
		{"sends a long line", script{"S * OK " + long, "S * 7 EXISTS", "S $T OK"}, "", false},
		{"sends a long line with a literal", script{"S * 1 FETCH (UID 5 ENVELOPE (\"" + long + "\" {5}\r\nabc\r\n))",
			"S * 7 EXISTS", "S $T OK"}, "", false},
		{"counts wrong", script{"S * 4294967295 EXISTS", "S * 0 EXPUNGE", "S * 99999999999 EXISTS", "S * 7 EXISTS",
			"S * 8 EXPUNGE", "S $T OK"}, "", false},
		{"sends empty responses", script{"S * ", "S * 5", "S * 5 FETCH", "S * 5 FETCH (", "S * 5 FETCH ())))",
			"S * 7 EXISTS", "S $T OK"}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := against(t, after(greeting, script{"C NOOP\r\n"}, c.answer))
			if strings.Contains(c.name, "stalls") {
				w.Target.Timeout = 50 * time.Millisecond
			}
			s := open(t, w)
			_, err := act(s, workload.Poll)
			if got := Kind(err); got != c.kind || s.broken != c.broken {
				t.Errorf("%q, want %q; broken %v: %v", got, c.kind, s.broken, err)
			}
			if err == nil && s.exists != 7 {
				t.Errorf("exists %d", s.exists)
			}
		})
	}
}

// TestReadTooMuch checks that bytes received after an answer are kept for the next command.
func TestReadTooMuch(t *testing.T) {
	t.Parallel()
	w, _ := against(t, after(greeting, script{"C NOOP", "S $T OK\r\n* 7 EXISTS\r\n* 2 FETCH (UID 5 FLAGS ({4}\r\nab",
		"C NOOP", "S ) UID 9)\r\n$T OK"}))
	s := open(t, w)
	for range 2 {
		if _, err := act(s, workload.Poll); err != nil {
			t.Fatal(err)
		}
	}
	if s.exists != 7 {
		t.Errorf("exists %d", s.exists)
	}
}

func TestGreetings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script script
		kind   string
	}{
		{script{"S * PREAUTH welcome"}, ""},
		{script{"S * BYE too many"}, "BYE too many"},
		{script{"S 220 smtp.example"}, "broken protocol"},
		{script{"close"}, "connection closed by the server"},
		{script{"S * OK", "C LOGIN", "S $T NO [AUTHENTICATIONFAILED] no"}, "NO [AUTHENTICATIONFAILED] no"},
	} {
		w, _ := against(t, c.script)
		s, _, err := w.Open(context.Background(), workload.IMAP, &w.Users[0])
		if got := Kind(err); got != c.kind {
			t.Errorf("%v: %q, want %q (%v)", c.script, got, c.kind, err)
		}
		if s != nil {
			_ = s.(*imapSession).conn.Close()
		}
	}
	if w, _ := against(t); true {
		w.Target.Doors = nil
		if _, _, err := w.Open(context.Background(), workload.IMAP, &w.Users[0]); err == nil {
			t.Error("no door, and no error")
		}
	}
}

func TestAMessageThatDoesNotComeIsNotRead(t *testing.T) {
	t.Parallel()
	w, _ := against(t, after(greeting, inbox, script{"C UID FETCH 30", "S $T OK done"}))
	s := open(t, w)
	if _, err := act(s, workload.Open); err != nil {
		t.Fatal(err)
	}
	if _, err := act(s, workload.Read); Kind(err) != "OK, without the message" {
		t.Error(err)
	}
}

func TestEmptyInbox(t *testing.T) {
	t.Parallel()
	w, _ := against(t, after(greeting, script{"C SELECT", "S * 0 EXISTS", "S $T OK"}))
	s := open(t, w)
	if _, err := act(s, workload.Open); err != nil {
		t.Fatal(err)
	}
	for _, do := range []workload.Verb{workload.Read, workload.Update, workload.Delete, workload.Move, workload.RSVP} {
		if _, err := act(s, do); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v", do, err)
		}
	}
}

// TestRetrieveAsksForNewOnes: if there is nothing new, "n:*" still matches the last message.
func TestRetrieveAsksForNewOnes(t *testing.T) {
	t.Parallel()
	w, _ := against(t, after(greeting, inbox, script{
		"C NOOP", "S $T OK",
		"C NOOP", "S * 4 EXISTS", "S $T OK", "C UID FETCH 31:* (UID BODY.PEEK[])",
		"S * 4 FETCH (UID 44 BODY[] {1}\r\na)", "S $T OK",
		"C NOOP", "S * 1 EXPUNGE", "S $T OK", "C NOOP", "S * 4 EXISTS", "S $T OK", "C UID FETCH 45:*", "S $T OK",
	}))
	s := open(t, w)
	if _, err := act(s, workload.Open); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if _, err := act(s, workload.Retrieve); err != nil {
			t.Fatal(i, err)
		}
	}
}

func TestInvitations(t *testing.T) {
	t.Parallel()
	mail := script{"S * OK", "C "}
	w, _ := against(t, after(greeting, script{
		"C SELECT", "S * 2 EXISTS", "S $T OK", "C FETCH 1:2",
		`S * 1 FETCH (UID 1 FLAGS () ENVELOPE ("d" "Invitation run.1.2 from u1@example.com" NIL))`,
		`S * 2 FETCH (UID 2 FLAGS () ENVELOPE ("d" "Accepted: Invitation run.9.9 from u1@example.com" NIL))`, "S $T OK",
		"C UID FETCH 1 (BODY[])", "S * 1 FETCH (UID 1 BODY[] {1}\r\na)", "S $T OK",
	}), script{
		"S 220 x", "C EHLO", "S 250 x", "C MAIL", "S 250 ok", "C RCPT TO:<u1@example.com>", "S 250 ok", "C DATA",
		"S 354 go",
		"close",
	}, mail)
	s := open(t, w)
	if _, err := act(s, workload.Open); err != nil {
		t.Fatal(err)
	}
	if waits := s.asked.waits; len(waits) != 1 || waits[0] != (invitation{"run.1.2", "u1@example.com", "1"}) {
		t.Fatalf("%+v", waits)
	}
	if _, err := act(s, workload.RSVP); Kind(err) == "" {
		t.Error("a server that went away took the answer")
	}
	if _, err := act(s, workload.RSVP); !errors.Is(err, ErrNothing) {
		t.Errorf("answered twice: %v", err)
	}
}

// TestInvitationGone checks that the newest invitation that is still there is answered, when newer ones are filed or
// deleted, and that there is nothing to answer when all are.
func TestInvitationGone(t *testing.T) {
	t.Parallel()
	w, _ := against(t, after(greeting, script{
		"C SELECT", "S * 3 EXISTS", "S $T OK", "C FETCH 1:3",
		`S * 1 FETCH (UID 1 FLAGS () ENVELOPE ("d" "Invitation run.1.1 from u1@example.com" NIL))`,
		`S * 2 FETCH (UID 2 FLAGS () ENVELOPE ("d" "Invitation run.1.2 from u1@example.com" NIL))`,
		`S * 3 FETCH (UID 3 FLAGS () ENVELOPE ("d" "Invitation run.1.3 from u1@example.com" NIL))`, "S $T OK",
		"C UID FETCH 3 (BODY[])", "S $T OK",
		"C UID FETCH 2 (BODY[])", "S * 2 FETCH (UID 2 BODY[] {1}\r\na)", "S $T OK",
		"C UID FETCH 1 (BODY[])", "S $T OK",
	}), script{
		"S 220 x", "C EHLO", "S 250 x", "C MAIL", "S 250 ok", "C RCPT TO:<u1@example.com>", "S 250 ok", "C DATA",
		"S 354 go", "mail", "S 250 queued", "C QUIT", "S 221 bye",
	})
	s := open(t, w)
	if _, err := act(s, workload.Open); err != nil {
		t.Fatal(err)
	}
	if _, err := act(s, workload.RSVP); err != nil {
		t.Errorf("the newest invitation that is there is not answered: %v", err)
	}
	if _, err := act(s, workload.RSVP); !errors.Is(err, ErrNothing) {
		t.Errorf("an invitation that is gone is answered: %v", err)
	}
}

// TestEndOfAStep checks that held actions end with the step, and that a stalled server does not delay it.
func TestEndOfAStep(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]script{
		"idle":  {"C IDLE", "S + idling", "C DONE", "S $T OK"},
		"stall": {"C IDLE", "stall"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := against(t, after(greeting, script{"C SELECT", "S * 0 EXISTS", "S $T OK"}, answer))
			w.Target.Timeout = time.Hour
			s := open(t, w)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			begun := time.Now()
			_, err := s.Do(ctx, &workload.Planned{Action: &workload.Action{Do: workload.Idle,
				Hold: workload.Duration(29 * time.Minute)}})
			if took := time.Since(begun); took > time.Minute+2*grace || (err != nil) != (name == "stall") {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			_ = s.conn.Close()
			time.Sleep(time.Minute)
		})
	}
}

func TestSending(t *testing.T) {
	t.Parallel()
	hello := script{"S 220 x ESMTP", "C EHLO", "S 250-x\r\n250 PIPELINING"}
	for _, c := range []struct {
		name   string
		script script
		kind   string
	}{
		{"takes it", after(hello, script{"C MAIL", "C RCPT", "C RCPT", "C DATA", "S 250 ok", "S 250 ok", "S 250 ok",
			"S 354 go", "stallmail"}), ""},
		{"refuses one of two", after(hello, script{"C MAIL", "C RCPT", "C RCPT", "C DATA", "S 250 ok",
			"S 452 4.2.2 full", "S 250 ok", "S 354 go", "stallmail"}), "452 4.2.2 full"},
		{"greets with a refusal", script{"S 554 no"}, "554 no"},
		{"closes", script{"close"}, "connection closed by the server"},
		{"closes behind the sender", after(hello, script{"C MAIL", "C RCPT", "C RCPT", "C DATA", "S 250 ok", "close"}),
			"connection closed by the server"},
		{"stalls", after(hello, script{"C MAIL", "stall"}), "time-out"},
		{"speaks garbage", script{"S \x00\xffgarbage", "stall"}, "broken protocol"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := against(t)
			w.Env.Dial = func(string, string, time.Duration) (net.Conn, error) { return mailServer(t, c.script), nil }
			if c.name == "stalls" {
				w.Target.Timeout = 50 * time.Millisecond
			}
			s, _, err := w.Open(context.Background(), workload.SMTP, &w.Users[0])
			if err != nil {
				t.Fatal(err)
			}
			got, err := act(s, workload.Send)
			if Kind(err) != c.kind {
				t.Errorf("%q, want %q: %v", Kind(err), c.kind, err)
			}
			if err == nil && got.Sent < 300 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// mailServer plays a script; its step "stallmail" reads a message and ends the connection.
func mailServer(t *testing.T, s script) net.Conn {
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		in := bufio.NewReader(theirs)
		for _, step := range s {
			what, text, _ := strings.Cut(step, " ")
			switch what {
			case "S":
				_, _ = io.WriteString(theirs, text+"\r\n")
			case "C":
				if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, text) {
					t.Errorf("awaits %q, got %q, %v", text, line, err)
					return
				}
			case "stall":
				_, _ = io.Copy(io.Discard, in)
			case "stallmail":
				for line := ""; line != ".\r\n"; {
					var err error
					if line, err = in.ReadString('\n'); err != nil {
						t.Errorf("message: %v", err)
						return
					}
				}
				_, _ = io.WriteString(theirs, "250 ok\r\n")
				_, _ = in.ReadString('\n')
				_, _ = io.WriteString(theirs, "221 bye\r\n")
			}
		}
	}()
	t.Cleanup(func() { _ = ours.Close(); <-done })
	return pipeEnd{ours}
}

// pipeEnd accepts deadlines after the other end closed, as a socket does. A net.Pipe would return io.ErrClosedPipe
// there, before the reader sees the end of the stream.
type pipeEnd struct{ net.Conn }

func (p pipeEnd) SetDeadline(at time.Time) error      { _ = p.Conn.SetDeadline(at); return nil }
func (p pipeEnd) SetReadDeadline(at time.Time) error  { _ = p.Conn.SetReadDeadline(at); return nil }
func (p pipeEnd) SetWriteDeadline(at time.Time) error { _ = p.Conn.SetWriteDeadline(at); return nil }

func TestPOP3(t *testing.T) {
	t.Parallel()
	login := script{"S +OK hello", "C USER u0", "S +OK", "C PASS", "S +OK"}
	for _, c := range []struct {
		name   string
		script script
		do     []workload.Verb
		kind   string
	}{
		{"takes all", after(login, script{"C LIST", "S +OK\r\n1 10\r\n2 20\r\n.", "C RETR 1", "S +OK\r\na\r\n..b\r\n.",
			"C DELE 1", "S +OK", "C RETR 2", "S +OK\r\n.", "C DELE 2", "S +OK"}),
			[]workload.Verb{workload.Retrieve}, ""},
		{"refuses", after(login, script{"C LIST", "S -ERR [IN-USE] busy"}), []workload.Verb{workload.Open},
			"pop3: LIST: [IN-USE] busy"},
		{"has nothing", after(login, script{"C LIST", "S +OK\r\n."}), []workload.Verb{workload.Open, workload.Read},
			"drive: nothing to do it with"},
		{"closes in a message", after(login, script{"C LIST", "S +OK\r\n1 10\r\n.", "C RETR 1", "S +OK\r\nabc",
			"close"}), []workload.Verb{workload.Open, workload.Read}, "connection closed by the server"},
		{"stalls", after(login, script{"C LIST", "S +OK\r\n1 10", "stall"}), []workload.Verb{workload.Open},
			"time-out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := against(t)
			w.Env.Dial = func(string, string, time.Duration) (net.Conn, error) { return mailServer(t, c.script), nil }
			if c.name == "stalls" {
				w.Target.Timeout = 100 * time.Millisecond
			}
			s, _, err := w.Open(context.Background(), workload.POP3, &w.Users[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, do := range c.do {
				if _, err = act(s, do); err != nil {
					break
				}
			}
			got := Kind(err)
			if errors.Is(err, ErrNothing) {
				got = err.Error()
			}
			if got != c.kind {
				t.Errorf("%q, want %q: %v", got, c.kind, err)
			}
		})
	}
}

// FuzzIMAP checks that a session neither crashes nor hangs whatever a server sends, and that its state stays bounded
// and sorted.
func FuzzIMAP(f *testing.F) {
	for _, seed := range []string{
		"* 3 EXISTS\r\n2 OK\r\n* 1 FETCH (UID 10 FLAGS ())\r\n3 OK\r\n* 1 FETCH (UID 10 BODY[] {3}\r\nabc)\r\n" +
			"4 OK\r\n+ \r\n6 OK\r\n",
		"* BYE\r\n", "* 99999999999 EXISTS\r\n* 5 EXPUNGE\r\n2 OK\r\n", "* 1 FETCH (UID {9999999999}\r\n",
		"2 NO\r\n3 OK\r\n+\r\n", "* 1 FETCH (BODY[ \"\\", "\n\n\n",
	} {
		f.Add([]byte("* OK\r\n1 OK\r\n"+seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, said []byte, piece uint8) {
		w, _ := against(t)
		w.Env.Dial = func(string, string, time.Duration) (net.Conn, error) {
			return &said1{data: said, piece: int(piece)%40 + 1}, nil
		}
		opened, _, err := w.Open(context.Background(), workload.IMAP, &w.Users[0])
		if err != nil {
			return
		}
		s := opened.(*imapSession)
		for _, do := range []workload.Verb{workload.Open, workload.Read, workload.Scroll, workload.Retrieve,
			workload.Add, workload.Update, workload.Delete, workload.Idle} {
			got, err := act(s, do)
			if got.Received > uint64(len(said)) || s.broken && err == nil {
				t.Fatalf("%s: %+v, %v, broken %v", do, got, err, s.broken)
			}
			if len(s.known) > maxKnown || len(s.unread) > maxKnown || len(s.asked.waits) > maxKnown ||
				!slices.IsSorted(s.known) || !slices.IsSorted(s.unread) || len(s.left) > bufferSize {
				t.Fatalf("%s: %d known, %d unread", do, len(s.known), len(s.unread))
			}
			_ = Kind(err)
			if s.broken {
				break
			}
		}
		_ = s.Close()
	})
}

// said1 is a connection whose other side sends a fixed text in pieces and reads nothing.
type said1 struct {
	net.Conn
	data  []byte
	piece int
}

func (c *said1) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.data[:min(c.piece, len(c.data))])
	c.data = c.data[n:]
	return n, nil
}

func (c *said1) Write(p []byte) (int, error) { return len(p), nil }
func (c *said1) Close() error                { return nil }
func (c *said1) SetDeadline(time.Time) error { return nil }
