package mime

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDecodeWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                             "",
		"plain":                        "plain",
		"=?utf-8?Q?Gr=C3=BC=C3=9Fe?=":  "Grüße",
		"=?UTF-8?b?R3LDvMOfZQ==?=":     "Grüße",
		"=?iso-8859-1?q?a_b=E9?= tail": "a bé tail",
		"=?iso-8859-1*en?q?=E9?=":      "é",
		"a =?utf-8?q?b?=  =?utf-8?q?c?=\r\n =?utf-8?q?d?= e": "a bcd e",
		"=?utf-8?q?b?= x =?utf-8?q?c?=":                      "b x c",
		"=?utf-8?b?4oI=?= =?utf-8?b?rA==?=":                  "€",
		"=?iso-8859-1?q?=E9?= =?koi8-r?q?=C1?=":              "éа",
		"=?iso-2022-jp?B?GyRCJDMkcxsoQg==?=":                 "こん",
		"=?gb2312?B?xOO6ww==?=":                              "你好",
		"=?big5?B?p0Gmbg==?=":                                "你好",
		"=?shift_jis?B?grE=?=":                               "こ",
		"=?euc-kr?B?sKE=?=":                                  "가",
		"=?windows-1251?Q?=CF?=":                             "П",
		"=?cp850?Q?=81?=":                                    "ü",
		"=?nonsense?Q?=E9?=":                                 "é",
		"=?utf-8?q?=ff?=":                                    "\ufffd",
		"=?utf-8?q??=":                                       "",
		"=?utf-8?q?a b?=":                                    "a b",
		"=?utf-8?q?open":                                     "=?utf-8?q?open",
		"=?utf-8?x?a?=":                                      "=?utf-8?x?a?=",
		"=??q?a?=":                                           "=??q?a?=",
		"=?utf-8?q?a?b?=":                                    "=?utf-8?q?a?b?=",
		"=?=?utf-8?q?a?=":                                    "=?a",
		"=?utf-8?q?a=4?=":                                    "a=4",
		"=?utf-8?b?YWI?=":                                    "ab",
		"caf\xe9":                                            "café",
		"café":                                               "café",
		"\xe9 =?utf-8?q?=C3=A9?=":                            "é é",
	} {
		if got := DecodeWords(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	for _, s := range []string{"=?a?q?x", "=?", "=?a?q?", "=?a?q?b?= ", "=?a", "?="} {
		DecodeWords(strings.Repeat(s, 1<<18/len(s))) // takes very long unless it is linear
	}
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		e        Encoding
		in, want string
	}{
		{EncodingBase64, "aGVsbG8=", "hello"},
		{EncodingBase64, "aGVs\r\nbG8=\r\n", "hello"},
		{EncodingBase64, "a G!V\ns bG8", "hello"},
		{EncodingBase64, "aGVsbG8=aGVsbG8=", "hellohello"},
		{EncodingBase64, "a", ""},
		{EncodingBase64, "====", ""},
		{EncodingQuotedPrintable, "a=3Db=C3=a9", "a=bé"},
		{EncodingQuotedPrintable, "a=\r\nb= \r\nc  \r\nd", "abc\r\nd"},
		{EncodingQuotedPrintable, "a=20\r\nx=zz=4", "a \r\nx=zz=4"},
		{EncodingQuotedPrintable, "a=\nb\nc=", "ab\nc"},
		{EncodingQuotedPrintable, "==41", "=A"},
		{EncodingBinary, "a=3D", "a=3D"},
	} {
		got, ok := AppendDecoded(nil, []byte(c.in), c.e, -1)
		if string(got) != c.want || !ok {
			t.Errorf("%d %q: got %q, want %q", c.e, c.in, got, c.want)
		}
		for limit := range len(c.want) {
			if got, _ := AppendDecoded([]byte("x"), []byte(c.in), c.e, limit); string(got) != "x"+c.want[:limit] {
				t.Errorf("%q to %d: %q", c.in, limit, got)
			}
		}
	}
	if _, ok := AppendDecoded(nil, []byte("x"), EncodingOf("x-uuencode"), -1); ok {
		t.Error("unknown encoding decoded")
	}
}

