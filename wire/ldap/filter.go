package ldap

import "fmt"

// Limits of a filter. A person writes filters of a few levels; the limits keep the work for each entry small.
const (
	// MaxFilterDepth is the maximum number of nested filters.
	MaxFilterDepth = 64
	// MaxFilterNodes is the maximum number of filters in one filter, including the pieces of substrings.
	MaxFilterNodes = 1024
)

// FilterKind is the choice of a filter. The values are the numbers of the context tags.
type FilterKind uint8

// The kinds of filters (RFC 4511 section 4.5.1.7).
const (
	FilterAnd FilterKind = iota
	FilterOr
	FilterNot
	FilterEqual
	FilterSubstrings
	FilterGreaterOrEqual
	FilterLessOrEqual
	FilterPresent
	FilterApprox
	FilterExtensible
)

// Filter is a search filter.
type Filter struct {
	Kind FilterKind
	// Parts are the filters of and, or, and the one of not.
	Parts []Filter
	// Type is the attribute description, "" in an extensible filter without one.
	Type string
	// Value is the assertion value.
	Value string
	// Initial, Any and Final are the pieces of substrings. Initial and Final may be "".
	Initial, Final string
	Any            []string
	// Rule is the matching rule of an extensible filter, "" for the attribute's own. DN reports dnAttributes.
	Rule string
	DN   bool
}

// filterReader counts the nodes of one filter.
type filterReader struct{ nodes int }

// ErrFilter reports a filter that is deeper or larger than allowed. The message is well formed otherwise.
var ErrFilter = fmt.Errorf("ldap: filter too large: at most %d levels and %d parts are allowed", MaxFilterDepth,
	MaxFilterNodes)

// parse parses the next element of r.
//
// Implements: RFC 4511 §4.5.1.7 SearchRequest.filter
func (p *filterReader) parse(r *reader, depth int) (f Filter) {
	if p.nodes++; r.err == nil && (depth > MaxFilterDepth || p.nodes > MaxFilterNodes) {
		r.err = ErrFilter
	}
	tag, content := r.any()
	if r.err != nil {
		return f
	}
	in := reader{b: content}
	f.Kind = FilterKind(tag & 0x1f)
	switch tag {
	case 0xa0, 0xa1:
		for in.more() {
			f.Parts = append(f.Parts, p.parse(&in, depth+1))
		}
	case 0xa2:
		f.Parts = []Filter{p.parse(&in, depth+1)}
	case 0xa3, 0xa5, 0xa6, 0xa8:
		f.Type, f.Value = in.text(), in.text()
	case 0xa4:
		p.substrings(&in, &f)
	case 0x87:
		f.Type, in.b = string(content), nil
	case 0xa9:
		f.extensible(&in)
	default:
		in.err = malformed(fmt.Sprintf("filter with the tag %#x", tag))
	}
	if err := in.end(); err != nil {
		r.err = err
	}
	return f
}

// substrings parses SubstringFilter: at most one initial piece, first, and at most one final piece, last.
func (p *filterReader) substrings(r *reader, f *Filter) {
	f.Type = r.text()
	pieces := r.sequence()
	n, ended := 0, false
	for ; pieces.more(); n++ {
		if p.nodes++; p.nodes > MaxFilterNodes {
			r.err = ErrFilter
			return
		}
		tag, c := pieces.any()
		switch {
		case pieces.err != nil:
		case len(c) == 0 || ended || tag == 0x80 && n > 0:
			pieces.err = malformed("pieces of a substring filter")
		case tag == 0x80:
			f.Initial = string(c)
		case tag == 0x81:
			f.Any = append(f.Any, string(c))
		case tag == 0x82:
			f.Final, ended = string(c), true
		default:
			pieces.err = malformed("pieces of a substring filter")
		}
	}
	if err := pieces.end(); err != nil {
		r.err = err
	} else if n == 0 && r.err == nil {
		r.err = malformed("substring filter without a piece")
	}
}

// extensible parses MatchingRuleAssertion.
func (f *Filter) extensible(r *reader) {
	valued := false
	for r.more() {
		tag, c := r.any()
		switch {
		case r.err != nil:
		case tag == 0x81 && !valued:
			f.Rule = string(c)
		case tag == 0x82 && !valued:
			f.Type = string(c)
		case tag == 0x83 && !valued:
			f.Value, valued = string(c), true
		case tag == 0x84 && valued && len(c) == 1:
			f.DN = c[0] != 0
		default:
			r.err = malformed("extensible filter")
		}
	}
	if r.err == nil && (!valued || f.Type == "" && f.Rule == "") {
		r.err = malformed("extensible filter without a value, or without type and rule")
	}
}

// AppendFilter appends the encoding of a filter.
func AppendFilter(dst []byte, f *Filter) []byte {
	if f.Kind == FilterPresent {
		return appendText(dst, 0x87, f.Type)
	}
	dst, at := open(dst, 0xa0|byte(f.Kind))
	switch f.Kind {
	case FilterAnd, FilterOr, FilterNot:
		for i := range f.Parts {
			dst = AppendFilter(dst, &f.Parts[i])
		}
	case FilterSubstrings:
		dst = appendText(dst, tagOctets, f.Type)
		var in int
		dst, in = open(dst, tagSequence)
		if f.Initial != "" {
			dst = appendText(dst, 0x80, f.Initial)
		}
		for _, s := range f.Any {
			dst = appendText(dst, 0x81, s)
		}
		if f.Final != "" {
			dst = appendText(dst, 0x82, f.Final)
		}
		dst = shut(dst, in)
	case FilterExtensible:
		if f.Rule != "" {
			dst = appendText(dst, 0x81, f.Rule)
		}
		if f.Type != "" {
			dst = appendText(dst, 0x82, f.Type)
		}
		dst = appendText(dst, 0x83, f.Value)
		if f.DN {
			dst = append(dst, 0x84, 1, 0xff)
		}
	default:
		dst = appendText(appendText(dst, tagOctets, f.Type), tagOctets, f.Value)
	}
	return shut(dst, at)
}
