// Package smtp implements the grammar of SMTP and LMTP: commands, paths, parameters, replies and dot-stuffed data. It
// uses no clock and no network. Every parser takes linear time and keeps no reference to its input unless documented.
package smtp

import "bytes"

// Limits of the grammar in bytes, including line ends.
const (
	// MaxCommandLine is higher than required: RFC 5321 section 4.5.3.1.4 requires 512, and extensions add to it.
	MaxCommandLine = 2048
	// MaxAuthLine is the limit of RFC 4954 section 4.
	MaxAuthLine = 12288
	// MaxReplyLine is the maximum length of a line that a client accepts; RFC 5321 section 4.5.3.1.5 requires 512.
	MaxReplyLine = 4096
	// MaxReplyLines is the maximum number of lines of one reply.
	MaxReplyLines = 256
)

// Verb is the verb of a command.
type Verb uint8

// The verbs.
const (
	Unknown Verb = iota
	EHLO
	HELO
	LHLO
	MAIL
	RCPT
	DATA
	BDAT
	RSET
	NOOP
	QUIT
	VRFY
	EXPN
	HELP
	AUTH
	STARTTLS
)

var verbNames = [...]string{
	"", "EHLO", "HELO", "LHLO", "MAIL", "RCPT", "DATA", "BDAT", "RSET", "NOOP", "QUIT", "VRFY",
	"EXPN", "HELP", "AUTH", "STARTTLS",
}

func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return ""
}

// Command is a parsed command line. Arg shares the memory of the line and has no surrounding white space.
type Command struct {
	Verb Verb
	Arg  []byte
}

// Errors in a command line.
var (
	ErrBareLF  = NewReply(500, 5, 5, 2, "Lines must end with CRLF")
	ErrControl = NewReply(500, 5, 5, 2, "Control characters are not allowed in a command")
	ErrSyntax  = NewReply(501, 5, 5, 4, "Syntax error in parameters or arguments")
)

// ParseCommand parses a line with its line end. An unknown verb is not an error here. If lenient is set, a bare LF is
// accepted as line end.
//
// Implements: RFC 5321 §4.1.1 Command semantics and syntax
// Implements: RFC 5321 §2.3.8 Lines end with CRLF only
func ParseCommand(line []byte, lenient bool) (Command, *Reply) {
	n := len(line)
	switch {
	case n >= 2 && line[n-2] == '\r' && line[n-1] == '\n':
		line = line[:n-2]
	case n >= 1 && line[n-1] == '\n' && lenient:
		line = line[:n-1]
	default:
		return Command{}, ErrBareLF
	}
	for _, b := range line {
		if b < ' ' && b != '\t' || b == 0x7f {
			return Command{}, ErrControl
		}
	}
	word, arg := line, []byte(nil)
	if i := bytes.IndexByte(line, ' '); i >= 0 {
		word, arg = line[:i], trim(line[i+1:])
	}
	return Command{Verb: verbOf(word), Arg: arg}, nil
}

func verbOf(w []byte) Verb {
	for v, name := range verbNames {
		if foldEq(w, name) {
			return Verb(v)
		}
	}
	return Unknown
}

// foldEq compares b with an upper-case ASCII word, ignoring ASCII case.
func foldEq(b []byte, upper string) bool {
	if len(b) != len(upper) {
		return false
	}
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		if c != upper[i] {
			return false
		}
	}
	return true
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// ParseHello checks the argument of EHLO, HELO and LHLO: a domain or an address literal. It accepts deviations that
// occur in practice (underscores, a trailing dot), but not white space.
//
// Implements: RFC 5321 §4.1.1.1 EHLO and HELO argument
func ParseHello(arg []byte) (string, *Reply) {
	if len(arg) == 0 || len(arg) > 255 {
		return "", errHello
	}
	for _, c := range arg {
		if c <= ' ' || c == '<' || c == '>' || c == '(' || c == ')' || c == '"' || c == '\\' || c == ';' {
			return "", errHello
		}
	}
	if !validUTF8(arg) {
		return "", errHello
	}
	return string(arg), nil
}

var errHello = NewReply(501, 5, 5, 4, "A domain or an address literal is required")

// ParseBDAT returns the size of a chunk in bytes, and reports whether it is the last.
//
// Implements: RFC 3030 §2 BDAT command syntax
func ParseBDAT(arg []byte) (size int64, last bool, bad *Reply) {
	word, rest := arg, []byte(nil)
	if i := bytes.IndexByte(arg, ' '); i >= 0 {
		word, rest = arg[:i], trim(arg[i+1:])
	}
	size, ok := parseNumber(word)
	if !ok || len(rest) > 0 && !foldEq(rest, "LAST") {
		return 0, false, ErrSyntax
	}
	return size, len(rest) > 0, nil
}

// parseNumber parses up to 18 decimal digits.
func parseNumber(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}
