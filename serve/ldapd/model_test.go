package ldapd

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	client "github.com/go-ldap/ldap/v3"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/ldap"
)

// model is a filter evaluator of its own over entries as the client sees them: text in lower case, no indexes.
type model struct{ entries []*client.Entry }

func (m *model) values(e *client.Entry, name string) []string {
	for _, a := range e.Attributes {
		if strings.EqualFold(a.Name, name) {
			return a.Values
		}
	}
	return nil
}

// eval returns 1 for true, 0 for undefined, -1 for false.
func (m *model) eval(e *client.Entry, f *ldap.Filter) int {
	switch f.Kind {
	case ldap.FilterAnd:
		out := 1
		for i := range f.Parts {
			out = min(out, m.eval(e, &f.Parts[i]))
		}
		return out
	case ldap.FilterOr:
		out := -1
		for i := range f.Parts {
			out = max(out, m.eval(e, &f.Parts[i]))
		}
		return out
	case ldap.FilterNot:
		return -m.eval(e, &f.Parts[0])
	}
	if f.Type == "nonsense" {
		return 0
	}
	want := strings.ToLower(f.Value)
	for _, v := range m.values(e, f.Type) {
		v = strings.ToLower(v)
		ok := false
		switch f.Kind {
		case ldap.FilterPresent:
			ok = true
		case ldap.FilterGreaterOrEqual:
			ok = v >= want
		case ldap.FilterLessOrEqual:
			ok = v <= want
		case ldap.FilterSubstrings:
			ok = globs(v, f)
		default:
			ok = v == want
		}
		if ok {
			return 1
		}
	}
	return -1
}

// globs tries every way to place the pieces.
func globs(v string, f *ldap.Filter) bool {
	v, ok := strings.CutPrefix(v, strings.ToLower(f.Initial))
	if !ok {
		return false
	}
	return anyOf(v, f.Any, strings.ToLower(f.Final))
}

func anyOf(v string, pieces []string, final string) bool {
	if len(pieces) == 0 {
		return strings.HasSuffix(v, final)
	}
	p := strings.ToLower(pieces[0])
	for i := 0; i+len(p) <= len(v); i++ {
		if v[i:i+len(p)] == p && anyOf(v[i+len(p):], pieces[1:], final) {
			return true
		}
	}
	return false
}

// randomFilter makes a filter over values and parts of values that occur.
func randomFilter(r *rand.Rand, m *model, depth int) ldap.Filter {
	if depth > 0 && r.IntN(2) == 0 {
		f := ldap.Filter{Kind: ldap.FilterKind(r.IntN(3))}
		n := 1
		if f.Kind != ldap.FilterNot {
			n = r.IntN(4)
		}
		for range n {
			f.Parts = append(f.Parts, randomFilter(r, m, depth-1))
		}
		return f
	}
	types := []string{"cn", "sn", "givenName", "uid", "mail", "mailLocalAddress", "mailAlternateAddress", "displayName",
		"objectClass", "member", "memberOf", "nonsense", "description", "mailForwardingAddress", "entryDN"}
	f := ldap.Filter{Type: types[r.IntN(len(types))]}
	kinds := []ldap.FilterKind{ldap.FilterEqual, ldap.FilterEqual, ldap.FilterPresent, ldap.FilterApprox,
		ldap.FilterSubstrings, ldap.FilterGreaterOrEqual, ldap.FilterLessOrEqual}
	if slices.Contains([]string{"objectClass", "member", "memberOf", "entryDN"}, f.Type) {
		kinds = kinds[:3]
	}
	f.Kind = kinds[r.IntN(len(kinds))]
	v := "cn=x" // also a name
	for range 20 {
		if list := m.values(m.entries[r.IntN(len(m.entries))], f.Type); len(list) > 0 {
			v = list[r.IntN(len(list))]
			break
		}
	}
	switch f.Kind {
	case ldap.FilterSubstrings:
		piece := func() string {
			i := r.IntN(len(v))
			return strings.TrimSpace(v[i:min(len(v), i+1+r.IntN(3))])
		}
		if r.IntN(2) == 0 {
			f.Initial = strings.TrimSpace(v[:1+r.IntN(len(v))])
		}
		for range r.IntN(3) {
			if p := piece(); p != "" {
				f.Any = append(f.Any, p)
			}
		}
		if f.Final = piece(); r.IntN(2) == 0 && (f.Initial != "" || len(f.Any) > 0) {
			f.Final = ""
		}
		if f.Initial+f.Final+strings.Join(f.Any, "") == "" {
			f.Initial = "a"
		}
	case ldap.FilterPresent:
	default:
		if f.Value = v; r.IntN(3) == 0 {
			f.Value = strings.ToUpper(v)
		}
	}
	return f
}

