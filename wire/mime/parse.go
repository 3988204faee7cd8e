package mime

import "bytes"

// Limits bound what Parse looks at. What lies beyond is opaque: a multipart or message that is too
// deep has no children, parts beyond the count are not listed, fields beyond the size are not read.
type Limits struct {
	// Depth is how many multiparts and messages may contain each other.
	Depth int
	// Parts is how many parts a message may have, containers and the root included.
	Parts int
	// HeaderBytes and HeaderFields bound what is read of one part's header.
	HeaderBytes, HeaderFields int
}

// DefaultLimits are the limits of the server.
var DefaultLimits = Limits{Depth: 100, Parts: 10_000, HeaderBytes: 1 << 20, HeaderFields: 10_000}

var newline = []byte{'\n'}

// Parse reads a message of any quality. The work is linear in its length: it is read once, however
// deep its parts are nested. A zero limit means the default one. The tree holds no reference to raw.
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

// ParseHeader reads the fields of one part's header block, for instance to learn the charset of a
// part that an Index has found. The envelope is read where envelope is set. Offsets are those of the
// block; the body is empty.
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

// scanner walks through a message once. Each function leaves in at the delimiter that ended what it read.
type scanner struct {
	raw    []byte
	limits Limits
	parts  int
	depth  int
	bounds []string // of the open multiparts, outermost first
	at     delimiter

	counted, lines int // line breaks before the offset counted
}

// lineBreaks is the number of line breaks before pos. Calls come with ascending offsets.
func (s *scanner) lineBreaks(pos int) int {
	if pos > s.counted {
		s.lines += bytes.Count(s.raw[s.counted:pos], newline)
		s.counted = pos
	}
	return s.lines
}

// part reads the part whose header starts at pos.
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

// body reads what follows the header, with the parts in it.
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

// multipart reads the parts between the lines of boundary b, and the epilogue.
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

// bodyEnd is where the body of p ends, given that the delimiter behind it has been read: the line break
// before a delimiter belongs to the delimiter, unless it is the one that ended the header.
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

// skip goes to the next delimiter of any open multipart from the line start pos on. It looks for
// dashes, which are rarer than lines in most mail and absent in base64.
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
			// Inside a line: a delimiter can only follow behind the next line break.
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

// delimiter tells whether the line at pos, which starts with two dashes, is a boundary line, and then
// sets at. The innermost open multipart is asked first, so that equal boundaries nest.
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

// lineEnd is the offset behind the line at pos.
func lineEnd(b []byte, pos int) int {
	if i := bytes.IndexByte(b[pos:], '\n'); i >= 0 {
		return pos + i + 1
	}
	return len(b)
}

// boundary is the boundary parameter without trailing blanks (which a gateway may have lost), "" where
// there is none.
func boundary(p *Part) string {
	b := p.Param("boundary")
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// header reads the header of p from p.HeaderStart and sets p.BodyStart. It reports whether the header
// ran into a delimiter (then in at): the part has no body.
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

// Param is the value of a parameter of the content type; "" where it is absent. name is in lower case.
func (p *Part) Param(name string) string { return paramValue(p.Params, name) }

// DispositionParam is the same for the content disposition.
func (p *Part) DispositionParam(name string) string { return paramValue(p.DispositionParams, name) }

// Filename is the name that the sender gave to the part: of the disposition, else of the type.
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
