// Package proxy parses the header of the PROXY protocol, in which a load balancer sends the client's address. It can be
// read from a socket without reading any byte after it.
//
// The format is PROXY protocol, versions 1 and 2 (https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt).
package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
)

// Sizes of a header, in bytes.
const (
	// MinSize is the minimum size of a header of either version.
	MinSize = 15
	// MaxSize is the maximum size that Parse accepts: a version 2 header with 2 KB of addresses and extensions.
	MaxSize = 2064

	maxLine  = 107 // version 1, with its line end
	fixed    = 16  // version 2, before the addresses
	signed   = "\r\n\r\n\x00\r\nQUIT\n"
	lineWord = "PROXY "
)

// Header is a parsed header.
type Header struct {
	// Source is the client's address, Destination the address it connected to. Both are zero if the connection is the
	// proxy's own (a health check) or the proxy does not know them. Then use the connection's own addresses.
	Source, Destination netip.AddrPort
	// Local is set if the connection is the proxy's own.
	Local bool
}

// Errors of Parse.
var (
	// ErrNone means that the data does not start like a header.
	ErrNone = errors.New("proxy: no PROXY protocol header")
	// ErrMalformed means that the data starts like a header but is not valid.
	ErrMalformed = errors.New("proxy: malformed PROXY protocol header")
	// ErrTooLong means that the header is longer than MaxSize.
	ErrTooLong = errors.New("proxy: PROXY protocol header too long")
)

// Parse parses the header at the start of b. If it is incomplete, need is the number of further bytes that certainly
// belong to it, and h is not valid. If need is 0, the header is complete. Then b has no byte after it, provided that
// the caller started with MinSize bytes and never read more than need.
func Parse(b []byte) (h Header, need int, err error) {
	if len(b) < MinSize {
		return h, MinSize - len(b), nil
	}
	switch {
	case bytes.HasPrefix(b, []byte(signed)):
		return parse2(b)
	case bytes.HasPrefix(b, []byte(lineWord)):
		return parse1(b)
	}
	return h, 0, ErrNone
}

// parse1 parses "PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n".
func parse1(b []byte) (h Header, need int, err error) {
	end := bytes.IndexByte(b, '\n')
	switch {
	case end < 0 && len(b) >= maxLine, end >= maxLine:
		return h, 0, ErrTooLong
	case end < 0:
		return h, 1, nil // the remaining length is unknown
	case end != len(b)-1 || b[end-1] != '\r':
		return h, 0, ErrMalformed
	}
	line := string(b[len(lineWord) : end-1])
	if line == "UNKNOWN" || len(line) > 7 && line[:8] == "UNKNOWN " {
		return h, 0, nil // the rest of the line is ignored
	}
	var words [5]string
	if !split(line, &words) || words[0] != "TCP4" && words[0] != "TCP6" {
		return h, 0, ErrMalformed
	}
	source, ok := endpoint(words[1], words[3], words[0] == "TCP4")
	destination, ok2 := endpoint(words[2], words[4], words[0] == "TCP4")
	if !ok || !ok2 {
		return h, 0, ErrMalformed
	}
	return Header{Source: source, Destination: destination}, 0, nil
}

// split splits a line at single spaces into exactly five words.
func split(line string, words *[5]string) bool {
	n, from := 0, 0
	for i := 0; i <= len(line); i++ {
		if i < len(line) && line[i] != ' ' {
			continue
		}
		if n == len(words) || i == from {
			return false
		}
		words[n], from = line[from:i], i+1
		n++
	}
	return n == len(words)
}

func endpoint(address, port string, four bool) (netip.AddrPort, bool) {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Zone() != "" || a.Is4() != four {
		return netip.AddrPort{}, false
	}
	n := 0
	if port == "" || len(port) > 5 || len(port) > 1 && port[0] == '0' {
		return netip.AddrPort{}, false
	}
	for _, c := range []byte(port) {
		if c < '0' || c > '9' {
			return netip.AddrPort{}, false
		}
		n = 10*n + int(c-'0')
	}
	if n > 65535 {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), true
}

// parse2 parses the binary format: signature, version and command, family, length, addresses, extensions.
func parse2(b []byte) (h Header, need int, err error) {
	if len(b) < fixed {
		return h, fixed - len(b), nil
	}
	length := int(binary.BigEndian.Uint16(b[14:]))
	if fixed+length > MaxSize {
		return h, 0, ErrTooLong
	}
	if b[12]>>4 != 2 || b[12]&15 > 1 {
		return h, 0, ErrMalformed
	}
	if len(b) < fixed+length {
		return h, fixed + length - len(b), nil
	}
	if len(b) > fixed+length {
		return h, 0, ErrMalformed
	}
	if b[12]&15 == 0 {
		return Header{Local: true}, 0, nil
	}
	rest := b[fixed:]
	switch b[13] {
	case 0x11: // TCP over IPv4
		if len(rest) < 12 {
			return h, 0, ErrMalformed
		}
		h.Source = netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest)), binary.BigEndian.Uint16(rest[8:]))
		h.Destination = netip.AddrPortFrom(netip.AddrFrom4([4]byte(rest[4:])), binary.BigEndian.Uint16(rest[10:]))
	case 0x21: // TCP over IPv6
		if len(rest) < 36 {
			return h, 0, ErrMalformed
		}
		h.Source = netip.AddrPortFrom(netip.AddrFrom16([16]byte(rest)).Unmap(), binary.BigEndian.Uint16(rest[32:]))
		h.Destination = netip.AddrPortFrom(netip.AddrFrom16([16]byte(rest[16:])).Unmap(),
			binary.BigEndian.Uint16(rest[34:]))
	case 0x00, 0x31: // unspecified, Unix socket: no IP addresses
	default:
		return h, 0, ErrMalformed
	}
	return h, 0, nil
}
