package jmapd

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"

	"doublet/wire/jmap"
	"doublet/wire/mime"

	"golang.org/x/text/unicode/norm"
)

// The fields of an ENVELOPE, in its order.
const (
	envDate = iota
	envSubject
	envFrom
	envSender
	envReplyTo
	envTo
	envCc
	envBcc
	envInReplyTo
	envMessageID
	envFields
)

// envelope is the text of an ENVELOPE cut into its fields, each as IMAP prints it. What lists show goes from there to JSON
// without anything in between.
type envelope [envFields][]byte

// cutEnvelope cuts. Text that is no ENVELOPE of ours gives empty fields.
func cutEnvelope(text []byte) (e envelope, ok bool) {
	if len(text) < 2 || text[0] != '(' {
		return e, false
	}
	i := 1
	for k := range e {
		if k > 0 {
			if i >= len(text) || text[i] != ' ' {
				return e, false
			}
			i++
		}
		end := skipIMAP(text, i)
		if end <= i {
			return e, false
		}
		e[k], i = text[i:end], end
	}
	return e, i < len(text) && text[i] == ')'
}

// skipIMAP is the offset behind the value at i: NIL, a string or a list of these; -1 where there is none.
func skipIMAP(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '(':
			depth++
			i++
		case ')':
			if depth--; depth < 0 {
				return -1
			}
			i++
		case ' ':
			i++
			continue
		case '"':
			i = skipQuoted(b, i)
		case '{':
			_, i = literal(b, i)
		default:
			for i < len(b) && b[i] != ' ' && b[i] != ')' && b[i] != '(' {
				i++
			}
		}
		if i < 0 || depth == 0 {
			return i
		}
	}
	return -1
}

