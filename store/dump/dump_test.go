package dump_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/crypt"
	"doublet/store/dump"
	"doublet/store/layout"
	"doublet/store/view"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

var update = flag.Bool("update", false, "write the golden files anew")

const definition = `{"name":"Subjects","columns":[{"item":"Cat","category":true},{"item":"Subject","sort":"asc"},` +
	`{"item":"N","total":"sum"}]}`

type fixture struct {
	env          *env.Env
	s            *store.Store
	db           note.DatabaseID
	folder, doc  note.ID
	design, mail note.ID
}

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func build(t *testing.T) *fixture {
	t.Helper()
	ctx := context.Background()
	e := env.Test(t).Env
	s, err := store.Open(e, "/data", store.Options{FloorBytes: -1, Ballast: -1, Indexes: []store.Index{{
		Number: 3, Kind: "docs", Keys: func(_ note.Class, c *note.Content) [][]byte {
			return [][]byte{[]byte("n:" + c.Items.Get("Subject").AsText())}
		}}}})
	f := &fixture{env: e, s: must(t, s, err)}
	t.Cleanup(func() { _ = s.Close() })
	alice := note.UNID{0xA1}
	id, err := s.CreateDatabase(note.System, store.Create{ID: 0x1234, Title: "Some docs", Kind: "docs", Owner: alice,
		ACL: note.ACL{Default: note.Reader,
			Entries: []note.Entry{{ID: alice, Level: note.Manager, Minus: note.Expunge}}}})
	f.db = must(t, id, err)
	obj, err := s.Attach(ctx, bytes.Repeat([]byte("attached "), 100))
	must(t, obj, err)
	defer obj.Release()
	msg, err := s.Prepare(ctx, []byte("Subject: hi\r\n\r\nbody\r\n"), nil)
	must(t, msg, err)
	defer msg.Release()
	err = s.Update(ctx, note.System, []note.DatabaseID{f.db}, func(tx *store.Tx) error {
		w, err := tx.Database(f.db)
		if err != nil {
			return err
		}
		w.Keep(obj)
		if f.folder, err = w.CreateFolder("INBOX", "Inbox"); err != nil {
			return err
		}
		if f.doc, err = w.Create(store.New{Content: note.Content{
			Items: note.MakeItems(note.Item{Name: "Subject", Value: note.Text("a \"b\" <c>")},
				note.Item{Name: "N", Value: note.Int(4)},
				note.Item{Name: "Cat", Value: note.TextList("x", "y")}),
			Attachments: []note.Attachment{{Name: "a file", Type: "text/plain", Digest: obj.Digest, Size: obj.Size}},
		}, Summary: []byte("sum")}); err != nil {
			return err
		}
		if f.design, err = w.Create(store.New{Class: note.Design,
			Content: note.Content{Items: note.MakeItems(note.Item{Name: view.ItemView,
				Value: note.Text(definition)})}}); err != nil {
			return err
		}
		f.mail, err = w.Create(store.New{Message: msg, Date: 1_700_000_000, Thread: note.UNID{7},
			Folders: []note.ID{f.folder}, Keywords: []string{"$Flagged"},
			SeenBy: []note.UNID{alice}, MarkDeleted: true})
		return err
	})
	must(t, 0, err)
	must(t, 0, s.Update(ctx, note.System, []note.DatabaseID{f.db}, func(tx *store.Tx) error {
		w, err := tx.Database(f.db)
		if err != nil {
			return err
		}
		if err := w.Subscribe(f.folder, alice, true); err != nil {
			return err
		}
		id, err := w.Create(store.New{UNID: note.UNID{9}})
		if err != nil {
			return err
		}
		_ = id
		return w.Peers.Set(77, 1)
	}))
	v, err := view.Open(s, f.db, f.design)
	must(t, v, err)
	must(t, 0, v.Refresh(ctx))
	must(t, 0, s.SaveCursor("search", store.Cursor{Incarnation: 5, Seq: 2}))
	return f
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, 0, os.MkdirAll("testdata", 0o755))
		must(t, 0, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s", name, got)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	f := build(t)
	ctx := context.Background()
	for _, x := range []struct {
		name string
		fn   func(b *bytes.Buffer, o dump.Options) error
	}{
		{"database", func(b *bytes.Buffer, o dump.Options) error {
			o.Rows = true
			return dump.Database(b, f.s, f.db, o)
		}},
		{"note", func(b *bytes.Buffer, o dump.Options) error { return dump.Note(b, f.s, f.db, f.mail, o) }},
		{"feed", func(b *bytes.Buffer, o dump.Options) error { return dump.Feed(b, f.s, o) }},
		{"objects", func(b *bytes.Buffer, o dump.Options) error { return dump.Objects(b, f.s, o) }},
		{"view", func(b *bytes.Buffer, o dump.Options) error { return dump.View(ctx, b, f.s, f.db, f.design, o) }},
	} {
		var text, again, js bytes.Buffer
		must(t, 0, x.fn(&text, dump.Options{}))
		must(t, 0, x.fn(&again, dump.Options{}))
		if !bytes.Equal(text.Bytes(), again.Bytes()) {
			t.Errorf("%s: two dumps of one store differ", x.name)
		}
		golden(t, x.name+".txt", text.Bytes())
		must(t, 0, x.fn(&js, dump.Options{JSON: true}))
		golden(t, x.name+".json", js.Bytes())
		for _, line := range bytes.Split(bytes.TrimSpace(js.Bytes()), []byte("\n")) {
			var m map[string]any
			if err := json.Unmarshal(line, &m); err != nil || m["kind"] == nil {
				t.Errorf("%s: %s: %v", x.name, line, err)
			}
		}
	}
}

