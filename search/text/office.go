package text

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// Limits on an archive: entries listed, entries read, bytes inflated in total, and XML tokens in total.
const (
	maxEntries  = 20_000
	maxRead     = 2_000
	maxInflated = 16 << 20
	maxTags     = 2_000_000
)

var (
	errBroken    = errors.New("text: broken")
	errBeyond    = errors.New("text: beyond the limits")
	errEncrypted = errors.New("text: encrypted")
)

// Magic numbers of the formats, and of an entry in a zip directory.
var (
	magicZip = []byte("PK\x03\x04")
	magicOLE = []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
	zipEntry = []byte("PK\x01\x02")
)

// office returns the text of an Office Open XML or OpenDocument file, at most room bytes.
func office(b []byte, k kind, room int) (string, error) {
	if bytes.HasPrefix(b, magicOLE) {
		return "", errEncrypted // an encrypted Office Open XML file is wrapped in an OLE file
	}
	if !bytes.HasPrefix(b, magicZip) {
		return "", errBroken
	}
	if bytes.Count(b, zipEntry) > maxEntries {
		return "", errBeyond
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return "", errBroken
	}
	a := archive{room: room, inflated: maxInflated}
	names := make(map[string]*zip.File, len(z.File))
	for _, f := range z.File {
		if names[f.Name] == nil {
			names[f.Name] = f
		}
	}
	if f := names["META-INF/manifest.xml"]; k == kindODF && f != nil {
		if secret, err := a.holds(f, "encryption-data"); err != nil || secret {
			return "", errorOr(err, errEncrypted)
		}
	}
	list := wanted(names, k)
	if len(list) == 0 {
		return "", errBroken
	}
	for _, name := range list[:min(len(list), maxRead)] {
		if err := a.read(names[name], k); err != nil {
			return a.b.String(), err
		}
	}
	return a.b.String(), nil
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// wanted returns the entries that contain text, in the order of the document.
func wanted(names map[string]*zip.File, k kind) []string {
	var out []string
	add := func(list ...string) {
		for _, n := range list {
			if names[n] != nil {
				out = append(out, n)
			}
		}
	}
	numbered := func(patterns ...string) {
		for _, p := range patterns {
			var list []string
			for n := range names {
				if ok, _ := path.Match(p, n); ok {
					list = append(list, n)
				}
			}
			slices.SortFunc(list, compareNumbered)
			out = append(out, list...)
		}
	}
	switch k {
	case kindWord:
		add("docProps/core.xml", "word/document.xml")
		numbered("word/header*.xml", "word/footer*.xml")
		add("word/footnotes.xml", "word/endnotes.xml", "word/comments.xml")
	case kindSheet:
		add("docProps/core.xml", "xl/sharedStrings.xml")
		numbered("xl/worksheets/sheet*.xml", "xl/comments*.xml", "xl/drawings/drawing*.xml")
	case kindSlides:
		add("docProps/core.xml")
		numbered("ppt/slides/slide*.xml", "ppt/notesSlides/notesSlide*.xml", "ppt/comments/comment*.xml")
	case kindODF:
		add("meta.xml", "content.xml", "styles.xml")
	}
	return out
}

// compareNumbered sorts slide2.xml before slide10.xml.
func compareNumbered(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// archive collects the text of entries.
type archive struct {
	b        strings.Builder
	room     int
	inflated int64 // bytes that may still be inflated
	tags     int
}

// open returns a reader for an entry, limited to the bytes that may still be inflated.
func (a *archive) open(f *zip.File) (io.ReadCloser, io.Reader, error) {
	if f.Flags&1 != 0 {
		return nil, nil, errEncrypted
	}
	rc, err := f.Open()
	if err != nil {
		return nil, nil, errBroken
	}
	return rc, &budget{rc, &a.inflated}, nil
}

// budget is a reader that fails with errBeyond when the limit is used up.
type budget struct {
	r    io.Reader
	left *int64
}

func (b *budget) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		return 0, errBeyond
	}
	if int64(len(p)) > *b.left {
		p = p[:*b.left]
	}
	n, err := b.r.Read(p)
	*b.left -= int64(n)
	return n, err
}

