package zone

import (
	"net"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// maxChain is the maximum number of aliases that are followed within the zone.
const maxChain = 32

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	if len(q.Question) != 1 {
		m := new(dns.Msg)
		_ = w.WriteMsg(m.SetRcode(q, dns.RcodeFormatError))
		return
	}
	asked := q.Question[0]
	name := strings.ToLower(asked.Name)
	s.mu.Lock()
	s.asked[name]++
	how := s.faults[name]
	if how == None {
		how = s.faults["*"]
	}
	m := s.answer(q, name, asked.Qtype)
	s.mu.Unlock()

	size := dns.MaxMsgSize
	if _, datagram := w.RemoteAddr().(*net.UDPAddr); datagram {
		size = dns.MinMsgSize
		if o := q.IsEdns0(); o != nil {
			size = max(size, int(o.UDPSize()))
		}
	}
	switch how {
	case ServFail:
		m = new(dns.Msg).SetRcode(q, dns.RcodeServerFailure)
	case Refuse:
		m = new(dns.Msg).SetRcode(q, dns.RcodeRefused)
	case Timeout:
		return
	case WrongID:
		m.Id++
	case WrongName:
		m.Question[0].Name = "other." + asked.Name
	case Stranger:
		for _, rr := range m.Answer {
			rr.Header().Name = "stranger.invalid."
		}
	case Truncate:
		if size < dns.MaxMsgSize {
			m.Answer, m.Truncated = nil, true
		}
	case Garbage:
		_, _ = w.Write([]byte{byte(q.Id >> 8), byte(q.Id), 0x81, 0x80, 0, 1, 0, 9, 0, 0, 0, 0, 0xc0, 0x0c})
		return
	case Referral:
		m.Rcode, m.Answer, m.Extra, m.RecursionAvailable = dns.RcodeSuccess, nil, nil, false
		m.Ns = []dns.RR{&dns.NS{Hdr: dns.RR_Header{Name: "example.", Rrtype: dns.TypeNS, Class: dns.ClassINET,
			Ttl: 300}, Ns: "ns.example."}}
	case ManyMX:
		m.Rcode, m.Answer = dns.RcodeSuccess, manyMX(asked.Name)
	}
	m.Truncate(size)
	_ = w.WriteMsg(m) // the client may have gone
}

func manyMX(name string) []dns.RR {
	var out []dns.RR
	for i := range 1000 {
		out = append(out, &dns.MX{
			Hdr:        dns.RR_Header{Name: name, Rrtype: dns.TypeMX, Class: dns.ClassINET},
			Preference: uint16(1000 - i), Mx: "mx" + strconv.Itoa(1000-i) + "." + name,
		})
	}
	return out
}

// answer returns the regular reply to a query. The caller holds s.mu.
func (s *Server) answer(q *dns.Msg, name string, kind uint16) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(q)
	m.RecursionAvailable, m.Compress = true, true
	m.AuthenticatedData = s.isSecure(name)
	for range maxChain {
		found, exists := s.lookup(name)
		next := ""
		for _, rr := range found {
			h := rr.Header()
			switch {
			case h.Rrtype == kind:
				m.Answer = append(m.Answer, dns.Copy(rr))
			case h.Rrtype == dns.TypeCNAME && kind != dns.TypeCNAME:
				m.Answer = append(m.Answer, dns.Copy(rr))
				next = strings.ToLower(rr.(*dns.CNAME).Target)
				m.AuthenticatedData = m.AuthenticatedData && s.isSecure(next)
			}
		}
		if next == "" {
			if !exists {
				m.Rcode = dns.RcodeNameError
			}
			break
		}
		name = next
	}
	if len(m.Answer) == 0 || m.Rcode == dns.RcodeNameError {
		m.Ns = s.authority(name)
	}
	return m
}

// lookup returns the records of a name, or of a wildcard above it.
func (s *Server) lookup(name string) (found []dns.RR, exists bool) {
	if rrs, ok := s.records[name]; ok {
		return rrs, true
	}
	for have := range s.records {
		if strings.HasSuffix(have, "."+name) {
			return nil, true // an empty non-terminal: it has no records itself
		}
	}
	for rest := name; ; {
		_, above, ok := strings.Cut(rest, ".")
		if !ok || above == "" {
			return nil, false
		}
		if rrs, ok := s.records["*."+above]; ok {
			var own []dns.RR
			for _, rr := range rrs {
				rr = dns.Copy(rr)
				rr.Header().Name = name
				own = append(own, rr)
			}
			return own, true
		}
		rest = above
	}
}

// authority returns the SOA record of the zone that contains a name, or nil if there is none.
func (s *Server) authority(name string) []dns.RR {
	for {
		for _, rr := range s.records[name] {
			if rr.Header().Rrtype == dns.TypeSOA {
				return []dns.RR{dns.Copy(rr)}
			}
		}
		_, above, ok := strings.Cut(name, ".")
		if !ok || above == "" {
			return nil
		}
		name = above
	}
}

func (s *Server) isSecure(name string) bool {
	for _, top := range s.secure {
		if top == "." || name == top || strings.HasSuffix(name, "."+top) {
			return true
		}
	}
	return false
}
