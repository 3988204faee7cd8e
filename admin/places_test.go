package admin

import (
	"context"
	"errors"
	"testing"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
)

// TestServerRemove checks that the key of a removed server is not trusted until the removal is undone. The first server
// and this server cannot be removed.
func TestServerRemove(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	for i, name := range []string{"one", "two", "three"} {
		id := note.UNID{byte(i + 1)}
		if _, err := s.Directory.Servers.Enter(ctx, note.System, id,
			directory.ServerFields{Name: name, Key: bus.Key{byte(i + 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	s.Directory.Servers.UseServer(note.UNID{2})
	if err := s.Directory.Servers.FoundDomain(ctx, note.System, note.UNID{1}); err != nil {
		t.Fatal(err)
	}
	known := func() bool {
		t.Helper()
		_, ok, err := s.Directory.Servers.ByKey(ctx, bus.Key{3})
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for _, name := range []string{"one", "two"} { // the first, and this one
		if _, err := verb[Done](t, s, "server remove", `{"name":"`+name+`"}`); !errors.Is(err, ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !known() {
		t.Fatal("three is not known")
	}
	if _, err := verb[Done](t, s, "server remove", `{"name":"three"}`); err != nil || known() {
		t.Error("it is believed still: ", err)
	}
	if away, err := s.Directory.Servers.Away(ctx, note.UNID{3}); err != nil || !away {
		t.Error("its mail files became this server's: ", err)
	}
	if _, err := verb[Done](t, s, "server undo", `{"name":"three"}`); err != nil || !known() {
		t.Error("it is not brought back: ", err)
	}
}
