package imap

import "io"

// message holds the state of an APPEND that is not completely read.
type message struct {
	of      *Append // the current message; nil: none
	part    int     // index of its next part
	pending bool    // a literal is announced but neither rejected nor completely read
	begun   bool    // Message was called
	tag     string
	lit     literal
	left    int64
	single  bool // no further message may follow
}

// announce stores a parsed APPEND and the message literal after it. It skips the literal if the command has an error or
// the message is too large.
func (r *Reader) announce(cmd *Command, lit *literal, err error) (*Command, error) {
	if err == nil {
		r.message = message{tag: cmd.Tag, single: cmd.Name != "APPEND"}
		if err = r.follow(appendOf(cmd), lit); err == nil {
			return cmd, nil
		}
		return nil, err
	}
	if e, ok := err.(*SyntaxError); ok && lit != nil {
		return nil, r.skip(lit, e)
	}
	return nil, err
}

// follow stores the messages that a text announced, and the literal at its end (or nil).
func (r *Reader) follow(a *Append, lit *literal) error {
	m := &r.message
	m.of, m.part, m.pending, m.begun = a, 0, lit != nil, false
	if lit == nil {
		return nil
	}
	if lit.size > r.limits.Append || lit.tooLong(&r.limits) {
		e := &SyntaxError{Tag: m.tag, Code: "TOOBIG", Text: "Message too large", No: true}
		r.message = message{}
		return r.skip(lit, e)
	}
	a.announced(lit)
	m.lit, m.left = *lit, lit.size
	return nil
}

// Part returns the next part of a CATENATE message (Append.Catenate), or nil after the last one. The caller must read a
// literal with Message before the next call.
//
// Implements: RFC 4469 §4 CATENATE: a client may be told NO after any part
func (r *Reader) Part() (*CatPart, error) {
	m := &r.message
	if m.of == nil || !m.of.Catenate {
		return nil, nil
	}
	if m.begun {
		if err := r.proceed(); err != nil {
			return nil, err
		}
	}
	if m.part == len(m.of.Parts) {
		return nil, nil
	}
	m.part++
	return &m.of.Parts[m.part-1], nil
}

// Message returns a reader of the announced literal. It is the message of the last APPEND, exactly Append.Size bytes,
// or a part of it. Message sends the continuation request if the client waits for one. The caller must call EndMessage
// or Part afterwards.
func (r *Reader) Message() (io.Reader, error) {
	if !r.message.pending || r.message.begun {
		return nil, io.EOF
	}
	r.message.begun = true
	if !r.message.lit.nonSync {
		if err := r.invite(); err != nil {
			return nil, err
		}
	}
	return (*messageReader)(r), nil
}

type messageReader Reader

func (m *messageReader) Read(p []byte) (int, error) {
	r := (*Reader)(m)
	if r.message.left == 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > r.message.left {
		p = p[:r.message.left]
	}
	if r.r == r.w && len(p) >= bufferSize {
		n, err := r.src.Read(p) // bypass the buffer to save a copy
		r.message.left -= int64(n)
		if n > 0 {
			return n, nil
		}
		return 0, unexpected(err)
	}
	if r.r == r.w {
		if err := r.fill(); err != nil {
			return 0, unexpected(err)
		}
	}
	n := copy(p, r.buf[r.r:r.w])
	r.r += n
	r.message.left -= int64(n)
	return n, nil
}

// EndMessage reads the rest of the message and the text after it. If the text announces another message, next is that
// message, with the mailbox of the first, and the caller continues with Message or Part. The command is valid only if
// EndMessage returns no error: on a *SyntaxError the server answers it and stores nothing. For a CATENATE message, call
// Part until it returns nil first.
func (r *Reader) EndMessage() (next *Append, err error) {
	m := &r.message
	if m.of == nil {
		return nil, nil
	}
	defer r.release()
	if m.begun {
		if err := r.proceed(); err != nil {
			return nil, err
		}
	}
	next = m.of.Next
	m.of, m.part = next, 0
	return next, nil
}

// proceed reads the text after a literal, up to the end of the command or to the next literal that is a message or a
// part of one.
//
// Implements: RFC 3502 §6.3.11 MULTIAPPEND
func (r *Reader) proceed() error {
	m := r.message
	r.message = message{}
	if m.left > r.limits.Discard {
		return ErrClose
	}
	if err := r.discard(m.left); err != nil {
		return err
	}
	text, lit, err := r.assembleLiterals(func(text []byte) bool { return !beforeURL(text) })
	if e, ok := err.(*SyntaxError); ok {
		e.Tag = m.tag
		return e
	}
	if err != nil {
		return unexpected(err)
	}
	p := parser{s: text, limits: &r.limits, utf8: r.UTF8, message: lit != nil}
	if lit != nil {
		p.s = text[:lit.at]
	}
	utf8 := m.of.UTF8
	if m.of.Catenate {
		utf8 = m.of.Parts[len(m.of.Parts)-1].UTF8
	}
	rest := p.behindLiteral(m.of, utf8, !m.single)
	if p.err == nil && !p.end() {
		p.fail("Unexpected text behind the message")
	}
	switch {
	case p.err == nil:
		r.message = message{tag: m.tag, single: m.single}
		return r.follow(rest, lit)
	case lit == nil:
		return &SyntaxError{Tag: m.tag, Text: "Unexpected text behind the message"}
	}
	p.err.Tag = m.tag
	return r.skip(lit, p.err)
}

// RefuseMessage skips the message of the APPEND. A client that waits for the continuation request gets the server's NO
// instead. A message that is sent without waiting is read and dropped; if it is too large for that, RefuseMessage
// returns ErrClose.
func (r *Reader) RefuseMessage() error {
	m := r.message
	r.message = message{}
	if !m.pending {
		return nil
	}
	defer r.release()
	if m.begun { // the client is sending the rest of it
		m.lit.nonSync, m.lit.size = true, m.left
	}
	e := &SyntaxError{}
	if err := r.skip(&m.lit, e); err != e {
		return err
	}
	if e.Fatal {
		return ErrClose
	}
	return nil
}
