package smtp

import (
	"bytes"
	"strconv"
)

// Body is the BODY parameter.
type Body uint8

// The values of BODY; BINARYMIME is refused at parsing, as it is not offered.
const (
	BodyUnset Body = iota
	Body7Bit
	Body8BitMIME
)

func (b Body) String() string {
	switch b {
	case Body7Bit:
		return "7BIT"
	case Body8BitMIME:
		return "8BITMIME"
	}
	return ""
}

// Ret is the RET parameter: what a failure report returns.
type Ret uint8

// The values of RET.
const (
	RetUnset Ret = iota
	RetFull
	RetHeaders
)

func (r Ret) String() string {
	switch r {
	case RetFull:
		return "FULL"
	case RetHeaders:
		return "HDRS"
	}
	return ""
}

// Notify is the set of the NOTIFY parameter.
type Notify uint8

// The members of NOTIFY; none set means that the client did not say.
const (
	NotifyNever Notify = 1 << iota
	NotifySuccess
	NotifyFailure
	NotifyDelay
)

func (n Notify) String() string {
	if n == NotifyNever {
		return "NEVER"
	}
	s := ""
	for i, w := range [...]string{"SUCCESS", "FAILURE", "DELAY"} {
		if n&(NotifySuccess<<i) != 0 {
			if s != "" {
				s += ","
			}
			s += w
		}
	}
	return s
}

// MailParams are the parameters of MAIL.
type MailParams struct {
	Size  int64 // -1: not given
	Body  Body
	UTF8  bool
	Ret   Ret
	EnvID string // decoded from xtext
	// Auth is the AUTH= mailbox, decoded, "<>" for none; empty when not given.
	Auth string
	// Priority is MT-PRIORITY, from -9 to 9; HasPriority says that it was given.
	Priority    int8
	HasPriority bool
	// RequireTLS is REQUIRETLS: the message may only travel over TLS to servers that show who they are (RFC 8689).
	RequireTLS bool
	// Transit is XDOUBLET: what a server of the same domain says of a message that it hands on. Empty: not given.
	Transit string
}

// RcptParams are the parameters of RCPT.
type RcptParams struct {
	Notify Notify
	// ORcpt is the original recipient, "type;address", the address decoded from xtext.
	ORcpt string
	// Transit is XDOUBLET: who of the directory the recipient is, between servers of one domain. Empty: not given.
	Transit string
}

var (
	errParam = NewReply(501, 5, 5, 4, "Bad parameter")
	errTwice = NewReply(501, 5, 5, 4, "Parameter given twice")
	// ErrUnknownParam refuses a parameter that is not offered.
	ErrUnknownParam = NewReply(555, 5, 5, 4, "Parameter not recognized")
	errBinary       = NewReply(555, 5, 6, 1, "BINARYMIME is not offered")
	errMailFrom     = NewReply(501, 5, 5, 4, "Syntax: MAIL FROM:<address>")
	errRcptTo       = NewReply(501, 5, 5, 4, "Syntax: RCPT TO:<address>")
	errNullRcpt     = NewReply(501, 5, 1, 3, "The null address is not a recipient")
	errNoSMTPUTF    = NewReply(553, 5, 6, 7, "A non-ASCII address needs SMTPUTF8")
)

// ParseMail takes the argument of MAIL apart.
//
// Implements: RFC 5321 §4.1.1.2 MAIL
// Implements: RFC 1870 §4 SIZE parameter
// Implements: RFC 6152 §3 BODY parameter
// Implements: RFC 6531 §3.4 SMTPUTF8 parameter
// Implements: RFC 3461 §4.3 RET, §4.4 ENVID
// Implements: RFC 4954 §5 AUTH parameter
// Implements: RFC 6710 §3 MT-PRIORITY parameter
// Implements: RFC 8689 §2 REQUIRETLS parameter
func ParseMail(arg []byte) (from Path, m MailParams, bad *Reply) {
	m.Size = -1
	rest, ok := afterColon(arg, "FROM:")
	if !ok {
		return from, m, errMailFrom
	}
	from, rest, ok = parseAngle(rest)
	if !ok {
		return from, m, errSenderPath
	}
	if from.Domain == "" && from.Local != "" && !foldEq([]byte(from.Local), "POSTMASTER") {
		return from, m, errSenderPath
	}
	bad = eachParam(rest, func(key, value []byte) *Reply { return m.set(key, value) })
	if bad == nil && !m.UTF8 && !from.IsASCII() {
		bad = errNoSMTPUTF
	}
	return from, m, bad
}

// Set takes a parameter from a client that names it outside a command line: the value is as xtext decodes it (RFC 8621 section 7).
// What cannot stand in a command is refused as there.
func (m *MailParams) Set(name, value string) *Reply {
	encoded := []byte(value)
	if name == "ENVID" || name == "AUTH" {
		encoded = AppendXtext(nil, value)
	}
	return m.set([]byte(name), encoded)
}

