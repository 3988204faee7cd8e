package view

import (
	"context"
	"errors"
	"testing"

	"doublet/store/crypt"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// turning is a context that calls fn when it is asked for its error for the turn-th time.
type turning struct {
	context.Context
	turn int
	fn   func()
}

func (c *turning) Err() error {
	if c.turn--; c.turn == 0 {
		c.fn()
	}
	return nil
}

// TestKeyWhileBuilding encrypts a database while a view of it is built, before each step in turn. No row of the view is
// there when the database is settled. If it is decrypted again before the step, the view has all rows in the end.
func TestKeyWhileBuilding(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		turns := 0
		for keyWhileBuilding(t, turns+1, off) {
			turns++
		}
		if turns < 5 {
			t.Errorf("%d turns are too few: the view was built in one step", turns)
		}
	}
}

// keyWhileBuilding returns false if the view was built before the turn.
func keyWhileBuilding(t *testing.T, turn int, off bool) bool {
	t.Helper()
	b := newBench(t, titles)
	for i := range 8 {
		b.create(map[string]any{"Form": "Memo", "Title": string(rune('a' + i))})
	}
	b.keyFile("/own.key")
	ctx := &turning{Context: context.Background(), turn: turn, fn: func() {
		settle := func() error { return b.s.Settle(context.Background(), b.db, nil) }
		err := errors.Join(b.s.SetKey(b.db, "/own.key"), settle())
		if off {
			err = errors.Join(err, b.s.DropKey(b.db), settle())
		}
		if err != nil {
			t.Fatal(err)
		}
	}}
	err := b.v.Refresh(ctx)
	if ctx.turn > 0 {
		return false
	}
	if off {
		if err != nil {
			t.Errorf("turn %d: %v", turn, err)
		}
		b.compareAll()
		return true
	}
	if !errors.Is(err, ErrKeyed) {
		t.Errorf("turn %d: %v, want ErrKeyed", turn, err)
	}
	if n := b.viewRows(); n != 0 {
		t.Errorf("turn %d: the encrypted database has %d rows of the view", turn, n)
	}
	return true
}

// keyFile makes a key file.
func (b *bench) keyFile(name string) {
	b.t.Helper()
	line, err := crypt.NewKey(b.f.Env)
	if err != nil {
		b.t.Fatal(err)
	}
	h, err := b.f.FS.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		b.t.Fatal(err)
	}
	_, err = h.Write([]byte(line))
	if err := errors.Join(err, h.Close()); err != nil {
		b.t.Fatal(err)
	}
}

// viewRows counts the rows of views in the database.
func (b *bench) viewRows() (n int) {
	b.t.Helper()
	info, err := b.s.Info(b.db)
	if err == nil {
		err = b.s.Inspect(func(r pebble.Reader) error {
			for _, k := range []layout.Kind{layout.KindView, layout.KindViewNote, layout.KindViewMeta} {
				prefix := layout.Prefix(info.Number, k)
				it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
				if err != nil {
					return err
				}
				for it.First(); it.Valid(); it.Next() {
					n++
				}
				if err := it.Close(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}
