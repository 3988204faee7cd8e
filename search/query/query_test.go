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
		{"a b OR c", `{("a" "b") "c"}`},
		{"a (b OR c)", `("a" {"b" "c"})`},
		{"-draft x", `(-"draft" "x")`},
		{"NOT draft", `-"draft"`},
		{"--draft", `"draft"`},
		{"a NOT", `"a"`},
		{"OR", "()"}, {"a OR", `"a"`}, {"OR a", `"a"`}, {"or", `"or"`},
		{"x-ray", `"x-ray"`},
		{"from:ann", `10:"ann"`}, {`Subject:"annual report"`, `8:"annual report"`},
		{"from:(ann OR bob) x", `({10:"ann" 10:"bob"} "x")`},
		{"-from:ann", `-10:"ann"`}, {"from:", "()"}, {"body:x", `7:"x"`},
		{"from:(subject:a b)", `(8:"a" 10:"b")`},
		{"foo:bar", `"foo:bar"`}, {":", "()"}, {"http://x.y", `"http://x.y"`},
		{"has:attachment", "attachment"}, {"is:unread", "unread"}, {"is:read", "-unread"},
		{"is:flagged", "key $flagged"}, {"is:Urgent", "key urgent"},
		{"before:2025-03-01", "<2025-03-01"}, {"after:7d", ">2026-03-08"}, {"newer:1m", ">2026-02-15"},
		{"on:2025-01-31", "(>2025-01-31 <2025-02-01)"},
		{"before:today", "<2026-03-15"}, {"after:2025", ">2025-01-01"},
		{"larger:1MB", ">1048576"}, {"smaller:20k", "<20480"}, {"larger:1.5kb", ">1536"}, {"larger:1MiB", ">1048576"},
		{"larger:7", ">7"},
		{"in:Archive", "in Archive"}, {`in:"Old mail" x`, `(in Old mail "x")`},
		{"(a", `"a"`}, {"a)", `("a" ())`}, {"a) b", `("a" "b")`}, {`"a b`, `"a b"`}, {"((a) (b))", `("a" "b")`},
		{"a😀 😀", `"a😀"`},
	} {
		n, err := Parse(c.ask, now)
		if err != nil {
			t.Errorf("%q: %v", c.ask, err)
			continue
		}
		if got := show(n); got != c.want {
			t.Errorf("%q is %s, not %s", c.ask, got, c.want)
		}
	}
	for _, ask := range []string{
		"before:tomorrow", "after:", "before:2025-02-30", "before:99999999d", "larger:huge", "larger:-1", "larger:1e9",
		"larger:NaN", "has:dog", "is:", "in:",
		strings.Repeat("(", 60) + "a", strings.Repeat("a ", 600), strings.Repeat("a", 20_000),
	} {
		if n, err := Parse(ask, now); !errors.Is(err, ErrQuery) {
			t.Errorf("%.40q is %v, %v", ask, n, err)
		}
	}
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
		"is:x in:y larger:1kb", "東京 *a* \xff"} {
		f.Add(s)
	}
	now := time.Date(2026, 3, 15, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Parse(s, now)
		if err != nil {
			if !errors.Is(err, ErrQuery) {
				t.Fatal(err)
			}
			return
		}
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
