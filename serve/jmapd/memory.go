package jmapd

import (
	"net/http"
	"slices"

	"doublet/note"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/wire/jmap"
)

// memory counts the bytes that a request has reserved from its person's share of the memory budget.
type memory struct {
	share listen.Share
	taken int64
}

// memoryOf returns an empty reservation from the caller's share.
func (s *Server) memoryOf(c *Caller) memory { return memory{share: s.opt.Memory.Of(c.Who.Person)} }

// takeOf reserves n bytes of a person's share. giveOf releases them.
func (s *Server) takeOf(person note.UNID, n int64) bool { return s.opt.Memory.Of(person).Take(n) }

func (s *Server) giveOf(person note.UNID, n int64) { s.opt.Memory.Of(person).Give(n) }

// take reserves n more bytes. If they are not available, it reserves nothing and returns false.
func (m *memory) take(n int64) bool {
	if !m.share.Take(n) {
		return false
	}
	m.taken += n
	return true
}

// drop releases n bytes.
func (m *memory) drop(n int64) {
	m.share.Give(n)
	m.taken -= n
}

// give releases all bytes.
func (m *memory) give() {
	m.share.Give(m.taken)
	m.taken = 0
}

// busy returns the problem for a request that the memory budget has no room for.
func busy() *jmap.Problem {
	status := condition.NoMemory.HTTP
	return &jmap.Problem{Type: jmap.ProblemBlank, Status: status, Title: http.StatusText(status),
		Detail: condition.NoMemory.IMAPText + "."}
}

// errBusy is the error for a method call that the memory budget has no room for.
var errBusy = &jmap.Error{Type: condition.NoMemory.JMAP, Description: condition.NoMemory.IMAPText + "."}

// errResponse is the error for a method call whose response does not fit into the limit of the whole response.
var errResponse = &jmap.Error{Type: "requestTooLarge",
	Description: "The response would be larger than this server makes."}

// hold reserves n bytes for the current call. They are released by drop, or when the call ends.
func (b *batch) hold(n int64) error {
	if !b.mem.take(n) {
		return errBusy
	}
	return nil
}

// room grows the response buffer for n more bytes and reserves them before. Call it before appending many bytes at
// once. After small appends, call settle once per object instead.
func (b *batch) room(n int) error {
	need := len(b.out) + n
	if need > b.s.opt.Limits.Response {
		return errResponse
	}
	if need <= cap(b.out) {
		return nil
	}
	to := int64(max(need, min(2*cap(b.out), b.s.opt.Limits.Response)))
	if err := b.hold(to); err != nil {
		return err
	}
	b.out = append(make([]byte, 0, to), b.out...)
	b.mem.drop(b.held)
	b.held = to
	return nil
}

// settle reserves the memory by which the response buffer has grown since the last call of room or settle.
func (b *batch) settle() error {
	if len(b.out) > b.s.opt.Limits.Response {
		return errResponse
	}
	grown := int64(cap(b.out)) - b.held
	if grown == 0 {
		return nil
	}
	if grown > 0 {
		if err := b.hold(grown); err != nil {
			return err
		}
	} else {
		b.mem.drop(-grown)
	}
	b.held += grown
	return nil
}

// cut removes what was appended to the response since offset at, and adjusts the reservation.
func (b *batch) cut(at, responses int) {
	b.out, b.responses = b.out[:at], b.responses[:responses]
	if b.settle() != nil {
		b.out = slices.Clip(slices.Clone(b.out)) // Copy to a buffer no larger than the one reserved before.
		_ = b.settle()
	}
}

// Answer is the response to a request. The caller must call Release after use.
type Answer struct {
	JSON []byte // the Response object
	mem  memory
}

// Release releases the memory of the answer. JSON must not be used afterwards.
func (a *Answer) Release() {
	giveBuffer(a.JSON)
	a.JSON = nil
	a.mem.give()
}
