package jmap

import (
	"errors"
	"fmt"
)

// The capabilities (RFC 8620 section 9.4 and later RFCs).
const (
	Core             = "urn:ietf:params:jmap:core"
	Mail             = "urn:ietf:params:jmap:mail"
	SubmissionURN    = "urn:ietf:params:jmap:submission"
	VacationResponse = "urn:ietf:params:jmap:vacationresponse"
	Quota            = "urn:ietf:params:jmap:quota"
	Blob             = "urn:ietf:params:jmap:blob"
	MDN              = "urn:ietf:params:jmap:mdn"
	Contacts         = "urn:ietf:params:jmap:contacts"
	Calendars        = "urn:ietf:params:jmap:calendars"
	CalendarsParse   = "urn:ietf:params:jmap:calendars:parse"
	Availability     = "urn:ietf:params:jmap:principals:availability"
	Sieve            = "urn:ietf:params:jmap:sieve"
	Search           = "urn:doublet:jmap:search" // of this server: doc/jmap.md
	Recipients       = "urn:doublet:jmap:recipients"
	Senders          = "urn:doublet:jmap:senders"
	Snooze           = "urn:doublet:jmap:snooze"
	Recovery         = "urn:doublet:jmap:recovery"
	Preferences      = "urn:doublet:jmap:preferences"
	Feeds            = "urn:doublet:jmap:feeds"
	Tasks            = "urn:ietf:params:jmap:tasks"
	Rooms            = "urn:doublet:jmap:rooms"
	Rules            = "urn:doublet:jmap:rules"
	Principals       = "urn:ietf:params:jmap:principals"
	WebSocket        = "urn:ietf:params:jmap:websocket"
	WebPushVAPID     = "urn:ietf:params:jmap:webpush-vapid"
)

// Call is a method call of a request.
type Call struct {
	Name string
	Args *Value // an object
	ID   string
}

// Request is a Request object (RFC 8620 section 3.3).
type Request struct {
	Using      []string
	Calls      []Call
	CreatedIDs map[string]string // nil if the request has none
}

// ParseRequest parses a request with at most maxCalls calls. The error is a *Problem.
//
// Implements: RFC 8620 §3.3 The Request object
func ParseRequest(text string, maxCalls int) (*Request, error) {
	v, err := Parse(text, Bounds{})
	if errors.Is(err, ErrBounds) {
		return nil, &Problem{Type: ProblemLimit, Status: 400, Limit: "maxSizeRequest",
			Detail: "The request holds more values, or nests them deeper, than this server reads."}
	}
	if err != nil {
		return nil, &Problem{Type: ProblemNotJSON, Status: 400, Detail: "The request is " + err.Error() + "."}
	}
	r, why := readRequest(v)
	if why != "" {
		return nil, &Problem{Type: ProblemNotRequest, Status: 400,
			Detail: "The request is not a Request object: " + why + "."}
	}
	if len(r.Calls) > maxCalls {
		return nil, &Problem{Type: ProblemLimit, Status: 400, Limit: "maxCallsInRequest",
			Detail: fmt.Sprintf("The request has %d method calls.", len(r.Calls))}
	}
	return r, nil
}

func readRequest(v *Value) (*Request, string) {
	r := &Request{}
	if v.Kind() != Object {
		return nil, "it is " + v.Kind().String()
	}
	using := v.Get("using")
	if using.Kind() != Array {
		return nil, "using is no array"
	}
	for i := range using.Len() {
		s, ok := using.At(i).Text()
		if !ok {
			return nil, "using holds something else than strings"
		}
		r.Using = append(r.Using, s)
	}
	calls := v.Get("methodCalls")
	if calls.Kind() != Array {
		return nil, "methodCalls is no array"
	}
	r.Calls = make([]Call, 0, calls.Len())
	for i := range calls.Len() {
		c, ok := readCall(calls.At(i))
		if !ok {
			return nil, fmt.Sprintf("method call %d is not a name, arguments and an id", i)
		}
		r.Calls = append(r.Calls, c)
	}
	created := v.Get("createdIds")
	if created.IsNull() {
		return r, ""
	}
	if created.Kind() != Object {
		return nil, "createdIds is no object"
	}
	r.CreatedIDs = make(map[string]string, created.Len())
	for i := range created.Len() {
		id, ok := created.At(i).Text()
		if !ok || !ValidID(id) || !ValidID(created.Name(i)) {
			return nil, "createdIds holds something else than ids"
		}
		r.CreatedIDs[created.Name(i)] = id
	}
	return r, ""
}

