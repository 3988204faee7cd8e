package libraries

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	theirs "github.com/ledongthuc/pdf"

	ours "doublet/search/text/pdf"
)

// room is the text that is asked for at most, as the index does by default.
const room = 1 << 20

// document returns a PDF of objects, with a table of their places.
func document(objects ...string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n")
	at := make([]int, len(objects))
	for i, o := range objects {
		at[i] = b.Len()
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	table := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, n := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", n)
	}
	fmt.Fprintf(&b, "trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, table)
	return b.Bytes()
}

func streamOf(dict, data string) string {
	return fmt.Sprintf("<<%s/Length %d>>stream\n%s\nendstream", dict, len(data), data)
}

// page returns a document of one page with a content, and further objects from number 5.
func page(content string, further ...string) []byte {
	return document(append([]string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>", content}, further...)...)
}

// bomb returns 400 MB of content, compressed.
func bomb() string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = io.WriteString(w, "BT /F 12 Tf\n")
	for range 12 << 10 {
		_, _ = io.WriteString(w, strings.Repeat("(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa)Tj\n", 1<<10))
	}
	_ = w.Close()
	return b.String()
}

const helvetica = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"

// hostile holds small files that a stranger may attach.
var hostile = map[string]func() []byte{
	"count": func() []byte {
		return document("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 2000000000>>",
			"<</Type/Page/Parent 2 0 R/Contents 4 0 R>>", streamOf("", "BT /F 12 Tf (x) Tj ET"))
	},
	"cycle": func() []byte { return document("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[2 0 R]/Count 9>>") },
	"hex": func() []byte {
		return page(streamOf("", "BT /F 12 Tf (x) Tj <41"), helvetica)
	},
	"bomb": func() []byte {
		return page(streamOf("/Filter/FlateDecode", bomb()),
			helvetica)
	},
	"cmap": func() []byte {
		return page(streamOf("", "BT /F 12 Tf (x) Tj ET"), "<</Type/Font/Subtype/Type0/ToUnicode 6 0 R>>",
			streamOf("", "begincmap 2000000000 beginbfchar endbfchar endcmap"))
	},
	"escape": func() []byte {
		return page(streamOf("", `BT /F 12 Tf (before) Tj (a\q) Tj (after) Tj ET`), helvetica)
	},
}

func textOfTheirs(b []byte) (string, error) {
	r, err := theirs.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return "", err
	}
	text, err := r.GetPlainText()
	if err != nil {
		return "", err
	}
	all, err := io.ReadAll(io.LimitReader(text, room))
	return string(all), err
}

func init() {
	read := func(fn func([]byte) (string, error)) func() error {
		return func() error {
			b, err := os.ReadFile(os.Getenv("FILE"))
			if err != nil {
				return err
			}
			text, err := fn(b)
			fmt.Printf("%.60q %v", text, err)
			return nil
		}
	}
	probes["pdf ours"] = read(func(b []byte) (string, error) { return ours.Text(b, room) })
	probes["pdf ledongthuc"] = read(textOfTheirs)
}

// TestPDF reads hostile files by both.
func TestPDF(t *testing.T) {
	lost := 0
	for name, of := range hostile {
		b := of()
		t.Logf("%s is a file of %d bytes", name, len(b))
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if o := run(t, "pdf ours", "FILE="+file); !o.ended || o.failed || o.memory > 300 {
			t.Errorf("ours: %s: %+v", name, o)
		}
		if o := run(t, "pdf ledongthuc", "FILE="+file); !o.ended || o.failed || o.memory > 300 {
			lost++
		}
	}
	if lost < 3 {
		t.Errorf("ledongthuc/pdf fails with %d of %d hostile files: compare again", lost, len(hostile))
	}
}

// TestPDFText counts the honest files of which each finds the words.
func TestPDFText(t *testing.T) {
	words := map[string]string{
		"plain": "Kaufvertrag", "objstm": "Kaufvertrag",
		"owner-r2": "Kaufvertrag", "owner-r3": "Kaufvertrag", "owner-r4": "Kaufvertrag",
		"owner-r6": "Kaufvertrag", "cjk": "四半期報告書を東京で", "identity": "Привет",
	}
	found := 0
	for name, word := range words {
		b, err := os.ReadFile(filepath.Join("../../../search/text/testdata", name+".pdf"))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := ours.Text(b, room); err != nil || !strings.Contains(text, word) {
			t.Errorf("ours: %s: %v", name, err)
		}
		text, err := textOfTheirs(b)
		t.Logf("ledongthuc: %s: found %v, %v", name, strings.Contains(text, word), err)
		if strings.Contains(text, word) {
			found++
		}
	}
	if found == len(words) {
		t.Errorf("ledongthuc/pdf finds all words: compare again")
	}
}
