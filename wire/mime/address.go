package mime

import (
	"errors"
	"strings"
)

// maxAddresses is the maximum number of addresses in a list. maxRoute is the maximum length of an obsolete source
// route, maxHost that of a domain joined from pieces. maxWords is the maximum number of words before an address.
const (
	maxAddresses = 10_000
	maxRoute     = 250
	maxHost      = 300
	maxWords     = 1000
)

// ErrAddress means that the argument of ParseMailbox is not exactly one valid mailbox.
var ErrAddress = errors.New("mime: not a mail address")

// ParseAddressList parses an address list from a header field, folded or not (RFC 5322 section 3.4 with obsolete forms,
// RFC 6532). It never fails: from malformed entries it keeps the text that a mail program would show. A bare word
// without domain becomes an Address with an empty Host and without Group. If an address without angle brackets has a
// comment, the comment becomes its Name.
func ParseAddressList(value []byte) []Address { return appendAddresses(nil, value) }

// ParseAuthors parses a list like ParseAddressList, but keeps a second address of an entry as a separate entry: from
// "a@example.com <b@example.com>", mail programs show one or the other. Use it for checks that must cover every address
// that a reader may see.
func ParseAuthors(value []byte) []Address {
	p := addressParser{s: Unfold(value), all: true}
	p.list()
	return p.out
}

// ParseMailbox parses exactly one mailbox, with or without a name: "a@example.com", "Ann <a@example.com>". It returns
// ErrAddress if any part had to be guessed.
func ParseMailbox(s string) (Address, error) {
	p := addressParser{s: s}
	p.list()
	if p.broken || len(p.out) != 1 || len(s) > 1000 {
		return Address{}, ErrAddress
	}
	a := p.out[0]
	if a.Group || a.Mailbox == "" || !validHost(a.Host) {
		return Address{}, ErrAddress
	}
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return Address{}, ErrAddress
		}
	}
	return a, nil
}

// validHost reports whether h is a domain name, possibly in UTF-8, or a domain literal.
func validHost(h string) bool {
	if len(h) == 0 || len(h) > 255 {
		return false
	}
	if h[0] == '[' {
		return len(h) > 2 && h[len(h)-1] == ']' && !strings.ContainsAny(h[1:len(h)-1], "[]\\ \t")
	}
	label := 0
	for i := range len(h) {
		c := h[i]
		switch {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
			continue
		case c == '-', c == '_', c >= 0x80, '0' <= c && c <= '9', 'a' <= lowerByte(c) && lowerByte(c) <= 'z':
			label++
		default:
			return false
		}
		if label > 63 && c < 0x80 {
			return false
		}
	}
	return label > 0
}

func appendAddresses(to []Address, value []byte) []Address {
	p := addressParser{s: Unfold(value), out: to}
	p.list()
	return p.out
}

// addressParser parses a list in one pass. It collects the words of the current entry until their role is clear:
// display name, local part or group name.
type addressParser struct {
	s      string
	i      int
	out    []Address
	broken bool // some part was guessed
	all    bool // keep a second address of an entry

	words []word
	// comment is the last comment of the entry: the name in "a@b (Ann)".
	comment string
	inGroup bool
	inAngle bool
	// done is set after the entry's address; only comments may follow before the comma.
	done bool
	// openQuote is set after a quoted string without end, to avoid repeated searches, which would take quadratic time.
	openQuote bool
}

// word is an atom, a dot or a quoted string. spaced is set if blanks or comments precede it.
type word struct {
	text   string
	spaced bool
	quoted bool
}

func (p *addressParser) list() {
	if n := strings.Count(p.s, ","); p.out == nil && p.s != "" {
		p.out = make([]Address, 0, min(n+1, 64))
	}
	var buf [8]word
	p.words = buf[:0]
	for p.i < len(p.s) && len(p.out) < maxAddresses {
		spaced := p.space()
		if p.i >= len(p.s) {
			break
		}
		p.token(spaced)
	}
	p.finish()
	p.endGroup(false)
	if len(p.out) == 0 {
		p.out = nil
	}
}

// token parses one word, special character or address in angle brackets. spaced is set after a blank or comment.
func (p *addressParser) token(spaced bool) {
	switch p.s[p.i] {
	case ',':
		p.i++
		p.finish()
	case ';':
		p.i++
		p.finish()
		p.endGroup(true)
	case ':':
		p.i++
		p.startGroup()
	case '<':
		p.angle()
	case '@':
		p.bare()
	case '"':
		p.push(word{p.quoted(), spaced, true})
	case '.':
		p.i++
		p.push(word{".", spaced, false})
	case '>', ')':
		p.i++
		p.broken = true
	default:
		p.push(word{p.atom(), spaced, false})
	}
}

