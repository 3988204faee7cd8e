package jmapd

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/condition"
	"doublet/serve/signin"
	"doublet/store"
	"doublet/wire/jmap"
)

// method is a JMAP method.
type method struct {
	capability string
	run        func(*call) error
}

// call is a method call in progress.
type call struct {
	*batch
	name string
	id   string
	args *jmap.Value
	// account is the account of the argument accountId.
	account *Account
}

// batch is a request in progress: it runs the calls in order and collects their responses.
type batch struct {
	s      *Server
	ctx    context.Context
	caller *Caller
	using  []string

	out       []byte
	mem       memory // reserved for the request; includes held
	held      int64  // reserved for out
	responses []response
	created   map[string]string
	wasGiven  bool // the request has createdIds, so the response has too
	accounts  []*Account
	// known maps messages that a query of this request found to their note ids, so that a later call need not look them
	// up.
	known map[note.UNID]note.ID
	// implicit, if set, runs after the current call and adds an implicit method call (RFC 8621 section 7.5).
	implicit func()
}

// response locates a method response in out: its arguments are out[at:end].
type response struct {
	name, id string
	at, end  int
}

// bufferSize is the initial size of a response buffer.
const bufferSize = 48 << 10

// buffers pools response buffers. Those above 1 MB are left to the garbage collector.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, bufferSize); return &b }}

func takeBuffer() []byte { return (*buffers.Get().(*[]byte))[:0] }

// giveBuffer returns a buffer to the pool after the response was written.
func giveBuffer(b []byte) {
	if cap(b) <= 1<<20 {
		buffers.Put(&b)
	}
}

// Call executes a request (RFC 8620 section 3.3) from any transport. request is the JSON of a Request object. Call
// ignores members that a Request does not have, such as @type and id of RFC 8887. The answer is the JSON of a Response
// object, `{"methodResponses":…}`; the caller must release it. If problem, the request-level error, is not nil, no
// method has run.
//
// Implements: RFC 8620 §3.4 The Response object
func (s *Server) Call(ctx context.Context, c *Caller, request []byte) (answer *Answer, problem *jmap.Problem) {
	s.stats.requests.Inc()
	defer func() {
		if problem != nil {
			s.stats.problems.Inc()
		}
	}()
	leave, problem := s.enter(c, false)
	if problem != nil {
		return nil, problem
	}
	defer leave()
	mem := s.memoryOf(c)
	parsed := jmap.ParseCost(request)
	if !mem.take(parsed + bufferSize) {
		return nil, busy()
	}
	defer func() {
		if answer == nil {
			mem.give()
		}
	}()
	r, err := jmap.ParseRequest(string(request), s.opt.Limits.Calls)
	if err != nil {
		if errors.As(err, &problem) {
			return nil, problem
		}
		return nil, &jmap.Problem{Type: jmap.ProblemNotRequest, Status: 400, Detail: err.Error()}
	}
	for _, u := range r.Using {
		if !s.has(u) {
			return nil, &jmap.Problem{Type: jmap.ProblemUnknownCapability, Status: 400,
				Detail: fmt.Sprintf("There is no capability %.200q here.", u)}
		}
	}
	if problem := s.refresh(ctx, c); problem != nil {
		return nil, problem
	}
	b := &batch{s: s, ctx: ctx, caller: c, using: r.Using, created: r.CreatedIDs, wasGiven: r.CreatedIDs != nil,
		mem: mem, held: bufferSize}
	b.out = append(takeBuffer(), `{"methodResponses":[`...)
	for i := range r.Calls {
		b.call(&r.Calls[i])
	}
	b.out = append(b.out, ']')
	if b.wasGiven {
		b.out = append(b.out, `,"createdIds":`...)
		b.out = appendMap(b.out, b.created)
	}
	b.out = append(b.out, `,"sessionState":"`...)
	b.out = append(s.appendSessionState(b.out, c), `"}`...)
	_ = b.settle() // the text after the calls is small
	b.mem.drop(parsed)
	return &Answer{b.out, b.mem}, nil
}

