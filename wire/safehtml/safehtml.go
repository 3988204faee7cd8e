// Package safehtml converts untrusted HTML to markup that is safe within our own pages: text, structural elements,
// links and pictures, but no scripts, styles, forms, or loaded resources. A cleaner arranges the source: it balances
// its elements, splits it into pieces, and replaces addresses. Then bluemonday removes whatever its policy does not
// list.
package safehtml

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Options defines the treatment of addresses, and the size of the output.
type Options struct {
	// Link returns the target of a link, "" to remove the link. It is called only for http, https, mailto and tel. nil
	// keeps the address.
	Link func(href string) string
	// Picture returns the address of a picture, "" to remove it. It is called only for http, https and cid. nil removes
	// all pictures.
	Picture func(src string) string
	// Piece is the approximate maximum size of a piece in bytes (0: one piece; minimum 1 KB). Pieces is the maximum
	// number of pieces (0: no limit).
	Piece, Pieces int
}

// Limits: the nesting depth of elements, the length of an address, the length of a value that is copied from the source
// (the longest that the policy allows is that of start), and the number of times that parsing restarts after an
// unterminated construct.
const (
	maxDepth   = 60
	maxAddress = 8 << 10
	maxValue   = 6
	maxAgain   = 20
)

// elements maps source elements to output elements. Headings become lower than those of the surrounding page.
var elements = map[atom.Atom]string{
	atom.P: "p", atom.Div: "div", atom.Center: "div", atom.Section: "div", atom.Article: "div", atom.Header: "div",
	atom.Footer: "div", atom.Main: "div", atom.Address: "div",
	atom.H1: "h3", atom.H2: "h4", atom.H3: "h5", atom.H4: "h5", atom.H5: "h6", atom.H6: "h6",
	atom.A: "a", atom.B: "b", atom.Strong: "b", atom.I: "i", atom.Em: "i", atom.Cite: "i", atom.Var: "i", atom.U: "u",
	atom.Ins: "u", atom.S: "s", atom.Strike: "s", atom.Del: "s",
	atom.Sub: "sub", atom.Sup: "sup", atom.Small: "small", atom.Code: "code", atom.Tt: "code", atom.Kbd: "code",
	atom.Samp: "code", atom.Pre: "pre", atom.Listing: "pre",
	atom.Blockquote: "blockquote", atom.Q: "q", atom.Ul: "ul", atom.Menu: "ul", atom.Ol: "ol", atom.Li: "li",
	atom.Dl: "dl", atom.Dt: "dt", atom.Dd: "dd",
	atom.Table: "table", atom.Thead: "thead", atom.Tbody: "tbody", atom.Tfoot: "tfoot", atom.Tr: "tr", atom.Td: "td",
	atom.Th: "th", atom.Caption: "caption",
	atom.Br: "br", atom.Hr: "hr", atom.Img: "img", atom.Bdi: "bdi", atom.Bdo: "bdi",
}

var void = map[string]bool{"br": true, "hr": true, "img": true}

// hidden elements are removed with their content.
var hidden = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Title: true, atom.Template: true, atom.Iframe: true,
	atom.Noscript: true, atom.Noembed: true, atom.Noframes: true,
	atom.Svg: true, atom.Math: true, atom.Select: true, atom.Textarea: true, atom.Xmp: true, atom.Plaintext: true,
	atom.Datalist: true,
}

// cleaner generates the output.
type cleaner struct {
	o      Options
	b      strings.Builder
	pieces []string
	open   []string // names of the open elements, outermost first
	skip   atom.Atom
	depth  int                // nesting depth of elements named skip
	from   int                // start of the content of skip in the source
	again  int                // number of restarts
	shown  map[atom.Atom]bool // hidden elements whose content is shown, because one of them was unterminated
	full   bool
}

func newCleaner(o *Options) *cleaner {
	c := &cleaner{o: *o}
	if c.o.Piece > 0 {
		c.o.Piece = max(c.o.Piece, 1<<10)
	}
	return c
}

