package note

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	t.Parallel()
	u := DeriveUNID([]byte("a"), []byte("b"))
	if v, err := ParseUNID(u.String()); err != nil || v != u || u == DeriveUNID([]byte("ab")) {
		t.Errorf("%v %v", v, err)
	}
	r := NextRevision(Revision{}, Document, false, &Content{})
	if v, err := ParseRevision(r.String()); err != nil || v != r {
		t.Errorf("%v %v", v, err)
	}
	if r == NextRevision(Revision{}, Document, true, &Content{}) ||
		r == NextRevision(Revision{}, Folder, false, &Content{}) || r == NextRevision(r, Document, false, &Content{}) {
		t.Error("a revision is over parent, class and deletion too")
	}
	if v, err := ParseDatabaseID(DatabaseID(5).String()); err != nil || v != 5 {
		t.Errorf("%v %v", v, err)
	}
	for _, bad := range []string{"", "1", "0-00000000000000000000000000000000", "x-00000000000000000000000000000000",
		"1-0000000000000000000000000000000g"} {
		if _, err := ParseRevision(bad); err == nil {
			t.Errorf("revision %q", bad)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for _, s := range []string{`null`, `true`, `"é"`, `-5`, `1.5`, `[1,[2,"x"],{}]`, `{"a":{"b":[null]},"c":false}`} {
		v, err := FromJSON([]byte(s))
		if err != nil {
			t.Fatal(s, err)
		}
		if got, err := v.MarshalJSON(); err != nil || string(got) != s {
			t.Errorf("%s became %s: %v", s, got, err)
		}
	}
	for _, bad := range []string{``, `1 2`, `[1]]`, `{`, strings.Repeat("[", 100) + strings.Repeat("]", 100), `1e999`} {
		if v, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("%q became %v", bad, v)
		}
	}
	if got := TextList("a", "").AsTextList(); !slices.Equal(got, []string{"a", ""}) ||
		Text("x").AsTextList()[0] != "x" {
		t.Errorf("%q", got)
	}
}

func TestItems(t *testing.T) {
	t.Parallel()
	s := MakeItems(Item{"b", Int(1)}, Item{"a", Int(2)}, Item{"b", Int(3)})
	if len(s) != 2 || s.Get("b").AsInt() != 3 || s.Get("c") != nil {
		t.Errorf("%v", s)
	}
	u := s.With("a", nil).With("c", Bool(true)).With("b", Int(4))
	if got := s.Diff(u); !slices.Equal(got, []string{"a", "b", "c"}) || len(s) != 2 || s.Get("b").AsInt() != 3 {
		t.Errorf("%v, and the first is %v", got, s)
	}
}

func TestLevels(t *testing.T) {
	t.Parallel()
	for l, want := range map[Level]string{NoAccess: "", Depositor: "p", Reader: "lrs", Author: "lrsi",
		Editor: "lrswite", Designer: "lrswikxte", Manager: "lrswikxtea"} {
		got := l.Rights()
		if got.Letters() != want {
			t.Errorf("%s grants %s, want %s", l, got.Letters(), want)
		}
		if p, err := ParseLevel(l.String()); err != nil || p != l {
			t.Errorf("%s: %v", l, err)
		}
	}
	if r := Author.Rights(); r&WriteOwn == 0 || r&ExpungeOwn == 0 || r&Write != 0 {
		t.Error("an Author writes what is theirs")
	}
	g1, g2 := UNID{1}, UNID{2}
	acl := ACL{Default: Reader}.With(Entry{ID: g1, Level: Author}).With(Entry{ID: g2, Level: Depositor,
		Plus: Administer}).With(Entry{ID: UNID{3}, Level: NoAccess})
	if r := acl.Rights(&Who{Person: UNID{9}, Groups: []UNID{g1, g2}}); r&Insert == 0 || r&Administer == 0 {
		t.Error("groups add up")
	}
	if r := acl.Rights(&Who{Person: UNID{3}, Groups: []UNID{g1}}); r != 0 {
		t.Error("one's own entry goes before those of groups")
	}
	if r := acl.Rights(&Who{Person: UNID{9}}); r != Reader.Rights() || acl.Rights(&System) != All {
		t.Error("default, system")
	}
}