func TestDecodeText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, want  string
		limit     int
		truncated bool
	}{
		{"\nplain", "plain", 100, false},
		{"\nplain", "pla", 3, true},
		{"\nplain", "plain", 5, false},
		{"Content-Type: text/plain; charset=iso-8859-1\n\n\xe9\xe9", "éé", 100, false},
		{"Content-Type: text/plain; charset=iso-8859-1\n\n\xe9\xe9", "é", 3, true},
		{"Content-Type: text/plain; charset=utf-8\n\néé", "é", 3, true},
		{"Content-Type: text/plain; charset=utf-8\n\n\xff", "\ufffd", 9, false},
		{"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\naGVsbG8=", "hell", 4, true},
		{"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n\naGVsbG8=", "hello", 5, false},
		{"Content-Type: text/plain; charset=utf-16\nContent-Transfer-Encoding: base64\n\naABpAA==", "hi", 9, false},
		{"Content-Transfer-Encoding: quoted-printable\n\n=E9", "é", 9, false},
		{"Content-Transfer-Encoding: x-strange\n\n=E9", "=E9", 9, false},
	} {
		raw := []byte(c.in)
		got, truncated := DecodeText(Parse(raw, Limits{}), raw, c.limit)
		if got != c.want || truncated != c.truncated {
			t.Errorf("%q: got %q %v, want %q %v", c.in, got, truncated, c.want, c.truncated)
		}
	}
}

func TestPreview(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"empty", "\n", ""},
		{"plain", "\n\n  Hello,\n\n\tworld \n", "Hello, world"},
		{"quoted lines", "\n\n> old\n> text\nnew\n", "new"},
		{"quoted lines only", "\n\n> old\n> text\n", "> old > text"},
		{"control", "\n\na\x00b\x01\x7fc", "a b c"},
		{"html", "Content-Type: text/html\n\n<html><head><title>T</title><style>p{}</style></head><!-- no " +
			"--><body><p>A&amp;B<br>c<b>d</b><script>x<y</script>e &lt; 3 < 4</p><i", "A&B cd e < 3 < 4"},
		{"html attribute", "Content-Type: text/html\n\n<a title=\"a > b\">x</a>", "x"},
		{"plain before html",
			"Content-Type: multipart/alternative; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>rich\n--b\n\n" +
				"plain\n--b--", "plain"},
		{"empty plain", "Content-Type: multipart/alternative; boundary=b\n\n--b\n\n \n--b\nContent-Type: text/html\n" +
			"\n<p>rich\n--b--", "rich"},
		{"attachment", "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Disposition: attachment\n\nno\n" +
			"--b\n\nyes\n--b--", "yes"},
		{"no text", "Content-Type: image/png\n\nxx", ""},
		{"padding of advertisers", "Content-Type: text/html\n\n<p>Sale&#847;&zwnj;&#8203;&shy; now", "Sale\u200c now"},
	} {
		raw := crlf(c.in)
		if got := Preview(raw, Parse(raw, Limits{})); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	long := []byte("Content-Type: text/plain; charset=utf-8\r\n\r\n" + strings.Repeat("é é ", 3000))
	if got := Preview(long, Parse(long, Limits{})); utf8.RuneCountInString(got) > PreviewRunes ||
		utf8.RuneCountInString(got) < PreviewRunes-3 || !utf8.ValidString(got) {
		t.Errorf("long preview has %d characters", utf8.RuneCountInString(got))
	}
	for _, c := range []struct{ name, text, want string }{
		{"ends within a word", strings.Repeat("word ", 39) + "somewhere else",
			strings.TrimSpace(strings.Repeat("word ", 39)) + "…"},
		{"ends where the text does", strings.Repeat("abcd ", 39) + "abcde \n\n", strings.Repeat("abcd ", 39) + "abcde"},
		{"one word", strings.Repeat("x", 300), strings.Repeat("x", 199) + "…"},
		{"without blanks", strings.Repeat("你", 300), strings.Repeat("你", 199) + "…"},
	} {
		raw := []byte("Content-Type: text/plain; charset=utf-8\r\n\r\n" + c.text)
		if got := Preview(raw, Parse(raw, Limits{})); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
	late := []byte("Content-Type: text/html\r\n\r\n<style>" + strings.Repeat("p{}\r\n", 1500) + "</style>late" +
		strings.Repeat(" x", 9000))
	if got := Preview(late, Parse(late, Limits{})); !strings.HasPrefix(got, "late x") {
		t.Errorf("text behind a long style: %q", got)
	}
}

func TestBaseSubject(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "",
		"x":                         "x",
		"Re: x":                     "x",
		"RE:x":                      "x",
		"re[2]: x":                  "x",
		"Re [2] : x":                "x",
		"Fwd: FW: re: x":            "x",
		"x (fwd)":                   "x",
		"x (fwd) (FWD) ":            "x",
		"[list] x":                  "x",
		"[list] Re: [other] x":      "x",
		"[only]":                    "[only]",
		"[a] [b]":                   "[b]",
		"Re: [only]":                "[only]",
		"[fwd: x]":                  "x",
		"[Fwd: Re: [l] x (fwd)]":    "x",
		"  a \t b  ":                "a b",
		"regarding: x":              "regarding: x",
		"Re:":                       "",
		"[a[b] x":                   "[a[b] x",
		"Re: Re: Re: [x] Re: (fwd)": "",
		"Fwd: Grüße (fwd)":          "Grüße",
		strings.Repeat("re: ", 200): "",
	} {
		if got := BaseSubject(in); got != want {
			t.Errorf("%.40q: got %q, want %q", in, got, want)
		}
	}
	if !IsReply("Re: x") || IsReply("[list] x") || !IsReply("x (fwd)") {
		t.Error("IsReply")
	}
}

