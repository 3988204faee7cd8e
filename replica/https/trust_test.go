package https

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/mail/junk"
	"doublet/mail/keep"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// TestOtherId checks a server that reports, for its database, the id of another local database. Nothing is sent from
// that database or written to it, unless the job names the id.
func TestOtherId(t *testing.T) {
	t.Parallel()
	here, evil := newServer(t, 1, Options{}), newServer(t, 2, Options{})
	private, err := here.mail.Make(context.Background(), note.UNID{7}, "Mail of the boss", 0, 0)
	here.must(err)
	hers := note.ACL{}.With(note.Entry{ID: ada.Who.Person, Level: note.Manager})
	_, err = evil.s.CreateDatabase(note.System, store.Create{ID: private, Title: "Plans", Kind: mailbox.Kind,
		Owner: ada.Who.Person, ACL: hers})
	evil.must(err)
	_, err = evil.s.CreateDatabase(note.System, store.Create{ID: session.SharedID, Title: "Sessions",
		Kind: mailbox.Kind, ACL: hers})
	evil.must(err)
	_, err = here.s.CreateDatabase(note.System, session.Shared())
	here.must(err)
	me := ada
	me.Mail = private
	evil.people["ada:secret"] = me
	for _, c := range []struct {
		names []string
		want  error
	}{
		{[]string{"Plans"}, store.ErrDenied},
		{nil, store.ErrDenied}, // the mail file of the signed-in person
		{[]string{private.String()}, nil},
		{[]string{"Sessions"}, replica.ErrLocalOnly},
		{[]string{session.SharedID.String()}, replica.ErrLocalOnly},
	} {
		j := &Job{Client: evil.client("ada", "secret"), Service: here.svc, Store: here.s, Databases: c.names}
		_, out, err := j.Run(context.Background())
		here.must(err)
		if len(out) != 1 || !errors.Is(out[0].Err, c.want) || out[0].Err != nil &&
			out[0].In.Looked+out[0].Out.Looked != 0 {
			t.Errorf("%q: %+v", c.names, out)
		}
		if c.want == store.ErrDenied && !strings.Contains(out[0].Err.Error(), private.String()) {
			t.Errorf("%q: it does not say which id to name: %v", c.names, out[0].Err)
		}
	}
}

