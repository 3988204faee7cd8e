package mime

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PreviewRunes is the length of a preview (RFC 8970 section 3.1). previewBytes limits the bytes that are decoded for
// it.
const (
	PreviewRunes = 200
	previewBytes = 16 << 10
	previewFirst = 2 << 10
)

// Preview returns the start of the first readable text, for message lists. It has at most 200 characters of valid
// UTF-8, with blanks collapsed; a cut preview ends at a word with "…". Plain text is preferred to HTML. Attachments are
// ignored, and quoted lines ("> ") are skipped if there are others. Without text the preview is "".
func Preview(raw []byte, root *Part) string {
	var plain, rich *Part
	budget := 200 // maximum number of parts visited
	findText(root, &plain, &rich, &budget)
	for _, p := range []*Part{plain, rich} {
		if p == nil {
			continue
		}
		for _, limit := range []int{previewFirst, previewBytes} {
			s, whole := previewOf(p, raw, limit)
			if s != "" && (whole || limit == previewBytes) {
				return s
			}
			if p.BodyEnd-p.BodyStart <= limit {
				if s != "" {
					return s
				}
				break
			}
		}
	}
	return ""
}

// findText finds the first plain and the first HTML leaf with a body.
func findText(p *Part, plain, rich **Part, budget *int) {
	if *budget--; *budget < 0 || *plain != nil && *rich != nil {
		return
	}
	if len(p.Children) > 0 {
		for _, c := range p.Children {
			findText(c, plain, rich, budget)
		}
		return
	}
	if p.Type != "text" || p.Disposition == "attachment" || p.BodyEnd == p.BodyStart {
		return
	}
	switch {
	case p.Subtype == "html":
		if *rich == nil {
			*rich = p
		}
	case *plain == nil && p.Subtype == "plain":
		*plain = p
	}
}

// previewOf makes the preview of a part from at most limit bytes. whole reports that more bytes would not change it.
func previewOf(p *Part, raw []byte, limit int) (s string, whole bool) {
	part := *p
	part.BodyEnd = min(p.BodyEnd, p.BodyStart+limit)
	text, _ := DecodeText(&part, raw, limit)
	whole = part.BodyEnd == p.BodyEnd
	if p.Subtype == "html" {
		s, full := collapse(htmlText(text), false)
		return s, full || whole
	}
	s, full := collapse(text, true)
	if s == "" && whole {
		s, _ = collapse(text, false)
		return s, true
	}
	if s == "" && limit == previewBytes {
		s, _ = collapse(text, false)
	}
	return s, full || whole
}

func blank(r rune) bool {
	return r <= ' ' || r == 0x7f || r >= utf8.RuneSelf && (unicode.IsSpace(r) || unicode.IsControl(r))
}

// collapse returns the first 200 characters of s, with each run of blanks and control characters as one blank. If
// unquoted is set, it skips lines that start with ">". full reports that s was long enough.
func collapse(s string, unquoted bool) (out string, full bool) {
	var b strings.Builder
	b.Grow(min(len(s), PreviewRunes+PreviewRunes/2))
	n, gap, start := 0, false, true
	for i := 0; i < len(s); {
		r, w := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, w = utf8.DecodeRuneInString(s[i:])
		}
		if start && unquoted && r == '>' {
			j := strings.IndexByte(s[i:], '\n')
			if j < 0 {
				break
			}
			i += j + 1
			gap = true
			continue
		}
		start = r == '\n'
		i += w
		switch {
		case invisible(r):
			continue
		case blank(r):
			gap = true
			continue
		}
		if gap && n > 0 {
			if n++; n >= PreviewRunes {
				return atWord(b.String(), s[i-w:]), true
			}
			b.WriteByte(' ')
		}
		gap = false
		b.WriteRune(r)
		if n++; n >= PreviewRunes {
			return atWord(b.String(), s[i:]), true
		}
	}
	return b.String(), false
}

