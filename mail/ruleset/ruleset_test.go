package ruleset_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"
	"testing"

	"doublet/mail/ruleset"
	"doublet/wire/sieve"
)

// line shows a rule in one line.
func line(r *ruleset.Rule) string {
	if r.Opaque {
		return fmt.Sprintf("opaque %q", r.Name)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q %s(", map[bool]string{true: "on", false: "off"}[r.Enabled], r.Name, r.Match)
	for i, c := range r.Conditions {
		if i > 0 {
			b.WriteString(", ")
		}
		if c.Not {
			b.WriteString("not ")
		}
		words := []string{c.Field}
		for _, w := range []string{c.Header, c.Comparison} {
			if w != "" {
				words = append(words, w)
			}
		}
		if c.Values != nil {
			words = append(words, fmt.Sprint(c.Values))
		}
		if c.Field == "size" {
			words = append(words, fmt.Sprint(c.Size))
		}
		b.WriteString(strings.Join(words, " "))
	}
	b.WriteString(")")
	for _, a := range r.Actions {
		if a.Create {
			b.WriteString(" create")
		}
		if b.WriteString(" " + a.Type); a.Value != "" {
			fmt.Fprintf(&b, "(%s)", a.Value)
		}
	}
	if r.Stop {
		b.WriteString(" stop")
	}
	if r.Comment != "" {
		b.WriteString(" # " + r.Comment)
	}
	return b.String()
}

// TestRead reads the scripts of testdata. Each is written as it was, and each rule that a form shows reads back the
// same when it is written anew.
func TestRead(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/read.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range strings.Split(string(text), "\n== ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		script, want, _ := strings.Cut(body, "--\n")
		s, err := ruleset.Parse(script)
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		var got []string
		for i := range s.Rules {
			got = append(got, line(&s.Rules[i]))
		}
		if g := strings.Join(got, "\n"); g != strings.TrimSpace(want) {
			t.Errorf("%s: read as\n%s", title, g)
		}
		if out, err := s.Format(); err != nil || out != script {
			t.Errorf("%s: written as\n%s%v", title, out, err)
		}
		for i := range s.Rules {
			if !s.Rules[i].Opaque {
				s.Rules[i].Text = ""
			}
		}
		out, err := s.Format()
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		again, err := ruleset.Parse(out)
		if err != nil {
			t.Errorf("%s: %v\n%s", title, err, out)
			continue
		}
		for i := range again.Rules {
			if g := line(&again.Rules[i]); g != got[i] {
				t.Errorf("%s: written anew, rule %d is %s\n%s", title, i, g, out)
			}
		}
	}
}

// TestRefused writes rules that cannot be written.
func TestRefused(t *testing.T) {
	t.Parallel()
	from := []ruleset.Condition{{Field: "from", Comparison: "is", Values: []string{"a@example.com"}}}
	keep := []ruleset.Action{{Type: "keep"}}
	for _, c := range []struct {
		head string
		rule ruleset.Rule
		want string
	}{
		{"", ruleset.Rule{Conditions: from}, "no action"},
		{"", ruleset.Rule{Opaque: true}, "no text"},
		{"", ruleset.Rule{Name: "a\nkeep;", Actions: keep}, "one line"},
		{"", ruleset.Rule{Comment: "a\rb", Actions: keep}, "one line"},
		{"", ruleset.Rule{Match: "none", Actions: keep,
			Conditions: append(from, from...)}, "unknown match"},
		{"", ruleset.Rule{Conditions: []ruleset.Condition{{Field: "to"}}, Actions: keep}, "unknown condition"},
		{"", ruleset.Rule{Conditions: []ruleset.Condition{{Field: "subject", Comparison: "domain"}}, Actions: keep},
			"unknown condition"},
		{"", ruleset.Rule{Conditions: []ruleset.Condition{{Field: "subject", Comparison: "is"}}, Actions: keep},
			"needs texts"},
		{"", ruleset.Rule{Conditions: []ruleset.Condition{{Field: "header", Comparison: "exists", Header: "a b"}},
			Actions: keep}, "invalid name"},
		{"", ruleset.Rule{Conditions: []ruleset.Condition{{Field: "subject", Comparison: "regex",
			Values: []string{"("}}}, Actions: keep}, "missing closing"},
		{"", ruleset.Rule{Actions: []ruleset.Action{{Type: "move"}}}, "no folder"},
		{"", ruleset.Rule{Actions: []ruleset.Action{{Type: "label", Value: `\Deleted`}}}, "invalid label"},
		{"", ruleset.Rule{Actions: []ruleset.Action{{Type: "label", Value: "a b"}}}, "invalid label"},
		{"", ruleset.Rule{Actions: []ruleset.Action{{Type: "forward", Value: "nobody"}}}, "invalid address"},
		{"", ruleset.Rule{Actions: []ruleset.Action{{Type: "reject", Value: "no"}, {Type: "keep"}}}, "only action"},
		{"", ruleset.Rule{Actions: []ruleset.Action{{Type: "explode"}}}, "unknown action"},
		{"", ruleset.Rule{Actions: []ruleset.Action{{Type: "keep", Value: "x"}}}, "no value"},
		{`require "variables";`, ruleset.Rule{Actions: []ruleset.Action{{Type: "move", Value: "${a}"}}}, "of its own"},
		{`require ["v\ariables", "fileinto"];`, ruleset.Rule{Actions: []ruleset.Action{{Type: "move", Value: "${a}"}}},
			"of its own"},
		{`require "encoded-character";`, ruleset.Rule{Actions: []ruleset.Action{{Type: "move", Value: "${hex:41}"}}},
			"of its own"},
		{"", ruleset.Rule{Text: "keep"}, "expected ;"},
	} {
		s, err := ruleset.Parse(c.head)
		if err != nil {
			t.Fatal(err)
		}
		s.Rules = []ruleset.Rule{c.rule}
		_, err = s.Format()
		var mistakes sieve.Errors
		known := errors.Is(err, ruleset.ErrRule) || errors.As(err, &mistakes)
		if err == nil || !strings.Contains(err.Error(), c.want) || !known {
			t.Errorf("%+v: %v", c.rule, err)
		}
	}
}

// TestHead checks that capabilities are added, and that comments before them stay.
func TestHead(t *testing.T) {
	t.Parallel()
	move := ruleset.Rule{Enabled: true, Name: "M", Actions: []ruleset.Action{{Type: "move", Value: "A"}}}
	for _, c := range [][2]string{
		{"", "require [\"fileinto\"];\n# rule:[M]\nif true {\n    fileinto \"A\";\n}\n"},
		{"require \"body\";", "require [\"body\", \"fileinto\"];\n# rule:[M]\nif true {\n    fileinto \"A\";\n}\n"},
		{"# mine\nrequire \"body\";\n", "# mine\nrequire \"body\";\nrequire [\"fileinto\"];\n# rule:[M]\nif true {\n" +
			"    fileinto \"A\";\n}\n"},
	} {
		s, err := ruleset.Parse(c[0])
		if err != nil {
			t.Fatal(err)
		}
		s.Rules = append(s.Rules, move)
		if out, err := s.Format(); err != nil || out != c[1] {
			t.Errorf("%q is written as\n%s%v", c[0], out, err)
		}
	}
}

// model makes random rules.
type model struct{ *rand.Rand }

func (m model) of(list ...string) string { return list[m.IntN(len(list))] }

func (m model) word() string {
	return m.of("a", "Zoë", `quo"te`, `back\slash`, "two words", "${x}", "*star?", "text:\n.dot\n", "#no", "/* no */",
		"; keep;")
}

func (m model) rule() ruleset.Rule {
	r := ruleset.Rule{Name: m.of("", "A", "B [x]", "rule:[no]"), Comment: m.of("", "one", "one\ntwo"),
		Enabled: m.IntN(3) > 0, Match: m.of("all", "any"), Stop: m.IntN(2) == 0}
	for range m.IntN(4) {
		c := ruleset.Condition{Field: m.of("from", "recipients", "subject", "list", "header", "text"),
			Comparison: m.of("contains", "matches"), Not: m.IntN(4) == 0, Values: []string{m.word()}}
		if m.IntN(4) == 0 {
			c.Values = append(c.Values, m.word())
		}
		switch {
		case c.Field == "header":
			c.Header = m.of("X-A", "Reply-To")
		case c.Field == "from" || c.Field == "recipients":
			c.Comparison = m.of("contains", "is", "domain")
		case m.IntN(5) == 0:
			c = ruleset.Condition{Field: "size", Comparison: m.of("over", "under"), Not: c.Not}
			c.Size = m.Uint64N(1 << 31)
		case m.IntN(5) == 0:
			c = ruleset.Condition{Field: "attachment", Not: c.Not}
		}
		r.Conditions = append(r.Conditions, c)
	}
	if len(r.Conditions) < 2 {
		r.Match = "all"
	}
	for _, kind := range []string{"read", "label", "copy", "forward", "move"} {
		if m.IntN(2) == 0 {
			value := map[string]string{"label": "work", "copy": "Plain", "forward": "x@example.com",
				"move": m.word()}[kind]
			r.Actions = append(r.Actions, ruleset.Action{Type: kind, Value: value})
		}
	}
	if len(r.Actions) == 0 {
		r.Actions = []ruleset.Action{{Type: m.of("keep", "delete", "discard")}}
	}
	return r
}

// TestModel changes scripts at random: after each change the script has the rules that a list has.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		m := model{rand.New(rand.NewPCG(seed, 1))}
		text := m.of("", "# mine\n", "require \"vacation\"; vacation \"away\";\n# tail", "keep;stop;")
		var want []ruleset.Rule
		if s, err := ruleset.Parse(text); err == nil {
			want = s.Rules
		}
		for step := range 12 {
			s, err := ruleset.Parse(text)
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text)
			}
			at := m.IntN(len(s.Rules) + 1)
			switch m.IntN(4) {
			case 0, 1:
				r := m.rule()
				s.Rules = append(s.Rules[:at:at], append([]ruleset.Rule{r}, s.Rules[at:]...)...)
				want = append(want[:at:at], append([]ruleset.Rule{r}, want[at:]...)...)
			case 2:
				if at < len(s.Rules) {
					s.Rules, want = append(s.Rules[:at:at], s.Rules[at+1:]...), append(want[:at:at], want[at+1:]...)
				}
			case 3:
				if at < len(s.Rules) {
					s.Rules[0], s.Rules[at] = s.Rules[at], s.Rules[0]
					want[0], want[at] = want[at], want[0]
				}
			}
			if text, err = s.Format(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			back, err := ruleset.Parse(text)
			if err != nil || len(back.Rules) != len(want) {
				t.Fatalf("seed %d step %d: %d rules, not %d: %v\n%s", seed, step, len(back.Rules), len(want), err, text)
			}
			for i := range want {
				if a, b := line(&back.Rules[i]), line(&want[i]); a != b {
					t.Fatalf("seed %d step %d: rule %d is\n%s\nnot\n%s\n%s", seed, step, i, a, b, text)
				}
			}
		}
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	got := ruleset.Suggest([]byte("From: Ann <ann@example.com>, b@c\r\n" +
		"Subject: Re: AW: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n" +
		"List-Id: The list <dev.example.com>\r\n\r\n"))
	want := []ruleset.Condition{
		{Field: "list", Comparison: "contains", Values: []string{"dev.example.com"}},
		{Field: "from", Comparison: "is", Values: []string{"ann@example.com"}},
		{Field: "subject", Comparison: "contains", Values: []string{"Grüße"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if got := ruleset.Suggest([]byte("Subject: \r\nFrom: undisclosed:;\r\n\r\n")); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// FuzzParse checks that a script that is read is written as it was, and that its rules can be written anew.
func FuzzParse(f *testing.F) {
	f.Add("require \"fileinto\";\n# rule:[A]\nif header :contains \"from\" \"x\" { fileinto \"B\"; stop; }\n# end")
	f.Add("keep;stop;")
	f.Add("require [\"variables\",\"encoded-character\"]; if header \"a\" \"${hex:41}\" { discard; }")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ruleset.Parse(text)
		if err != nil {
			return
		}
		if out, err := s.Format(); err != nil || out != strings.TrimPrefix(text, "\ufeff") {
			t.Fatalf("written as %q: %v", out, err)
		}
		for i := range s.Rules {
			if !s.Rules[i].Opaque {
				s.Rules[i].Text = ""
			}
		}
		out, err := s.Format()
		if err != nil {
			if !errors.Is(err, ruleset.ErrRule) {
				t.Fatal(err)
			}
			return
		}
		back, err := ruleset.Parse(out)
		if err != nil || len(back.Rules) != len(s.Rules) {
			t.Fatalf("%d rules, not %d: %v", len(back.Rules), len(s.Rules), err)
		}
	})
}
