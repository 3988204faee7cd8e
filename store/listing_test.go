package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store/layout"
	"doublet/test/long"
)

// LimitListings sets the memory for listings in bytes.
func LimitListings(s *Store, size int64) { s.dbs.listed.most = size }

// ListAll reads all members of all folders of a database and their rows, so that their listings are in memory if there
// is room.
func ListAll(s *Store, id note.DatabaseID) error {
	return s.Read(context.Background(), note.System, id, func(r *Reader) error {
		for _, f := range r.AllFolders() {
			var failed error
			err := r.Members(f.Note, 1, note.MaxUID, func(_ uint32, id note.ID) bool {
				_, failed = r.note(id)
				return failed == nil
			})
			if err = errors.Join(err, failed); err != nil {
				return err
			}
		}
		return nil
	})
}

// CompareListings compares the listings of a database with the rows that they stand for. It returns the number of rows
// of notes that were in memory.
func CompareListings(s *Store, id note.DatabaseID) (rows int, err error) {
	db, err := s.dbs.acquire(id)
	if err != nil {
		return 0, err
	}
	defer s.dbs.release(db)
	db.publish.RLock()
	st, snap := db.cur.Load(), s.eng.NewSnapshot()
	db.publish.RUnlock()
	defer snap.Close()
	sn := snapshot{s: s, db: db, st: st, eng: snap}
	st.listings.mu.Lock()
	list := slices.Clone(st.listings.list)
	st.listings.mu.Unlock()
	for _, l := range list {
		n, err := compareListing(&sn, l)
		if rows += n; err != nil {
			return rows, fmt.Errorf("listing of folder %d: %v", l.folder, err)
		}
	}
	return rows, nil
}

func compareListing(sn *snapshot, l *listing) (rows int, err error) {
	chunks := slices.Clone(l.chunks)
	if err := scan(sn.eng, layout.NoteKey(sn.db.num, layout.KindChunk, l.folder), func(k, v []byte) error {
		if len(chunks) == 0 || chunks[0].number != layout.Tail32(k) {
			return fmt.Errorf("chunk %d is missing", layout.Tail32(k))
		}
		if got := layout.AppendChunk(nil, &chunks[0].counts); !bytes.Equal(got, v) {
			return fmt.Errorf("chunk %d: counters are %x, want %x", chunks[0].number, got, v)
		}
		chunks = chunks[1:]
		return nil
	}); err != nil || len(chunks) > 0 {
		return 0, fmt.Errorf("%d chunks are left: %v", len(chunks), err)
	}
	for _, c := range l.chunks {
		list := c.members.Load()
		if list == nil {
			continue
		}
		want, err := sn.readMembers(l.folder, c)
		if err != nil || len(want) != len(*list) {
			return rows, fmt.Errorf("chunk %d has %d members, want %d: %v", c.number, len(*list), len(want), err)
		}
		for i, m := range *list {
			if w := want[i]; m.uid != w.uid || m.id != w.id || m.deleted != w.deleted {
				return rows, fmt.Errorf("member %d is %d, note %d, deleted %v; want %d, note %d, deleted %v", i, m.uid,
					m.id, m.deleted, w.uid, w.id, w.deleted)
			}
			row := m.row.Load()
			if row == nil {
				continue
			}
			rows++
			v, err := getValue(sn.eng, layout.NoteKey(sn.db.num, layout.KindNote, m.id))
			if err != nil || !bytes.Equal(layout.AppendNote(nil, row), v) {
				return rows, fmt.Errorf("row of note %d is %+v, want %x: %v", m.id, row, v, err)
			}
		}
	}
	return rows, nil
}

// listingWorld is a database whose folders are changed and read at random.
type listingWorld struct {
	t  testing.TB
	s  *Store
	db note.DatabaseID
}

