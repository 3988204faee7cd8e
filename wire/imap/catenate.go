package imap

import "bytes"

// CatPart is a part of a CATENATE message (RFC 4469): a URL or, if Literal is set, Size bytes to read with
// Reader.Message.
type CatPart struct {
	URL     string
	Literal bool
	Size    int64
	// Binary is set for a literal8, UTF8 for a part as UTF8 (…) (RFC 6855), NonSync if the client does not wait.
	Binary, UTF8, NonSync bool
}

// messages parses the messages of an APPEND or REPLACE into a and its successors. It stops at the end of the text,
// which is the end of the command or, if p.message is set, the announcement of a literal.
func (p *parser) messages(a *Append, many bool) {
	for p.message1(a) {
		if p.end() && !p.message {
			return
		}
		p.space()
		if p.end() && !p.message { // a space at the end of the line
			return
		}
		if !many {
			p.fail("Unexpected text behind the message")
			return
		}
		a.Next = &Append{Mailbox: a.Mailbox}
		a = a.Next
	}
}

// message1 parses the arguments before the literal of a message, or a whole message of URLs, for which it returns
// closed.
//
// Implements: RFC 4469 §5 CATENATE grammar
func (p *parser) message1(a *Append) (closed bool) {
	if p.peek() == '(' {
		a.Flags = p.flagList()
		p.space()
	}
	if p.peek() == '"' {
		a.Date = p.dateTime()
		p.space()
	}
	if p.tryText("CATENATE (") {
		a.Catenate = true
		return p.catParts(a)
	}
	if p.tryText("UTF8 (") {
		a.UTF8 = true
	}
	if p.err == nil && !(p.end() && p.message) {
		p.fail("Expected a message literal")
	}
	return false
}

// catParts parses parts up to the closing parenthesis or to a literal.
func (p *parser) catParts(a *Append) (closed bool) {
	for p.err == nil {
		switch {
		case p.tryWord("URL"):
			p.space()
			a.Parts = append(a.Parts, CatPart{URL: p.astring()})
		case p.tryText("TEXT "):
			return p.catLiteral(a, false)
		case p.tryText("UTF8 ("):
			return p.catLiteral(a, true)
		default:
			p.fail("Expected URL, TEXT or UTF8")
		}
		if len(a.Parts) > p.limits.Items {
			p.fail("Too many parts")
		}
		if p.try(')') {
			return p.err == nil
		}
		p.space()
	}
	return false
}

func (p *parser) catLiteral(a *Append, utf8 bool) (closed bool) {
	a.Parts = append(a.Parts, CatPart{Literal: true, UTF8: utf8})
	if !(p.end() && p.message) {
		p.fail("Expected a literal")
	}
	return false
}

// behindLiteral parses the text after a literal of a. It returns the rest of that message as a new Append, linked to
// the messages after it.
func (p *parser) behindLiteral(a *Append, utf8, many bool) *Append {
	rest := &Append{Mailbox: a.Mailbox, Catenate: a.Catenate}
	if utf8 {
		p.expect(')')
	}
	if rest.Catenate && !p.try(')') {
		p.space()
		if p.err == nil && !p.catParts(rest) {
			return rest
		}
	}
	if p.err != nil || p.end() && !p.message {
		return rest
	}
	if !p.try(' ') || !many {
		p.fail("Unexpected text behind the message")
		return rest
	}
	if !p.end() || p.message {
		rest.Next = &Append{Mailbox: a.Mailbox}
		p.messages(rest.Next, true)
	}
	return rest
}

// announced records the literal at the end of a text in its message or part.
func (a *Append) announced(lit *literal) {
	for a.Next != nil {
		a = a.Next
	}
	if n := len(a.Parts); a.Catenate && n > 0 {
		part := &a.Parts[n-1]
		part.Size, part.Binary, part.NonSync = lit.size, lit.binary, lit.nonSync
		return
	}
	a.Size, a.Binary, a.NonSync = lit.size, lit.binary, lit.nonSync
}

// beforeURL reports whether the text of an APPEND, which precedes a literal, ends inside a URL of CATENATE. Then the
// literal is the URL, not a message.
func beforeURL(text []byte) bool {
	n := len(text)
	return n >= 5 && bytes.EqualFold(text[n-4:], []byte("URL ")) && (text[n-5] == ' ' || text[n-5] == '(')
}

func appendCatParts(dst []byte, a *Append, u bool) []byte {
	dst = append(dst, "CATENATE "...)
	for i := range a.Parts {
		part := &a.Parts[i]
		dst = append(dst, " ("[b2i(i == 0)])
		switch {
		case !part.Literal:
			dst = AppendAString(append(dst, "URL "...), part.URL, u)
			continue
		case part.UTF8:
			dst = append(dst, "UTF8 ("...)
		default:
			dst = append(dst, "TEXT "...)
		}
		return appendAnnouncement(dst, part.Size, part.Binary, part.NonSync)
	}
	return append(dst, ')')
}

func appendMessage(dst []byte, a *Append, u bool) []byte {
	if len(a.Flags) > 0 {
		dst = append(AppendFlags(dst, a.Flags), ' ')
	}
	if !a.Date.IsZero() {
		dst = append(AppendDateTime(dst, a.Date), ' ')
	}
	if a.Catenate {
		dst = appendCatParts(dst, a, u)
		if a.Next != nil {
			return appendMessage(append(dst, ' '), a.Next, u)
		}
		return dst
	}
	if a.UTF8 {
		dst = append(dst, "UTF8 ("...)
	}
	return appendAnnouncement(dst, a.Size, a.Binary, a.NonSync)
}

func appendAnnouncement(dst []byte, size int64, binary, nonSync bool) []byte {
	if binary {
		dst = append(dst, '~')
	}
	dst = appendUint(append(dst, '{'), uint64(max(0, size)))
	if nonSync {
		dst = append(dst, '+')
	}
	return append(dst, '}')
}
