package mime

import (
	"bytes"
	"iter"
	"strings"
)

// HeaderField is one field of a header block. The slices point into the block.
type HeaderField struct {
	// Name is the field name without the blanks that some programs put before the colon. It is
	// empty for a line that is no field (no colon); Value is then the whole line.
	Name []byte
	// Value is what stands behind the colon: raw, folding kept, without the last line break.
	Value []byte
	// Start and End are offsets in the block; the last line break is inside.
	Start, End int
}

// Is compares the name without regard to ASCII case.
func (f HeaderField) Is(name string) bool { return equalFold(f.Name, name) }

// Text is the value as Unfold gives it.
func (f HeaderField) Text() string { return Unfold(f.Value) }

// Fields goes through the fields of a header block in order, up to its empty line or its end.
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

// HeaderEnd is the offset behind the empty line that ends the header block at the start of b, or
// len(b) where there is none.
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

// Unfold removes line breaks (RFC 5322 section 2.2.3) and the blanks at both ends. The blanks that
// made a continuation line stay.
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

// emptyLine is the length of the empty line at pos, 0 if the line is not empty.
func emptyLine(b []byte, pos int) int {
	if b[pos] == '\n' {
		return 1
	}
	if b[pos] == '\r' && pos+1 < len(b) && b[pos+1] == '\n' {
		return 2
	}
	return 0
}

// fieldAt reads the field that starts at pos with its continuation lines. pos is inside b and not at an
// empty line.
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

// equalFold compares without regard to ASCII case.
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

// lower turns ASCII into lower case. The words of nearly every message are constants, so that they
// cost no allocation.
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

// intern is string(b) without allocation for common words.
func intern(b []byte) string {
	switch string(b) {
	case "text":
		return "text"
	case "plain":
		return "plain"
	case "html":
		return "html"
	case "calendar":
		return "calendar"
	case "multipart":
		return "multipart"
	case "mixed":
		return "mixed"
	case "alternative":
		return "alternative"
	case "related":
		return "related"
	case "signed":
		return "signed"
	case "report":
		return "report"
	case "application":
		return "application"
	case "octet-stream":
		return "octet-stream"
	case "pdf":
		return "pdf"
	case "image":
		return "image"
	case "png":
		return "png"
	case "jpeg":
		return "jpeg"
	case "gif":
		return "gif"
	case "message":
		return "message"
	case "rfc822":
		return "rfc822"
	}
	return internValue(b)
}

// internValue knows the common parameters and encodings.
func internValue(b []byte) string {
	switch string(b) {
	case "7bit":
		return "7bit"
	case "8bit":
		return "8bit"
	case "base64":
		return "base64"
	case "quoted-printable":
		return "quoted-printable"
	case "attachment":
		return "attachment"
	case "inline":
		return "inline"
	case "charset":
		return "charset"
	case "boundary":
		return "boundary"
	case "filename":
		return "filename"
	case "name":
		return "name"
	case "format":
		return "format"
	case "flowed":
		return "flowed"
	case "utf-8":
		return "utf-8"
	case "UTF-8":
		return "UTF-8"
	case "us-ascii":
		return "us-ascii"
	case "iso-8859-1":
		return "iso-8859-1"
	case "ISO-8859-1":
		return "ISO-8859-1"
	}
	return string(b)
}