func newListingWorld(t testing.TB, o Options) *listingWorld {
	t.Helper()
	s, err := Open(env.TestRealTime(t).Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := &listingWorld{t: t, s: s}
	if w.db, err = s.CreateDatabase(note.System, Create{}); err != nil {
		t.Fatal(err)
	}
	w.update(func(w *Writer) error {
		_, err := w.CreateFolder("a", "")
		_, err2 := w.CreateFolder("b", "")
		return errors.Join(err, err2)
	})
	return w
}

func (w *listingWorld) update(fn func(w *Writer) error) {
	err := w.s.Update(context.Background(), note.System, []note.DatabaseID{w.db}, func(tx *Tx) error {
		wr, err := tx.Database(w.db)
		if err != nil {
			return err
		}
		return fn(wr)
	})
	if err != nil {
		w.t.Error(err)
	}
}

func (w *listingWorld) read(fn func(r *Reader) error) {
	if err := w.s.Read(context.Background(), note.System, w.db, fn); err != nil {
		w.t.Error(err)
	}
}

// fill creates n notes in folder 1.
func (w *listingWorld) fill(n int) {
	w.update(func(w *Writer) error {
		for range n {
			if _, err := w.Create(New{Folders: []note.ID{1}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// change makes a few random changes in one update.
func (w *listingWorld) change(rng *rand.Rand) {
	w.update(func(w *Writer) error {
		for range 1 + rng.IntN(4) {
			folder := note.ID(1 + rng.IntN(2))
			f := w.st.folder(folder)
			if rng.IntN(3) == 0 || f.Total == 0 {
				if _, err := w.Create(New{Folders: []note.ID{folder}, MarkDeleted: rng.IntN(4) == 0}); err != nil {
					return err
				}
				continue
			}
			uid, err := w.At(folder, uint32(rng.IntN(int(f.Total))))
			if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
				continue // the head has the changes of this update, the members have not
			}
			if err != nil {
				return err
			}
			id, err := w.Member(folder, uid)
			if err != nil {
				return err
			}
			if err := randomChange(w, rng, folder, id); err != nil && !errors.Is(err, ErrNotFound) &&
				!errors.Is(err, ErrExists) {
				return err
			}
		}
		return nil
	})
}

func randomChange(w *Writer, rng *rand.Rand, folder, id note.ID) error {
	switch rng.IntN(6) {
	case 0:
		return w.RemoveFrom(id, folder)
	case 1:
		_, err := w.AddTo(id, 3-folder)
		return err
	case 2:
		return w.MarkDeleted(id, folder, rng.IntN(2) == 0)
	case 3:
		return w.SetKeyword(id, fmt.Sprint("k", rng.IntN(3)), rng.IntN(2) == 0)
	}
	return w.SetSeen(id, note.UNID{byte(1 + rng.IntN(3))}, rng.IntN(2) == 0)
}

// agrees checks that a reader gets the same from the listings as from the rows of its snapshot.
func agrees(r *Reader, folder note.ID) error {
	var uids, marked []uint32
	if err := r.scanUIDs(layout.KindMember, folder, 0, note.MaxUID, func(uid uint32, _ []byte) bool {
		uids = append(uids, uid)
		return true
	}); err != nil {
		return err
	}
	if err := r.scanUIDs(layout.KindDeleted, folder, 0, note.MaxUID, func(uid uint32, _ []byte) bool {
		marked = append(marked, uid)
		return true
	}); err != nil {
		return err
	}
	i := 0
	var failed error
	err := r.Members(folder, 0, note.MaxUID, func(uid uint32, id note.ID) bool {
		row, err := r.Note(id)
		if err != nil || i >= len(uids) || uid != uids[i] {
			failed = fmt.Errorf("member %d of %d is %d, note %d: %v", i, len(uids), uid, id, err)
			return false
		}
		m, _ := row.Member(folder)
		if _, found := slices.BinarySearch(marked, uid); m.UID != uid || m.Deleted != found {
			failed = fmt.Errorf("UID %d: the row says %+v, and it is marked deleted: %v", uid, m, found)
			return false
		}
		i++
		return true
	})
	if err = errors.Join(err, failed); err != nil || i != len(uids) {
		return fmt.Errorf("%d members, want %d: %v", i, len(uids), err)
	}
	for i := 0; i < len(uids); i += 1 + len(uids)/5 {
		rank, err := r.Rank(folder, uids[i])
		at, err2 := r.At(folder, uint32(i))
		id, err3 := r.Member(folder, uids[i])
		if err = errors.Join(err, err2, err3); err != nil || int(rank) != i || at != uids[i] || id == 0 {
			return fmt.Errorf("rank of %d is %d, want %d; at it is %d: %v", uids[i], rank, i, at, err)
		}
	}
	var got []uint32
	err = r.MarkedDeleted(folder, 0, note.MaxUID, func(uid uint32) bool { got = append(got, uid); return true })
	if err != nil || !slices.Equal(got, marked) {
		return fmt.Errorf("marked deleted: %v, want %v: %v", got, marked, err)
	}
	return nil
}

// TestListings changes and reads folders of several chunks at the same time, with much, little and no memory for
// listings. Each reader must get the same from the listings as from the rows, and at rest the listings that are left
// are those of the rows.
func TestListings(t *testing.T) {
	t.Parallel()
	for seed, memory := range []int64{4 << 20, 100 << 10, 0} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			t.Parallel()
			w := newListingWorld(t, crashOptions())
			LimitListings(w.s, memory)
			w.fill(1100)
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
					for range long.Pick(150, 1500) {
						w.change(rng)
					}
				})
				wg.Go(func() {
					for range long.Pick(60, 600) {
						w.read(func(r *Reader) error { return errors.Join(agrees(r, 1), agrees(r, 2)) })
					}
				})
			}
			wg.Wait()
			if err := ListAll(w.s, w.db); err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(seed), 9))
			for range 100 {
				w.change(rng)
				if _, err := CompareListings(w.s, w.db); err != nil {
					t.Fatal(err)
				}
			}
			rows, err := CompareListings(w.s, w.db)
			if err != nil || memory == 0 && rows > 0 || memory == 4<<20 && rows < 1000 {
				t.Errorf("%d rows are in memory: %v", rows, err)
			}
		})
	}
}

