package transfer

import (
	"context"
	"errors"
	"slices"
	"testing"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// mailFiles creates mail files with the standard folders.
type mailFiles struct{ s *store.Store }

func (mailFiles) Elsewhere(note.DatabaseID) bool { return false }

func (m mailFiles) MakeMailFile(ctx context.Context, f directory.MailFile) error {
	_, err := m.s.CreateDatabase(note.System, store.Create{
		ID: f.ID, Title: f.Title, Kind: mailbox.Kind, Owner: f.Owner,
		ACL: note.ACL{}.With(note.Entry{ID: f.Owner, Level: note.Manager}),
	})
	if errors.Is(err, store.ErrExists) {
		return nil
	}
	if err != nil {
		return err
	}
	return m.s.Update(ctx, note.System, []note.DatabaseID{f.ID}, func(tx *store.Tx) error {
		w, err := tx.Database(f.ID)
		if err != nil {
			return err
		}
		return mailbox.CreateStandard(w, f.Owner)
	})
}

func (m mailFiles) RemoveMailFile(_ context.Context, id note.DatabaseID) error {
	return m.s.RemoveDatabase(note.System, id)
}

// newService returns a service over an empty store in memory.
func newService(t *testing.T) *Service {
	t.Helper()
	f := env.TestRealTime(t)
	f.Rand = env.Seeded(1)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: slices.Concat(directory.Indexes())})
	if err != nil {
		t.Fatal(err)
	}
	d, err := directory.Open(s, f.Env, password.New(f.Env, 2, 100),
		directory.Options{Domain: "example.com", MailFiles: mailFiles{s}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(f.Env, s, d, mailbox.New(s, f.Env, mailbox.Options{}))
}

// job returns a job of the server's administrator.
func (s *Service) job() *Job { return s.Job(note.System, func(Progress) {}) }

// must returns a function that returns the result of a call, which has to succeed.
func must[R any](t *testing.T) func(R, error) R {
	return func(r R, err error) R {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// add adds a person with a short name and a password.
func add(t *testing.T, s *Service, name, short string, also ...string) directory.Person {
	t.Helper()
	return must[directory.Person](t)(s.directory.People.Add(context.Background(), note.System, directory.PersonSpec{
		PersonFields: directory.PersonFields{FullName: []string{name}, ShortName: short, MailAddress: also},
		Password:     "secret",
	}))
}

// named returns a person.
func named(t *testing.T, s *Service, name string) directory.Person {
	t.Helper()
	return must[directory.Person](t)(s.directory.Names.PersonNamed(context.Background(), name))
}

func writeFile(t *testing.T, s *Service, path, text string) {
	t.Helper()
	if err := s.env.FS.MkdirAll(s.env.FS.PathDir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := s.env.FS.Create(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
