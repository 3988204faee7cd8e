package ldap

import "fmt"

// The object identifiers of controls and extended operations.
const (
	OIDPaged          = "1.2.840.113556.1.4.319"  // RFC 2696
	OIDSort           = "1.2.840.113556.1.4.473"  // RFC 2891
	OIDSortResponse   = "1.2.840.113556.1.4.474"  // RFC 2891
	OIDStartTLS       = "1.3.6.1.4.1.1466.20037"  // RFC 4511 section 4.14
	OIDDisconnection  = "1.3.6.1.4.1.1466.20036"  // RFC 4511 section 4.4.1
	OIDWhoAmI         = "1.3.6.1.4.1.4203.1.11.3" // RFC 4532
	OIDPasswordModify = "1.3.6.1.4.1.4203.1.11.1" // RFC 3062
	OIDCancel         = "1.3.6.1.1.8"             // RFC 3909
	OIDAllOperational = "1.3.6.1.4.1.4203.1.5.1"  // RFC 3673
	OIDTrueFalse      = "1.3.6.1.4.1.4203.1.5.3"  // RFC 4526
)

// Paged is the value of the paged results control.
type Paged struct {
	Size   int
	Cookie []byte
}

// ParsePaged parses the value of a paged results control.
//
// Implements: RFC 2696 §2 Paged results control
func ParsePaged(value []byte) (Paged, error) {
	outer := reader{b: value}
	in := outer.sequence()
	p := Paged{Size: in.number(tagInteger), Cookie: append([]byte{}, in.get(tagOctets)...)}
	if err := in.end(); err != nil {
		return p, err
	}
	return p, outer.end()
}

// Append appends the value of a paged results control.
func (p *Paged) Append(dst []byte) []byte {
	dst, at := open(dst, tagSequence)
	return shut(appendText(appendNumber(dst, tagInteger, p.Size), tagOctets, string(p.Cookie)), at)
}

// SortKey is one key of the server-side sorting control.
type SortKey struct {
	Type, Rule string
	Reverse    bool
}

// maxSortKeys is the maximum number of sort keys.
const maxSortKeys = 8

// ParseSort parses the value of a server-side sorting control.
//
// Implements: RFC 2891 §1.1 Sort request control
func ParseSort(value []byte) (keys []SortKey, err error) {
	outer := reader{b: value}
	list := outer.sequence()
	for list.more() {
		in := list.sequence()
		k := SortKey{Type: in.text()}
		if in.peek() == 0x80 {
			k.Rule = string(in.get(0x80))
		}
		if in.peek() == 0x81 {
			c := in.get(0x81)
			k.Reverse = len(c) == 1 && c[0] != 0
		}
		if err := in.end(); err != nil {
			return nil, err
		}
		if keys = append(keys, k); len(keys) > maxSortKeys {
			return nil, malformed(fmt.Sprintf("more than %d sort keys", maxSortKeys))
		}
	}
	if list.err != nil {
		return nil, list.err
	}
	if len(keys) == 0 {
		return nil, malformed("sort control without a key")
	}
	return keys, outer.end()
}

// AppendSortResult appends the value of a sort response control. attribute is the one that could not be sorted by, or
// "".
//
// Implements: RFC 2891 §1.2 Sort response control
func AppendSortResult(dst []byte, code Code, attribute string) []byte {
	dst, at := open(dst, tagSequence)
	dst = appendNumber(dst, tagEnumerated, int(code))
	if attribute != "" {
		dst = appendText(dst, 0x80, attribute)
	}
	return shut(dst, at)
}
