package replica

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// sample returns a note that uses every field.
func sample(rng *rand.Rand) *store.Remote {
	u := func() (u note.UNID) {
		for i := range u {
			u[i] = byte(rng.Uint32())
		}
		return u
	}
	n := &store.Remote{UNID: u(), Class: note.Document, Date: rng.Int64N(1 << 31), Thread: u(), Author: u(),
		Foldered: rng.IntN(2) == 0, Contents: map[note.Revision]*note.Content{}}
	c := note.Content{Items: note.MakeItems(note.Item{Name: "Subject", Value: note.Text("x")},
		note.Item{Name: "N", Value: note.Int(rng.Int64())})}
	first := note.NextRevision(note.Revision{}, n.Class, false, &c)
	n.Tree = note.Tree{}.Add(note.Node{Rev: first})
	for range 1 + rng.IntN(3) {
		d := c
		d.Items = d.Items.With("N", note.Int(rng.Int64()))
		if rng.IntN(3) == 0 {
			d.Attachments = []note.Attachment{{Name: "a.txt", Type: "text/plain", Size: 3, Digest: note.Digest{1, 2}}}
		}
		del := rng.IntN(4) == 0
		if del {
			d = note.Content{}
		}
		rev := note.NextRevision(first, n.Class, del, &d)
		n.Tree = n.Tree.Add(note.Node{Rev: rev, Parent: first, Deleted: del, Changed: []string{"N"}})
		if !del {
			n.Contents[rev] = &d
		}
	}
	at := note.Stamp{Time: rng.Uint64(), Replica: note.ReplicaID(rng.Uint64())}
	person, folder := u(), u()
	n.State = n.State.Set(note.Keyword, "$forwarded", note.On, at).Set(note.Seen, string(person[:]), note.Off,
		at).Set(note.Member, string(folder[:]), note.Deleted, at)
	if rng.IntN(2) == 0 {
		n.Message, n.Size, n.Summary = []byte("recipe"), 77, []byte("summary")
	}
	return n
}

func samplePage(seed uint64) *ChangePage {
	rng := rand.New(rand.NewPCG(seed, 3))
	p := &ChangePage{From: Peer{Store: rng.Uint64(), Replica: 9}, Left: rng.IntN(5),
		Refused: []Refused{{UNID: note.UNID{3}, Kind: "damaged", Text: "it is"}}}
	for range rng.IntN(4) {
		n := sample(rng)
		thin := rng.IntN(3) == 0
		if thin {
			n.Contents, n.Message, n.Summary = nil, nil, nil
		}
		p.Notes = append(p.Notes, Change{Thin: thin, Note: n})
	}
	return p
}

func sampleLedger(seed uint64) *LedgerPage {
	rng := rand.New(rand.NewPCG(seed, 4))
	p := &LedgerPage{Peer: Peer{Store: 1, Replica: 2}}
	p.From, p.To, p.More, p.Whole, p.Floor, p.Seq = 5, 9, true, true, 4, 77
	p.Of = store.Position{Ledger: note.Ledger{Slot: 3, Shared: true, Last: 11, UID: 70000}, LastUIDValidity: 1700000000}
	p.Info = &layout.Info{ID: 5, Title: "Mail of Ada", Kind: "mail"}
	for i := range rng.IntN(4) {
		n := store.Numbered{Remote: *sample(rng), Mod: note.ModSeq(i + 6), Created: 6, Ahead: i == 1}
		if i == 0 {
			n.Folder = &store.NumberedFolder{UIDValidity: 5, UIDNext: 9, Mod: 7}
		}
		n.Members = []store.NumberedMember{{Folder: note.UNID{1}, UID: 70001, Saved: 5, Deleted: true}}
		p.Notes = append(p.Notes, n)
	}
	p.Told = []store.ToldFolder{{Folder: note.UNID{5}, UID: 70001}}
	p.Expunged = []store.Expunge{{Mod: 8, Note: note.UNID{4}, Folder: note.UNID{5}, UID: 3, Time: 9},
		{Mod: 9, Gone: true, Stub: sample(rng)}}
	return p
}

