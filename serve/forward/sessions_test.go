package forward

import (
	"context"
	"errors"
	"testing"

	"doublet/directory/session"
	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// TestSessions checks that questions about sessions and used codes are sent over the bus.
func TestSessions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	front, home := servers(t)
	if told := front.Sessions().Ask(ctx, note.UNID{1}); told.Ended || !told.Session.ID.IsZero() {
		t.Errorf("a mate that is starting says %+v", told)
	}
	services := []*session.Service{}
	for _, s := range []*server{front, home} {
		fix := env.Test(t)
		st, err := store.Open(fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
			Indexes: session.Indexes()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		if _, err := st.CreateDatabase(note.System, session.Shared()); err != nil {
			t.Fatal(err)
		}
		x, err := session.Open(st, fix.Env, []byte("key"), session.Options{Mates: s.Sessions()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(x.Close)
		ServeSessions(s.wire, x)
		services = append(services, x)
	}
	token, s, err := services[1].Begin(ctx, session.Session{Person: anna.Who.Person, PasswordID: "p", Second: true,
		Agent: "browser"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := services[0].Find(ctx, token, "192.0.2.1")
	if err != nil || got != s {
		t.Errorf("%+v, %v; begun was %+v", got, err, s)
	}
	if err := services[1].End(ctx, s.Person, s.ID); err != nil {
		t.Fatal(err)
	}
	if told := front.Sessions().Ask(ctx, s.ID); !told.Ended {
		t.Errorf("of one that is ended it says %+v", told)
	}
	for i, want := range []bool{true, false} {
		if fresh, err := services[i].UseCode(ctx, anna.Who.Person, 7); err != nil || fresh != want {
			t.Errorf("%d: %v, %v", i, fresh, err)
		}
	}
	// The home counts guesses from all members.
	g := session.Guess{Person: anna.Who.Person, PasswordID: "p", Address: "192.0.2.1"}
	refused := false
	for i := range 6 {
		out, err := services[i%2].Guess(ctx, g)
		if err != nil {
			t.Fatal(err)
		}
		refused = out.ID.IsZero() && !out.After.IsZero()
	}
	if !refused {
		t.Error("two members count guesses each for itself")
	}
	home.place.none.Store(true)
	front.place.none.Store(true)
	_, err = services[0].Find(ctx, token, "192.0.2.1")
	if err != nil && !errors.Is(err, session.ErrNone) {
		t.Error(err)
	}
	if fresh, err := services[0].UseCode(ctx, anna.Who.Person, 8); err != nil || !fresh {
		t.Errorf("with no home: %v, %v", fresh, err)
	}
	here := sessionsHere{services[1]}
	for _, bad := range [][]byte{nil, {1, 2}} {
		if _, err := here.answerFind(ctx, note.UNID{1}, bad); err == nil {
			t.Error("no id was taken for one")
		}
		if _, err := here.answerCode(ctx, note.UNID{1}, bad); err == nil {
			t.Error("no code was taken for one")
		}
	}
}
