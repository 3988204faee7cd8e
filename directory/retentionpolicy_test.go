package directory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"doublet/directory/retention"
	"doublet/note"
)

// policyNames returns the names of policies.
func policyNames(list []RetentionPolicy) string {
	var out []string
	for _, p := range list {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func junkFields(name string, to ...string) RetentionFields {
	return RetentionFields{Name: name, For: to,
		Policy: retention.Policy{Folders: []string{"Junk"}, Days: 30, Action: retention.Delete}}
}

func TestRetentionPolicies(t *testing.T) {
	t.Parallel()
	w := open(t)
	ada, bob := w.add("Ada Lovelace", "ada"), w.add("Bob Bones", "bob")
	inner := w.group("Inner", "", "bob")
	w.group("Outer", "", "Inner")
	_, err := w.Groups.Set(bg, note.System, inner.ID, func(f *GroupFields) error { f.Kind = GroupMail; return nil })
	w.ok(err)
	first, err := w.Retention.Add(bg, note.System, junkFields("b everyone"))
	w.ok(err)
	_, err = w.Retention.Add(bg, note.System, junkFields("a ada", "ada@example.com", "Ada Lovelace"))
	w.ok(err)
	_, err = w.Retention.Add(bg, note.System, junkFields("c outer", "Outer"))
	w.ok(err)
	list, err := w.Retention.List(bg)
	w.ok(err)
	if got := policyNames(list); got != "a ada b everyone c outer" {
		t.Error(got)
	}
	if !slices.Equal(list[0].For, []string{ada.ID.String()}) || !slices.Equal(list[1].Folders, []string{"Junk"}) ||
		list[1].Days != 30 || list[1].Action != retention.Delete {
		t.Errorf("%+v", list)
	}
	for person, want := range map[note.UNID]string{ada.ID: "a ada b everyone", bob.ID: "b everyone c outer"} {
		of, err := w.Retention.Of(bg, person, list)
		w.ok(err)
		if got := policyNames(of); got != want {
			t.Errorf("%s has %q, want %q", person, got, want)
		}
	}

	set := func(fn func(*RetentionFields)) error {
		_, err := w.Retention.Set(bg, note.System, first.ID, func(f *RetentionFields) error { fn(f); return nil })
		return err
	}
	w.want(set(func(f *RetentionFields) { f.Name = "A ADA" }), ErrNameTaken)
	w.want(set(func(f *RetentionFields) { f.Name = " " }), ErrInvalid)
	w.want(set(func(f *RetentionFields) { f.Days = 0 }), ErrInvalid)
	w.want(set(func(f *RetentionFields) { f.Days = -3 }), ErrInvalid)
	w.want(set(func(f *RetentionFields) { f.For = []string{"nobody"} }), ErrNotFound)
	w.want(set(func(f *RetentionFields) { f.For = []string{w.store.UNID().String()} }), ErrNotFound)
	w.want(set(func(f *RetentionFields) { f.For = []string{first.ID.String()} }), ErrNotFound)
	w.ok(set(func(f *RetentionFields) { f.Name, f.Folders, f.Flagged = "B Everyone", []string{"Not there"}, true }))
	w.ok(set(func(f *RetentionFields) { f.For = []string{"bob"} }))
	w.ok(w.People.Remove(bg, note.System, bob.ID))
	w.ok(set(func(f *RetentionFields) { f.Days = 7 })) // for somebody who was removed
	p, err := w.Retention.Named(bg, "b everyone")
	w.ok(err)
	if p.Days != 7 || !p.Flagged || len(p.For) != 1 || p.Folders[0] != "Not there" {
		t.Errorf("%+v", p)
	}
	_, err = w.Retention.Add(bg, note.Who{Person: ada.ID}, junkFields("mine"))
	w.want(err, ErrDenied)
	w.want(w.Retention.Remove(bg, note.Who{Person: ada.ID}, p.ID), ErrDenied)
	w.ok(w.Retention.Remove(bg, note.System, p.ID))
	_, err = w.Retention.Named(bg, "b everyone")
	w.want(err, ErrNotFound)
}

func TestRetentionPolicyLimit(t *testing.T) {
	t.Parallel()
	w := open(t)
	for i := range MaxRetentionPolicies {
		_, err := w.Retention.Add(bg, note.System, junkFields(fmt.Sprint("p", i)))
		w.ok(err)
	}
	_, err := w.Retention.Add(bg, note.System, junkFields("one more"))
	w.want(err, ErrTooMany)
	many := make([]string, maxRetentionFor+1)
	for i := range many {
		many[i] = note.UNID{byte(i), byte(i >> 8)}.String()
	}
	p, err := w.Retention.Named(bg, "p1")
	w.ok(err)
	_, err = w.Retention.Set(bg, note.System, p.ID, func(f *RetentionFields) error { f.For = many; return nil })
	w.want(err, ErrTooMany)
}