// holds reports whether an entry contains an element with the given name.
func (a *archive) holds(f *zip.File, name string) (bool, error) {
	found := false
	err := a.walk(f, func(t xml.Token) bool {
		if e, ok := t.(xml.StartElement); ok && e.Name.Local == name {
			found = true
		}
		return !found
	})
	return found, err
}

// walk calls fn for the tokens of an entry until fn returns false. It uses RawToken, which does not track open
// elements, so the depth needs no limit.
func (a *archive) walk(f *zip.File, fn func(xml.Token) bool) error {
	rc, r, err := a.open(f)
	if err != nil {
		return err
	}
	defer rc.Close()
	d := xml.NewDecoder(r)
	d.Strict = false
	for {
		t, err := d.RawToken()
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, errBeyond):
			return errBeyond
		case err != nil:
			return errBroken
		}
		if a.tags++; a.tags > maxTags {
			return errBeyond
		}
		if !fn(t) {
			return nil
		}
	}
}

// read adds the text of an entry.
func (a *archive) read(f *zip.File, k kind) error {
	var err error
	about := f.Name == "meta.xml" || strings.HasPrefix(f.Name, "docProps/")
	s := scribe{a: a, k: k, about: about, all: k == kindODF || about}
	if e := a.walk(f, func(t xml.Token) bool {
		err = s.token(t)
		return err == nil
	}); err == nil {
		err = e
	}
	a.put("\n")
	return err
}

func (a *archive) put(s string) error {
	if a.b.Len()+len(s) > a.room {
		a.b.WriteString(clip(s, max(0, a.room-a.b.Len())))
		return errBeyond
	}
	a.b.WriteString(s)
	return nil
}

// scribe extracts the text of one entry. In Office Open XML, text is in elements named t, or v in a cell. In
// OpenDocument, all of the body is text.
type scribe struct {
	a     *archive
	k     kind
	about bool // the entry holds metadata of the file
	all   bool
	text  int  // number of open elements that hold text
	link  bool // the cell holds the index of a shared string
	skip  int  // number of open hidden elements
}

// hidden reports whether the content of an element is not text: deleted text, field formulas, pronunciation guides and
// data for programs; in metadata also dates and counters.
func (s *scribe) hidden(n string) bool {
	switch n {
	case "delText", "instrText", "rPh":
		return s.k != kindODF
	case "tracked-changes", "scripts", "font-face-decls", "automatic-styles":
		return s.k == kindODF
	case "revision", "created", "modified", "lastPrinted", "version", "creation-date", "date", "print-date",
		"generator",
		"editing-cycles", "editing-duration":
		return s.about
	}
	return false
}

func (s *scribe) token(t xml.Token) error {
	switch t := t.(type) {
	case xml.StartElement:
		return s.start(&t)
	case xml.EndElement:
		return s.end(t.Name)
	case xml.CharData:
		if s.skip == 0 && (s.all || s.text > 0) {
			return s.a.put(validUTF8(string(t)))
		}
	}
	return nil
}

func (s *scribe) start(e *xml.StartElement) error {
	if s.hidden(e.Name.Local) {
		s.skip++
		return nil
	}
	switch e.Name.Local {
	case "t":
		s.text++
	case "c": // a cell
		s.link = false
		for _, x := range e.Attr {
			s.link = s.link || x.Name.Local == "t" && x.Value == "s"
		}
	case "v":
		if s.k == kindSheet && !s.link {
			s.text++
		}
	case "tab", "br", "cr", "line-break", "s":
		if e.Name.Local == "s" && s.k != kindODF {
			return nil
		}
		return s.a.put(" ")
	}
	return nil
}

func (s *scribe) end(n xml.Name) error {
	if s.hidden(n.Local) {
		s.skip = max(0, s.skip-1)
		return nil
	}
	switch n.Local {
	case "t":
		s.text = max(0, s.text-1)
	case "v":
		if s.k == kindSheet && !s.link {
			s.text = max(0, s.text-1)
			return s.a.put(" ")
		}
	case "p", "h", "si", "row", "is", "tc", "comment", "table-cell", "table-row":
		return s.a.put("\n")
	default:
		if s.all && n.Space != "text" {
			return s.a.put("\n") // a property, or an object of its own
		}
	}
	return nil
}
