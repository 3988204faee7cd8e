package check_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/blob"
	"doublet/store/check"
	"doublet/store/layout"
	"doublet/store/tier"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// breakage is a change that breaks a sound store, the kind of finding that check must report, and what is lost.
type breakage struct {
	name string
	kind check.Kind
	do   func(w *world)
	lost int
}

// first deletes the first row under a prefix; spoil makes it unreadable.
func first(prefix func(w *world) []byte) func(w *world) {
	return func(w *world) {
		keys, values := w.rows(prefix(w))
		for i, k := range keys {
			if !bytes.Equal(values[i], layout.Grave) { // nobody could know that a note was deleted for good
				w.del(k)
				return
			}
		}
		w.t.Fatal("no such row")
	}
}

func spoil(prefix func(w *world) []byte) func(w *world) {
	return func(w *world) {
		keys, _ := w.rows(prefix(w))
		if len(keys) == 0 {
			w.t.Fatal("no such row")
		}
		w.set(keys[0], []byte{0xFF, 0xFF, 0xFF})
	}
}

func mail(k layout.Kind) func(w *world) []byte {
	return func(w *world) []byte { return layout.Prefix(w.num, k) }
}

func docs(k layout.Kind) func(w *world) []byte {
	return func(w *world) []byte { return layout.Prefix(w.dnum, k) }
}

func shared(s layout.Space) func(w *world) []byte {
	return func(*world) []byte { return layout.Key(s) }
}

func row(key func(w *world) []byte, value []byte) func(w *world) {
	return func(w *world) { w.set(key(w), value) }
}

// lastNote returns the last mail note that is not a folder.
func (w *world) lastNote(db uint32) (note.ID, *layout.Note) {
	keys, values := w.rows(layout.Prefix(db, layout.KindNote))
	for i, k := range keys {
		n, err := layout.ReadNote(values[i])
		if err != nil {
			w.t.Fatal(err)
		}
		if n.Class == note.Document && !n.Stub {
			return note.ID(layout.Tail64(k)), n
		}
	}
	w.t.Fatal("no note")
	return 0, nil
}

func editNote(fn func(n *layout.Note)) func(w *world) {
	return func(w *world) {
		id, n := w.lastNote(w.num)
		fn(n)
		w.set(layout.NoteKey(w.num, layout.KindNote, id), layout.AppendNote(nil, n))
	}
}

func editCounters(fn func(c *layout.Counters)) func(w *world) {
	return func(w *world) {
		key := layout.Prefix(w.num, layout.KindCounters)
		_, v := w.rows(key)
		c, err := layout.ReadCounters(v[0])
		if err != nil {
			w.t.Fatal(err)
		}
		fn(&c)
		w.set(key, layout.AppendCounters(nil, &c))
	}
}

func editHead(fn func(f *layout.Folder)) func(w *world) {
	return func(w *world) {
		key := layout.NoteKey(w.num, layout.KindFolder, w.inbox)
		_, v := w.rows(key)
		f, err := layout.ReadFolder(w.inbox, v[0])
		if err != nil {
			w.t.Fatal(err)
		}
		fn(f)
		w.set(key, layout.AppendFolder(nil, f))
	}
}

