package imap

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxQuoted is the maximum length of a quoted string; longer texts become literals.
const maxQuoted = 4096

// AppendAString prints s as an atom if possible, else as AppendString does.
func AppendAString(dst []byte, s string, utf8Quoted bool) []byte {
	if isPlainAtom(s) {
		return append(dst, s...)
	}
	return AppendString(dst, s, utf8Quoted)
}

func isPlainAtom(s string) bool {
	if s == "" || len(s) > maxQuoted || len(s) == 3 && strings.EqualFold(s, "NIL") {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 || !isClass(s[i], atomChar) {
			return false
		}
	}
	return true
}

// quotable reports whether s can be a quoted string, and counts the characters to escape.
func quotable(s string, utf8Quoted bool) (escapes int, ok bool) {
	high := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == 0 || c == '\r' || c == '\n':
			return 0, false
		case c == '"' || c == '\\':
			escapes++
		case c >= 0x80:
			high = true
		}
	}
	return escapes, !high || utf8Quoted && utf8.ValidString(s)
}

// AppendString prints s as a quoted string if possible, else as a literal. Non-ASCII text is quoted only with
// utf8Quoted, which the peer must have enabled. NUL, which is not allowed in strings, becomes 0x80.
func AppendString(dst []byte, s string, utf8Quoted bool) []byte {
	if len(s) > maxQuoted {
		return appendLiteralString(dst, s)
	}
	escapes, ok := quotable(s, utf8Quoted)
	if !ok {
		return appendLiteralString(dst, s)
	}
	dst = append(dst, '"')
	if escapes == 0 {
		dst = append(dst, s...)
	} else {
		for i := 0; i < len(s); i++ {
			if s[i] == '"' || s[i] == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, s[i])
		}
	}
	return append(dst, '"')
}

func appendLiteralString(dst []byte, s string) []byte {
	dst = AppendLiteralHead(dst, int64(len(s)), false)
	start := len(dst)
	dst = append(dst, s...)
	if strings.IndexByte(s, 0) >= 0 {
		for i := start; i < len(dst); i++ {
			if dst[i] == 0 {
				dst[i] = 0x80
			}
		}
	}
	return dst
}

// AppendNString prints s as a string, or NIL if has is false.
func AppendNString(dst []byte, s string, has, utf8Quoted bool) []byte {
	if !has {
		return append(dst, "NIL"...)
	}
	return AppendString(dst, s, utf8Quoted)
}

// AppendLiteralHead prints "{n}" CRLF, or "~{n}" CRLF for binary (RFC 3516). The caller appends the n bytes.
func AppendLiteralHead(dst []byte, n int64, binary bool) []byte {
	if binary {
		dst = append(dst, '~')
	}
	dst = append(dst, '{')
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "}\r\n"...)
}

// AppendLiteral prints data as a literal.
func AppendLiteral(dst, data []byte) []byte {
	return append(AppendLiteralHead(dst, int64(len(data)), false), data...)
}

// AppendFlags prints a flag list, parentheses included.
func AppendFlags(dst []byte, flags []Flag) []byte { return appendWords(dst, flags) }

// appendWords prints "(" words ")".
func appendWords(dst []byte, words []string) []byte {
	dst = append(dst, '(')
	for i, w := range words {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, w...)
	}
	return append(dst, ')')
}

func appendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }
