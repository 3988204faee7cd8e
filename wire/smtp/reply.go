package smtp

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// Enhanced is an enhanced status code: class, subject, detail. The zero value means none.
//
// Implements: RFC 3463 §2 Enhanced status codes
// Implements: RFC 2034 §4 ENHANCEDSTATUSCODES
type Enhanced [3]uint16

func (e Enhanced) append(dst []byte) []byte {
	for i, n := range e {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(n), 10)
	}
	return dst
}

func (e Enhanced) String() string {
	if e == (Enhanced{}) {
		return ""
	}
	return string(e.append(nil))
}

// Reply is a reply of one or more lines. A service returns it as an error to answer a command. It must not be changed
// after it was returned.
type Reply struct {
	Code     int
	Enhanced Enhanced
	Lines    []string // without codes and line ends
}

// NewReply returns a reply with an enhanced code. "\n" separates lines in text.
func NewReply(code int, class, subject, detail uint16, text string) *Reply {
	return &Reply{Code: code, Enhanced: Enhanced{class, subject, detail}, Lines: strings.Split(text, "\n")}
}

// Error returns the reply as one line.
func (r *Reply) Error() string {
	b := strconv.AppendInt(make([]byte, 0, 128), int64(r.Code), 10)
	if r.Enhanced != (Enhanced{}) {
		b = r.Enhanced.append(append(b, ' '))
	}
	for _, l := range r.Lines {
		b = append(append(b, ' '), l...)
	}
	return string(b)
}

// Text returns the lines, joined by "\n".
func (r *Reply) Text() string { return strings.Join(r.Lines, "\n") }

// Positive reports whether the code is 2xx or 3xx.
func (r *Reply) Positive() bool { return r.Code >= 200 && r.Code < 400 }

// Temporary reports whether the code is 4xx.
func (r *Reply) Temporary() bool { return r.Code >= 400 && r.Code < 500 }

// AsReply returns the *Reply in err. For other errors it returns 451 4.3.0 without err's text, because peers must not
// see internal errors.
func AsReply(err error) *Reply {
	var r *Reply
	if errors.As(err, &r) {
		return r
	}
	return errLocal
}

var errLocal = NewReply(451, 4, 3, 0, "Local error, try again later")

// maxReplyText is the maximum length of a printed line (RFC 5321 section 4.5.3.1.5).
const maxReplyText = 480

// Append appends the reply, with the enhanced code on every line. Control characters in the text become "?", so that no
// text can end a line.
//
// Implements: RFC 5321 §4.2 Replies, §4.2.1 multi-line
func (r *Reply) Append(dst []byte) []byte {
	lines := r.Lines
	if len(lines) == 0 {
		lines = []string{""}
	}
	for i, l := range lines {
		dst = strconv.AppendInt(dst, int64(r.Code), 10)
		if i < len(lines)-1 {
			dst = append(dst, '-')
		} else {
			dst = append(dst, ' ')
		}
		if r.Enhanced != (Enhanced{}) {
			dst = append(r.Enhanced.append(dst), ' ')
		}
		for j := 0; j < len(l) && j < maxReplyText; j++ {
			if c := l[j]; c >= ' ' && c != 0x7f {
				dst = append(dst, c)
			} else {
				dst = append(dst, '?')
			}
		}
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// Errors of the reply parser.
var (
	// ErrMalformedReply means that the peer's line is not an SMTP reply.
	ErrMalformedReply = errors.New("smtp: malformed reply")
)

func replyCode(digits []byte) (code int, ok bool) {
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		code = code*10 + int(c-'0')
	}
	return code, 200 <= code && code <= 599
}

// AddLine adds one reply line, with its line end, and reports whether it was the last. Start with a zero Reply. All
// lines of a reply must have the same code.
func (r *Reply) AddLine(line []byte) (last bool, err error) {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) < 3 || len(line) > MaxReplyLine || len(r.Lines) >= MaxReplyLines {
		return false, ErrMalformedReply
	}
	code, ok := replyCode(line[:3])
	if !ok || len(r.Lines) > 0 && code != r.Code {
		return false, ErrMalformedReply
	}
	last = true
	text := line[3:]
	if len(text) > 0 {
		switch text[0] {
		case '-':
			last = false
		case ' ':
		default:
			return false, ErrMalformedReply
		}
		text = text[1:]
	}
	if e, n := parseEnhanced(text); n > 0 && int(e[0]) == code/100 {
		if len(r.Lines) == 0 {
			r.Enhanced = e
		}
		if e == r.Enhanced {
			text = text[n:]
		}
	}
	r.Code = code
	r.Lines = append(r.Lines, string(text))
	return last, nil
}

// parseEnhanced parses "2.1.5 " at the start of b; n is its length with the space, 0 for none.
func parseEnhanced(b []byte) (e Enhanced, n int) {
	part, digits := 0, 0
	for n < len(b) {
		c := b[n]
		switch {
		case c >= '0' && c <= '9' && digits < 3:
			e[part] = e[part]*10 + uint16(c-'0')
			digits++
		case c == '.' && digits > 0 && part < 2:
			part++
			digits = 0
		case c == ' ' && part == 2 && digits > 0:
			return e, n + 1
		default:
			return Enhanced{}, 0
		}
		n++
	}
	if part == 2 && digits > 0 {
		return e, n
	}
	return Enhanced{}, 0
}
