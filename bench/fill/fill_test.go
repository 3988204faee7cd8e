package fill

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/bench/drive"
	"doublet/bench/workload"
	"doublet/env"
	wire "doublet/wire/imap"
)

// message is a message of a mailbox.
type message struct{ text, flags string }

// id returns the header field Message-ID of the message.
func (m *message) id() string {
	for l := range strings.Lines(m.text) {
		if strings.HasPrefix(l, "Message-ID:") {
			return l
		}
	}
	return ""
}

// mailboxes is a server of mailboxes: the folders of each person.
type mailboxes struct {
	mu      sync.Mutex
	folders map[string]map[string][]message
	refuse  string
}

// held returns a server whose people have so many messages of their own in the INBOX.
func held(counts map[string]int) *mailboxes {
	m := &mailboxes{folders: map[string]map[string][]message{}}
	for user, n := range counts {
		m.folders[user] = map[string][]message{"INBOX": make([]message, n)}
	}
	return m
}

// inbox returns the texts of a person's INBOX.
func (m *mailboxes) inbox(user string) (out []string) {
	for _, x := range m.folders[user]["INBOX"] {
		out = append(out, x.text)
	}
	return out
}

func (m *mailboxes) add(user, folder string, x message) {
	if m.folders[user] == nil {
		m.folders[user] = map[string][]message{}
	}
	m.folders[user][folder] = append(m.folders[user][folder], x)
}

// imapSession is a session of the IMAP server.
type imapSession struct {
	*mailboxes
	in           *bufio.Reader
	out          io.Writer
	user, folder string
}

func (m *mailboxes) serve(conn net.Conn) {
	defer conn.Close()
	s := &imapSession{mailboxes: m, in: bufio.NewReader(conn), out: conn}
	for s.say("* OK"); ; {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return
		}
		tag, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		status := "OK"
		if !s.do(rest) {
			status = "NO"
		}
		if s.say(tag + " " + status + " done"); rest == "LOGOUT" {
			return
		}
	}
}

func (s *imapSession) say(text string) { _, _ = io.WriteString(s.out, text+"\r\n") }

