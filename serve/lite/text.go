package lite

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// size formats a number of bytes.
func size(n float64) string {
	switch {
	case n < 1e3:
		return strconv.Itoa(int(n)) + " B"
	case n < 1e6:
		return strconv.FormatFloat(n/1e3, 'f', 0, 64) + " KB"
	case n < 1e9:
		return strconv.FormatFloat(n/1e6, 'f', 1, 64) + " MB"
	}
	return strconv.FormatFloat(n/1e9, 'f', 1, 64) + " GB"
}

// clip returns at most most characters of a text. Control characters become spaces.
func clip(s string, most int) string { return fit(s, most, 1<<30) }

// fit is clip with a second bound: room is the most bytes that the text may take after HTML escaping.
func fit(s string, most, room int) string {
	head, cut := prefix(s, most, room)
	if cut {
		return head + "…"
	}
	return head
}

// prefix returns the part of a text that fits into the bounds of fit, and reports whether it had to cut the text.
func prefix(s string, most, room int) (head string, cut bool) {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
	n, used := 0, 0
	for i, r := range s {
		size := utf8.RuneLen(r)
		if strings.ContainsRune("\"'&<>+", r) {
			size = len("&#34;")
		}
		if n++; n > most || used+size > room {
			return s[:i], true
		}
		used += size
	}
	return s, false
}

// fitWords is fit for running text. It cuts at the end of a word if possible.
func fitWords(s string, most, room int) string {
	head, cut := prefix(s, most, room)
	if !cut {
		return head
	}
	if at := strings.LastIndexByte(head, ' '); at > len(head)/2 {
		head = head[:at]
	}
	return head + "…"
}