// TestModel compares the results of random filters over random people and groups with a simple model, for an
// administrator and for a person. The model knows only what each client gets from a search for everything.
func TestModel(t *testing.T) {
	t.Parallel()
	w := open(t, settings{Config: Config{Entries: 1000}})
	r := rand.New(rand.NewPCG(1, 2))
	first, last := []string{"Ann", "Anna", "Bo", "Ben", "Cleo"}, []string{"Ash", "Beck", "Ann", "Benson", "Oak"}
	var names []string
	for i := range 40 {
		p := w.person(first[r.IntN(5)]+" "+last[r.IntN(5)]+fmt.Sprint(" ", i), fmt.Sprint("u", i),
			func(s *directory.PersonSpec) {
				s.Hash = ""
				s.Disabled = r.IntN(8) == 0
				for n := range r.IntN(3) {
					s.MailAddress = append(s.MailAddress, fmt.Sprintf("alias%d.%d@example.org", i, n))
				}
				if r.IntN(4) == 0 {
					s.Forward = []string{"f@elsewhere.example"}
				}
			})
		names = append(names, p.Name())
	}
	for i := range 8 {
		f := directory.GroupFields{Name: fmt.Sprint("Group ", i)}
		if r.IntN(2) == 0 {
			f.InternetAddress = fmt.Sprintf("g%d@example.org", i)
		}
		for range r.IntN(6) {
			f.Members = append(f.Members, names[r.IntN(len(names))])
		}
		_, err := w.dir.Groups.Add(bg, note.System, f)
		w.ok(err)
	}
	for _, user := range []string{"chief", "bob"} {
		c, err := client.DialURL("ldap://" + w.Addr.String())
		w.ok(err)
		defer c.Close()
		w.ok(c.Bind(user, "secret-"+user))
		req := client.NewSearchRequest("dc=example,dc=org", 2, 0, 0, 0, false, "(objectClass=*)",
			[]string{"*", "+"}, nil)
		all, err := c.Search(req)
		w.ok(err)
		m := &model{entries: all.Entries}
		n := 0
		for range 1500 {
			f := randomFilter(r, m, 3)
			if user == "bob" && hides(&f) {
				continue // the model cannot tell what is hidden from what is absent
			}
			text := filterText(&f)
			req.Filter, req.Attributes = text, []string{"1.1"}
			got, err := c.Search(req)
			w.ok(err)
			var have, want []string
			for _, e := range got.Entries {
				have = append(have, e.DN)
			}
			for _, e := range m.entries {
				if m.eval(e, &f) == 1 {
					want = append(want, e.DN)
				}
			}
			slices.Sort(have)
			slices.Sort(want)
			if !slices.Equal(have, want) {
				t.Fatalf("%s as %s:\n%q\nwant\n%q", text, user, have, want)
			}
			n += len(want)
		}
		if n == 0 {
			t.Error("no filter matched anything")
		}
	}
}

// hides reports whether a filter contains attributes that people do not see of others.
func hides(f *ldap.Filter) bool {
	for i := range f.Parts {
		if hides(&f.Parts[i]) {
			return true
		}
	}
	a := attributeNamed(f.Type)
	return a != nil && a.level == levelFull
}

// filterText returns the string form of a filter (RFC 4515).
func filterText(f *ldap.Filter) string {
	text := client.EscapeFilter
	switch f.Kind {
	case ldap.FilterAnd, ldap.FilterOr, ldap.FilterNot:
		out := "(" + string("&|!"[f.Kind])
		for i := range f.Parts {
			out += filterText(&f.Parts[i])
		}
		return out + ")"
	case ldap.FilterPresent:
		return "(" + f.Type + "=*)"
	case ldap.FilterSubstrings:
		out := "(" + f.Type + "=" + text(f.Initial) + "*"
		for _, s := range f.Any {
			out += text(s) + "*"
		}
		return out + text(f.Final) + ")"
	}
	op := map[ldap.FilterKind]string{ldap.FilterEqual: "=", ldap.FilterApprox: "~=", ldap.FilterGreaterOrEqual: ">=",
		ldap.FilterLessOrEqual: "<="}[f.Kind]
	return "(" + f.Type + op + text(f.Value) + ")"
}
