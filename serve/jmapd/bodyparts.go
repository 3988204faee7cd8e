package jmapd

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"doublet/mailbox"
	"doublet/wire/imap"
	"doublet/wire/jmap"
	"doublet/wire/mime"
)

// The properties of an EmailBodyPart (RFC 8621 section 4.1.4).
const (
	partID propertyKind = iota
	partBlobID
	partSize
	partName
	partType
	partCharset
	partDisposition
	partCID
	partLanguage
	partLocation
	partHeaders
	partHeader
	partSubParts
)

var bodyProperties = []struct {
	name  string
	kind  propertyKind
	usual bool
}{
	{"partId", partID, true}, {"blobId", partBlobID, true}, {"size", partSize, true}, {"name", partName, true},
	{"type", partType, true},
	{"charset", partCharset, true}, {"disposition", partDisposition, true}, {"cid", partCID, true},
	{"language", partLanguage, true},
	{"location", partLocation, true}, {"headers", partHeaders, false}, {"subParts", partSubParts, false},
}

func compileBodyProperties(names []string, some bool) ([]property, error) {
	var out []property
	add := func(name string, kind propertyKind, h header) {
		prefix := string(jmap.AppendString(nil, name)) + ":"
		if len(out) > 0 {
			prefix = "," + prefix
		}
		out = append(out, property{kind, prefix, h})
	}
	if !some {
		for _, p := range bodyProperties {
			if p.usual {
				add(p.name, p.kind, header{})
			}
		}
		return out, nil
	}
	if len(names) > maxNames {
		return nil, errManyNames
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) || name == "subParts" { // subParts is always added
			continue
		}
		if h, ok := parseHeader(name); ok {
			add(name, partHeader, h)
			continue
		}
		known := false
		for _, p := range bodyProperties {
			if p.name == name {
				add(name, p.kind, header{})
				known = true
			}
		}
		if !known {
			return nil, invalid("%.100q is no property of an EmailBodyPart", name)
		}
	}
	return out, nil
}

// fromBody appends a property that needs the MIME structure.
//
// Implements: RFC 8621 §4.1.4 body parts
func (r *renderer) fromBody(k propertyKind) error {
	if err := r.readParts(); err != nil {
		return err
	}
	switch k {
	case propBodyStructure:
		return r.appendPart(r.parts, true)
	case propTextBody:
		return r.appendParts(r.bodies.Text)
	case propHTMLBody:
		return r.appendParts(r.bodies.HTML)
	case propAttachments:
		return r.appendParts(r.bodies.Attachments)
	}
	return r.appendBodyValues()
}

// readParts reads the MIME structure and assigns each part its place (part number).
func (r *renderer) readParts() error {
	if r.hasParts {
		return nil
	}
	if r.m != nil {
		text, err := r.m.Structure()
		if err == nil {
			r.parts, err = imap.ParseBodyStructure(text)
		}
		if err != nil {
			return err
		}
	} else {
		r.parts = r.root
	}
	r.places = mailbox.PlacesOf(r.parts)
	r.bodies, r.hasParts = mailbox.BodiesOf(r.parts), true
	return nil
}

// path splits a part's place into its numbers. It returns nil if the place is malformed.
func path(place string) []int {
	var out []int
	for s := range strings.SplitSeq(place, ".") {
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil
		}
		out = append(out, n)
	}
	return out
}

