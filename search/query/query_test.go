package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/search/text"
)

// TestPhrase defines which texts a phrase matches.
func TestPhrase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ask, in string
		want    bool
	}{
		{"report", "The Report, of today", true},
		{"report", "reporting", false},
		{"report*", "reporting", true},
		{"*port", "report", true},
		{"*port", "portal", false},
		{"*por*", "report", true},
		{"annual report", "the annual report", true},
		{"annual report", "annual, Report!", true},
		{"annual report", "annual\r\n> report", true},
		{"annual report", "report annual", false},
		{"annual report", "annual big report", false},
		{"annual rep*", "annual reports", true},
		{"*ual rep*", "annual reports", true},
		{"ann report", "annual report", false},
		{"Müller", "Herr Muller", true},
		{"Müller", "Herr Mueller", true},
		{"Mueller", "Herr Müller", false},
		{"muller", "MÜLLER", true},
		{"strasse", "Straße", true},
		{"Straße", "STRASSE", true},
		{"cafe", "Café", true},
		{"don't", "DON’T do", true},
		{"don't", "don do t", false},
		{"ann@example.com", "<ann@example.com>", true},
		{"example.com", "x@example.com", true},
		{"vertrag", "Kaufvertrag", false},
		{"*vertrag", "Kaufvertrag", true},
		{"*vertrag*", "Kaufvertrages", true},
		{"東京", "東京都", true},
		{"京都", "東京都", true},
		{"東都", "東京都", false},
		{"東京都", "東京 京都", false},
		{"東京都", "は東京都です", true},
		{"東京都", "東京\r\n都", true},
		{"東京", "東 京", false},
		{"京", "東京", true},
		{"京", "京都", true},
		{"東京 report", "東京 report", true},
		{"東京 report", "東京都 report", false},
		{"iPhone手机", "新iPhone手机壳", true},
		{"東京都庁 a b", "東京都庁 a b", true},
		{"학교", "학교에서", true},
		{"학교에", "학교에서 배웠다", true},
		{"สวัสดี", "ผมสวัสดีครับ", true},
		{"コンピュータ", "ｺﾝﾋﾟｭｰﾀｰ", false}, // half-width voice marks are not letters
		{"", "anything", false},
		{"😀", "😀", false},
		{"*", "anything", false},
		// a long word is compared by its first bytes only
		{strings.Repeat("x", 70), strings.Repeat("x", 64) + "yy", true},
		{strings.Repeat("x", 70), strings.Repeat("x", 60), false},
	} {
		if got := Phrase(text.Any, c.ask).InText(text.Make(0, c.in).Text); got != c.want {
			t.Errorf("%q in %q: %v", c.ask, c.in, got)
		}
	}
}

func TestSubstring(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ask, in string
		want    bool
	}{
		{"ort", "Report", true}, {"ORT of", "report of", true}, {"cafe", "café", false}, {"CAFÉ", "cafe\u0301", true},
		{"京", "東京", true},
		{"%", "50 %", true}, {"a-b", "a b", false}, {"", "x", true},
	} {
		if got := Substring(text.Any, c.ask).InText(text.Make(0, c.in).Text); got != c.want {
			t.Errorf("%q in %q: %v", c.ask, c.in, got)
		}
	}
}

// TestEach checks the positions of matches.
func TestEach(t *testing.T) {
	t.Parallel()
	in := "annual report. An ANNUAL, report; 東京都 東京"
	for _, c := range []struct{ ask, want string }{
		{"annual report", "[annual report][ANNUAL, report]"}, {"an*", "[annual][An][ANNUAL]"}, {"東京", "[東京][東京]"},
		{"東京都", "[東京都]"}, {"都", "[都]"},
	} {
		var b strings.Builder
		Phrase(text.Any, c.ask).Each(in, func(start, end int) bool {
			b.WriteString("[" + in[start:end] + "]")
			return true
		})
		if b.String() != c.want {
			t.Errorf("%q: %s, want %s", c.ask, b.String(), c.want)
		}
	}
}