// push adds a word to the entry. It drops words after a complete address, and those beyond maxWords.
func (p *addressParser) push(w word) {
	if p.done && !p.inAngle || len(p.words) >= maxWords {
		p.broken = true
		return
	}
	p.words = append(p.words, w)
}

// space skips blanks and comments and records the last comment.
func (p *addressParser) space() (any bool) {
	for p.i < len(p.s) {
		switch c := p.s[p.i]; {
		case isSpace(c):
			p.i++
		case c == '(':
			end := skipComment(p.s, p.i)
			text := p.s[p.i+1 : end]
			if strings.HasSuffix(text, ")") {
				text = text[:len(text)-1]
			} else {
				p.broken = true
			}
			p.comment = unescape(strings.TrimSpace(text))
			p.i = end
		default:
			return any
		}
		any = true
	}
	return any
}

// atom parses text up to the next special character. Brackets and backslashes outside a domain count as letters.
func (p *addressParser) atom() string {
	start := p.i
	for p.i < len(p.s) {
		switch c := p.s[p.i]; c {
		case ' ', '\t', '\r', '\n', ',', ';', ':', '<', '>', '@', '"', '.', '(', ')':
			return p.s[start:p.i]
		case '[', ']', '\\':
			p.broken = true
		}
		p.i++
	}
	return p.s[start:]
}

// quoted parses the quoted string at i. Without an end quote, the quote counts as a letter, so that it does not consume
// the rest of the list.
func (p *addressParser) quoted() string {
	for j := p.i + 1; j < len(p.s) && !p.openQuote; j++ {
		switch p.s[j] {
		case '\\':
			j++
		case '"':
			text := p.s[p.i+1 : j]
			p.i = j + 1
			return unescape(text)
		}
	}
	p.broken, p.openQuote = true, true
	rest := p.s[p.i+1:]
	if n := strings.IndexAny(rest, "<,;"); n >= 0 {
		rest = rest[:n]
	}
	p.i += 1 + len(rest)
	return unescape(strings.TrimSpace(rest))
}

// unescape replaces quoted pairs.
func unescape(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out = append(out, s[i])
	}
	return string(out)
}

// phrase joins words as a display name.
func phrase(words []word) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0].text
	}
	n := 0
	for _, w := range words {
		n += len(w.text) + 1
	}
	var b strings.Builder
	b.Grow(n)
	for i, w := range words {
		if i > 0 && (w.spaced || w.quoted) {
			b.WriteByte(' ')
		}
		b.WriteString(w.text)
	}
	return b.String()
}

// local joins words as a local part, without blanks.
func local(words []word) string {
	if len(words) == 1 {
		return words[0].text
	}
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w.text)
	}
	return b.String()
}

// bare parses the address at an @ without angle brackets. The local part is the words since the last blank without an
// adjacent dot. The words before it are a name.
func (p *addressParser) bare() {
	p.i++
	first := len(p.words)
	for first > 0 {
		first--
		w := p.words[first]
		if w.spaced && w.text != "." && (first == 0 || p.words[first-1].text != ".") {
			break
		}
	}
	if first > 0 || len(p.words) == 0 || p.done {
		p.broken = true
	}
	mailbox := local(p.words[first:])
	name := phrase(p.words[:first])
	p.comment = ""
	host := p.domain(false)
	if p.done && !p.all {
		p.words = p.words[:0]
		return
	}
	p.add(Address{Name: name, Mailbox: mailbox, Host: host})
}

// domain parses a domain or domain literal. It drops blanks and comments in it.
func (p *addressParser) domain(angle bool) string {
	host := ""
	for p.i < len(p.s) {
		start := p.i
		if spaced := p.space(); spaced && p.hostEnds(host) {
			p.i = start
			break
		}
		if p.i >= len(p.s) {
			break
		}
		start = p.i
		switch c := p.s[p.i]; c {
		case '[':
			p.literal()
		case '.':
			p.i++
		case ',', ';', ':', '<', '>', '@', '"', ')', '(':
			if angle && c == '@' {
				p.broken = true
			}
			return host
		default:
			p.label()
		}
		if host == "" {
			host = p.s[start:p.i]
		} else if len(host) < maxHost {
			host += p.s[start:p.i]
		}
	}
	return host
}

// hostEnds reports whether a blank ends the host: it does not if it is beside a dot.
func (p *addressParser) hostEnds(host string) bool {
	return host != "" && !strings.HasSuffix(host, ".") && !strings.HasPrefix(p.s[p.i:], ".")
}

