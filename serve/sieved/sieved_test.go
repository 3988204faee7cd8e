package sieved

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/test/door"
	"doublet/test/people"
	"doublet/test/scenario"
)

// house is a server under test.
type house struct {
	env    *env.Fixture
	mail   *mailbox.Service
	people *people.Fake
	server *Server
	*door.Open
}

func open(t testing.TB, cfg Config, o door.Options) *house {
	t.Helper()
	h := &house{env: env.TestRealTime(t)}
	st, err := store.Open(h.env.Env, "store", store.Options{CacheSize: 4 << 20, MemTableSize: 1 << 20, FloorBytes: -1,
		Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	h.mail = mailbox.New(st, h.env.Env, mailbox.Options{})
	h.people = &people.Fake{Accounts: map[string]signin.Account{}}
	for i, name := range []string{"alice", "bob"} {
		who := note.Who{Person: note.UNID{15: byte(i + 1)}}
		db, err := h.mail.Make(context.Background(), who.Person, name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.people.Accounts[name] = signin.Account{Who: who, Database: db, Name: name}
	}
	h.server = New(h.env.Env, cfg, h.people, h.mail, stat.New(h.env.Clock))
	d := listen.Door{Name: "sieve", Serve: h.server.Serve, Busy: h.server.Busy()}
	o.Left = func() {
		if n := h.server.stats.current.Value(); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
	}
	h.Open = door.At(t, h.env.Env, d, o)
	return h
}

// TestScenarios plays the dialogues of testdata. The first word of a file's name selects other settings.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for kind, o := range map[string]door.Options{"sieve": {}, "tls": {TLS: true}, "far": {Far: true}} {
		t.Run(kind, func(t *testing.T) {
			scenario.Run(t, "testdata/"+kind+"-*.txt", scenario.Options{
				TLS: func(c net.Conn) (net.Conn, error) { return tls.Client(c, door.ClientTLS), nil },
			}, func(t *testing.T) scenario.Dial {
				t.Parallel()
				h := open(t, Config{}, o)
				return func(string) (net.Conn, error) { return net.Dial("tcp", h.Addr.String()) }
			})
		})
	}
}

// TestAccountGone checks that a session ends before the next command when its account is disabled, and that the command
// changes nothing.
func TestAccountGone(t *testing.T) {
	t.Parallel()
	h := open(t, Config{}, door.Options{})
	c, err := net.Dial("tcp", h.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(c)
	say := func(line, until string) {
		t.Helper()
		if _, err := io.WriteString(c, line+"\r\n"); err != nil {
			t.Fatal(err)
		}
		for {
			got, err := in.ReadString('\n')
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if strings.HasPrefix(got, until) {
				return
			}
		}
	}
	say(`AUTHENTICATE "PLAIN" "AGFsaWNlAGRlbW8="`, "OK \"Signed in\"")
	say(`PUTSCRIPT "one" "keep;"`, "OK")
	h.people.Gone.Store(true)
	say(`PUTSCRIPT "two" "keep;"`, "BYE")
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("the session goes on: %v", err)
	}
	a := h.people.Accounts["alice"]
	f := h.mail.File(a.Who, a.Database)
	if err := f.Read(context.Background(), func(d *mailbox.Reading) error {
		l, err := scripts.Read(f, d)
		if err == nil && len(l.Scripts) != 1 {
			t.Errorf("%+v", l.Scripts)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