func show(n *Node) string {
	var kids []string
	for _, k := range n.Kids {
		kids = append(kids, show(k))
	}
	list := strings.Join(kids, " ")
	switch n.Op {
	case OpAll:
		return "(" + list + ")"
	case OpAny:
		return "{" + list + "}"
	case OpNot:
		return "-" + list
	case OpText:
		if n.Text.Fields == text.Any {
			return fmt.Sprintf("%q", n.Text.Source)
		}
		return fmt.Sprintf("%x:%q", n.Text.Fields, n.Text.Source)
	case OpUnread:
		return "unread"
	case OpKeyword:
		return "key " + n.Word
	case OpAttachment:
		return "attachment"
	case OpLarger:
		return fmt.Sprint(">", n.Number)
	case OpSmaller:
		return fmt.Sprint("<", n.Number)
	case OpBefore:
		return "<" + n.Time.Format("2006-01-02")
	case OpAfter:
		return ">" + n.Time.Format("2006-01-02")
	case OpHeader:
		return n.Name + ":" + n.Word
	}
	return "in " + n.Word
}

func TestParse(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 15, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct{ ask, want string }{
		{"", "()"},
		{"  ", "()"},
		{"report", `"report"`},
		{"report 2025", `("report" "2025")`},
		{"report AND 2025", `("report" "2025")`},
		{`"annual report"`, `"annual report"`},
		{`"annual report"*`, `"annual report*"`},
		{"a OR b", `{"a" "b"}`},
		{"a b OR c", `("a" {"b" "c"})`}, {"a OR b c OR d", `({"a" "b"} {"c" "d"})`}, {"(a b) OR c", `{("a" "b") "c"}`},
		{"{a b} c", `({"a" "b"} "c")`}, {"from:{ann bob}", `{10:"ann" 10:"bob"}`}, {"-{a b", `-{"a" "b"}`},
		{"{a (b c} d)", `{"a" ("b" "c" "d")}`}, {"-(-a)", `"a"`},
		{"a (b OR c)", `("a" {"b" "c"})`},
		{"-draft x", `(-"draft" "x")`},
		{"NOT draft", `-"draft"`},
		{"--draft", `"draft"`},
		{"a NOT", `"a"`},
		{"OR", `0:""`}, {"a OR", `"a"`}, {"OR a", `"a"`}, {"or", `"or"`},
		{"x-ray", `"x-ray"`},
		{"from:ann", `10:"ann"`}, {`Subject:"annual report"`, `8:"annual report"`},
		{"from:(ann OR bob) x", `({10:"ann" 10:"bob"} "x")`},
		{"-from:ann", `-10:"ann"`}, {"from:", `0:""`}, {"body:x", `7:"x"`},
		{"from:(subject:a b)", `(8:"a" 10:"b")`},
		{"foo:bar", `"foo:bar"`}, {":", `0:""`}, {"http://x.y", `"http://x.y"`},
		{"has:attachment", "attachment"}, {"is:unread", "unread"}, {"is:read", "-unread"},
		{"is:flagged", "key $flagged"}, {"is:Urgent", "key urgent"},
		{"before:2025-03-01", "<2025-03-01"}, {"after:7d", ">2026-03-08"}, {"newer:1m", ">2026-02-15"},
		{"on:2025-01-31", "(>2025-01-31 <2025-02-01)"},
		{"before:today", "<2026-03-15"}, {"after:2025", ">2025-01-01"},
		{"larger:1MB", ">1048576"}, {"smaller:20k", "<20480"}, {"larger:1.5kb", ">1536"}, {"larger:1MiB", ">1048576"},
		{"larger:7", ">7"},
		{"in:Archive", "in Archive"}, {`in:"Old mail" x`, `(in Old mail "x")`},
		{"(a", `"a"`}, {"a)", `"a"`}, {"a) b", `("a" "b")`}, {`"a b`, `"a b"`}, {"((a) (b))", `("a" "b")`},
		{"a😀 😀", `"a😀"`},
		// Gmail's
		{"older_than:1y", "<2025-03-15"}, {"older_than:3000y", "<0001-01-01"},
		{"newer_than:2d", ">2026-03-13"}, {"is:starred", "key $flagged"},
		{"size:1000", ">1000"}, {"in:spam", "in junk"}, {"in:anywhere x", `(() "x")`}, {"+exact", `"exact"`},
		{"label:Work", "{in Work key work}"}, {"list:news.example", "List-Id:news.example"},
		{"rfc822msgid:<a@b>", "Message-ID:a@b"}, {"deliveredto:ann@x.example", "Delivered-To:ann@x.example"},
		{"after:2004/4/6", ">2004-04-06"}, {"after:04/16/2004", ">2004-04-16"}, {"after:16.4.2004", ">2004-04-16"},
		{"from:me", `{10:"a@x" 10:"b@x"}`}, {`from:"me"`, `10:"me"`}, {"me", `"me"`}, {"with:ann", `f0:"ann"`},
	} {
		n, err := Parse(c.ask, Context{Now: now, Me: []string{"a@x", "b@x"}})
		if err != nil {
			t.Errorf("%q: %v", c.ask, err)
			continue
		}
		if got := show(n.Node()); got != c.want {
			t.Errorf("%q is %s, not %s", c.ask, got, c.want)
		}
	}
	for _, ask := range []string{
		strings.Repeat("(", 60) + "a", strings.Repeat("a ", 600), strings.Repeat("a", 20_000),
	} {
		if n, err := Parse(ask, Context{Now: now}); !errors.Is(err, ErrQuery) {
			t.Errorf("%.40q is %v, %v", ask, n, err)
		}
	}
}