// refresh updates the caller's account from the directory.
func (s *Server) refresh(ctx context.Context, c *Caller) *jmap.Problem {
	err := s.backend.Refresh(ctx, &c.Account)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, signin.ErrDisabled):
		return &jmap.Problem{Type: jmap.ProblemBlank, Status: 403, Title: "Forbidden",
			Detail: "The account is disabled."}
	}
	if _, known := condition.Of(err); !known {
		s.env.Log.Error("jmap: cannot read the account", "person", c.Name, "error", err)
	}
	return &jmap.Problem{Type: jmap.ProblemBlank, Status: 503, Title: "Service Unavailable",
		Detail: "The account cannot be read now."}
}

func appendMap(dst []byte, m map[string]string) []byte {
	dst = append(dst, '{')
	first := true
	for _, k := range sorted(m) {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(jmap.AppendString(dst, k), ':')
		dst = jmap.AppendString(dst, m[k])
	}
	return append(dst, '}')
}

func sorted(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// begin starts a response, and end finishes it.
func (b *batch) begin(name, id string) {
	if len(b.responses) > 0 {
		b.out = append(b.out, ',')
	}
	b.out = append(append(append(b.out, `["`...), name...), `",`...)
	b.responses = append(b.responses, response{name: name, id: id, at: len(b.out)})
}

func (b *batch) end() {
	r := &b.responses[len(b.responses)-1]
	r.end = len(b.out)
	b.out = append(jmap.AppendString(append(b.out, ','), r.id), ']')
}

// call runs one method call.
func (b *batch) call(r *jmap.Call) {
	c := &call{batch: b, name: r.Name, id: r.ID, args: r.Args}
	b.implicit = nil
	start, count, kept := len(b.out), len(b.responses), b.mem.taken-b.held
	err := c.do()
	if err == nil {
		err = b.settle()
	}
	b.mem.drop(b.mem.taken - b.held - kept) // reserved by the call
	if err != nil {
		b.s.stats.errors.Inc()
		b.cut(start, count)
		b.begin("error", r.ID)
		b.out = b.methodError(r.Name, err).Append(b.out)
		b.end()
		return
	}
	if next := b.implicit; next != nil {
		next()
	}
}

// follow runs an implicit method call under the call id of the call that caused it.
//
// Implements: RFC 8620 §5.4 implicit calls
func (b *batch) follow(name, id string, args *jmap.Value) {
	b.call(&jmap.Call{Name: name, ID: id, Args: args})
}

// panicked is the error of a method that panicked. That is a bug of the server; the other calls and the connection
// continue.
type panicked struct {
	with  any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v", p.with) }

// do runs the method.
func (c *call) do() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicked{r, debug.Stack()}
		}
	}()
	m, ok := c.s.methods[c.name]
	if !ok || !slices.Contains(c.using, m.capability) {
		return &jmap.Error{Type: "unknownMethod"}
	}
	m.count.Inc()
	c.s.stats.trans.Add(1)
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.args, err = c.resolve(c.args); err != nil {
		return err
	}
	c.begin(c.name, c.id)
	if observe := c.s.opt.Observe; observe != nil {
		began := c.s.env.Clock.Now()
		defer func() { observe(c.name, c.s.env.Clock.Now().Sub(began)) }()
	}
	if err := m.run(c); err != nil {
		return err
	}
	c.end()
	return nil
}

// resolve replaces result references by the values that they refer to.
//
// Implements: RFC 8620 §3.7 References to previous method results
func (c *call) resolve(args *jmap.Value) (*jmap.Value, error) {
	refers := false
	for i := range args.Len() {
		refers = refers || strings.HasPrefix(args.Name(i), "#")
	}
	if !refers {
		return args, nil
	}
	names := make([]string, 0, args.Len())
	values := make([]jmap.Value, 0, args.Len())
	for i := range args.Len() {
		name, v := args.Name(i), *args.At(i)
		if plain, ok := strings.CutPrefix(name, "#"); ok {
			if args.Get(plain) != nil {
				return nil, invalid("%s is given twice, plain and as a reference", plain)
			}
			var err error
			if v, err = c.refer(&v); err != nil {
				return nil, err
			}
			name = plain
		}
		names, values = append(names, name), append(values, v)
	}
	return jmap.MakeObject(names, values), nil
}

