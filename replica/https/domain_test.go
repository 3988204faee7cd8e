package https

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
	"doublet/store/layout"
)

// enter creates or changes an entry of the directory, or removes it if text is empty.
func (x *server) enter(id byte, text string) {
	x.t.Helper()
	u := note.UNID{id}
	x.must(x.s.Update(context.Background(), note.System, []note.DatabaseID{directory.ID}, func(tx *store.Tx) error {
		w, err := tx.Database(directory.ID)
		if err != nil {
			return err
		}
		content := note.Content{Items: note.MakeItems(note.Item{Name: "Text", Value: note.Text(text)})}
		n, err := w.Find(u)
		switch {
		case errors.Is(err, store.ErrNotFound):
			_, err = w.Create(store.New{UNID: u, Content: content})
		case err != nil:
		case text == "":
			err = w.Destroy(n)
		default:
			err = w.Rewrite(n, content)
		}
		return err
	}))
}

func (x *server) entries() string {
	x.t.Helper()
	var out []string
	x.must(x.s.Read(context.Background(), note.System, directory.ID, func(r *store.Reader) error {
		var ids []note.ID
		if err := r.Notes(0, func(id note.ID, _ *layout.Note) bool { ids = append(ids, id); return true }); err != nil {
			return err
		}
		for _, id := range ids {
			row, err := r.Note(id)
			if err != nil {
				return err
			}
			c, err := r.Content(id)
			if err != nil {
				return err
			}
			out = append(out, fmt.Sprintf("%d=%s", row.UNID[0], c.Content.Items.Get("Text").AsText()))
		}
		return nil
	}))
	slices.Sort(out)
	return strings.Join(out, " ")
}

// TestDirectory checks that the directory is replicated with servers of the domain and with nobody else, and that both
// replicas become equal. It includes cases in which one or both are replicas of a cluster, whose ledgers are unrelated,
// and in which the local one is not the primary.
func TestDirectory(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ here, there, follows bool }{{}, {there: true}, {here: true}, {here: true, there: true},
		{here: true, there: true, follows: true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			there, here := newServer(t, uint64(100+2*i), Options{}), newServer(t, uint64(101+2*i), Options{})
			there.people["admin:x"] = Identity{Who: note.Who{Person: note.UNID{9},
				Roles: []string{directory.RoleAdmin}}, Name: "Admin"}
			there.people["mate:x"] = Identity{Who: note.System, Name: "two", Server: note.UNID{2}}
			_, err := there.s.CreateDatabase(note.System, store.Create{ID: directory.ID, Title: "Directory",
				Kind: directory.Kind})
			there.must(err)
			there.enter(1, "one")
			there.enter(2, "two")
			job := func(user string, domain bool) error {
				j := &Job{Client: there.client(user, "x"), Service: here.svc, Store: here.s,
					Databases: []string{directory.ID.String()}, Domain: domain}
				_, out, err := j.Run(context.Background())
				for _, o := range out {
					err = errors.Join(err, o.Err)
				}
				return err
			}
			if err := job("admin", true); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("an administrator, who is no server, gets the directory: %v", err)
			}
			if err := job("mate", false); !errors.Is(err, replica.ErrLocalOnly) {
				t.Errorf("a connection to another domain brings the directory: %v", err)
			}
			here.must(job("mate", true))
			for _, x := range []struct {
				s      *server
				shared bool
			}{{here, c.here}, {there, c.there}} {
				if x.shared {
					x.s.must(x.s.s.Share(context.Background(), directory.ID, 0))
				}
			}
			if c.follows {
				here.must(here.s.Follow(context.Background(), directory.ID))
			}
			same := func(want string) {
				t.Helper()
				here.must(job("mate", true))
				if a, b := here.entries(), there.entries(); a != b || a != want {
					t.Errorf("here %s, there %s, want %s", a, b, want)
				}
			}
			same("1=one 2=two")
			here.enter(3, "three")
			there.enter(4, "four")
			here.enter(1, "uno")
			there.enter(2, "due")
			same("1=uno 2=due 3=three 4=four")
			there.enter(3, "")
			there.enter(5, "five")
			same("1=uno 2=due 4=four 5=five")
			if !c.follows { // only the home deletes for good
				here.enter(4, "")
				same("1=uno 2=due 5=five")
			}
			same(here.entries())
		})
	}
}

// TestFreeTime checks that questions about free time are answered for servers of the domain alone: they name the person
// who asks.
func TestFreeTime(t *testing.T) {
	t.Parallel()
	x := newServer(t, 120, Options{Busy: func(_ context.Context, question []byte) ([]byte, error) {
		if string(question) != "when?" {
			return nil, replica.ErrFormat
		}
		return []byte("now"), nil
	}})
	x.people["admin:x"] = Identity{Who: note.Who{Person: note.UNID{9}, Roles: []string{directory.RoleAdmin}}}
	x.people["mate:x"] = Identity{Who: note.System, Name: "two", Server: note.UNID{2}}
	ask := func(user, question string) (string, error) {
		out, err := x.client(user, "x").Busy(context.Background(), []byte(question))
		return string(out), err
	}
	if got, err := ask("mate", "when?"); err != nil || got != "now" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := ask("admin", "when?"); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a person: %q %v", got, err)
	}
	if got, err := ask("mate", "what?"); !errors.Is(err, replica.ErrFormat) {
		t.Errorf("a bad question: %q %v", got, err)
	}
	if got, err := ask("mate", strings.Repeat("x", maxBusyQuestion+1)); !errors.Is(err, replica.ErrTooLarge) {
		t.Errorf("a question of %d bytes: %q %v", maxBusyQuestion+1, got, err)
	}
}
