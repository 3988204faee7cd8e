package admin

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  show   stat\tMail.* ", []string{"show", "stat", "Mail.*"}},
		{`user show "Ada Lovelace"`, []string{"user", "show", "Ada Lovelace"}},
		{`a "" 'b\' c\ d "e\"f"`, []string{"a", "", `b\`, "c d", `e"f`}},
		{`x="y z"w`, []string{"x=y zw"}},
	} {
		if got, err := Words(c.line); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q %v, want %q", c.line, got, err, c.want)
		}
	}
	for _, line := range []string{`"a`, `a'`, `a\`, strings.Repeat("x", maxLine+1)} {
		if _, err := Words(line); !errors.Is(err, ErrUsage) {
			t.Errorf("%.20q was accepted", line)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add(`user show "Ada Lovelace" --x='y'`)
	f.Add(`a\ b "\"" ''`)
	f.Fuzz(func(t *testing.T, line string) {
		words, err := Words(line)
		if err != nil {
			return
		}
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		if len(strings.Join(quoted, " ")) > maxLine {
			return
		}
		back, err := Words(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(back, words) {
			t.Errorf("%q: %q, and quoted %q %v", line, words, back, err)
		}
		x, rest, err := resolve(words)
		if err != nil {
			return
		}
		v, ok := Find(x.Verb)
		if !ok || v.Name == consoleVerb {
			t.Fatalf("%q runs %q", line, x.Verb)
		}
		if raw, err := v.Arguments(append(slices.Clone(x.Args), rest...)); err == nil && !json.Valid(raw) {
			t.Errorf("%q: arguments %q", line, raw)
		}
	})
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ verb, line, want string }{
		{"user show", "ada", `{"name":"ada"}`},
		{"check", "--deep ada bob --repair=false", `{"database":["ada","bob"],"deep":true,"repair":false}`},
		{"queue list", "--limit 5 --from=x --to 'a b'", `{"from":"x","limit":5,"to":"a b"}`},
		{"group set", "Crew --add ada --add bo", `{"add":["ada","bo"],"name":"Crew"}`},
		{"task load", "compact ada --share 20", `{"args":["ada","--share","20"],"name":"compact"}`},
		{"user show", "-- --x", `{"name":"--x"}`},
		{"show queue", "--by-destination", `{"by_destination":true}`},
		{"backup", "/b", `{"dir":"/b"}`},
		{"backup", "s3://b/p?region=x", `{"dir":"s3://b/p?region=x"}`},
	} {
		v, _ := Find(c.verb)
		words, err := Words(c.line)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.Arguments(words); err != nil || string(got) != c.want {
			t.Errorf("%s %s: %s %v, want %s", c.verb, c.line, got, err, c.want)
		}
	}
	for _, c := range [][2]string{{"user show", "a b"}, {"user show", "--x"}, {"queue list", "--limit"},
		{"queue list", "--limit x"}, {"check", "--deep=perhaps"}, {"backup", "b"}, {"user password", "ada"}} {
		v, _ := Find(c[0])
		if got, err := v.Arguments(strings.Fields(c[1])); !errors.Is(err, ErrUsage) {
			t.Errorf("%s %s: %s %v", c[0], c[1], got, err)
		}
	}
}

// TestResolve checks abbreviations, and that the longest command that fits is meant.
func TestResolve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, verb, args, rest string }{
		{"show server", "show server", "", ""},
		{"SH SE", "show server", "", ""},
		{"sh stat Mail", "show stat", "", "Mail"},
		{"show database ada", "db show", "", "ada"},
		{"show perf", "show stat", "Server.Trans", ""},
		{"load updall", "task load", "", "updall"},
		{"tell router show", "show queue", "", ""},
		{"tell router quit", "task tell", "", "router quit"},
		{"route example.net", "queue route", "", "example.net"},
		{"route add x", "route add", "", "x"},
		{"set config log.level=info", "set configuration", "", "log.level=info"},
		{"backup list /b", "backup list", "", "/b"},
	} {
		x, rest, err := resolve(strings.Fields(c.line))
		if err != nil || x.Verb != c.verb || strings.Join(x.Args, " ") != c.args || strings.Join(rest, " ") != c.rest {
			t.Errorf("%s: %q %q %q %v", c.line, x.Verb, x.Args, rest, err)
		}
	}
	for line, want := range map[string]string{"": "", "show": "not complete", "sh s": "ambiguous", "sh": "show bans",
		"quit":    "exit leaves",
		"console": "no such verb", "s": "not complete", "st": "no such verb", "sto": "no such verb"} {
		if x, _, err := resolve(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q %v, want %q", line, x.Verb, err, want)
		}
	}
	for _, d := range domino {
		if _, ok := Find(d.verb); !ok {
			t.Errorf("%s has no verb %s", d.name, d.verb)
		}
		if _, taken := Find(d.name); taken {
			t.Errorf("%s is a verb itself", d.name)
		}
	}
}
