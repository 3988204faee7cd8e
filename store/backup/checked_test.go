package backup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spoiler is a file system that damages or loses pieces of a backup when they are written to the device.
type spoiler struct {
	env.FS
	spoil func(name string) bool
	lose  func(name string) bool
}

// Unwrap implements FS.
func (s *spoiler) Unwrap() vfs.FS { return nil }

// Rename implements FS. Pieces and manifests get their names with it.
func (s *spoiler) Rename(from, to string) error {
	if s.lose != nil && s.lose(to) {
		return s.FS.Remove(from)
	}
	if err := s.FS.Rename(from, to); err != nil || s.spoil == nil || !s.spoil(to) {
		return err
	}
	f, err := s.OpenReadWrite(to, "test")
	if err != nil {
		return err
	}
	var b [1]byte
	_, err = f.ReadAt(b[:], 0)
	if err == nil {
		b[0] ^= 0x10
		_, err = f.WriteAt(b[:], 0)
	}
	return errors.Join(err, f.Close())
}

func piece(suffix string) func(string) bool {
	return func(name string) bool {
		return strings.Contains(name, "pieces/") && strings.Contains(name, suffix)
	}
}

// TestChecked damages each kind of piece while a backup writes it. The backup must fail and be marked. A restore must
// not use it, and Prune must not remove older generations because of it. The next backup is good again, and copies the
// damaged piece anew.
func TestChecked(t *testing.T) {
	t.Parallel()
	s := &spoiler{}
	m := newModelOn(t, func(e *env.Env) {
		s.FS = e.FS
		e.FS = s
	})
	ctx := context.Background()
	m.steps(60, 1)
	first := m.done()
	if g, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil || g.Checked.Level != CheckOpen {
		t.Fatalf("%+v, %v", g.Checked, err)
	}
	for i, kind := range []string{".sst-", ".blob-", ".seg-", "MANIFEST-", ".sst-", ".seg-"} {
		m.steps(60, uint64(i+2))
		if i < 4 {
			s.spoil = piece(kind)
		} else {
			s.lose = piece(kind)
		}
		g, err := Take(ctx, m.f.Env, m.s, "backup", Options{})
		s.spoil, s.lose = nil, nil
		if !errors.Is(err, ErrDamaged) || g.Damage == nil {
			t.Fatalf("%s: %v, %v", kind, g.Damage, err)
		}
		if p, err := Prune(context.Background(), m.f.Env, "backup", 1); err != nil || len(p.Generations) > 0 ||
			!slices.Contains(p.Uncounted, g.Number) {
			t.Fatalf("%s: thinned: %+v, %v", kind, p, err)
		}
		list, err := List(context.Background(), m.f.Env, "backup")
		if err != nil || list[0].Number != 1 || list[0].Damage != nil || list[len(list)-1].Damage == nil {
			t.Fatalf("%s: %d generations, %v", kind, len(list), err)
		}
		if _, err := Verify(ctx, m.f.Env, "backup", g.Number, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: verified: %v", kind, err)
		}
	}
	m.put(m.f.Env, 0, "r1") // the latest generation without damage
	m.compare(m.f.Env, "r1", first, first)
	g, err := Take(ctx, m.f.Env, m.s, "backup", Options{Check: CheckFull})
	if err != nil || g.Checked.Level != CheckFull {
		t.Fatalf("the next one: %+v, %v", g.Checked, err)
	}
	m.put(m.f.Env, 0, "r2")
	m.compare(m.f.Env, "r2", m.done(), m.done())
	p, err := Prune(context.Background(), m.f.Env, "backup", 1)
	if err != nil || len(p.Generations) != 7 {
		t.Errorf("%+v, %v", p, err)
	}
	if names := segments(t, m.f, "backup"); slices.ContainsFunc(names, func(n string) bool {
		return strings.HasPrefix(n, prefix) && !strings.HasPrefix(n, "generation-000008")
	}) {
		t.Errorf("left: %v", names)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestPieceHeals damages a piece that two generations share. The full check of the second finds it and marks both. The
// next backup copies it again under its name, and then the first generation is whole again.
func TestPieceHeals(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(60, 1)
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	rotten := ""
	for _, name := range segments(t, m.f, "backup/pieces") {
		if strings.Contains(name, ".seg-") {
			rotten = name
		}
	}
	flip(t, m.f, "backup/pieces/"+rotten, 40)
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatalf("the default check reads what is new alone: %v", err)
	}
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{Check: CheckFull}); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	list, err := List(context.Background(), m.f.Env, "backup")
	if err != nil || len(list) != 3 || list[0].Damage == nil || list[1].Damage == nil || list[2].Damage == nil {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{Check: CheckFull}); err != nil {
		t.Fatal(err)
	}
	list, err = List(context.Background(), m.f.Env, "backup")
	if err != nil || list[0].Damage != nil || list[0].Checked.Level != "" {
		t.Errorf("copied anew: %v, %v", list[0].Damage, err)
	}
	if g, err := Verify(ctx, m.f.Env, "backup", 1, Options{}); err != nil || g.Damage != nil {
		t.Errorf("%v, %v", g.Damage, err)
	}
	n := m.done()
	m.put(m.f.Env, 1, "r1")
	m.compare(m.f.Env, "r1", n, n)
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnchecked checks that generations that were never checked do not count towards those to keep, unless checks were
// turned off deliberately.
func TestUnchecked(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(20, 1)
	for range 3 {
		if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{Check: CheckOff}); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.f.Mem.Remove("backup/generation-000003" + checkedSuffix); err != nil {
		t.Fatal(err)
	}
	p, err := Prune(context.Background(), m.f.Env, "backup", 2)
	if err != nil || len(p.Generations) > 0 || !slices.Equal(p.Uncounted, []uint64{3}) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Verify(ctx, m.f.Env, "backup", 3, Options{}); err != nil {
		t.Fatal(err)
	}
	p, err = Prune(context.Background(), m.f.Env, "backup", 2)
	if err != nil || !slices.Equal(p.Generations, []uint64{1}) {
		t.Errorf("%+v, %v", p, err)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}
