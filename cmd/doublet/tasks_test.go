package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"doublet/admin"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/crypt"
	"doublet/task"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestVerbTask checks that a run whose verb reports a problem has failed and shows the report, and that one without has
// not.
func TestVerbTask(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s := task.New(f.Env, task.Plan{}, stat.New(f.Clock))
	defer func() { _ = s.Stop(context.Background()) }()
	s.Start(task.Task{Name: "Fixup", When: task.Never, Run: verbTask(func(_ context.Context, verb string,
		words []string, progress func(admin.Progress)) (admin.Output, error) {
		progress(admin.Progress{Stage: "database"})
		if verb != "check" || !slices.Equal(words, []string{"--repair", "ada"}) {
			t.Errorf("%s %q", verb, words)
		}
		return admin.Output{Output: "3 findings\n", Failed: true}, nil
	}, "check", "--repair")})
	s.Start(task.Task{Name: "UpdAll", When: task.Never, Run: verbTask(func(context.Context, string, []string,
		func(admin.Progress)) (admin.Output, error) {
		return admin.Output{Output: "clean\n"}, nil
	}, "updall")})
	for _, err := range []error{s.Load("fixup", []string{"ada"}), s.Load("updall", nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ended := func() bool {
		return !slices.ContainsFunc(s.Status(), func(x admin.Task) bool { return x.Runs != 1 || x.State != "idle" })
	}
	for by := time.Now().Add(time.Minute); !ended(); { // the states change on the tasks' own goroutines
		if time.Now().After(by) {
			t.Fatalf("%+v", s.Status())
		}
	}
	if x := s.Status()[0]; x.Failed != 1 || x.Error != "check reports a problem" || x.Progress != "3 findings" {
		t.Errorf("%+v", x)
	}
	if x := s.Status()[1]; x.Failed != 0 || x.Error != "" || x.Progress != "clean" {
		t.Errorf("%+v", x)
	}
}

// TestEncryptionTask gives a database a key of its own after the start, below the floor of free space. The task
// reports that it could not encrypt it, and encrypts the files of the server all the same.
func TestEncryptionTask(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	ctx, must := context.Background(), func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		h, err := f.FS.Create(name, vfs.WriteCategoryUnspecified)
		must(err)
		_, err = h.Write([]byte(text))
		must(errors.Join(err, h.Close()))
	}
	line, err := crypt.NewKey(f.Env)
	must(err)
	write("/key", line)
	must(f.FS.MkdirAll("/data", 0o700))
	must(f.FS.MkdirAll("/files", 0o700))
	write("/files/plain", "Lovelace")
	s, err := store.Open(f.Env, "/store", store.Options{FloorBytes: -1, Ballast: -1})
	must(err)
	db, err := s.CreateDatabase(note.System, store.Create{Title: "ada", Kind: "mail"})
	must(err)
	must(s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		w, err := tx.Database(db)
		for range 3 {
			if err == nil {
				_, err = w.Create(store.New{})
			}
		}
		return err
	}))
	must(s.Close())
	f.Faults.SetSpace(1 << 40)
	s, err = store.Open(f.Env, "/store", store.Options{FloorBytes: 1 << 50, Ballast: -1})
	must(err)
	defer s.Close()
	encrypted, err := crypt.Open(f.Env, crypt.Options{Dir: "/data", Folders: []string{"/files"}, KeyFile: "/key"})
	must(err)
	tasks := task.New(f.Env, task.Plan{}, stat.New(f.Clock))
	defer func() { _ = tasks.Stop(ctx) }()
	h := &server{house: &house{env: f.Env, system: &admin.System{Store: s}}}
	h.startEncryption(tasks)
	ran := func(times uint64) (x admin.Task) {
		t.Helper()
		for by := time.Now().Add(time.Minute); x.Runs != times || x.State != "idle"; { // on the task's own goroutine
			if time.Now().After(by) || len(tasks.Status()) == 0 {
				t.Fatalf("%+v", tasks.Status())
			}
			x = tasks.Status()[0]
		}
		return x
	}
	ran(1)
	h.system.Encryption = encrypted
	must(s.SetKey(db, "/key"))
	must(tasks.Load("Encryption", nil))
	if x := ran(2); x.Failed != 1 {
		t.Errorf("the task does not report the failure: %+v", x)
	}
	file, err := f.FS.Open("/files/plain")
	must(err)
	defer file.Close()
	b := make([]byte, 10_000)
	if n, _ := file.ReadAt(b, 0); n == 0 || bytes.Contains(b, []byte("Lovelace")) {
		t.Errorf("the file of %d bytes is not encrypted", n)
	}
}
