// Package managesieve parses commands and prints responses of ManageSieve (RFC 5804), the protocol by which clients
// store Sieve scripts.
package managesieve

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxLine is the maximum length of a line without literals in bytes, and MaxArguments that of a command's arguments.
const (
	MaxLine      = 8 << 10
	MaxArguments = 4
)

// ErrSyntax means that a command is malformed.
var ErrSyntax = errors.New("malformed command")

// Command is a command with its arguments.
type Command struct {
	Name string // upper case
	Args []Argument
}

// Argument is a string, or a number.
type Argument struct {
	Text     string
	IsNumber bool
	Number   uint64
}

// Literal returns the size of the literal that a line without its end announces.
//
// Implements: RFC 5804 §4 literal-c2s
func Literal(line []byte) (n int, ok bool) {
	if !bytes.HasSuffix(line, []byte("}")) {
		return 0, false
	}
	i := bytes.LastIndexByte(line, '{')
	if i < 0 {
		return 0, false
	}
	digits := strings.TrimSuffix(string(line[i+1:len(line)-1]), "+")
	size, err := strconv.ParseUint(digits, 10, 31)
	return int(size), err == nil
}

// Parse parses a command without its last CRLF; each literal follows its announcement and a CRLF.
func Parse(b []byte) (Command, error) {
	n := bytes.IndexByte(b, ' ')
	if n < 0 {
		n = len(b)
	}
	c := Command{Name: strings.ToUpper(string(b[:n]))}
	if c.Name == "" || strings.Trim(c.Name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
		return Command{}, fmt.Errorf("%w: no command at its beginning", ErrSyntax)
	}
	for b = b[n:]; len(b) > 0; {
		if b[0] != ' ' || len(c.Args) == MaxArguments {
			return c, fmt.Errorf("%w: unexpected text after argument %d", ErrSyntax, len(c.Args))
		}
		a, rest, err := argument(b[1:])
		if err != nil {
			return c, err
		}
		c.Args, b = append(c.Args, a), rest
	}
	return c, nil
}

func argument(b []byte) (a Argument, rest []byte, err error) {
	switch {
	case len(b) > 0 && b[0] == '"':
		a.Text, rest, err = quoted(b[1:])
	case len(b) > 0 && b[0] == '{':
		line, after, found := bytes.Cut(b, []byte("\r\n"))
		n, ok := Literal(line)
		if !found || !ok || n > len(after) {
			return a, nil, fmt.Errorf("%w: malformed literal", ErrSyntax)
		}
		a.Text, rest = string(after[:n]), after[n:]
	default:
		i := bytes.IndexByte(b, ' ')
		if i < 0 {
			i = len(b)
		}
		if a.Number, err = strconv.ParseUint(string(b[:i]), 10, 32); err != nil {
			return a, nil, fmt.Errorf("%w: expected a string or a number", ErrSyntax)
		}
		a.IsNumber, rest = true, b[i:]
	}
	if err == nil && !utf8.ValidString(a.Text) {
		err = fmt.Errorf("%w: string is not UTF-8", ErrSyntax)
	}
	return a, rest, err
}

func quoted(b []byte) (string, []byte, error) {
	var out []byte
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			return string(out), b[i+1:], nil
		case '\\':
			if i++; i == len(b) {
				continue
			}
		case 0, '\r', '\n':
			return "", nil, fmt.Errorf("%w: control character in a quoted string", ErrSyntax)
		}
		out = append(out, b[i])
	}
	return "", nil, fmt.Errorf("%w: quoted string has no end", ErrSyntax)
}

// AppendString appends a string: quoted if it is short and in one line, else as a literal.
func AppendString(dst []byte, s string) []byte {
	if len(s) <= 1000 && !strings.ContainsAny(s, "\r\n\x00") {
		dst = append(dst, '"')
		for i := range len(s) {
			if s[i] == '"' || s[i] == '\\' {
				dst = append(dst, '\\')
			}
			dst = append(dst, s[i])
		}
		return append(dst, '"')
	}
	dst = append(strconv.AppendInt(append(dst, '{'), int64(len(s)), 10), "}\r\n"...)
	return append(dst, s...)
}

// AppendResponse appends a final response: OK, NO or BYE, with a response code, if it is not empty, and a text.
//
// Implements: RFC 5804 §1.3 response codes
func AppendResponse(dst []byte, kind, code, text string) []byte {
	dst = append(dst, kind...)
	if code != "" {
		dst = append(append(append(dst, " ("...), code...), ')')
	}
	if text != "" {
		dst = AppendString(append(dst, ' '), text)
	}
	return append(dst, "\r\n"...)
}
