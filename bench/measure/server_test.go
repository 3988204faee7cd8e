package measure

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"doublet/bench/drive"
	"doublet/bench/progress"
	"doublet/bench/record"
	"doublet/bench/run"
	"doublet/env"
)

// fake is a Doublet that counts the people whom it creates.
type fake struct {
	Doublet
	open  map[string]string
	added []string
	pid   string
}

func (f *fake) Doors(context.Context) (map[string]string, error) { return f.open, nil }

func (f *fake) Adder() (func(context.Context, *drive.User) error, error) {
	return func(_ context.Context, u *drive.User) error {
		f.added = append(f.added, u.Known)
		return nil
	}, nil
}

// TestEnter checks which doors are driven and which people are created.
func TestEnter(t *testing.T) {
	t.Parallel()
	j, err := New(env.Real(slog.New(slog.DiscardHandler)), progress.Console{Out: io.Discard}, &Options{Registered: 3},
		"n8mail")
	if err != nil {
		t.Fatal(err)
	}
	d := &fake{open: map[string]string{"imap": "0.0.0.0:143", "imaps": "0.0.0.0:993", "https": "[::]:443",
		"submissions": "10.0.0.1:465", "smtp": "10.0.0.1:25"}}
	found := map[string]string{"imap": "127.0.0.1:143", "jmaps": "127.0.0.1:443", "submissions": "10.0.0.1:465",
		"smtp": "10.0.0.1:25"}
	named := map[string]string{"pop3": "example.org:110"}
	for _, c := range []struct{ flags, want map[string]string }{{nil, found}, {named, named}} {
		d.added = nil
		s := &Server{Doors: c.flags, User: "mail%d", Address: "mail%d@example.com", Doublet: d}
		users, worlds, err := s.Enter(t.Context(), j, 2)
		if err != nil || len(worlds) != 1 || !maps.Equal(worlds[0].Target.Doors, c.want) {
			t.Errorf("doors %v: %v, want %v, %v", c.flags, worlds, c.want, err)
		}
		if got := strings.Join(d.added, ", "); len(users) != 3 || got != "Bench mail1, Bench mail2, Bench mail3" {
			t.Errorf("%d people, created %s", len(users), got)
		}
	}
}

// TestAccounts checks that a file of people is read by its first line, and that it must name enough people.
func TestAccounts(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "people.csv")
	for _, c := range []struct{ text, fails string }{
		{"address, name,password\na@x,ann,p\nb@x,bob,q\n", ""},
		{"name,password,address\nann,p,a@x\n", "names 1 people"},
		{"name,address\nann,a@x\nbob,b@x\n", "first line"}, {"", "first line"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		users, err := (&Server{Accounts: path}).people(2)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%q: %v, want %q", c.text, err, c.fails)
			}
			continue
		}
		if err != nil || len(users) != 2 || users[1].Name != "bob" || users[1].Address != "b@x" ||
			users[1].Password != "q" || users[1].Index != 1 {
			t.Errorf("%q: %+v, %v", c.text, users, err)
		}
	}
}

func (f *fake) Statistics() func(context.Context) (map[string]float64, error) {
	return func(context.Context) (map[string]float64, error) { return map[string]float64{"Mail.Delivered": 5}, nil }
}

func (f *fake) PIDFile() (string, error) { return f.pid, nil }

// TestOwnDoors checks that a Doublet of this machine is metered only if its doors are driven: the processor time of one
// that has nothing to do is not that of the server under test.
func TestOwnDoors(t *testing.T) {
	t.Parallel()
	pid := filepath.Join(t.TempDir(), "doublet.pid")
	if err := os.WriteFile(pid, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := New(env.Real(slog.New(slog.DiscardHandler)), progress.Console{Out: io.Discard}, &Options{}, "n8mail")
	if err != nil {
		t.Fatal(err)
	}
	d := &fake{open: map[string]string{"imap": "0.0.0.0:143", "http": "127.0.0.1:8080"}, pid: pid}
	for _, c := range []struct {
		doors      map[string]string
		named, own bool
	}{{nil, false, true}, {map[string]string{"imap": "127.0.0.1:143"}, false, true},
		{map[string]string{"jmap": "localhost:8080"}, false, true},
		{map[string]string{"imap": "127.0.0.1:144"}, false, false},
		{map[string]string{"imap": "proxy.example.org:143"}, true, true},
		{map[string]string{"imap": "mail.example.org:143"}, false, false}} {
		s := &Server{Doors: c.doors, Doublet: d, Named: c.named}
		if _, _, err := s.Enter(t.Context(), j, 1); err != nil {
			t.Fatal(err)
		}
		w, err := s.Watch(j)
		if err != nil {
			t.Fatal(err)
		}
		var h record.Header
		w.Prepare(&h, &run.Plan{})
		if (h.Server != nil) != c.own {
			t.Errorf("doors %v: metered %+v, want %v", c.doors, h.Server, c.own)
		}
	}
}