// TestUnknown checks that unknown parts are named and ignored, and that a query of unknown parts alone matches nothing.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for ask, why := range map[string]Reason{
		"before:tomorrow": ReasonValue, "after:": ReasonEmpty, "before:2025-02-30": ReasonValue,
		"before:99999999d": ReasonValue, "larger:huge": ReasonValue, "larger:-1": ReasonValue,
		"larger:1e9": ReasonValue, "larger:NaN": ReasonValue, "has:dog": ReasonOperator, "is:": ReasonEmpty,
		"in:": ReasonEmpty, "from:": ReasonEmpty, "-from:": ReasonEmpty, "category:social": ReasonOperator,
		"is:muted": ReasonOperator, "older_than:2025-01-01": ReasonValue, "😀": ReasonWords, "subject:!": ReasonWords,
	} {
		p, err := Parse("x "+ask+" y", Context{})
		if err != nil {
			t.Fatal(err)
		}
		if got := show(p.Node()); got != `("x" "y")` {
			t.Errorf("%q is %s", ask, got)
		}
		if len(p.Unknown) != 1 || p.Unknown[0] != (Unknown{why, ask, 2, 2 + len(ask)}) {
			t.Errorf("%q: %+v", ask, p.Unknown)
		}
		if p, _ = Parse(ask, Context{}); !p.Node().Text.Never() {
			t.Errorf("%q alone matches something", ask)
		}
	}
}

