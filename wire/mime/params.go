package mime

import (
	"bytes"
	"strings"
)

// maxParams is the maximum number of parameters of a field, maxSegments that of continuations (RFC 2231) of a
// parameter.
const (
	maxParams   = 128
	maxSegments = 100
)

// parseParams parses "; name=value" as in RFC 2045 and RFC 2231. It also accepts common errors: unquoted values with
// blanks, missing quotes, empty parameters. Of two parameters with one name, the first counts.
func parseParams(b []byte) []Param {
	if len(b) == 0 {
		return nil
	}
	params := make([]Param, 0, 2)
	extended := false
	for i := 0; i < len(b) && len(params) < maxParams; {
		i = skipCFWS(b, i)
		if i >= len(b) {
			break
		}
		if b[i] == ';' || b[i] == ',' {
			i++
			continue
		}
		end := nameEnd(b, i)
		name := b[i:end]
		i = skipCFWS(b, end)
		if i >= len(b) || b[i] != '=' {
			continue
		}
		i++
		if len(name) == 0 {
			continue // a value without a name: skipped with the next word
		}
		i = skipCFWS(b, i)
		key := lower(name)
		var value string
		value, i = readValue(b, i, key)
		if strings.IndexByte(key, '*') >= 0 {
			extended = true
		} else if hasParam(params, key) {
			continue
		}
		params = append(params, Param{Name: key, Value: value})
	}
	if extended {
		return joinContinuations(params)
	}
	return params
}

func readValue(b []byte, i int, key string) (value string, next int) {
	if i < len(b) && b[i] == '"' {
		return quotedValue(b, i)
	}
	return bareValue(b, i, strings.HasSuffix(key, "name"))
}

// nameEnd returns the end of the parameter name at b[i:].
func nameEnd(b []byte, i int) int {
	for i < len(b) && b[i] != '=' && b[i] != ';' && !isSpace(b[i]) && b[i] != '(' {
		i++
	}
	return i
}

func hasParam(params []Param, name string) bool {
	for i := range params {
		if params[i].Name == name {
			return true
		}
	}
	return false
}

// quotedValue parses the quoted string at i. The end quote may be missing.
func quotedValue(b []byte, i int) (string, int) {
	i++
	start, plain := i, true
	for i < len(b) && b[i] != '"' {
		switch b[i] {
		case '\\':
			plain = false
			i++
		case '\r', '\n':
			plain = false
		}
		i++
	}
	end := min(i, len(b))
	next := min(i+1, len(b))
	if plain {
		return intern(b[start:end]), next
	}
	out := make([]byte, 0, end-start)
	for j := start; j < end; j++ {
		c := b[j]
		if c == '\r' || c == '\n' {
			continue
		}
		if c == '\\' && j+1 < end {
			j++
			c = b[j]
		}
		out = append(out, c)
	}
	return string(out), next
}

// bareValue parses an unquoted value: a token, or with blanks set (for file names) all text up to the semicolon.
func bareValue(b []byte, i int, blanks bool) (string, int) {
	start := i
	if !blanks {
		for i < len(b) && b[i] != ';' && !isSpace(b[i]) {
			i++
		}
		return intern(b[start:i]), i
	}
	if n := bytes.IndexByte(b[i:], ';'); n >= 0 {
		i += n
	} else {
		i = len(b)
	}
	return Unfold(b[start:i]), i
}

// segment is one piece of a continued parameter: name*0, name*1*, or name* alone.
type segment struct {
	base    string
	number  int
	escaped bool
	value   string
}

// joinContinuations applies RFC 2231. An extended parameter replaces a plain one with its name.
func joinContinuations(params []Param) []Param {
	var segments []segment
	out := make([]Param, 0, len(params))
	for _, p := range params {
		if s, ok := splitSegment(p); ok {
			segments = append(segments, s)
		} else {
			out = append(out, p)
		}
	}
	done := map[string]bool{}
	for _, s := range segments {
		if done[s.base] {
			continue
		}
		done[s.base] = true
		value, ok := joinSegments(segments, s.base)
		if !ok {
			continue
		}
		replaced := false
		for i := range out {
			if out[i].Name == s.base {
				out[i].Value, replaced = value, true
			}
		}
		if !replaced {
			out = append(out, Param{Name: s.base, Value: value})
		}
	}
	return out
}

// splitSegment splits a name with asterisks.
func splitSegment(p Param) (segment, bool) {
	i := strings.IndexByte(p.Name, '*')
	if i <= 0 {
		return segment{}, false
	}
	s := segment{base: p.Name[:i], value: p.Value}
	rest := p.Name[i+1:]
	if rest == "" {
		s.escaped = true
		return s, true
	}
	if strings.HasSuffix(rest, "*") {
		s.escaped = true
		rest = rest[:len(rest)-1]
	}
	if rest == "" || len(rest) > 3 {
		return segment{}, false
	}
	for j := range len(rest) {
		if rest[j] < '0' || rest[j] > '9' {
			return segment{}, false
		}
		s.number = s.number*10 + int(rest[j]-'0')
	}
	return s, s.number < maxSegments
}

// joinSegments joins the segments 0, 1, 2 … of one name, up to the first missing one.
func joinSegments(segments []segment, base string) (string, bool) {
	var byNumber [maxSegments]*segment
	for i := range segments {
		if s := &segments[i]; s.base == base && byNumber[s.number] == nil {
			byNumber[s.number] = s
		}
	}
	if byNumber[0] == nil {
		return "", false
	}
	charset := ""
	var out []byte
	for n, s := range byNumber {
		if s == nil {
			break
		}
		value := s.value
		if !s.escaped {
			out = append(out, value...)
			continue
		}
		if n == 0 {
			if a, rest, ok := strings.Cut(value, "'"); ok {
				if _, text, ok := strings.Cut(rest, "'"); ok {
					charset, value = a, text
				}
			}
		}
		out = appendPercent(out, value)
	}
	return toUTF8(out, charset), true
}

// appendPercent decodes %XX. A percent sign without two digits stays.
func appendPercent(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) < 16 && unhex(s[i+2]) < 16 {
			dst = append(dst, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
			continue
		}
		dst = append(dst, s[i])
	}
	return dst
}

// unhex returns the value of a hexadecimal digit, 255 for other characters.
func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}