// Set takes a parameter as MailParams.Set does.
func (r *RcptParams) Set(name, value string, utf8 bool) *Reply {
	encoded := []byte(value)
	if kind, address, ok := bytes.Cut(encoded, []byte{';'}); ok && name == "ORCPT" {
		encoded = AppendXtext(append(append([]byte(nil), kind...), ';'), string(address))
	}
	return r.set([]byte(name), encoded, utf8)
}

func (m *MailParams) set(key, value []byte) *Reply {
	ok, twice := true, false
	switch {
	case foldEq(key, "SIZE"):
		twice = m.Size >= 0
		if m.Size, ok = parseNumber(value); !ok {
			return errParam
		}
	case foldEq(key, "BODY"):
		twice = m.Body != BodyUnset
		switch {
		case foldEq(value, "7BIT"):
			m.Body = Body7Bit
		case foldEq(value, "8BITMIME"):
			m.Body = Body8BitMIME
		case foldEq(value, "BINARYMIME"):
			return errBinary
		default:
			return errParam
		}
	case foldEq(key, "SMTPUTF8"):
		twice, ok = m.UTF8, value == nil
		m.UTF8 = true
	case foldEq(key, "RET"):
		twice = m.Ret != RetUnset
		switch {
		case foldEq(value, "FULL"):
			m.Ret = RetFull
		case foldEq(value, "HDRS"):
			m.Ret = RetHeaders
		default:
			return errParam
		}
	case foldEq(key, "ENVID"):
		twice = m.EnvID != ""
		m.EnvID, ok = decodeXtext(value)
		ok = ok && len(m.EnvID) <= 100 && printable(m.EnvID)
	case foldEq(key, "AUTH"):
		twice = m.Auth != ""
		if m.Auth, ok = decodeXtext(value); ok && m.Auth != "<>" {
			_, n, valid := parseMailbox([]byte(m.Auth))
			ok = valid && n == len(m.Auth)
		}
	case foldEq(key, "MT-PRIORITY"):
		twice, m.HasPriority = m.HasPriority, true
		m.Priority, ok = parsePriority(value)
	case foldEq(key, "REQUIRETLS"):
		twice, ok = m.RequireTLS, value == nil
		m.RequireTLS = true
	case foldEq(key, ParamTransit):
		twice = m.Transit != ""
		m.Transit, ok = parseTransit(value)
	default:
		return ErrUnknownParam
	}
	switch {
	case twice:
		return errTwice
	case !ok:
		return errParam
	}
	return nil
}

// ParamTransit is the parameter of MAIL and RCPT between servers of one domain, and the keyword of EHLO that offers it. It is
// this program's own, and offered to nobody else.
const ParamTransit = "XDOUBLET"

// maxTransit bounds its value.
const maxTransit = 64

// parseTransit reads a word of letters, digits, dots and hyphens.
func parseTransit(b []byte) (string, bool) {
	for _, c := range b {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-') {
			return "", false
		}
	}
	return string(b), len(b) > 0 && len(b) <= maxTransit
}

// parsePriority reads a digit with or without a sign; 0 has none.
func parsePriority(b []byte) (int8, bool) {
	sign := int8(1)
	if len(b) == 2 && b[0] == '-' && b[1] != '0' {
		sign, b = -1, b[1:]
	}
	if len(b) != 1 || b[0] < '0' || b[0] > '9' {
		return 0, false
	}
	return sign * int8(b[0]-'0'), true
}

// ParseRcpt takes the argument of RCPT apart. utf8 says that MAIL had SMTPUTF8.
//
// Implements: RFC 5321 §4.1.1.3 RCPT
// Implements: RFC 3461 §4.1 NOTIFY, §4.2 ORCPT
func ParseRcpt(arg []byte, utf8 bool) (to Path, r RcptParams, bad *Reply) {
	rest, ok := afterColon(arg, "TO:")
	if !ok {
		return to, r, errRcptTo
	}
	to, rest, ok = parseAngle(rest)
	switch {
	case !ok:
		return to, r, errPath
	case to.IsNull():
		return to, r, errNullRcpt
	case !utf8 && !to.IsASCII():
		return to, r, errNoSMTPUTF
	}
	return to, r, eachParam(rest, func(key, value []byte) *Reply { return r.set(key, value, utf8) })
}

func (r *RcptParams) set(key, value []byte, utf8 bool) *Reply {
	switch {
	case foldEq(key, "NOTIFY"):
		if r.Notify != 0 {
			return errTwice
		}
		return r.setNotify(value)
	case foldEq(key, "ORCPT"):
		if r.ORcpt != "" {
			return errTwice
		}
		semi := bytes.IndexByte(value, ';')
		if semi <= 0 || len(value) > 500 {
			return errParam
		}
		for _, c := range value[:semi] {
			if !atext[c] || c >= 0x80 {
				return errParam
			}
		}
		addr, ok := string(value[semi+1:]), true
		// RFC 6533: with SMTPUTF8 an address of type utf-8 may come unencoded.
		if !(utf8 && foldEq(value[:semi], "UTF-8") && !isASCII(addr)) {
			addr, ok = decodeXtext(value[semi+1:])
		}
		if !ok || addr == "" || !printable(addr) {
			return errParam
		}
		r.ORcpt = string(value[:semi+1]) + addr
	case foldEq(key, ParamTransit):
		if r.Transit != "" {
			return errTwice
		}
		ok := false
		if r.Transit, ok = parseTransit(value); !ok {
			return errParam
		}
	default:
		return ErrUnknownParam
	}
	return nil
}

