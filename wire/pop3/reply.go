package pop3

import (
	"fmt"
	"strings"
)

// Response codes. Clients use them rather than the texts.
//
// Implements: RFC 2449 §8 Response codes
// Implements: RFC 3206 SYS and AUTH response codes
// Implements: RFC 6856 §2.1 UTF8 response code
const (
	CodeInUse      = "IN-USE"
	CodeLoginDelay = "LOGIN-DELAY"
	CodeAuth       = "AUTH"
	CodeSysTemp    = "SYS/TEMP"
	CodeSysPerm    = "SYS/PERM"
	CodeUTF8       = "UTF8"
)

// AppendOK appends +OK and a text.
func AppendOK(dst []byte, text string) []byte {
	dst = append(dst, "+OK"...)
	if text != "" {
		dst = append(append(dst, ' '), text...)
	}
	return append(dst, "\r\n"...)
}

// AppendErr appends -ERR, a response code unless it is "", and a text.
func AppendErr(dst []byte, code, text string) []byte {
	dst = append(dst, "-ERR "...)
	if code != "" {
		dst = append(append(append(dst, '['), code...), "] "...)
	}
	return append(append(dst, text...), "\r\n"...)
}

// Reply is the first line of a response.
type Reply struct {
	OK bool
	// Code is the response code in upper case, without brackets. Text is the text after it.
	Code, Text string
	// Challenge is set for a line that starts with "+ ", in an AUTH exchange. Text is the challenge.
	Challenge bool
}

// ParseReply parses the first line of a response, without its line end.
func ParseReply(line []byte) (Reply, error) {
	s := string(line)
	var r Reply
	switch {
	case strings.HasPrefix(s, "+OK"):
		r.OK, s = true, s[3:]
	case strings.HasPrefix(s, "-ERR"):
		s = s[4:]
	case strings.HasPrefix(s, "+ ") || s == "+":
		return Reply{Challenge: true, Text: strings.TrimPrefix(s[1:], " ")}, nil
	default:
		return r, fmt.Errorf("pop3: not a reply: %.60q", s)
	}
	if s != "" && s[0] != ' ' {
		return r, fmt.Errorf("pop3: not a reply: %.60q", line)
	}
	s = strings.TrimPrefix(s, " ")
	if after, ok := strings.CutPrefix(s, "["); ok {
		if code, text, ok := strings.Cut(after, "]"); ok {
			r.Code, s = strings.ToUpper(code), strings.TrimPrefix(text, " ")
		}
	}
	r.Text = s
	return r, nil
}