func TestDamagedRowsAreShown(t *testing.T) {
	t.Parallel()
	f := build(t)
	must(t, 0, f.s.Derive(f.db, func(_ pebble.Reader, num uint32, b *pebble.Batch) error {
		for _, k := range [][]byte{layout.NoteKey(num, layout.KindNote, f.doc),
			layout.NoteKey(num, layout.KindContent, f.mail), layout.Prefix(num, layout.KindCounters)} {
			if err := b.Set(k, []byte{0xFF}, nil); err != nil {
				return err
			}
		}
		return nil
	}))
	var b bytes.Buffer
	must(t, 0, dump.Database(&b, f.s, f.db, dump.Options{}))
	if n := bytes.Count(b.Bytes(), []byte("damaged key=")); n != 3 {
		t.Fatalf("%d damaged rows shown:\n%s", n, b.Bytes())
	}
	if err := dump.Note(&b, f.s, f.db, 999, dump.Options{}); err == nil {
		t.Fatal("a note that is not there was dumped")
	}
	if err := dump.Database(&b, f.s, 999, dump.Options{}); err == nil {
		t.Fatal("a database that is not there was dumped")
	}
}

// TestSealedConflicts prints a note with two conflicts: one is of a key that the database has no more, the other is
// sealed and its key does not open it. The dump goes on, up to the last note.
func TestSealedConflicts(t *testing.T) {
	t.Parallel()
	f := build(t)
	line, err := crypt.NewKey(f.env)
	file, ferr := f.env.FS.Create("own.key", vfs.WriteCategoryUnspecified)
	must(t, 0, errors.Join(err, ferr))
	_, err = file.Write([]byte(line))
	must(t, 0, errors.Join(err, file.Close()))
	ctx := context.Background()
	encrypt := func() { must(t, 0, errors.Join(f.s.SetKey(f.db, "own.key"), f.s.Settle(ctx, f.db, nil))) }
	encrypt()
	var former layout.Sealed
	must(t, 0, f.s.Derive(f.db, func(r pebble.Reader, num uint32, _ *pebble.Batch) error {
		v, closer, err := r.Get(layout.NoteKey(num, layout.KindContent, f.doc))
		if err != nil {
			return err
		}
		former, err = layout.ReadSealed(bytes.Clone(v))
		return errors.Join(err, closer.Close())
	}))
	must(t, 0, errors.Join(f.s.DropKey(f.db), f.s.Settle(ctx, f.db, nil)))
	encrypt()
	must(t, 0, f.s.Derive(f.db, func(r pebble.Reader, num uint32, b *pebble.Batch) error {
		sealed, closer, err := r.Get(layout.NoteKey(num, layout.KindContent, f.doc))
		if err != nil {
			return err
		}
		defer closer.Close()
		leaf := layout.NoteKey(num, layout.KindLeaf, f.doc)
		other := append(layout.AppendSealedHead(nil, f.db, former.Key, nil), make([]byte, layout.SealedNonce)...)
		return errors.Join(b.Set(append(bytes.Clone(leaf), make([]byte, 24)...), sealed, nil),
			b.Set(append(bytes.Clone(leaf), bytes.Repeat([]byte{1}, 24)...), other, nil))
	}))
	var b bytes.Buffer
	must(t, 0, dump.Database(&b, f.s, f.db, dump.Options{}))
	for _, text := range []string{"damaged key=", "conflict locked=", "message digest="} {
		if n := bytes.Count(b.Bytes(), []byte(text)); n == 0 {
			t.Errorf("the dump has no %q:\n%s", text, b.Bytes())
		}
	}
}
