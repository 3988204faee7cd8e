package store

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/crypt"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// TestMend damages every object of a store, in its segment or in the index. A reader gets the bytes from elsewhere, and
// they are then stored here again. If nobody has them, the read returns an error.
func TestMend(t *testing.T) {
	t.Parallel()
	testMend(t, false)
}

// TestMendEncrypted is TestMend with files that are encrypted, in each store with a key of its own. Damage of what is
// encrypted is damage of the objects, and not taken for a wrong key.
func TestMendEncrypted(t *testing.T) {
	t.Parallel()
	testMend(t, true)
}

func testMend(t *testing.T, encrypted bool) {
	t.Helper()
	for _, lost := range []bool{false, true} {
		f, theirs := env.Test(t), env.Test(t)
		disk, first := f.FS, int64(100)
		if encrypted {
			theirs.Rand = env.Seeded(2)
			f.Env, _ = EncryptedEnv(t, f.Env)
			theirs.Env, _ = EncryptedEnv(t, theirs.Env)
			first += crypt.HeaderSize
		}
		o := damageOptions()
		s, want := damageStore(t, f)
		// Another store with the same messages acts as a mate.
		mate, _ := damageStore(t, theirs)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		mate.opt.Mend = func(note.Digest) error { t.Error("the mate was asked to mend"); return ErrNotFound }
		var mended []note.Digest
		have := true
		o.Mend = func(d note.Digest) error {
			size, err := mate.ObjectSize(d)
			if err != nil || !have {
				return errors.Join(ErrNotFound, err)
			}
			b, err := mate.ObjectBytes(nil, d, 0, int64(size))
			if err != nil {
				return err
			}
			mended = append(mended, d)
			return s.MendObject(context.Background(), ObjectRef{Digest: d, Size: size}, b)
		}
		if !lost {
			for _, name := range filesOf(t, f.FS, "data/objects") {
				if path.Ext(name) != ".seg" {
					continue
				}
				i, err := disk.Stat(name)
				if err != nil {
					t.Fatal(err)
				}
				for at := first; at < i.Size(); at += 40 {
					flip(t, disk, name, at)
				}
			}
		}
		var err error
		if s, err = Open(f.Env, "data", o); err != nil {
			t.Fatal(err)
		}
		if lost {
			var keys [][]byte
			if err := scan(s.eng, layout.Key(layout.SpaceObject), func(k, _ []byte) error {
				keys = append(keys, bytes.Clone(k))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				if err := s.eng.Delete(k, pebble.Sync); err != nil {
					t.Fatal(err)
				}
			}
		}
		read := func() (bad int) {
			for db, notes := range want {
				for id, raw := range maps.All(notes) {
					err := s.Read(context.Background(), note.System, db, func(r *Reader) error {
						n, err := r.Note(id)
						if err != nil {
							return err
						}
						m, err := r.Message(n)
						if err != nil {
							return err
						}
						got, err := m.AppendRange(nil, 0, m.Size())
						if err == nil && !bytes.Equal(got, raw) {
							t.Errorf("lost %v: note %d is not what it was", lost, id)
						}
						return err
					})
					if err != nil {
						if bad++; !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNotFound) {
							t.Errorf("lost %v: %v", lost, err)
						}
					}
				}
			}
			return bad
		}
		have = false
		if bad := read(); bad < 3 {
			t.Errorf("lost %v: %d notes could not be read without a mate", lost, bad)
		}
		have = true
		if bad := read(); bad != 0 || len(mended) < 3 {
			t.Errorf("lost %v: %d notes cannot be read, %d objects came from the mate", lost, bad, len(mended))
		}
		mended = nil
		if bad := read(); bad != 0 || len(mended) != 0 {
			t.Errorf("lost %v: after that %d cannot be read, %d objects came once more", lost, bad, len(mended))
		}
		if err := errors.Join(s.Close(), mate.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
