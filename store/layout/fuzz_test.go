package layout

import (
	"bytes"
	"reflect"
	"testing"

	"doublet/note"
)

var (
	fullNote = Note{
		UNID: note.UNID{1}, Class: note.Document, Seq: 7, Mod: 1 << 40, Created: 3, Recipe: 9, Size: 100, Date: -5,
		Thread: note.UNID{2},
		Author: note.UNID{3}, Foldered: true, Attached: true,
		Members:    []Membership{{Folder: 1, UID: 4_000_000_000, Saved: 5, Deleted: true}},
		Unnumbered: true,
		State:      note.State{{Kind: note.Keyword, Key: "k", Value: note.On, Stamp: note.Stamp{Time: 9, Replica: 2}}},
	}
	fullFolder = Folder{
		Note: 5, UNID: note.UNID{1}, Name: "a/b", SpecialUse: "Junk", UIDValidity: 1, UIDNext: 2, Told: 1, Total: 3,
		Deleted: 4, Size: 5, Mod: 6,
		Seen: []SeenCount{{note.UNID{1}, 7}}, Subscribed: []note.UNID{{8}}, HasACL: true,
		ACL: note.ACL{Default: note.Reader,
			Entries: []note.Entry{{ID: note.UNID{1}, Level: note.Editor, Plus: note.Create, Minus: note.Post}}},
		Keywords: []string{"$label1", "work"},
	}
	fullContent = Content{
		Tree: note.Tree{{Rev: note.Revision{Generation: 1, Hash: [16]byte{1}}, Changed: []string{"A"}}},
		Content: note.Content{Items: note.MakeItems(note.Item{Name: "A", Value: note.Text("x")}),
			Message: note.Digest{1}},
		Summary: []byte("sum"),
	}
	fullCounters = Counters{NextNote: 1, Seq: 2, Notes: 4, Size: 5, Floor: 6, Expunged: 7, LastUIDValidity: 8,
		Ledger: note.Ledger{Slot: 3, Shared: true, Skip: true, Last: 9, UID: 10, Partial: true, Complete: 4,
			CompleteUID: 3, High: 11}}
	fullInfo = Info{ID: 1, Number: 2, Replica: 3, Title: "t", Kind: "k", Owner: note.UNID{4}, Created: -5,
		State: PendingDelete, Reason: "r", Quota: 6, Warning: 7, Queue: true, Ack: AckStrict, NoFullText: true,
		Stamp: note.Stamp{Time: 8, Replica: 9}, Mod: 10,
		Key: &DatabaseKey{Wrapped: []byte{1, 2}, File: "/key", Leaving: true, Settled: true}}
	fullChange = Change{Note: 1, Expunged: true, Folder: 2, UID: 3, UNID: note.UNID{4}, Time: 5}
	fullChunk  = Chunk{Total: 9, Seen: []SeenCount{{note.UNID{1}, 7}}}
	fullCopy   = Copy{Incarnation: 1 << 60, Name: "segments/1", Stored: 300, Sum: [32]byte{1}, Size: 200,
		Head: [HeadSize]byte{2}, Gone: true}
)

// rows reads every kind of row. Each function returns the decoded row and its encoding.
var rows = []struct {
	name string
	full []byte
	read func(b []byte) (again []byte, err error)
}{
	{"note", AppendNote(nil, &fullNote), func(b []byte) ([]byte, error) {
		n, err := ReadNote(b)
		if err != nil {
			return nil, err
		}
		return AppendNote(nil, n), nil
	}},
	{"folder", AppendFolder(nil, &fullFolder), func(b []byte) ([]byte, error) {
		f, err := ReadFolder(5, b)
		if err != nil {
			return nil, err
		}
		return AppendFolder(nil, f), nil
	}},
	{"content", AppendContentRow(nil, &fullContent), func(b []byte) ([]byte, error) {
		c, err := ReadContentRow(b)
		if err != nil {
			return nil, err
		}
		return AppendContentRow(nil, c), nil
	}},
	{"counters", AppendCounters(nil, &fullCounters),
		func(b []byte) ([]byte, error) { c, err := ReadCounters(b); return AppendCounters(nil, &c), err }},
	{"info", AppendInfo(nil, &fullInfo), func(b []byte) ([]byte, error) {
		i, err := ReadInfo(b)
		if err != nil {
			return nil, err
		}
		return AppendInfo(nil, i), nil
	}},
	{"sealed", sealedRow(AppendSealedHead(nil, 5, 4, []note.Digest{{6}, {7}})), func(b []byte) ([]byte, error) {
		s, err := ReadSealed(b)
		if err != nil {
			return nil, err
		}
		return append(append(AppendSealedHead(nil, s.Database, s.Key, s.Names), s.Nonce...), s.Text...), nil
	}},
	{"change", AppendChange(nil, &fullChange),
		func(b []byte) ([]byte, error) { c, err := ReadChange(b); return AppendChange(nil, &c), err }},
	{"chunk", AppendChunk(nil, &fullChunk),
		func(b []byte) ([]byte, error) { c, err := ReadChunk(b); return AppendChunk(nil, &c), err }},
	{"peer in step", AppendPeer(nil, &Peer{1, -2, Met{3, 4, 5, 6}}),
		func(b []byte) ([]byte, error) { p, err := ReadPeer(b); return AppendPeer(nil, &p), err }},
	{"peer", AppendPeer(nil, &Peer{Passed: 1, Heard: -2}),
		func(b []byte) ([]byte, error) { p, err := ReadPeer(b); return AppendPeer(nil, &p), err }},
	{"copy", AppendCopy(nil, &fullCopy),
		func(b []byte) ([]byte, error) { c, err := ReadCopy(b); return AppendCopy(nil, &c), err }},
	{"unid", UNIDRow(7), func(b []byte) ([]byte, error) { id, err := ReadUNIDRow(b); return UNIDRow(id), err }},
	{"feed", AppendFeed(nil, []FeedItem{{1, 2, 9}, {3, 4, 10}}),
		func(b []byte) ([]byte, error) { f, err := ReadFeed(9, b); return AppendFeed(nil, f), err }},
}

