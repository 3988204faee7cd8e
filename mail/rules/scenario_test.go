package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/mail/rules"
	"doublet/wire/mime"
)

// scenario is one script over one message. A file of testdata has sections that begin with a line "== NAME": "message"
// for all scenarios after it, "script NAME" for other scripts that can be included, and every other is the title of a
// scenario. In it, the lines after "--" are the outcome.
type scenario struct {
	title, script, message string
	want                   []string
	others                 map[string]string
}

func scenarios(t *testing.T, file string) []scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []scenario
	message, others := "", map[string]string{}
	for _, section := range strings.Split("\n"+string(text), "\n== ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		name, isScript := strings.CutPrefix(title, "script ")
		switch {
		case title == "message":
			message = strings.ReplaceAll(body, "\n", "\r\n") + "\r\n"
		case isScript:
			others[name] = body
		default:
			script, want, found := strings.Cut(body, "\n--\n")
			if !found {
				t.Fatalf("%s: %s has no outcome", file, title)
			}
			out = append(out, scenario{title, script + "\n", message, strings.Split(strings.TrimSpace(want), "\n"),
				others})
		}
	}
	return out
}

var now = time.Date(2026, 11, 25, 22, 30, 15, 0, time.FixedZone("", 3600))

func world(t *testing.T, s *scenario) *rules.World {
	return &rules.World{
		Now: now,
		Items: map[string]string{"domain": "example.com", "host": "mail.example.com", "name": "Doublet",
			"phase": "during"},
		Include: func(name string) *rules.Program {
			script, ok := s.others[name]
			if !ok {
				return nil
			}
			p, err := rules.Compile(name, script)
			if err != nil {
				t.Error(err)
			}
			return p
		},
		Mailbox: func(name string) bool { return name == "INBOX" || name == "Work" || name == "Archive" },
		SpecialUse: func(name, use string) bool {
			return use == `\Archive` && (name == "" || name == "Archive")
		},
		Seen: func(mark string) bool { return mark == "lEZ9n30jhwMEVaqP8NptHg" },
	}
}

// describe returns the lines of an outcome: those of Lines, and under them what these leave out.
func describe(o *rules.Outcome, message string) []string {
	out := o.Lines()
	add := func(format string, args ...any) {
		out = append(out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
	if v := o.Vacation; v != nil {
		add("from %q every %s to %v: %q", v.From, v.Interval, v.Addresses, v.Text)
	}
	for _, n := range o.Notices {
		add("notice from %q: %q %q", n.From, n.Subject, n.Text)
	}
	for _, m := range o.Marks {
		add("mark %s %s", m.Name, m.Until.Sub(now))
	}
	if o.Header != nil {
		old := strings.Split(message[:mime.HeaderEnd([]byte(message))], "\r\n")
		changed := strings.Split(string(o.Header), "\r\n")
		for i, l := range changed {
			if !slices.Contains(old, l) {
				add("+%d %s", i, l)
			}
		}
		for _, l := range old {
			if !slices.Contains(changed, l) {
				add("- %s", l)
			}
		}
	}
	return out
}

// TestSpamtest runs the test of the junk filter's score over the bounds of its steps.
func TestSpamtest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		score         float64
		want, percent string
	}{{-1, "0", "0"}, {0, "1", "0"}, {0.111, "1", "11"}, {0.112, "2", "11"}, {0.5, "5", "50"}, {0.999, "9", "99"},
		{1, "10", "100"}} {
		tested := "1"
		if c.score < 0 {
			tested = "0"
		}
		p, err := rules.Compile("", `require ["spamtestplus", "fileinto", "relational"];
			if allof (spamtest "`+c.want+`", spamtest :percent "`+c.percent+`",
				spamtest :percent :count "eq" "`+tested+`") { discard; }`)
		if err != nil {
			t.Fatal(err)
		}
		m := &rules.Message{Raw: []byte("Subject: a\r\n\r\n"), Score: &c.score}
		if c.score < 0 {
			m.Score = nil
		}
		if o := rules.Run(p, m, &rules.World{}); o.Err != nil || len(o.Filings) != 0 {
			t.Errorf("score %v is neither %s nor %s percent: %v", c.score, c.want, c.percent, o.Err)
		}
	}
	if _, err := rules.Compile("", `require "spamtest"; if spamtest :percent "1" { keep; }`); err == nil {
		t.Error(":percent without spamtestplus")
	}
}

// TestScenarios runs the scripts of testdata. The name of a file is the RFC that it tests.
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		for _, s := range scenarios(t, file) {
			t.Run(filepath.Base(file)+"/"+s.title, func(t *testing.T) {
				t.Parallel()
				var got []string
				if p, err := rules.Compile("", s.script); err != nil {
					got = []string{"invalid " + err.Error()}
				} else {
					m := &rules.Message{Raw: []byte(s.message), From: "alice+news@example.org",
						To: "bob+lists@example.com"}
					o := rules.Run(p, m, world(t, &s))
					got = describe(&o, s.message)
				}
				if !slices.Equal(got, s.want) {
					t.Errorf("%s\ngot\n%s\nwant\n%s", s.script, strings.Join(got, "\n"), strings.Join(s.want, "\n"))
				}
			})
		}
	}
}