func breakages() []breakage {
	var out []breakage
	add := func(name string, kind check.Kind, lost int, do func(w *world)) {
		out = append(out, breakage{name, kind, do, lost})
	}
	for _, x := range []struct {
		name string
		kind check.Kind
		at   func(w *world) []byte
	}{
		{"unid", check.UNIDRow, mail(layout.KindUNID)}, {"sequence", check.SequenceRow, mail(layout.KindSequence)},
		{"modseq", check.ModSeqRow, mail(layout.KindModSeq)}, {"member", check.MemberRow, mail(layout.KindMember)},
		{"chunk", check.ChunkRow, mail(layout.KindChunk)}, {"head", check.FolderRow, mail(layout.KindFolder)},
		{"name", check.NameRow, mail(layout.KindName)}, {"counters", check.Counters, mail(layout.KindCounters)},
		{"hash", check.RecipeHash, shared(layout.SpaceRecipeHash)},
		{"object", check.Object, shared(layout.SpaceObject)},
		{"feed", check.FeedRow, shared(layout.SpaceFeed)},
	} {
		if x.name != "hash" && x.name != "name" && x.name != "feed" {
			add("delete "+x.name, x.kind, 0, first(x.at))
		}
		add("spoil "+x.name, x.kind, 0, spoil(x.at))
	}
	add("delete the register of a name", check.NameRow, 0,
		func(w *world) { w.del(append(layout.Prefix(w.num, layout.KindName), "INBOX"...)) })
	add("delete feed", check.FeedRow, 0, func(w *world) {
		keys, _ := w.rows(layout.Key(layout.SpaceFeed))
		w.del(keys[len(keys)-1])
	})
	add("delete deleted", check.DeletedRow, 0, first(mail(layout.KindDeleted)))
	add("delete thread", check.ThreadRow, 0, first(mail(layout.KindThread)))
	add("delete index", check.IndexRow, 0, first(docs(layout.KindView)))
	add("delete recipe reference", check.RecipeReference, 0, first(shared(layout.SpaceRecipeRef)))
	add("delete object reference", check.ObjectReference, 0, first(shared(layout.SpaceObjectRef)))
	add("delete sweep", check.SweepRow, 0, first(shared(layout.SpaceSweep)))
	add("delete leaf", check.LeafRow, 1, first(docs(layout.KindLeaf)))
	add("spoil leaf", check.LeafRow, 1, spoil(docs(layout.KindLeaf)))
	add("spoil peer", check.PeerRow, 0, spoil(docs(layout.KindPeer)))
	add("spoil cursor", check.CursorRow, 0, spoil(shared(layout.SpaceCursor)))
	add("delete folder content", check.ContentRow, 0, first(mail(layout.KindContent)))
	add("delete folder note", check.FolderRow, 1,
		func(w *world) { w.del(layout.NoteKey(w.num, layout.KindNote, w.inbox)) })
	for name, do := range map[string]func(w *world, id note.ID){
		"delete content": func(w *world, id note.ID) { w.del(layout.NoteKey(w.num, layout.KindContent, id)) },
		"spoil content": func(w *world, id note.ID) {
			w.set(layout.NoteKey(w.num, layout.KindContent, id), []byte{9})
		},
	} {
		add(name, check.ContentRow, 1, func(w *world) { id, _ := w.lastNote(w.num); do(w, id) })
	}
	add("delete note", check.ContentRow, 1,
		func(w *world) { id, _ := w.lastNote(w.num); w.del(layout.NoteKey(w.num, layout.KindNote, id)) })
	add("spoil note", check.NoteRow, 1, func(w *world) {
		id, _ := w.lastNote(w.num)
		w.set(layout.NoteKey(w.num, layout.KindNote, id), []byte{9})
	})
	add("delete recipe", check.Recipe, 1, func(w *world) {
		_, n := w.lastNote(w.num)
		w.del(layout.NumberKey(layout.SpaceRecipe, uint64(n.Recipe)))
	})
	add("spoil recipe", check.Recipe, 1, func(w *world) {
		_, n := w.lastNote(w.num)
		w.set(layout.NumberKey(layout.SpaceRecipe, uint64(n.Recipe)), []byte{1})
	})
	return append(out, orphansAndNumbers()...)
}

