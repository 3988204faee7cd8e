// Package zone implements a DNS server for tests, with its zone in a master-file text. It replies like a recursive
// resolver, and can inject faults.
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

// Fault is a kind of fault to inject.
type Fault uint8

// The faults. All of them occur in practice.
const (
	None      Fault = iota
	ServFail        // replies SERVFAIL
	Refuse          // replies REFUSED
	Timeout         // does not reply
	WrongID         // replies with another ID
	WrongName       // replies to another question
	Stranger        // replies with records of another name
	Truncate        // replies with TC and no records over UDP
	Garbage         // replies with a malformed message
	Referral        // replies with a referral to other servers
	ManyMX          // replies with 1,000 MX records, the preferred one last
)

// Server is a DNS server over UDP and TCP on one port of a loopback address.
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

// Start serves records, a master file (RFC 1035 §5), until the test ends. Names without a final dot are relative to the
// root. A record without a TTL has TTL 0, so that it is not cached.
func Start(t TB, records string) *Server {
	t.Helper()
	s, err := New("127.0.0.1:0", records)
	if err != nil {
		t.Fatalf("stub zone: %v", err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// New serves records on an address until Close.
func New(address, records string) (*Server, error) {
	s := &Server{faults: map[string]Fault{}, asked: map[string]int{}}
	if err := s.set(records); err != nil {
		return nil, err
	}
	var err error
	for range 20 { // a port that is free for UDP may be in use for TCP
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

// Addr returns the server's address, host:port.
func (s *Server) Addr() string { return s.addr }

// Close stops the server.
func (s *Server) Close() error {
	var errs []error
	for _, one := range s.running {
		errs = append(errs, one.Shutdown())
	}
	return errors.Join(errs...)
}

// Set replaces all records. It panics if the text is not a master file.
func (s *Server) Set(records string) {
	if err := s.set(records); err != nil {
		panic(err)
	}
}

// Add adds records. It panics if the text is not a master file.
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

// Fail injects a fault into the replies for a name ("*" means every name) from now on. None removes it.
func (s *Server) Fail(name string, how Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[absolute(name)] = how
}

// Secure marks replies for names at or below these as validated (AD). It replaces the previous list; "." matches every
// name.
func (s *Server) Secure(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secure = nil
	for _, n := range names {
		s.secure = append(s.secure, absolute(n))
	}
}

// Asked returns the number of queries for a name, of any type. "" counts the queries for all names.
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
