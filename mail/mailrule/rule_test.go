package mailrule_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"doublet/mail/mailrule"
)

// message returns a message of two parts, with a program attached.
func message(subject, text string) []byte {
	return []byte("From: Eve <eve@far.example>\r\nTo: alice@example.com\r\nSubject: " + subject +
		"\r\nX-Mailer: Bulk 3000\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n" +
		"\r\n--b\r\nContent-Type: text/plain; charset=utf-8\r\n" +
		"Content-Transfer-Encoding: quoted-printable\r\n\r\n" + text + "\r\n--b\r\n" +
		"Content-Type: application/octet-stream; name=\"=?utf-8?q?Setup.EXE?=\"\r\n" +
		"Content-Disposition: attachment\r\n\r\nMZ\r\n--b--\r\n")
}

func facts() *mailrule.Message {
	return &mailrule.Message{From: "bounce@lists.far.example", To: []string{"Alice@example.com", "bob@example.com"},
		Raw: message("=?utf-8?q?Geh=C3=A4lter?= 2026", "The  turbine =\r\nplans, top secret. M=C3=BCnchen"), Junk: true,
		Member: func(g string) bool { return g == "Board" }}
}

// TestConditions tests each condition with values for which it holds and does not.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		when string
		want bool
	}{
		{`{}`, true},
		{`{"direction":["in"]}`, true},
		{`{"direction":["out","internal"]}`, false},
		{`{"from":["eve@far.example"]}`, true}, // the author
		{`{"from":["@lists.FAR.example"]}`, true},
		{`{"from":["@example"]}`, false},
		{`{"from":["@far.example.com"]}`, false},
		{`{"to":["ALICE@EXAMPLE.COM"]}`, true},
		{`{"to":["@example.com"]}`, true},
		{`{"to":["carl@example.com"]}`, false},
		{`{"group":["Staff","Board"]}`, true},
		{`{"group":["Staff"]}`, false},
		{`{"larger":"100"}`, true},
		{`{"larger":"1MB"}`, false},
		{`{"attachment":["*"]}`, true},
		{`{"attachment":["*.exe"]}`, true},
		{`{"attachment":["*.EXE","*.com"]}`, true},
		{`{"attachment":["*.zip"]}`, false},
		{`{"attachment":["application/*"]}`, true},
		{`{"attachment":["text/plain"]}`, false}, // the text of the message is no attachment
		{`{"subject":["gehälter"]}`, true},
		{`{"subject":["GEHÄLTER 2026"]}`, true},
		{`{"subject":["halter"]}`, false},
		{`{"words":["turbine plans"]}`, true}, // across the line break
		{`{"words":["plan"]}`, false},         // not a whole word
		{`{"words":["MÜNCHEN"]}`, true},
		{`{"words":["secret."]}`, true},
		{`{"words":["2026"]}`, true}, // in the subject
		{`{"header":["x-mailer"]}`, true},
		{`{"header":["X-Mailer: bulk"]}`, true},
		{`{"header":["X-Mailer: mutt"]}`, false},
		{`{"header":["X-Other"]}`, false},
		{`{"verdict":["junk"]}`, true},
		{`{"verdict":["held","forged","authenticated","unauthenticated"]}`, false},
		{`{"direction":["in"],"larger":"1MB"}`, false}, // all must hold
	} {
		for _, unless := range []bool{false, true} {
			text, want := fmt.Sprintf(`{"when":%s,"do":{"stop":true}}`, x.when), x.want
			if unless {
				text = fmt.Sprintf(`{"unless":%s,"do":{"stop":true}}`, x.when)
				want = !x.want || x.when == `{}`
				if x.when == `{"direction":["in"],"larger":"1MB"}` {
					want = false // any ends it
				}
			}
			f, err := mailrule.Parse(text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			out := mailrule.NewSet([]*mailrule.Rule{mailrule.Compile("r", f)}).Run(facts())
			if got := len(out.Matched) == 1; got != want {
				t.Errorf("%s matches: %v, want %v", text, got, want)
			}
		}
	}
}

// TestVerdicts tests direction and verdicts for other messages.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	for when, m := range map[string]mailrule.Message{
		`{"direction":["internal"],"verdict":["authenticated"]}`: {SignedIn: true},
		`{"direction":["out"]}`:                                  {SignedIn: true, Outside: true},
		`{"verdict":["authenticated"]}`:                          {Authenticated: true},
		`{"verdict":["unauthenticated"]}`:                        {Unauthenticated: true},
		`{"verdict":["forged"]}`:                                 {Forged: true},
		`{"verdict":["held"]}`:                                   {Held: true},
	} {
		f, err := mailrule.Parse(`{"when":` + when + `,"do":{"journal":true}}`)
		if err != nil {
			t.Fatal(err)
		}
		set := mailrule.NewSet([]*mailrule.Rule{mailrule.Compile("r", f)})
		if out := set.Run(&m); !out.Journal {
			t.Errorf("%s does not match %+v", when, m)
		}
		if out := set.Run(&mailrule.Message{}); out.Journal {
			t.Errorf("%s matches an empty message", when)
		}
	}
}

