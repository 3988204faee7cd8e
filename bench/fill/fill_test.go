package fill

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/bench/drive"
	"doublet/bench/workload"
	"doublet/env"
)

// mailboxes is an IMAP server that implements APPEND and counts messages.
type mailboxes struct {
	mu     sync.Mutex
	counts map[string]int
	bodies map[string]string
	refuse string
}

func (m *mailboxes) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	user := ""
	for _, _ = io.WriteString(conn, "* OK\r\n"); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		tag, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		word, _, _ := strings.Cut(rest, " ")
		say := func(text string) { _, _ = io.WriteString(conn, text+"\r\n") }
		status := "OK"
		switch word {
		case "LOGIN":
			user = strings.Split(rest, `"`)[1]
			if user == m.refuse {
				status = "NO"
			}
		case "CREATE":
			status = "NO it is there"
		case "SELECT":
			m.mu.Lock()
			say(fmt.Sprintf("* %d EXISTS", m.counts[user]))
			m.mu.Unlock()
		case "APPEND":
			var n int64
			_, _ = fmt.Sscanf(rest[strings.LastIndexByte(rest, '{'):], "{%d}", &n)
			say("+ go on")
			body := make([]byte, n+2)
			if _, err := io.ReadFull(in, body); err != nil {
				return
			}
			m.mu.Lock()
			m.bodies[fmt.Sprintf("%s.%d", user, m.counts[user])] = string(body)
			m.counts[user]++
			m.mu.Unlock()
		case "STORE":
			var from int
			_, _ = fmt.Sscanf(rest, "STORE %d:*", &from)
			m.mu.Lock()
			m.counts[user] = from - 1
			m.mu.Unlock()
		}
		say(tag + " " + status)
	}
}

// servePOP3 is a POP3 server that counts and deletes.
func (m *mailboxes) servePOP3(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	user, deleted := "", 0
	for _, _ = io.WriteString(conn, "+OK\r\n"); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		answer := "+OK\r\n"
		m.mu.Lock()
		switch word {
		case "CAPA":
			answer = "+OK\r\nUSER\r\n.\r\n"
		case "USER":
			user = rest
		case "LIST":
			for i := range m.counts[user] {
				answer += fmt.Sprintf("%d 100\r\n", i+1)
			}
			answer += ".\r\n"
		case "DELE":
			deleted++
		case "QUIT":
			m.counts[user] -= deleted
		}
		m.mu.Unlock()
		if _, _ = io.WriteString(conn, answer); word == "QUIT" {
			return
		}
	}
}

// serveLMTP is an LMTP server that counts.
func (m *mailboxes) serveLMTP(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	user := ""
	for _, _ = io.WriteString(conn, "220 lmtp\r\n"); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		answer := "250 2.0.0 ok\r\n"
		switch word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(line)), " "); word {
		case "RCPT":
			_, user, _ = strings.Cut(line, "<")
			user, _, _ = strings.Cut(user, "@")
		case "DATA":
			_, _ = io.WriteString(conn, "354 go on\r\n")
			var body strings.Builder
			for line, err = in.ReadString('\n'); err == nil && line != ".\r\n"; line, err = in.ReadString('\n') {
				body.WriteString(line)
			}
			m.mu.Lock()
			m.bodies[fmt.Sprintf("%s.%d", user, m.counts[user])] = body.String()
			m.counts[user]++
			m.mu.Unlock()
		case "QUIT":
			_, _ = io.WriteString(conn, "221 2.0.0 bye\r\n")
			return
		}
		_, _ = io.WriteString(conn, answer)
	}
}

func world(t *testing.T, m *mailboxes) *drive.World {
	t.Helper()
	w, err := workload.ByName("r4mail")
	if err != nil {
		t.Fatal(err)
	}
	e := env.Real(slog.New(slog.DiscardHandler))
	e.Dial = func(_, address string, _ time.Duration) (net.Conn, error) {
		ours, theirs := net.Pipe()
		serve := map[string]func(net.Conn){"imap:1": m.serve, "pop3:1": m.servePOP3, "lmtp:1": m.serveLMTP}[address]
		go serve(theirs)
		return ours, nil
	}
	out := &drive.World{Env: e, Workload: w, Seed: 5,
		Target: drive.Target{Doors: map[string]string{"imap": "imap:1", "lmtp": "lmtp:1"}, Timeout: 10 * time.Second}}
	for i := range 6 {
		out.Users = append(out.Users, drive.User{Index: i, Name: fmt.Sprint("u", i),
			Address: fmt.Sprintf("u%d@example.com", i)})
	}
	return out
}

