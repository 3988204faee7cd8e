package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path"
	"testing"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/crypt"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// encrypt encrypts the store in data with a key of its own, which is in the file keys.
func encrypt(t *testing.T, e *env.Env) *crypt.FS {
	t.Helper()
	line, err := crypt.NewKey(e)
	if err != nil {
		t.Fatal(err)
	}
	f, err := e.FS.Create("keys", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(f, line)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
	files, err := crypt.Open(e, crypt.Options{Dir: "data", Folders: []string{"data/notes", "data/objects"},
		KeyFile: "keys"})
	if err != nil {
		t.Fatal(err)
	}
	e.FS = files
	return files
}

// TestEncryptedMembers replicates between two members that are encrypted at rest with different keys, also after one of
// them got another key. An object that is damaged at one comes from the other.
func TestEncryptedMembers(t *testing.T) {
	t.Parallel()
	var disks [2]env.FS
	var files [2]*crypt.FS
	p := newPairWith(t, 0, func(p *pair, i int, e *env.Env, o *store.Options) {
		disks[i] = e.FS
		files[i] = encrypt(t, e)
		o.Mend = func(d note.Digest) error { return p.nodes[i].Mending.Mend(p.ctx, d) }
	})
	mate := p.nodes[1]
	want := map[string]bool{}
	deliver := func(n int) {
		t.Helper()
		raw := append(fmt.Appendf(nil, "Subject: %d\r\n\r\n", n), make([]byte, 100_000)...)
		body, rng := raw[len(raw)-100_000:], rand.New(rand.NewPCG(uint64(n), 1))
		for i := range body {
			body[i] = "abcdefghijklmnopqrstuvwxyz0123456789 -+."[rng.IntN(40)]
		}
		_, _, err := p.nodes[0].mail.File(note.Who{Person: note.UNID{9}}, p.db).Append(p.ctx, "INBOX", raw,
			mailbox.Flags{}, p.clock.Now())
		p.must(err)
		want[string(raw)] = true
	}
	// read reads all messages of a member.
	read := func(n *paired) (failed error) {
		t.Helper()
		got := 0
		p.must(n.store.Read(p.ctx, note.System, p.db, func(r *store.Reader) error {
			return r.Notes(0, func(id note.ID, _ *layout.Note) bool {
				row, err := r.Note(id)
				p.must(err)
				m, err := r.Message(row)
				if errors.Is(err, store.ErrNotFound) {
					return true // a folder
				}
				p.must(err)
				b, err := m.AppendRange(nil, 0, m.Size())
				if failed = errors.Join(failed, err); err == nil && want[string(b)] {
					got++
				}
				return true
			})
		}))
		if failed == nil && got != len(want) {
			t.Errorf("%d messages, want %d", got, len(want))
		}
		return failed
	}
	deliver(1)
	p.run()
	_, err := files[1].Rotate()
	p.must(err)
	_, err = files[1].Rewrite(p.ctx, nil)
	p.must(err)
	deliver(2)
	deliver(3)
	p.run()
	for _, n := range p.nodes {
		p.must(read(n))
	}
	keyOf := func(i int) []byte {
		f, err := disks[i].Open("keys")
		p.must(err)
		b, err := io.ReadAll(f)
		p.must(errors.Join(err, f.Close()))
		return b
	}
	if bytes.Equal(keyOf(0), keyOf(1)) {
		t.Error("the members have the same keys")
	}

	// Damage on the disk of the mate, in all its objects.
	p.must(mate.store.Objects().Seal())
	names, err := disks[1].List("data/objects")
	p.must(err)
	for _, name := range names {
		if path.Ext(name) != ".seg" {
			continue
		}
		f, err := disks[1].OpenReadWrite("data/objects/"+name, vfs.WriteCategoryUnspecified)
		p.must(err)
		info, err := f.Stat()
		p.must(err)
		for at := int64(crypt.HeaderSize + 1000); at < info.Size(); at += 5000 {
			_, err = f.WriteAt([]byte("damage"), at)
			p.must(err)
		}
		p.must(f.Close())
	}
	cut := func() {
		p.net.Cut(mate.Self(), p.nodes[0].Self())
		p.net.Cut(p.nodes[0].Self(), mate.Self())
	}
	cut()
	if err := read(mate); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("without the other member: %v", err)
	}
	p.net.Heal(mate.Self(), p.nodes[0].Self())
	p.net.Heal(p.nodes[0].Self(), mate.Self())
	p.clock.Advance(2 * mendAgain)
	p.run()
	p.must(read(mate))
	cut()
	p.must(read(mate)) // the objects are stored here again
}
