package check_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/crypt"
	"doublet/store/layout"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// world is a store with some rows of every kind.
type world struct {
	t      *testing.T
	f      *env.Fixture
	s      *store.Store
	mail   note.DatabaseID
	docs   note.DatabaseID
	num    uint32 // of the mail database
	dnum   uint32 // of the docs database
	inbox  note.ID
	sent   note.ID
	docIDs []note.ID
	alice  note.UNID
	tier   *store.Tier
	// indexing is called when the keys of a note in the index are asked for. It may be nil.
	indexing func()
}

func subjectIndex() []store.Index {
	return []store.Index{{Number: 7, Kind: "docs", Keys: func(_ note.Class, c *note.Content) [][]byte {
		if s := c.Items.Get("Subject").AsText(); s != "" {
			return [][]byte{[]byte(s)}
		}
		return nil
	}}}
}

func (w *world) open() {
	w.t.Helper()
	indexes := subjectIndex()
	keys := indexes[0].Keys
	indexes[0].Keys = func(class note.Class, c *note.Content) [][]byte {
		if w.indexing != nil {
			w.indexing()
		}
		return keys(class, c)
	}
	s, err := store.Open(w.f.Env, "/data", store.Options{FloorBytes: -1, Ballast: -1, Indexes: indexes,
		Tier: w.tier, OnFatal: func(err error) { w.t.Error(err) }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = s
}

func (w *world) reopen() {
	w.t.Helper()
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

func (w *world) update(id note.DatabaseID, fn func(*store.Writer) error) {
	w.t.Helper()
	err := w.s.Update(context.Background(), note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
		wr, err := tx.Database(id)
		if err != nil {
			return err
		}
		return fn(wr)
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func message(i int, attachment []byte) ([]byte, *mime.Part) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: a@example.com\r\nSubject: mail %d\r\nMIME-Version: 1.0\r\n", i)
	if attachment == nil {
		fmt.Fprintf(&b, "\r\nbody %d\r\n", i)
	} else {
		b.WriteString("Content-Type: multipart/mixed; boundary=bb\r\n\r\n--bb\r\n\r\ntext\r\n--bb\r\n" +
			"Content-Transfer-Encoding: base64\r\n\r\n")
		text := base64.StdEncoding.EncodeToString(attachment)
		for len(text) > 76 {
			b.WriteString(text[:76] + "\r\n")
			text = text[76:]
		}
		b.WriteString(text + "\r\n--bb--\r\n")
	}
	return b.Bytes(), mime.Parse(b.Bytes(), mime.Limits{})
}

func (w *world) deliver(i int, big []byte, folders ...note.ID) note.ID {
	w.t.Helper()
	raw, part := message(i, big)
	m, err := w.s.Prepare(context.Background(), raw, mime.SplitLeaves(raw, part, store.PartSize), w.mail)
	if err != nil {
		w.t.Fatal(err)
	}
	defer m.Release()
	var id note.ID
	w.update(w.mail, func(wr *store.Writer) error {
		var err error
		id, err = wr.Create(store.New{
			Message: m, Folders: folders, Date: 1000, Thread: note.DeriveUNID([]byte{byte(i % 3)}),
			Summary: []byte("s"),
			SeenBy:  []note.UNID{w.alice}[:i%2],
		})
		return err
	})
	return id
}

func items(subject, body string) note.Items {
	return note.MakeItems(note.Item{Name: "Subject", Value: note.Text(subject)},
		note.Item{Name: "Body", Value: note.Text(body)})
}

// noise returns bytes that do not compress.
func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	_, _ = env.Seeded(seed).Read(b)
	return b
}

func build(t *testing.T) *world {
	t.Helper()
	return buildKeyed(t, false)
}

// keyFile is the key file of the databases, if they have keys of their own.
const keyFile = "/own.key"

// buildKeyed is build with databases that have keys of their own, if keyed is set.
func buildKeyed(t *testing.T, keyed bool) *world {
	t.Helper()
	w := &world{t: t, f: env.Test(t), alice: note.UNID{1, 2, 3}}
	w.open()
	t.Cleanup(func() { _ = w.s.Close() })
	var err error
	if w.mail, err = w.s.CreateDatabase(note.System, store.Create{Title: "alice", Kind: "mail"}); err != nil {
		t.Fatal(err)
	}
	if w.docs, err = w.s.CreateDatabase(note.System, store.Create{Title: "docs", Kind: "docs"}); err != nil {
		t.Fatal(err)
	}
	for id, num := range map[note.DatabaseID]*uint32{w.mail: &w.num, w.docs: &w.dnum} {
		info, err := w.s.Info(id)
		if err != nil {
			t.Fatal(err)
		}
		*num = info.Number
	}
	if keyed {
		line, err := crypt.NewKey(w.f.Env)
		if err != nil {
			t.Fatal(err)
		}
		h, err := w.f.FS.Create(keyFile, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = h.Write([]byte(line))
		}
		for _, id := range []note.DatabaseID{w.mail, w.docs} {
			err = errors.Join(err, w.s.SetKey(id, keyFile), w.s.Settle(context.Background(), id, nil))
		}
		if err = errors.Join(err, h.Close()); err != nil {
			t.Fatal(err)
		}
	}
	w.fillMail()
	w.fillDocs()
	return w
}

func (w *world) fillMail() {
	var temp note.ID
	w.update(w.mail, func(wr *store.Writer) error {
		for name, at := range map[string]*note.ID{"INBOX": &w.inbox, "Sent": &w.sent, "Old": &temp} {
			var err error
			if *at, err = wr.CreateFolder(name, ""); err != nil {
				return err
			}
		}
		return nil
	})
	w.update(w.mail, func(wr *store.Writer) error {
		if err := wr.Subscribe(w.inbox, w.alice, true); err != nil {
			return err
		}
		if err := wr.RenameFolder(temp, "Older"); err != nil {
			return err
		}
		return wr.SetFolderACL(w.sent, &note.ACL{Default: note.Reader})
	})
	w.update(w.mail, func(wr *store.Writer) error { return wr.DeleteFolder(temp) })
	var ids []note.ID
	for i := range 12 {
		ids = append(ids, w.deliver(i, nil, w.inbox))
	}
	big := noise(50_000, 3)
	ids = append(ids, w.deliver(100, big, w.inbox), w.deliver(101, big, w.inbox, w.sent))
	w.update(w.mail, func(wr *store.Writer) error {
		if err := wr.SetKeyword(ids[0], "$Flagged", true); err != nil {
			return err
		}
		if err := wr.SetSeen(ids[2], w.alice, true); err != nil {
			return err
		}
		if err := wr.SetSeen(ids[1], w.alice, false); err != nil {
			return err
		}
		for _, id := range ids[3:6] {
			if err := wr.MarkDeleted(id, w.inbox, true); err != nil {
				return err
			}
		}
		if _, err := wr.AddTo(ids[7], w.sent); err != nil {
			return err
		}
		return wr.RemoveFrom(ids[7], w.inbox)
	})
	w.update(w.mail, func(wr *store.Writer) error {
		if err := wr.RemoveFrom(ids[3], w.inbox); err != nil {
			return err
		}
		return wr.Destroy(ids[8])
	})
	if err := w.s.SaveCursor("search", w.s.Now()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) fillDocs() {
	ctx := context.Background()
	obj, err := w.s.Attach(ctx, noise(5000, 9), w.docs)
	if err != nil {
		w.t.Fatal(err)
	}
	defer obj.Release()
	w.update(w.docs, func(wr *store.Writer) error {
		wr.Keep(obj)
		for i := range 6 {
			c := note.Content{Items: items(fmt.Sprintf("subject %d", i), "one")}
			if i == 1 {
				c.Attachments = []note.Attachment{{Name: "a.bin", Digest: obj.Digest, Size: obj.Size}}
			}
			id, err := wr.Create(store.New{Content: c})
			if err != nil {
				return err
			}
			w.docIDs = append(w.docIDs, id)
		}
		return nil
	})
	w.update(w.docs, func(wr *store.Writer) error {
		cur, err := wr.Content(w.docIDs[2])
		if err != nil {
			return err
		}
		win, _ := cur.Tree.Winner()
		if _, err = wr.Revise(w.docIDs[2], win.Rev, note.Content{Items: items("subject two", "two")}, nil); err != nil {
			return err
		}
		return wr.Peers.Set(99, 0)
	})
	// The same note is edited on another replica: a conflict.
	w.update(w.docs, func(wr *store.Writer) error {
		remote, err := wr.Remote(w.docIDs[2])
		if err != nil {
			return err
		}
		root := remote.Tree[0]
		for _, text := range []string{"three", "four"} {
			c := note.Content{Items: items("subject elsewhere", text)}
			rev := note.NextRevision(root.Rev, note.Document, false, &c)
			remote.Tree = remote.Tree.Add(note.Node{Rev: rev, Parent: root.Rev, Changed: []string{"Body", "Subject"}})
			remote.Contents[rev] = &c
		}
		_, err = wr.Apply(remote, nil)
		return err
	})
	// While a replica is known, a destroyed note leaves a deletion stub.
	w.update(w.docs, func(wr *store.Writer) error { return wr.Destroy(w.docIDs[4]) })
}

func (w *world) check(deep bool) check.Report {
	w.t.Helper()
	rep, err := check.Run(context.Background(), w.s, check.Options{Deep: deep})
	if err != nil {
		w.t.Fatal(err)
	}
	return rep
}

func (w *world) clean(deep bool) {
	w.t.Helper()
	if rep := w.check(deep); !rep.Clean() {
		w.t.Fatalf("not clean:\n%s", list(rep))
	}
}

func list(rep check.Report) string {
	var b strings.Builder
	for _, f := range rep.Findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// rows reads all rows under a prefix.
func (w *world) rows(prefix []byte) (keys, values [][]byte) {
	w.t.Helper()
	err := w.s.Inspect(func(r pebble.Reader) error {
		it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
		if err != nil {
			return err
		}
		for ok := it.First(); ok; ok = it.Next() {
			keys = append(keys, bytes.Clone(it.Key()))
			values = append(values, bytes.Clone(it.Value()))
		}
		return it.Close()
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return keys, values
}

func (w *world) derive(fn func(b *pebble.Batch)) {
	w.t.Helper()
	err := w.s.Derive(w.mail, func(_ pebble.Reader, _ uint32, b *pebble.Batch) error {
		fn(b)
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) set(k, v []byte) {
	w.t.Helper()
	w.derive(func(b *pebble.Batch) { _ = b.Set(k, v, nil) })
}
func (w *world) del(k []byte) { w.t.Helper(); w.derive(func(b *pebble.Batch) { _ = b.Delete(k, nil) }) }