// TestFillGoesOn checks that the same seed yields the same messages, that Fill resumes, and that it removes excess
// messages.
func TestFillGoesOn(t *testing.T) {
	t.Parallel()
	one := &mailboxes{counts: map[string]int{}, bodies: map[string]string{}}
	w := world(t, one)
	f, err := Fill(context.Background(), w, w.Users, Options{Messages: 7, Workers: 3})
	if err != nil || f.Added != 42 {
		t.Fatal(f, err)
	}
	two := &mailboxes{counts: map[string]int{"u3": 9}, bodies: map[string]string{}}
	w = world(t, two)
	for _, n := range []int{2, 7} {
		if f, err = Fill(context.Background(), w, w.Users, Options{Messages: n, Workers: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if f.Added != 30 || f.Removed != 0 {
		t.Errorf("%+v", f)
	}
	for name, body := range one.bodies {
		// u3 had messages of its own before.
		if got, ok := two.bodies[name]; got != body && !(strings.HasPrefix(name, "u3.") &&
			(!ok || strings.HasSuffix(name, ".0") || strings.HasSuffix(name, ".1"))) {
			// Dates depend on the number of messages; everything else is equal.
			if cut := func(s string) string { _, b, _ := strings.Cut(s, "\r\n\r\n"); return b }; cut(got) != cut(body) {
				t.Errorf("%s differs", name)
			}
		}
	}
	for user, n := range two.counts {
		if n != 7 {
			t.Errorf("%s has %d", user, n)
		}
	}
}

// TestFillOverLMTP checks that LMTP delivers the same messages, while a reading protocol counts and removes them.
func TestFillOverLMTP(t *testing.T) {
	t.Parallel()
	imap := &mailboxes{counts: map[string]int{}, bodies: map[string]string{}}
	w := world(t, imap)
	if _, err := Fill(context.Background(), w, w.Users, Options{Messages: 5}); err != nil {
		t.Fatal(err)
	}
	for _, reader := range []string{"imap", "pop3"} {
		m := &mailboxes{counts: map[string]int{"u2": 9, "u3": 2}, bodies: map[string]string{}}
		w := world(t, m)
		w.FillOver = workload.LMTP
		w.Target.Doors = map[string]string{reader: reader + ":1", "lmtp": "lmtp:1"}
		f, err := Fill(context.Background(), w, w.Users, Options{Messages: 5, Workers: 2})
		if err != nil || f.Added != 23 || f.Removed != 4 {
			t.Fatalf("%s: %+v, %v", reader, f, err)
		}
		for user, n := range m.counts {
			if n != 5 {
				t.Errorf("%s: %s has %d", reader, user, n)
			}
		}
		for name, body := range m.bodies {
			plain := strings.ReplaceAll("\r\n"+body, "\r\n..", "\r\n.")[2:]
			if strings.TrimRight(plain, "\r\n") != strings.TrimRight(imap.bodies[name], "\r\n") {
				t.Errorf("%s: %s is another message", reader, name)
			}
		}
	}
}

func TestFillNamesWhatFails(t *testing.T) {
	t.Parallel()
	m := &mailboxes{counts: map[string]int{}, bodies: map[string]string{}, refuse: "u2"}
	w := world(t, m)
	f, err := Fill(context.Background(), w, w.Users, Options{Messages: 3})
	if err == nil || !strings.Contains(err.Error(), "1 of 6 mailboxes failed") ||
		!strings.Contains(err.Error(), "u2") || f.Added != 15 {
		t.Errorf("%+v, %v", f, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Fill(ctx, w, w.Users[:1], Options{Messages: 9}); err == nil ||
		!strings.Contains(err.Error(), "stopped") {
		t.Errorf("stopped: %v", err)
	}
}
