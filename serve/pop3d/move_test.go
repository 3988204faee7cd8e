package pop3d

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	client "doublet/client/pop3"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/test/door"
	"doublet/test/people"
	"doublet/test/town"
)

func newCluster(t *testing.T, n int) *town.Town {
	t.Helper()
	return town.New(t, n, func(m *town.Member) (listen.Door, door.Options) {
		p := &people.Fake{Accounts: map[string]signin.Account{
			"alice": {Name: "alice", Database: m.Town.Database, Who: note.Who{Person: m.Town.Person}},
		}}
		srv := New(m.Env, Config{Forward: m.Forward, Memory: m.Memory, LoginDelay: time.Hour, Hostname: "home"}, p,
			m.Mail, m.Stats)
		return listen.Door{Name: "pop3", Serve: srv.Serve, Busy: srv.Busy()}, door.Options{Left: func() {
			if n := srv.cfg.Memory.Used(); n != 0 {
				t.Errorf("%s: %d bytes of memory leaked", m.Name, n)
			}
		}}
	})
}

// TestMoves compares a session whose mail file is handed over between any two commands with one that never moves: the
// maildrop stays the same, and QUIT removes the marked messages.
func TestMoves(t *testing.T) {
	t.Parallel()
	ids := regexp.MustCompile(`(?m)^(\d+ |\+OK \d+ )[^\d\s]\S*\r$|^Date:.*\n|^\+OK home.*\n`)
	for seed := range uint64(4) {
		run := func(moves *rand.Rand) string {
			w := newCluster(t, 3)
			for i := range 9 {
				letter := fmt.Sprintf("From: a@b.example\r\nSubject: m %d\r\n\r\nbody\r\n", i)
				_, _, err := w.File().Append(context.Background(), mailbox.Inbox, []byte(letter), mailbox.Flags{},
					time.Unix(1_700_000_000, 0))
				if err != nil {
					t.Fatal(err)
				}
			}
			c, err := net.Dial("tcp", w.Members[0].Addr.String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			maybe := func() {
				if moves != nil && moves.IntN(2) == 0 {
					w.HandOver(moves.IntN(3))
				}
			}
			var out strings.Builder
			cl, err := client.New(w.Members[0].Env, c, client.Options{})
			if err == nil {
				err = cl.Login("alice", "demo")
			}
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, 3))
			for range 60 {
				maybe()
				n := 1 + rng.IntN(10)
				one := []string{"STAT", "NOOP", fmt.Sprint("LIST ", n), fmt.Sprint("DELE ", n), "RSET",
					fmt.Sprint("RETR ", n), fmt.Sprint("TOP ", n, " 1"), "LIST"}
				cmd := one[rng.IntN(len(one))]
				fmt.Fprintf(&out, "%s: %s\n", cmd, say(t, c, cmd))
			}
			maybe()
			fmt.Fprintf(&out, "DELE: %s\n", say(t, c, "DELE 2"))
			maybe()
			fmt.Fprintf(&out, "QUIT: %s\n", say(t, c, "QUIT"))
			v, _, err := w.File().Open(context.Background(), mailbox.Inbox, true)
			if err != nil {
				t.Fatal(err)
			}
			uids, err := v.UIDs(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&out, uids)
			if moves != nil && w.Moved() < 10 {
				t.Errorf("the session has moved %d times", w.Moved())
			}
			return ids.ReplaceAllString(out.String(), "")
		}
		stayed, moved := run(nil), run(rand.New(rand.NewPCG(seed, 4)))
		if stayed != moved {
			t.Errorf("a session that stayed:\n%s\none that was moved:\n%s", stayed, moved)
		}
	}
}

// say sends a command and reads its response.
func say(t *testing.T, c net.Conn, cmd string) string {
	t.Helper()
	if _, err := io.WriteString(c, cmd+"\r\n"); err != nil {
		t.Fatal(err)
	}
	var out []byte
	one := make([]byte, 1)
	more := cmd == "LIST" || strings.HasPrefix(cmd, "RETR") || strings.HasPrefix(cmd, "TOP")
	for {
		if _, err := c.Read(one); err != nil {
			t.Fatalf("%s: after %q: %v", cmd, out, err)
		}
		out = append(out, one[0])
		done := strings.HasSuffix(string(out), "\r\n") && (!more || out[0] == '-' ||
			strings.HasSuffix(string(out), "\r\n.\r\n"))
		if done {
			return string(out)
		}
	}
}
