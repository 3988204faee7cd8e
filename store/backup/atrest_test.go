package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"doublet/env"
	"doublet/store"
	"doublet/store/blob"
	"doublet/store/crypt"

	"filippo.io/age"
)

// atRest returns an environment in which the store in a data folder is encrypted with the keys of a file beside it. It
// makes a key if there is none.
func atRest(t *testing.T, e *env.Env, data string) (*env.Env, *crypt.FS) {
	t.Helper()
	keys := data + ".keys"
	if _, err := e.FS.Stat(keys); err != nil {
		line, err := crypt.NewKey(e)
		if err == nil {
			err = writeFile(e.FS, keys, []byte(line))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	at := store.PlacesOf(e.FS, data, storeOptions())
	scratch := e.FS.PathJoin(data, ScratchName)
	files, err := crypt.Open(e, crypt.Options{Dir: data, Folders: []string{at.Index, at.Segments, at.Log, scratch},
		Transient: []string{scratch}, KeyFile: keys})
	if err != nil {
		t.Fatal(err)
	}
	inside := *e
	inside.FS = files
	return &inside, files
}

// plainBytes counts the messages of the model that can be read in the files of a folder.
func plainBytes(t *testing.T, e *env.Env, dir string) (n int) {
	t.Helper()
	names, err := e.FS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := e.FS.PathJoin(dir, name)
		info, err := e.FS.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			n += plainBytes(t, e, path)
			continue
		}
		f, err := e.FS.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(b, []byte(sender))
	}
	return n
}

// TestMomentsAtRest restores moments of a store that is encrypted at rest, from an archive that is encrypted, too:
// before and after both keys were changed, into a store with a key of its own, and into one without encryption. With a
// wrong key nothing is restored, and the error says which key is missing.
func TestMomentsAtRest(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := env.Test(t)
	disk := *f.Env
	var files *crypt.FS
	f.Env, files = atRest(t, &disk, "data")
	var ids []string
	var keys []blob.Keys // that encrypt
	for range 2 {
		id, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		to, err := blob.ParseKeys(id.Recipient().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		ids, keys = append(ids, id.String()), append(keys, to)
	}
	identity := func(text ...string) blob.Keys {
		t.Helper()
		k, err := blob.ParseKeys("", strings.NewReader(strings.Join(text, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	both := identity(ids...)
	r := newRecordedOn(t, f, 80, archivedOptions(), "backup", keys[0], both)
	run := func() {
		for range 15 {
			r.second()
			r.turn()
		}
		r.tidy()
	}
	r.turn()
	r.base()
	run()
	old := r.times[len(r.times)-1]
	if _, err := files.Rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Rewrite(ctx, nil); err != nil {
		t.Fatal(err)
	}
	run() // to the old recipient
	// As after a restart with another data.backup_recipient.
	r.to, r.o.Keys = keys[1], keys[1]
	r.open()
	run() // from the old backup
	between := r.times[len(r.times)-1]
	r.base()
	run()
	late := r.times[len(r.times)-1]
	r.end()
	if list := r.moments(); len(list) != 1 {
		t.Errorf("the archive has gaps: %v", list)
	}
	restore := func(e *env.Env, dir string, d doneAt, k blob.Keys) error {
		_, err := Restore(ctx, e, "backup", dir, RestoreOptions{Options: Options{Keys: k}, To: d.at,
			Store: storeOptions()})
		return err
	}
	for i, d := range []doneAt{old, between, late} {
		dir := fmt.Sprint("sealed", i)
		e, again := atRest(t, &disk, dir)
		if err := restore(e, dir, d, both); err != nil {
			t.Fatal(err)
		}
		if _, err := again.Rotate(); err != nil {
			t.Fatal(err)
		}
		r.compare(e, dir, d.n, d.n)
		if n := plainBytes(t, &disk, dir); n > 0 {
			t.Errorf("%d messages can be read in %s", n, dir)
		}
	}
	if err := restore(&disk, "plain", late, both); err != nil {
		t.Fatal(err)
	}
	if n := plainBytes(t, &disk, "plain"); n == 0 {
		t.Error("without encryption no message can be read: the test looks for the wrong text")
	}
	if n := plainBytes(t, &disk, "data") + plainBytes(t, &disk, "backup"); n > 0 {
		t.Errorf("%d messages can be read in the store and its backup", n)
	}

	// The identity of the old recipient is enough for what was written with it, and no more.
	for name, x := range map[string]struct {
		d   doneAt
		k   blob.Keys
		bad bool
	}{
		"old, old identity": {old, identity(ids[0]), false}, "late, new identity": {late, identity(ids[1]), false},
		"old, new identity": {old, identity(ids[1]), true}, "between, new identity": {between, identity(ids[1]), true},
		"between, old identity": {between, identity(ids[0]), true},
		"late, old identity":    {late, identity(ids[0]), true},
		"late, none":            {late, blob.Keys{}, true},
	} {
		dir := strings.NewReplacer(" ", "", ",", "-").Replace(name)
		err := restore(&disk, dir, x.d, x.k)
		if x.bad && !errors.Is(err, blob.ErrSealed) || !x.bad && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			r.compare(&disk, dir, x.d.n, x.d.n)
		}
	}

	// A moment of the running store is made in the folder for it, encrypted with the store's key.
	s, _, release, err := OpenMoment(ctx, f.Env, "backup", both, r.s, old.at, storeOptions(), func(Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	r.compareNotes(s, old.n, old.n)
	if n := plainBytes(t, &disk, "data"); n > 0 {
		t.Errorf("%d messages can be read in the moment", n)
	}
	if err := errors.Join(release(), r.s.Close()); err != nil {
		t.Fatal(err)
	}

	// Another key of the store.
	if err := disk.FS.Rename("sealed1.keys", "sealed0.keys"); err != nil {
		t.Fatal(err)
	}
	if _, err := crypt.Open(&disk, crypt.Options{Dir: "sealed0", Folders: []string{"sealed0/notes"},
		KeyFile: "sealed0.keys"}); !errors.Is(err, crypt.ErrNoKey) || !strings.Contains(err.Error(), "sealed0") {
		t.Errorf("with the key of another store: %v", err)
	}
}