// Clean converts src. Each piece of the result is valid on its own: an element that crosses the end of a piece is
// closed and reopened in the next. There is always at least one piece. An unterminated hidden element, comment or tag
// hides nothing. The text after its start is shown, so that a reader sees all text that searches and filters see.
func Clean(src string, o *Options) []string {
	c := newCleaner(o)
	for src != "" && !c.full {
		src = c.read(src)
	}
	c.finish()
	return c.pieces
}

// read converts src. It returns the part of src at which parsing must restart, or "".
func (c *cleaner) read(src string) string {
	z := html.NewTokenizer(strings.NewReader(src))
	for at := 0; !c.full; at += len(z.Raw()) {
		switch z.Next() {
		case html.ErrorToken:
			return c.unended(src, at)
		case html.CommentToken:
			if at+len(z.Raw()) == len(src) && !Ended(src[at:]) {
				return c.unended(src, at)
			}
		case html.TextToken:
			if c.skip == 0 {
				c.text(string(z.Text()))
			}
		case html.StartTagToken:
			c.start(z, false, at)
		case html.SelfClosingTagToken:
			c.start(z, true, at)
		case html.EndTagToken:
			name, _ := z.TagName()
			c.end(atom.Lookup(name))
		}
	}
	return ""
}

// Ended reports whether a comment is terminated, in any of the ways of HTML section 13.2.5.
func Ended(comment string) bool {
	if body, ok := strings.CutPrefix(comment, "<!--"); ok {
		return strings.HasSuffix(body, "-->") || strings.HasSuffix(body, "--!>") || body == ">" || body == "->"
	}
	return strings.HasSuffix(comment, ">")
}

// unended handles an unterminated construct: the hidden element being skipped, or the construct at a position in the
// source. It returns the source after its start. After maxAgain of them it writes the rest as text.
func (c *cleaner) unended(src string, at int) string {
	const comment = "<!--"
	rest := ""
	switch {
	case c.skip != 0:
		if c.shown == nil {
			c.shown = map[atom.Atom]bool{}
		}
		c.shown[c.skip] = true
		c.skip, rest = 0, src[c.from:]
	case strings.HasPrefix(src[at:], comment):
		rest = src[at+len(comment):]
	case at < len(src):
		c.text(src[at : at+1])
		rest = src[at+1:]
	}
	if c.again++; c.again > maxAgain {
		c.text(rest)
		return ""
	}
	return rest
}

// Text converts plain text to pieces like those of Clean, for use in a <pre>. It makes links of http and https
// addresses.
func Text(src string, o *Options) []string {
	c := newCleaner(o)
	for src != "" && !c.full {
		at := linkAt(src)
		if at < 0 {
			c.text(src)
			break
		}
		c.text(src[:at])
		end := linkEnd(src[at:])
		if href := c.link(src[at : at+end]); href != "" && !c.full {
			c.cut(end)
			c.openTag("a", href)
			c.b.WriteString(html.EscapeString(src[at : at+end]))
			c.close("a")
		} else {
			c.text(src[at : at+end])
		}
		src = src[at+end:]
	}
	c.finish()
	return c.pieces
}

// linkAt returns the position of the next http or https address, or -1.
func linkAt(s string) int {
	for from := 0; ; {
		i := strings.Index(s[from:], "://")
		if i < 0 {
			return -1
		}
		i += from
		for _, scheme := range []string{"https", "http"} {
			at := i - len(scheme)
			if at >= 0 && strings.EqualFold(s[at:i], scheme) && (at == 0 || !alnum(s[at-1])) &&
				linkEnd(s[at:]) > len(scheme)+3 {
				return at
			}
		}
		from = i + 3
	}
}