// spread creates n folders more and puts a note into each, and reads all of them, the last first.
func (w *listingWorld) spread(n int) (folders []note.ID) {
	w.update(func(w *Writer) error {
		for i := range n {
			f, err := w.CreateFolder(fmt.Sprint("more", i), "")
			if err != nil {
				return err
			}
			folders = append(folders, f)
			if _, err := w.Create(New{Folders: []note.ID{f}}); err != nil {
				return err
			}
		}
		return nil
	})
	w.read(func(r *Reader) error {
		for _, f := range slices.Backward(folders) {
			if err := agrees(r, f); err != nil {
				return err
			}
		}
		return nil
	})
	return folders
}

// TestListingsOfManyFolders makes commits that change some of many listed folders, and remove some.
func TestListingsOfManyFolders(t *testing.T) {
	t.Parallel()
	w := newListingWorld(t, crashOptions())
	LimitListings(w.s, 4<<20)
	folders := w.spread(40)
	rng := rand.New(rand.NewPCG(1, 8))
	for len(folders) > 10 {
		at := 1 + rng.IntN(len(folders)-1)
		gone := folders[at]
		folders = slices.Delete(folders, at, at+1)
		var members []note.ID
		w.read(func(r *Reader) error {
			return r.Members(gone, 1, note.MaxUID, func(_ uint32, id note.ID) bool {
				members = append(members, id)
				return true
			})
		})
		w.update(func(w *Writer) error {
			for range 20 {
				folder := folders[rng.IntN(len(folders))]
				id, err := w.Create(New{Folders: []note.ID{folder}})
				if err != nil {
					return err
				}
				if _, err := w.AddTo(id, folders[0]); err != nil && !errors.Is(err, ErrExists) {
					return err
				}
				if uid, err := w.At(folder, 0); err == nil && folder != folders[0] {
					if id, err = w.Member(folder, uid); err == nil {
						_ = w.RemoveFrom(id, folder)
					}
				}
			}
			for _, id := range members {
				if err := w.RemoveFrom(id, gone); err != nil {
					return err
				}
			}
			return w.DeleteFolder(gone)
		})
		if rows, err := CompareListings(w.s, w.db); err != nil || rows == 0 {
			t.Fatalf("%d rows are in memory: %v", rows, err)
		}
	}
	w.read(func(r *Reader) error {
		for _, f := range folders {
			if err := agrees(r, f); err != nil {
				return err
			}
		}
		if n := len(r.st.listings.list); n != len(folders) {
			t.Errorf("%d folders are listed, want %d", n, len(folders))
		}
		return nil
	})
}

// BenchmarkCommitBesideListings measures a commit that changes the notes of one folder while many others are listed.
func BenchmarkCommitBesideListings(b *testing.B) {
	for _, folders := range []int{1, 500} {
		b.Run(fmt.Sprint(folders, " folders"), func(b *testing.B) {
			w := newListingWorld(b, crashOptions())
			LimitListings(w.s, 64<<20)
			w.fill(2000)
			w.spread(folders)
			w.read(func(r *Reader) error { return agrees(r, 1) })
			on := false
			for b.Loop() {
				on = !on
				w.update(func(w *Writer) error {
					for id := note.ID(3); id < 2003; id++ {
						if err := w.SetKeyword(id, "k", on); err != nil {
							return err
						}
					}
					return nil
				})
			}
		})
	}
}