func (r *RcptParams) setNotify(value []byte) *Reply {
	if foldEq(value, "NEVER") {
		r.Notify = NotifyNever
		return nil
	}
	for len(value) > 0 {
		word, rest, more := bytes.Cut(value, []byte{','})
		if more && len(rest) == 0 {
			return errParam
		}
		switch {
		case foldEq(word, "SUCCESS"):
			r.Notify |= NotifySuccess
		case foldEq(word, "FAILURE"):
			r.Notify |= NotifyFailure
		case foldEq(word, "DELAY"):
			r.Notify |= NotifyDelay
		default:
			return errParam
		}
		value = rest
	}
	if r.Notify == 0 {
		return errParam
	}
	return nil
}

// afterColon takes "FROM:" or "TO:" off; spaces after the colon are common and harmless.
func afterColon(arg []byte, word string) ([]byte, bool) {
	if len(arg) < len(word) || !foldEq(arg[:len(word)], word) {
		return nil, false
	}
	return trim(arg[len(word):]), true
}

// maxParams bounds the parameters of one command.
const maxParams = 16

func eachParam(b []byte, set func(key, value []byte) *Reply) *Reply {
	if len(b) > 0 && b[0] != ' ' {
		return errParam
	}
	for range maxParams {
		if b = trim(b); len(b) == 0 {
			return nil
		}
		word := b
		if i := bytes.IndexByte(b, ' '); i >= 0 {
			word, b = b[:i], b[i:]
		} else {
			b = nil
		}
		key, value, has := bytes.Cut(word, []byte{'='})
		if !has {
			value = nil
		} else if len(value) == 0 {
			return errParam
		}
		if bad := set(key, value); bad != nil {
			return bad
		}
	}
	return errParam
}

// decodeXtext undoes RFC 3461 §4's xtext; ok is false for what is not xtext.
//
// Implements: RFC 3461 §4 xtext
func decodeXtext(b []byte) (string, bool) {
	if len(b) == 0 {
		return "", false
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '+' {
			if i+2 >= len(b) {
				return "", false
			}
			hi, ok1 := hexUpper(b[i+1])
			lo, ok2 := hexUpper(b[i+2])
			if !ok1 || !ok2 {
				return "", false
			}
			c = hi<<4 | lo
			i += 2
		} else if c <= ' ' || c >= 0x7f || c == '=' {
			return "", false
		}
		out = append(out, c)
	}
	return string(out), true
}

func hexUpper(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return validUTF8([]byte(s))
}

// AppendXtext adds s to dst as xtext.
func AppendXtext(dst []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || c == '+' || c == '=' {
			dst = append(dst, '+', hex[c>>4], hex[c&15])
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// AppendMail prints a MAIL line with its line end.
func AppendMail(dst []byte, from Path, m MailParams) []byte {
	dst = append(dst, "MAIL FROM:<"...)
	dst = append(from.Append(dst), '>')
	if m.Size > 0 {
		dst = append(dst, " SIZE="...)
		dst = strconv.AppendInt(dst, m.Size, 10)
	}
	if m.Body != BodyUnset {
		dst = append(append(dst, " BODY="...), m.Body.String()...)
	}
	if m.UTF8 {
		dst = append(dst, " SMTPUTF8"...)
	}
	if m.Ret != RetUnset {
		dst = append(append(dst, " RET="...), m.Ret.String()...)
	}
	if m.EnvID != "" {
		dst = AppendXtext(append(dst, " ENVID="...), m.EnvID)
	}
	if m.Auth != "" {
		dst = append(dst, " AUTH="...)
		dst = AppendXtext(dst, m.Auth)
	}
	if m.HasPriority {
		dst = strconv.AppendInt(append(dst, " MT-PRIORITY="...), int64(m.Priority), 10)
	}
	if m.RequireTLS {
		dst = append(dst, " REQUIRETLS"...)
	}
	if m.Transit != "" {
		dst = append(append(dst, " "+ParamTransit+"="...), m.Transit...)
	}
	return append(dst, '\r', '\n')
}

// AppendRcpt prints a RCPT line with its line end.
func AppendRcpt(dst []byte, to Path, r RcptParams) []byte {
	dst = append(dst, "RCPT TO:<"...)
	dst = append(to.Append(dst), '>')
	if r.Notify != 0 {
		dst = append(append(dst, " NOTIFY="...), r.Notify.String()...)
	}
	if i := bytes.IndexByte([]byte(r.ORcpt), ';'); i > 0 {
		dst = append(append(dst, " ORCPT="...), r.ORcpt[:i+1]...)
		dst = AppendXtext(dst, r.ORcpt[i+1:])
	}
	if r.Transit != "" {
		dst = append(append(dst, " "+ParamTransit+"="...), r.Transit...)
	}
	return append(dst, '\r', '\n')
}
