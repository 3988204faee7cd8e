package mime

import "bytes"

// Limits limits the work of Parse. Parts of a message beyond the limits are opaque: a multipart or message that is too
// deep has no children, parts above the count are not listed, fields beyond the size are not read.
type Limits struct {
	// Depth is the maximum nesting depth of multiparts and messages.
	Depth int
	// Parts is the maximum number of parts in a message, including containers and the root.
	Parts int
	// HeaderBytes and HeaderFields limit the part of each header that is read.
	HeaderBytes, HeaderFields int
}

// DefaultLimits holds the limits of the server.
var DefaultLimits = Limits{Depth: 100, Parts: 10_000, HeaderBytes: 1 << 20, HeaderFields: 10_000}

var newline = []byte{'\n'}

// Parse parses a message, however malformed. It takes linear time: it reads the message once, whatever the nesting
// depth. A zero limit means the default. The tree does not refer to raw.
func Parse(raw []byte, l Limits) *Part {
	if l.Depth <= 0 {
		l.Depth = DefaultLimits.Depth
	}
	if l.Parts <= 0 {
		l.Parts = DefaultLimits.Parts
	}
	if l.HeaderBytes <= 0 {
		l.HeaderBytes = DefaultLimits.HeaderBytes
	}
	if l.HeaderFields <= 0 {
		l.HeaderFields = DefaultLimits.HeaderFields
	}
	s := scanner{raw: raw, limits: l}
	return s.part(0, true, false)
}

// ParseHeader parses the header block of one part, for example to get the charset of a part found in an Index. It fills
// the envelope if envelope is set. Offsets are relative to the block; the body is empty.
func ParseHeader(header []byte, envelope bool) *Part {
	s := scanner{raw: header, limits: DefaultLimits}
	p := &Part{}
	if envelope {
		p.Envelope = &Envelope{}
	}
	s.header(p, false)
	p.BodyEnd = p.BodyStart
	return p
}

// delimiter is a boundary line, or the end of the message (level -1).
type delimiter struct {
	start, end int
	level      int
	closing    bool
}

// scanner parses a message in one pass. Each function sets at to the delimiter that ended its part.
type scanner struct {
	raw    []byte
	limits Limits
	parts  int
	depth  int
	bounds []string // boundaries of the open multiparts, outermost first
	at     delimiter

	counted, lines int // offset up to which line breaks are counted, and their number
}

// lineBreaks returns the number of line breaks before pos. Offsets of successive calls must ascend.
func (s *scanner) lineBreaks(pos int) int {
	if pos > s.counted {
		s.lines += bytes.Count(s.raw[s.counted:pos], newline)
		s.counted = pos
	}
	return s.lines
}

// part parses the part whose header starts at pos.
func (s *scanner) part(pos int, message, digest bool) *Part {
	s.parts++
	p := &Part{HeaderStart: pos}
	if message {
		p.Envelope = &Envelope{}
	}
	ended := s.header(p, digest)
	before := s.lineBreaks(p.BodyStart)
	if !ended {
		s.body(p)
	}
	p.BodyEnd = s.bodyEnd(p)
	p.Lines = s.lineBreaks(p.BodyEnd) - before
	return p
}

// body parses the body after the header, with its parts.
func (s *scanner) body(p *Part) {
	room := s.depth < s.limits.Depth && s.parts < s.limits.Parts
	switch {
	case room && p.Type == "multipart":
		if b := boundary(p); b != "" {
			s.multipart(p, b)
			return
		}
	case room && p.Type == "message" && (p.Subtype == "rfc822" || p.Subtype == "global") &&
		p.Encoding != "base64" && p.Encoding != "quoted-printable":
		s.depth++
		p.Children = []*Part{s.part(p.BodyStart, true, false)}
		s.depth--
		return
	}
	s.skip(p.BodyStart)
}

// multipart parses the parts between the lines of boundary b, and the epilogue.
func (s *scanner) multipart(p *Part, b string) {
	level := len(s.bounds)
	s.bounds = append(s.bounds, b)
	s.depth++
	digest := p.Subtype == "digest"
	s.skip(p.BodyStart)
	for s.at.level == level && !s.at.closing {
		if s.parts >= s.limits.Parts {
			s.skip(s.at.end)
			continue
		}
		p.Children = append(p.Children, s.part(s.at.end, false, digest))
	}
	s.depth--
	s.bounds = s.bounds[:level]
	if s.at.level == level {
		s.skip(s.at.end)
	}
}

