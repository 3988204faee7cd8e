package mailbox_test

import (
	"errors"
	"slices"
	"testing"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// guest returns alice's mail file as opened by another person, who is in a group.
func (w *world) guest(group note.UNID) *mailbox.File {
	return w.svc.File(note.Who{Person: w.s.UNID(), Groups: []note.UNID{group}}, w.db)
}

func (w *world) grant(folder string, id note.UNID, rights note.Rights) {
	w.t.Helper()
	w.must(w.mf.SetAccess(w.ctx, folder, id, func(note.Rights) note.Rights { return rights }, false))
}

// TestOutlivedNames checks that a subscription outlives its folder, also for people with rights through a group. A
// person who had lost the right to look up the folder does not learn its last name.
func TestOutlivedNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	group := w.s.UNID()
	named, member, lost := w.guest(group), w.guest(group), w.guest(note.UNID{})
	const see = note.Lookup | note.Read
	_, err := w.mf.Create(w.ctx, "Plans", "")
	w.must(err)
	w.grant("Plans", named.Who().Person, see)
	w.grant("Plans", lost.Who().Person, see)
	w.grant("Plans", group, see)
	for _, f := range []*mailbox.File{w.mf, named, member, lost} {
		w.must(f.Subscribe(w.ctx, "Plans", true))
	}
	w.grant("Plans", lost.Who().Person, 0)
	w.must(w.mf.Rename(w.ctx, "Plans", "Closing of the factory"))
	w.must(w.mf.Delete(w.ctx, "Closing of the factory"))
	for who, c := range map[string]struct {
		f    *mailbox.File
		want []string
	}{
		"owner": {w.mf, []string{"Closing of the factory"}}, "named": {named, []string{"Closing of the factory"}},
		"member": {member, []string{"Closing of the factory"}}, "lost": {lost, nil},
	} {
		if got, err := c.f.Outlived(w.ctx); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q: %v", who, got, c.want, err)
		}
		err := c.f.Subscribe(w.ctx, "Closing of the factory", true)
		if c.want == nil && !errors.Is(err, mailbox.ErrNoFolder) || c.want != nil && err != nil {
			t.Errorf("%s subscribes: %v", who, err)
		}
	}
	w.must(member.Subscribe(w.ctx, "Closing of the factory", false))
	if got, err := member.Outlived(w.ctx); err != nil || len(got) != 0 {
		t.Errorf("unsubscribed, and there are %q: %v", got, err)
	}
	// A new folder of the same name gets the old subscriptions.
	_, err = w.mf.Create(w.ctx, "Closing of the factory", "")
	w.must(err)
	if got, err := w.mf.Outlived(w.ctx); err != nil || len(got) != 0 {
		t.Errorf("the folder is there again, and there are %q: %v", got, err)
	}
}

// TestHiddenChildren checks that a person who may delete or rename a folder, but not look up a folder below it, cannot
// leave that one without a parent.
func TestHiddenChildren(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	guest := w.guest(note.UNID{})
	who := guest.Who().Person
	for _, name := range []string{"a", "a/hidden", "b", "b/seen"} {
		_, err := w.mf.Create(w.ctx, name, "")
		w.must(err)
	}
	const all = note.Lookup | note.Read | note.Remove | note.Create | note.Expunge
	w.grant("a", who, all)
	w.grant("b", who, all)
	w.grant("b/seen", who, note.Lookup)
	for _, c := range []struct{ err, want error }{
		{guest.Delete(w.ctx, "a"), store.ErrDenied},
		{guest.Rename(w.ctx, "a", "b/c"), store.ErrDenied},
		{guest.Delete(w.ctx, "b"), mailbox.ErrHasChildren},
		{guest.Rename(w.ctx, "b", "a/c"), store.ErrDenied},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%v, want %v", c.err, c.want)
		}
	}
	for _, name := range []string{"a", "a/hidden", "b", "b/seen"} {
		if _, err := w.mf.Folder(w.ctx, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// With the right to rename it, the hidden folder is renamed, too.
	w.grant("a/hidden", who, note.Remove)
	w.must(guest.Rename(w.ctx, "a", "b/c"))
	if _, err := w.mf.Folder(w.ctx, "b/c/hidden"); err != nil {
		t.Error(err)
	}
}
