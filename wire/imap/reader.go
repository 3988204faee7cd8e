package imap

import (
	"bytes"
	"errors"
	"io"
	"strings"
)

// Limits limits the size of one command and the input that the reader skips. Sizes are in bytes.
type Limits struct {
	Line    int   // a command without its literals, or a line of ReadLine
	Literal int   // one literal, except a message of APPEND
	Total   int   // a command with its literals, except a message of APPEND
	Append  int64 // a message of APPEND
	NonSync int64 // one non-synchronising literal; 4096 for LITERAL-, 0 for no further limit (LITERAL+)
	Discard int64 // input that is skipped to resynchronise after an error
	Ranges  int   // ranges in a set
	Depth   int   // parentheses, NOT and OR in a search
	Items   int   // search keys, fetch items, flags, patterns and other list members
}

// DefaultLimits returns limits for an authenticated client.
func DefaultLimits() Limits {
	return Limits{
		Line: 64 << 10, Literal: 64 << 10, Total: 256 << 10, Append: 50 << 20, Discard: 64 << 20,
		Ranges: 10000, Depth: 50, Items: 1000,
	}
}

// SyntaxError is an error that the server answers with a tagged BAD (or NO). Unless Fatal is set, it then continues to
// read.
type SyntaxError struct {
	Tag  string // tag of the command, "*" if it has none
	Code string // response code without brackets: "BADCHARSET (UTF-8)", "TOOBIG"; "" for none
	Text string
	No   bool // the syntax is correct: answer NO
	// Unknown is set for an unknown verb, because servers count these separately.
	Unknown bool
	// Fatal is set if the reader cannot resynchronise with the client: the server must answer and close.
	Fatal bool
}

func (e *SyntaxError) Error() string { return "imap: " + e.Text }

// Reader reads the commands of one client. While it waits for a command it holds no buffer except its own 128 bytes. It
// is not safe for concurrent use.
type Reader struct {
	// Continue sends the continuation request for a synchronising literal: it writes "+ …" and flushes.
	Continue func() error
	// UTF8 is set if mailbox names are UTF-8 (IMAP4rev2 or UTF8=ACCEPT enabled) instead of modified UTF-7.
	UTF8 bool

	source
	limits  Limits
	message message
}

// NewReader returns a reader of commands from src. The caller must set Continue before the first literal can arrive.
func NewReader(src io.Reader, limits Limits) *Reader {
	return &Reader{source: source{src: src}, limits: limits}
}

// SetLimits changes the limits, for example after a login.
func (r *Reader) SetLimits(limits Limits) { r.limits = limits }

// Reset switches to another source and drops buffered input. Commands that a client sent in plaintext after STARTTLS
// must not be executed (RFC 9051 section 6.2.1).
func (r *Reader) Reset(src io.Reader) {
	r.src, r.r, r.w, r.message = src, 0, 0, message{}
	r.release()
}

// Rest returns and removes the bytes that have arrived but are not read. The caller owns them. The reader forgets a
// message that was announced and not read.
func (r *Reader) Rest() []byte {
	b := append([]byte(nil), r.buf[r.r:r.w]...)
	r.r, r.w, r.message = 0, 0, message{}
	return b
}

// ReadLine reads a line that is not a command: a response during AUTHENTICATE, or DONE. The result has no CRLF.
func (r *Reader) ReadLine() (string, error) {
	defer r.release()
	var l line
	if err := r.readLine(&l, r.limits.Line, r.limits.Discard); err != nil {
		return "", err
	}
	if l.over {
		return "", &SyntaxError{Tag: "*", Text: "Line too long", Fatal: true}
	}
	return string(l.text), nil
}

// ReadCommand reads one command. The server answers a *SyntaxError and, unless it is Fatal, can read the next command.
// Any other error comes from the source or is ErrClose. An unread message of an earlier APPEND is discarded first.
func (r *Reader) ReadCommand() (*Command, error) {
	if err := r.RefuseMessage(); err != nil {
		return nil, err
	}
	if r.r == r.w {
		r.release()
	}
	text, lit, err := r.assemble()
	if err != nil {
		r.release()
		return nil, err
	}
	cmd, err := parseCommand(text, &r.limits, r.UTF8, lit)
	if err == nil {
		cmd.Text = text
	}
	if lit != nil || err == nil && appendOf(cmd) != nil {
		cmd, err = r.announce(cmd, lit, err)
	}
	if r.r == r.w {
		r.release()
	}
	return cmd, err
}

