package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/crypt"
	"doublet/store/layout"
	"doublet/store/object"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
)

// KeyFile writes a key file if there is none.
func KeyFile(t *testing.T, e *env.Env, name string) {
	t.Helper()
	if _, err := e.FS.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	line, err := crypt.NewKey(e)
	if err == nil {
		err = errors.Join(writeAll(e.FS, name, []byte(line)), syncDir(e.FS, ""))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// keyWorld is a store with the databases Open and Own. Both hold the same: a message with small and large parts, a
// document with an attachment, a conflict with another. Own has a key, before or after that.
type keyWorld struct {
	t    *testing.T
	f    *env.Fixture
	s    *Store
	open note.DatabaseID
	own  note.DatabaseID
}

const (
	keyWord  = "Rumpelstilzchen"
	keyLarge = "Spindel-und-Stroh-"
	keyFile  = "Goldgespinst."
)

func keyMessage() []byte {
	return []byte("Subject: " + keyWord + "\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" +
		"--b\r\n\r\nHello\r\n--b\r\nContent-Type: application/x-spindle\r\n\r\n" + strings.Repeat(keyLarge, 10_000) +
		"\r\n--b--\r\n")
}

func newKeyWorld(t *testing.T) *keyWorld {
	w := &keyWorld{t: t, f: env.TestRealTime(t)}
	w.start()
	w.open, w.own = w.create("Open"), w.create("Own")
	KeyFile(t, w.f.Env, "own.key")
	return w
}

func (w *keyWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *keyWorld) start() {
	o := crashOptions()
	o.NoCompression = true
	var err error
	w.s, err = Open(w.f.Env, "data", o)
	w.must(err)
}

func (w *keyWorld) restart() {
	w.must(w.s.Close())
	w.start()
}

func (w *keyWorld) create(title string) note.DatabaseID {
	id, err := w.s.CreateDatabase(note.System, Create{Title: title, Kind: "mail"})
	w.must(err)
	return id
}

func (w *keyWorld) update(id note.DatabaseID, fn func(*Writer) error) error {
	return w.s.Update(context.Background(), note.System, []note.DatabaseID{id}, func(tx *Tx) error {
		wr, err := tx.Database(id)
		if err != nil {
			return err
		}
		return fn(wr)
	})
}

// fill adds the message and the document to a database.
func (w *keyWorld) fill(id note.DatabaseID, meant ...note.DatabaseID) {
	w.t.Helper()
	ctx, raw := context.Background(), keyMessage()
	m, err := w.s.Prepare(ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), PartSize), meant...)
	w.must(err)
	defer m.Release()
	o, err := w.s.Attach(ctx, []byte(strings.Repeat(keyFile, 100)), meant...)
	w.must(err)
	defer o.Release()
	w.must(w.update(id, func(wr *Writer) error {
		f, err := wr.CreateFolder("INBOX", "")
		if err != nil {
			return err
		}
		wr.Keep(o)
		_, err = wr.Create(New{Message: m, Summary: []byte("about " + keyWord), Folders: []note.ID{f}})
		if err != nil {
			return err
		}
		_, err = wr.Create(New{Content: w.document(o, keyWord)})
		return err
	}))
}

func (w *keyWorld) document(o *Object, text string) note.Content {
	return note.Content{Items: note.MakeItems(note.Item{Name: "Text", Value: note.Text(text)}),
		Attachments: []note.Attachment{{Name: "f", Digest: o.Digest, Size: o.Size}}}
}

