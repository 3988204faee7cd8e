package text

import (
	"strings"
	"unicode/utf8"

	"doublet/wire/safehtml"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxToken is the maximum size of an HTML token, in bytes. A longer one ends the text.
const maxToken = 1 << 20

// tagKind is the effect of an element on the surrounding text.
type tagKind uint8

const (
	tagBlock  tagKind = iota // separates lines
	tagInline                // does not separate words
	tagCell                  // separates words
	tagHidden                // its content is not text, unless its end tag is missing
	tagQuote                 // its content is quoted
)

var tags = map[atom.Atom]tagKind{
	atom.A: tagInline, atom.B: tagInline, atom.I: tagInline, atom.U: tagInline, atom.S: tagInline, atom.Em: tagInline,
	atom.Strong: tagInline, atom.Span: tagInline, atom.Font: tagInline, atom.Sup: tagInline, atom.Sub: tagInline,
	atom.Code: tagInline, atom.Small: tagInline, atom.Big: tagInline, atom.Wbr: tagInline, atom.Mark: tagInline,
	atom.Tt: tagInline, atom.Abbr: tagInline, atom.Acronym: tagInline, atom.Cite: tagInline, atom.Q: tagInline,
	atom.Ins: tagInline, atom.Del: tagInline, atom.Strike: tagInline, atom.Kbd: tagInline, atom.Var: tagInline,
	atom.Bdo: tagInline, atom.Bdi: tagInline, atom.Time: tagInline, atom.Label: tagInline, atom.Ruby: tagInline,
	atom.Td: tagCell, atom.Th: tagCell, atom.Img: tagCell, atom.Input: tagCell, atom.Button: tagCell,
	atom.Rt: tagCell, atom.Rp: tagCell, atom.Blockquote: tagQuote,
	// The tokenizer reads the content of these elements as one raw text up to the end tag.
	atom.Script: tagHidden, atom.Style: tagHidden, atom.Title: tagHidden, atom.Iframe: tagHidden,
	atom.Noembed:  tagHidden,
	atom.Noframes: tagHidden, atom.Noscript: tagHidden,
}

// htmlText collects the text of HTML as a browser shows it.
type htmlText struct {
	r   *reader
	own Field
	b   strings.Builder
	// gap is the space or line break to write before the next character, or 0.
	gap byte
	// hidden is the open element whose content is not text, or 0. from is the offset in the source where the content
	// starts.
	hidden atom.Atom
	from   int
	// shown holds hidden elements whose end tag was missing, so that their content is read as text. again counts
	// restarts.
	shown map[atom.Atom]bool
	again int
	// quote is the number of open elements that quote.
	quote int
	// div has an element for each open <div>, true if the <div> starts a quote.
	div []bool
	// room is the number of bytes of text that still fit into this part.
	room int
}

// maxDivs is the maximum depth of <div> elements that are tracked.
const maxDivs = 1000

// maxAgain is the maximum number of restarts after an element without an end. After that the rest is read as text.
const maxAgain = 20

// html adds the text of HTML, which may be incomplete. An unterminated element, comment or tag hides nothing, as in
// wire/safehtml: a search must find the text that a reader sees.
func (r *reader) html(s string, own Field) {
	h := htmlText{r: r, own: own, room: r.l.Part}
	h.b.Grow(min(len(s)/2, 64<<10))
	for s != "" && h.room > 0 {
		s = h.read(s)
	}
	if h.room <= 0 {
		r.d.Beyond++
	}
	h.flush()
}

// read adds the text of the source. It returns the part of the source to read again, or "".
func (h *htmlText) read(s string) string {
	z := html.NewTokenizer(strings.NewReader(s))
	z.SetMaxBuf(maxToken)
	for at := 0; h.room > 0; at += len(z.Raw()) {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() == html.ErrBufferExceeded {
				h.r.d.Beyond++
				return ""
			}
			return h.unended(s, at)
		case html.CommentToken:
			if at+len(z.Raw()) == len(s) && !safehtml.Ended(s[at:]) {
				return h.unended(s, at)
			}
		case html.TextToken:
			if h.hidden == 0 {
				h.text(z.Text())
			}
		case html.StartTagToken:
			h.open(z, false, at)
		case html.SelfClosingTagToken:
			h.open(z, true, at)
		case html.EndTagToken:
			name, _ := z.TagName()
			h.end(atom.Lookup(name))
		}
	}
	return ""
}