func skipQuoted(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// literal is the text of a literal at i, and the offset behind it.
func literal(b []byte, i int) ([]byte, int) {
	n := 0
	for i++; i < len(b) && '0' <= b[i] && b[i] <= '9' && n < 1<<30; i++ {
		n = n*10 + int(b[i]-'0')
	}
	if i+3 > len(b) || b[i] != '}' || n > len(b)-i-3 {
		return nil, -1
	}
	i += 3
	return b[i : i+n], i + n
}

// nstring reads the value at i: a string as its octets, which may be a piece of b or lie in scratch; ok is false for NIL.
func nstring(b []byte, i int, scratch []byte) (s []byte, end int, ok bool) {
	if i >= len(b) {
		return nil, -1, false
	}
	switch b[i] {
	case '"':
		end = skipQuoted(b, i)
		if end < 0 {
			return nil, -1, false
		}
		s = b[i+1 : end-1]
		if bytes.IndexByte(s, '\\') < 0 {
			return s, end, true
		}
		out := scratch[:0]
		for k := 0; k < len(s); k++ {
			if s[k] == '\\' && k+1 < len(s) {
				k++
			}
			out = append(out, s[k])
		}
		return out, end, true
	case '{':
		s, end = literal(b, i)
		return s, end, end >= 0
	}
	return nil, skipIMAP(b, i), false
}

// text is a field that is a string; ok is false where the header has none.
func (e *envelope) text(field int) (string, bool) {
	var room [256]byte
	s, _, ok := nstring(e[field], 0, room[:0])
	return string(s), ok
}

// appendWords prints a header text as people read it: encoded words decoded, NFC.
//
// Implements: RFC 8621 §4.1.2.2 asText
func appendWords(dst []byte, s []byte) []byte {
	plain, encoded := true, false
	for i, c := range s {
		plain = plain && c < utf8.RuneSelf
		encoded = encoded || c == '?' && i > 0 && s[i-1] == '='
	}
	if plain && !encoded {
		return jmap.AppendBytes(dst, s)
	}
	text := string(s)
	if encoded {
		text = mime.DecodeWords(text)
	}
	return jmap.AppendString(dst, nfc(text))
}

func nfc(s string) string {
	if norm.NFC.IsNormalString(s) {
		return s
	}
	return norm.NFC.String(s)
}

// appendSubject prints the Subject, null where there is none.
func (e *envelope) appendSubject(dst []byte) []byte {
	var room [256]byte
	s, _, ok := nstring(e[envSubject], 0, room[:0])
	if !ok {
		return append(dst, "null"...)
	}
	return appendWords(dst, s)
}

// appendAddresses prints an address list as EmailAddress objects, null where there is none. Groups are taken apart.
//
// Implements: RFC 8621 §4.1.2.3 asAddresses
func (e *envelope) appendAddresses(dst []byte, field int) []byte {
	b := e[field]
	if len(b) == 0 || b[0] != '(' {
		return append(dst, "null"...)
	}
	var room [256]byte
	start := len(dst)
	dst = append(dst, '[')
	for i := 1; i < len(b) && b[i] == '('; {
		name, k, named := nstring(b, i+1, room[:0])
		at := len(dst)
		if at > start+1 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		if named {
			dst = appendWords(dst, name)
		} else {
			dst = append(dst, "null"...)
		}
		if k >= 0 && k < len(b) {
			k = skipIMAP(b, k+1) // the route
		}
		if k < 0 || k >= len(b) {
			return append(dst[:start], "null"...)
		}
		local, k, _ := nstring(b, k+1, room[:0])
		if k < 0 || k >= len(b) {
			return append(dst[:start], "null"...)
		}
		dst = jmap.AppendBytes(append(dst, `,"email":`...), local)
		host, k, real := nstring(b, k+1, room[:0])
		switch {
		case k < 0 || k >= len(b) || b[k] != ')':
			return append(dst[:start], "null"...)
		case !real: // the begin or end of a group
			dst = dst[:at]
		case len(host) > 0:
			dst = append(dst[:len(dst)-1], '@')
			n := len(dst)
			dst = jmap.AppendBytes(dst, host)
			dst = append(dst[:n], dst[n+1:]...) // its own quote
			dst = append(dst, '}')
		default:
			dst = append(dst, '}')
		}
		i = k + 1
	}
	return append(dst, ']')
}

// appendSent prints the Date with the zone that it has, null where it makes no sense.
//
// Implements: RFC 8621 §4.1.2.6 asDate
func (e *envelope) appendSent(dst []byte) []byte {
	s, ok := e.text(envDate)
	if !ok {
		return append(dst, "null"...)
	}
	return appendMailDate(dst, s)
}

func appendMailDate(dst []byte, s string) []byte {
	t, ok := mime.ParseDate(s)
	if !ok {
		return append(dst, "null"...)
	}
	// A zone of -0000 says that it is not known: UTC.
	if _, offset := t.Zone(); offset == 0 {
		t = t.In(time.UTC)
	}
	return jmap.AppendQuotedDate(dst, t)
}

// appendMessageIDs prints the ids of a field without their brackets, null where it holds something else.
//
// Implements: RFC 8621 §4.1.2.5 asMessageIds
func appendMessageIDs(dst []byte, s string) []byte {
	ids, ok := messageIDs(s)
	if !ok {
		return append(dst, "null"...)
	}
	return jmap.AppendStrings(dst, ids)
}

// maxIDs bounds the message ids of one field.
const maxIDs = 1000

func messageIDs(s string) (ids []string, ok bool) {
	for i := 0; ; {
		i = skipBlanks(s, i)
		if i >= len(s) || len(ids) >= maxIDs {
			return ids, len(ids) > 0
		}
		if s[i] != '<' {
			return nil, false
		}
		n := strings.IndexByte(s[i:], '>')
		if n < 2 {
			return nil, false
		}
		ids = append(ids, strings.Map(func(r rune) rune {
			if r == ' ' || r == '\t' || r == '\r' || r == '\n' {
				return -1
			}
			return r
		}, s[i+1:i+n]))
		i += n + 1
	}
}

// skipBlanks passes blanks and comments.
func skipBlanks(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch c := s[i]; {
		case c == '(':
			depth++
		case depth > 0 && c == '\\':
			i++
		case depth > 0 && c == ')':
			depth--
		case depth == 0 && c != ' ' && c != '\t' && c != '\r' && c != '\n':
			return i
		}
		i++
	}
	return i
}