// holds reports an error unless a database holds what fill has added.
func (w *keyWorld) holds(id note.DatabaseID) {
	w.t.Helper()
	messages, documents := 0, 0
	w.must(w.s.Read(context.Background(), note.System, id, func(r *Reader) error {
		return r.Notes(0, func(id note.ID, n *layout.Note) bool {
			switch {
			case n.Recipe != 0:
				messages++
				st, err := r.Message(n)
				w.must(err)
				var b bytes.Buffer
				_, err = st.WriteTo(&b)
				w.must(err)
				sum, err := r.Summary(nil, id)
				w.must(err)
				part, err := st.AppendRange(nil, 70_001, 33)
				w.must(err)
				if !bytes.Equal(b.Bytes(), keyMessage()) || string(sum) != "about "+keyWord ||
					!bytes.Equal(part, keyMessage()[70_001:70_034]) {
					w.t.Error("the message changed")
				}
			case n.Class == note.Document:
				documents++
				c, err := r.Content(id)
				w.must(err)
				b, err := r.Object(id, c.Content.Attachments[0].Digest, nil)
				w.must(err)
				if c.Content.Items.Get("Text").AsText() != keyWord || string(b) != strings.Repeat(keyFile, 100) {
					w.t.Error("the document changed")
				}
			}
			return true
		})
	}))
	if messages != 1 || documents != 1 {
		w.t.Errorf("%d messages, %d documents", messages, documents)
	}
}

// readable returns those of the words that a file of the store holds.
func (w *keyWorld) readable(words ...string) (found []string) {
	w.t.Helper()
	for _, dir := range []string{"data/notes", "data/objects"} {
		for _, name := range filesOf(w.t, w.f.FS, dir) {
			b := contentOf(w.t, w.f, name)
			for _, word := range words {
				if bytes.Contains(b, []byte(word)) && !slices.Contains(found, word) {
					found = append(found, word)
				}
			}
		}
	}
	return found
}

// contentOf returns the content of a file, nothing if the engine has removed it since it was listed.
func contentOf(t *testing.T, f *env.Fixture, name string) []byte {
	t.Helper()
	h, err := f.FS.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := h.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, info.Size())
	if len(b) > 0 {
		if _, err := h.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestKeyHidesContent fills a database that has a key. No file of the store holds a word of it, and nothing that it
// stores has a name that another database uses.
func TestKeyHidesContent(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.must(w.s.SetKey(w.own, "own.key"))
	w.must(w.s.Settle(context.Background(), w.own, nil))
	w.fill(w.own, w.own)
	w.holds(w.own)
	w.must(w.s.Close())
	if found := w.readable(keyWord, keyLarge, keyFile); found != nil {
		t.Errorf("files of the store hold %q", found)
	}
	w.start()
	w.holds(w.own)
	w.fill(w.open)
	w.holds(w.open)
	w.holds(w.own)
	if got := w.count(layout.SpaceObject); got != 4 {
		t.Errorf("%d objects are stored, want two for each database", got)
	}
	w.must(w.s.Close())
	if found := w.readable(keyWord, keyLarge, keyFile); len(found) != 3 {
		t.Errorf("the search for words finds only %q in a database without a key", found)
	}
	w.start()
	w.must(w.s.Close())
}

func (w *keyWorld) count(space layout.Space) (n int) {
	w.t.Helper()
	w.must(w.s.Inspect(func(r pebble.Reader) error {
		return scan(r, layout.Key(space), func(_, _ []byte) error { n++; return nil })
	}))
	return n
}

// TestKeyOfPreparedForOthers prepares messages for no database, or for the other one. They can be used all the same.
func TestKeyOfPreparedForOthers(t *testing.T) {
	t.Parallel()
	for _, meant := range []string{"none", "other", "both"} {
		w := newKeyWorld(t)
		w.must(w.s.SetKey(w.own, "own.key"))
		var ids []note.DatabaseID
		switch meant {
		case "other":
			ids = []note.DatabaseID{w.open}
		case "both":
			ids = []note.DatabaseID{w.open, w.own}
		}
		w.fill(w.own, ids...)
		w.fill(w.open, w.own)
		w.holds(w.own)
		w.holds(w.open)
		w.restart()
		w.holds(w.own)
		w.holds(w.open)
		for i := range w.s.pins.shards {
			if len(w.s.pins.shards[i].count) > 0 {
				t.Errorf("prepared for %s: something stays pinned", meant)
			}
		}
		w.must(w.s.Close())
	}
}

// TestSettle gives a key to a database that is filled, and takes it away again. Each pass is interrupted after its
// first notes and goes on after a restart. No note changes, and what was stored before is removed.
func TestSettle(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.fill(w.own)
	w.must(w.update(w.own, func(wr *Writer) error {
		for i := range 3 * settleNotes {
			if _, err := wr.Create(New{Class: note.Profile, Content: note.Content{Items: note.MakeItems(
				note.Item{Name: "N", Value: note.Text(fmt.Sprint(keyWord, i))})}}); err != nil {
				return err
			}
		}
		return nil
	}))
	before := w.counters()
	settle := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		steps := 0
		err := w.s.Settle(ctx, w.own, func(uint64) { steps++; cancel() })
		if !errors.Is(err, context.Canceled) || steps != 1 {
			t.Fatalf("not interrupted: %d steps, %v", steps, err)
		}
		w.restart()
		w.holds(w.own)
		w.must(w.s.Settle(context.Background(), w.own, nil))
	}
	w.must(w.s.SetKey(w.own, "own.key"))
	settle()
	w.holds(w.own)
	info, err := w.s.Info(w.own)
	w.must(err)
	if info.Key == nil || !info.Key.Settled || info.Key.Leaving {
		t.Errorf("key %+v", info.Key)
	}
	w.sweep()
	w.must(w.s.Close())
	if found := w.readable(keyWord, keyLarge, keyFile); found != nil {
		t.Errorf("files of the store still hold %q", found)
	}
	w.start()
	w.must(w.s.DropKey(w.own))
	settle()
	w.holds(w.own)
	if info, err = w.s.Info(w.own); err != nil || info.Key != nil || w.s.keys.of(w.own) != nil {
		t.Errorf("there still is a key: %+v, %v", info.Key, err)
	}
	if after := w.counters(); after != before {
		t.Errorf("notes changed: %s, before %s", after, before)
	}
	w.must(w.s.Close())
}

