// Package ldap parses the requests of LDAP version 3 and prints the responses (RFC 4511). It reads a message that is
// complete in memory, copies what it keeps, and bounds depth and number of elements, so that a message never takes
// more than a small multiple of its size.
package ldap

import "fmt"

// Op is an operation: the application tag of its request or response.
type Op uint8

// The operations (RFC 4511 section 4.2 to 4.14).
const (
	OpBind             Op = 0x60
	OpBindResponse     Op = 0x61
	OpUnbind           Op = 0x42
	OpSearch           Op = 0x63
	OpSearchEntry      Op = 0x64
	OpSearchDone       Op = 0x65
	OpModify           Op = 0x66
	OpModifyResponse   Op = 0x67
	OpAdd              Op = 0x68
	OpAddResponse      Op = 0x69
	OpDelete           Op = 0x4a
	OpDeleteResponse   Op = 0x6b
	OpModifyDN         Op = 0x6c
	OpModifyDNResponse Op = 0x6d
	OpCompare          Op = 0x6e
	OpCompareResponse  Op = 0x6f
	OpAbandon          Op = 0x50
	OpExtended         Op = 0x77
	OpExtendedResponse Op = 0x78
	OpIntermediate     Op = 0x79
)

// Response returns the response of a request, 0 for a request without one and for other operations.
func (o Op) Response() Op {
	switch o {
	case OpBind, OpModify, OpAdd, OpModifyDN, OpCompare, OpExtended:
		return o + 1
	case OpSearch:
		return OpSearchDone
	case OpDelete:
		return OpDeleteResponse
	}
	return 0
}

// maxControls is the maximum number of controls of a message, and maxAttributes that of attributes of a search.
const (
	maxControls   = 16
	maxAttributes = 512
)

// Message is a request.
type Message struct {
	ID int
	Op Op
	// Body is the content of the operation, in the memory of the message.
	Body     []byte
	Controls []Control
}

// Control extends a request or a response (RFC 4511 section 4.1.11).
type Control struct {
	OID      string
	Critical bool
	Value    []byte
	// Valued reports that there is a value, which may be empty.
	Valued bool
}

// Parse parses a complete message. The memory of b is used by the message.
//
// Implements: RFC 4511 §4.1.1 Message envelope
func Parse(b []byte) (Message, error) {
	outer := reader{b: b}
	in := outer.sequence()
	if err := outer.end(); err != nil {
		return Message{}, err
	}
	m := Message{ID: in.number(tagInteger)}
	var tag byte
	tag, m.Body = in.any()
	m.Op = Op(tag)
	if in.peek() == 0xa0 {
		_, c := in.any()
		if err := m.controls(c); err != nil {
			return m, err
		}
	}
	// Elements after the known ones are ignored: the sequence is extensible (section 4).
	return m, in.err
}

// controls parses the controls of a message.
//
// Implements: RFC 4511 §4.1.11 Controls
func (m *Message) controls(b []byte) error {
	r := reader{b: b}
	for r.more() {
		one := r.sequence()
		c := Control{OID: one.text()}
		if one.peek() == tagBoolean {
			c.Critical = one.bool()
		}
		if one.peek() == tagOctets {
			c.Value, c.Valued = one.get(tagOctets), true
		}
		if err := one.end(); err != nil {
			return err
		}
		if m.Controls = append(m.Controls, c); len(m.Controls) > maxControls {
			return malformed(fmt.Sprintf("more than %d controls", maxControls))
		}
	}
	return r.err
}

// Bind is a bind request. Mechanism is "" for simple authentication.
type Bind struct {
	Version   int
	Name      string
	Password  string // of simple authentication
	Mechanism string
	// Credentials of SASL are nil if there are none.
	Credentials []byte
}

// ParseBind parses the body of a bind request. A choice of authentication other than simple and SASL is ErrMethod.
//
// Implements: RFC 4511 §4.2 Bind operation
func ParseBind(body []byte) (Bind, error) {
	r := reader{b: body}
	q := Bind{Version: r.number(tagInteger), Name: r.text()}
	tag, c := r.any()
	switch {
	case r.err != nil:
		return q, r.err
	case tag == 0x80:
		q.Password = string(c)
	case tag == 0xa3:
		in := reader{b: c}
		if q.Mechanism = in.text(); in.err == nil && q.Mechanism == "" {
			return q, malformed("SASL mechanism is empty")
		}
		if in.peek() == tagOctets {
			q.Credentials = append([]byte{}, in.get(tagOctets)...)
		}
		if err := in.end(); err != nil {
			return q, err
		}
	default:
		return q, ErrMethod
	}
	return q, r.end()
}

// ErrMethod reports an authentication choice that is neither simple nor SASL.
var ErrMethod = fmt.Errorf("ldap: authentication method is neither simple nor SASL")

// Scope of a search.
type Scope int

// The scopes (RFC 4511 section 4.5.1.2).
const (
	ScopeBase Scope = iota
	ScopeOne
	ScopeSubtree
)