// TestPages checks that everything decodes to what was encoded.
func TestPages(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		p := samplePage(seed)
		got, err := ReadChangePage(AppendChangePage(nil, Version, p))
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Fatalf("seed %d: %v\n%+v\n%+v", seed, err, got, p)
		}
		l := sampleLedger(seed)
		back, err := ReadLedgerPage(AppendLedgerPage(nil, Version, l))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if a, b := AppendLedgerPage(nil, Version, l), AppendLedgerPage(nil, Version, back); !bytes.Equal(a, b) ||
			len(back.Notes) != len(l.Notes) || back.Of.LastUIDValidity != l.Of.LastUIDValidity {
			t.Fatalf("seed %d: the ledger page came otherwise", seed)
		}
	}
}

// TestEveryField counts the fields of the transferred store types. A new field has to be encoded under a new protocol
// version and added here.
func TestEveryField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   any
		want int
	}{
		{store.Remote{}, 13}, {store.Numbered{}, 6}, {store.NumberedMember{}, 4}, {store.NumberedFolder{}, 3},
		{store.Expunge{}, 10},
		{store.LedgerPage{}, 13}, {store.ToldFolder{}, 2}, {store.Position{}, 2}, {store.ObjectRef{}, 2},
	} {
		if got := reflect.TypeOf(c.of).NumField(); got != c.want {
			t.Errorf("%T has %d fields, and not %d: does it travel whole?", c.of, got, c.want)
		}
	}
	l := sampleLedger(2)
	l.Expunged[0].Class, l.Expunged[0].Thread, l.Expunged[0].Created = note.Document, note.UNID{8}, 3
	l.Expunged[1].Stub.Void = true
	l.Damaged = []note.ID{7, 9}
	got, err := ReadLedgerPage(AppendLedgerPage(nil, Version, l))
	if err != nil || !reflect.DeepEqual(got.Expunged[0], l.Expunged[0]) || !got.Expunged[1].Stub.Void ||
		!reflect.DeepEqual(got.Damaged, l.Damaged) || !reflect.DeepEqual(got.Told, l.Told) ||
		!reflect.DeepEqual(got.Of, l.Of) || !reflect.DeepEqual(got.Info, l.Info) || got.Seq != l.Seq {
		t.Errorf("%v\n%+v\n%+v", err, got, l)
	}
}

func TestGreeting(t *testing.T) {
	t.Parallel()
	g := Greeting{
		Version: Version, Oldest: Oldest, Peer: Peer{4, 5}, Title: "Mail of Ada", Kind: "mail", Owner: note.UNID{7},
		Shared: true, Leads: true,
		Position: store.Position{Ledger: note.Ledger{Slot: 1, Last: 4}}, Seq: 9, Notes: 3,
		Seen:  store.Cursor{Incarnation: 8, Seq: 6},
		Given: Given{Store: 3, Seq: 2}, Select: Selection{Folders: []string{"INBOX"}, Since: -4},
		May: MayPull | MayPush, Aside: []note.UNID{{1}},
	}
	got, err := ReadGreeting(AppendGreeting(nil, &g))
	if err != nil || !reflect.DeepEqual(got, g) {
		t.Fatalf("%v\n%+v\n%+v", err, got, g)
	}
	// A later version may append data that this one does not know. A version without overlap is rejected.
	g.Version++
	if _, err := ReadGreeting(append(AppendGreeting(nil, &g), "and more"...)); err != nil {
		t.Errorf("the greeting of a version that speaks ours too: %v", err)
	}
	g.Oldest = g.Version
	_, err = ReadGreeting(append(AppendGreeting(nil, &g), "and more"...))
	if !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("the greeting of a version that does not speak ours: %v", err)
	}
}

// TestVersions checks that servers one version apart can talk, and that the error names the versions if they are
// further apart.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mine, oldest, theirs, theirOldest, want uint8 }{
		{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}, {1, 1, 2, 1, 1}, {3, 2, 2, 1, 2}, {3, 2, 1, 1, 0}, {1, 1, 3, 2, 0},
		{5, 4, 6, 5, 5},
	} {
		v, err := speak(c.mine, c.oldest, &Greeting{Version: c.theirs, Oldest: c.theirOldest})
		if v != c.want || (err != nil) != (c.want == 0) {
			t.Errorf("%+v: %d, %v", c, v, err)
		}
	}
	newer := AppendChangePage(nil, Version+1, samplePage(1))
	if _, err := ReadChangePage(newer); !errors.Is(err, ErrVersion) ||
		!strings.Contains(err.Error(), fmt.Sprint("version ", Version+1)) {
		t.Errorf("a page of a newer version: %v", err)
	}
	if _, err := ReadLedgerPage([]byte{0, 1}); !errors.Is(err, ErrVersion) {
		t.Errorf("a page of version 0: %v", err)
	}
}

