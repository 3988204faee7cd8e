// Package pop3 implements the grammar of POP3 for servers and clients: commands, replies, and the wire format of
// messages. It does no I/O of its own.
//
// Implements: RFC 1939 Post Office Protocol, version 3
package pop3

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of lines in bytes, including the line end.
const (
	// MaxCommand is the maximum length of a command line; RFC 2449 section 4 requires 255.
	MaxCommand = 1024
	// MaxAuth is the maximum length of a line of an AUTH exchange, including a command with an initial response.
	// OAUTHBEARER tokens have several kilobytes.
	MaxAuth = 12 << 10
)

// ErrSyntax means that a line is not a valid command. Its text may be sent to the client.
var ErrSyntax = errors.New("pop3: bad command")

// Command is a parsed command.
type Command struct {
	// Name is in upper case.
	Name string
	// Text is the argument of USER and PASS, the language of LANG, or the mechanism of AUTH in upper case.
	Text string
	// Number is the message number of LIST, RETR, DELE, TOP and UIDL; 0 if absent, which LIST and UIDL allow.
	Number uint32
	// Lines is the number of body lines for TOP.
	Lines uint32
	// Initial is the initial response of AUTH (RFC 5034): nil if absent, empty for "=".
	Initial []byte
}

// arguments is the kind of a command's arguments.
type arguments uint8

const (
	none     arguments = iota
	rest               // the rest of the line, including blanks
	word               // an optional word
	number             // a message number
	optional           // an optional message number
	top                // a message number and a number of lines
	auth               // a mechanism and an optional initial response
)

var commands = map[string]arguments{
	"AUTH": auth, "CAPA": none, "DELE": number, "LANG": word, "LIST": optional, "NOOP": none, "PASS": rest,
	"QUIT": none,
	"RETR": number, "RSET": none, "STAT": none, "STLS": none, "TOP": top, "UIDL": optional, "USER": rest, "UTF8": none,
}

// Parse parses a command; line is without its line end. An error wraps ErrSyntax and describes the cause. After an
// error, Name is set if the command is known.
func Parse(line []byte) (Command, error) {
	head, tail, more := strings.Cut(string(line), " ")
	c := Command{Name: strings.ToUpper(head)}
	kind, known := commands[c.Name]
	if !known {
		return Command{}, fmt.Errorf("%w: unknown command", ErrSyntax)
	}
	if len(line)+2 > MaxCommand && c.Name != "AUTH" {
		return c, fmt.Errorf("%w: line too long", ErrSyntax)
	}
	if kind != rest {
		if tail = strings.TrimRight(tail, " "); tail == "" {
			more = false
		}
	}
	if kind == optional && more {
		kind = number
	}
	switch kind {
	case none:
		if more {
			return c, fmt.Errorf("%w: %s has no argument", ErrSyntax, c.Name)
		}
		return c, nil
	case optional:
		return c, nil
	}
	return c, c.argument(kind, tail)
}

// argument parses the argument of a command.
func (c *Command) argument(kind arguments, tail string) (err error) {
	switch kind {
	case rest:
		c.Text = tail
		if tail == "" || !utf8.ValidString(tail) || strings.IndexByte(tail, 0) >= 0 {
			err = fmt.Errorf("%w: %s needs an argument in UTF-8", ErrSyntax, c.Name)
		}
	case word:
		c.Text = tail
		if strings.ContainsAny(tail, " \t") {
			err = fmt.Errorf("%w: %s has one argument", ErrSyntax, c.Name)
		}
	case number:
		c.Number, err = parseNumber(tail, 1)
	case top:
		first, second, _ := strings.Cut(tail, " ")
		if c.Number, err = parseNumber(first, 1); err == nil {
			c.Lines, err = parseNumber(strings.TrimLeft(second, " "), 0)
		}
	case auth:
		err = c.auth(tail)
	}
	return err
}

// parseNumber parses a decimal number of at least min. A number that is too large becomes the maximum, which matches no
// message.
func parseNumber(s string, min uint64) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if errors.Is(err, strconv.ErrRange) {
		return 1<<32 - 1, nil
	}
	if err != nil || n < min {
		return 0, fmt.Errorf("%w: a number is needed", ErrSyntax)
	}
	return uint32(n), nil
}

// auth parses `AUTH mechanism [initial-response]`.
//
// Implements: RFC 5034 SASL authentication
func (c *Command) auth(tail string) error {
	mechanism, initial, more := strings.Cut(tail, " ")
	c.Text = strings.ToUpper(mechanism)
	if c.Text == "" || len(c.Text) > 20 {
		return fmt.Errorf("%w: AUTH needs a mechanism", ErrSyntax)
	}
	if !more {
		return nil
	}
	if initial == "=" {
		c.Initial = []byte{}
		return nil
	}
	b, err := base64.StdEncoding.DecodeString(initial)
	if err != nil || len(b) == 0 {
		return fmt.Errorf("%w: the initial response is not base64", ErrSyntax)
	}
	c.Initial = b
	return nil
}

// Append appends the command with its line end. Its texts must not contain line breaks.
func (c *Command) Append(dst []byte) []byte {
	dst = append(dst, c.Name...)
	switch commands[c.Name] {
	case rest, word:
		if c.Text != "" {
			dst = append(append(dst, ' '), c.Text...)
		}
	case number, optional, top:
		if c.Number != 0 {
			dst = strconv.AppendUint(append(dst, ' '), uint64(c.Number), 10)
		}
		if c.Name == "TOP" {
			dst = strconv.AppendUint(append(dst, ' '), uint64(c.Lines), 10)
		}
	case auth:
		dst = append(append(dst, ' '), c.Text...)
		switch {
		case c.Initial == nil:
		case len(c.Initial) == 0:
			dst = append(dst, " ="...)
		default:
			dst = base64.StdEncoding.AppendEncode(append(dst, ' '), c.Initial)
		}
	}
	return append(dst, "\r\n"...)
}
