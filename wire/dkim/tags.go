package dkim

import (
	"fmt"
	"strings"
)

// tag is one name=value of a tag list. The text between "=" and ";" is at [from, to) in the list.
type tag struct {
	name, value string
	from, to    int
}

type tags []tag

// parseTags parses a tag list.
//
// Implements: RFC 6376 §3.2 Tag=Value lists
func parseTags(list string) (tags, error) {
	var out tags
	for at := 0; at <= len(list); {
		end := strings.IndexByte(list[at:], ';')
		if end < 0 {
			end = len(list)
		} else {
			end += at
		}
		part := list[at:end]
		name, value, found := strings.Cut(part, "=")
		trimmed := strings.Trim(name, blanks)
		switch {
		case !found && trimmed == "" && end == len(list):
			return out, nil // a final ";" is allowed
		case !found || !tagName(trimmed):
			return nil, fmt.Errorf("%w: bad tag list", ErrPermanent)
		case out.has(trimmed):
			return nil, fmt.Errorf("%w: tag %s twice", ErrPermanent, trimmed)
		case len(out) == maxTags:
			return nil, fmt.Errorf("%w: too many tags", ErrPermanent)
		}
		out = append(out, tag{trimmed, strings.Trim(value, blanks), at + len(name) + 1, end})
		at = end + 1
	}
	return out, nil
}

const blanks = " \t\r\n"

func tagName(s string) bool {
	for i := range len(s) {
		c := lower(s[i])
		if !('a' <= c && c <= 'z' || i > 0 && ('0' <= c && c <= '9' || c == '_')) {
			return false
		}
	}
	return s != ""
}

func (t tags) find(name string) *tag {
	for i := range t {
		if t[i].name == name {
			return &t[i]
		}
	}
	return nil
}

func (t tags) has(name string) bool { return t.find(name) != nil }

// get returns a tag's value, "" if absent.
func (t tags) get(name string) string {
	if f := t.find(name); f != nil {
		return f.value
	}
	return ""
}

// squeeze removes white space, because folding may insert it anywhere in the value.
func squeeze(s string) string {
	if !strings.ContainsAny(s, blanks) {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			b = append(b, c)
		}
	}
	return string(b)
}

// contains reports whether a list separated by colons contains a word.
func contains(list, word string) bool {
	for w := range strings.SplitSeq(list, ":") {
		if w == word {
			return true
		}
	}
	return false
}
