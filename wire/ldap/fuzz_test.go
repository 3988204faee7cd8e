package ldap

import (
	"errors"
	"strings"
	"testing"

	client "github.com/go-ldap/ldap/v3"
)

// deep returns a search whose filter is nested n times.
func deep(n int) []byte {
	f := Filter{Kind: FilterPresent, Type: "cn"}
	for range n - 1 {
		f = Filter{Kind: FilterNot, Parts: []Filter{f}}
	}
	return AppendSearch(nil, &Search{Base: "dc=x", Filter: f, Attributes: []string{"cn"}})
}

// FuzzMessage parses messages, and prints and parses again the requests in them.
func FuzzMessage(f *testing.F) {
	for _, s := range [][]byte{
		AppendRequest(nil, 1, OpSearch, deep(3)), AppendRequest(nil, 1<<20, OpUnbind, nil),
		AppendRequest(nil, 2, OpBind, []byte("\x02\x01\x03\x04\x01x\x80\x01y")),
		AppendRequest(nil, 2, OpBind, []byte("\x02\x01\x03\x04\x00\xa3\x07\x04\x05PLAIN")),
		AppendRequest(nil, 2, OpCompare, []byte("\x04\x01x\x30\x06\x04\x02cn\x04\x00")),
		AppendRequest(nil, 2, OpExtended, []byte("\x80\x011\x81\x02\x30\x00")),
		{0x30, 0x84, 0, 0, 0, 5, 2, 1, 3, 0x42, 0},
		{0x30, 0x80, 0, 0}, {0x30, 0x84, 0xff, 0xff, 0xff, 0xff},
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := Frame(b, 1<<16)
		if err != nil || n == 0 || n > len(b) {
			return
		}
		m, err := Parse(b[:n])
		if err != nil {
			return
		}
		_, _ = ParseBind(m.Body)
		_, _ = ParseCompare(m.Body)
		_, _ = ParseAbandon(m.Body)
		if x, err := ParseExtended(m.Body); err == nil {
			_, _ = ParsePasswordModify(x.Value)
			_, _ = ParseCancel(x.Value)
		}
		for _, c := range m.Controls {
			_, _ = ParsePaged(c.Value)
			_, _ = ParseSort(c.Value)
			_, _ = ParseSync(c.Value)
		}
		q, err := ParseSearch(m.Body)
		if err != nil {
			return
		}
		body := AppendSearch(nil, &q)
		again, err := ParseSearch(body)
		if err != nil || string(AppendSearch(nil, &again)) != string(body) {
			t.Fatalf("%q: %v, then %v, %v", b, q, again, err)
		}
	})
}

// FuzzDN checks that a name that was parsed is printed in a form that parses to the same name.
func FuzzDN(f *testing.F) {
	for _, s := range []string{"", "cn=a,dc=b", `cn=a\,b\20,dc="q,r" ; o= x `, `cn=#0403616263`, `cn=\c3\bc`, "cn=",
		"cn=a+b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dn, err := ParseDN(s)
		if err != nil {
			return
		}
		again, err := ParseDN(dn.String())
		if err != nil || again.String() != dn.String() {
			t.Fatalf("%q: %q, then %q, %v", s, dn, again, err)
		}
	})
}

// TestFilterLimits checks that a filter that is too deep or too large is refused as such, however deep it is.
func TestFilterLimits(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]error{MaxFilterDepth: nil, MaxFilterDepth + 1: ErrFilter, 1000: ErrFilter} {
		if _, err := ParseSearch(deep(n)); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%d levels: %v, want %v", n, err, want)
		}
	}
	wide := Filter{Kind: FilterOr}
	for range MaxFilterNodes {
		wide.Parts = append(wide.Parts, Filter{Kind: FilterPresent, Type: "cn"})
	}
	if _, err := ParseSearch(AppendSearch(nil, &Search{Filter: wide})); !errors.Is(err, ErrFilter) {
		t.Errorf("%d parts: %v", MaxFilterNodes+1, err)
	}
	pieces := Filter{Kind: FilterSubstrings, Type: "cn", Any: make([]string, MaxFilterNodes)}
	for i := range pieces.Any {
		pieces.Any[i] = "x"
	}
	if _, err := ParseSearch(AppendSearch(nil, &Search{Filter: pieces})); !errors.Is(err, ErrFilter) {
		t.Errorf("%d pieces: %v", MaxFilterNodes, err)
	}
}

// TestFrame checks that a length is refused before anything is read.
func TestFrame(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]struct {
		n   int
		err error
	}{
		"":                                 {0, nil},
		"\x30":                             {0, nil},
		"\x30\x05":                         {7, nil},
		"\x30\x84\x00\x00":                 {0, nil},
		"\x30\x84\x00\x00\x00\x05":         {11, nil},
		"\x30\x82\x01\x00":                 {260, nil},
		"\x30\x83\x01\x00\x00":             {0, ErrTooLarge},
		"\x30\x84\xff\xff\xff\xff":         {0, ErrSyntax},
		"\x30\x80":                         {0, ErrSyntax},
		"\x30\x85\x00\x00\x00\x00\x05":     {0, ErrSyntax},
		"GET / HTTP/1.1\r\n":               {0, ErrSyntax},
		"\x16\x03\x01\x02\x00\x01\x00\x01": {0, ErrSyntax},
	} {
		if n, err := Frame([]byte(in), 1000); n != want.n || !errors.Is(err, want.err) {
			t.Errorf("%q: %d, %v; want %d, %v", in, n, err, want.n, want.err)
		}
	}
}

// TestFilterAgainstClient compares filters with those that the client library encodes.
func TestFilterAgainstClient(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"(cn=a)", "(&(a=1)(|(b=2)(c=3))(!(d=4)))", "(cn=a*b*c*d)", "(cn=*b*)", "(cn=a*)",
		"(a>=1)", "(a<=1)", "(a~=1)", "(a=*)", "(a:dn:2.5.13.2:=x)", "(:caseIgnoreMatch:=x)", "(a:=x)", "(&)", "(|)",
		"(cn=" + strings.Repeat("x", 300) + ")"} {
		p, err := client.CompileFilter(text)
		if err != nil {
			t.Fatal(err)
		}
		r := reader{b: p.Bytes()}
		f := new(filterReader).parse(&r, 1)
		if r.end() != nil {
			t.Fatalf("%s: %v", text, r.err)
		}
		again := AppendFilter(nil, &f)
		if f.DN { // any byte but 0 is TRUE
			again[len(again)-1] = 1
		}
		if string(again) != string(p.Bytes()) {
			t.Errorf("%s is %q, the library encodes it as %q", text, again, p.Bytes())
		}
	}
}