// sealedRow appends a nonce without a content, so that no byte may be missing.
func sealedRow(head []byte) []byte { return append(head, make([]byte, SealedNonce)...) }

// earlier is the length of a row in an older version, which had fewer fields at the end.
var earlier = map[string]int{
	"peer in step": len(AppendPeer(nil, &Peer{Passed: 1, Heard: -2})),
	"counters":     len(AppendCounters(nil, &fullCounters)) - 1,
}

func TestRowsComeBack(t *testing.T) {
	t.Parallel()
	for _, r := range rows {
		again, err := r.read(r.full)
		if err != nil || !bytes.Equal(again, r.full) {
			t.Errorf("%s: %x became %x: %v", r.name, r.full, again, err)
		}
		for n := range r.full { // a truncated row is damaged; it must never be read as a different row
			if n == earlier[r.name] {
				continue
			}
			if _, err := r.read(r.full[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes were taken for a row", r.name, n, len(r.full))
			}
		}
		if r.name == "sealed" {
			continue // its text may be longer
		}
		if _, err := r.read(append(bytes.Clone(r.full), 0)); err == nil {
			t.Errorf("%s: a byte too many was taken", r.name)
		}
	}
	n, err := ReadNote(rows[0].full)
	if err != nil || !reflect.DeepEqual(*n, fullNote) {
		t.Errorf("note %+v, want %+v", n, fullNote)
	}
	f, err := ReadFolder(5, rows[1].full)
	if err != nil || !reflect.DeepEqual(*f, fullFolder) {
		t.Errorf("folder %+v, want %+v", f, fullFolder)
	}
}

func FuzzRows(f *testing.F) {
	for i, r := range rows {
		f.Add(uint8(i), r.full)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		r := rows[int(kind)%len(rows)]
		again, err := r.read(b)
		if err != nil {
			return
		}
		// Decoding and encoding again must give the same result.
		third, err := r.read(again)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("%s: %x became %x: %v", r.name, again, third, err)
		}
	})
}

func TestAddSeen(t *testing.T) {
	t.Parallel()
	a, b := note.UNID{1}, note.UNID{2}
	l := AddSeen(AddSeen(AddSeen(nil, a, 1), b, 1), a, 1)
	if SeenBy(l, a) != 2 || SeenBy(l, b) != 1 {
		t.Errorf("%v", l)
	}
	if l = AddSeen(AddSeen(l, a, -2), note.UNID{3}, -1); len(l) != 1 || SeenBy(l, b) != 1 {
		t.Errorf("%v", l)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	k := FolderUIDKey(7, KindMember, 9, 1<<31)
	db, kind, rest, ok := Split(k)
	if !ok || db != 7 || kind != KindMember || len(rest) != 12 || Tail32(k) != 1<<31 {
		t.Errorf("%x: %d %c %x", k, db, kind, rest)
	}
	if After([]byte{1, 255, 255})[0] != 2 || After([]byte{255}) != nil {
		t.Error("After")
	}
	if !bytes.HasPrefix(LeafKey(1, 2, note.Revision{Generation: 3}), NoteKey(1, KindLeaf, 2)) {
		t.Error("leaf keys lie under their note")
	}
}
