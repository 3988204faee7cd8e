// Package ldaptest implements a small LDAP server for tests of directory assistance, with faults.
package ldaptest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"doublet/env"
	"doublet/wire/ldap"
)

// Fault is a wrong reaction of the server to an operation.
type Fault int

// The faults.
const (
	None      Fault = iota
	Stall           // no answer
	Close           // the connection is closed
	Garble          // bytes that are no LDAP
	Strange         // the answer to another operation
	Refer           // to another server, Elsewhere
	Reference       // to another server, Elsewhere, for a part of what is searched, besides the entries
	Endless         // entries without an end, whatever the limit
	Large           // one entry that is larger than an answer may be
	Away            // the result unavailable
)

// Elsewhere is the server to which Refer and Reference refer.
const Elsewhere = "ldap://elsewhere.example/dc=y"

// Entry is an entry. Attribute names are in lower case.
type Entry struct {
	DN         string
	Password   string
	Attributes map[string][]string
}

// Server is an LDAP server. An empty password is a bind as nobody, which succeeds.
type Server struct {
	Address string
	t       testing.TB
	env     *env.Env
	tls     *tls.Config
	l       net.Listener

	mu      sync.Mutex
	entries []Entry
	faults  map[ldap.Op]Fault
	counts  map[ldap.Op]int
	conns   map[net.Conn]bool
	stalls  chan struct{}
}

// Serve starts a server on a port of its own, which ends with the test. config, if not nil, offers StartTLS.
func Serve(t testing.TB, e *env.Env, config *tls.Config, entries ...Entry) *Server {
	t.Helper()
	s := &Server{t: t, env: e, tls: config, entries: entries, faults: map[ldap.Op]Fault{}, counts: map[ldap.Op]int{},
		conns: map[net.Conn]bool{}, stalls: make(chan struct{}, 1000)}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start listens, after Stop at the same address.
func (s *Server) Start() {
	s.t.Helper()
	at := s.Address
	if at == "" {
		at = "127.0.0.1:0"
	}
	l, err := s.env.Listen("tcp", at)
	if err != nil {
		s.t.Fatal(err)
	}
	s.l, s.Address = l, l.Addr().String()
	s.env.Go("LDAP server", func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns[c] = true
			s.mu.Unlock()
			s.env.Go("LDAP session", func() { s.serve(c) })
		}
	})
}

// Stop ends the server and its connections.
func (s *Server) Stop() {
	_ = s.l.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close()
	}
	clear(s.conns)
}

// Fault sets the reaction to an operation from now on.
func (s *Server) Fault(op ldap.Op, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[op] = f
}

// Count returns the number of an operation so far.
func (s *Server) Count(op ldap.Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[op]
}

// Stalls receives a value for each operation that gets no answer that a client can take for one.
func (s *Server) Stalls() <-chan struct{} { return s.stalls }

// Set replaces the entries.
func (s *Server) Set(entries ...Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = entries
}

func (s *Server) serve(c net.Conn) {
	defer c.Close()
	var nc net.Conn = c
	r := bufio.NewReader(nc)
	for {
		m, err := read(r)
		if err != nil {
			return
		}
		out, upgrade := s.answer(&m)
		if out == nil {
			return
		}
		if _, err := nc.Write(out); err != nil {
			return
		}
		if upgrade {
			nc = tls.Server(nc, s.tls)
			r = bufio.NewReader(nc)
		}
	}
}

func read(r *bufio.Reader) (ldap.Message, error) {
	head, err := r.Peek(2)
	for n := 2; err == nil; n++ {
		size, bad := ldap.Frame(head, 1<<20)
		if bad != nil {
			return ldap.Message{}, bad
		}
		if size > 0 {
			b := make([]byte, size)
			if _, err = io.ReadFull(r, b); err == nil {
				return ldap.Parse(b)
			}
			break
		}
		head, err = r.Peek(n + 1)
	}
	return ldap.Message{}, err
}

// answer returns the answer to a message, nil to close the connection.
func (s *Server) answer(m *ldap.Message) (out []byte, upgrade bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[m.Op]++
	switch f := s.faults[m.Op]; f {
	case None:
	case Reference:
		// RFC 4511 section 4.5.3: SearchResultReference has the tag 19 of the application.
		reference := element(0x30, number(m.ID), element(0x73, element(0x04, []byte(Elsewhere))))
		return append(reference, s.search(m)...), false
	default:
		return s.fault(m, f), false
	}
	switch m.Op {
	case ldap.OpBind:
		return s.bind(m), false
	case ldap.OpSearch:
		return s.search(m), false
	case ldap.OpExtended:
		code := ldap.ProtocolError
		if s.tls != nil {
			code = ldap.Success
		}
		return result(m, code, ""), s.tls != nil
	}
	return nil, false
}