func TestThreadKey(t *testing.T) {
	t.Parallel()
	key := func(h string) string { return ThreadKey(Parse(crlf(h+"\n\n"), Limits{}).Envelope) }
	first := key("Message-ID: <1@x>\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=")
	for _, h := range []string{
		"Message-ID: <2@x>\nIn-Reply-To: your mail <1@x>\nSubject: Re: GRÜSSE",
		"Message-ID: <3@x>\nIn-Reply-To: <2@x>\nReferences: <1@x> <2@x>\nSubject: Fwd: grüsse (fwd)",
	} {
		if a, b := key(h), key("Message-ID: <1@x>\nSubject: grüsse"); a != b {
			t.Errorf("%q is not %q", a, b)
		}
	}
	if first == "" || key("Message-ID: <1@x>\nSubject: other") == first {
		t.Error("another subject in the same thread")
	}
	if k := key("Message-ID: bare\nSubject: x"); k != "bare\x00X" {
		t.Errorf("%q", k)
	}
	if key("From: a") != "" || key("Subject: x") != "\x00X" {
		t.Error("keys without ids")
	}
}

func TestContainsFold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hay, needle string
		want        bool
	}{
		{"", "", true}, {"x", "", true}, {"", "x", false},
		{"Hello World", "lo wo", true}, {"Hello", "hellos", false},
		{"GRÜSSE", "grüs", true}, {"ΣΑΣ", "σας", true}, {"Kelvin \u212a", "n k", true},
		{"cafe\u0301", "CAFÉ", true}, {"café", "cafe", false}, {"a\xffb", "A\xffB", true}, {"привет", "ПРИВЕТ", true},
	} {
		if got := ContainsFold(c.hay, c.needle); got != c.want {
			t.Errorf("%q in %q: %v", c.needle, c.hay, got)
		}
	}
	// Place the needle across every window border, with ASCII letters and letters that change length.
	for _, needle := range []string{"Needle", "ÄÖÜß", strings.Repeat("long ", 2000)} {
		for _, filler := range []string{"x", "é", "\xff", "ẞ"} {
			for n := 4000; n < 4010; n++ {
				hay := strings.Repeat(filler, n) + strings.ToUpper(needle) + filler
				if !ContainsFold(hay, strings.ToLower(needle)) && needle != "ÄÖÜß" {
					t.Fatalf("%.10q not found behind %d of %q", needle, n, filler)
				}
				if ContainsFold(hay, needle+"z") {
					t.Fatalf("found what is not there")
				}
			}
		}
	}
	if Casemap("Straße é") != "STRAßE E\u0301" {
		t.Errorf("%q", Casemap("Straße é"))
	}
}

// TestIndexASCII compares IndexASCII with a search in lower case.
func TestIndexASCII(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 9))
	some := func(n int, from string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = from[rng.IntN(len(from))]
		}
		return string(b)
	}
	for range 20_000 {
		from := []string{"ab", "aAbBzZ", "aA1- \n", "xXyY0"}[rng.IntN(4)]
		s, lower := some(rng.IntN(40), from), strings.ToLower(some(1+rng.IntN(5), from))
		if got, want := IndexASCII(s, lower), strings.Index(strings.ToLower(s), lower); got != want {
			t.Fatalf("%q in %q: %d, want %d", lower, s, got, want)
		}
	}
	// Texts that match nearly everywhere.
	near := strings.Repeat("A", 5000)
	for _, s := range []string{near, near + "B" + near, near + strings.Repeat("a", 2000) + "b"} {
		lower := strings.Repeat("a", 2000) + "a"
		for _, end := range []string{"", "b", "bc"} {
			if got, want := IndexASCII(s, lower+end), strings.Index(strings.ToLower(s), lower+end); got != want {
				t.Errorf("%d, want %d", got, want)
			}
		}
		if got, want := IndexASCII(s, "b"+lower), strings.Index(strings.ToLower(s), "b"+lower); got != want {
			t.Errorf("%d, want %d", got, want)
		}
	}
	if got := IndexASCII(strings.Repeat("za", 5000)+"zb", strings.Repeat("za", 1000)+"zb"); got != 2*4000 {
		t.Errorf("%d", got)
	}
}
