package mime

import (
	"bytes"
	"iter"
	"strings"
)

// HeaderField is one field of a header block. The slices point into the block.
type HeaderField struct {
	// Name is the field name without blanks before the colon, which some programs send. For a line without a colon,
	// which is not a field, Name is empty and Value is the whole line.
	Name []byte
	// Value is the raw text after the colon: folding is kept, the last line break is removed.
	Value []byte
	// Start and End are offsets in the block. The last line break is included.
	Start, End int
}

// Is compares the name, ignoring ASCII case.
func (f HeaderField) Is(name string) bool { return equalFold(f.Name, name) }

// Text returns the unfolded value.
func (f HeaderField) Text() string { return Unfold(f.Value) }

// Fields iterates over the fields of a header block in order, up to its empty line or end.
func Fields(header []byte) iter.Seq[HeaderField] {
	return func(yield func(HeaderField) bool) {
		for pos := 0; pos < len(header) && emptyLine(header, pos) == 0; {
			f := fieldAt(header, pos)
			if !yield(f) {
				return
			}
			pos = f.End
		}
	}
}

// Get returns the first field of that name, unfolded.
func Get(header []byte, name string) (value string, ok bool) {
	for f := range Fields(header) {
		if equalFold(f.Name, name) {
			return Unfold(f.Value), true
		}
	}
	return "", false
}

// HeaderEnd returns the offset after the empty line that ends the header block at the start of b. Without an empty line
// it returns len(b).
func HeaderEnd(b []byte) int {
	for pos := 0; pos < len(b); {
		if n := emptyLine(b, pos); n > 0 {
			return pos + n
		}
		i := bytes.IndexByte(b[pos:], '\n')
		if i < 0 {
			break
		}
		pos += i + 1
	}
	return len(b)
}

// Unfold removes line breaks (RFC 5322 section 2.2.3) and the blanks at both ends. It keeps the blanks at the start of
// a continuation line.
func Unfold(value []byte) string {
	value = bytes.Trim(value, " \t\r\n")
	if bytes.IndexByte(value, '\n') < 0 && bytes.IndexByte(value, '\r') < 0 {
		return string(value)
	}
	out := make([]byte, 0, len(value))
	for _, c := range value {
		if c != '\r' && c != '\n' {
			out = append(out, c)
		}
	}
	return string(out)
}

// emptyLine returns the length of the empty line at pos, 0 if the line is not empty.
func emptyLine(b []byte, pos int) int {
	if b[pos] == '\n' {
		return 1
	}
	if b[pos] == '\r' && pos+1 < len(b) && b[pos+1] == '\n' {
		return 2
	}
	return 0
}

// fieldAt parses the field at pos with its continuation lines. pos must be within b and not at an empty line.
func fieldAt(b []byte, pos int) HeaderField {
	end := pos
	for {
		i := bytes.IndexByte(b[end:], '\n')
		if i < 0 {
			end = len(b)
			break
		}
		end += i + 1
		if end >= len(b) || (b[end] != ' ' && b[end] != '\t') {
			break
		}
	}
	line := b[pos:end]
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
		if n > 1 && line[n-2] == '\r' {
			line = line[:n-2]
		}
	}
	f := HeaderField{Value: line, Start: pos, End: end}
	if i := bytes.IndexByte(line, ':'); i > 0 {
		if name := bytes.TrimRight(line[:i], " \t"); len(name) > 0 && bytes.IndexByte(name, '\n') < 0 {
			f.Name, f.Value = name, line[i+1:]
		}
	}
	return f
}

// equalFold compares b and s, ignoring ASCII case.
func equalFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range b {
		if lowerByte(b[i]) != lowerByte(s[i]) {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// lower returns b with ASCII letters in lower case. Common words are constants, so they cost no allocation.
func lower(b []byte) string {
	var buf [24]byte
	if len(b) > len(buf) {
		return strings.ToLower(string(b))
	}
	low := buf[:len(b)]
	for i, c := range b {
		low[i] = lowerByte(c)
	}
	return intern(low)
}

// intern returns string(b), without allocation for common words.
func intern(b []byte) string {
	if w, ok := common[string(b)]; ok {
		return w
	}
	return string(b)
}

// common holds frequent types, parameters and encodings.
var common = func(list string) map[string]string {
	m := map[string]string{}
	for w := range strings.FieldsSeq(list) {
		m[w] = w
	}
	return m
}(`text plain html calendar multipart mixed alternative related signed report application octet-stream pdf image png
	jpeg gif message rfc822 7bit 8bit base64 quoted-printable attachment inline charset boundary filename name format
	flowed utf-8 UTF-8 us-ascii iso-8859-1 ISO-8859-1`)
