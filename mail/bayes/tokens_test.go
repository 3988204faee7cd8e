package bayes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"doublet/wire/mime"
)

func read(s string) Tokens { return Read([]byte(s), mime.Parse([]byte(s), mime.Limits{})) }

func has(x Tokens, seed uint64, token string) bool {
	return slices.Contains(x, max(uint32(hash(seed, token)>>32), 1))
}

const mixed = "From: =?utf-8?q?J=C3=BCrgen?= <Sales@Shop.Far.example>\r\nReply-To: x@elsewhere.example\r\n" +
	"Subject: =?utf-8?b?R8Ohbm5zdGln?= offer\r\nMIME-Version: 1.0\r\n" +
	"Content-Type: multipart/mixed; boundary=b\r\n\r\n" +
	"--b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n" +
	"Caf=E9 http://user@www.casino.example:80/path\r\n--b\r\nContent-Type: text/html\r\n\r\n" +
	"<p title=hidden>Bu<b>y</b> now</p><a href='https://Click.Example/x'>here</a><style>stylish</style>\r\n" +
	"--b\r\nContent-Type: text/plain\r\nContent-Transfer-Encoding: base64\r\n\r\nc2VjcmV0\r\n" +
	"--b\r\nContent-Type: application/octet-stream; name=a.EXE\r\n\r\ninvisible\r\n--b--\r\n"

// TestTokens checks which tokens a message has.
func TestTokens(t *testing.T) {
	t.Parallel()
	x := read(mixed)
	for _, c := range []struct {
		seed  uint64
		token string
		want  bool
	}{
		{seedName, "jurgen", true}, {seedFrom, "sales@shop.far.example", true}, {seedFrom, "shop.far.example", true},
		{seedFrom, "far.example", true}, {seedFrom, "example", false}, {seedReply, "elsewhere.example", true},
		{seedSubject, "gannstig", true}, {seedSubject, "offer", true}, {seedText, "offer", false},
		{seedText, "cafe", true}, {seedText, "buy", true}, {seedText, "now", true}, {seedText, "secret", true},
		{seedText, "stylish", false}, {seedText, "title", false}, {seedText, "invisible", false},
		{seedHost, "www.casino.example", true}, {seedHost, "casino.example", true}, {seedHost, "click.example", true},
		{seedHost, "user", false}, {seedType, "text/html", true}, {seedType, ".exe", true},
		{seedType, "=iso-8859-1", true},
	} {
		if has(x, c.seed, c.token) != c.want {
			t.Errorf("token %q of kind %d: %t", c.token, c.seed, !c.want)
		}
	}
	if y := read(mixed); !slices.Equal(x, y) {
		t.Error("reading again returns other tokens")
	}
	if x := read("Subject: \xe4\xb9\xb0\xe5\xbd\xa9\xe7\xa5\xa8\r\n\r\n"); !has(x, seedSubject, "买彩") {
		t.Error("no pair of letters without spaces")
	}
}

// TestBounds checks messages that are large, binary, deeply nested, or have very many words.
func TestBounds(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	many.WriteString("Subject: many\r\n\r\n")
	for i := range 100_000 {
		fmt.Fprintf(&many, "w%d ", i)
	}
	nested := strings.Repeat("Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n", 200)
	parts := "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\n\r\nx\r\n", 5000)
	large := "Content-Type: text/html\r\n\r\n" + strings.Repeat("<a href=http://h.example/>", 2_000_000)
	binary := make([]byte, 1<<20)
	for i := range binary {
		binary[i] = byte(i * i >> 3)
	}
	for name, s := range map[string]string{
		"100,000 words": many.String(), "nested": nested, "5,000 parts": parts, "50 MB": large,
		"binary": "Content-Type: text/plain\r\n\r\n" + string(binary), "empty": "",
		"long field": "From: " + strings.Repeat("a", 1<<20) + "@far.example\r\nSubject: " + strings.Repeat("b ", 1<<20),
		"one word":   "\r\n" + strings.Repeat("x", 1<<20),
	} {
		x := read(s)
		if len(x) > MaxTokens || slices.Contains(x, 0) {
			t.Errorf("%s: %d tokens", name, len(x))
		}
		y := slices.Clone(x)
		slices.Sort(y)
		if len(slices.Compact(y)) != len(x) {
			t.Errorf("%s: a token is there twice", name)
		}
	}
	if x := read(many.String()); len(x) != MaxTokens {
		t.Errorf("%d tokens of many", len(x))
	}
	if x := read(mixed); !has(x, seedText, "cafe") { // the pool is clean after all this
		t.Error("a word is missing after large messages")
	}
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte(mixed))
	f.Add([]byte("Subject: a\r\n\r\n://://@:/ http://"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		root := mime.Parse(raw, mime.Limits{})
		x := Read(raw, root)
		if len(x) > MaxTokens || !slices.Equal(x, Read(raw, root)) {
			t.Errorf("%d tokens, or others when read again", len(x))
		}
		m := NewModel(MinBits)
		m.Learn(x, Junk)
		m.Unlearn(x, Junk)
		if slices.ContainsFunc(m.counts, func(c count) bool { return c != count{} }) {
			t.Error("taking back does not undo learning")
		}
	})
}
