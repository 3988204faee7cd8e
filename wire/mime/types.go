// Package mime parses Internet messages (RFC 5322, RFC 2045 to 2049, RFC 2231, RFC 6532): the tree of parts with byte
// offsets, the envelope, decoded text. It works on one []byte that holds the message as CRLF lines and allocates
// little. It never fails on malformed mail, but returns the text that a mail program would show. It never exceeds its
// limits.
package mime

// Address is one entry of an address list, in the form of IMAP's ENVELOPE (RFC 9051 section 7.5.2). Strings are raw:
// encoded words (RFC 2047) are not decoded. A group is a start marker {Mailbox: display name, Host: ""} with Group set,
// its members, and an end marker with Group set and all other fields empty.
//
// Route is an obsolete source route (RFC 5322 section 4.4) without the final colon: "@a.example,@b.example".
type Address struct {
	Name, Mailbox, Host string
	Route               string
	Group               bool
}

// Envelope holds the header fields for lists and threads. Strings are unfolded raw values.
type Envelope struct {
	Date, Subject, InReplyTo, MessageID string
	// Has distinguishes empty fields from absent ones.
	Has                                Field
	From, Sender, ReplyTo, To, Cc, Bcc []Address
	// References holds the message IDs of the References field in order, with angle brackets.
	References []string
}

// Field is a set of header fields.
type Field uint8

// The fields whose presence is recorded.
const (
	HasDate Field = 1 << iota
	HasSubject
	HasInReplyTo
	HasMessageID
)

// Param is one MIME parameter. The name is in lower case, the value is decoded (RFC 2231 continuations and charsets).
type Param struct{ Name, Value string }

// Part is one node of the tree of parts. Offsets are byte positions in the message.
type Part struct {
	// Type and Subtype are in lower case: "text", "plain".
	Type, Subtype string
	Params        []Param
	// ID, Description, MD5 and Location are unfolded raw field values.
	ID, Description, MD5, Location string
	// Encoding is the Content-Transfer-Encoding in lower case; "7bit" if absent.
	Encoding          string
	Disposition       string // lower case; "" if absent
	DispositionParams []Param
	Language          []string

	// HeaderStart ≤ BodyStart ≤ BodyEnd. The header includes its empty line. The body excludes the line break that
	// belongs to the following boundary.
	HeaderStart, BodyStart, BodyEnd int
	// Lines is the number of line breaks in the body.
	Lines int

	// Children holds the parts of a multipart, or the one message in a message/rfc822 or message/global part.
	Children []*Part
	// Envelope is set for the root and for the message in a message/rfc822 part.
	Envelope *Envelope
}

// IsMultipart reports whether the part is a multipart.
func (p *Part) IsMultipart() bool { return p.Type == "multipart" }

// IsMessage reports whether the part contains a parsed message.
func (p *Part) IsMessage() bool {
	return p.Type == "message" && (p.Subtype == "rfc822" || p.Subtype == "global") && len(p.Children) == 1
}