// counters returns what changes with every change of a note.
func (w *keyWorld) counters() (text string) {
	w.must(w.s.Read(context.Background(), note.System, w.own, func(r *Reader) error {
		c := r.Counters()
		text = fmt.Sprint(c.NextNote, c.Seq, c.Notes, c.Size, c.Ledger.Last)
		return nil
	}))
	return text
}

// sweep removes what nothing references, compacts the tables and rewrites the segments.
func (w *keyWorld) sweep() {
	w.t.Helper()
	ctx := context.Background()
	for range 3 {
		_, err := w.s.Sweep(ctx, 1000)
		w.must(err)
	}
	w.must(w.s.obj.Seal())
	_, err := w.s.Rewrite(ctx)
	w.must(err)
	w.must(w.s.eng.Flush())
	w.must(w.s.eng.Compact(ctx, []byte{0}, []byte{0xff}, false))
}

// TestSettleOfKeyThatTurned drops a key and sets it again behind the last step of a pass. A note that was written
// between the two is not sealed, so the pass does not settle the database; the next one does.
func TestSettleOfKeyThatTurned(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.fill(w.own)
	w.must(w.s.SetKey(w.own, "own.key"))
	w.must(w.s.Settle(context.Background(), w.own, func(uint64) {
		w.must(w.s.DropKey(w.own))
		w.must(w.update(w.own, func(wr *Writer) error {
			_, err := wr.Create(New{Class: note.Profile, Content: note.Content{Items: note.MakeItems(
				note.Item{Name: "N", Value: note.Text(keyWord)})}})
			return err
		}))
		w.must(w.s.SetKey(w.own, "own.key"))
	}))
	if info, err := w.s.Info(w.own); err != nil || info.Key.Settled {
		t.Errorf("settled: %+v, %v", info.Key, err)
	}
	w.must(w.s.Settle(context.Background(), w.own, nil))
	if info, err := w.s.Info(w.own); err != nil || !info.Key.Settled {
		t.Errorf("not settled: %+v, %v", info.Key, err)
	}
	w.holds(w.own)
	w.must(w.s.Close())
}