func orphansAndNumbers() []breakage {
	var out []breakage
	add := func(name string, kind check.Kind, do func(w *world)) {
		out = append(out, breakage{name: name, kind: kind, do: do})
	}
	id := layout.UNIDRow(9999)
	add("orphan unid", check.UNIDRow, row(func(w *world) []byte { return layout.UNIDKey(w.num, note.UNID{9}) }, id))
	add("orphan sequence", check.SequenceRow,
		row(func(w *world) []byte { return layout.IDKey(w.num, layout.KindSequence, 3) }, id))
	add("orphan modseq", check.ModSeqRow,
		row(func(w *world) []byte { return layout.IDKey(w.num, layout.KindModSeq, 777) },
			layout.AppendChange(nil, &layout.Change{Note: 3})))
	add("expunge of a member", check.ModSeqRow, func(w *world) {
		nid, n := w.lastNote(w.num)
		c := layout.Change{Note: nid, Expunged: true, Folder: n.Members[0].Folder, UID: n.Members[0].UID}
		w.set(layout.IDKey(w.num, layout.KindModSeq, 777), layout.AppendChange(nil, &c))
	})
	add("orphan member", check.MemberRow,
		row(func(w *world) []byte { return layout.FolderUIDKey(w.num, layout.KindMember, w.inbox, 3000) }, id))
	add("orphan deleted", check.DeletedRow,
		row(func(w *world) []byte { return layout.FolderUIDKey(w.num, layout.KindDeleted, w.inbox, 1) }, nil))
	add("orphan chunk", check.ChunkRow,
		row(func(w *world) []byte { return layout.FolderUIDKey(w.num, layout.KindChunk, w.inbox, 5) },
			layout.AppendChunk(nil, &layout.Chunk{Total: 1})))
	add("orphan thread", check.ThreadRow, row(func(w *world) []byte { return layout.ThreadKey(w.num, note.UNID{4}, 5) },
		nil))
	out = append(out, breakage{name: "orphan content", kind: check.ContentRow, lost: 1, do: func(w *world) {
		_, v := w.rows(layout.Prefix(w.num, layout.KindContent))
		w.set(layout.NoteKey(w.num, layout.KindContent, 9999), v[0])
	}})
	add("orphan leaf", check.LeafRow, func(w *world) {
		w.set(layout.LeafKey(w.dnum, w.docIDs[0], note.Revision{Generation: 4}),
			note.AppendContent(nil, &note.Content{}))
	})
	add("orphan head", check.FolderRow,
		row(func(w *world) []byte { return layout.NoteKey(w.num, layout.KindFolder, 9999) },
			layout.AppendFolder(nil, &layout.Folder{Name: "x"})))
	add("orphan index", check.IndexRow, func(w *world) {
		keys, _ := w.rows(layout.IDKey(w.dnum, layout.KindView, 7))
		k := keys[0]
		k[len(k)-1] = 200
		w.set(k, nil)
	})
	add("orphan recipe reference", check.RecipeReference,
		row(func(w *world) []byte { return layout.RecipeRefKey(77777, w.num, 4) }, nil))
	add("orphan object reference", check.ObjectReference,
		row(func(w *world) []byte { return layout.ObjectByNote(note.Digest{1}, w.num, 4) }, nil))
	add("orphan hash", check.RecipeHash,
		row(func(*world) []byte { return layout.Key(layout.SpaceRecipeHash, make([]byte, 32)) },
			layout.IDKey(0, 0, 5)[6:]))
	add("row of a database that is not there", check.Unknown,
		row(func(*world) []byte { return layout.IDKey(4000, layout.KindSequence, 5) }, nil))
	add("remnants of a database that has another number", check.Unknown, func(w *world) {
		_, v := w.rows(layout.Prefix(w.dnum, layout.KindInfo))
		info, err := layout.ReadInfo(v[0])
		if err != nil {
			w.t.Fatal(err)
		}
		info.Number = 4000
		w.set(layout.Prefix(4000, layout.KindInfo), layout.AppendInfo(nil, info))
	})
	add("row of an unknown kind", check.Unknown, row(func(w *world) []byte { return layout.IDKey(w.num, 'J', 5) }, nil))
	add("view number of nobody", check.Unknown,
		row(func(w *world) []byte { return layout.IDKey(w.num, layout.KindView, 300) }, nil))
	add("bad sweep row", check.SweepRow,
		row(func(*world) []byte { return layout.Key(layout.SpaceSweep, []byte("xyz")) }, nil))
	add("bad row of a copy", check.CopyRow,
		row(func(*world) []byte { return layout.CopyKey(7) }, []byte("x")))
	add("feed of nobody", check.FeedRow, row(func(*world) []byte { return layout.NumberKey(layout.SpaceFeed, 2) },
		layout.AppendFeed(nil, []layout.FeedItem{{Database: 700, Note: 1}})))

	add("counted notes", check.Counters, editCounters(func(c *layout.Counters) { c.Notes++ }))
	add("counted size", check.Counters, editCounters(func(c *layout.Counters) { c.Size += 5 }))
	add("counted expunges", check.Counters, editCounters(func(c *layout.Counters) { c.Expunged-- }))
	add("last sequence", check.Counters, editCounters(func(c *layout.Counters) { c.Seq = 3 }))
	add("last modseq", check.Counters, editCounters(func(c *layout.Counters) { c.Ledger.Last = 3 }))
	add("last uid", check.Counters, editCounters(func(c *layout.Counters) { c.Ledger.UID = 3 }))
	add("next note", check.Counters, editCounters(func(c *layout.Counters) { c.NextNote = 3 }))
	add("floor", check.ModSeqRow, editCounters(func(c *layout.Counters) { c.Floor = c.Ledger.Last }))

	add("head total", check.FolderRow, editHead(func(f *layout.Folder) { f.Total++ }))
	add("head deleted", check.FolderRow, editHead(func(f *layout.Folder) { f.Deleted++ }))
	add("head size", check.FolderRow, editHead(func(f *layout.Folder) { f.Size++ }))
	add("head seen", check.FolderRow,
		editHead(func(f *layout.Folder) { f.Seen = layout.AddSeen(f.Seen, note.UNID{8}, 1) }))
	add("head uidnext", check.FolderRow, editHead(func(f *layout.Folder) { f.UIDNext = 2 }))
	add("head name", check.FolderRow, editHead(func(f *layout.Folder) { f.Name = "other" }))
	add("head subscribers", check.FolderRow, editHead(func(f *layout.Folder) { f.Subscribed = nil }))
	add("head acl", check.FolderRow, editHead(func(f *layout.Folder) { f.HasACL = true }))
	add("head modseq", check.FolderRow, editHead(func(f *layout.Folder) { f.Mod = 1 }))

	add("note size", check.NoteRow, editNote(func(n *layout.Note) { n.Size++ }))
	add("note stub", check.NoteRow, editNote(func(n *layout.Note) { n.Stub = true }))
	add("note sequence", check.SequenceRow, editNote(func(n *layout.Note) { n.Seq++ }))
	add("note modseq", check.ModSeqRow, editNote(func(n *layout.Note) { n.Mod++ }))
	add("note deleted mark", check.NoteRow, editNote(func(n *layout.Note) { n.Members[0].Deleted = true }))
	add("note recipe", check.NoteRow, editNote(func(n *layout.Note) { n.Recipe, n.Size = 0, 0 }))
	add("note attached", check.NoteRow, func(w *world) {
		keys, values := w.rows(layout.NoteKey(w.dnum, layout.KindNote, w.docIDs[1]))
		n, err := layout.ReadNote(values[0])
		if err != nil || !n.Attached {
			w.t.Fatal(n, err)
		}
		n.Attached = false
		w.set(keys[0], layout.AppendNote(nil, n))
	})
	add("content of another revision", check.ContentRow, func(w *world) {
		keys, values := w.rows(layout.NoteKey(w.dnum, layout.KindContent, w.docIDs[0]))
		plain, err := w.s.Unseal(keys[0], values[0])
		if err != nil {
			w.t.Fatal(err)
		}
		c, err := layout.ReadContentRow(plain)
		if err != nil {
			w.t.Fatal(err)
		}
		c.Content.Items = items("subject 0", "tampered")
		w.set(keys[0], layout.AppendContentRow(nil, c))
	})
	add("database out of the list", check.DatabaseList,
		func(w *world) { w.del(layout.NumberKey(layout.SpaceDatabase, uint64(w.mail))) })
	return out
}

