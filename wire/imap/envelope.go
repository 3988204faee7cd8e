package imap

import (
	"fmt"

	"doublet/wire/mime"
)

// textLimits limits the parsing of stored texts and of texts from servers.
var textLimits = Limits{Ranges: 1 << 20, Depth: 256, Items: 1 << 20}

// AppendEnvelope prints ENVELOPE (RFC 9051 section 7.5.2). Text with non-ASCII characters is sent as literals, which
// all clients accept. If Sender or Reply-To are absent, From is used.
func AppendEnvelope(dst []byte, e *mime.Envelope) []byte {
	if e == nil {
		e = &mime.Envelope{}
	}
	sender, replyTo := e.Sender, e.ReplyTo
	if len(sender) == 0 {
		sender = e.From
	}
	if len(replyTo) == 0 {
		replyTo = e.From
	}
	dst = append(dst, '(')
	dst = AppendNString(dst, e.Date, e.Has&mime.HasDate != 0, false)
	dst = append(dst, ' ')
	dst = AppendNString(dst, e.Subject, e.Has&mime.HasSubject != 0, false)
	dst = appendAddresses(append(dst, ' '), e.From)
	dst = appendAddresses(append(dst, ' '), sender)
	dst = appendAddresses(append(dst, ' '), replyTo)
	dst = appendAddresses(append(dst, ' '), e.To)
	dst = appendAddresses(append(dst, ' '), e.Cc)
	dst = appendAddresses(append(dst, ' '), e.Bcc)
	dst = append(dst, ' ')
	dst = AppendNString(dst, e.InReplyTo, e.Has&mime.HasInReplyTo != 0, false)
	dst = append(dst, ' ')
	dst = AppendNString(dst, e.MessageID, e.Has&mime.HasMessageID != 0, false)
	return append(dst, ')')
}

// appendAddresses prints a list of addresses, or NIL if it is empty. A NIL host marks a group, so an address without a
// host has the host "".
//
// Implements: RFC 3501 §7.4.2 source routes (at-domain-list) in ENVELOPE
func appendAddresses(dst []byte, list []mime.Address) []byte {
	if len(list) == 0 {
		return append(dst, "NIL"...)
	}
	dst = append(dst, '(')
	for i := range list {
		a := &list[i]
		dst = append(dst, '(')
		dst = AppendNString(dst, a.Name, a.Name != "", false)
		dst = AppendNString(append(dst, ' '), a.Route, a.Route != "", false)
		dst = append(dst, ' ')
		dst = AppendNString(dst, a.Mailbox, a.Mailbox != "" || !a.Group, false)
		dst = append(dst, ' ')
		dst = AppendNString(dst, a.Host, !a.Group, false)
		dst = append(dst, ')')
	}
	return append(dst, ')')
}

// ParseEnvelope reads the text of an ENVELOPE. References is not part of it and stays empty.
func ParseEnvelope(text []byte) (*mime.Envelope, error) { return parseEnvelopeText(string(text)) }

func parseEnvelopeText(s string) (*mime.Envelope, error) {
	p := parser{s: s, limits: &textLimits, response: true}
	e := p.envelope()
	if err := p.finish(); err != nil {
		return nil, fmt.Errorf("imap: envelope: %w", err)
	}
	return e, nil
}

// finish returns an error unless the text was read to its end.
func (p *parser) finish() error {
	if p.err == nil && !p.end() {
		p.fail("Unexpected text at the end")
	}
	if p.err != nil {
		return p.err
	}
	return nil
}

func (p *parser) envelope() *mime.Envelope {
	e := &mime.Envelope{}
	field := func(f mime.Field) string {
		s, ok := p.nstring()
		if ok {
			e.Has |= f
		}
		return s
	}
	p.expect('(')
	e.Date = field(mime.HasDate)
	p.space()
	e.Subject = field(mime.HasSubject)
	for _, list := range [...]*[]mime.Address{&e.From, &e.Sender, &e.ReplyTo, &e.To, &e.Cc, &e.Bcc} {
		p.space()
		*list = p.addresses()
	}
	p.space()
	e.InReplyTo = field(mime.HasInReplyTo)
	p.space()
	e.MessageID = field(mime.HasMessageID)
	p.expect(')')
	return e
}

// addresses parses NIL or a list of addresses, with or without spaces between them.
func (p *parser) addresses() (list []mime.Address) {
	if p.tryWord("NIL") {
		return nil
	}
	p.expect('(')
	for p.err == nil && !p.try(')') {
		list = append(list, p.address())
		p.try(' ')
	}
	return list
}

func (p *parser) address() (a mime.Address) {
	p.expect('(')
	a.Name, _ = p.nstring()
	p.space()
	a.Route, _ = p.nstring()
	p.space()
	a.Mailbox, _ = p.nstring()
	p.space()
	host, ok := p.nstring()
	a.Host, a.Group = host, !ok
	p.expect(')')
	return a
}
