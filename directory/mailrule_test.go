package directory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"doublet/note"
)

// ruleNames returns the names of the mail rules in their order.
func (w *world) ruleNames() string {
	w.t.Helper()
	list, _, err := w.MailRules.List(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, r := range list {
		out = append(out, r.Name)
	}
	return strings.Join(out, " ")
}

func TestMailRules(t *testing.T) {
	t.Parallel()
	w := open(t)
	ctx := context.Background()
	byName := map[string]MailRule{}
	add := func(name string, position int) {
		t.Helper()
		r, err := w.MailRules.Add(ctx, note.System, MailRuleFields{Name: name, Position: position, Text: "{}"})
		if err != nil {
			t.Fatal(err)
		}
		byName[name] = r
	}
	for _, name := range []string{"a", "b", "c"} {
		add(name, 0)
	}
	_, edition, err := w.MailRules.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	add("d", 1)
	if _, now, _ := w.MailRules.List(ctx); now == edition {
		t.Error("the edition is the same")
	}
	_, edition, _ = w.MailRules.List(ctx)
	if _, err := w.Routes.Add(ctx, note.System, RouteFields{Pattern: "far.example"}); err != nil {
		t.Fatal(err)
	}
	if _, now, _ := w.MailRules.List(ctx); now != edition {
		t.Error("the edition changes with other documents")
	}
	if got := w.ruleNames(); got != "d a b c" {
		t.Error(got)
	}
	for _, x := range []struct {
		name string
		to   int
		want string
	}{{"d", 3, "a b d c"}, {"c", 1, "c a b d"}, {"a", 99, "c b d a"}, {"b", 2, "c b d a"}} {
		r, err := w.MailRules.Set(ctx, note.System, byName[x.name].ID,
			func(f *MailRuleFields) error { f.Position = x.to; return nil })
		if got := w.ruleNames(); err != nil || got != x.want {
			t.Errorf("%s to %d: %q %v, want %q", x.name, x.to, got, err, x.want)
		}
		if i := slices.Index(strings.Fields(x.want), x.name); r.Position != i+1 {
			t.Errorf("%s is at %d", x.name, r.Position)
		}
	}
	if err := w.MailRules.Remove(ctx, note.System, byName["b"].ID); err != nil {
		t.Fatal(err)
	}
	r, err := w.MailRules.Set(ctx, note.System, byName["d"].ID,
		func(f *MailRuleFields) error { f.Off, f.Text = true, "x"; return nil })
	if got := w.ruleNames(); err != nil || got != "c d a" || !r.Off || r.Text != "x" {
		t.Errorf("%q %+v %v", got, r, err)
	}
	if r, err = w.MailRules.Named(ctx, " D "); err != nil || r.ID != byName["d"].ID || !r.Off {
		t.Errorf("%+v %v", r, err)
	}
}

func TestMailRuleErrors(t *testing.T) {
	t.Parallel()
	w := open(t)
	ctx := context.Background()
	r, err := w.MailRules.Add(ctx, note.System, MailRuleFields{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]MailRuleFields{"no name": {}, "line": {Name: "a\nb"},
		"long": {Name: strings.Repeat("a", 101)}, "large": {Name: "b", Text: strings.Repeat("a", 40<<10)}} {
		if _, err := w.MailRules.Add(ctx, note.System, f); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.MailRules.Set(ctx, note.System, r.ID,
			func(x *MailRuleFields) error { *x = f; return nil }); !errors.Is(err, ErrInvalid) {
			t.Errorf("set %s: %v", name, err)
		}
	}
	if _, err := w.MailRules.Add(ctx, note.System, MailRuleFields{Name: "A"}); !errors.Is(err, ErrNameTaken) {
		t.Error(err)
	}
	stranger := note.Who{Person: note.UNID{1}}
	if _, err := w.MailRules.Add(ctx, stranger, MailRuleFields{Name: "b"}); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if _, err := w.MailRules.Set(ctx, stranger, r.ID,
		func(*MailRuleFields) error { return nil }); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if err := w.MailRules.Remove(ctx, stranger, r.ID); !errors.Is(err, ErrDenied) {
		t.Error(err)
	}
	if _, err := w.MailRules.Named(ctx, "b"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := w.MailRules.Set(ctx, note.System, note.UNID{9},
		func(*MailRuleFields) error { return nil }); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	for i := 1; i < MaxMailRules; i++ {
		if _, err := w.MailRules.Add(ctx, note.System, MailRuleFields{Name: fmt.Sprint("rule ", i)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.MailRules.Add(ctx, note.System, MailRuleFields{Name: "b"}); !errors.Is(err, ErrTooMany) {
		t.Error(err)
	}
}
