package pdf

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func FuzzText(f *testing.F) {
	names, err := filepath.Glob("../testdata/*.pdf")
	if err != nil || len(names) == 0 {
		f.Fatal(err)
	}
	for _, n := range names {
		b, err := os.ReadFile(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("%PDF-1\n1 0 obj <</Type/Page/Contents 2 0 " +
		"R/Resources<</Font<</F<</Subtype/Type1/Encoding<</Differences[65/Aacute/f_f_i/uni00e4]>>>>>>>>>> endobj 2 " +
		"0 obj <<>>stream\nBT /F 12 Tf 1 0 0 1 5 5 Tm [(AB) -300 (C)] TJ T* (x) ' ET\nendstream"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Text(b, 50_000)
		if len(s) > 50_000 || strings.ContainsRune(s, 0) {
			t.Fatalf("%d bytes", len(s))
		}
		if again, e := Text(b, 50_000); again != s || e != err {
			t.Fatalf("read twice it is another text: %v, %v", err, e)
		}
	})
}

func TestGlyphText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, want string }{
		{"A", "A"}, {"Adieresis", "Ä"}, {"scaron", "š"}, {"f_f_i", "ffi"}, {"fi", "fi"}, {"a.sc", "a"},
		{"uni0416", "Ж"},
		{"uni00410042", "AB"}, {"u1F600", "😀"}, {"afii10017", "А"}, {"afii10023", "Ё"}, {"afii10024", "Ж"},
		{"afii10049", "Я"}, {"afii10097", "я"},
		{"g123", ""}, {".notdef", ""}, {"", ""}, {"space", " "}, {"uniD800", ""}, {"sigma1", "ς"},
	} {
		if got := glyphText(c.name); got != c.want {
			t.Errorf("%s is %q, not %q", c.name, got, c.want)
		}
	}
}

// TestFilters decodes data that other programs have encoded.
func TestFilters(t *testing.T) {
	t.Parallel()
	f := &file{objects: map[int]placed{}}
	for _, c := range []struct{ filter, in, want string }{
		{"ASCIIHexDecode", "48 65 6C6c 6f>", "Hello"},
		{"ASCII85Decode", "87cURDZ~>", "Hello"},
		{"RunLengthDecode", "\x02abc\xfed\x80", "abcddd"},
		// ISO 32000-1 section 7.4.4.2, example 1.
		{"LZWDecode", "\x80\x0B\x60\x50\x22\x0C\x0C\x85\x01", "\x2d\x2d\x2d\x2d\x2d\x41\x2d\x2d\x2d\x42"},
		{"FlateDecode", "\x78\x9c\xf3\x48\xcd\xc9\xc9\x07\x00\x05\x8c\x01\xf5", "Hello"},
		{"FlateDecode", "\x78\x9c\xf3\x48\xcd\xc9\xc9\x07", "Hello"}, // truncated
		{"DCTDecode", "x", ""},
	} {
		if got := f.decode(&stream{dict{"Filter": name(c.filter)}, []byte(c.in)}, -1); string(got) != c.want {
			t.Errorf("%s of %q is %q, not %q", c.filter, c.in, got, c.want)
		}
	}
	up := dict{"Predictor": 12.0, "Columns": 3.0}
	if got := f.predict([]byte("\x02abc\x02\x01\x01\x01"), up); string(got) != "abcbcd" {
		t.Errorf("%q", got)
	}
}
