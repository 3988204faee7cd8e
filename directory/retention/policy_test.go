package retention

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// The folders of the tests.
var folders = []Folder{
	{Name: "INBOX", Use: "INBOX"}, {Name: "Lists"}, {Name: "Lists/go"}, {Name: "Listserv"},
	{Name: "Papierkorb", Use: "Trash", Trash: true}, {Name: "Papierkorb/Old", Trash: true},
	{Name: "Drafts", Use: "Drafts", Spared: true}, {Name: "Junk"},
}

func place(name string) Place {
	return Place{Folder: slices.IndexFunc(folders, func(f Folder) bool { return f.Name == name })}
}

// in returns a message delivered at 0 that is in some folders, and has some labels.
func in(names string, labels ...string) *Message {
	m := &Message{Labelled: func(k string) bool { return slices.Contains(labels, k) },
		Flagged: slices.Contains(labels, "$flagged")}
	for name := range strings.SplitSeq(names, ",") {
		m.Places = append(m.Places, place(name))
	}
	return m
}

// after returns a policy for folders, or all.
func after(days int, a Action, folders ...string) Policy {
	return Policy{Days: days, Action: a, Folders: folders}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	below := func(p Policy) Policy { p.Below = true; return p }
	flagged := func(p Policy) Policy { p.Flagged = true; return p }
	labelled := func(p Policy, labels ...string) Policy { p.Labels = labels; return p }
	inbox := after(90, Trash, "inbox")
	trash := after(30, Delete, "Trash")
	lists := below(after(10, Delete, "Lists"))
	all := after(365, Delete)
	invoice := labelled(after(3650, Keep), "invoice")
	stays := Choice{-1, 0}
	late := in("Papierkorb")
	late.Places[0].Since = 100 * day
	lateOld := in("Papierkorb/Old")
	lateOld.Places[0].Since = 100 * day
	for name, x := range map[string]struct {
		list []Policy
		m    *Message
		want Choice
	}{
		"no policy":          {nil, in("INBOX"), stays},
		"by use":             {[]Policy{inbox}, in("INBOX"), Choice{0, 90}},
		"another folder":     {[]Policy{inbox}, in("Lists"), stays},
		"below":              {[]Policy{lists}, in("Lists/go"), Choice{0, 10}},
		"beginning":          {[]Policy{lists}, in("Listserv"), stays},
		"not below":          {[]Policy{after(1, Trash, "Lists")}, in("Lists/go"), stays},
		"use, other name":    {[]Policy{trash}, in("Papierkorb"), Choice{0, 30}},
		"Trash, since then":  {[]Policy{trash}, late, Choice{0, 130}},
		"below Trash":        {[]Policy{below(after(1, Delete, "Trash"))}, lateOld, Choice{0, 101}},
		"Trash, as any":      {[]Policy{all}, late, Choice{0, 365}},
		"no use":             {[]Policy{after(7, Delete, "Junk")}, in("Junk"), Choice{0, 7}},
		"the latest wins":    {[]Policy{inbox, all}, in("INBOX"), Choice{1, 365}},
		"Trash first":        {[]Policy{after(9, Delete), after(9, Trash)}, in("INBOX"), Choice{1, 9}},
		"keep defers":        {[]Policy{invoice, inbox}, in("INBOX", "invoice"), Choice{1, 3650}},
		"keep, no label":     {[]Policy{invoice, inbox}, in("INBOX"), Choice{1, 90}},
		"keep alone":         {[]Policy{invoice}, in("INBOX", "invoice"), stays},
		"one label":          {[]Policy{labelled(after(3, Trash), "a", "b")}, in("INBOX", "b"), Choice{0, 3}},
		"label, folder":      {[]Policy{labelled(after(3, Trash, "Lists"), "a")}, in("INBOX", "a"), stays},
		"flagged":            {[]Policy{inbox}, in("INBOX", "$flagged"), stays},
		"flagged too":        {[]Policy{flagged(after(5, Trash))}, in("INBOX", "$flagged"), Choice{0, 5}},
		"flagged for one":    {[]Policy{inbox, flagged(after(5, Trash))}, in("INBOX", "$flagged"), stays},
		"kept, flagged":      {[]Policy{flagged(inbox), after(99, Keep)}, in("INBOX", "$flagged"), Choice{0, 99}},
		"drafts":             {[]Policy{all}, in("Drafts"), stays},
		"a draft elsewhere":  {[]Policy{all}, in("INBOX,Drafts"), stays},
		"one of two":         {[]Policy{inbox}, in("INBOX,Listserv"), stays},
		"two folders":        {[]Policy{inbox, lists}, in("INBOX,Lists"), Choice{0, 90}},
		"kept in one of two": {[]Policy{inbox, lists, after(400, Keep, "Lists")}, in("INBOX,Lists"), Choice{0, 400}},
		"in the Trash":       {[]Policy{after(9, Trash)}, in("Papierkorb"), stays},
		"unknown action":     {[]Policy{inbox, after(500, "archive")}, in("INBOX"), Choice{0, 500}},
		"unknown alone":      {[]Policy{after(5, "archive")}, in("INBOX"), stays},
		"no folder":          {[]Policy{all}, &Message{}, stays},
	} {
		got, ok := NewChooser(x.list, folders).Choose(x.m)
		if !ok {
			got = stays
		} else {
			x.want.Due *= day
		}
		if got != x.want {
			t.Errorf("%s: %+v, want %+v", name, got, x.want)
		}
	}
}

