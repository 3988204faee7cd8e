package imap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	wire "doublet/wire/imap"
)

// script runs a client against a scripted server. In the script, "C: x" is an expected line, byte for byte; "S: x" is
// sent with CRLF; "s: x" is sent without.
func script(t *testing.T, o Options, text string, run func(c *Client)) {
	t.Helper()
	client, server := net.Pipe()
	failed := make(chan error, 1)
	go func() {
		defer server.Close()
		failed <- serve(server, text)
	}()
	c, err := New(client, o)
	if err != nil {
		t.Fatal(err)
	}
	run(c)
	client.Close()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

func serve(conn net.Conn, text string) error {
	in := bufio.NewReader(conn)
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		kind, rest, _ := strings.Cut(strings.TrimLeft(line, "\t"), " ")
		rest = strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(rest)
		switch kind {
		case "C:":
			got, err := in.ReadString('\n')
			if err != nil || got != rest+"\r\n" {
				return fmt.Errorf("got %q, %v; want %q", got, err, rest)
			}
		case "S:":
			if _, err := io.WriteString(conn, rest+"\r\n"); err != nil {
				return err
			}
		case "s:":
			if _, err := io.WriteString(conn, rest); err != nil {
				return err
			}
		default:
			return errors.New("bad script: " + line)
		}
	}
	return nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	script(t, Options{}, `
		S: * OK [CAPABILITY IMAP4rev2 LITERAL+ SASL-IR] hello
		C: A1 LOGIN {2+}
		C: é "x"
		S: A1 NO [AUTHENTICATIONFAILED] no
		C: A2 AUTHENTICATE PLAIN AGJvYgBw
		S: A2 OK [CAPABILITY IMAP4rev2 IDLE] in
		C: A3 ENABLE IMAP4REV2
		S: * ENABLED IMAP4rev2
		S: A3 OK done
		C: A4 STATUS "é" (MESSAGES)
		S: * STATUS "é" (MESSAGES 7)
		S: A4 OK done
		C: A5 ID ("name" "d")
		S: * ID NIL
		S: A5 OK done
		C: A6 NAMESPACE
		S: * NAMESPACE (("" "/")) NIL NIL
		S: A6 OK done
		C: A7 LOGOUT
		S: * BYE bye
		S: A7 OK done
	`, func(c *Client) {
		var e *StatusError
		if err := c.Login("é", "x"); !errors.As(err, &e) || e.Status != wire.NO ||
			e.Code.Name != "AUTHENTICATIONFAILED" {
			t.Error(err)
		}
		check(t, c.Authenticate(PlainAuth{User: "bob", Password: "p"}))
		if !c.Has("IDLE") || c.Has("SASL-IR") {
			t.Error("capabilities not renewed")
		}
		on, err := c.Enable("IMAP4REV2")
		check(t, err)
		st, err := c.Status("é", wire.StatusMessages)
		check(t, err)
		if len(on) != 1 || st.Messages != 7 || st.Mailbox != "é" {
			t.Error(on, st)
		}
		if id, err := c.ID([]wire.IDParam{{Name: "name", Value: "d"}}); id != nil || err != nil {
			t.Error(id, err)
		}
		n, err := c.Namespace()
		check(t, err)
		if len(n.Personal) != 1 || n.Personal[0].Delimiter != '/' {
			t.Error(n)
		}
		check(t, c.Logout())
	})
}

// steps is a mechanism with two steps, like SCRAM.
type steps struct{ n int }

func (*steps) Mechanism() string { return "X" }
func (s *steps) Next(challenge []byte) ([]byte, error) {
	s.n++
	if s.n > 3 {
		return nil, errors.New("bad proof")
	}
	return []byte(fmt.Sprint(s.n, string(challenge))), nil
}

func TestAuthenticateInSteps(t *testing.T) {
	t.Parallel()
	script(t, Options{}, `
		S: * OK [CAPABILITY IMAP4rev1] hello
		C: A1 AUTHENTICATE X
		S: +
		C: MQ==
		S: + YQ==
		C: MmE=
		S: + Yg==
		C: M2I=
		S: + Yw==
		C: *
		S: A1 BAD cancelled
	`, func(c *Client) {
		err := c.Authenticate(&steps{})
		if err == nil || !strings.Contains(err.Error(), "bad proof") {
			t.Error(err)
		}
	})
}

