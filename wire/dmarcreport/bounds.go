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
	in := &tagReader{in: bytes.NewReader(data)}
	raw := xml.NewDecoder(in)
	raw.CharsetReader = charset
	return xml.NewTokenDecoder(&boundReader{raw: raw, in: in})
}

// boundReader is a source of tokens that limits the depth of elements and the length of tags.
type boundReader struct {
	raw   *xml.Decoder
	in    *tagReader // the input of raw
	depth int
}

// Token implements xml.TokenReader.
func (r *boundReader) Token() (xml.Token, error) {
	r.in.begin(r.raw.InputOffset())
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

// tagReader limits the bytes of tags. The decoder decides about the end of each token, so that no quote or "<" in a
// comment, an instruction or a CDATA section misleads tagReader. The length of those is not limited.
type tagReader struct {
	in    *bytes.Reader
	at    int64 // bytes that were read
	last  byte  // the last byte that was read
	token int   // bytes of the current token that were read
	tag   bool  // the token is a tag, as far as it was read
}

// begin starts a token at an offset. After text the decoder has already read the "<" of the token.
func (r *tagReader) begin(offset int64) {
	r.token, r.tag = 0, false
	if r.at > offset {
		r.count(r.last)
	}
}

// count counts a byte of the token.
func (r *tagReader) count(c byte) {
	switch r.token++; r.token {
	case 1:
		r.tag = c == '<'
	case 2:
		r.tag = r.tag && c != '!' && c != '?'
	}
}

// ReadByte implements io.ByteReader, by which xml.Decoder reads.
func (r *tagReader) ReadByte() (byte, error) {
	c, err := r.in.ReadByte()
	if err != nil {
		return 0, err
	}
	r.at, r.last = r.at+1, c
	if r.count(c); r.tag && r.token > maxTag {
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
