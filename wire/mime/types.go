// Package mime reads internet messages (RFC 5322, 2045–2049, 2231, 6532): the tree of parts with
// byte offsets, the envelope, decoded text. It works on one []byte that holds the message as CRLF
// lines, allocates little, never fails on broken mail (it says what a mail program would see) and
// never looks deeper than its limits.
package mime

// Address is one entry of an address list in the form that IMAP's ENVELOPE knows
// (RFC 9051 section 7.5.2). Strings are raw: encoded words (RFC 2047) stay as they came.
// A group is a start marker {Mailbox: display name, Host: ""} with Group set, its members, and an
// end marker with Group set and everything else empty.
//
// Route is an obsolete source route (RFC 5322 section 4.4) without the colon at its end: "@a.example,@b.example".
type Address struct {
	Name, Mailbox, Host string
	Route               string
	Group               bool
}

// Envelope holds the header fields that lists and threads need. Strings are unfolded, raw values.
type Envelope struct {
	Date, Subject, InReplyTo, MessageID string
	// Has tells an empty field from an absent one.
	Has                                Field
	From, Sender, ReplyTo, To, Cc, Bcc []Address
	// References holds the message ids of the References field in order, angle brackets included.
	References []string
}

// Field is a set of header fields.
type Field uint8

// The fields for which presence matters.
const (
	HasDate Field = 1 << iota
	HasSubject
	HasInReplyTo
	HasMessageID
)

// Param is one MIME parameter, name in lower case, value decoded (RFC 2231 continuations and
// charsets resolved to UTF-8).
type Param struct{ Name, Value string }

// Part is one node of the tree of parts. Offsets are byte positions in the message.
type Part struct {
	// Type and Subtype in lower case: "text", "plain".
	Type, Subtype string
	Params        []Param
	// ID and Description are raw field values, without folding. MD5, Location likewise.
	ID, Description, MD5, Location string
	// Encoding is the Content-Transfer-Encoding in lower case; "7bit" where absent.
	Encoding          string
	Disposition       string // lower case; "" where absent
	DispositionParams []Param
	Language          []string

	// HeaderStart ≤ BodyStart ≤ BodyEnd. The header includes its empty line; the body excludes the
	// line break that belongs to the boundary behind it.
	HeaderStart, BodyStart, BodyEnd int
	// Lines is the number of line breaks in the body.
	Lines int

	// Children: the parts of a multipart; or the one message inside a message/rfc822 or
	// message/global part.
	Children []*Part
	// Envelope is set for the root and for the message inside a message/rfc822 part.
	Envelope *Envelope
}

// IsMultipart says whether the part is a multipart.
func (p *Part) IsMultipart() bool { return p.Type == "multipart" }

// IsMessage says whether the part holds a parsed message.
func (p *Part) IsMessage() bool {
	return p.Type == "message" && (p.Subtype == "rfc822" || p.Subtype == "global") && len(p.Children) == 1
}