// TestBadNotes checks that notes which would break a search here are rejected.
func TestBadNotes(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(n *store.Remote){
		"state out of order": func(n *store.Remote) { n.State[0], n.State[1] = n.State[1], n.State[0] },
		"state of no kind":   func(n *store.Remote) { n.State[0].Kind = 9 },
		"folder of 3 bytes":  func(n *store.Remote) { n.State[2].Key = "abc" },
		"no history":         func(n *store.Remote) { n.Tree = nil },
		"items out of order": func(n *store.Remote) {
			for _, c := range n.Contents {
				c.Items = note.Items{{Name: "b", Value: note.Int(1)}, {Name: "a", Value: note.Int(1)}}
			}
		},
		"items twice": func(n *store.Remote) {
			for _, c := range n.Contents {
				c.Items = note.Items{{Name: "a", Value: note.Int(1)}, {Name: "a", Value: note.Int(1)}}
			}
		},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		n := sample(rng)
		for len(n.Contents) == 0 {
			n = sample(rng)
		}
		ok := &ChangePage{Notes: []Change{{Note: n}}}
		if _, err := ReadChangePage(AppendChangePage(nil, Version, ok)); err != nil {
			t.Fatal(err)
		}
		n.State = append(note.State{}, n.State...)
		spoil(n)
		if _, err := ReadChangePage(AppendChangePage(nil, Version, ok)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// everything decodes b as each type on the wire.
func everything(b []byte) {
	_, _ = ReadChangePage(b)
	_, _ = ReadLedgerPage(b)
	_, _ = ReadGreeting(b)
	for _, fn := range []func(*reader){
		func(r *reader) {
			r.headPage()
		}, func(r *reader) { r.wants() }, func(r *reader) { r.asks() }, func(r *reader) { r.query() },
		func(r *reader) {
			r.ack()
		}, func(r *reader) { r.mark() }, func(r *reader) { r.lacks() }, func(r *reader) { r.refs() },
		func(r *reader) { r.unids() },
	} {
		if r, err := read(b); err == nil {
			fn(r)
		}
	}
}

// FuzzPages checks that no input causes a panic and that decoded input encodes to itself.
func FuzzPages(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(AppendChangePage(nil, Version, samplePage(seed)))
		f.Add(AppendLedgerPage(nil, Version, sampleLedger(seed)))
	}
	hp := HeadPage{From: 1, To: 5, More: true,
		Heads: []Head{{Seq: 4, UNID: note.UNID{1}, Leaves: []note.Revision{{Generation: 1}}}}}
	f.Add(appendHeadPage([]byte{Version}, &hp))
	a := Ack{Added: 1, Again: []note.UNID{{1}}, Missing: []store.ObjectRef{{Size: 4}}}
	f.Add(a.append([]byte{Version}))
	m := Mark{Peer: Peer{1, 2}, Gives: true, Given: 4, Aside: []Refused{{Kind: "x", Text: "y"}},
		Select: Selection{Folders: []string{"a"}}}
	f.Add(m.append([]byte{Version}))
	f.Add(AppendGreeting(nil, &Greeting{Version: Version, Oldest: Oldest}))
	f.Fuzz(func(t *testing.T, b []byte) {
		everything(b)
		if p, err := ReadChangePage(b); err == nil {
			// Compare the encoded forms: an empty string may be present or absent.
			out := AppendChangePage(nil, Version, p)
			again, err := ReadChangePage(out)
			if err != nil || !bytes.Equal(AppendChangePage(nil, Version, again), out) {
				t.Errorf("the page was read otherwise the second time: %v", err)
			}
		}
		if p, err := ReadLedgerPage(b); err == nil {
			out := AppendLedgerPage(nil, Version, p)
			again, err := ReadLedgerPage(out)
			if err != nil || !bytes.Equal(AppendLedgerPage(nil, Version, again), out) {
				t.Errorf("the ledger page was read otherwise the second time: %v", err)
			}
		}
	})
}
