package replica_test

import (
	"context"
	"slices"
	"testing"

	"doublet/directory"
	"doublet/directory/retention"
	"doublet/note"
)

// TestRetentionReplicates checks that a mate knows a retention policy, its changes and its end as soon as it has the
// document.
func TestRetentionReplicates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	one := newPost(t, 0, nil)
	two := newPost(t, 1, one)
	check := func(when string, want ...int) {
		t.Helper()
		one.sendTo(t, two)
		list, err := two.directory.Retention.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var days []int
		for i := range list {
			days = append(days, list[i].Days)
		}
		if !slices.Equal(days, want) {
			t.Errorf("%s: the mate has policies of %v days, want %v", when, days, want)
		}
	}
	p, err := one.directory.Retention.Add(ctx, note.System, directory.RetentionFields{Name: "junk",
		Policy: retention.Policy{Days: 30, Action: retention.Delete}})
	if err != nil {
		t.Fatal(err)
	}
	check("added", 30)
	_, err = one.directory.Retention.Set(ctx, note.System, p.ID,
		func(f *directory.RetentionFields) error { f.Days = 60; return nil })
	if err != nil {
		t.Fatal(err)
	}
	check("changed", 60)
	if err := one.directory.Retention.Remove(ctx, note.System, p.ID); err != nil {
		t.Fatal(err)
	}
	check("removed")
}
