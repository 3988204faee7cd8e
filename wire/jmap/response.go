package jmap

import "fmt"

// Reference refers to a value in the response to an earlier call of a request (RFC 8620 section 3.7).
type Reference struct {
	ResultOf, Name, Path string
}

// Append appends the reference as an object.
func (r *Reference) Append(dst []byte) []byte {
	w := NewWriter(dst)
	w.Text("resultOf", r.ResultOf)
	w.Text("name", r.Name)
	w.Text("path", r.Path)
	return w.End()
}

// Response is a Response object (RFC 8620 section 3.4).
type Response struct {
	// Calls holds the method responses in order. One that failed has the name MethodError; ReadError reads its
	// arguments.
	Calls        []Call
	CreatedIDs   map[string]string // nil if the response has none
	SessionState string
}

// MethodError is the name of the response to a call that failed.
const MethodError = "error"

// ParseResponse parses a response. The error wraps ErrSyntax or ErrBounds.
//
// Implements: RFC 8620 §3.4 The Response object, as a client
func ParseResponse(text string, b Bounds) (*Response, error) {
	v, err := Parse(text, b)
	if err != nil {
		return nil, err
	}
	return ReadResponse(v)
}

// ReadResponse is ParseResponse for a parsed value.
func ReadResponse(v *Value) (*Response, error) {
	calls := v.Get("methodResponses")
	if v.Kind() != Object || calls.Kind() != Array {
		return nil, fmt.Errorf("%w: no Response object", ErrSyntax)
	}
	r := &Response{Calls: make([]Call, 0, calls.Len())}
	for i := range calls.Len() {
		c, ok := readCall(calls.At(i))
		if !ok {
			return nil, fmt.Errorf("%w: method response %d is not a name, arguments and an id", ErrSyntax, i)
		}
		r.Calls = append(r.Calls, c)
	}
	r.SessionState, _ = v.Get("sessionState").Text()
	created := v.Get("createdIds")
	if created.IsNull() {
		return r, nil
	}
	r.CreatedIDs = make(map[string]string, created.Len())
	for i := range created.Len() {
		id, ok := created.At(i).Text()
		if !ok {
			return nil, fmt.Errorf("%w: createdIds holds something else than ids", ErrSyntax)
		}
		r.CreatedIDs[created.Name(i)] = id
	}
	return r, nil
}

// readCall reads an invocation: a name, arguments and an id.
func readCall(v *Value) (c Call, ok bool) {
	if v.Kind() != Array || v.Len() != 3 {
		return c, false
	}
	name, ok := v.At(0).Text()
	id, ok2 := v.At(2).Text()
	return Call{Name: name, Args: v.At(1), ID: id}, ok && ok2 && v.At(1).Kind() == Object
}

// ReadError reads a method-level error or a SetError. If it has no type, the type is serverFail.
func ReadError(v *Value) *Error {
	e := &Error{}
	if e.Type, _ = v.Get("type").Text(); e.Type == "" {
		e.Type = "serverFail"
	}
	e.Description, _ = v.Get("description").Text()
	e.ExistingID, _ = v.Get("existingId").Text()
	e.Properties, e.NotFound, e.Recipients = v.Get("properties").strings(), v.Get("notFound").strings(),
		v.Get("invalidRecipients").strings()
	for _, name := range [...]string{"maxSize", "maxRecipients"} {
		if n, ok := v.Get(name).Int(); ok && n >= 0 {
			e.LimitName, e.Limit = name, uint64(n)
		}
	}
	return e
}

// ReadProblem reads a problem details object (RFC 7807). status is the HTTP status, used if the object has none.
func ReadProblem(v *Value, status int) *Problem {
	p := &Problem{Status: status}
	if n, ok := v.Get("status").Int(); ok && 100 <= n && n <= 999 {
		p.Status = int(n)
	}
	if p.Type, _ = v.Get("type").Text(); p.Type == "" {
		p.Type = ProblemBlank
	}
	p.Title, _ = v.Get("title").Text()
	p.Detail, _ = v.Get("detail").Text()
	p.Limit, _ = v.Get("limit").Text()
	return p
}

// strings returns the strings of an array, or nil if v is not an array.
func (v *Value) strings() []string {
	if v.Kind() != Array {
		return nil
	}
	out := make([]string, 0, v.Len())
	for i := range v.Len() {
		if s, ok := v.At(i).Text(); ok {
			out = append(out, s)
		}
	}
	return out
}
