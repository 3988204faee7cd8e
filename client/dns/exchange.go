package dns

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/miekg/dns"
)

// udpSize is the largest reply in bytes that is requested over UDP. Replies of this size are not fragmented (RFC 9715
// §3).
const udpSize = 1232

// maxStrays is the number of mismatched datagrams after which a server is given up.
const maxStrays = 64

var errUnreadable = errors.New("not a readable answer to the question")

// exchange asks the servers in turn, beginning with the one that answered last, until one reports success or a
// nonexistent name.
//
// Implements: RFC 6891 §6.1 EDNS(0)
func (r *Resolver) exchange(name string, kind uint16) (reply *dns.Msg, trusted bool, err error) {
	servers := r.list()
	if len(servers) == 0 {
		return nil, false, fmt.Errorf("%w: no name server is configured", ErrTemporary)
	}
	err = ErrTemporary
	for range r.opt.Attempts {
		first := int(r.first.Load()) % len(servers)
		for i := range servers {
			at := (first + i) % len(servers)
			s := servers[at]
			reply, bad := r.once(s.address, name, kind)
			if bad == nil {
				switch {
				case referral(reply):
					bad = fmt.Errorf("%s refers to other servers", s.address)
				case reply.Rcode == dns.RcodeSuccess, reply.Rcode == dns.RcodeNameError:
					if at != first {
						r.first.Store(uint32(at))
					}
					return reply, s.trusted, nil
				default:
					bad = fmt.Errorf("%s answered %s", s.address, dns.RcodeToString[reply.Rcode])
				}
			}
			err = fmt.Errorf("%w: %w", ErrTemporary, bad)
		}
	}
	return nil, false, err
}

// referral reports whether a reply has no answer and only names other servers. Such a server does not resolve
// recursively, so the reply does not mean that the name does not exist.
//
// Implements: RFC 2308 §2.2 A referral is no answer
func referral(reply *dns.Msg) bool {
	if reply.Rcode != dns.RcodeSuccess || len(reply.Answer) > 0 {
		return false
	}
	named := false
	for _, rr := range reply.Ns {
		switch rr.Header().Rrtype {
		case dns.TypeSOA:
			return false
		case dns.TypeNS:
			named = true
		}
	}
	return named
}

// once asks one server. It starts with UDP, uses TCP if the reply is truncated, and retries without EDNS if the server
// does not support it.
func (r *Resolver) once(address, name string, kind uint16) (*dns.Msg, error) {
	for _, extended := range []bool{true, false} {
		q, raw, err := r.pack(name, kind, extended)
		if err != nil {
			return nil, err
		}
		reply, err := r.udp(address, q, raw)
		if err == nil && reply.Truncated {
			reply, err = r.tcp(address, q, raw)
		}
		if err != nil {
			return nil, err
		}
		if reply.Rcode != dns.RcodeFormatError && reply.Rcode != dns.RcodeNotImplemented {
			return reply, nil
		}
	}
	return nil, fmt.Errorf("%s does not understand the question", address)
}

// pack builds a query with recursion desired and an unpredictable ID. With EDNS it sets the DO bit, which asks a
// validating resolver to report the result in the AD bit.
//
// Implements: RFC 4035 §3.2 DO and AD as a stub resolver uses them
func (r *Resolver) pack(name string, kind uint16, extended bool) (*dns.Msg, []byte, error) {
	var id [2]byte
	r.env.Fill(id[:])
	q := &dns.Msg{
		MsgHdr:   dns.MsgHdr{Id: binary.BigEndian.Uint16(id[:]), RecursionDesired: true, AuthenticatedData: true},
		Question: []dns.Question{{Name: name, Qtype: kind, Qclass: dns.ClassINET}},
	}
	if extended {
		q.SetEdns0(udpSize, true)
	}
	raw, err := q.Pack()
	if err != nil {
		return nil, nil, fmt.Errorf("pack the question: %w", err)
	}
	return q, raw, nil
}

func (r *Resolver) udp(address string, q *dns.Msg, raw []byte) (*dns.Msg, error) {
	conn, err := r.dial("udp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r.queries.Inc()
	if _, err := conn.Write(raw); err != nil {
		return nil, fmt.Errorf("ask %s: %w", address, err)
	}
	// The socket is connected, so datagrams from other addresses do not arrive. A datagram with another ID or question
	// is ignored, because the right reply may still follow.
	buf := make([]byte, 4096)
	for range maxStrays {
		n, err := conn.Read(buf)
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", address, err)
		}
		if reply, err := match(q, buf[:n]); err == nil {
			return reply, nil
		}
		r.dropped.Inc()
	}
	return nil, fmt.Errorf("ask %s: %w", address, errUnreadable)
}

func (r *Resolver) tcp(address string, q *dns.Msg, raw []byte) (*dns.Msg, error) {
	conn, err := r.dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	r.queries.Inc()
	framed := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(raw)), uint16(len(raw)))
	if _, err := conn.Write(append(framed, raw...)); err != nil {
		return nil, fmt.Errorf("ask %s over TCP: %w", address, err)
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, fmt.Errorf("ask %s over TCP: %w", address, err)
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, buf); err != nil {
		return nil, fmt.Errorf("ask %s over TCP: %w", address, err)
	}
	reply, err := match(q, buf)
	if err != nil {
		r.dropped.Inc()
		return nil, fmt.Errorf("ask %s over TCP: %w", address, err)
	}
	if reply.Truncated {
		return nil, fmt.Errorf("ask %s over TCP: the answer is cut off", address)
	}
	return reply, nil
}

func (r *Resolver) dial(network, address string) (net.Conn, error) {
	conn, err := r.env.Dial(network, address, r.opt.Timeout)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", address, err)
	}
	stop := r.env.Clock.AfterFunc(r.opt.Timeout, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return &timed{conn, stop}, nil
}

// timed is a connection with a timer for its timeout. Close stops the timer.
type timed struct {
	net.Conn
	stop func() bool
}

func (t *timed) Close() error {
	t.stop()
	return t.Conn.Close()
}

// match parses a reply and checks that it has the same ID, name, type and class as the query. A server that does not
// understand the query may leave out the question section.
func match(q *dns.Msg, raw []byte) (*dns.Msg, error) {
	if len(raw) < 12 || binary.BigEndian.Uint16(raw) != q.Id {
		return nil, errUnreadable
	}
	var m dns.Msg
	// A truncated reply need not parse to its end: the query is repeated over TCP.
	if err := m.Unpack(raw); err != nil && !m.Truncated {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if !m.Response || m.Opcode != dns.OpcodeQuery || m.Id != q.Id {
		return nil, errUnreadable
	}
	if len(m.Question) == 0 && (m.Rcode == dns.RcodeFormatError || m.Rcode == dns.RcodeNotImplemented) {
		return &m, nil
	}
	asked := q.Question[0]
	if len(m.Question) != 1 || lower(m.Question[0].Name) != lower(asked.Name) ||
		m.Question[0].Qtype != asked.Qtype || m.Question[0].Qclass != asked.Qclass {
		return nil, errUnreadable
	}
	return &m, nil
}

func unhex(text string) ([]byte, error) { return hex.DecodeString(text) }
