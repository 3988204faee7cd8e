package journal

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"filippo.io/age"
)

func TestEntries(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.add(450) // more than two pages
	list := w.databases()
	if len(list) != 1 || !list[0].Current || list[0].Entries != 450 {
		t.Fatalf("%+v", list)
	}
	db := list[0].ID
	if got := w.verify(db); len(got) != 0 {
		t.Errorf("findings %q", got)
	}
	m, raw := w.message(7)
	w.ok(w.write(m, raw)) // the same queue ID
	if n := w.databases()[0].Entries; n != 450 {
		t.Errorf("%d entries after the same message came again", n)
	}
	start := m.Time.Add(-6 * time.Second).Add(-450 * time.Second)
	for _, x := range []struct {
		q    Query
		want []uint64
	}{
		{Query{ID: note.DeriveUNID([]byte("9"))}, []uint64{9}},
		{Query{MessageID: "<12@FAR.example>"}, []uint64{12}},
		{Query{Address: "P1@example.com", Above: 445}, []uint64{448}},
		{Query{To: "eve@far.example"}, nil},
		{Query{From: "eve@far.example", Above: 448}, []uint64{449, 450}},
		{Query{Above: 448}, []uint64{449, 450}},
		{Query{Address: "nobody@example.com"}, nil},
		{Query{Before: start.Add(8 * time.Second)}, []uint64{1, 2}},
		{Query{After: start.Add(8 * time.Second), Before: start.Add(10 * time.Second)}, []uint64{3, 4}},
		{Query{To: "p0@example.com", After: start.Add(8 * time.Second), Before: start.Add(10 * time.Second)},
			[]uint64{3}},
	} {
		if got := w.search(db, x.q); !slices.Equal(got, x.want) {
			t.Errorf("%+v finds %d, want %d", x.q, got, x.want)
		}
	}
	if n := len(w.search(db, Query{From: "eve@far.example"})); n != 450 {
		t.Errorf("%d messages of eve", n)
	}
	d, plain, err := w.plain(db, 7, w.j.Identity())
	w.ok(err)
	if !bytes.Equal(plain, raw) || d.Client != "192.0.2.1" || d.Hidden[0] != "boss@example.com" {
		t.Errorf("%+v %q", d, plain)
	}
}

// TestKeys proves that only the holders of the keys read a journal that is not encrypted to the server, and that the
// store has nothing of it in plain text.
func TestKeys(t *testing.T) {
	t.Parallel()
	ann, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	bob, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, Options{Keys: ann.Recipient().String() + " " + bob.Recipient().String()})
	w.add(1)
	m, _ := w.message(2)
	large := bytes.Repeat([]byte("an uncommon sentence about turbines\r\n"), 20_000)
	for i := range large { // does not compress, so that it becomes an object
		if i%3 == 0 {
			large[i] = byte('a' + (i*7919+i/26)%26)
		}
	}
	w.ok(w.write(m, large))
	db := w.databases()[0].ID
	for _, id := range []age.Identity{ann, bob} {
		if _, plain, err := w.plain(db, 2, id); err != nil || !bytes.Equal(plain, large) {
			t.Errorf("%d bytes, %v", len(plain), err)
		}
	}
	_, _, err = w.plain(db, 1, w.j.Identity())
	w.isErr(err, ErrKey)
	_, _, err = w.plain(db, 1)
	w.isErr(err, ErrKey)
	w.stop()
	for _, secret := range []string{"secret plan", "The body of", "192.0.2.1", "boss@example.com",
		"uncommon sentence"} {
		if name := contains(t, w, "data", secret); name != "" {
			t.Errorf("%s contains %q", name, secret)
		}
	}
	if contains(t, w, "data", "eve@far.example") == "" {
		t.Error("the readable part is not found either: the search of the files finds nothing")
	}
	w.start()
}

// contains returns a file below a folder that contains a text, or "".
func contains(t *testing.T, w *world, dir, text string) string {
	t.Helper()
	names, err := w.fix.FS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		path := w.fix.FS.PathJoin(dir, n)
		info, err := w.fix.FS.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			if found := contains(t, w, path, text); found != "" {
				return found
			}
			continue
		}
		f, err := w.fix.FS.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(text)) {
			return path
		}
	}
	return ""
}

// TestServerKey proves that age accepts the text form of the server's key, and that it lasts.
func TestServerKey(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	before := w.j.Keys()
	w.add(1)
	w.stop()
	w.start()
	if after := w.j.Keys(); after.Server != before.Server || after.Signature != before.Signature {
		t.Errorf("keys changed: %v %v", before, after)
	}
	if _, _, err := w.plain(w.databases()[0].ID, 1, w.j.Identity()); err != nil {
		t.Error(err)
	}
}