// TestOwnKinds checks that a server's own databases are not replicated in this way, not even with servers of the
// domain.
func TestOwnKinds(t *testing.T) {
	t.Parallel()
	x := newServer(t, 1, Options{})
	x.people["mate:x"] = Identity{Who: note.System, Name: "two", Server: note.UNID{2}}
	c := x.client("mate", "x")
	ctx := context.Background()
	for i, kind := range []string{replica.Kind, session.Kind, queue.Kind, trace.TraceKind, queue.OutboxKind,
		queue.DeferredKind, keep.Kind, junk.Kind, "cldbdir", directory.Kind} {
		id, err := x.s.CreateDatabase(note.System, store.Create{ID: note.DatabaseID(1000 + i), Title: kind, Kind: kind})
		x.must(err)
		if _, err := c.Side().Hello(ctx, id, replica.Peer{}); !errors.Is(err, replica.ErrLocalOnly) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	a, err := c.Account(ctx)
	if err != nil || len(a.Databases) != 0 {
		t.Errorf("%+v %v", a, err)
	}
}

// TestAudit checks that an act of a server of the domain is reported once, with its address, and that a rejected
// request is reported too.
func TestAudit(t *testing.T) {
	t.Parallel()
	var told []Act
	x := newServer(t, 1, Options{Audit: func(a Act) { told = append(told, a) }})
	db := x.ada()
	ctx := context.Background()
	x.people["mate:x"] = Identity{Who: note.System, Name: "two", Server: note.UNID{2}}
	x.people["root:x"] = Identity{Who: note.Who{Person: note.UNID{3}, Roles: []string{directory.RoleAdmin}},
		Name: "Root"}
	for range 3 {
		for _, user := range []string{"mate", "root", "ada"} {
			c := x.client(user, map[string]string{"ada": "secret"}[user]+map[string]string{"mate": "x",
				"root": "x"}[user])
			_, _ = c.Account(ctx)
			_, _ = c.Side().Hello(ctx, db, replica.Peer{})
		}
		_, _ = x.client("eve", "x").Account(ctx)
	}
	var lines []string
	for _, a := range told {
		text := a.Verb + " by " + a.By + " on " + a.On
		if a.Err != nil {
			text += " refused"
		}
		if a.From != "127.0.0.1" {
			t.Errorf("%s: from %q", text, a.From)
		}
		lines = append(lines, text)
	}
	want := []string{
		"replica list by two on ", "replica open by two on Mail of Ada", "replica open by Root on " + db.String() +
			" refused", "replica sign-in by eve on  refused",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestAuditBounded checks that a client that is rejected again and again, with new names and keys, cannot flood the
// log.
func TestAuditBounded(t *testing.T) {
	t.Parallel()
	var told []Act
	x := newServer(t, 1, Options{Audit: func(a Act) { told = append(told, a) }})
	now := env.Test(t)
	x.h.audit.env = now.Env
	try := func(n int) {
		t.Helper()
		for i := range n {
			x.h.audit.stranger(httptest.NewRequest(http.MethodGet, Path, nil), fmt.Errorf("refused %d", i))
			r := httptest.NewRequest(http.MethodGet, Path, nil)
			r.SetBasicAuth(fmt.Sprint("eve", i), "x")
			x.h.audit.stranger(r, replica.ErrBusy)
		}
	}
	try(500)
	if len(told) != refusedLines {
		t.Errorf("%d lines of one address", len(told))
	}
	now.Time.Advance(refusedEvery)
	told = nil
	try(1)
	if len(told) != 2 || told[0].More != 501-refusedLines {
		t.Errorf("%+v", told)
	}
	r := httptest.NewRequest(http.MethodGet, Path, nil)
	r.RemoteAddr = "198.51.100.9:1"
	told = nil
	if x.h.audit.stranger(r, replica.ErrBusy); len(told) != 1 {
		t.Error("another address is not told of")
	}
}

// TestAuditBoundedByNetwork checks that a client that uses a new address of its /64 for each request cannot flood the
// log, and that other networks are still reported.
func TestAuditBoundedByNetwork(t *testing.T) {
	t.Parallel()
	var told []Act
	x := newServer(t, 1, Options{Audit: func(a Act) { told = append(told, a) }})
	x.h.audit.env = env.Test(t).Env
	try := func(address string) {
		r := httptest.NewRequest(http.MethodGet, Path, nil)
		r.RemoteAddr = address
		x.h.audit.stranger(r, replica.ErrBusy)
	}
	for i := range 500 {
		try(fmt.Sprintf("[2001:db8::%x]:1", i+1))
	}
	if len(told) != refusedLines || told[1].From != "2001:db8::2" {
		t.Errorf("%d lines of one network", len(told))
	}
	told = nil
	try("[2001:db8:0:1::1]:1")
	if len(told) != 1 {
		t.Error("another network is not reported")
	}
}

// TestJoiners checks that clients of one address do not block others from joining.
func TestJoiners(t *testing.T) {
	t.Parallel()
	var j joiners
	for range joinsOfOne {
		if !j.enter("192.0.2.1") {
			t.Error("refused too early")
		}
	}
	if j.enter("192.0.2.1") || !j.enter("192.0.2.2") {
		t.Error("the bound of one address")
	}
	for range joinsOfOne {
		j.leave("192.0.2.1")
	}
	j.leave("192.0.2.2")
	n := 0
	for i := range 2 * joins {
		if j.enter(fmt.Sprint(i)) {
			n++
		}
	}
	if n != joins {
		t.Errorf("%d at one time", n)
	}
	r := httptest.NewRequest(http.MethodPost, Path, nil)
	for addr, want := range map[string]string{"192.0.2.1:9": "192.0.2.1", "[2001:db8::1:2:3:4]:9": "2001:db8::/64",
		"[::ffff:192.0.2.1]:9": "192.0.2.1", "@": "@"} {
		if r.RemoteAddr = addr; network(r) != want {
			t.Errorf("%s is counted as %s", addr, network(r))
		}
	}
}
