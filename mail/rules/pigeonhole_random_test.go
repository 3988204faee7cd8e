package rules_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// odd are messages whose headers and bodies are unusual in the ways that mail is.
var odd = []string{
	"From: \"Doe, Jane\" <jane.doe@Example.ORG>\r\nTo: Team: c@d.example;\r\nCC: a@b.example,\r\n" +
		" \"b c\"@d.example (comment)\r\nSubject:  two  spaces\r\n\tand a tab \r\nX-Num: 12\r\nX-Num: 7 apples\r\n" +
		"Date: Wed, 25 Nov 2026 23:59:60 +0530\r\n\r\nHello world\r\nsecond line\r\n",
	"FROM: a+b@c.example\r\nTo: <x@y.example>, Group: p@q.example, r@s.example;\r\n" +
		"Subject: =?utf-8?B?R3LDvMOfZQ==?= =?utf-8?Q?_aus?= K=?x?=\r\nX-Empty:\r\nX-Num: 007\r\n" +
		"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\npreamble\r\n--b\r\n" +
		"Content-Type: text/plain\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
		"f=C3=BCr dich =\r\nda\r\n--b\r\n" +
		"Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\r\naGVsbG8=\r\n--b--\r\n",
	"Subject: [list] *a?b* a\\b\r\nFrom: root@localhost\r\nTo: \"not an address\" <z@a.example>\r\n" +
		"X-Num: -5\r\nX-Num:\r\n\r\n",
	"Received: from a by b; Tue, 24 Nov 2026 10:00:00 +0000\r\n" +
		"Received: from c by d; Mon, 23 Nov 2026 09:30:15 -0800\r\n" +
		"From: x@a.example\r\nFrom: y@b.example\r\nSubject: A\r\nSubject: b\r\nX-Num: 3000000000\r\n\r\nA\r\n",
}

// generator makes random tests of Sieve. It leaves out those for which the RFCs allow several answers, or Pigeonhole
// departs from them: an index over several fields, over a date or with a count, the default comparator of a string, a
// count of details, invalid addresses, empty groups, and empty keys of :value.
type generator struct{ *rand.Rand }

func (g generator) of(list ...string) string { return list[g.IntN(len(list))] }