// TestTerms checks the interpretation that clients show.
func TestTerms(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("east", 9*3600)
	for _, c := range []struct{ ask, want string }{
		{`linux -from:ann "a b"`, `text linux[linux] -from ann[-from:ann] text a b["a b"]`},
		{"x (a OR from:b) ", `text x[x] any(text a[a] from b[from:b])[(a OR from:b)]`},
		{"-(a b)", "-all(text a[a] text b[b])[-(a b)]"}, {"from:(ann)", "from ann[from:(ann)]"},
		{"older_than:1d larger:2K", "before 2026-03-15[older_than:1d] larger 2048[larger:2K]"},
		{"on:today is:starred", "on 2026-03-16[on:today] keyword $flagged[is:starred]"},
		{"in:spam has:attachment in:anywhere",
			"folder junk[in:spam] attachment [has:attachment] anywhere [in:anywhere]"},
	} {
		// at 2026-03-16 in the person's zone, and still 2026-03-15 in UTC
		p, err := Parse(c.ask, Context{Now: time.Date(2026, 3, 15, 20, 0, 0, 0, time.UTC).In(zone)})
		if err != nil {
			t.Fatal(err)
		}
		if got := showTerms(p.Text, p.Terms); got != c.want {
			t.Errorf("%q is %s, not %s", c.ask, got, c.want)
		}
	}
}

func showTerms(text string, list []Term) string {
	var out []string
	for i := range list {
		t := &list[i]
		s := string(t.Kind) + " " + t.Value
		if t.Of != nil {
			s = string(t.Kind) + "(" + showTerms(text, t.Of) + ")"
		}
		if t.Not {
			s = "-" + s
		}
		out = append(out, s+"["+text[t.Start:t.End]+"]")
	}
	return strings.Join(out, " ")
}

// TestWords parses JMAP text filters.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ask, want string }{
		{"a b", `("a" "b")`}, {`"a b" c`, `("a b" "c")`}, {`'a b'`, `"a b"`}, {"don't", `"don't"`},
		{`rock 'n' roll`, `("rock" "n" "roll")`},
		{`"a \"b\" c"`, `"a \"b\" c"`}, {`"a`, `"a"`}, {"", `""`}, {"😀", `""`}, {"a*", `"a*"`}, {"from:x", `"from:x"`},
		{"-a", `"-a"`}, {`a"b c"`, `("a" "b c")`},
	} {
		if got := show(Words(text.Any, c.ask)); got != c.want {
			t.Errorf("%q is %s, not %s", c.ask, got, c.want)
		}
	}
	if n := Words(text.Any, "!?"); !n.Text.Never() {
		t.Error("no words find something")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a OR (b -c)", `from:"x y"* before:2d`, "((((", "NOT NOT - -- )(",
		"is:x in:y larger:1kb", "東京 *a* \xff", "-{a (b c} d)", "a OR -(", "label:\"x"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 15, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse(s, Context{Now: now, Me: []string{"a@x"}})
		if err != nil {
			if !errors.Is(err, ErrQuery) {
				t.Fatal(err)
			}
			return
		}
		within(t, p.Terms, 0, len(p.Text))
		for _, u := range p.Unknown {
			if u.Reason == "" || p.Text[u.Start:u.End] != u.Text {
				t.Fatalf("%+v", u)
			}
		}
		n := p.Node()
		count := 0
		var walk func(n *Node, depth int)
		walk = func(n *Node, depth int) {
			if count++; depth > 4*maxDepth || count > 4*maxNodes+len(s) {
				t.Fatal("too much of it")
			}
			if (n.Op == OpText) != (n.Text != nil) || n.Op == OpNot && len(n.Kids) != 1 {
				t.Fatalf("%+v", n)
			}
			for _, k := range n.Kids {
				walk(k, depth+1)
			}
		}
		walk(n, 0)
		Words(text.Any, s)
		Substring(text.Any, s).InText(s)
	})
}

// within checks that terms lie within a range, in order, and do not overlap.
func within(t *testing.T, list []Term, start, end int) {
	for i := range list {
		x := &list[i]
		if x.Start < start || x.End > end || x.Start >= x.End ||
			(x.Kind == KindAll || x.Kind == KindAny) != (x.Of != nil) {
			t.Fatalf("%+v not in %d–%d", x, start, end)
		}
		within(t, x.Of, x.Start, x.End)
		start = x.End
	}
}