// The types of request-level errors (RFC 8620 section 3.6.1).
const (
	ProblemUnknownCapability = "urn:ietf:params:jmap:error:unknownCapability"
	ProblemNotJSON           = "urn:ietf:params:jmap:error:notJSON"
	ProblemNotRequest        = "urn:ietf:params:jmap:error:notRequest"
	ProblemLimit             = "urn:ietf:params:jmap:error:limit"
	ProblemBlank             = "about:blank"
)

// Problem is a request-level error: a problem details object (RFC 7807).
//
// Implements: RFC 8620 §3.6.1 Request-level errors
type Problem struct {
	Type   string
	Status int // HTTP status
	Title  string
	Detail string
	Limit  string // name of the limit, for ProblemLimit
}

func (p *Problem) Error() string {
	s := "jmap: " + p.Type
	if p.Limit != "" {
		s += " " + p.Limit
	}
	if p.Detail != "" {
		s += ": " + p.Detail
	}
	return s
}

// Append appends the problem's members, without the braces.
func (p *Problem) Append(dst []byte) []byte {
	dst = AppendString(append(dst, `"type":`...), p.Type)
	dst = AppendUint(append(dst, `,"status":`...), uint64(p.Status))
	for _, m := range [...]struct{ name, value string }{{"title", p.Title}, {"detail", p.Detail}, {"limit", p.Limit}} {
		if m.value != "" {
			dst = append(append(append(dst, `,"`...), m.name...), `":`...)
			dst = AppendString(dst, m.value)
		}
	}
	return dst
}

// Error is a method-level error or a SetError (RFC 8620 sections 3.6.2 and 5.3): a type and further members.
//
// Implements: RFC 8620 §3.6.2 Method-level errors
// Implements: RFC 8620 §5.3 SetError
type Error struct {
	Type        string
	Description string
	Properties  []string // for invalidProperties
	ExistingID  string   // for alreadyExists
	Limit       uint64   // value of the member LimitName, for tooLarge and similar types
	LimitName   string
	NotFound    []string // for blobNotFound
	Recipients  []string // for invalidRecipients
}

func (e *Error) Error() string {
	if e.Description == "" {
		return "jmap: " + e.Type
	}
	return "jmap: " + e.Type + ": " + e.Description
}

// Append appends the error as an object.
func (e *Error) Append(dst []byte) []byte {
	dst = AppendString(append(dst, `{"type":`...), e.Type)
	if e.Description != "" {
		dst = AppendString(append(dst, `,"description":`...), e.Description)
	}
	for _, l := range [...]struct {
		name string
		list []string
	}{{"properties", e.Properties}, {"notFound", e.NotFound}, {"invalidRecipients", e.Recipients}} {
		if l.list != nil {
			dst = append(append(append(dst, `,"`...), l.name...), `":`...)
			dst = AppendStrings(dst, l.list)
		}
	}
	if e.ExistingID != "" {
		dst = AppendString(append(dst, `,"existingId":`...), e.ExistingID)
	}
	if e.LimitName != "" {
		dst = append(append(append(dst, `,"`...), e.LimitName...), `":`...)
		dst = AppendUint(dst, e.Limit)
	}
	return append(dst, '}')
}

// AppendStrings appends an array of strings.
func AppendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, s)
	}
	return append(dst, ']')
}