// list returns a string or a string list.
func (g generator) list(words ...string) string {
	n := 1 + g.IntN(3)
	var out []string
	for range n {
		out = append(out, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(g.of(words...))+`"`)
	}
	if n == 1 {
		return out[0]
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// match returns a match type with a comparator and fitting keys.
func (g generator) match(words ...string) string {
	switch g.IntN(8) {
	case 0:
		return `:count "` + g.of("gt", "ge", "lt", "le", "eq", "ne") + `" :comparator "i;ascii-numeric" @ ` +
			g.list("0", "1", "2", "3")
	case 1:
		return `:value "` + g.of("gt", "ge", "lt", "le", "eq", "ne") + `" :comparator "i;ascii-numeric" @ ` +
			g.list("0", "7", "12", "3000000000", "x")
	case 2:
		return `:value "` + g.of("gt", "le", "eq") + `" @ ` + g.list(words[1:]...)
	}
	how := g.of(":is", ":contains", ":matches") + g.of("", ` :comparator "i;octet"`, ` :comparator "i;ascii-casemap"`)
	return how + " @ " + g.list(words...)
}

// test returns a test.
func (g generator) test(depth int) string {
	texts := []string{"", "*", "?", "a", "A", "*a*", "grüße*", "Gr??e aus*", "two*and*", " two", "[list]*",
		`\\*a\\?b*`,
		"*@*", "b", "7*", "12", "007", "hello*", "*line*", "für*", "x"}
	names := []string{"from", "To", "cc", "subject", "X-Num", "x-empty", "Received", "x-none", "date"}
	people := []string{"", "jane.doe@example.org", "JANE.DOE", "example.org", "*.example", "a+b", "a", "b", "*@*",
		"r@s.example", "b c", "x", "alice", "news", "lists", "bob+lists@example.com", "alice+news"}
	with := func(test, match, middle string) string { return test + " " + strings.Replace(match, "@", middle, 1) }
	switch g.IntN(13) {
	case 0:
		return "exists " + g.list(names...)
	case 1:
		return "size " + g.of(":over", ":under") + " " + g.of("0", "100", "300", "1K")
	case 2, 3:
		match := g.match(people...)
		part := g.of("", ":localpart", ":domain", ":all", ":user", ":detail")
		if part == ":detail" && strings.Contains(match, ":count") {
			part = ":user"
		} else if strings.Contains(match, ":value") { // is the quote of a local part its first character?
			part = ":domain"
		}
		return with("address "+part, match, g.list("from", "to", "cc"))
	case 4:
		return with("envelope "+g.of("", ":localpart", ":domain", ":all", ":user", ":detail"), g.match(people...),
			g.list("from", "to"))
	case 5:
		return with("body "+g.of(":raw", ":text", `:content "text"`, `:content "application"`),
			`:contains @ `+g.list("hello", "für", "dich da", "line", "zzz", "preamble"), "")
	case 6:
		part := g.of("year", "month", "day", "hour", "minute", "weekday", "date", "time", "zone", "iso8601")
		return "date " + g.of("", `:index 1`) + " " + g.of(`:zone "+0100"`, `:originalzone`) +
			` :is ` + g.of(`"date"`, `"received"`) + ` "` + part + `" ` +
			g.list("2026", "11", "24", "23", "10", "09", "00", "2026-11-24", "10:00:00", "+0100", "-0800", "2", "1")
	case 7:
		return `string ` + g.of(":is", ":contains", ":matches") + ` :comparator "i;ascii-casemap" "` +
			g.of("${x}", "a", "", "${x}b") + `" "` + g.of("", "a", "A", "*b", "?b", "AB") + `"`
	case 8:
		if depth > 2 {
			return "true"
		}
		return g.of("allof", "anyof") + " (" + g.test(depth+1) + ", " + g.test(depth+1) + ")"
	case 9:
		if depth > 2 {
			return "false"
		}
		return "not " + g.test(depth+1)
	case 10:
		return with("header "+g.of(":index 1", ":index 2", ":index 1 :last"),
			g.of(":is", ":contains", ":matches")+" @ "+g.list(texts...),
			`"`+g.of(names...)+`"`)
	}
	return with("header", g.match(texts...), g.list(names...))
}

// TestPigeonholeRandom compares random tests over odd messages with Dovecot Pigeonhole: each that is true sets a flag.
func TestPigeonholeRandom(t *testing.T) {
	t.Parallel()
	p := newPigeon(t)
	g := generator{rand.New(rand.NewPCG(1, 2))}
	for i := range 100 {
		var b strings.Builder
		b.WriteString(`require ["fileinto", "imap4flags", "relational", "comparator-i;ascii-numeric", "envelope", ` +
			`"subaddress", "body", "date", "index", "variables"]; set "x" "a";` + "\n")
		list := make([]string, 25)
		for k := range list {
			list[k] = g.test(0)
			fmt.Fprintf(&b, "if %s { addflag \"t%d\"; }\n", list[k], k)
		}
		for m, message := range odd {
			same, got, want, theirs := p.compare(t, fmt.Sprintf("r%d", i), b.String()+"keep;\n", message)
			if same {
				continue
			}
			mine, yours := strings.Fields(strings.Join(got, " ")), strings.Fields(strings.Join(want, " "))
			for k, test := range list {
				flag := fmt.Sprintf("t%d", k)
				if a, b := slices.Contains(mine, flag), slices.Contains(yours, flag); a != b {
					t.Errorf("message %d: %s\nis %v here, %v there", m, test, a, b)
				}
			}
			if len(want) == 0 {
				t.Fatal(theirs)
			}
		}
	}
}
