package maildir

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Folder parses the name of a Maildir++ folder: ".Sent.2024" is Sent/2024. Each level is modified UTF-7 (RFC 3501
// section 5.1.3), or UTF-8 as some servers write it. The folder "" or "." is INBOX. ok is false for invalid names:
// without the dot, with empty levels, or not decodable.
func Folder(dir string) (path []string, ok bool) {
	if dir == "" || dir == "." {
		return []string{"INBOX"}, true
	}
	if dir[0] != '.' || len(dir) > maxName || strings.ContainsAny(dir, "/\x00") {
		return nil, false
	}
	for _, level := range strings.Split(dir[1:], ".") {
		name, ok := decodeName(level)
		if !ok || name == "" {
			return nil, false
		}
		path = append(path, name)
	}
	if len(path) == 1 && strings.EqualFold(path[0], "INBOX") {
		path[0] = "INBOX"
	}
	return path, true
}

// FolderName is the inverse of Folder. Dots and slashes in a level are not allowed in Maildir++ names, so they are
// written in base64, which Folder decodes. INBOX alone is "".
func FolderName(path []string) string {
	if len(path) == 0 || len(path) == 1 && strings.EqualFold(path[0], "INBOX") {
		return ""
	}
	var b []byte
	for _, name := range path {
		b = append(b, '.')
		b = appendName(b, name)
	}
	return string(b)
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+,"

// appendName appends s in modified UTF-7. It encodes dots and slashes too.
func appendName(dst []byte, s string) []byte {
	for len(s) > 0 {
		if c := s[0]; direct(c) {
			dst = append(dst, c)
			if c == '&' {
				dst = append(dst, '-')
			}
			s = s[1:]
			continue
		}
		n := 0
		for n < len(s) && !direct(s[n]) {
			n++
		}
		dst = append(dst, '&')
		var bits uint32
		have := 0
		for _, u := range utf16.Encode([]rune(s[:n])) {
			bits = bits<<16 | uint32(u)
			for have += 16; have >= 6; {
				have -= 6
				dst = append(dst, alphabet[bits>>have&63])
			}
		}
		if have > 0 {
			dst = append(dst, alphabet[bits<<(6-have)&63])
		}
		dst = append(dst, '-')
		s = s[n:]
	}
	return dst
}

func direct(c byte) bool { return ' ' <= c && c <= '~' && c != '.' && c != '/' }

// decodeName decodes modified UTF-7. 8-bit text must be UTF-8.
func decodeName(s string) (string, bool) {
	if !utf8.ValidString(s) {
		return "", false
	}
	if strings.IndexByte(s, '&') < 0 {
		return s, true
	}
	var out []byte
	for len(s) > 0 {
		before, rest, found := strings.Cut(s, "&")
		out = append(out, before...)
		if !found {
			break
		}
		code, rest, found := strings.Cut(rest, "-")
		if !found {
			return "", false
		}
		s = rest
		if code == "" {
			out = append(out, '&')
			continue
		}
		text, ok := decodeBase64(code)
		if !ok {
			return "", false
		}
		out = append(out, text...)
	}
	return string(out), true
}

// decodeBase64 decodes the text between "&" and "-".
func decodeBase64(code string) (string, bool) {
	var units []uint16
	var bits uint32
	have := 0
	for i := range len(code) {
		v := strings.IndexByte(alphabet, code[i])
		if v < 0 {
			return "", false
		}
		bits = bits<<6 | uint32(v)
		if have += 6; have >= 16 {
			have -= 16
			units = append(units, uint16(bits>>have))
		}
	}
	if have >= 6 || bits&(1<<have-1) != 0 || len(units) == 0 {
		return "", false
	}
	text := string(utf16.Decode(units))
	return text, !strings.ContainsRune(text, utf8.RuneError) && !strings.ContainsAny(text, "\x00")
}
