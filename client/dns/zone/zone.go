// Package zone is a name server of one zone that stands in a text, for tests and rehearsals: it
// answers as a recursive resolver would, and fails as told.
package zone

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/miekg/dns"
)

// Fault is a way to fail.
type Fault uint8

// The faults. Each is one that resolvers meet.
const (
	None      Fault = iota
	ServFail        // answers SERVFAIL
	Refuse          // answers REFUSED
	Timeout         // does not answer
	WrongID         // answers with another id
	WrongName       // answers another question
	Stranger        // answers with records of another name
	Truncate        // answers TC and nothing over UDP
	Garbage         // answers what is no message
	Referral        // names other servers and answers nothing
	ManyMX          // answers with 1,000 MX, the preferred last
)

// Server answers over UDP and TCP on one port of loopback.
type Server struct {
	mu      sync.Mutex
	records map[string][]dns.RR // by lower-case name with the final dot
	faults  map[string]Fault
	secure  []string
	asked   map[string]int

	addr    string
	running []*dns.Server
}

// TB is the part of testing.TB that Start needs.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Start serves records, a master file (RFC 1035 §5), until the test ends. Names without a final dot
// are below the root, and a record that names no TTL has 0, so that nobody remembers it.
func Start(t TB, records string) *Server {
	t.Helper()
	s, err := New("127.0.0.1:0", records)
	if err != nil {
		t.Fatalf("stub zone: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// New serves records on an address, until Close.
func New(address, records string) (*Server, error) {
	s := &Server{faults: map[string]Fault{}, asked: map[string]int{}}
	if err := s.set(records); err != nil {
		return nil, err
	}
	var err error
	for range 20 { // a port that is free for UDP may not be for TCP
		if err = s.listen(address); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *Server) listen(address string) error {
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return fmt.Errorf("zone: %w", err)
	}
	streams, err := net.Listen("tcp", packets.LocalAddr().String())
	if err != nil {
		return errors.Join(fmt.Errorf("zone: %w", err), packets.Close())
	}
	s.addr = packets.LocalAddr().String()
	for _, one := range []*dns.Server{{PacketConn: packets, Handler: s}, {Listener: streams, Handler: s}} {
		started := make(chan struct{})
		one.NotifyStartedFunc = func() { close(started) }
		go func() { _ = one.ActivateAndServe() }()
		<-started
		s.running = append(s.running, one)
	}
	return nil
}

// Addr is the server's address, host:port.
func (s *Server) Addr() string { return s.addr }

// Close ends the server.
func (s *Server) Close() error {
	var errs []error
	for _, one := range s.running {
		errs = append(errs, one.Shutdown())
	}
	return errors.Join(errs...)
}

// Set replaces all records. A text that is no master file panics: it is the test's own.
func (s *Server) Set(records string) {
	if err := s.set(records); err != nil {
		panic(err)
	}
}

// Add adds records.
func (s *Server) Add(records string) {
	more, err := parse(records)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, rrs := range more {
		s.records[name] = append(s.records[name], rrs...)
	}
}

func (s *Server) set(records string) error {
	byName, err := parse(records)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = byName
	return nil
}

func parse(records string) (map[string][]dns.RR, error) {
	p := dns.NewZoneParser(io.MultiReader(strings.NewReader(records), strings.NewReader("\n")), ".", "")
	p.SetDefaultTTL(0)
	out := map[string][]dns.RR{}
	for rr, ok := p.Next(); ok; rr, ok = p.Next() {
		name := strings.ToLower(rr.Header().Name)
		out[name] = append(out[name], rr)
	}
	if err := p.Err(); err != nil {
		return nil, fmt.Errorf("zone: %w", err)
	}
	return out, nil
}

// Fail lets questions for a name ("*" for every name) fail from now on; None heals it.
func (s *Server) Fail(name string, how Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[absolute(name)] = how
}

// Secure marks answers for names at or below these as validated (AD); without any, nothing is.
// "." is every name.
func (s *Server) Secure(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secure = nil
	for _, n := range names {
		s.secure = append(s.secure, absolute(n))
	}
}

// Asked is how often a name was asked for, of any type ("" for all names together).
func (s *Server) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		n := 0
		for _, k := range s.asked {
			n += k
		}
		return n
	}
	return s.asked[absolute(name)]
}

func absolute(name string) string {
	if name == "*" {
		return name
	}
	return strings.ToLower(dns.Fqdn(name))
}