// TestListingsAreBounded checks that listings take no more memory than there is for them, that a database that is used
// keeps its own while those of others go, and that nothing of a closed or removed database counts.
func TestListingsAreBounded(t *testing.T) {
	t.Parallel()
	o := crashOptions()
	o.Stats = stat.New(env.Test(t).Clock)
	w := newListingWorld(t, o)
	const most = 300 << 10
	LimitListings(w.s, most)
	var worlds []*listingWorld
	for range 4 {
		x := &listingWorld{t: t, s: w.s}
		var err error
		if x.db, err = w.s.CreateDatabase(note.System, Create{}); err != nil {
			t.Fatal(err)
		}
		x.update(func(w *Writer) error { _, err := w.CreateFolder("a", ""); return err })
		x.fill(300)
		// The first time there may be no room before the end, when the listings of another database go.
		if err := errors.Join(ListAll(w.s, x.db), ListAll(w.s, x.db)); err != nil {
			t.Fatal(err)
		}
		if n := w.s.dbs.listed.bytes.Load(); n <= 0 || n >= most {
			t.Errorf("listings take %d bytes of %d", n, most)
		}
		worlds = append(worlds, x)
	}
	if rows, err := CompareListings(w.s, worlds[3].db); err != nil || rows != 300-maxRecent {
		t.Errorf("the last database has %d rows in memory: %v", rows, err)
	}
	if rows, err := CompareListings(w.s, worlds[0].db); err != nil || rows != 0 {
		t.Errorf("the first database has %d rows in memory: %v", rows, err)
	}
	list := o.Stats.Snapshot("Database.FolderCache.*")
	for _, e := range list {
		if e.Value <= 0 {
			t.Errorf("%s is %v", e.Name, e.Value)
		}
	}
	if len(list) != 5 {
		t.Errorf("%d statistics", len(list))
	}
	for _, x := range worlds {
		if err := w.s.RemoveDatabase(note.System, x.db); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.s.dbs.listed.bytes.Load(); n != 0 {
		t.Errorf("without a database with members listings take %d bytes", n)
	}
}

// TestListingOfDamage checks that a damaged row of a membership is an error that names it, and that the other members
// can be read.
func TestListingOfDamage(t *testing.T) {
	t.Parallel()
	w := newListingWorld(t, crashOptions())
	w.fill(5)
	key := func(db *database) []byte { return layout.FolderUIDKey(db.num, layout.KindMember, 1, 3) }
	db, err := w.s.dbs.acquire(w.db)
	if err != nil {
		t.Fatal(err)
	}
	defer w.s.dbs.release(db)
	if err := w.s.eng.Set(key(db), []byte{0x80}, nil); err != nil {
		t.Fatal(err)
	}
	w.read(func(r *Reader) error {
		var got []uint32
		err := r.Members(1, 1, 9, func(uid uint32, _ note.ID) bool { got = append(got, uid); return true })
		if !errors.Is(err, ErrDamaged) || !slices.Equal(got, []uint32{1, 2}) {
			t.Errorf("listed %v: %v", got, err)
		}
		if _, err := r.Member(1, 3); !errors.Is(err, ErrDamaged) {
			t.Errorf("member 3: %v", err)
		}
		if id, err := r.Member(1, 4); err != nil || id == 0 {
			t.Errorf("member 4 is note %d: %v", id, err)
		}
		rank, err := r.Rank(1, 5)
		if rank != 4 {
			t.Errorf("rank of 5 is %d", rank)
		}
		return err
	})
}

// TestListingOfWrongMember checks that the row of a note that a damaged store lists under another UID is the current
// one after a change.
func TestListingOfWrongMember(t *testing.T) {
	t.Parallel()
	w := newListingWorld(t, crashOptions())
	w.fill(2) // notes 3 and 4, UIDs 1 and 2
	db, err := w.s.dbs.acquire(w.db)
	if err != nil {
		t.Fatal(err)
	}
	defer w.s.dbs.release(db)
	if err := w.s.eng.Set(layout.FolderUIDKey(db.num, layout.KindMember, 1, 1), layout.UNIDRow(4), nil); err != nil {
		t.Fatal(err)
	}
	for range maxRecent { // so that the rows of the notes are not among the latest changes
		w.update(func(w *Writer) error { _, err := w.Create(New{Folders: []note.ID{2}}); return err })
	}
	if err := ListAll(w.s, w.db); err != nil {
		t.Fatal(err)
	}
	w.update(func(w *Writer) error { return w.SetKeyword(4, "k", true) })
	w.read(func(r *Reader) error {
		id, err := r.Member(1, 1)
		if err != nil || id != 4 {
			t.Fatalf("UID 1 is note %d: %v", id, err)
		}
		n, err := r.Note(id)
		if err == nil && !slices.Contains(slices.Collect(n.Keywords), "k") {
			t.Errorf("the row is an old one: %+v", n)
		}
		return err
	})
}

// TestTailOfDroppedFolder checks that the chunk of the last delivery is forgotten with its folder, which may come back
// under its id.
func TestTailOfDroppedFolder(t *testing.T) {
	t.Parallel()
	w := newListingWorld(t, crashOptions())
	w.fill(2) // notes 3 and 4
	w.update(func(w *Writer) error {
		return errors.Join(w.RemoveFrom(3, 1), w.RemoveFrom(4, 1), w.DeleteFolder(1))
	})
	db, err := w.s.dbs.acquire(w.db)
	if err != nil {
		t.Fatal(err)
	}
	defer w.s.dbs.release(db)
	if db.tail.valid && db.tail.folder == 1 {
		t.Errorf("the tail is that of the folder: %+v", db.tail)
	}
}