func alnum(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' }

// linkEnd returns the end of an address at the start of s. Punctuation at the end does not belong to it.
func linkEnd(s string) int {
	end := strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune("<>\"`{}|\\^", r) || r == utf8.RuneError
	})
	if end < 0 {
		end = len(s)
	}
	for end > 0 && strings.IndexByte(".,;:!?'*_~", s[end-1]) >= 0 {
		end--
	}
	if end > 0 && s[end-1] == ')' && !strings.Contains(s[:end], "(") {
		end--
	}
	return end
}

// text writes text and splits it if a piece is full.
func (c *cleaner) text(s string) {
	for s != "" && !c.full {
		n := len(s)
		if p := c.o.Piece; p > 0 && n > p/8 {
			for n = p / 8; n > p/8-utf8.UTFMax && !utf8.RuneStart(s[n]); n-- {
			}
			if at := strings.LastIndexAny(s[:n], " \n"); at > 0 && n < len(s) {
				n = at + 1
			}
		}
		c.cut(n)
		if c.full {
			return
		}
		c.b.WriteString(html.EscapeString(strings.ToValidUTF8(strings.ReplaceAll(s[:n], "\x00", ""), "\ufffd")))
		s = s[n:]
	}
}

// cut starts a new piece if n more bytes do not fit.
func (c *cleaner) cut(n int) {
	if c.o.Piece <= 0 || c.b.Len()+n <= c.o.Piece || c.b.Len() == 0 {
		return
	}
	c.finish()
	if c.o.Pieces > 0 && len(c.pieces) >= c.o.Pieces {
		c.full = true
		return
	}
	for _, name := range c.open {
		c.b.WriteString("<" + name + ">")
	}
}

// finish completes a piece.
func (c *cleaner) finish() {
	if c.full {
		return
	}
	for i := len(c.open) - 1; i >= 0; i-- {
		c.b.WriteString("</" + c.open[i] + ">")
	}
	c.pieces = append(c.pieces, policy.Sanitize(c.b.String()))
	c.b.Reset()
}

func (c *cleaner) start(z *html.Tokenizer, closed bool, at int) {
	name, more := z.TagName()
	a := atom.Lookup(name)
	if c.skip != 0 && !c.breaksOut(a) {
		if a == c.skip && !closed {
			c.depth++
		}
		return
	}
	c.skip = 0
	if hidden[a] {
		c.hide(z, a, closed, at)
		return
	}
	out := elements[a]
	if out == "" || len(c.open) >= maxDepth && !void[out] {
		return
	}
	values := attributes(z, more)
	c.cut(64)
	if c.full {
		return
	}
	switch out {
	case "img":
		c.image(values)
	case "a":
		c.close("a") // links cannot be nested
		if href := c.link(values["href"]); href != "" {
			c.openTag("a", href)
		}
	default:
		c.b.WriteString("<" + out)
		c.copy(values, "colspan", "rowspan", "start", "dir")
		c.b.WriteString(">")
		if !void[out] {
			c.open = append(c.open, out)
		}
	}
}

// hide starts to skip the content of an element, unless an element with its name was unterminated.
func (c *cleaner) hide(z *html.Tokenizer, a atom.Atom, closed bool, at int) {
	switch {
	case c.shown[a]:
		z.NextIsNotRawText()
	case !closed:
		c.skip, c.depth, c.from = a, 1, at+len(z.Raw())
	}
}

// breaksOut reports whether a tag ends the skipped svg or math element, as in browsers (HTML section 13.2.6.5).
// Browsers show a message that starts with a drawing and continues in HTML.
func (c *cleaner) breaksOut(a atom.Atom) bool {
	if c.skip != atom.Svg && c.skip != atom.Math {
		return false
	}
	switch a {
	case atom.Blockquote, atom.Center, atom.Div, atom.Dl, atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6,
		atom.Hr, atom.Img, atom.Li, atom.Ol, atom.P, atom.Pre,
		atom.Span, atom.Table, atom.Ul:
		return true
	}
	return false
}