func TestBreakAndRepair(t *testing.T) {
	t.Parallel()
	for _, x := range breakages() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			breakAndRepair(t, build(t), &x)
		})
		t.Run("own key, "+x.name, func(t *testing.T) {
			t.Parallel()
			breakAndRepair(t, buildKeyed(t, true), &x)
		})
	}
}

func breakAndRepair(t *testing.T, w *world, x *breakage) {
	x.do(w)
	rep := w.check(false)
	named := false
	for _, f := range rep.Findings {
		named = named || f.Kind == x.kind
	}
	if !named {
		t.Fatalf("not found as %q:\n%s", x.kind, list(rep))
	}
	left, err := check.Repair(context.Background(), w.s, rep)
	if err != nil {
		t.Fatal(err)
	}
	if !left.Clean() || len(left.Lost) != x.lost {
		t.Fatalf("after repair (%d passes), lost %v, left:\n%s", left.Passes, left.Lost, list(left))
	}
	w.reopen()
	w.clean(true)
	w.serves()
}

// serves does ordinary work in both databases and checks that it leaves everything in order.
func (w *world) serves() {
	w.t.Helper()
	infos, err := w.s.Databases()
	if err != nil || len(infos) != 2 {
		w.t.Fatal(infos, err)
	}
	for _, i := range infos {
		if i.State != layout.InService {
			w.t.Fatalf("%s is %s: %s", i.Title, i.State, i.Reason)
		}
	}
	id := w.deliver(500, noise(50_000, 3), w.inbox)
	w.update(w.mail, func(wr *store.Writer) error { return wr.RemoveFrom(id, w.inbox) })
	w.deliver(501, nil, w.inbox, w.sent)
	w.clean(true)
}

