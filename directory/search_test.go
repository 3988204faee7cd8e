package directory

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"doublet/note"
)

// names returns the names of the entries that a search finds.
func (w *world) names(s Search) string {
	w.t.Helper()
	list, err := w.Names.Find(bg, s)
	w.ok(err)
	var out []string
	for _, e := range list {
		out = append(out, e.Name+" <"+e.Address+">")
	}
	return strings.Join(out, ", ")
}

// TestFind checks that any word of a name and any address find people and groups, in order; nothing else does.
func TestFind(t *testing.T) {
	w := open(t)
	ada := w.add("Ada Lovelace", "ada", func(s *PersonSpec) {
		s.FullName, s.MailAddress = append(s.FullName, "Countess Byron"), []string{"love@example.com"}
	})
	w.add("Åsa Émile-Zöllner", "asa")
	w.add("Lovis Adams", "lovis")
	w.add("No Address", "noaddress", func(s *PersonSpec) { s.ShortName = "" })
	w.group("Loved Ones", "ones@example.com", "ada")
	_, err := w.Groups.Add(bg, note.System, GroupFields{Name: "Lovers of Access", Kind: GroupAccess})
	w.ok(err)
	_, err = w.MailIns.Add(bg, note.System, MailInFields{Name: "Love Letters", InternetAddress: "letters@example.com",
		Database: 7})
	w.ok(err)
	asleep := w.add("Lover Asleep", "asleep", func(s *PersonSpec) { s.Disabled = true })
	gone := w.add("Lover Gone", "gone")
	w.ok(w.People.Remove(bg, note.System, gone.ID))
	const (
		adas  = "Ada Lovelace <ada@example.com>"
		lovis = "Lovis Adams <lovis@example.com>"
		ones  = "Loved Ones <ones@example.com>"
		asa   = "Åsa Émile-Zöllner <asa@example.com>"
	)
	for _, c := range []struct {
		s    Search
		want []string
	}{
		{Search{Text: "LOV"}, []string{ones, lovis, adas}}, // beginnings of names first
		{Search{Text: " lovelace  ad "}, []string{adas}},
		{Search{Text: "byr"}, []string{adas}},
		{Search{Text: "love@ex"}, []string{adas}}, // by an alias, not the returned address
		{Search{Text: "ada"}, []string{adas, lovis}},
		{Search{Text: "zöll"}, []string{asa}},
		{Search{Text: "ÉMI"}, []string{asa}},
		{Search{Text: "elace"}, nil},
		{Search{Text: "no add"}, nil},
		{Search{Text: "lov", Kind: TargetGroup}, []string{ones}},
		{Search{Text: "lov", Kind: TargetPerson}, []string{lovis, adas}},
		{Search{Name: "ada", Email: "lovi"}, []string{lovis}},
		{Search{Email: "love"}, []string{adas}},
		{Search{Name: "ones@"}, nil},
		{Search{Text: "lov", Name: "one"}, []string{ones}},
		{Search{Text: "  "}, nil},
		{Search{}, nil},
		{Search{Text: strings.Repeat("a", 300)}, nil},
		{Search{Text: "\xff\x00"}, nil},
	} {
		if got := w.names(c.s); got != strings.Join(c.want, ", ") {
			t.Errorf("%+v: %s, want %s", c.s, got, strings.Join(c.want, ", "))
		}
	}
	list, version, err := w.Names.Entries(bg, []note.UNID{gone.ID, asleep.ID, ada.ID, {1}})
	if err != nil || len(list) != 1 || list[0] != (Entry{ada.ID, TargetPerson, "Ada Lovelace", "ada@example.com"}) {
		t.Error(list, err)
	}
	w.add("One More", "more")
	if _, now, err := w.Names.Entries(bg, nil); err != nil || now == version {
		t.Error("the version stays", version, err)
	}
}

// TestFindBounds checks that a search returns at most 20 entries. A private directory returns none.
func TestFindBounds(t *testing.T) {
	w := open(t)
	var ids []note.UNID
	for i := range 30 {
		ids = append(ids, w.add(fmt.Sprintf("Many %02d Smith", i), fmt.Sprintf("many%02d", i)).ID)
	}
	for _, text := range []string{"many", "smith", "MANY1"} {
		list, err := w.Names.Find(bg, Search{Text: text})
		w.ok(err)
		if len(list) != min(20, map[string]int{"MANY1": 10}[text]+map[bool]int{true: 20}[text != "MANY1"]) {
			t.Errorf("%s: %d", text, len(list))
		}
		if !slices.IsSortedFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s: %v", text, list)
		}
	}
	w.end()
	w.start(func(o *Options) { o.Private = true })
	if got := w.names(Search{Text: "many"}); got != "" || !w.Names.Private() {
		t.Error(got)
	}
	if list, _, err := w.Names.Entries(bg, ids); len(list) != 0 || err != nil {
		t.Error(list, err)
	}
}
