package imap

import (
	"bytes"
	"io"
)

// message is the state of an APPEND whose literal is not read.
type message struct {
	pending bool // the literal is announced and neither refused nor ended
	begun   bool // Message was called
	tag     string
	lit     literal
	left    int64
	of      *Append
	single  bool // no other may follow
}

// announce takes the message literal behind a parsed APPEND, or leaves it out when the command was
// wrong or the message is too large.
func (r *Reader) announce(cmd *Command, lit *literal, err error) (*Command, error) {
	if err != nil {
		if e, ok := err.(*SyntaxError); ok {
			return nil, r.skip(lit, e)
		}
		return nil, err
	}
	if lit.size > r.limits.Append || lit.tooLong(&r.limits) {
		e := &SyntaxError{Tag: cmd.Tag, Code: "TOOBIG", Text: "Message too large", No: true}
		return nil, r.skip(lit, e)
	}
	a := appendOf(cmd)
	a.Size, a.Binary, a.NonSync = lit.size, lit.binary, lit.nonSync
	r.message = message{pending: true, tag: cmd.Tag, lit: *lit, left: lit.size, of: a, single: cmd.Name != "APPEND"}
	return cmd, nil
}

// Message gives the message of the APPEND that was just read: exactly Append.Size bytes. It invites
// the client to send where that waits. EndMessage must follow.
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
		n, err := r.src.Read(p) // past the buffer: one copy less
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

// EndMessage reads what the caller left of the message and what stands behind it. Where that announces
// another message, next is that one, its mailbox that of the first, and all begins again with Message. The
// command counts only when it gives no error: a *SyntaxError is answered and nothing is stored.
func (r *Reader) EndMessage() (next *Append, err error) {
	m := r.message
	r.message = message{}
	defer r.release()
	if !m.pending {
		return nil, nil
	}
	if m.left > r.limits.Discard {
		return nil, ErrClose
	}
	if err := r.discard(m.left); err != nil {
		return nil, err
	}
	var l line
	if err := r.readLine(&l, r.limits.Line, r.limits.Discard); err != nil {
		return nil, unexpected(err)
	}
	e := &SyntaxError{Tag: m.tag, Text: "Unexpected text behind the message"}
	if l.over {
		return nil, r.resync(&l, e)
	}
	text, ended := l.text, true
	if m.of.UTF8 {
		text, ended = bytes.CutPrefix(text, []byte(")"))
	}
	if ended && len(text) == 0 {
		return nil, nil
	}
	lit, ok := literalAtEnd(l.text)
	if !ok {
		return nil, e
	}
	if !ended || m.single || text[0] != ' ' {
		return nil, r.skip(&lit, e)
	}
	return r.nextMessage(&m, text[1:len(text)-(len(l.text)-lit.at)], &lit)
}

// nextMessage takes another message of an APPEND, announced by text and a literal.
//
// Implements: RFC 3502 §6.3.11 MULTIAPPEND
func (r *Reader) nextMessage(m *message, text []byte, lit *literal) (*Append, error) {
	p := parser{s: string(text), limits: &r.limits, utf8: r.UTF8, message: true}
	a := &Append{Mailbox: m.of.Mailbox, Size: lit.size, Binary: lit.binary, NonSync: lit.nonSync}
	p.appendMessage(a)
	if p.err != nil {
		p.err.Tag = m.tag
		return nil, r.skip(lit, p.err)
	}
	if lit.size > r.limits.Append || lit.tooLong(&r.limits) {
		return nil, r.skip(lit, &SyntaxError{Tag: m.tag, Code: "TOOBIG", Text: "Message too large", No: true})
	}
	r.message = message{pending: true, tag: m.tag, lit: *lit, left: lit.size, of: a}
	return a, nil
}

// RefuseMessage leaves the message of the APPEND unread, because of its size, its mailbox or a quota.
// A client that waits for an invitation then sees the NO instead; one that does not has its message
// read and thrown away, or gets ErrClose where that is too much.
func (r *Reader) RefuseMessage() error {
	m := r.message
	if !m.pending {
		return nil
	}
	if m.begun {
		if next, err := r.EndMessage(); err != nil {
			if _, ok := err.(*SyntaxError); !ok {
				return err
			}
			return nil
		} else if next == nil {
			return nil
		}
		m = r.message
	}
	r.message = message{}
	defer r.release()
	e := &SyntaxError{}
	if err := r.skip(&m.lit, e); err != e {
		return err
	}
	if e.Fatal {
		return ErrClose
	}
	return nil
}