func TestPlacesOfObjectsAreFoundAgain(t *testing.T) {
	t.Parallel()
	w := build(t)
	keys, values := w.rows(layout.Key(layout.SpaceObject))
	for i, k := range keys {
		values[i][0] = 100 // a segment that does not exist
		w.set(k, values[i])
	}
	rep := w.check(false)
	if len(rep.Findings) != len(keys) {
		t.Fatalf("found:\n%s", list(rep))
	}
	left, err := check.Repair(context.Background(), w.s, rep)
	if err != nil || !left.Clean() {
		t.Fatalf("%v\n%s", err, list(left))
	}
}

// damageObject changes bytes of an object while the store is closed.
func (w *world) damageObject() {
	w.t.Helper()
	if err := w.s.Close(); err != nil {
		w.t.Fatal(err)
	}
	names, err := w.f.FS.List("/data/objects")
	if err != nil || len(names) != 1 {
		w.t.Fatal(names, err)
	}
	f, err := w.f.FS.OpenReadWrite("/data/objects/"+names[0], vfs.WriteCategoryUnspecified)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("damage"), 20_000); err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// ship opens the store with a place for copies of its segments, and copies them. Above cache bytes they are evicted.
func (w *world) ship(cache int64) {
	w.t.Helper()
	files := vfs.NewMem()
	if err := files.MkdirAll("place", 0o700); err != nil {
		w.t.Fatal(err)
	}
	copier := func(e *env.Env, keys blob.Keys) store.Copier {
		return tier.New(e, blob.Folder(files, "place"), keys, 0)
	}
	w.tier = &store.Tier{Copier: copier, Cache: cache}
	w.reopen()
	if err := w.s.ShipSegments(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// The rows that say which segments have copies are lost. The repair finds the copies.
func TestLostRowsOfCopies(t *testing.T) {
	t.Parallel()
	w := build(t)
	w.ship(0)
	away := 0
	for _, seg := range w.s.Objects().Segments() {
		if seg.Away {
			away++
			w.del(layout.CopyKey(seg.ID))
		}
	}
	w.reopen()
	rep := w.check(false)
	if away == 0 || len(rep.Damaged) != away {
		t.Fatalf("%d segments were evicted, damaged %d, found:\n%s", away, rep.Damaged, list(rep))
	}
	left, err := check.Repair(context.Background(), w.s, rep)
	if err != nil || !left.Clean() || left.Found != away || len(left.Lost) != 0 {
		t.Fatalf("%d of %d segments were found, %v\n%s", left.Found, away, err, list(left))
	}
	w.reopen()
	w.clean(true)
}

// A damaged object whose segment has a copy elsewhere is whole after the repair.
func TestDamagedObjectHasCopy(t *testing.T) {
	t.Parallel()
	w := build(t)
	w.ship(1 << 40)
	w.damageObject()
	rep := w.check(true)
	if len(rep.Damaged) != 1 {
		t.Fatalf("damaged segments %d, found:\n%s", rep.Damaged, list(rep))
	}
	left, err := check.Repair(context.Background(), w.s, rep)
	if err != nil || !left.Clean() || left.Healed != 1 {
		t.Fatalf("%d healed, %v\n%s", left.Healed, err, list(left))
	}
	w.reopen()
	w.clean(true)
}

// A damaged object cannot be rebuilt. The finding stays, nothing is removed, and the databases serve everything that is
// whole.
func TestDamagedObjectStays(t *testing.T) {
	t.Parallel()
	w := build(t)
	w.damageObject()
	notes := w.check(false).Notes
	rep := w.check(true)
	if rep.Clean() {
		t.Fatal("a deep check did not see flipped bytes")
	}
	left, err := check.Repair(context.Background(), w.s, rep)
	if err != nil || len(left.Lost) != 0 || left.Notes != notes {
		t.Fatalf("lost %v, %d of %d notes, %v", left.Lost, left.Notes, notes, err)
	}
	w.reopen()
	if infos, err := w.s.Databases(); err != nil || infos[0].State != layout.InService ||
		infos[1].State != layout.InService {
		t.Fatal(infos, err)
	}
}

// A database that cannot be opened is repaired all the same.
func TestRepairOfWhatDoesNotOpen(t *testing.T) {
	t.Parallel()
	w := build(t)
	for _, num := range []uint32{w.num, w.dnum} {
		w.set(layout.Prefix(num, layout.KindCounters), []byte{1})
	}
	w.reopen()
	rep := w.check(false)
	left, err := check.Repair(context.Background(), w.s, rep)
	if err != nil || !left.Clean() || !left.Reopen {
		t.Fatalf("%v\n%s", err, list(left))
	}
	w.reopen()
	w.clean(true)
	w.serves()
}

// While databases are being repaired, and until the store has been opened again, nothing may be written that is based
// on damaged rows.
func TestNothingIsWrittenBeforeReopening(t *testing.T) {
	t.Parallel()
	w := build(t)
	editCounters(func(c *layout.Counters) { c.Notes += 7 })(w)
	left, err := check.Repair(context.Background(), w.s, w.check(false))
	if err != nil || !left.Reopen {
		t.Fatal(left.Reopen, err)
	}
	for id, want := range map[note.DatabaseID]error{w.mail: store.ErrOutOfService, w.docs: nil} {
		err := w.s.Update(context.Background(), note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
			wr, err := tx.Database(id)
			if err != nil {
				return err
			}
			_, err = wr.Create(store.New{})
			return err
		})
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
}

func TestRandomWorkStaysClean(t *testing.T) {
	t.Parallel()
	w := build(t)
	r := rand.New(rand.NewPCG(5, 5))
	var ids []note.ID
	for step := range 300 {
		switch n := r.IntN(10); {
		case n < 4 || len(ids) == 0:
			var big []byte
			if r.IntN(8) == 0 {
				big = noise(40_000, r.Uint64()%4)
			}
			folders := [][]note.ID{{w.inbox}, {w.sent}, {w.inbox, w.sent}}[r.IntN(3)]
			ids = append(ids, w.deliver(r.IntN(30), big, folders...))
		default:
			i := r.IntN(len(ids))
			if w.randomChange(r, ids[i], n) {
				ids = append(ids[:i], ids[i+1:]...)
			}
		}
		if step%50 == 49 {
			if _, err := w.s.Sweep(context.Background(), 1000); err != nil {
				t.Fatal(err)
			}
			w.clean(true)
		}
	}
}

// randomChange changes a note and reports whether the note is gone.
func (w *world) randomChange(r *rand.Rand, id note.ID, what int) (gone bool) {
	w.t.Helper()
	w.update(w.mail, func(wr *store.Writer) error {
		n, err := wr.Note(id)
		if err != nil {
			return err
		}
		m := n.Members[r.IntN(len(n.Members))]
		switch what {
		case 4:
			return wr.SetSeen(id, note.UNID{byte(r.IntN(3))}, r.IntN(2) == 0)
		case 5:
			return wr.MarkDeleted(id, m.Folder, r.IntN(2) == 0)
		case 6:
			gone = len(n.Members) == 1
			return wr.RemoveFrom(id, m.Folder)
		case 7:
			if _, err := wr.AddTo(id, w.sent); !errors.Is(err, store.ErrExists) {
				return err
			}
			return nil
		case 8:
			gone = true
			return wr.Destroy(id)
		}
		return wr.SetKeyword(id, "k", r.IntN(2) == 0)
	})
	return gone
}

func TestLimit(t *testing.T) {
	t.Parallel()
	w := build(t)
	for i := range 20 {
		w.set(layout.UNIDKey(w.num, note.UNID{7, byte(i)}), layout.UNIDRow(9999))
	}
	rep, err := check.Run(context.Background(), w.s, check.Options{Limit: 5})
	if err != nil || len(rep.Findings) != 5 || rep.More < 15 {
		t.Fatalf("%d findings, %d more, %v", len(rep.Findings), rep.More, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := check.Run(ctx, w.s, check.Options{}); err == nil {
		t.Fatal("a check that was called off has no error")
	}
}