// TestSettlePassesOverDamage settles a database in which one note cannot be read and an object of another is not there.
// Both stay as they are, all others are sealed, and the database is not settled until they can be read again.
func TestSettlePassesOverDamage(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.fill(w.own)
	w.must(w.update(w.own, func(wr *Writer) error {
		for range 3 {
			if _, err := wr.Create(New{Content: note.Content{}}); err != nil {
				return err
			}
		}
		return nil
	}))
	num := w.s.dbs.number[w.own]
	damaged := layout.NoteKey(num, layout.KindContent, 1)
	sum := object.Sum([]byte(strings.Repeat(keyFile, 100)))
	missing := layout.Key(layout.SpaceObject, sum[:])
	row := layout.NoteKey(num, layout.KindNote, 6)
	before := map[string][]byte{}
	for _, key := range [][]byte{damaged, missing, row} {
		v, err := getValue(w.s.eng, key)
		w.must(err)
		before[string(key)] = bytes.Clone(v)
	}
	w.must(errors.Join(w.s.eng.Set(damaged, []byte{0xFF}, pebble.Sync), w.s.eng.Delete(missing, pebble.Sync),
		w.s.eng.Set(row, []byte{0xFF}, pebble.Sync)))
	w.must(w.s.SetKey(w.own, "own.key"))
	err := w.s.Settle(context.Background(), w.own, nil)
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "3 notes are left") {
		t.Errorf("settled with damage: %v", err)
	}
	if info, err := w.s.Info(w.own); err != nil || info.Key.Settled {
		t.Errorf("settled: %+v, %v", info.Key, err)
	}
	sealed := func() (n int) {
		w.must(scan(w.s.eng, layout.Prefix(num, layout.KindContent), func(_, v []byte) error {
			if layout.IsSealed(v) {
				n++
			}
			return nil
		}))
		return n
	}
	if got := sealed(); got != 3 {
		t.Errorf("%d notes are sealed, want 3 of 6", got)
	}
	for key, v := range before {
		w.must(w.s.eng.Set([]byte(key), v, pebble.Sync))
	}
	w.must(w.s.Settle(context.Background(), w.own, nil))
	if info, err := w.s.Info(w.own); err != nil || !info.Key.Settled || sealed() != 6 {
		t.Errorf("%d notes are sealed: %+v, %v", sealed(), info.Key, err)
	}
	w.must(w.s.Close())
}

// TestSettleBelowTheFloor settles a database while the device has no space above the floor. That is refused, and goes
// on when there is space again.
func TestSettleBelowTheFloor(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.fill(w.own)
	w.must(w.s.SetKey(w.own, "own.key"))
	w.must(w.s.Close())
	w.f.Faults.SetSpace(1 << 30)
	o := crashOptions()
	o.FloorBytes, o.FloorPercent = 1<<40, 0
	s, err := Open(w.f.Env, "data", o)
	w.must(err)
	if err := s.Settle(context.Background(), w.own, nil); !errors.Is(err, ErrNoSpace) {
		t.Errorf("settled below the floor: %v", err)
	}
	w.must(s.Close())
	w.start()
	if info, err := w.s.Info(w.own); err != nil || info.Key.Settled {
		t.Errorf("settled: %+v, %v", info.Key, err)
	}
	w.must(w.s.Settle(context.Background(), w.own, nil))
	w.holds(w.own)
	w.must(w.s.Close())
}

// TestLocked starts without the key file. The database is out of service, the other one is not. With the key file at
// another place it opens, and a start finds the file there.
func TestLocked(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.fill(w.open)
	w.must(w.s.SetKey(w.own, "own.key"))
	w.fill(w.own, w.own)
	w.must(w.s.Settle(context.Background(), w.own, nil))
	w.must(w.s.Close())
	w.must(w.f.FS.Rename("own.key", "away.key"))
	w.start()
	w.locked()
	w.holds(w.open)
	if err := w.s.UnlockDatabase(w.own, ""); err == nil {
		t.Error("opened without the key file")
	}
	KeyFile(t, w.f.Env, "other.key")
	if err := w.s.UnlockDatabase(w.own, "other.key"); !errors.Is(err, crypt.ErrNoKey) {
		t.Error("opened with another key: ", err)
	}
	w.locked()
	w.must(w.s.UnlockDatabase(w.own, "away.key"))
	w.holds(w.own)
	w.restart()
	w.holds(w.own)
	w.must(w.s.LockDatabase(w.own))
	w.locked()
	if err := w.s.DropKey(w.own); !errors.Is(err, ErrLocked) {
		t.Error("a locked database is to lose its key: ", err)
	}
	if err := w.s.SetKey(w.own, "other.key"); !errors.Is(err, ErrLocked) {
		t.Error("a locked database got another key: ", err)
	}
	if err := w.s.LockDatabase(w.open); !errors.Is(err, ErrNoKey) {
		t.Error("a database without a key was locked: ", err)
	}
	w.must(w.s.UnlockDatabase(w.own, ""))
	w.must(w.s.SetKey(w.own, "other.key"))
	w.must(w.f.FS.Remove("away.key"))
	w.restart()
	w.holds(w.own)
	w.must(w.s.Close())
}

