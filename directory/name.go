package directory

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the maximum length of names of people, groups and databases, of labels and of roles, in bytes.
const maxName = 256

// NormalName returns the form in which names are compared: lower case, NFC, one space between words. Errors are
// ErrInvalid.
func NormalName(s string) (string, error) {
	if len(s) > maxName || !utf8.ValidString(s) {
		return "", fmt.Errorf("%w name %.80q: it must be UTF-8 of at most %d bytes", ErrInvalid, s, maxName)
	}
	if !tidy(s) {
		s = strings.Join(strings.Fields(s), " ")
	}
	if s == "" {
		return "", fmt.Errorf("%w name: it is empty", ErrInvalid)
	}
	for _, r := range s {
		if r == '@' || !unicode.IsGraphic(r) && r != 0x200c && r != 0x200d {
			return "", fmt.Errorf("%w name %.80q: %q may not be in a name", ErrInvalid, s, r)
		}
	}
	return lower(s), nil
}

// tidy reports whether s is ASCII whose spaces need no change.
func tidy(s string) bool {
	space := true
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ':
			if space {
				return false
			}
			space = true
		case c < ' ' || c >= utf8.RuneSelf:
			return false
		default:
			space = false
		}
	}
	return !space
}

// cleanName returns a name as it is stored: spelled as given, with single spaces between words.
func cleanName(s string) (string, error) {
	if _, err := NormalName(s); err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(s), " "), nil
}
