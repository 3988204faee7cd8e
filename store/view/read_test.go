package view

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

type rawReader = pebble.Reader

func TestNotBuilt(t *testing.T) {
	t.Parallel()
	b := newBench(t, titles)
	if _, err := b.v.Read(context.Background(), note.System, Query{}); !errors.Is(err, ErrNotBuilt) {
		t.Fatal(err)
	}
}

func TestOldGenerationIsReadUntilTheNewIsBuilt(t *testing.T) {
	t.Parallel()
	b := newBench(t, titles)
	for _, s := range []string{"b", "a", "c", "d", "e", "f", "g"} {
		b.create(map[string]any{"Form": "Task", "Title": s, "Prio": int64(9)})
	}
	b.refresh()
	old := b.shown(note.System, Query{})
	b.redefine(tasks)
	// Process one batch of three, then cancel.
	if err := b.v.Refresh(&someTurns{context.Background(), 4}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := b.shown(note.System, Query{}); !slices.Equal(got, old) {
		t.Fatalf("half built: %v", got)
	}
	b.compareAll()
	err := b.s.Inspect(func(r pebble.Reader) error {
		it, err := r.NewIter(&pebble.IterOptions{LowerBound: b.v.keys.of(layout.KindView, 1),
			UpperBound: b.v.keys.of(layout.KindView, 2)})
		if err != nil {
			return err
		}
		if it.First() {
			t.Error("rows of the old generation are left")
		}
		return it.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestViewOfADeletedDesignIsDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t, titles)
	b.create(map[string]any{"Form": "Task", "Title": "x"})
	b.refresh()
	b.update(func(w *store.Writer) error { return w.Destroy(b.design) })
	if err := b.v.Refresh(context.Background()); !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	err := b.s.Inspect(func(r pebble.Reader) error {
		for _, kind := range []layout.Kind{layout.KindView, layout.KindViewNote, layout.KindViewMeta} {
			prefix := layout.Prefix(b.v.keys.db, kind)
			it, err := r.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
			if err != nil {
				return err
			}
			if it.First() {
				t.Errorf("rows of kind %c are left", kind)
			}
			if err := it.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestConflictsFollowTheirDocument(t *testing.T) {
	t.Parallel()
	b := newBench(t, titles)
	id := b.create(map[string]any{"Form": "Task", "Title": "first"})
	b.create(map[string]any{"Form": "Task", "Title": "zebra"})
	b.edit(id, map[string]any{"Form": "Task", "Title": "mine"})
	b.update(func(w *store.Writer) error {
		remote, err := w.Remote(id)
		if err != nil {
			return err
		}
		root := remote.Tree[0]
		for _, s := range []string{"theirs", "others"} {
			c := note.Content{Items: toItems(t, map[string]any{"Form": "Task", "Title": s})}
			rev := note.NextRevision(root.Rev, note.Document, false, &c)
			remote.Tree = remote.Tree.Add(note.Node{Rev: rev, Parent: root.Rev, Changed: []string{"Title"}})
			remote.Contents[rev] = &c
		}
		_, err = w.Apply(remote, nil)
		return err
	})
	b.refresh()
	got := b.shown(note.System, Query{Limit: 2})
	if len(got) != 4 || !strings.HasSuffix(got[1], "conflict") || !strings.HasSuffix(got[2], "conflict") ||
		strings.HasSuffix(got[0], "conflict") {
		t.Fatalf("%q", got)
	}
	page, err := b.v.Read(context.Background(), note.System, Query{})
	if err != nil || page.Total != 2 {
		t.Fatal(page.Total, err)
	}
	rev := page.Entries[1].Revision
	b.update(func(w *store.Writer) error {
		_, err := w.Leaf(id, rev)
		return err
	})
	// When conflicts are resolved, they disappear.
	b.update(func(w *store.Writer) error { return w.Destroy(id) })
	b.refresh()
	if got := b.shown(note.System, Query{}); len(got) != 1 {
		t.Fatalf("%q", got)
	}
}

func TestAccessIsHonoured(t *testing.T) {
	t.Parallel()
	b := newBench(t, tasks)
	var secret note.ID
	b.update(func(w *store.Writer) error {
		var err error
		if secret, err = w.CreateFolder("Secret", ""); err != nil {
			return err
		}
		return w.SetFolderACL(secret, &note.ACL{Default: note.NoAccess})
	})
	open := b.create(map[string]any{"Form": "Task", "Prio": int64(3), "Cat": "x"})
	b.create(map[string]any{"Form": "Task", "Prio": int64(4), "Cat": "x"}, secret)
	b.create(map[string]any{"Form": "Task", "Prio": int64(5), "Cat": "hidden"}, secret)
	b.refresh()
	who := note.Who{Person: note.UNID{5}}
	page, err := b.v.Read(context.Background(), who, Query{})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Note != open {
		t.Fatalf("%+v %v", page, err)
	}
	cats, err := b.v.Categories(context.Background(), who, Query{})
	if err != nil || len(cats) != 1 || cats[0].Count != 1 || cats[0].Totals[1] != 3 {
		t.Fatalf("%+v %v", cats, err)
	}
	cats, err = b.v.Categories(context.Background(), note.System, Query{})
	if err != nil || len(cats) != 2 || cats[1].Count != 2 || cats[1].Totals[1] != 7 {
		t.Fatalf("%+v %v", cats, err)
	}
	// A note that was deleted since the last refresh is not shown, without an error.
	b.destroy(open)
	if page, err = b.v.Read(context.Background(), who, Query{}); err != nil || len(page.Entries) != 0 {
		t.Fatalf("%+v %v", page, err)
	}
}