func (r *renderer) appendParts(list []*mime.Part) error {
	c := r.c
	c.out = append(c.out, '[')
	for i, p := range list {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		if err := r.appendPart(p, false); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	return nil
}

// appendPart appends an EmailBodyPart, with its subParts if deep is set.
func (r *renderer) appendPart(p *mime.Part, deep bool) error {
	c := r.c
	c.out = append(c.out, '{')
	for i := range r.view.body {
		x := &r.view.body[i]
		c.out = append(c.out, x.prefix...)
		err := r.appendPartProperty(p, x)
		if err == nil {
			err = c.settle()
		}
		if err != nil {
			return err
		}
	}
	if deep && p.IsMultipart() {
		if len(r.view.body) > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(c.out, `"subParts":[`...)
		for i, child := range p.Children {
			if i > 0 {
				c.out = append(c.out, ',')
			}
			if err := r.appendPart(child, true); err != nil {
				return err
			}
		}
		c.out = append(c.out, ']')
	}
	c.out = append(c.out, '}')
	return nil
}

func (r *renderer) appendPartProperty(p *mime.Part, x *property) error {
	c := r.c
	place, leaf := r.places[p]
	orNull := func(s string) {
		if s == "" {
			c.out = append(c.out, "null"...)
		} else {
			c.out = jmap.AppendString(c.out, nfc(s))
		}
	}
	switch x.kind {
	case partID:
		orNull(place)
	case partBlobID:
		if !leaf {
			c.out = append(c.out, "null"...)
			return nil
		}
		c.out = r.appendPartBlobID(c.out, place)
	case partSize:
		n, err := r.decodedSize(p, place)
		c.out = jmap.AppendUint(c.out, uint64(n))
		return err
	case partName:
		orNull(p.Filename())
	case partType:
		c.out = jmap.AppendString(c.out, p.Type+"/"+p.Subtype)
	case partCharset:
		charset := p.Param("charset")
		if charset == "" && p.Type == "text" {
			charset = "us-ascii"
		}
		orNull(charset)
	case partDisposition:
		orNull(p.Disposition)
	case partCID:
		orNull(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(p.ID), "<"), ">"))
	case partLanguage:
		if len(p.Language) == 0 {
			c.out = append(c.out, "null"...)
		} else {
			c.out = jmap.AppendStrings(c.out, p.Language)
		}
	case partLocation:
		orNull(p.Location)
	case partHeaders, partHeader:
		return r.appendPartHeaders(p, place, x)
	}
	return nil
}

// appendPartHeaders appends fields of a part's own header. For the root that is the message's header.
func (r *renderer) appendPartHeaders(p *mime.Part, place string, x *property) error {
	c := r.c
	var block []byte
	var err error
	if p == r.parts {
		err = r.readHeader()
		block = r.header
	} else {
		var span mime.SectionSpan
		if span, err = r.section(r.pathOf(p, place)); err == nil {
			size := int64(span.BodyStart - span.HeaderStart)
			if err := c.hold(size); err != nil {
				return err
			}
			defer c.mem.drop(size)
			block, err = r.bytes(make([]byte, 0, size), int64(span.HeaderStart), int64(span.BodyStart))
		}
	}
	if err != nil {
		return err
	}
	if x.kind == partHeaders {
		c.out = appendHeaders(c.out, block)
	} else {
		c.out = x.header.append(c.out, block)
	}
	return nil
}

// pathOf returns a part's numbers. For a multipart, which has no place, these are its first child's without the last
// number.
func (r *renderer) pathOf(p *mime.Part, place string) []int {
	if place != "" || len(p.Children) == 0 {
		return path(place)
	}
	child := p.Children[0]
	if inner := r.pathOf(child, r.places[child]); len(inner) > 0 {
		return inner[:len(inner)-1]
	}
	return nil
}

// decodedSize returns the size of a part with its transfer encoding removed.
func (r *renderer) decodedSize(p *mime.Part, place string) (int64, error) {
	if place == "" {
		return 0, nil
	}
	span, err := r.section(path(place))
	if err != nil {
		return 0, err
	}
	size := int64(span.BodyEnd - span.BodyStart)
	if span.Encoding != mime.EncodingBase64 && span.Encoding != mime.EncodingQuotedPrintable || size == 0 {
		return size, nil
	}
	if r.m != nil {
		if err := r.open(); err != nil {
			return 0, err
		}
		if n, ok := r.body.Decoded(int64(span.BodyStart), int64(span.BodyEnd)); ok &&
			span.Encoding == mime.EncodingBase64 {
			return n, nil
		}
	}
	if err := r.c.hold(2 * size); err != nil { // encoded and decoded
		return 0, err
	}
	defer r.c.mem.drop(2 * size)
	raw, err := r.bytes(make([]byte, 0, size), int64(span.BodyStart), int64(span.BodyEnd))
	if err != nil {
		return 0, err
	}
	out, _ := mime.AppendDecoded(make([]byte, 0, len(raw)), raw, span.Encoding, -1)
	return int64(len(out)), nil
}

// appendPartBlobID appends the blob id of a part: the id of the blob or message that holds it, and the part's numbers.
func (r *renderer) appendPartBlobID(dst []byte, place string) []byte {
	ref := r.blob
	if r.m != nil {
		ref = blobRef{letter: letterPart, unid: r.m.UNID()}
	}
	ref.steps = append(slices.Clone(ref.steps), path(place)...)
	return append(append(append(dst, '"'), ref.String()...), '"')
}

