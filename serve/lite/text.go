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
			return s[:i] + "…"
		}
		used += size
	}
	return s
}

// fitWords is fit for running text. It cuts at the end of a word if possible.
func fitWords(s string, most, room int) string {
	out := fit(s, most, room)
	head, cut := strings.CutSuffix(out, "…")
	if !cut || len(out) == len(s) {
		return out
	}
	if at := strings.LastIndexByte(head, ' '); at > len(head)/2 {
		return head[:at] + "…"
	}
	return out
}