// attributes returns the relevant attributes of a tag. Of two with one name the first counts, as in browsers.
func attributes(z *html.Tokenizer, more bool) map[string]string {
	var out map[string]string
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "href", "src", "alt", "width", "height", "colspan", "rowspan", "start", "dir":
			if out == nil {
				out = map[string]string{}
			}
			if _, twice := out[string(key)]; !twice {
				out[string(key)] = string(value)
			}
		}
	}
	return out
}

func (c *cleaner) openTag(name, href string) {
	c.b.WriteString(`<a href="` + html.EscapeString(href) + `" rel="noopener noreferrer nofollow">`)
	c.open = append(c.open, name)
}

// copy writes attributes of the source, which the policy checks. A value longer than any that the policy allows is left
// out: the policy would remove it only after it had used up the size of a piece.
func (c *cleaner) copy(values map[string]string, names ...string) {
	for _, name := range names {
		if v := strings.TrimSpace(values[name]); v != "" && len(v) <= maxValue {
			c.b.WriteString(" " + name + `="` + html.EscapeString(v) + `"`)
		}
	}
}

func (c *cleaner) image(values map[string]string) {
	alt := strings.ToValidUTF8(values["alt"], "\ufffd")
	if len(alt) > 500 {
		alt = strings.ToValidUTF8(alt[:500], "")
	}
	src := ""
	if raw := address(values["src"], "http", "https", "cid"); raw != "" && c.o.Picture != nil {
		src = c.o.Picture(raw)
	}
	if src == "" {
		if alt != "" {
			c.b.WriteString("[" + html.EscapeString(alt) + "]")
		}
		return
	}
	c.b.WriteString(`<img src="` + html.EscapeString(src) + `" alt="` + html.EscapeString(alt) + `"`)
	c.copy(values, "width", "height")
	c.b.WriteString(` loading="lazy" referrerpolicy="no-referrer">`)
}

func (c *cleaner) link(href string) string {
	href = address(href, "http", "https", "mailto", "tel")
	if href != "" && c.o.Link != nil {
		href = c.o.Link(href)
	}
	return href
}

// address returns an absolute address with one of the schemes, parsed as browsers do; "" for other addresses.
func address(s string, schemes ...string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1 // browsers ignore these anywhere in an address
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	scheme, rest, ok := strings.Cut(s, ":")
	if !ok || len(s) > maxAddress {
		return ""
	}
	for _, x := range schemes {
		if strings.EqualFold(scheme, x) && (x != "http" && x != "https" || hasHost(rest)) {
			return x + ":" + rest
		}
	}
	return ""
}

// hasHost reports whether the text after the scheme of an http or https address starts with two slashes and a host.
// Browsers also accept https:x, https:/x and https:\x, but disagree if this is an address on this server or the host x.
func hasHost(rest string) bool {
	host, ok := strings.CutPrefix(rest, "//")
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	return ok && host != "" && !strings.ContainsAny(host, `\ `) && host[0] != ':' && host[0] != '@'
}

func (c *cleaner) end(a atom.Atom) {
	if c.skip != 0 {
		if a == c.skip {
			if c.depth--; c.depth == 0 {
				c.skip = 0
			}
		}
		return
	}
	if out := elements[a]; out != "" && !void[out] {
		c.close(out)
	} else if a == atom.P || a == atom.Br {
		c.b.WriteString("<br>")
	}
}

// table holds the elements that a table cell lies in.
var table = map[string]bool{"tr": true, "table": true, "tbody": true, "thead": true, "tfoot": true}

// close closes the innermost element with a name, and the elements in it. The content of a table cell cannot close
// elements outside the cell.
func (c *cleaner) close(name string) {
	for i := len(c.open) - 1; i >= 0; i-- {
		if c.open[i] != name {
			if (c.open[i] == "td" || c.open[i] == "th") && !table[name] {
				return
			}
			continue
		}
		for k := len(c.open) - 1; k >= i; k-- {
			c.b.WriteString("</" + c.open[k] + ">")
		}
		c.open = c.open[:i]
		return
	}
}