// locked reports an error unless the database Own is out of service.
func (w *keyWorld) locked() {
	w.t.Helper()
	info, err := w.s.Info(w.own)
	w.must(err)
	if info.State != layout.OutOfService || !w.s.Locked(&info) {
		w.t.Errorf("the database is %v: %s", info.State, info.Reason)
	}
	err = w.s.Read(context.Background(), note.System, w.own, func(*Reader) error { return nil })
	if !errors.Is(err, ErrOutOfService) {
		w.t.Error("the database can be read: ", err)
	}
	// The rights of the server do not suffice either.
	w.must(w.s.Inspect(func(r pebble.Reader) error {
		num := w.s.dbs.number[w.own]
		return scan(r, layout.Prefix(num, layout.KindContent), func(k, v []byte) error {
			if _, err := w.s.Unseal(k, v); !errors.Is(err, ErrLocked) {
				w.t.Error("a row can be read: ", err)
			}
			return nil
		})
	}))
}

// TestSealedRowIsBound exchanges the rows of two notes. Both are damaged then, and neither is taken for the other.
func TestSealedRowIsBound(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.must(w.s.SetKey(w.own, "own.key"))
	w.fill(w.own, w.own)
	num := w.s.dbs.number[w.own]
	a, b := layout.NoteKey(num, layout.KindContent, 2), layout.NoteKey(num, layout.KindContent, 3)
	va, err := getValue(w.s.eng, a)
	w.must(err)
	vb, err := getValue(w.s.eng, b)
	w.must(err)
	w.must(errors.Join(w.s.eng.Set(a, vb, pebble.Sync), w.s.eng.Set(b, va, pebble.Sync)))
	for _, key := range [][]byte{a, b} {
		v, err := getValue(w.s.eng, key)
		w.must(err)
		if _, err := w.s.Unseal(key, v); !errors.Is(err, ErrDamaged) {
			t.Error("a row of another note was opened: ", err)
		}
	}
	w.must(w.s.Close())
}

// TestMendKeyed loses every object of a database with a key. They come from elsewhere by their digests, and are stored
// for this database again.
func TestMendKeyed(t *testing.T) {
	t.Parallel()
	w := newKeyWorld(t)
	w.must(w.s.SetKey(w.own, "own.key"))
	w.fill(w.own, w.own)
	have := map[note.Digest][]byte{}
	for _, b := range []string{strings.Repeat(keyLarge, 10_000), strings.Repeat(keyFile, 100)} {
		have[note.Digest(object.Sum([]byte(b)))] = []byte(b)
	}
	w.s.opt.Mend = func(d note.Digest) error {
		return w.s.MendObject(context.Background(), ObjectRef{d, uint64(len(have[d]))}, have[d])
	}
	w.must(w.s.eng.DeleteRange(layout.Key(layout.SpaceObject), layout.Key(layout.SpaceObject+1), pebble.Sync))
	w.holds(w.own)
	if got := w.count(layout.SpaceObject); got != 2 {
		t.Errorf("%d objects are stored again, want 2", got)
	}
	w.must(w.s.Close())
	if found := w.readable(keyLarge, keyFile); found != nil {
		t.Errorf("files of the store hold %q", found)
	}
}