func TestRollOver(t *testing.T) {
	t.Parallel()
	w := open(t, Options{RollDays: 1, Keep: 48 * time.Hour})
	w.add(3)
	first := w.databases()[0]
	w.fix.Time.Advance(24 * time.Hour)
	w.add(2)
	list := w.databases()
	if len(list) != 2 || list[0].Current || list[0].Closed.IsZero() || !list[1].Current || list[1].Entries != 2 {
		t.Fatalf("%+v", list)
	}
	m, raw := w.message(2)
	w.ok(w.write(m, raw)) // it is in the first database
	if n := w.databases()[1].Entries; n != 2 {
		t.Errorf("%d entries after a message of an earlier database came again", n)
	}
	h, err := w.j.headOf(bg, list[1].ID)
	w.ok(err)
	if h.previous != first.ID || h.origin != originOf(list[1].ID, first.ID, first.Last) {
		t.Error("the second database does not continue the first")
	}
	w.isErr(w.j.Remove(bg, list[1].ID), ErrOpen)
	w.isErr(w.j.Remove(bg, directory.ID), store.ErrNotFound)
	err = w.db.Update(bg, note.System, []note.DatabaseID{first.ID}, func(tx *store.Tx) error {
		x, err := tx.Database(first.ID)
		if err != nil {
			return err
		}
		m, raw := w.message(99)
		s, err := w.j.Seal(bg, m, raw)
		if err != nil {
			return err
		}
		defer s.Release()
		return w.j.Append(x, s, nil)
	})
	if !Rolled(err) {
		t.Errorf("a closed database takes an entry: %v", err)
	}
	gone, err := w.j.Expire(bg)
	if err != nil || len(gone) != 0 {
		t.Fatalf("%v %v", gone, err)
	}
	w.fix.Time.Advance(48 * time.Hour)
	gone, err = w.j.Expire(bg)
	if err != nil || len(gone) != 1 || gone[0].ID != first.ID || len(w.databases()) != 1 {
		t.Errorf("%v %v", gone, err)
	}
	w.stop()
	w.opt.RollDays, w.opt.RollSize = 0, 2000
	w.start()
	w.add(14)
	if n := len(w.databases()); n < 3 || n > 5 {
		t.Errorf("%d databases of 2000 bytes", n)
	}
	for _, d := range w.databases() {
		if got := w.verify(d.ID); len(got) > 0 {
			t.Errorf("%s: %q", d.Title, got)
		}
	}
}

// TestLost proves that a damaged or missing current database is not replaced in silence.
func TestLost(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.add(2)
	db := w.databases()[0].ID
	state := func(s layout.DatabaseState) {
		w.ok(w.db.SetInfo(note.System, db, func(i *layout.Info) { i.State = s }))
	}
	state(layout.OutOfService)
	m, raw := w.message(50)
	w.isErr(w.write(m, raw), ErrFailed)
	w.stop()
	w.start()
	w.isErr(w.write(m, raw), ErrFailed)
	state(layout.InService)
	w.ok(w.write(m, raw))
	state(layout.OutOfService)
	_, err := w.j.RollOver(bg)
	w.ok(err)
	w.add(1)
	if list := w.databases(); len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	state(layout.InService)
}

// TestComesBack checks that a lost database that comes back is a closed one, and not the current one: it takes no
// entries, cannot come to be written again by a restart, and is removed in its time. The current one is not removed.
func TestComesBack(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		w := open(t, Options{Keep: 48 * time.Hour})
		w.add(1)
		if before { // there is a database that can be read all the time
			w.fix.Time.Advance(time.Second)
			_, err := w.j.RollOver(bg)
			w.ok(err)
			w.add(1)
		}
		list := w.databases()
		old := list[len(list)-1].ID
		state := func(s layout.DatabaseState) {
			w.ok(w.db.SetInfo(note.System, old, func(i *layout.Info) { i.State = s }))
		}
		state(layout.OutOfService)
		w.fix.Time.Advance(24 * time.Hour)
		id, err := w.j.RollOver(bg)
		w.ok(err)
		w.add(3)
		state(layout.InService)
		w.fix.Time.Advance(24 * time.Hour)
		w.stop()
		w.start()
		w.add(1)
		for _, d := range w.databases() {
			if d.Current != (d.ID == id) || d.Closed.IsZero() != d.Current || d.ID == id && d.Entries != 4 {
				t.Errorf("before %v: %+v; the current one is %s", before, d, id)
			}
		}
		w.isErr(w.j.Remove(bg, id), ErrOpen)
		gone, err := w.j.Expire(bg)
		if w.ok(err); slices.ContainsFunc(gone, func(d Database) bool { return d.ID == old }) {
			t.Errorf("before %v: it was removed after a day", before)
		}
		w.fix.Time.Advance(24 * time.Hour)
		gone, err = w.j.Expire(bg)
		w.ok(err)
		if list := w.databases(); len(gone) != 1 || gone[0].ID != old || len(list) != 1 || list[0].ID != id {
			t.Errorf("before %v: %+v was removed, %+v is left", before, gone, list)
		}
	}
}

