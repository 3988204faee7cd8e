package jmapd

import (
	"net/http"
	"slices"

	"doublet/note"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/wire/jmap"
)

// memory is a request's part of the budget.
type memory struct {
	share listen.Share
	taken int64
}

// memoryOf begins a request's part of the caller's share.
func (s *Server) memoryOf(c *Caller) memory { return memory{share: s.opt.Memory.Of(c.Who.Person)} }

// takeOf reserves n bytes of a person's share, which giveOf gives back.
func (s *Server) takeOf(person note.UNID, n int64) bool { return s.opt.Memory.Of(person).Take(n) }

func (s *Server) giveOf(person note.UNID, n int64) { s.opt.Memory.Of(person).Give(n) }

// take reserves n bytes more; false, and nothing reserved, where there are not as many.
func (m *memory) take(n int64) bool {
	if !m.share.Take(n) {
		return false
	}
	m.taken += n
	return true
}

// drop gives n bytes back.
func (m *memory) drop(n int64) {
	m.share.Give(n)
	m.taken -= n
}

// give gives all of them back.
func (m *memory) give() {
	m.share.Give(m.taken)
	m.taken = 0
}

// busy is the problem of a request that the budget has no room for.
func busy() *jmap.Problem {
	status := condition.NoMemory.HTTP
	return &jmap.Problem{Type: jmap.ProblemBlank, Status: status, Title: http.StatusText(status), Detail: condition.NoMemory.IMAPText + "."}
}

// errBusy is the error of a method call that the budget has no room for.
var errBusy = &jmap.Error{Type: condition.NoMemory.JMAP, Description: condition.NoMemory.IMAPText + "."}

// errResponse is the error of a method call whose response has no room beside those before it.
var errResponse = &jmap.Error{Type: "requestTooLarge", Description: "The response would be larger than this server makes."}

// hold reserves n bytes for the call at hand, which ends with it or gives them back before by drop.
func (b *batch) hold(n int64) error {
	if !b.mem.take(n) {
		return errBusy
	}
	return nil
}

// room makes room for n bytes more of the response, and reserves them first. Call it before n bytes are appended at
// once; what is small is reserved by settle behind the object that it belongs to.
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

// settle reserves the memory that the response has grown by since room or settle were called.
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

// cut takes back what was appended to the response from at on, with memory that is not reserved.
func (b *batch) cut(at, responses int) {
	b.out, b.responses = b.out[:at], b.responses[:responses]
	if b.settle() != nil {
		b.out = slices.Clip(slices.Clone(b.out)) // as large as what was reserved before, or smaller
		_ = b.settle()
	}
}

// Answer is the response to a request.
type Answer struct {
	JSON []byte // the Response object
	mem  memory
}

// Release gives back what the answer holds. JSON is not read behind it.
func (a *Answer) Release() {
	giveBuffer(a.JSON)
	a.JSON = nil
	a.mem.give()
}
