package imap

import "io"

// message is the state of an APPEND whose literal is not read.
type message struct {
	pending bool // the literal is announced and neither refused nor ended
	begun   bool // Message was called
	tag     string
	lit     literal
	left    int64
	utf8    bool
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
	a := cmd.Args.(*Append)
	a.Size, a.Binary, a.NonSync = lit.size, lit.binary, lit.nonSync
	r.message = message{pending: true, tag: cmd.Tag, lit: *lit, left: lit.size, utf8: a.UTF8}
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

// EndMessage reads what the caller left of the message and the rest of the command line. The APPEND
// counts only when it gives nil: a *SyntaxError is answered and nothing is stored.
func (r *Reader) EndMessage() error {
	m := r.message
	r.message = message{}
	defer r.release()
	if !m.pending {
		return nil
	}
	if m.left > r.limits.Discard {
		return ErrClose
	}
	if err := r.discard(m.left); err != nil {
		return err
	}
	var l line
	if err := r.readLine(&l, r.limits.Line, r.limits.Discard); err != nil {
		return unexpected(err)
	}
	want := ""
	if m.utf8 {
		want = ")"
	}
	if !l.over && string(l.text) == want {
		return nil
	}
	e := &SyntaxError{Tag: m.tag, Text: "Unexpected text behind the message"}
	if l.over {
		return r.resync(&l, e)
	}
	if lit, ok := literalAtEnd(l.text); ok {
		return r.skip(&lit, e)
	}
	return e
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
		if err := r.EndMessage(); err != nil {
			if _, ok := err.(*SyntaxError); !ok {
				return err
			}
		}
		return nil
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