func (c *call) refer(v *jmap.Value) (jmap.Value, error) {
	bad := func(why string) (jmap.Value, error) {
		return jmap.Value{}, &jmap.Error{Type: "invalidResultReference", Description: why}
	}
	of, ok := v.Get("resultOf").Text()
	name, ok2 := v.Get("name").Text()
	path, ok3 := v.Get("path").Text()
	if !ok || !ok2 || !ok3 {
		return bad("A reference is an object with resultOf, name and path.")
	}
	for i := range c.responses {
		r := &c.responses[i]
		if r.id != of {
			continue
		}
		if r.name != name {
			return bad(fmt.Sprintf("The response to %.100q is not of %.100q.", of, name))
		}
		found, ok := jmap.Refer(c.out[r.at:r.end], path)
		if !ok {
			return bad("The response has nothing at the path.")
		}
		return found, nil
	}
	return bad(fmt.Sprintf("There is no response to %.100q yet.", of))
}

// invalid returns an invalidArguments error.
func invalid(format string, args ...any) *jmap.Error {
	return &jmap.Error{Type: "invalidArguments", Description: fmt.Sprintf(format, args...)}
}

// methodError converts an error into a method-level error. It logs unexpected ones.
func (b *batch) methodError(name string, err error) *jmap.Error {
	var e *jmap.Error
	if errors.As(err, &e) {
		return e
	}
	switch {
	case errors.Is(err, mailbox.ErrForgotten):
		return &jmap.Error{Type: "cannotCalculateChanges"}
	case errors.Is(err, mailbox.ErrManyChanges):
		return &jmap.Error{Type: "tooManyChanges"}
	case errors.Is(err, mailbox.ErrNoAnchor):
		return &jmap.Error{Type: "anchorNotFound"}
	case errors.Is(err, mailbox.ErrLimit):
		return &jmap.Error{Type: "requestTooLarge", Description: err.Error()}
	case errors.Is(err, store.ErrDenied):
		return &jmap.Error{Type: "forbidden"}
	case errors.Is(err, store.ErrUnconfirmed):
		return &jmap.Error{Type: "serverPartialFail",
			Description: "The change is made, and not yet confirmed by another server."}
	case errors.Is(err, context.DeadlineExceeded):
		return &jmap.Error{Type: "serverUnavailable", Description: "The request took too long."}
	}
	if c, known := condition.Of(err); known && c != condition.Damaged {
		return &jmap.Error{Type: c.JMAP, Description: c.IMAPText + "."}
	}
	var p *panicked
	if errors.As(err, &p) {
		b.s.stats.panics.Inc()
		b.s.env.Log.Error("jmap: call panicked", "method", name, "person", b.caller.Name, "panic", p.with, "stack",
			string(p.stack))
		return &jmap.Error{Type: "serverFail", Description: "Something went wrong here; it stands in the server's log."}
	}
	b.s.env.Log.Error("jmap: call failed", "method", name, "person", b.caller.Name, "error", err)
	return &jmap.Error{Type: "serverFail", Description: "Something went wrong here; it stands in the server's log."}
}

// made records the id of the object that a creation id stands for.
func (b *batch) made(creation, id string) {
	if b.created == nil {
		b.created = make(map[string]string)
	}
	b.created[creation] = id
}

// real resolves a creation id, which begins with #, to the id of the object created. Other ids are returned unchanged.
// It returns false if the creation id is not known.
//
// Implements: RFC 8620 §5.3 creation ids
func (b *batch) real(id string) (string, bool) {
	creation, ok := strings.CutPrefix(id, "#")
	if !ok {
		return id, true
	}
	id, ok = b.created[creation]
	return id, ok
}