// Search is a search request.
type Search struct {
	Base  string
	Scope Scope
	// SizeLimit is in entries, TimeLimit in seconds; 0 is none.
	SizeLimit, TimeLimit int
	TypesOnly            bool
	Filter               Filter
	Attributes           []string
}

// ParseSearch parses the body of a search request. It returns ErrFilter for a filter that is too large.
//
// Implements: RFC 4511 §4.5.1 Search request
func ParseSearch(body []byte) (Search, error) {
	r := reader{b: body}
	q := Search{Base: r.text()}
	scope, deref := r.number(tagEnumerated), r.number(tagEnumerated)
	q.Scope = Scope(scope)
	q.SizeLimit, q.TimeLimit, q.TypesOnly = r.number(tagInteger), r.number(tagInteger), r.bool()
	if r.err == nil && (q.Scope > ScopeSubtree || deref > 3) {
		return q, malformed("scope or derefAliases is out of range")
	}
	q.Filter = new(filterReader).parse(&r, 1)
	list := r.sequence()
	for list.more() {
		if q.Attributes = append(q.Attributes, list.text()); len(q.Attributes) > maxAttributes {
			return q, malformed(fmt.Sprintf("more than %d attributes", maxAttributes))
		}
	}
	if list.err != nil {
		return q, list.err
	}
	return q, r.end()
}

// AppendSearch appends the body of a search request.
func AppendSearch(dst []byte, q *Search) []byte {
	dst = appendText(dst, tagOctets, q.Base)
	dst = appendNumber(appendNumber(dst, tagEnumerated, int(q.Scope)), tagEnumerated, 0)
	dst = appendNumber(appendNumber(dst, tagInteger, q.SizeLimit), tagInteger, q.TimeLimit)
	dst = appendBool(dst, q.TypesOnly)
	dst = AppendFilter(dst, &q.Filter)
	dst, at := open(dst, tagSequence)
	for _, a := range q.Attributes {
		dst = appendText(dst, tagOctets, a)
	}
	return shut(dst, at)
}

func appendBool(dst []byte, on bool) []byte {
	if on {
		return append(dst, tagBoolean, 1, 0xff)
	}
	return append(dst, tagBoolean, 1, 0)
}

// AppendRequest appends a message that holds a request without controls.
func AppendRequest(dst []byte, id int, op Op, body []byte) []byte {
	dst, at := open(dst, tagSequence)
	dst = appendNumber(dst, tagInteger, id)
	dst, in := open(dst, byte(op))
	return shut(shut(append(dst, body...), in), at)
}

// Compare is a compare request.
type Compare struct{ Name, Type, Value string }

// ParseCompare parses the body of a compare request.
//
// Implements: RFC 4511 §4.10 Compare operation
func ParseCompare(body []byte) (Compare, error) {
	r := reader{b: body}
	q := Compare{Name: r.text()}
	in := r.sequence()
	q.Type, q.Value = in.text(), in.text()
	if err := in.end(); err != nil {
		return q, err
	}
	return q, r.end()
}

// Extended is an extended request. Value is nil if there is none.
type Extended struct {
	OID   string
	Value []byte
}

// ParseExtended parses the body of an extended request.
//
// Implements: RFC 4511 §4.12 Extended operation
func ParseExtended(body []byte) (Extended, error) {
	r := reader{b: body}
	q := Extended{OID: string(r.get(0x80))}
	if r.peek() == 0x81 {
		q.Value = append([]byte{}, r.get(0x81)...)
	}
	return q, r.end()
}

// ParseAbandon parses the body of an abandon request: the id of the message to abandon.
//
// Implements: RFC 4511 §4.11 Abandon operation
func ParseAbandon(body []byte) (int, error) {
	n, ok := parseNumber(body)
	if !ok {
		return 0, malformed("number is not from 0 to 2^31-1")
	}
	return n, nil
}

// ParseCancel parses the value of a cancel request: the id of the message to cancel.
//
// Implements: RFC 3909 §2.1 Cancel request
func ParseCancel(value []byte) (int, error) {
	outer := reader{b: value}
	in := outer.sequence()
	id := in.number(tagInteger)
	if err := in.end(); err != nil {
		return 0, err
	}
	return id, outer.end()
}

// PasswordModify is the value of a password modify request. Empty fields are absent.
type PasswordModify struct{ User, Old, New string }

// ParsePasswordModify parses the value of a password modify request, which may be nil.
//
// Implements: RFC 3062 §2 Password modify request
func ParsePasswordModify(value []byte) (q PasswordModify, err error) {
	if value == nil {
		return q, nil
	}
	outer := reader{b: value}
	in := outer.sequence()
	for _, x := range []struct {
		tag byte
		to  *string
	}{{0x80, &q.User}, {0x81, &q.Old}, {0x82, &q.New}} {
		if in.peek() == x.tag {
			*x.to = string(in.get(x.tag))
		}
	}
	if err := in.end(); err != nil {
		return q, err
	}
	return q, outer.end()
}

// AppendGeneratedPassword appends the value of a password modify response.
func AppendGeneratedPassword(dst []byte, password string) []byte {
	dst, at := open(dst, tagSequence)
	return shut(appendText(dst, 0x80, password), at)
}