// unended returns the source after the start of an unterminated construct: the hidden element, or else the comment or
// tag at offset at.
func (h *htmlText) unended(s string, at int) string {
	const comment = "<!--"
	rest := ""
	switch {
	case h.hidden != 0:
		if h.shown == nil {
			h.shown = map[atom.Atom]bool{}
		}
		h.shown[h.hidden] = true
		h.hidden, rest = 0, s[h.from:]
	case strings.HasPrefix(s[at:], comment):
		rest = s[at+len(comment):]
	case at < len(s):
		h.text([]byte(s[at : at+1]))
		rest = s[at+1:]
	}
	if h.again++; h.again > maxAgain {
		h.text([]byte(rest))
		return ""
	}
	return rest
}

func (h *htmlText) open(z *html.Tokenizer, closed bool, at int) {
	name, attributes := z.TagName()
	a := atom.Lookup(name)
	kind := tags[a]
	switch kind {
	case tagInline:
		return
	case tagCell:
		h.want(' ')
	default:
		h.want('\n')
	}
	switch {
	case kind == tagHidden && h.shown[a]:
		z.NextIsNotRawText()
	case kind == tagHidden: // HTML ignores the self-closing slash here
		h.hidden, h.from = a, at+len(z.Raw())
	case kind == tagQuote && !closed:
		h.turn(1)
	case a == atom.Div && !closed && len(h.div) < maxDivs:
		h.openDiv(z, attributes)
	case a == atom.Img && h.hidden == 0:
		h.alternative(z, attributes)
	}
}

// openDiv records whether a div quotes another message.
func (h *htmlText) openDiv(z *html.Tokenizer, attributes bool) {
	quotes := false
	for attributes && !quotes {
		var k, v []byte
		k, v, attributes = z.TagAttr()
		quotes = string(k) == "class" && strings.Contains(string(v), "gmail_quote")
	}
	h.div = append(h.div, quotes)
	if quotes {
		h.turn(1)
	}
}

// alternative adds the text that an image stands for.
func (h *htmlText) alternative(z *html.Tokenizer, attributes bool) {
	for attributes {
		var k, v []byte
		k, v, attributes = z.TagAttr()
		if string(k) == "alt" {
			h.text(v)
			h.want(' ')
		}
	}
}

func (h *htmlText) end(a atom.Atom) {
	kind := tags[a]
	switch kind {
	case tagInline:
		return
	case tagCell:
		h.want(' ')
	default:
		h.want('\n')
	}
	switch {
	case kind == tagHidden && h.hidden == a:
		h.hidden = 0
	case kind == tagQuote && h.quote > 0:
		h.turn(-1)
	case a == atom.Div && len(h.div) > 0:
		last := len(h.div) - 1
		if h.div[last] && h.quote > 0 {
			h.turn(-1)
		}
		h.div = h.div[:last]
	}
}

// turn enters (by = 1) or leaves (by = -1) a quote.
func (h *htmlText) turn(by int) {
	if h.quote == 0 || h.quote+by == 0 {
		h.flush()
	}
	h.quote += by
}

func (h *htmlText) want(c byte) {
	if h.gap != '\n' {
		h.gap = c
	}
}

// text adds text, with each run of spaces collapsed into one.
func (h *htmlText) text(t []byte) {
	for len(t) > 0 {
		// Copy bytes that need no conversion at once.
		n := 0
		for n < len(t) && t[n] > ' ' && t[n] != 0x7f && t[n] < utf8.RuneSelf {
			n++
		}
		if n > 0 {
			h.close()
			h.b.Write(t[:n])
			h.room -= n
			t = t[n:]
			continue
		}
		r, w := utf8.DecodeRune(t)
		switch {
		case r <= ' ' || r == 0x7f || r == 0xa0:
			h.want(' ')
		case filler(r):
		default:
			h.close()
			h.b.WriteRune(r)
			h.room -= w
		}
		t = t[w:]
	}
}

// close writes the pending gap.
func (h *htmlText) close() {
	if h.gap != 0 && h.b.Len() > 0 {
		h.b.WriteByte(h.gap)
		h.room--
	}
	h.gap = 0
}

// filler reports whether r is an invisible character that newsletters use to fill their hidden preview line.
func filler(r rune) bool { return r == 0x34f || r == 0x2060 || r == 0xfeff || r == 0xfffc }

func (h *htmlText) flush() {
	f := h.own
	if h.quote > 0 && h.own == Body {
		f = Quoted
	}
	h.r.add(f, clip(h.b.String(), h.r.l.Part))
	h.b = strings.Builder{}
	h.gap = 0
}