// appendBodyValues appends the requested body values, keyed by part id.
//
// Implements: RFC 8621 §4.1.4 bodyValues
func (r *renderer) appendBodyValues() error {
	c := r.c
	var list []*mime.Part
	add := func(parts []*mime.Part) {
		for _, p := range parts {
			if p.Type == "text" && !slices.Contains(list, p) {
				list = append(list, p)
			}
		}
	}
	if r.view.text || r.view.all {
		add(r.bodies.Text)
	}
	if r.view.html || r.view.all {
		add(r.bodies.HTML)
	}
	if r.view.all {
		r.eachText(r.parts, func(p *mime.Part) { add([]*mime.Part{p}) })
	}
	c.out = append(c.out, '{')
	for i, p := range list {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		place := r.places[p]
		c.out = append(jmap.AppendString(c.out, place), ':')
		if err := r.appendBodyValue(p, place); err != nil {
			return err
		}
		if err := c.settle(); err != nil {
			return err
		}
	}
	c.out = append(c.out, '}')
	return nil
}

func (r *renderer) eachText(p *mime.Part, fn func(*mime.Part)) {
	if p.IsMultipart() {
		for _, child := range p.Children {
			r.eachText(child, fn)
		}
	} else if p.Type == "text" {
		fn(p)
	}
}

// textCost returns a bound of the memory that decoding a text takes, as a multiple of its octets: the decoded octets,
// their UTF-8 and the copy with LF line ends. In other charsets an octet can become three octets of UTF-8, in a growing
// buffer.
func textCost(charset string) int64 {
	if strings.EqualFold(charset, "utf-8") {
		return 5
	}
	return 16
}

func (r *renderer) appendBodyValue(p *mime.Part, place string) error {
	span, err := r.section(path(place))
	if err != nil {
		return err
	}
	c := r.c
	most := r.view.most
	size := int64(span.BodyEnd - span.BodyStart)
	cost := size + min(size, int64(most))*textCost(p.Param("charset"))
	if err := c.hold(cost); err != nil {
		return err
	}
	defer c.mem.drop(cost)
	raw, err := r.bytes(make([]byte, 0, size), int64(span.BodyStart), int64(span.BodyEnd))
	if err != nil {
		return err
	}
	text, truncated := mime.DecodeBody(raw, span.Encoding, p.Param("charset"), most)
	problem := span.Encoding == mime.EncodingUnknown || mime.UnknownCharset(p.Param("charset")) ||
		strings.Contains(text, "\ufffd")
	if truncated && p.Subtype == "html" {
		// Do not cut inside a tag.
		if open := strings.LastIndexByte(text, '<'); open > strings.LastIndexByte(text, '>') {
			text = text[:open]
		}
	}
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if err := c.room(jmap.QuotedLen(text) + 64); err != nil {
		return err
	}
	c.out = jmap.AppendString(append(c.out, `{"value":`...), text)
	c.out = jmap.AppendBool(append(c.out, `,"isEncodingProblem":`...), problem)
	c.out = append(jmap.AppendBool(append(c.out, `,"isTruncated":`...), truncated), '}')
	return nil
}

// blobRef identifies a blob: the object that holds it, and the steps from there to the blob. Steps are the numbers of a
// part. A 0 between them enters the message in the part before it.
type blobRef struct {
	letter byte
	unid   [16]byte
	steps  []int
}

// maxSteps bounds the steps of a blob id.
const maxSteps = 110

func (b blobRef) String() string {
	out := append([]byte{b.letter}, hex.EncodeToString(b.unid[:])...)
	for _, n := range b.steps {
		out = hex.AppendEncode(out, binary.AppendUvarint(nil, uint64(n)))
	}
	return string(out)
}

// parseBlobRef parses the output of String.
func parseBlobRef(s string) (b blobRef, ok bool) {
	if len(s) < 33 {
		return b, false
	}
	b.letter = s[0]
	if b.unid, ok = parseID(s[0], s[:33]); !ok {
		return b, false
	}
	rest, err := hex.DecodeString(s[33:])
	if err != nil {
		return b, false
	}
	for len(rest) > 0 {
		n, k := binary.Uvarint(rest)
		if k <= 0 || n > 1<<20 || len(b.steps) >= maxSteps {
			return b, false
		}
		b.steps, rest = append(b.steps, int(n)), rest[k:]
	}
	switch b.letter {
	case letterMessage, letterSieve, letterAttachment:
		ok = len(b.steps) == 0
	case letterPart:
		ok = len(b.steps) > 0
	case letterMedia:
		ok = len(b.steps) == 3
	case letterUpload:
	default:
		ok = false
	}
	return b, ok && b.String() == s
}