// TestActions tests how the actions of several rules are combined, also for a message that no rule may refuse.
func TestActions(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		do   []string
		want string
	}{
		{nil, ""},
		{[]string{`{"journal":true}`, `{"move":"A"}`, `{"move":"B"}`}, "journal; move: A"},
		{[]string{`{"text":"one"}`, `{"text":"two\nlines"}`}, "text: one; text: two lines"},
		{[]string{`{"add":["a@x.example"]}`, `{"add":["b@x.example"]}`},
			"add recipient: a@x.example; add recipient: b@x.example"},
		{[]string{`{"add":["a@x.example"]}`, `{"replace":["b@x.example","c@x.example"]}`, `{"replace":["d@x.example"]}`,
			`{"add":["e@x.example"]}`},
			"add recipient: a@x.example; replace recipients: b@x.example; replace recipients: c@x.example; " +
				"add recipient: e@x.example"},
		{[]string{`{"journal":true,"stop":true}`, `{"refuse":"no"}`}, "journal"},
		{[]string{`{"journal":true}`, `{"refuse":"no"}`, `{"move":"A"}`}, "refuse: no"},
	} {
		var rules []*mailrule.Rule
		for i, do := range x.do {
			f, err := mailrule.Parse(`{"do":` + do + `}`)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, mailrule.Compile(fmt.Sprint(i), f))
		}
		out := mailrule.NewSet(rules).Run(facts())
		if got := strings.Join(out.Lines(), "; "); got != x.want {
			t.Errorf("%s: %q, want %q", x.do, got, x.want)
		}
	}
	var rules []*mailrule.Rule
	for _, do := range []string{`{"journal":true}`, `{"refuse":"no"}`, `{"move":"A"}`} {
		f, err := mailrule.Parse(`{"do":` + do + `}`)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, mailrule.Compile(do, f))
	}
	m := facts()
	m.Arrives = true
	out := mailrule.NewSet(rules).Run(m)
	if got := strings.Join(out.Lines(), "; "); got != "journal; move: A" || len(out.Matched) != 2 {
		t.Errorf("a message that arrives: %q, %d rules", got, len(out.Matched))
	}
}

// TestAddedBound checks the bound of the recipients that rules add.
func TestAddedBound(t *testing.T) {
	t.Parallel()
	var rules []*mailrule.Rule
	for range 5 {
		f, err := mailrule.Parse(`{"do":{"add":["` + strings.Repeat(`a@x.example","`, 19) + `a@x.example"]}}`)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, mailrule.Compile("r", f))
	}
	if out := mailrule.NewSet(rules).Run(facts()); len(out.Recipients) != 50 {
		t.Errorf("%d recipients", len(out.Recipients))
	}
}

// TestParse checks that rules which cannot be right are errors that name the place.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                              "EOF",
		`{}`:                            "no action",
		`{"do":{}}`:                     "no action",
		`{"do":{"stop":true}} x`:        "after the closing brace",
		`{"do":{"stop":true},"x":1}`:    "unknown field",
		`{"do":{"delete":true}}`:        "unknown field",
		`{"do":{"refuse":"a\r\nb"}}`:    "one line",
		`{"do":{"refuse":"ä"}}`:         "ASCII",
		`{"do":{"move":"a//b"}}`:        "empty level",
		`{"do":{"move":"a\u0000"}}`:     "control character",
		`{"do":{"add":["x"]}}`:          "neither an address",
		`{"do":{"add":["@x.example"]}}`: "neither an address",
		`{"do":{"add":["a@x.example"],"replace":["b@x.example"]}}`:                      "exclude each other",
		`{"when":{"verdict":[]},"do":{"refuse":"no"}}`:                                  "verdict: the condition",
		`{"do":{"refuse":"no","journal":true}}`:                                         "refuse excludes",
		`{"do":{"text":" "}}`:                                                           "text: empty",
		`{"when":{"direction":["up"]},"do":{"stop":true}}`:                              "when: direction",
		`{"unless":{"verdict":["bad"]},"do":{"stop":true}}`:                             "unless: verdict",
		`{"when":{"from":[""]},"do":{"stop":true}}`:                                     "when: from",
		`{"when":{"attachment":["[a"]},"do":{"stop":true}}`:                             "no pattern",
		`{"when":{"larger":"much"},"do":{"stop":true}}`:                                 "no size",
		`{"when":{"words":[" "]},"do":{"stop":true}}`:                                   "no words",
		`{"when":{"header":["a b: c"]},"do":{"stop":true}}`:                             "neither NAME",
		`{"when":{"words":[` + strings.Repeat(`"a",`, 20) + `"a"]},"do":{"stop":true}}`: "at most 20",
		`{"do":{"text":"` + strings.Repeat("a", 5000) + `"}}`:                           "at most 4000",
		strings.Repeat(" ", 40<<10):                                                     "at most",
	} {
		if _, err := mailrule.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

// FuzzParse parses arbitrary rules. What is accepted is the same after it was written and read again, and runs.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"when":{"direction":["in"],"attachment":["*.exe"]},"unless":{"from":["@a.example"]},"do":{"refuse":"no"}}`,
		`{"when":{"words":["a <b>"],"subject":["x"],"header":["A: b"],"larger":"10MB"},"do":{"text":"é\n"}}`,
		`{"when":{"group":["g"],"to":["a@b.example"],"verdict":["junk"]},"do":{"move":"A/B","add":["a@b.example"]}}`,
	} {
		f.Add(s, string(message("a", "b")))
	}
	f.Fuzz(func(t *testing.T, text, raw string) {
		form, err := mailrule.Parse(text)
		if err != nil {
			return
		}
		again, err := mailrule.Parse(string(form.Bytes()))
		if err != nil || string(again.Bytes()) != string(form.Bytes()) {
			t.Fatalf("%s\n%s\n%v", text, form.Bytes(), err)
		}
		m := facts()
		m.Raw = []byte(raw)
		first := mailrule.NewSet([]*mailrule.Rule{mailrule.Compile("r", form)}).Run(m)
		second := mailrule.NewSet([]*mailrule.Rule{mailrule.Compile("r", again)}).Run(m)
		if !slices.Equal(first.Lines(), second.Lines()) {
			t.Fatalf("%q and %q", first.Lines(), second.Lines())
		}
	})
}
