package imap

import (
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ErrMailboxName reports a text that is not a valid mailbox name.
var ErrMailboxName = errors.New("imap: invalid mailbox name")

// MaxMailboxName is the maximum length of a mailbox name in bytes of UTF-8.
const MaxMailboxName = 1000

// DecodeMailbox decodes a mailbox name from the wire: to UTF-8 in NFC, with INBOX in upper case. Without utf8Names the
// wire form is modified UTF-7 (RFC 3501 section 5.1.3), but raw UTF-8 is also accepted, because many clients send it.
// LIST patterns and references are decoded here too, so an empty text is no error.
func DecodeMailbox(s string, utf8Names bool) (string, error) {
	if len(s) > 2*MaxMailboxName {
		return "", ErrMailboxName
	}
	ascii := isASCII(s)
	if !utf8Names && ascii {
		if strings.IndexByte(s, '&') >= 0 {
			d, err := DecodeUTF7(s)
			if err != nil {
				return "", err
			}
			s, ascii = d, false
		}
	}
	if !ascii {
		if !utf8.ValidString(s) {
			return "", ErrMailboxName
		}
		s = norm.NFC.String(s)
	}
	if len(s) > MaxMailboxName {
		return "", ErrMailboxName
	}
	return canonicalInbox(s), nil
}

// canonicalInbox writes INBOX in upper case if it is the whole name or its first level.
func canonicalInbox(s string) string {
	if len(s) < 5 || !strings.EqualFold(s[:5], "INBOX") || s[:5] == "INBOX" {
		return s
	}
	if len(s) == 5 {
		return "INBOX"
	}
	if s[5] == '/' {
		return "INBOX" + s[5:]
	}
	return s
}

func forbiddenInName(c rune) bool {
	return c < 0x20 || c >= 0x7f && c < 0xa0 || c == '*' || c == '%' || c == 0x2028 || c == 0x2029 ||
		c == utf8.RuneError
}

// ValidMailbox returns an error if name (decoded) is not allowed for a new mailbox with separator '/'. It rejects
// control characters (RFC 5198), wildcards, empty levels, and "." and "..".
func ValidMailbox(name string) error {
	if name == "" || len(name) > MaxMailboxName || !utf8.ValidString(name) {
		return ErrMailboxName
	}
	if strings.ContainsFunc(name, forbiddenInName) {
		return ErrMailboxName
	}
	for level := range strings.SplitSeq(name, "/") {
		if level == "" || level == "." || level == ".." || strings.TrimSpace(level) != level {
			return ErrMailboxName
		}
	}
	return nil
}

// AppendMailbox prints a mailbox name as atom, quoted string or literal. The name is in UTF-8 if utf8Names is set, else
// in modified UTF-7.
func AppendMailbox(dst []byte, name string, utf8Names bool) []byte {
	if isPlainAtom(name) && strings.IndexByte(name, '&') < 0 {
		return append(dst, name...)
	}
	return appendMailboxString(dst, name, utf8Names)
}

// appendMailboxString is AppendMailbox without the atom form.
func appendMailboxString(dst []byte, name string, utf8Names bool) []byte {
	if utf8Names || isASCII(name) && strings.IndexByte(name, '&') < 0 {
		return AppendString(dst, name, utf8Names)
	}
	var buf [256]byte
	return AppendString(dst, string(AppendUTF7(buf[:0], name)), false)
}

const base64Modified = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,"

var base64Value = func() (t [256]int8) {
	for i := range t {
		t[i] = -1
	}
	for i := range len(base64Modified) {
		t[base64Modified[i]] = int8(i)
	}
	return t
}()

// AppendUTF7 prints s in modified UTF-7.
func AppendUTF7(dst []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < 0x7f {
			dst = append(dst, c)
			if c == '&' {
				dst = append(dst, '-')
			}
			i++
			continue
		}
		dst = append(dst, '&')
		var bits uint32
		var n uint
		for i < len(s) && (s[i] < 0x20 || s[i] >= 0x7f) {
			r, size := utf8.DecodeRuneInString(s[i:])
			i += size
			units := [2]uint32{uint32(r), 0}
			count := 1
			if r >= 0x10000 {
				hi, lo := utf16.EncodeRune(r)
				units, count = [2]uint32{uint32(hi), uint32(lo)}, 2
			}
			for _, u := range units[:count] {
				bits, n = bits<<16|u, n+16
				for n >= 6 {
					n -= 6
					dst = append(dst, base64Modified[bits>>n&63])
				}
				bits &= 1<<n - 1
			}
		}
		if n > 0 {
			dst = append(dst, base64Modified[bits<<(6-n)&63])
		}
		dst = append(dst, '-')
	}
	return dst
}

// DecodeUTF7 decodes modified UTF-7. It accepts only the canonical form: no encoded printable ASCII, no adjacent or
// unterminated runs, no lone surrogates.
func DecodeUTF7(s string) (string, error) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x7f {
			return "", ErrMailboxName
		}
		if c != '&' {
			out = append(out, c)
			continue
		}
		end := strings.IndexByte(s[i:], '-')
		if end < 0 {
			return "", ErrMailboxName
		}
		run := s[i+1 : i+end]
		i += end
		if run == "" {
			out = append(out, '&')
			continue
		}
		var ok bool
		if out, ok = appendUTF7Run(out, run); !ok {
			return "", ErrMailboxName
		}
		if i+2 < len(s) && s[i+1] == '&' && s[i+2] != '-' {
			return "", ErrMailboxName
		}
	}
	return string(out), nil
}

// appendUTF7Run decodes one base64 run of UTF-16.
func appendUTF7Run(dst []byte, run string) ([]byte, bool) {
	var bits uint32
	var n uint
	var high rune
	for i := 0; i < len(run); i++ {
		v := base64Value[run[i]]
		if v < 0 {
			return dst, false
		}
		bits, n = bits<<6|uint32(v), n+6
		if n < 16 {
			continue
		}
		n -= 16
		u := rune(bits >> n & 0xffff)
		bits &= 1<<n - 1
		switch {
		case high != 0:
			r := utf16.DecodeRune(high, u)
			if r == utf8.RuneError {
				return dst, false
			}
			dst, high = utf8.AppendRune(dst, r), 0
		case utf16.IsSurrogate(u):
			if u >= 0xdc00 {
				return dst, false
			}
			high = u
		case u >= 0x20 && u < 0x7f:
			return dst, false
		default:
			dst = utf8.AppendRune(dst, u)
		}
	}
	return dst, high == 0 && n < 6 && bits == 0
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