// tamper changes a note of a database behind the journal's back.
func (w *world) tamper(db note.DatabaseID, fn func(x *store.Writer, find func(n uint64) note.ID) error) {
	w.t.Helper()
	w.ok(w.db.Update(bg, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		x, err := tx.Database(db)
		if err != nil {
			return err
		}
		return fn(x, func(n uint64) note.ID {
			ids, err := x.Lookup(indexJournal, numberKey(byNumber, n))
			if err != nil || len(ids) == 0 {
				w.t.Fatalf("entry %d: %v", n, err)
			}
			return ids[0]
		})
	}))
}

func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		want string
		fn   func(x *store.Writer, find func(n uint64) note.ID) error
	}{
		"missing": {"entry 3 missing", func(x *store.Writer, find func(n uint64) note.ID) error {
			return x.Destroy(find(3))
		}},
		"last": {"entry 6 missing", func(x *store.Writer, find func(n uint64) note.ID) error {
			return x.Destroy(find(6))
		}},
		"changed": {"entry 2 changed", func(x *store.Writer, find func(n uint64) note.ID) error {
			c, err := x.Content(find(2))
			if err != nil {
				return err
			}
			content := c.Content
			content.Items = content.Items.With(itemFrom, note.Text("other@far.example"))
			return x.Rewrite(find(2), content)
		}},
		"forged": {"entry 2 inserted", func(x *store.Writer, find func(n uint64) note.ID) error {
			c, err := x.Content(find(2)) // with a hash that fits its fields
			if err != nil {
				return err
			}
			e, _, err := readEntry(&c.Content)
			if err != nil {
				return err
			}
			e.From = "other@far.example"
			e.Hash = e.sum()
			content := c.Content
			content.Items = e.items()
			return x.Rewrite(find(2), content)
		}},
		"inserted": {"entry 4 inserted", func(x *store.Writer, find func(n uint64) note.ID) error {
			c, err := x.Content(find(4))
			if err != nil {
				return err
			}
			_, err = x.Create(store.New{Class: note.Document, Content: note.Content{Items: c.Content.Items}})
			return err
		}},
		"appended": {"entry 7 inserted", func(x *store.Writer, find func(n uint64) note.ID) error {
			c, err := x.Content(find(6))
			if err != nil {
				return err
			}
			e, _, err := readEntry(&c.Content)
			if err != nil {
				return err
			}
			e.Number, e.Previous = 7, e.Hash
			e.Content = Hash{}
			e.Hash = e.sum()
			_, err = x.Create(store.New{Class: note.Document, Content: note.Content{Items: e.items()}})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, Options{})
			w.add(6)
			db := w.databases()[0].ID
			w.tamper(db, x.fn)
			got := w.verify(db)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, x.want) }) {
				t.Errorf("findings %q, want %q", got, x.want)
			}
		})
	}
}

