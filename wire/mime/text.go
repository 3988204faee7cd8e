package mime

import "unicode/utf8"

// Body returns the part's body as in the message, not decoded.
func (p *Part) Body(raw []byte) []byte { return raw[p.BodyStart:p.BodyEnd] }

// Header returns the part's header block with its empty line.
func (p *Part) Header(raw []byte) []byte { return raw[p.HeaderStart:p.BodyStart] }

// DecodeText returns the text of a leaf as valid UTF-8 of at most limit bytes, with transfer encoding and charset
// decoded. truncated reports whether there was more. With an unknown transfer encoding, the text is raw.
func DecodeText(p *Part, raw []byte, limit int) (text string, truncated bool) {
	return DecodeBody(p.Body(raw), EncodingOf(p.Encoding), p.Param("charset"), limit)
}

// DecodeBody is DecodeText for a body found with an Index.
func DecodeBody(body []byte, e Encoding, charset string, limit int) (text string, truncated bool) {
	if limit < 0 {
		limit = 0
	}
	var b []byte
	switch e {
	case EncodingBase64, EncodingQuotedPrintable:
		// One byte more than requested shows if there is more.
		b, _ = AppendDecoded(make([]byte, 0, min(len(body), limit+4)), body, e, limit+1)
	default:
		b = body[:min(len(body), limit+1)]
	}
	if len(b) > limit {
		truncated = true
		b = b[:limit]
		if isUTF8Name(charset) {
			b = wholeRunes(b)
		}
	}
	text = toUTF8(b, charset)
	if len(text) > limit {
		truncated = true
		text = cut(text, limit)
	}
	return text, truncated
}

// wholeRunes removes an incomplete rune from the end of b.
func wholeRunes(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// cut returns the longest prefix of s of at most n bytes that ends with a whole rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