func result(m *ldap.Message, code ldap.Code, text string) []byte {
	return ldap.AppendResult(nil, m.ID, &ldap.Result{Op: m.Op.Response(), Code: code, Text: text})
}

// element returns an element of BER of less than 128 bytes.
func element(tag byte, parts ...[]byte) []byte {
	content := slices.Concat(parts...)
	return append([]byte{tag, byte(len(content))}, content...)
}

func number(n int) []byte { return []byte{0x02, 2, byte(n >> 8), byte(n)} }

func (s *Server) fault(m *ldap.Message, f Fault) []byte {
	switch f {
	case Stall:
		s.stalls <- struct{}{}
		return []byte{}
	case Garble:
		s.stalls <- struct{}{} // to a client this is the beginning of a long message
		return []byte("HTTP/1.1 200 OK\r\n\r\n")
	case Strange:
		s.stalls <- struct{}{}
		return ldap.AppendResult(nil, m.ID+7, &ldap.Result{Op: m.Op.Response()})
	case Refer:
		// RFC 4511 section 4.1.10: the result referral has the URLs behind the code, the matched DN and the text.
		return element(0x30, number(m.ID), element(byte(m.Op.Response()), []byte{0x0a, 1, 10, 4, 0, 4, 0},
			element(0xa3, element(0x04, []byte(Elsewhere)))))
	case Away:
		return result(m, ldap.Unavailable, "come back later")
	case Endless:
		var out []byte
		for range 10_000 {
			e := ldap.NewEntry(out, m.ID, "uid=x")
			out = e.End()
		}
		return out
	case Large:
		e := ldap.NewEntry(nil, m.ID, "uid=x")
		e.Type("uid")
		e.Value(strings.Repeat("x", 4<<20))
		return append(e.End(), result(m, ldap.Success, "")...)
	}
	return nil
}

func (s *Server) bind(m *ldap.Message) []byte {
	b, err := ldap.ParseBind(m.Body)
	if err != nil {
		return nil
	}
	for i := range s.entries {
		if e := &s.entries[i]; strings.EqualFold(e.DN, b.Name) && e.Password != "" && e.Password == b.Password {
			return result(m, ldap.Success, "")
		}
	}
	if b.Name == "" || b.Password == "" {
		return result(m, ldap.Success, "") // as nobody
	}
	return result(m, ldap.InvalidCredentials, "")
}

func (s *Server) search(m *ldap.Message) (out []byte) {
	q, err := ldap.ParseSearch(m.Body)
	if err != nil {
		return nil
	}
	n := 0
	for i := range s.entries {
		e := &s.entries[i]
		if !within(e.DN, &q) || !matches(&q.Filter, e) {
			continue
		}
		if n++; q.SizeLimit > 0 && n > q.SizeLimit {
			return append(out, result(m, ldap.SizeLimitExceeded, "")...)
		}
		x := ldap.NewEntry(out, m.ID, e.DN)
		for name, values := range e.Attributes {
			if !slices.ContainsFunc(q.Attributes, func(a string) bool { return strings.EqualFold(a, name) }) {
				continue
			}
			x.Type(name)
			for _, v := range values {
				x.Value(v)
			}
		}
		out = x.End()
	}
	return append(out, result(m, ldap.Success, "")...)
}

func within(dn string, q *ldap.Search) bool {
	dn, base := strings.ToLower(dn), strings.ToLower(q.Base)
	if q.Scope == ldap.ScopeBase {
		return dn == base
	}
	return dn == base || base == "" || strings.HasSuffix(dn, ","+base)
}

func matches(f *ldap.Filter, e *Entry) bool {
	has := func(fn func(string) bool) bool {
		return slices.ContainsFunc(e.Attributes[strings.ToLower(f.Type)],
			func(v string) bool { return fn(strings.ToLower(v)) })
	}
	part := func(p ldap.Filter) bool { return matches(&p, e) }
	switch f.Kind {
	case ldap.FilterAnd:
		return !slices.ContainsFunc(f.Parts, func(p ldap.Filter) bool { return !part(p) })
	case ldap.FilterOr:
		return slices.ContainsFunc(f.Parts, part)
	case ldap.FilterNot:
		return !part(f.Parts[0])
	case ldap.FilterEqual:
		return has(func(v string) bool { return v == strings.ToLower(f.Value) })
	case ldap.FilterPresent:
		return has(func(string) bool { return true }) || strings.EqualFold(f.Type, "objectclass")
	case ldap.FilterSubstrings:
		return has(func(v string) bool {
			return strings.HasPrefix(v, strings.ToLower(f.Initial)) && strings.HasSuffix(v, strings.ToLower(f.Final))
		})
	}
	return false
}
