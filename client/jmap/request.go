package jmap

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	wire "doublet/wire/jmap"
)

// Request is a request under construction: method calls that the server executes in order.
type Request struct {
	using []string
	calls []byte
	n     int
}

// NewRequest returns a request that uses these capabilities and wire.Core.
func NewRequest(using ...string) *Request {
	if !slices.Contains(using, wire.Core) {
		using = append([]string{wire.Core}, using...)
	}
	return &Request{using: using}
}

// Handle identifies a call of a request, to find its response and to refer to it.
type Handle struct{ id, name string }

// At returns a reference to a value in the response, for later calls. path is a JSON Pointer in which * stands for all
// elements of an array.
func (h Handle) At(path string) wire.Reference {
	return wire.Reference{ResultOf: h.id, Name: h.name, Path: path}
}

// Call adds a method call. fn prints its arguments.
func (r *Request) Call(method string, fn func(*wire.Writer)) Handle {
	h := Handle{id: "c" + strconv.Itoa(r.n), name: method}
	if r.n > 0 {
		r.calls = append(r.calls, ',')
	}
	r.n++
	r.calls = append(wire.AppendString(append(r.calls, '['), method), ',')
	w := wire.NewWriter(r.calls)
	if fn != nil {
		fn(&w)
	}
	r.calls = append(wire.AppendString(append(w.End(), ','), h.id), ']')
	return h
}

// Append appends the members of the Request object, without the braces.
func (r *Request) Append(dst []byte) []byte {
	dst = wire.AppendStrings(append(dst, `"using":`...), r.using)
	dst = append(append(dst, `,"methodCalls":[`...), r.calls...)
	return append(dst, ']')
}

// Response is the response to a Request.
type Response struct{ *wire.Response }

// CallError is the error of one method call, or of one object in it.
type CallError struct {
	Method string
	Err    *wire.Error
}

func (e *CallError) Error() string { return e.Err.Error() + " (" + e.Method + ")" }

// Unwrap returns the *wire.Error.
func (e *CallError) Unwrap() error { return e.Err }

// Get returns the arguments of the response to a call. If the call failed, the error is a *CallError.
func (r *Response) Get(h Handle) (*wire.Value, error) {
	for i := range r.Calls {
		c := &r.Calls[i]
		switch {
		case c.ID != h.id:
		case c.Name == h.name:
			return c.Args, nil
		case c.Name == wire.MethodError:
			return nil, &CallError{Method: h.name, Err: wire.ReadError(c.Args)}
		}
	}
	return nil, fmt.Errorf("%w: no response to %s", ErrProtocol, h.name)
}

// Err returns the error of the first call that failed, or nil.
func (r *Response) Err() error {
	for i := range r.Calls {
		if c := &r.Calls[i]; c.Name == wire.MethodError {
			return &CallError{Method: "call " + strings.TrimPrefix(c.ID, "c"), Err: wire.ReadError(c.Args)}
		}
	}
	return nil
}

// Do executes a request over HTTP. If the whole request fails, the error is a *wire.Problem. The errors of single calls
// are in the Response.
//
// Implements: RFC 8620 §3.1 Making an API request, as a client
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	s, err := c.Session(ctx)
	if err != nil {
		return nil, err
	}
	w := c.watch(ctx, c.opt.Timeout)
	defer w.end()
	body := append(r.Append(append(make([]byte, 0, len(r.calls)+200), '{')), '}')
	req, err := c.request(w, http.MethodPost, s.api, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	v, _, err := c.exchange(w, req)
	if err != nil {
		return nil, err
	}
	return readResponse(v)
}

func readResponse(v *wire.Value) (*Response, error) {
	out, err := wire.ReadResponse(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return &Response{out}, nil
}

// One executes a single call and returns the arguments of its response.
func (c *Client) One(ctx context.Context, capability, method string, fn func(*wire.Writer)) (*wire.Value, error) {
	r := NewRequest(capability)
	h := r.Call(method, fn)
	out, err := c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	return out.Get(h)
}