// TestChooseLongest checks at random that a further policy never removes a message earlier than without it, and that no
// message is due that Newest leaves out.
func TestChooseLongest(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) (out []string) {
		for _, s := range list {
			if rng.IntN(3) == 0 {
				out = append(out, s)
			}
		}
		return out
	}
	due, later := 0, 0
	for range 20_000 {
		var list []Policy
		for range 2 + rng.IntN(4) {
			list = append(list, Policy{Folders: pick("INBOX", "Lists", "Trash"), Below: rng.IntN(2) == 0,
				Labels: pick("a"), Days: 1 + rng.IntN(50), Action: []Action{Trash, Delete, Keep}[rng.IntN(3)],
				Flagged: rng.IntN(2) == 0})
		}
		m := in("INBOX", pick("a", "$flagged")...)
		m.Delivered = int64(rng.IntN(100)) * day
		m.Places = m.Places[:0]
		for i := range folders {
			if rng.IntN(4) == 0 {
				m.Places = append(m.Places, Place{i, m.Delivered + int64(rng.IntN(100))*day})
			}
		}
		c := NewChooser(list[1:], folders)
		before, ok := c.Choose(m)
		if !ok {
			continue
		}
		due++
		if m.Delivered > c.Newest(before.Due) {
			t.Fatalf("%+v: %+v is due at %d, and Newest leaves it out", list, m, before.Due)
		}
		with, ok := NewChooser(list, folders).Choose(m)
		if ok && with.Due < before.Due {
			t.Fatalf("%+v removes %+v at %d, and at %d without the first policy", list, m, with.Due, before.Due)
		}
		if !ok || with.Due > before.Due {
			later++
		}
	}
	if due < 1000 || later < 100 {
		t.Errorf("%d messages were due, %d of them later by another policy", due, later)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	many := make([]string, maxValues+1)
	for name, p := range map[string]Policy{
		"no days":           {Action: Trash},
		"negative days":     {Days: -1, Action: Trash},
		"too many days":     {Days: MaxDays + 1, Action: Trash},
		"no action":         {Days: 1},
		"an unknown action": {Days: 1, Action: "archive"},
		"below no folder":   {Days: 1, Action: Trash, Below: true},
		"an empty folder":   {Days: 1, Action: Trash, Folders: []string{""}},
		"a control":         {Days: 1, Action: Trash, Folders: []string{"a\x7fb"}},
		"a long folder":     {Days: 1, Action: Trash, Folders: []string{strings.Repeat("x", maxValue+1)}},
		"many labels":       {Days: 1, Action: Trash, Labels: many},
		"a label of words":  {Days: 1, Action: Trash, Labels: []string{"a b"}},
		"a system flag":     {Days: 1, Action: Trash, Labels: []string{`\Seen`}},
	} {
		if err := p.Check(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	p := Policy{Folders: []string{"b", "a", "b"}, Labels: []string{"Tax", "tax"}, Days: MaxDays, Action: Keep}
	if err := p.Check(); err != nil || !slices.Equal(p.Labels, []string{"tax"}) ||
		!slices.Equal(p.Folders, []string{"a", "b"}) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestKeptUntil(t *testing.T) {
	t.Parallel()
	inbox, invoice := after(90, Keep, "INBOX"), after(100, Keep)
	invoice.Labels = []string{"invoice"}
	c := NewChooser([]Policy{after(9999, Delete), inbox, invoice, after(500, "archive", "Junk")}, folders)
	for _, x := range []struct {
		m    *Message
		want int64
	}{{in("Lists"), 0}, {in("INBOX"), 90}, {in("INBOX,Lists", "$flagged"), 90}, {in("Lists", "invoice"), 100},
		{in("INBOX", "invoice"), 100}, {in("Junk"), 500}, {&Message{}, 0},
		{&Message{Places: []Place{{Folder: Gone}}, Labelled: func(string) bool { return false }}, 500}} {
		if got := c.KeptUntil(x.m); got != x.want*day {
			t.Errorf("%+v is kept until day %d, want %d", x.m.Places, got/day, x.want)
		}
	}
}
