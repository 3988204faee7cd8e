package mime

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAppendCRLF(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "a": "a", "a\nb": "a\r\nb", "a\r\nb\n": "a\r\nb\r\n", "\n\n": "\r\n\r\n",
		"a\rb": "a\rb", "a\r\r\nb": "a\r\r\nb", "\r\n\n": "\r\n\r\n", "a\n\rb": "a\r\n\rb",
	} {
		if got := string(AppendCRLF(nil, []byte(in))); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
		for i := range len(in) {
			if got := string(AppendCRLF(AppendCRLF(nil, []byte(in[:i])), []byte(in[i:]))); got != want {
				t.Errorf("%q cut at %d: got %q, want %q", in, i, got, want)
			}
		}
	}
}

// base64Message returns a message with one base64 part with this body.
func base64Message(body []byte) []byte {
	return append([]byte("Content-Transfer-Encoding: base64\r\n\r\n"), body...)
}

// checkLeaves fails unless each canonical span is reproduced exactly, and each span that is reproduced exactly is
// canonical.
func checkLeaves(t testing.TB, raw []byte, root *Part) (canonical int) {
	t.Helper()
	end := 0
	for _, s := range SplitLeaves(raw, root, 1) {
		if s.Start < end || s.End <= s.Start || s.End > len(raw) {
			t.Fatalf("span %+v behind %d", s, end)
		}
		end = s.End
		if s.LineLen == 0 {
			continue
		}
		body := raw[s.Start:s.End]
		out, finalCRLF, ok := AppendCanonical([]byte("before"), body, s.LineLen)
		data, before := bytes.CutPrefix(out, []byte("before"))
		if !before || !ok && len(data) > 0 {
			t.Fatalf("%+v of %q decoded as %q", s, body, out)
		}
		if !ok {
			data, finalCRLF = AppendBase64(nil, body, -1), bytes.HasSuffix(body, lineBreak)
		}
		same := bytes.Equal(AppendBase64Lines(nil, data, s.LineLen, finalCRLF), body)
		if same != ok && len(data) > 0 {
			t.Fatalf("%+v of %q: canonical %v, reproduced %v", s, body, ok, same)
		}
		if ok {
			canonical++
		}
	}
	return canonical
}

func TestSplitLeavesCanonical(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 3000 {
		data := make([]byte, r.IntN(300))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		body := AppendBase64Lines(nil, data, 4*(1+r.IntN(19)), i%2 == 0)
		raw := base64Message(body)
		n := checkLeaves(t, raw, Parse(raw, Limits{}))
		if len(data) > 0 && n != 1 {
			t.Fatalf("canonical body not recognised: %q", body)
		}
		// Almost canonical: one byte changed, removed or doubled. The result of SplitLeaves must still be true.
		if len(body) == 0 {
			continue
		}
		at := r.IntN(len(body))
		near := bytes.Clone(body)
		switch r.IntN(3) {
		case 0:
			near[at] = "A=\r\n +/Zz9-"[r.IntN(11)]
		case 1:
			near = append(near[:at], near[at+1:]...)
		case 2:
			near = append(near[:at], body[max(0, at-1):]...)
		}
		raw = base64Message(near)
		checkLeaves(t, raw, Parse(raw, Limits{}))
	}
}

func TestSplitLeavesRules(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		"QUJD":                         76,
		"QUJD\r\n":                     76,
		"QUI=":                         76,
		"QUJ=":                         0, // unused bits set
		"QR==":                         0,
		"QUI":                          0,
		"QUJD\r\nQUJD":                 4,
		"QUJD\r\nQUI=\r\n":             4,
		"QUI=\r\nQUJD":                 0,
		"QUJD\nQUJD":                   0,
		"QUJD\r\nQUJDQUJD":             0,
		"QUJDQUJD\r\nQUJD\r\nQUJDQUJD": 0,
		"QUJD\r\n\r\n":                 0,
		"\r\n":                         0,
		"QU D":                         0,
		strings.Repeat("QUJD", 20):     0,
	} {
		raw := base64Message([]byte(body))
		spans := SplitLeaves(raw, Parse(raw, Limits{}), 1)
		if len(spans) != 1 {
			t.Fatalf("%q: %+v", body, spans)
		}
		got := spans[0].LineLen
		if _, _, ok := AppendCanonical(nil, []byte(body), got); !ok {
			got = 0
		}
		if got != want {
			t.Errorf("%q: line length %d, want %d", body, got, want)
		}
		checkLeaves(t, raw, Parse(raw, Limits{}))
	}
	raw := attachmentMessage(100_000)
	if s := SplitLeaves(raw, Parse(raw, Limits{}), 32<<10); len(s) != 1 || s[0].LineLen != 76 {
		t.Errorf("%+v", s)
	}
}

// TestAppendCanonical decodes right lines, and lines with one octet changed, added or left out: if those are taken for
// canonical, they are.
func TestAppendCanonical(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		data := make([]byte, 1+r.IntN(200<<10))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		lineLen, final := 4*(1+r.IntN(250)), r.IntN(2) == 0
		body := AppendBase64Lines(nil, data, lineLen, final)
		if out, f, ok := AppendCanonical(nil, body, lineLen); !ok || f != final || !bytes.Equal(out, data) {
			t.Fatalf("%d octets in lines of %d (final %v) are not taken for what they are", len(data), lineLen, final)
		}
		at := r.IntN(len(body))
		changed := bytes.Clone(body)
		changed[at] ^= 1
		for name, b := range map[string][]byte{"changed": changed, "cut": body[:at],
			"longer": append(bytes.Clone(body), 'A')} {
			out, f, ok := AppendCanonical(nil, b, lineLen)
			again := AppendBase64Lines(nil, out, lineLen, f)
			if ok && (f == final && bytes.Equal(out, data) || !bytes.Equal(again, b)) {
				t.Fatalf("%d octets in lines of %d (final %v), %s at %d, are taken for the same", len(data), lineLen,
					final, name, at)
			}
		}
	}
}
