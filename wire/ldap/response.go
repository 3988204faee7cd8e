package ldap

// Code is a result code (RFC 4511 appendix A).
type Code int

// The result codes that the server sends.
const (
	Success                      Code = 0
	OperationsError              Code = 1
	ProtocolError                Code = 2
	TimeLimitExceeded            Code = 3
	SizeLimitExceeded            Code = 4
	CompareFalse                 Code = 5
	CompareTrue                  Code = 6
	AuthMethodNotSupported       Code = 7
	StrongerAuthRequired         Code = 8
	AdminLimitExceeded           Code = 11
	UnavailableCriticalExtension Code = 12
	ConfidentialityRequired      Code = 13
	SaslBindInProgress           Code = 14
	NoSuchAttribute              Code = 16
	UndefinedAttributeType       Code = 17
	InappropriateMatching        Code = 18
	ConstraintViolation          Code = 19
	InvalidAttributeSyntax       Code = 21
	NoSuchObject                 Code = 32
	InvalidDNSyntax              Code = 34
	InvalidCredentials           Code = 49
	InsufficientAccessRights     Code = 50
	Busy                         Code = 51
	Unavailable                  Code = 52
	UnwillingToPerform           Code = 53
	Other                        Code = 80
	NoSuchOperation              Code = 119
)

// Result is the result of an operation.
type Result struct {
	Code    Code
	Matched string // DN
	Text    string
	// Op is the response. OID and Value belong to an extended response, Credentials to a bind response.
	Op          Op
	OID         string
	Value       []byte
	Credentials []byte
	Controls    []Control
}

// AppendResult appends a message with a result.
//
// Implements: RFC 4511 §4.1.9 Result message
func AppendResult(dst []byte, id int, r *Result) []byte {
	dst, at := open(dst, tagSequence)
	dst = appendNumber(dst, tagInteger, id)
	dst, in := open(dst, byte(r.Op))
	dst = appendNumber(dst, tagEnumerated, int(r.Code))
	dst = appendText(appendText(dst, tagOctets, r.Matched), tagOctets, r.Text)
	if r.Credentials != nil {
		dst = appendText(dst, 0x87, string(r.Credentials))
	}
	if r.OID != "" {
		dst = appendText(dst, 0x8a, r.OID)
	}
	if r.Value != nil {
		dst = appendText(dst, 0x8b, string(r.Value))
	}
	return shut(appendControls(shut(dst, in), r.Controls), at)
}

func appendControls(dst []byte, list []Control) []byte {
	if len(list) == 0 {
		return dst
	}
	dst, at := open(dst, 0xa0)
	for i := range list {
		c := &list[i]
		var in int
		dst, in = open(dst, tagSequence)
		dst = appendText(dst, tagOctets, c.OID)
		if c.Critical {
			dst = appendBool(dst, true)
		}
		if c.Valued {
			dst = appendText(dst, tagOctets, string(c.Value))
		}
		dst = shut(dst, in)
	}
	return shut(dst, at)
}

// Entry prints a search result entry: NewEntry, for each attribute Type and its Values, then End.
type Entry struct {
	dst                       []byte
	message, op, list, in, of int
	opened                    bool
}

// NewEntry begins an entry at the end of dst.
//
// Implements: RFC 4511 §4.5.2 Search result
func NewEntry(dst []byte, id int, dn string) Entry {
	e := Entry{dst: dst}
	e.dst, e.message = open(e.dst, tagSequence)
	e.dst = appendNumber(e.dst, tagInteger, id)
	e.dst, e.op = open(e.dst, byte(OpSearchEntry))
	e.dst = appendText(e.dst, tagOctets, dn)
	e.dst, e.list = open(e.dst, tagSequence)
	return e
}

// Type begins an attribute.
func (e *Entry) Type(name string) {
	e.shutAttribute()
	e.dst, e.in = open(e.dst, tagSequence)
	e.dst = appendText(e.dst, tagOctets, name)
	e.dst, e.of = open(e.dst, tagSet)
	e.opened = true
}

// Value adds a value to the attribute.
func (e *Entry) Value(s string) { e.dst = appendText(e.dst, tagOctets, s) }

func (e *Entry) shutAttribute() {
	if e.opened {
		e.dst = shut(shut(e.dst, e.of), e.in)
		e.opened = false
	}
}

// End ends the entry and returns the extended buffer. The entry has the given controls.
func (e *Entry) End(controls ...Control) []byte {
	e.shutAttribute()
	return shut(appendControls(shut(shut(e.dst, e.list), e.op), controls), e.message)
}