// bodyEnd returns the end of the body of p, after the delimiter that follows it has been read. The line break before a
// delimiter belongs to the delimiter, unless it ended the header.
func (s *scanner) bodyEnd(p *Part) int {
	end := s.at.start
	if s.at.level >= 0 && end > 0 && s.raw[end-1] == '\n' {
		end--
		if end > 0 && s.raw[end-1] == '\r' {
			end--
		}
	}
	floor := p.BodyStart
	if n := len(p.Children); n > 0 {
		floor = p.Children[n-1].BodyEnd
	}
	return max(end, floor)
}

// skip moves to the next delimiter of any open multipart, starting at the line start pos. It searches for dashes, which
// are rarer than line breaks in most mail and do not occur in base64.
func (s *scanner) skip(pos int) {
	raw := s.raw
	if len(s.bounds) == 0 {
		pos = len(raw)
	}
	for pos < len(raw) {
		i := bytes.IndexByte(raw[pos:], '-')
		if i < 0 {
			break
		}
		i += pos
		if i+1 >= len(raw) {
			break
		}
		if raw[i+1] != '-' {
			pos = i + 2
			continue
		}
		if i > 0 && raw[i-1] != '\n' {
			// Inside a line: a delimiter can only start after the next line break.
			n := bytes.IndexByte(raw[i:], '\n')
			if n < 0 {
				break
			}
			pos = i + n + 1
			continue
		}
		if s.delimiter(i) {
			return
		}
		pos = lineEnd(raw, i)
	}
	s.at = delimiter{start: len(raw), end: len(raw), level: -1}
}

// delimiter reports whether the line at pos, which starts with two dashes, is a boundary line, and if so sets at. It
// tries the innermost open multipart first, so that equal boundaries nest.
func (s *scanner) delimiter(pos int) bool {
	end := lineEnd(s.raw, pos)
	line := bytes.TrimRight(s.raw[pos+2:end], " \t\r\n")
	for level := len(s.bounds) - 1; level >= 0; level-- {
		b := s.bounds[level]
		n := len(b)
		if len(line) == n && string(line) == b {
			s.at = delimiter{start: pos, end: end, level: level}
			return true
		}
		if len(line) == n+2 && line[n] == '-' && line[n+1] == '-' && string(line[:n]) == b {
			s.at = delimiter{start: pos, end: end, level: level, closing: true}
			return true
		}
	}
	return false
}

// lineEnd returns the offset after the line at pos.
func lineEnd(b []byte, pos int) int {
	if i := bytes.IndexByte(b[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(b)
}

// boundary returns the boundary parameter, "" if absent. Trailing blanks are removed, because a gateway may have
// removed them from the boundary lines.
func boundary(p *Part) string {
	b := p.Param("boundary")
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// header parses the header of p from p.HeaderStart and sets p.BodyStart. ended reports whether a delimiter, now in at,
// ended the header; then the part has no body.
func (s *scanner) header(p *Part, digest bool) (ended bool) {
	raw, pos := s.raw, p.HeaderStart
	var seen contentSeen
	for n := 0; ; n++ {
		if pos >= len(raw) {
			break
		}
		if e := emptyLine(raw, pos); e > 0 {
			pos += e
			break
		}
		if raw[pos] == '-' && len(s.bounds) > 0 && pos+1 < len(raw) && raw[pos+1] == '-' && s.delimiter(pos) {
			ended = true
			break
		}
		f := fieldAt(raw, pos)
		pos = f.End
		if n < s.limits.HeaderFields && f.End-p.HeaderStart <= s.limits.HeaderBytes && len(f.Name) > 0 {
			seen |= p.field(f, seen)
		}
	}
	p.BodyStart = pos
	if seen&seenType == 0 {
		p.defaultType(digest)
	}
	if p.Encoding == "" {
		p.Encoding = "7bit"
	}
	return ended
}

// Param returns the value of a parameter of Content-Type, "" if absent. name must be in lower case.
func (p *Part) Param(name string) string { return paramValue(p.Params, name) }

// DispositionParam returns the value of a parameter of Content-Disposition, "" if absent. name must be in lower case.
func (p *Part) DispositionParam(name string) string { return paramValue(p.DispositionParams, name) }

// Filename returns the part's file name from the disposition or, without one, from the content type.
func (p *Part) Filename() string {
	if s := p.DispositionParam("filename"); s != "" {
		return DecodeWords(s)
	}
	return DecodeWords(p.Param("name"))
}

func paramValue(params []Param, name string) string {
	for i := range params {
		if params[i].Name == name {
			return params[i].Value
		}
	}
	return ""
}