// atWord cuts a preview at a word and adds an ellipsis, if more visible text follows.
func atWord(s, rest string) string {
	if !strings.ContainsFunc(rest, func(r rune) bool {
		return r > ' ' && r != 0x7f && !unicode.IsSpace(r) && !unicode.IsControl(r) && !invisible(r)
	}) {
		return s
	}
	if at := strings.LastIndexByte(s, ' '); at > len(s)/2 {
		return s[:at] + "…"
	}
	_, last := utf8.DecodeLastRuneInString(s) // a script without blanks
	return s[:len(s)-last] + "…"
}

// invisible reports whether r is an invisible character. Advertising mail fills its hidden first lines with these.
func invisible(r rune) bool {
	switch r {
	case 0xad, 0x34f, 0x61c, 0x200b, 0x2060, 0xfeff, 0xfffc:
		return true
	}
	return false
}

// ShownName returns a name from an untrusted source, safe to display beside other text. It removes control characters,
// bidirectional controls and invisible characters. Joiners stay, because scripts need them. The result may be empty.
func ShownName(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), invisible(r):
			return -1
		case r == 0x115f, r == 0x1160, r == 0x3164, r == 0xffa0, 0x2061 <= r && r <= 0x206f, r == 0x180e,
			0xe0000 <= r && r <= 0xe007f:
			return -1
		}
		return r
	}, s))
}

// HTMLText returns the readable text of HTML.
func HTMLText(s string) string { return htmlText(s) }

// htmlText returns the readable text of HTML, which may be truncated anywhere: no tags, comments, styles, scripts and
// titles.
func htmlText(s string) string {
	var b strings.Builder
	b.Grow(min(len(s), 4<<10))
	for s != "" {
		i := strings.IndexByte(s, '<')
		if i < 0 {
			b.WriteString(s)
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		if !tagStart(s) {
			b.WriteByte('<')
			s = s[1:]
			continue
		}
		if strings.HasPrefix(s, "<!--") {
			_, rest, ok := strings.Cut(s[4:], "-->")
			if !ok {
				break
			}
			s = rest
			continue
		}
		name, rest, ok := cutTag(s)
		if !ok {
			break
		}
		s = rest
		switch name {
		case "style", "script", "title", "template":
			s = behindClosing(s, name)
			b.WriteByte(' ')
			continue
		}
		switch strings.TrimPrefix(name, "/") {
		case "a", "b", "i", "u", "em", "strong", "span", "font", "sup", "sub", "code", "small", "big", "wbr":
		default:
			b.WriteByte(' ')
		}
	}
	return html.UnescapeString(b.String())
}

// tagStart distinguishes a tag from a less-than sign.
func tagStart(s string) bool {
	if len(s) < 2 {
		return true
	}
	c := lowerByte(s[1])
	return 'a' <= c && c <= 'z' || c == '/' || c == '!' || c == '?'
}

func tagNameEnd(s string, i int) int {
	for i < len(s) && s[i] != '>' && s[i] != '/' && !isSpace(s[i]) {
		i++
	}
	return i
}

// cutTag parses the tag at the start of s. It returns its name in lower case, without the slash, and the rest of s.
func cutTag(s string) (name, rest string, ok bool) {
	i := 1
	if i < len(s) && s[i] == '/' {
		i++
	}
	start := i
	i = tagNameEnd(s, i)
	name = lower([]byte(s[start:i]))
	var quote byte
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case (c == '"' || c == '\'') && s[i-1] == '=':
			quote = c
		case c == '>':
			if s[1] == '/' {
				name = "/" + name
			}
			return name, s[i+1:], true
		}
	}
	return name, "", false
}

// behindClosing returns the text after the closing tag of an element whose content is not text, "" without a closing
// tag.
func behindClosing(s, name string) string {
	for {
		i := strings.Index(s, "</")
		if i < 0 {
			return ""
		}
		s = s[i+2:]
		if len(s) >= len(name) && strings.EqualFold(s[:len(name)], name) {
			_, rest, _ := strings.Cut(s, ">")
			return rest
		}
	}
}
