package smtp

import (
	"bytes"
	"strconv"
)

// Body is the value of the BODY parameter.
type Body uint8

// Values of BODY. The parser rejects BINARYMIME, because it is not offered.
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

// Ret is the value of the RET parameter: the part of the message that a failure report returns.
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

// Notify is the set in the NOTIFY parameter.
type Notify uint8

// Members of NOTIFY. An empty set means that the parameter was not given.
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

// MailParams holds the parameters of MAIL.
type MailParams struct {
	Size  int64 // -1: not given
	Body  Body
	UTF8  bool
	Ret   Ret
	EnvID string // decoded from xtext
	// Auth is the mailbox of AUTH=, decoded; "<>" for none, "" if not given.
	Auth string
	// Priority is MT-PRIORITY, from -9 to 9. HasPriority is set if it was given.
	Priority    int8
	HasPriority bool
	// RequireTLS is REQUIRETLS: the message may be sent only over TLS, to authenticated servers (RFC 8689).
	RequireTLS bool
	// Transit is XDOUBLET: information about a message that servers of the same domain pass on. It is "" if not given.
	Transit string
}

// RcptParams holds the parameters of RCPT.
type RcptParams struct {
	Notify Notify
	// ORcpt is the original recipient, "type;address", with the address decoded from xtext.
	ORcpt string
	// Transit is XDOUBLET: the recipient's entry in the directory, between servers of one domain. It is "" if not
	// given.
	Transit string
}

var (
	errParam = NewReply(501, 5, 5, 4, "Bad parameter")
	errTwice = NewReply(501, 5, 5, 4, "Parameter given twice")
	// ErrUnknownParam rejects a parameter that is not offered.
	ErrUnknownParam = NewReply(555, 5, 5, 4, "Parameter not recognized")
	errBinary       = NewReply(555, 5, 6, 1, "BINARYMIME is not offered")
	errMailFrom     = NewReply(501, 5, 5, 4, "Syntax: MAIL FROM:<address>")
	errRcptTo       = NewReply(501, 5, 5, 4, "Syntax: RCPT TO:<address>")
	errNullRcpt     = NewReply(501, 5, 1, 3, "The null address is not a recipient")
	errNoSMTPUTF    = NewReply(553, 5, 6, 7, "A non-ASCII address needs SMTPUTF8")
)

// ParseMail parses the argument of MAIL.
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

// Set sets a parameter that a client gives outside a command line, for example in JMAP. The value is not encoded as
// xtext (RFC 8621 section 7). It returns an error for values that a command could not contain.
func (m *MailParams) Set(name, value string) *Reply {
	encoded := []byte(value)
	if name == "ENVID" || name == "AUTH" {
		encoded = AppendXtext(nil, value)
	}
	return m.set([]byte(name), encoded)
}

// Set sets a parameter like MailParams.Set.
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
		return m.setBody(value)
	case foldEq(key, "SMTPUTF8"):
		twice, ok = m.UTF8, value == nil
		m.UTF8 = true
	case foldEq(key, "RET"):
		twice = m.Ret != RetUnset
		if m.Ret, ok = parseRet(value); !ok {
			return errParam
		}
	case foldEq(key, "ENVID"):
		twice = m.EnvID != ""
		m.EnvID, ok = parseEnvID(value)
	case foldEq(key, "AUTH"):
		twice = m.Auth != ""
		m.Auth, ok = parseAuth(value)
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

func (m *MailParams) setBody(value []byte) *Reply {
	if foldEq(value, "BINARYMIME") {
		return errBinary
	}
	body, ok := parseBody(value)
	switch {
	case !ok:
		return errParam
	case m.Body != BodyUnset:
		return errTwice
	}
	m.Body = body
	return nil
}

func parseEnvID(value []byte) (id string, ok bool) {
	id, ok = decodeXtext(value)
	return id, ok && len(id) <= 100 && printable(id)
}

// parseAuth parses the mailbox of AUTH=, or "<>".
func parseAuth(value []byte) (mailbox string, ok bool) {
	mailbox, ok = decodeXtext(value)
	if !ok || mailbox == "<>" {
		return mailbox, ok
	}
	_, n, ok := parseMailbox([]byte(mailbox))
	return mailbox, ok && n == len(mailbox)
}

func parseBody(value []byte) (b Body, ok bool) {
	switch {
	case foldEq(value, "7BIT"):
		return Body7Bit, true
	case foldEq(value, "8BITMIME"):
		return Body8BitMIME, true
	}
	return BodyUnset, false
}

func parseRet(value []byte) (r Ret, ok bool) {
	switch {
	case foldEq(value, "FULL"):
		return RetFull, true
	case foldEq(value, "HDRS"):
		return RetHeaders, true
	}
	return RetUnset, false
}

// ParamTransit is the parameter of MAIL and RCPT between servers of one domain, and the EHLO keyword that offers it. It
// is specific to Doublet and offered only to servers of the domain.
const ParamTransit = "XDOUBLET"

// maxTransit is the maximum length of its value.
const maxTransit = 64

// parseTransit parses a word of letters, digits, dots and hyphens.
func parseTransit(b []byte) (string, bool) {
	for _, c := range b {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-') {
			return "", false
		}
	}
	return string(b), len(b) > 0 && len(b) <= maxTransit
}

// parsePriority parses a digit with an optional sign. 0 has no sign.
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

// ParseRcpt parses the argument of RCPT. utf8 must be set if MAIL had SMTPUTF8.
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
		ok := false
		if r.ORcpt, ok = parseORcpt(value, utf8); !ok {
			return errParam
		}
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

// parseORcpt parses an original recipient: the type of the address, a semicolon, and the address in xtext.
func parseORcpt(value []byte, utf8 bool) (original string, ok bool) {
	semi := bytes.IndexByte(value, ';')
	if semi <= 0 || len(value) > 500 {
		return "", false
	}
	for _, c := range value[:semi] {
		if !atext[c] || c >= 0x80 {
			return "", false
		}
	}
	addr, ok := string(value[semi+1:]), true
	// RFC 6533: with SMTPUTF8 an address of type utf-8 may come unencoded.
	if !(utf8 && foldEq(value[:semi], "UTF-8") && !isASCII(addr)) {
		addr, ok = decodeXtext(value[semi+1:])
	}
	if !ok || addr == "" || !printable(addr) {
		return "", false
	}
	return string(value[:semi+1]) + addr, true
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

// afterColon removes "FROM:" or "TO:". It accepts spaces after the colon, which are common and harmless.
func afterColon(arg []byte, word string) ([]byte, bool) {
	if len(arg) < len(word) || !foldEq(arg[:len(word)], word) {
		return nil, false
	}
	return trim(arg[len(word):]), true
}

// maxParams is the maximum number of parameters of one command.
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

// decodeXtext decodes xtext (RFC 3461 section 4). ok is false if b is not valid xtext.
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

// AppendXtext appends s encoded as xtext.
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

// AppendMail appends a MAIL line with its line end.
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

// AppendRcpt appends a RCPT line with its line end.
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
