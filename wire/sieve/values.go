package sieve

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxRegexp is the maximum length of a regular expression in bytes.
const maxRegexp = 1000

// Regexp compiles a regular expression. fold ignores case. The leftmost longest match counts, as in POSIX. size is the
// number of instructions of its program, at most MaxInstructions: a match takes at most size steps for each byte.
func Regexp(pattern string, fold bool) (re *regexp.Regexp, size int, err error) {
	if len(pattern) > maxRegexp {
		return nil, 0, fmt.Errorf("regular expression is longer than %d bytes", maxRegexp)
	}
	flags := syntax.Perl
	if fold {
		flags |= syntax.FoldCase
		pattern = "(?i)" + pattern
	}
	tree, err := syntax.Parse(pattern, flags)
	if err == nil {
		var prog *syntax.Prog
		if prog, err = syntax.Compile(tree.Simplify()); err == nil {
			size = len(prog.Inst)
		}
		if size > MaxInstructions {
			return nil, size, errors.New("regular expression is too large: use smaller repeat counts")
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("invalid regular expression: %.80s",
			strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	if re, err = regexp.Compile(pattern); err != nil {
		return nil, 0, fmt.Errorf("invalid regular expression: %w", err)
	}
	re.Longest()
	return re, size, nil
}

// DateParts lists the parts of a date that a test may name.
var DateParts = []string{"year", "month", "day", "date", "julian", "hour", "minute", "second", "time", "iso8601",
	"std11", "zone", "weekday"}

// Zone parses a time zone of the form "+0100" and returns its offset.
func Zone(s string) (*time.Location, bool) {
	if len(s) != 5 || s[0] != '+' && s[0] != '-' {
		return nil, false
	}
	n, err := strconv.ParseUint(s[1:], 10, 32)
	if err != nil || n%100 > 59 || n > 2359 {
		return nil, false
	}
	offset := int(n/100*60+n%100) * 60
	if s[0] == '-' {
		offset = -offset
	}
	return time.FixedZone("", offset), true
}

// FieldName reports whether s can be the name of a header field.
func FieldName(s string) bool {
	if s == "" || len(s) > 100 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == ':' {
			return false
		}
	}
	return true
}

// Address reports whether s has the form of one address without a name, user@example.com.
func Address(s string) bool {
	at := strings.LastIndexByte(s, '@')
	if at < 1 || at == len(s)-1 || len(s) > 320 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f || c == '<' || c == '>' || c == ',' {
			return false
		}
	}
	return true
}

// Mailto is a mailto URI.
type Mailto struct {
	To            []string
	Subject, Body string
	Fields        [][2]string // other header fields
}

// maxMailto is the maximum number of recipients of a mailto URI.
const maxMailto = 5

// ParseMailto parses a mailto URI. Only fields that a notification may have are kept.
//
// Implements: RFC 5436 §2.2 notification by mail
// Implements: RFC 6068 §2 mailto URI
func ParseMailto(s string) (*Mailto, error) {
	if len(s) > 2000 || !strings.HasPrefix(strings.ToLower(s), "mailto:") {
		return nil, fmt.Errorf("unknown notification method %.60q: use mailto:user@example.com", s)
	}
	rest, query, _ := strings.Cut(s[len("mailto:"):], "?")
	rest, _, _ = strings.Cut(rest, "#")
	m := &Mailto{}
	if err := m.recipients(rest); err != nil {
		return nil, err
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		if err != nil || !utf8.ValidString(value) {
			return nil, fmt.Errorf("invalid escape in %.60q", s)
		}
		switch name = strings.ToLower(name); name {
		case "":
		case "to", "cc":
			if err := m.recipients(value); err != nil {
				return nil, err
			}
		case "subject":
			m.Subject = value
		case "body":
			m.Body = value
		default:
			if FieldName(name) && strings.HasPrefix(name, "x-") && len(m.Fields) < 10 {
				m.Fields = append(m.Fields, [2]string{name, value})
			}
		}
	}
	if len(m.To) == 0 || len(m.To) > maxMailto {
		return nil, fmt.Errorf("mailto needs 1 to %d recipients, found %d", maxMailto, len(m.To))
	}
	return m, nil
}

func (m *Mailto) recipients(s string) error {
	for a := range strings.SplitSeq(s, ",") {
		if a == "" {
			continue
		}
		a, err := url.PathUnescape(a)
		if err != nil || !Address(a) {
			return fmt.Errorf("invalid address in a mailto: %.60q", a)
		}
		m.To = append(m.To, a)
	}
	return nil
}

// decodeCharacters replaces ${hex: …} and ${unicode: …}.
func decodeCharacters(s string) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			break
		}
		j := strings.IndexAny(s[i+2:], "}$")
		if j < 0 {
			break
		}
		if j += 2; s[i+j] == '$' { // no sequence contains one
			b.WriteString(s[:i+j])
			s = s[i+j:]
			continue
		}
		kind, digits, _ := strings.Cut(s[i+2:i+j], ":")
		out, ok, err := characters(kind, digits)
		if err != nil {
			return s, err
		}
		if !ok {
			b.WriteString(s[:i+2])
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i] + out)
		s = s[i+j+1:]
	}
	b.WriteString(s)
	if out := b.String(); utf8.ValidString(out) && !strings.Contains(out, "\x00") {
		return out, nil
	}
	return s, errors.New("encoded characters do not form UTF-8 without NUL")
}

// characters decodes the digits of one encoded character sequence. ok is false if it is none.
func characters(kind, digits string) (out string, ok bool, err error) {
	isHex := strings.EqualFold(kind, "hex")
	if !isHex && !strings.EqualFold(kind, "unicode") {
		return "", false, nil
	}
	words := strings.Fields(digits)
	if len(words) == 0 {
		return "", false, nil
	}
	var b strings.Builder
	for _, w := range words {
		n, err := strconv.ParseUint(w, 16, 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return "", false, nil //nolint:nilerr // it is text
		case isHex && len(w) > 2:
			return "", false, nil
		case isHex:
			b.WriteByte(byte(n))
		case err != nil || n > utf8.MaxRune || n >= 0xd800 && n < 0xe000:
			return "", true, fmt.Errorf("unknown character %.20q", w)
		default:
			b.WriteRune(rune(n))
		}
	}
	return b.String(), true, nil
}
