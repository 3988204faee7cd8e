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

// envelope is the text of an ENVELOPE split into its fields, each as IMAP prints it. Lists convert it to JSON without
// an intermediate form.
type envelope [envFields][]byte

// cutEnvelope splits the text of an ENVELOPE. ok is false if the text is not an ENVELOPE of this server.
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

// skipIMAP returns the offset after the value at i: NIL, a string or a list of values. It returns -1 if there is none.
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

// literal returns the text of the literal at i and the offset after it, or -1 if it is malformed.
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

// nstring reads the value at i. s is the string, which may be a slice of b or of scratch. ok is false for NIL.
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

// text returns a field that is a string. ok is false if the message does not have the field.
func (e *envelope) text(field int) (string, bool) {
	var room [256]byte
	s, _, ok := nstring(e[field], 0, room[:0])
	return string(s), ok
}

// appendWords appends a header text in readable form: encoded words decoded, and in NFC.
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

// appendSubject appends the Subject, or null if there is none.
func (e *envelope) appendSubject(dst []byte) []byte {
	var room [256]byte
	s, _, ok := nstring(e[envSubject], 0, room[:0])
	if !ok {
		return append(dst, "null"...)
	}
	return appendWords(dst, s)
}

// appendAddresses appends an address list as EmailAddress objects, or null if there is none. Members of groups are
// listed like other addresses.
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
		case !real: // the start or end of a group
			dst = dst[:at]
		case len(host) > 0:
			dst = append(dst[:len(dst)-1], '@')
			n := len(dst)
			dst = jmap.AppendBytes(dst, host)
			dst = append(dst[:n], dst[n+1:]...) // remove the opening quote
			dst = append(dst, '}')
		default:
			dst = append(dst, '}')
		}
		i = k + 1
	}
	return append(dst, ']')
}

// appendSent appends the Date in its own time zone, or null if it cannot be parsed.
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
	// A zone of -0000 means that the local zone is not known. Print it as UTC.
	if _, offset := t.Zone(); offset == 0 {
		t = t.In(time.UTC)
	}
	return jmap.AppendQuotedDate(dst, t)
}

// appendMessageIDs appends the ids of a field without their brackets, or null if the field is malformed.
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

// skipBlanks skips white space and comments.
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