func TestArchive(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.add(7)
	latin, text := w.message(8) // bytes of a stranger that are no UTF-8, and that JSON escapes
	latin.MessageID, latin.From = "<caf\xe9\xe8<\u2028&\x00@far.example>", "caf\xe9@far.example"
	latin.Recipients = []Recipient{{Address: "caf\xe9\xe8@far.example"}}
	w.ok(w.write(latin, text))
	db := w.databases()[0].ID
	var file bytes.Buffer
	m, err := w.j.Export(bg, note.System, &Export{Database: db, Server: "mx", By: "Ann", Reason: "case 7"}, &file,
		func(uint64) {})
	w.ok(err)
	if m.First != 1 || m.Last != 8 || m.Reason != "case 7" || !m.Open {
		t.Errorf("%+v", m)
	}
	n := 0
	v, err := VerifyArchive(bytes.NewReader(file.Bytes()), w.j.Keys().Signature, func(e *Entry, sealed []byte) error {
		n++
		_, raw, err := Unseal(sealed, w.j.Identity())
		if _, want := w.message(int(e.Number)); err == nil && !bytes.Equal(raw, want) {
			err = fmt.Errorf("entry %d: %q", e.Number, raw)
		}
		return err
	})
	w.ok(err)
	if n != 8 || len(v.Report.Findings) > 0 || v.Report.LastHash != w.databases()[0].Last {
		t.Errorf("%d entries, %+v", n, v)
	}
	_, err = VerifyArchive(bytes.NewReader(file.Bytes()), strings.Repeat("ab", 32), nil)
	w.isErr(err, ErrArchive)
	var part bytes.Buffer
	_, err = w.j.Export(bg, note.System, &Export{Database: db, First: 3, Last: 5}, &part, func(uint64) {})
	w.ok(err)
	v, err = VerifyArchive(&part, "", nil)
	w.ok(err)
	if len(v.Report.Findings) > 0 || v.Report.Entries != 3 {
		t.Errorf("%+v", v)
	}
	_, err = w.j.Export(bg, note.System, &Export{Database: db, First: 3, Last: 9}, &part, func(uint64) {})
	w.isErr(err, store.ErrNotFound)
	_, err = w.j.Export(bg, note.Who{Person: note.UNID{1}}, &Export{Database: db}, &part, func(uint64) {})
	w.isErr(err, store.ErrDenied)
	for cut := range 40 {
		_, err := VerifyArchive(bytes.NewReader(file.Bytes()[:file.Len()*cut/40]), "", nil)
		w.isErr(err, ErrArchive)
	}
	for name, x := range map[string]struct {
		want string
		fn   func(files []tarFile) []tarFile
	}{
		"missing": {"entry 4 missing", func(f []tarFile) []tarFile { return slices.Delete(f, 6, 8) }},
		"first":   {"entry 1 missing", func(f []tarFile) []tarFile { return f[2:] }},
		"last":    {"entry 8 missing", func(f []tarFile) []tarFile { return slices.Delete(f, 14, 16) }},
		"changed": {"entry 2 changed", func(f []tarFile) []tarFile { f[3].content[100] ^= 1; return f }},
		"fields": {"entry 2 changed", func(f []tarFile) []tarFile {
			f[2].content = bytes.Replace(f[2].content, []byte("eve@"), []byte("eva@"), 1)
			return f
		}},
		"reordered": {"entry 3 reordered", func(f []tarFile) []tarFile {
			f[4], f[5], f[6], f[7] = f[6], f[7], f[4], f[5]
			return f
		}},
		"inserted": {"entry 2 inserted", func(f []tarFile) []tarFile { return slices.Insert(f, 4, f[2], f[3]) }},
	} {
		v, err := VerifyArchive(bytes.NewReader(pack(t, x.fn(unpack(t, file.Bytes())))), "", nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := lines(v.Report)
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, x.want) }) {
			t.Errorf("%s: findings %q, want %q", name, got, x.want)
		}
	}
	files := unpack(t, file.Bytes())
	manifest := &files[len(files)-2]
	manifest.content = bytes.Replace(manifest.content, []byte("case 7"), []byte("case 8"), 1)
	_, err = VerifyArchive(bytes.NewReader(pack(t, files)), "", nil)
	w.isErr(err, ErrArchive)
}

type tarFile struct {
	name    string
	content []byte
}

func unpack(t *testing.T, raw []byte) (out []tarFile) {
	t.Helper()
	r := tar.NewReader(bytes.NewReader(raw))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tarFile{h.Name, b})
	}
}

func pack(t *testing.T, files []tarFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		if err := put(w, f.name, f.content, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func FuzzArchive(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, x := range []tarFile{{"entries/0000000001.json", []byte(`{"number":1}`)},
		{"entries/0000000001.age", []byte("x")}, {manifestName, []byte(`{"format":"` + archiveFormat + `"}`)},
		{signatureName, make([]byte, 64)}} {
		_ = put(w, x.name, x.content, time.Unix(0, 0))
	}
	_ = w.Close()
	f.Add(b.Bytes())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := VerifyArchive(bytes.NewReader(raw), "", nil); err == nil && len(v.Report.Findings) == 0 &&
			v.Report.Entries > 0 && v.Manifest.Last-v.Manifest.First+1 != v.Report.Entries {
			t.Errorf("%d entries of %d to %d", v.Report.Entries, v.Manifest.First, v.Manifest.Last)
		}
	})
}

func FuzzUnseal(f *testing.F) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := seal(&Details{SignIn: "ann"}, []byte("text"), []age.Recipient{id.Recipient()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add([]byte("age-encryption.org/v1\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, plain, err := Unseal(raw, id)
		if err == nil && !bytes.Equal(plain, []byte("text")) {
			t.Errorf("%q", plain)
		}
	})
}
