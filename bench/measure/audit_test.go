package measure

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doublet/bench/drive"
	"doublet/bench/ledger"
	"doublet/bench/progress"
	"doublet/bench/record"
	"doublet/bench/run"
	"doublet/env"
)

// inboxes is an IMAP server that only lists the messages of each person, by their ids.
type inboxes struct {
	mu sync.Mutex
	of map[string][]string
}

func (s *inboxes) serve(conn net.Conn) {
	defer conn.Close()
	say := func(format string, args ...any) { fmt.Fprintf(conn, format+"\r\n", args...) }
	say("* OK")
	user, inbox := "", false
	for in := bufio.NewScanner(conn); in.Scan(); {
		word := strings.Fields(in.Text())
		s.mu.Lock()
		list := s.of[user]
		s.mu.Unlock()
		switch word[1] {
		case "LOGIN":
			user = strings.Trim(word[2], `"`)
		case "EXAMINE":
			if inbox = word[2] == "INBOX"; !inbox {
				say("%s NO [NONEXISTENT] no such mailbox", word[0])
				continue
			}
			say("* %d EXISTS", len(list))
		case "FETCH":
			for i, id := range list {
				field := "Message-ID: <" + id + "@bench.example>\r\n\r\n"
				say("* %d FETCH (FLAGS () BODY[HEADER.FIELDS (Message-ID)] {%d}\r\n%s)", i+1, len(field), field)
			}
		}
		say("%s OK", word[0])
	}
}

// TestLedgerOfAnyServer checks that the mail of a server is compared with what it has acknowledged: what is late is
// waited for, what stays away is lost, and recipients whose mail is not read count for nothing.
func TestLedgerOfAnyServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := &inboxes{of: map[string][]string{"ann": {"old"}, "bob": nil}}
		e := env.Real(slog.New(slog.DiscardHandler))
		e.Dial = func(string, string, time.Duration) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go server.serve(theirs)
			return ours, nil
		}
		j, err := New(e, progress.Console{Out: io.Discard}, &Options{Target: "other"}, "r4mail")
		if err != nil {
			t.Fatal(err)
		}
		users := []drive.User{{Name: "ann", Address: "ann@x"}, {Name: "bob", Address: "bob@x"}}
		w := j.World(users, map[string]string{"imap": "imap:1"})
		a, err := newAudit(j, w)
		if err != nil {
			t.Fatal(err)
		}
		plan := &run.Plan{}
		a.adapt(plan)
		var file bytes.Buffer
		out := record.NewWriter(&file, record.Header{})
		accept := func(int) bool { return true }
		for step, arrives := range []string{"late", ""} {
			if err := plan.Fresh(context.Background(), users); err != nil {
				t.Fatal(err)
			}
			w.Ledger.Sent(ledger.Mail, fmt.Sprint("s", step), []string{"bob@x", "stranger@x"}, accept)
			if arrives != "" {
				time.AfterFunc(time.Minute, func() {
					server.mu.Lock()
					server.of["bob"] = append(server.of["bob"], fmt.Sprint("s", step))
					server.mu.Unlock()
				})
			}
			if err := plan.After(context.Background(), record.Step{Index: step}, out); err != nil {
				t.Fatal(err)
			}
		}
		r, err := record.Read(&file)
		if err != nil || len(r.Verdicts) != 2 {
			t.Fatalf("%v, verdicts %+v", err, r)
		}
		first, second := r.Verdicts[0], r.Verdicts[1]
		if first.Lost != 0 || first.Acknowledged != 2 || first.Step != 0 || first.Server != "other" {
			t.Errorf("mail that came after a minute: %+v", first)
		}
		if second.Lost != 1 || second.Step != 1 || !strings.Contains(strings.Join(second.Named, ""), "s1 of bob@x") {
			t.Errorf("mail that never came: %+v", second)
		}
	})
}

// TestLedgerRefuses checks which runs cannot keep a ledger.
func TestLedgerRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o     Options
		doors map[string]string
		says  string
	}{
		{Options{Over: "web"}, map[string]string{"imap": "x:1"}, "invitations"},
		{Options{Over: "pop3"}, map[string]string{"imap": "x:1"}, "--over imap"},
		{Options{}, map[string]string{"pop3": "x:1"}, "--imap"},
		{Options{Agents: []string{"x:2"}}, map[string]string{"imaps": "x:1"}, "--agent"},
	} {
		j, err := New(env.Real(slog.New(slog.DiscardHandler)), progress.Console{Out: io.Discard}, &c.o, "r4mail")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newAudit(j, j.World(nil, c.doors)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}