func TestSelectAndFetch(t *testing.T) {
	t.Parallel()
	script(t, Options{}, `
		S: * OK hello
		C: A1 SELECT INBOX (QRESYNC (1 20 1:9))
		S: * OK [CLOSED] old one
		S: * 3 EXISTS
		S: * FLAGS (\Seen x)
		S: * OK [PERMANENTFLAGS (\Seen \*)] flags
		S: * OK [UIDVALIDITY 1] v
		S: * OK [UIDNEXT 10] n
		S: * OK [HIGHESTMODSEQ 30] m
		S: * OK [MAILBOXID (F1)] id
		S: * VANISHED (EARLIER) 1:4
		S: * 1 FETCH (UID 5 FLAGS (\Seen) MODSEQ (25))
		S: A1 OK [READ-ONLY] done
		C: A2 UID FETCH 5:* (FLAGS BODY.PEEK[])
		S: * 1 FETCH (UID 5 FLAGS () BODY[] {5}
		s: hello)\r\n
		S: * 2 FETCH (UID 6 BODY[] NIL)
		S: * 4 EXISTS
		S: A2 OK done
	`, func(c *Client) {
		s, err := c.Select(&wire.Select{Mailbox: "INBOX", QResync: &wire.QResync{UIDValidity: 1, ModSeq: 20,
			KnownUIDs: wire.Set{{Start: 1, Stop: 9}}}}, false)
		check(t, err)
		if s.Exists != 3 || s.UIDValidity != 1 || s.UIDNext != 10 || s.HighestModSeq != 30 || !s.ReadOnly ||
			s.MailboxID != "F1" ||
			s.Vanished.String() != "1:4" || len(s.Changed) != 1 || s.Changed[0].ModSeq != 25 || len(s.Permanent) != 2 {
			t.Errorf("%+v", s)
		}
		var exists uint32
		c.Untagged = func(r *wire.Response) {
			if r.Name == "EXISTS" {
				exists = r.Number
			}
		}
		var got []string
		check(t, c.Fetch(&wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 5}}},
			Items: []wire.FetchItem{{Kind: wire.ItemFlags}, {Kind: wire.ItemBodySection, Peek: true}}},
			true, func(d *wire.FetchData) error {
				got = append(got, fmt.Sprintf("%d %d %s %v", d.Seq, d.UID, d.Sections[0].Data, d.Sections[0].Nil))
				return nil
			}, nil))
		if want := []string{"1 5 hello false", "2 6  true"}; !reflect.DeepEqual(got, want) || exists != 4 {
			t.Errorf("%q, %d", got, exists)
		}
	})
}

func TestDiscardBodies(t *testing.T) {
	t.Parallel()
	script(t, Options{DiscardBodies: true}, `
		S: * OK hello
		C: A1 FETCH 1 (BODY[] ENVELOPE)
		S: * 1 FETCH (BODY[] {5}
		S: he{3} PREVIEW {2}
		s: ok UID 7)\r\n
		S: A1 OK done
	`, func(c *Client) {
		err := c.Fetch(&wire.Fetch{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 1}}},
			Items: []wire.FetchItem{{Kind: wire.ItemBodySection}, {Kind: wire.ItemEnvelope}}},
			false, func(d *wire.FetchData) error {
				if s := d.Section(wire.ItemBodySection); s == nil || s.Size != 5 || s.Data != "" || d.UID != 7 ||
					d.Preview != "ok" {
					t.Errorf("%+v", d)
				}
				return nil
			}, nil)
		check(t, err)
	})
}

func TestChanges(t *testing.T) {
	t.Parallel()
	script(t, Options{}, `
		S: * PREAUTH hello
		C: A1 UID STORE 1:3 (UNCHANGEDSINCE 5) +FLAGS.SILENT (\Seen)
		S: A1 OK [MODIFIED 2] done
		C: A2 UID SEARCH RETURN (ALL COUNT) UID 1:*
		S: * ESEARCH (TAG "A2") UID COUNT 3 ALL 1:3
		S: A2 OK done
		C: A3 SEARCH KEYWORD x
		S: * SEARCH 4 2 3
		S: A3 OK done
		C: A4 COPY $ Trash
		S: A4 OK [COPYUID 9 1:2 5:6] done
		C: A5 UID MOVE 1 Trash
		S: * OK [COPYUID 9 1 7] moved
		S: * VANISHED 1
		S: A5 OK done
		C: A6 UID EXPUNGE 2
		S: A6 OK done
		C: A7 CREATE x (USE (\Sent))
		S: A7 NO [ALREADYEXISTS] there
		C: A8 LIST "" ("*") RETURN (CHILDREN)
		S: * LIST (\HasNoChildren) "/" INBOX
		S: A8 OK done
	`, func(c *Client) {
		one := wire.Target{Set: wire.Set{{Start: 1, Stop: 1}}}
		m, err := c.Store(&wire.Store{Target: wire.Target{Set: wire.Set{{Start: 1, Stop: 3}}}, Op: wire.StoreAdd,
			Silent: true,
			Flags:  []wire.Flag{wire.Seen}, HasUnchangedSince: true, UnchangedSince: 5}, true, nil)
		if err != nil || m.String() != "2" {
			t.Error(m, err)
		}
		e, err := c.Search(&wire.Search{Extended: true, Return: wire.ReturnAll | wire.ReturnCount,
			Key: wire.SearchKey{Op: wire.OpUID, Target: wire.Target{Set: wire.Set{{Start: 1}}}}}, true)
		if err != nil || e.Count != 3 || e.All.String() != "1:3" {
			t.Error(e, err)
		}
		e, err = c.Search(&wire.Search{Key: wire.SearchKey{Op: wire.OpFlag, Text: "x"}}, false)
		if err != nil || e.Count != 3 || e.All.String() != "2:4" {
			t.Error(e, err)
		}
		k, err := c.Copy(wire.Target{Saved: true}, false, "Trash")
		if err != nil || k.UIDValidity != 9 || k.Source.String() != "1:2" || k.Target.String() != "5:6" {
			t.Error(k, err)
		}
		if k, err = c.Move(one, true, "Trash"); err != nil || k.Target.String() != "7" {
			t.Error(k, err)
		}
		check(t, c.Expunge(&wire.Target{Set: wire.Set{{Start: 2, Stop: 2}}}))
		var refusal *StatusError
		if err := c.Create("x", `\Sent`); !errors.As(err, &refusal) || refusal.Code.Name != "ALREADYEXISTS" {
			t.Error(err)
		}
		var names []string
		check(t, c.List(&wire.List{Extended: true, Patterns: []string{"*"}, Return: wire.ListChildren},
			func(d *wire.ListData) { names = append(names, d.Mailbox) }, nil))
		if len(names) != 1 || names[0] != "INBOX" {
			t.Error(names)
		}
	})
}