// decoders reads each stored form and encodes it again.
var decoders = []func(b []byte) ([]byte, error){
	func(b []byte) ([]byte, error) { s, _, err := ReadState(b); return AppendState(nil, s), err },
	func(b []byte) ([]byte, error) { t, _, err := ReadTree(b); return AppendTree(nil, t), err },
	func(b []byte) ([]byte, error) { c, _, err := ReadContent(b); return AppendContent(nil, &c), err },
	func(b []byte) ([]byte, error) { a, _, err := ReadACL(b); return AppendACL(nil, &a), err },
	func(b []byte) ([]byte, error) { l, _, err := ReadLedger(b); return AppendLedger(nil, &l), err },
	func(b []byte) ([]byte, error) { s, _, err := ReadStamp(b); return AppendStamp(nil, s), err },
}

func seeds() [][]byte {
	rng := rand.New(rand.NewPCG(1, 1))
	return [][]byte{
		AppendState(nil, randomState(rng)), AppendTree(nil, randomTree(rng)),
		AppendContent(nil, &Content{Items: MakeItems(Item{"A", Text("x")}),
			Attachments: []Attachment{{"n", "t", Digest{1}, 5}}, Message: Digest{2}}),
		AppendACL(nil, &ACL{Reader, []Entry{{UNID{1}, Editor, Create, Post}}}),
		AppendLedger(nil, &Ledger{Slot: 1, Shared: true, Last: 5, UID: 6, Skip: true, Ended: []End{{3, 2}, {4, 3}},
			Epoch: 7, Away: true, Restored: true,
			Partial: true, Complete: 4, High: 9, Copy: 11, Began: 8, Pending: true, Healed: []Healed{{5, 4, 3, 2}}}),
		AppendStamp(nil, Stamp{1, 2}),
	}
}

func TestEncodings(t *testing.T) {
	t.Parallel()
	for i, b := range seeds() {
		again, err := decoders[i](b)
		if err != nil || !bytes.Equal(again, b) {
			t.Errorf("form %d: %x became %x: %v", i, b, again, err)
		}
		for n := range b {
			if _, err := decoders[i](b[:n]); err == nil {
				t.Errorf("form %d: cut at %d of %d was read", i, n, len(b))
			}
		}
	}
	for _, bad := range []Tree{
		{{Rev: Revision{Generation: 2}, Parent: Revision{Generation: 2}}},
		{{Rev: Revision{Generation: 2}}, {Rev: Revision{Generation: 1}}},
	} {
		if _, _, err := ReadTree(AppendTree(nil, bad)); err == nil {
			t.Errorf("a tree without order or end was read: %v", bad)
		}
	}
}

func FuzzDecoders(f *testing.F) {
	for i, b := range seeds() {
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		d := decoders[int(kind)%len(decoders)]
		if again, err := d(b); err == nil {
			if third, err := d(again); err != nil || !bytes.Equal(third, again) {
				t.Fatalf("%x became %x: %v", again, third, err)
			}
		}
		v := Value(b)
		_, _, _, _ = v.AsText(), v.AsInt(), v.AsTextList(), v.AsBinary()
		if j, err := v.MarshalJSON(); err == nil && !json.Valid(j) {
			t.Fatalf("%x printed %s", b, j)
		}
		if tree, _, err := ReadTree(b); err == nil {
			leaves := tree.Leaves()
			tree.Prune(1)
			if len(leaves) > 1 {
				tree.ChangedSince(leaves[0].Rev, leaves[1].Rev)
			}
		}
	})
}

func FuzzFromJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5,null,"x",{"b":true}]}`))
	f.Add([]byte(`[2.0, 1e2, -0.0, 1e19]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := FromJSON(b)
		if err != nil {
			return
		}
		j, err := v.MarshalJSON()
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		w, err := FromJSON(j)
		if err != nil || !reflect.DeepEqual(v.Any(), w.Any()) {
			t.Fatalf("%s became %s: %v", b, j, err)
		}
	})
}