// label skips up to a blank or special character.
func (p *addressParser) label() {
	for p.i < len(p.s) && !isSpace(p.s[p.i]) && !strings.Contains(",;:<>@\"()[", p.s[p.i:p.i+1]) {
		p.i++
	}
}

// literal skips a domain literal.
func (p *addressParser) literal() {
	n := strings.IndexByte(p.s[p.i:], ']')
	if n < 0 {
		p.broken = true
		p.i = len(p.s)
		return
	}
	p.i += n + 1
}

// angle parses "<local@domain>" with an optional source route.
func (p *addressParser) angle() {
	name := phrase(p.words)
	p.inAngle = true
	defer func() { p.inAngle = false }()
	p.i++
	p.space()
	route := p.route()
	p.words = p.words[:0]
	var mailbox, host string
	for closed := false; !closed; {
		p.space()
		if p.i >= len(p.s) {
			p.broken = true
			break
		}
		switch c := p.s[p.i]; c {
		case '>':
			p.i++
			closed = true
		case '@':
			mailbox, host = p.angleHost()
		case '"':
			p.push(word{text: p.quoted(), quoted: true})
		case '.':
			p.i++
			p.push(word{text: "."})
		case ',', '<', ';', ':', ')':
			p.broken = true
			if c == ',' || c == '<' || c == ';' {
				closed = true // the closing bracket is missing
			} else {
				p.i++
			}
		default:
			if host != "" {
				p.broken = true
			}
			p.push(word{text: p.atom()})
		}
	}
	p.addAngle(Address{Name: name, Mailbox: mailbox, Host: host, Route: route})
}

// angleHost parses "@domain" after the words of a local part.
func (p *addressParser) angleHost() (mailbox, host string) {
	p.i++
	if len(p.words) == 0 {
		p.broken = true
	}
	mailbox = local(p.words)
	host = p.domain(true)
	if p.i < len(p.s) && p.s[p.i] == '@' { // "a@b@c": the last @ separates
		p.words = append(p.words[:0], word{text: mailbox + "@" + host})
		if len(mailbox) > maxRoute {
			p.words = p.words[:0]
		}
	}
	return mailbox, host
}

// addAngle adds the address that was in angle brackets, unless it is another one for the same element of the list.
func (p *addressParser) addAngle(a Address) {
	if a.Host == "" {
		p.broken = true
		a.Mailbox = local(p.words)
	}
	if p.done {
		p.broken = true
		if !p.all {
			p.words = p.words[:0]
			return
		}
	}
	if a.Name == "" && a.Mailbox == "" && a.Host == "" {
		p.words, p.done = p.words[:0], true // "<>" alone is no address
		return
	}
	p.add(a)
	p.comment = ""
}

// route parses the source route at the start of an address in angle brackets. It drops blanks in it.
//
// Implements: RFC 5322 §4.4 obs-route
func (p *addressParser) route() string {
	if p.i >= len(p.s) || p.s[p.i] != '@' && p.s[p.i] != ',' {
		return ""
	}
	end := strings.IndexAny(p.s[p.i:min(p.i+maxRoute, len(p.s))], ":>")
	if end < 0 || p.s[p.i+end] != ':' {
		return ""
	}
	text := p.s[p.i : p.i+end]
	p.i += end + 1
	return strings.Trim(strings.Join(strings.Fields(text), ""), ",")
}

func (p *addressParser) add(a Address) {
	p.out = append(p.out, a)
	p.words = p.words[:0]
	p.done = true
}

// finish ends an entry at a comma, a semicolon or the end.
func (p *addressParser) finish() {
	switch {
	case p.done:
		if n := len(p.out); n > 0 && p.out[n-1].Name == "" && p.comment != "" && !p.out[n-1].Group {
			p.out[n-1].Name = p.comment
		}
	case len(p.words) > 0:
		p.broken = true
		p.out = append(p.out, Address{Name: p.comment, Mailbox: phrase(p.words)})
	}
	p.words, p.done, p.comment = p.words[:0], false, ""
}

func (p *addressParser) startGroup() {
	if p.inGroup || p.done || len(p.words) == 0 {
		p.broken = true
		p.finish()
		return
	}
	p.out = append(p.out, Address{Mailbox: phrase(p.words), Group: true})
	p.inGroup = true
	p.words, p.comment = p.words[:0], ""
}

func (p *addressParser) endGroup(closed bool) {
	if !p.inGroup {
		if closed { // Outlook separates with semicolons
			p.broken = true
		}
		return
	}
	p.broken = p.broken || !closed
	p.out = append(p.out, Address{Group: true})
	p.inGroup = false
}
