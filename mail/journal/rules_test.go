package journal

import (
	"strings"
	"testing"

	"doublet/note"
)

func TestRules(t *testing.T) {
	t.Parallel()
	board, bob := "Board of directors", note.UNID{7}
	member := func(group string, person note.UNID) bool { return group == board && person == bob }
	in := &Message{From: "eve@far.example", Outside: true,
		Recipients: []Recipient{{"ann@example.com", note.UNID{1}}, {"Bob@example.com", bob}},
		Details:    Details{Envelope: []string{"ann@example.com", "board@lists.example.com"}}}
	out := &Message{From: "ann@example.com", Sender: note.UNID{1},
		Recipients: []Recipient{{Address: "eve@far.example"}}}
	internal := &Message{From: "bob@example.com", Sender: bob,
		Recipients: []Recipient{{"ann@example.com", note.UNID{1}}}}
	for _, x := range []struct {
		rules string
		want  string // i, o, n: in, out, internal
	}{
		{"", "ion"}, {" ; ", "ion"}, {"in", "i"}, {"OUT", "o"}, {"internal", "n"}, {"in; out", "io"},
		{"from=EVE@far.example", "i"}, {"from=@far.example", "i"}, {"to=@far.example", "o"},
		{"to=bob@example.com", "i"}, {"to=Board@lists.example.com", "i"}, {"domain=lists.example.com", "i"},
		{"domain=far.example", "io"}, {"domain=example.com out", "o"},
		{`group="Board of directors"`, "in"}, {`in group="Board of directors"; out to=nobody@far.example`, "i"},
		{"group=Others", ""}, {"in out", ""},
	} {
		rs, err := ParseRules(x.rules)
		if err != nil {
			t.Errorf("%q: %v", x.rules, err)
			continue
		}
		got := ""
		for i, m := range []*Message{in, out, internal} {
			if rs.selects(m, member) {
				got += "ion"[i : i+1]
			}
		}
		if got != x.want {
			t.Errorf("%q selects %q, want %q", x.rules, got, x.want)
		}
	}
	for _, bad := range []string{"all", "from", "from=", "from=far.example", "to=ann@", "domain=@far.example",
		`group="x`, "subject=x", "=", strings.Repeat("in;", maxRules+5), strings.Repeat("in ", maxConditions+1),
		strings.Repeat(" ", maxRuleText+1)} {
		if _, err := ParseRules(bad); err == nil {
			t.Errorf("%.40q is accepted", bad)
		}
	}
	for _, bad := range []string{"", "age1x", "server " + strings.Repeat("server ", maxRecipients)} {
		if _, _, err := ParseKeys(bad); err == nil {
			t.Errorf("keys %.40q are accepted", bad)
		}
	}
}

func FuzzRules(f *testing.F) {
	for _, s := range []string{"in; from=@a.example", `group="a b" out`, "=", `to="x@y";`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rs, err := ParseRules(text)
		if err != nil {
			return
		}
		if len(rs) > maxRules+1 {
			t.Errorf("%d rules", len(rs))
		}
		m := &Message{From: text, Recipients: []Recipient{{Address: text}}}
		rs.selects(m, func(string, note.UNID) bool { return true })
	})
}