// do carries out a command and reports its success.
func (s *imapSession) do(command string) bool {
	word, rest, _ := strings.Cut(command, " ")
	first, _, _ := strings.Cut(rest, " ")
	first = strings.Trim(first, `"`)
	var body []byte
	if word == "APPEND" {
		var n int
		_, _ = fmt.Sscanf(rest[strings.LastIndexByte(rest, '{'):], "{%d", &n)
		s.say("+ go on")
		body = make([]byte, n+2)
		if _, err := io.ReadFull(s.in, body); err != nil {
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.folders[s.user][s.folder]
	switch word {
	case "LOGIN":
		s.user = first
		return s.user != s.refuse
	case "CREATE":
		return false
	case "LIST":
		for name := range s.folders[s.user] {
			s.say(`* LIST () "/" ` + name)
		}
		s.say(`* LIST (\NoSelect) "/" Group`)
	case "SELECT":
		s.folder = first
		s.say(fmt.Sprintf("* %d EXISTS", len(s.folders[s.user][first])))
	case "APPEND":
		flags := ""
		if strings.Contains(rest, `(\Seen)`) {
			flags = `\Seen`
		}
		s.add(s.user, first, message{string(body), flags})
	case "FETCH":
		for i := range list {
			s.say(fmt.Sprintf("* %d FETCH (FLAGS (%s) BODY[HEADER.FIELDS (Message-ID)] {%d}\r\n%s)", i+1, list[i].flags,
				len(list[i].id()), list[i].id()))
		}
	case "STORE":
		set, err := wire.ParseSet(first, 100)
		_, flags, _ := strings.Cut(rest, "(")
		for i := range list {
			if err == nil && set.Contains(uint32(i+1), uint32(len(list))) {
				list[i].flags = strings.TrimSuffix(flags, ")")
			}
		}
	case "EXPUNGE":
		s.folders[s.user][s.folder] = slices.DeleteFunc(list, func(x message) bool { return x.flags == `\Deleted` })
	}
	return true
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
			for i := range m.folders[user]["INBOX"] {
				answer += fmt.Sprintf("%d 100\r\n", i+1)
			}
			answer += ".\r\n"
		case "DELE":
			deleted++
		case "QUIT":
			if list := m.folders[user]["INBOX"]; deleted > 0 {
				m.folders[user]["INBOX"] = list[:len(list)-deleted]
			}
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
			m.add(user, "INBOX", message{text: body.String()})
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

// TestFillGoesOn checks that the same seed yields the same messages, that Fill resumes, and that it removes messages
// that it has not made.
func TestFillGoesOn(t *testing.T) {
	t.Parallel()
	one := held(nil)
	w := world(t, one)
	f, err := Fill(context.Background(), w, w.Users, Options{Messages: 7, Workers: 3})
	if err != nil || f.Added != 42 {
		t.Fatal(f, err)
	}
	two := held(map[string]int{"u3": 9})
	w = world(t, two)
	for _, n := range []int{2, 7} {
		if f, err = Fill(context.Background(), w, w.Users, Options{Messages: n, Workers: 2}); err != nil {
			t.Fatal(err)
		}
	}
	if f.Added != 30 || f.Removed != 0 {
		t.Errorf("%+v", f)
	}
	// Dates depend on the number of messages; everything else is equal.
	cut := func(s string) string { _, b, _ := strings.Cut(s, "\r\n\r\n"); return b }
	for _, u := range w.Users {
		got, want := two.inbox(u.Name), one.inbox(u.Name)
		if !slices.EqualFunc(got, want, func(a, b string) bool { return cut(a) == cut(b) && cut(a) != "" }) {
			t.Errorf("%s has %d messages, or others", u.Name, len(got))
		}
	}
}

// TestFillPutsBack checks that Fill puts back everything that people have changed: flags, deleted and new messages, and
// the folders into which they file.
func TestFillPutsBack(t *testing.T) {
	t.Parallel()
	fresh, used := held(nil), held(nil)
	for _, m := range []*mailboxes{fresh, used} {
		w := world(t, m)
		if _, err := Fill(context.Background(), w, w.Users, Options{Messages: 20}); err != nil {
			t.Fatal(err)
		}
	}
	flags := map[string]bool{}
	for _, x := range fresh.folders["u0"]["INBOX"] {
		flags[x.flags] = true
	}
	if !flags[""] || !flags[`\Seen`] {
		t.Fatal("all messages are alike, so that the test shows nothing")
	}
	stranger := message{text: "Message-ID: <run1.0.1@bench.example>\r\n\r\nnew\r\n"}
	for i, change := range []func(inbox []message) []message{
		func(l []message) []message { l[3].flags = `\Seen \Answered`; return l },
		func(l []message) []message { l[3].flags, l[4].flags = "", `\Seen`; return l },
		func(l []message) []message { return append(l, stranger) },
		func(l []message) []message { return append(l[:9:9], l[10:]...) },
		func(l []message) []message { return append(append(l[:9:9], stranger), l[10:]...) },
		func([]message) []message { return nil },
	} {
		f := used.folders["u0"]
		f["INBOX"] = change(f["INBOX"])
		f["Archive"], f["Sent"] = []message{stranger}, []message{stranger, stranger}
		w := world(t, used)
		if _, err := Fill(context.Background(), w, w.Users[:1], Options{Messages: 20}); err != nil {
			t.Fatal(err)
		}
		f = used.folders["u0"]
		if !slices.Equal(f["INBOX"], fresh.folders["u0"]["INBOX"]) {
			t.Errorf("change %d: the INBOX is not what it was", i)
		}
		if len(f["Archive"])+len(f["Sent"]) > 0 {
			t.Errorf("change %d: the other folders have %d messages", i, len(f["Archive"])+len(f["Sent"]))
		}
	}
}

// TestFillOverLMTP checks that LMTP delivers the same messages, while a reading protocol counts and removes them.
func TestFillOverLMTP(t *testing.T) {
	t.Parallel()
	imap := held(nil)
	w := world(t, imap)
	if _, err := Fill(context.Background(), w, w.Users, Options{Messages: 5}); err != nil {
		t.Fatal(err)
	}
	// Over IMAP, Fill sees that the messages are not its own; over POP3 it only counts.
	for reader, want := range map[string]drive.Filled{"imap": {Added: 30, Removed: 11}, "pop3": {Added: 23,
		Removed: 4}} {
		m := held(map[string]int{"u2": 9, "u3": 2})
		w := world(t, m)
		w.FillOver = workload.LMTP
		w.Target.Doors = map[string]string{reader: reader + ":1", "lmtp": "lmtp:1"}
		f, err := Fill(context.Background(), w, w.Users, Options{Messages: 5, Workers: 2})
		if err != nil || f.Added != want.Added || f.Removed != want.Removed {
			t.Fatalf("%s: %+v, %v", reader, f, err)
		}
		for _, u := range w.Users {
			got := m.inbox(u.Name)
			if len(got) != 5 {
				t.Errorf("%s: %s has %d", reader, u.Name, len(got))
			}
			for i, body := range got {
				plain := strings.ReplaceAll("\r\n"+body, "\r\n..", "\r\n.")[2:]
				if body != "" && strings.TrimRight(plain, "\r\n") != strings.TrimRight(imap.inbox(u.Name)[i], "\r\n") {
					t.Errorf("%s: message %d of %s is another one", reader, i, u.Name)
				}
			}
		}
	}
}

func TestFillNamesWhatFails(t *testing.T) {
	t.Parallel()
	m := held(nil)
	m.refuse = "u2"
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