// assemble reads the text of a command with its literals. It stops at the end, or at the literal lit, which is the
// message of an APPEND.
func (r *Reader) assemble() (text string, lit *literal, err error) {
	// Fast path: the buffer usually holds a whole command without literals.
	if r.r == r.w {
		if err := r.fill(); err != nil {
			return "", nil, err
		}
	}
	chunk := r.buf[r.r:r.w]
	if end := bytes.IndexByte(chunk, '\n'); end >= 0 && end <= r.limits.Line {
		first := bytes.TrimSuffix(chunk[:end], crlf[:1])
		if _, ok := literalAtEnd(first); !ok {
			r.r += end + 1
			return string(first), nil, nil
		}
	}
	return r.assembleLiterals(isMessageLiteral)
}

var crlf = []byte("\r\n")

// assembleLiterals reads a text up to its end or to a literal that is a message. isMessage recognizes such a literal by
// the text before it.
func (r *Reader) assembleLiterals(isMessage func(text []byte) bool) (string, *literal, error) {
	var l line
	room := r.limits.Line
	for {
		start := len(l.text)
		if err := r.readLine(&l, room, r.limits.Discard); err != nil {
			return "", nil, err
		}
		if l.over {
			return "", nil, r.resync(&l, &SyntaxError{Tag: tagOf(l.text), Text: "Command line too long"})
		}
		room -= len(l.text) - start
		lit, ok := literalAtEnd(l.text)
		if !ok {
			return string(l.text), nil, nil
		}
		if isMessage(l.text[:lit.at]) {
			return string(l.text), &lit, nil
		}
		if lit.size > int64(r.limits.Literal) || int64(len(l.text))+lit.size > int64(r.limits.Total) ||
			lit.tooLong(&r.limits) {
			return "", nil, r.skip(&lit, &SyntaxError{Tag: tagOf(l.text), Text: "Literal too large", Code: "LIMIT"})
		}
		if !lit.nonSync {
			if err := r.invite(); err != nil {
				return "", nil, err
			}
		}
		l.text = append(l.text, crlf...)
		var err error
		if l.text, err = r.readLiteral(l.text, int(lit.size)); err != nil {
			return "", nil, err
		}
	}
}

func (r *Reader) invite() error {
	if r.Continue == nil {
		return errors.New("imap: no way to ask for a literal")
	}
	return r.Continue()
}

// resync handles a line that was too long. If it ends with a non-synchronising literal, resync skips that, because the
// literal is not a command.
func (r *Reader) resync(l *line, e *SyntaxError) error {
	if lit, ok := literalAtEnd(l.tail[:l.tailLen]); ok {
		return r.skip(&lit, e)
	}
	return e
}

// skip drops a rejected literal and the rest of its command, and returns e. If the client waits for the continuation
// request, nothing was sent. If more than Limits.Discard bytes must be dropped, e becomes fatal.
func (r *Reader) skip(lit *literal, e *SyntaxError) error {
	budget := r.limits.Discard
	for lit.nonSync {
		if lit.size > budget {
			e.Fatal = true
			return e
		}
		budget -= lit.size
		if err := r.discard(lit.size); err != nil {
			return err
		}
		l := line{over: true} // keeps only the end of the line
		if err := r.readLine(&l, 0, budget); err != nil {
			if err == ErrClose {
				e.Fatal = true
				return e
			}
			return err
		}
		budget -= l.dropped
		next, ok := literalAtEnd(l.tail[:l.tailLen])
		if !ok {
			break
		}
		*lit = next
	}
	return e
}

func (l *literal) tooLong(limits *Limits) bool {
	return l.nonSync && limits.NonSync > 0 && l.size > limits.NonSync
}

// isMessageLiteral reports whether text, which precedes a literal, is an APPEND with its mailbox, or a REPLACE with
// message and mailbox.
func isMessageLiteral(text []byte) bool {
	sp := bytes.IndexByte(text, ' ')
	if sp < 0 {
		return false
	}
	rest := text[sp+1:]
	if beforeURL(text) && bytes.Contains(bytes.ToUpper(text), []byte("CATENATE (")) {
		return false
	}
	if after(rest, "APPEND ") != nil {
		return true
	}
	if uid := after(rest, "UID "); uid != nil {
		rest = uid
	}
	rest = after(rest, "REPLACE ")
	sp = bytes.IndexByte(rest, ' ')
	return sp >= 0 && sp+1 < len(rest)
}

// after returns the text after a verb. It returns nil if the text starts with another verb or ends there.
func after(text []byte, verb string) []byte {
	if len(text) > len(verb) && strings.EqualFold(string(text[:len(verb)]), verb) {
		return text[len(verb):]
	}
	return nil
}

// tagOf returns the tag of a command that was not parsed.
func tagOf(text []byte) string {
	sp := bytes.IndexByte(text, ' ')
	if sp < 0 {
		sp = len(text)
	}
	if sp > maxTag || !isTag(string(text[:sp])) {
		return "*"
	}
	return string(text[:sp])
}