func TestAppend(t *testing.T) {
	t.Parallel()
	date := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	script(t, Options{}, `
		S: * OK [CAPABILITY IMAP4rev1] hello
		C: A1 APPEND x (\Seen) " 2-Jan-2020 03:04:05 +0000" {5}
		S: + go
		C: hello
		S: A1 OK [APPENDUID 3 7] done
		C: A2 APPEND x {5}
		S: A2 NO [TRYCREATE] none
		C: A3 CAPABILITY
		S: * CAPABILITY LITERAL+
		S: A3 OK done
		C: A4 APPEND x {5+}
		C: hello
		S: A4 OK done
	`, func(c *Client) {
		k, err := c.Append("x", []wire.Flag{wire.Seen}, date, strings.NewReader("hello"), 5)
		if err != nil || k.UIDValidity != 3 || k.Target.String() != "7" {
			t.Error(k, err)
		}
		var e *StatusError
		if _, err := c.Append("x", nil, time.Time{}, strings.NewReader("hello"), 5); !errors.As(err, &e) ||
			e.Code.Name != "TRYCREATE" {
			t.Error(err)
		}
		_, err = c.Capability()
		check(t, err)
		_, err = c.Append("x", nil, time.Time{}, strings.NewReader("hello"), 5)
		check(t, err)
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()
	script(t, Options{}, `
		S: * OK hello
		C: A1 IDLE
		S: + idling
		S: * 5 EXISTS
		C: DONE
		S: A1 OK done
		C: A2 IDLE
		S: + idling
		C: DONE
		S: A2 OK done
	`, func(c *Client) {
		var n uint32
		check(t, c.Idle(func(r *wire.Response) bool { n = r.Number; return false }))
		if n != 5 {
			t.Error(n)
		}
		ended := make(chan error)
		go func() { ended <- c.Idle(nil) }()
		for stopping := true; stopping; {
			check(t, c.StopIdle())
			select {
			case err := <-ended:
				check(t, err)
				stopping = false
			default:
			}
		}
	})
}

func TestRaw(t *testing.T) {
	t.Parallel()
	script(t, Options{}, `
		S: * OK hello
		C: x NOOP
		S: * 1 EXISTS
		S: * what (is this
		S: x OK done
		C: y LOGIN {1}
		S: + go
		C: a b
		S: y OK in
		C: z
		S: * BAD no
		C: q LOGOUT
		S: * BYE gone
	`, func(c *Client) {
		raw := func(line string) (out []string) {
			all, err := c.Raw(line)
			for _, r := range all {
				out = append(out, r.Raw)
			}
			if err != nil {
				out = append(out, "error")
			}
			return out
		}
		for _, s := range [][]string{
			{"x NOOP", "* 1 EXISTS", "* what (is this", "x OK done"}, {"y LOGIN {1}", "+ go"}, {"a b", "y OK in"},
			{"z", "* BAD no"}, {"q LOGOUT", "* BYE gone", "error"},
		} {
			if got := raw(s[0]); !reflect.DeepEqual(got, s[1:]) {
				t.Errorf("%q: %q", s[0], got)
			}
		}
	})
}

func TestGreetingBye(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	go func() {
		io.WriteString(server, "* BYE full\r\n")
		server.Close()
	}()
	var e *StatusError
	if _, err := New(client, Options{}); !errors.As(err, &e) || e.Status != wire.BYE {
		t.Error(err)
	}
}
