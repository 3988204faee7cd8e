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

// checkLeaves fails unless each span with LineLen is reproduced exactly.
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
		canonical++
		body := raw[s.Start:s.End]
		if got := AppendBase64Lines(nil, AppendBase64(nil, body, -1), s.LineLen, s.FinalCRLF); !bytes.Equal(got, body) {
			t.Fatalf("%+v rebuilt as %q, was %q", s, got, body)
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
		if len(spans) != 1 || spans[0].LineLen != want {
			t.Errorf("%q: %+v, want line length %d", body, spans, want)
		}
		checkLeaves(t, raw, Parse(raw, Limits{}))
	}
	raw := attachmentMessage(100_000)
	if s := SplitLeaves(raw, Parse(raw, Limits{}), 32<<10); len(s) != 1 || s[0].LineLen != 76 || s[0].FinalCRLF {
		t.Errorf("%+v", s)
	}
}
