package dmarcreport

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// Limits of the XML. Reports nest six levels deep, and their tags are short.
const (
	maxDepth = 20
	maxTag   = 4 << 10 // bytes of a tag, with its attributes
)

// decoder returns a decoder of XML that fails at elements nested too deep and at long tags, before memory for them is
// allocated. encoding/xml limits neither: a file of opening tags would take 20 times its size.
func decoder(data []byte) *xml.Decoder {
	raw := xml.NewDecoder(&tagReader{in: bytes.NewReader(data)})
	raw.CharsetReader = charset
	return xml.NewTokenDecoder(&depthReader{raw: raw})
}

// depthReader is a source of tokens that limits the depth of elements.
type depthReader struct {
	raw   *xml.Decoder
	depth int
}

// Token implements xml.TokenReader.
func (r *depthReader) Token() (xml.Token, error) {
	t, err := r.raw.RawToken()
	switch t.(type) {
	case xml.StartElement:
		if r.depth++; r.depth > maxDepth {
			return nil, fmt.Errorf("elements are nested more than %d deep", maxDepth)
		}
	case xml.EndElement:
		r.depth--
	}
	return t, err
}

// tagReader limits the bytes of tags. It does not count comments, instructions and CDATA sections.
type tagReader struct {
	in    *bytes.Reader
	tag   int  // bytes since "<" of a tag, 0 outside
	quote byte // of the attribute value that is being read, or 0
}

// ReadByte implements io.ByteReader, by which xml.Decoder reads.
func (r *tagReader) ReadByte() (byte, error) {
	c, err := r.in.ReadByte()
	switch {
	case err != nil:
		return 0, err
	case r.tag == 0:
		if c == '<' {
			r.tag = 1
		}
		return c, nil
	case r.tag == 1 && (c == '!' || c == '?'), r.quote == 0 && c == '>':
		r.tag = 0
		return c, nil
	case c == r.quote:
		r.quote = 0
	case r.quote == 0 && (c == '"' || c == '\''):
		r.quote = c
	}
	if r.tag++; r.tag > maxTag {
		return 0, fmt.Errorf("tag of more than %d bytes", maxTag)
	}
	return c, nil
}

// Read implements io.Reader. xml.Decoder does not use it.
func (r *tagReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}
