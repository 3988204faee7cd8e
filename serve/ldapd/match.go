package ldapd

import (
	"math"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/ldap"
)

// truth is a value of the three-valued logic of RFC 4511 section 4.5.1.7. The order is that of and: the least decides.
type truth uint8

const (
	no truth = iota
	unknown
	yes
)

func not(t truth) truth { return yes - t }

func truthOf(ok bool) truth {
	if ok {
		return yes
	}
	return no
}

// query is a filter that is prepared for one search: types are resolved, and assertion values are normal.
type query struct {
	kind  ldap.FilterKind
	parts []query
	// undefined reports that no entry decides the filter: an unknown type, rule or syntax.
	undefined bool
	attribute *attribute // nil for an extensible filter over all attributes
	rule      *rule
	value     string
	dn        bool // an extensible filter over the parts of the name
	initial   string
	any       []string
	final     string
}

// prepare prepares a filter.
//
// Implements: RFC 4511 §4.5.1.7 Evaluation of filters
// Implements: RFC 4526 §2 Absolute True and False filters
func prepare(f *ldap.Filter) query {
	q := query{kind: f.Kind}
	switch f.Kind {
	case ldap.FilterAnd, ldap.FilterOr, ldap.FilterNot:
		q.parts = make([]query, len(f.Parts))
		for i := range f.Parts {
			q.parts[i] = prepare(&f.Parts[i])
		}
		return q
	case ldap.FilterExtensible:
		q.extensible(f)
		return q
	}
	q.attribute = attributeNamed(f.Type)
	if q.attribute == nil {
		q.undefined = true
		return q
	}
	q.rule = q.attribute.rule
	switch f.Kind {
	case ldap.FilterPresent:
	case ldap.FilterSubstrings:
		q.substrings(f)
	default:
		var ok bool
		q.value, ok = q.rule.normal(f.Value)
		ordering := f.Kind == ldap.FilterGreaterOrEqual || f.Kind == ldap.FilterLessOrEqual
		q.undefined = !ok || ordering && !q.rule.ordered
	}
	return q
}

// extensible prepares an extensible filter. With a type and a rule, the rule must fit the values of the type.
//
// Implements: RFC 4511 §4.5.1.7.7 SearchRequest.filter.extensibleMatch
func (q *query) extensible(f *ldap.Filter) {
	q.dn = f.DN
	if f.Type != "" {
		if q.attribute = attributeNamed(f.Type); q.attribute == nil {
			q.undefined = true
			return
		}
		q.rule = q.attribute.rule
	}
	if f.Rule != "" {
		rule := ruleNamed(f.Rule)
		if rule == nil || q.attribute != nil && rule.substrings != q.attribute.rule.substrings {
			q.undefined = true
			return
		}
		q.rule = rule
	}
	var ok bool
	q.value, ok = q.rule.normal(f.Value)
	q.undefined = !ok
}

// substrings prepares the pieces of a substring filter.
func (q *query) substrings(f *ldap.Filter) {
	if q.undefined = !q.rule.substrings; q.undefined {
		return
	}
	q.initial, q.final = piece(q.rule, f.Initial), piece(q.rule, f.Final)
	for _, s := range f.Any {
		q.any = append(q.any, piece(q.rule, s))
	}
}

// piece returns the normal form of a piece of a substring. Spaces at its ends count, unlike those of whole values.
func piece(r *rule, s string) string {
	if strings.TrimSpace(s) == "" {
		return s
	}
	out, _ := folded(s)
	if r == ruleExact {
		out, _ = spaced(s)
	}
	if s[0] == ' ' {
		out = " " + out
	}
	if s[len(s)-1] == ' ' {
		out += " "
	}
	return out
}

// match evaluates the filter for an entry.
func (q *query) match(e *entry) truth {
	switch q.kind {
	case ldap.FilterAnd:
		out := yes
		for i := range q.parts {
			if out = min(out, q.parts[i].match(e)); out == no {
				break
			}
		}
		return out
	case ldap.FilterOr:
		out := no
		for i := range q.parts {
			if out = max(out, q.parts[i].match(e)); out == yes {
				break
			}
		}
		return out
	case ldap.FilterNot:
		return not(q.parts[0].match(e))
	}
	switch {
	case q.undefined, q.attribute != nil && e.hidden(q.attribute):
		return unknown
	case q.kind == ldap.FilterPresent:
		return truthOf(len(e.get(q.attribute)) > 0)
	case q.attribute == nil:
		return q.matchAll(e)
	case q.dn && q.matchName(e):
		return yes
	}
	return truthOf(slices.ContainsFunc(e.get(q.attribute), q.matches))
}

// matchAll evaluates an extensible filter without a type: over all attributes that have the syntax of the rule.
func (q *query) matchAll(e *entry) truth {
	for _, a := range attributes {
		if a.rule.syntax == q.rule.syntax && !e.hidden(a) && slices.ContainsFunc(e.get(a), q.matches) {
			return yes
		}
	}
	return truthOf(q.dn && q.matchName(e))
}

// matchName evaluates an extensible filter over the parts of the entry's name.
func (q *query) matchName(e *entry) bool {
	dn, err := ldap.ParseDN(e.dn())
	if err != nil {
		return false
	}
	return slices.ContainsFunc(dn, func(r ldap.RDN) bool {
		a := attributeNamed(r.Type)
		return (q.attribute == nil || a == q.attribute) && q.matches(r.Value)
	})
}

// matches compares one value with the assertion.
func (q *query) matches(value string) bool {
	v, ok := q.rule.normal(value)
	if !ok {
		return false
	}
	switch q.kind {
	case ldap.FilterSubstrings:
		return q.contains(v)
	case ldap.FilterGreaterOrEqual:
		return v >= q.value
	case ldap.FilterLessOrEqual:
		return v <= q.value
	}
	return v == q.value // an approximate match may be an equality match (section 4.5.1.7.6)
}

func (q *query) contains(v string) bool {
	v, ok := strings.CutPrefix(v, q.initial)
	if !ok {
		return false
	}
	for _, s := range q.any {
		if _, v, ok = strings.Cut(v, s); !ok {
			return false
		}
	}
	return strings.HasSuffix(v, q.final)
}

// plan is the way to find the candidates of a query: by terms of the directory's indexes, or by reading all records of
// some kinds.
type plan struct {
	terms []directory.Term
	// all reports that the terms are not sufficient.
	all bool
	// cost estimates the number of candidates.
	cost float64
}

// Costs of plans.
const (
	costGroup  = 100
	costPrefix = 1000
	costAll    = math.MaxFloat64
)

// maxTerms is the maximum number of terms of a plan.
const maxTerms = 20_000

// plan finds a superset of the entries for which the query is true.
func (q *query) plan(v *view) (p plan) {
	switch {
	case q.kind == ldap.FilterAnd:
		p = plan{all: true, cost: costAll}
		for i := range q.parts {
			if one := q.parts[i].plan(v); one.cost < p.cost {
				p = one
			}
		}
		return p
	case q.kind == ldap.FilterOr:
		for i := range q.parts {
			one := q.parts[i].plan(v)
			if one.all || len(p.terms)+len(one.terms) > maxTerms {
				return plan{all: true, cost: costAll}
			}
			p.terms, p.cost = append(p.terms, one.terms...), p.cost+one.cost
		}
		return p
	case q.kind == ldap.FilterNot:
		return plan{all: true, cost: costAll}
	case q.undefined:
		return plan{} // true for no entry
	}
	if term, cost, ok := q.term(v); ok {
		return plan{terms: term, cost: cost}
	}
	return plan{all: true, cost: costAll}
}

// term returns the terms of a simple filter over an indexed attribute.
func (q *query) term(v *view) (terms []directory.Term, cost float64, ok bool) {
	if q.attribute == nil || q.dn || q.rule != q.attribute.rule {
		return nil, 0, false
	}
	if q.attribute.level > v.level { // of people who may not see it, all see their own
		if v.who.Person.IsZero() {
			return nil, 0, true
		}
		return []directory.Term{{ID: v.who.Person}}, 1, true
	}
	equal := q.kind == ldap.FilterEqual || q.kind == ldap.FilterApprox || q.kind == ldap.FilterExtensible
	prefix := q.kind == ldap.FilterSubstrings && strings.TrimSpace(q.initial) != ""
	switch {
	case equal && q.value != "":
		return q.equal(v)
	case prefix && q.attribute.index == indexNames:
		return []directory.Term{{NamePrefix: q.initial}}, costPrefix, true
	case prefix && q.attribute.index == indexAddresses:
		return []directory.Term{{AddressPrefix: q.initial}}, costPrefix, true
	}
	return nil, 0, false
}

// equal returns the terms of a filter for a whole value.
func (q *query) equal(v *view) (terms []directory.Term, cost float64, ok bool) {
	switch q.attribute.index {
	case indexNames:
		return []directory.Term{{Name: q.value}}, 1, true
	case indexAddresses:
		return []directory.Term{{Address: q.value}}, 1, true
	case indexIDs:
		if id, good := parseUUID(q.value); good && !id.IsZero() {
			return []directory.Term{{ID: id}}, 1, true
		}
	case indexEntries:
		return q.byName(v)
	}
	return nil, 0, false
}

// byName returns the terms of a filter whose value is the name of an entry.
func (q *query) byName(v *view) (terms []directory.Term, cost float64, ok bool) {
	dn, err := ldap.ParseDN(q.value)
	if err != nil {
		return nil, 0, true
	}
	p, e, _, err := v.find(dn)
	if err != nil {
		v.fail(err)
	}
	if p != placeRecord {
		return nil, 0, true // no record has it
	}
	switch {
	case q.attribute.name == "entryDN":
		return []directory.Term{{ID: e.record.ID}}, 1, true
	case q.attribute.name == "member":
		return []directory.Term{{Member: e.record.ID}}, costGroup, true
	case e.record.Group == nil:
		return nil, 0, true
	}
	for _, m := range e.record.Group.Members {
		if id, bad := note.ParseUNID(m); bad == nil {
			terms = append(terms, directory.Term{ID: id})
		}
	}
	return terms, float64(len(terms)), true
}

// kinds returns the kinds of records of which the query can be true, by their object classes.
func (q *query) kinds() kindSet {
	switch {
	case q.kind == ldap.FilterAnd:
		out := allKinds
		for i := range q.parts {
			out &= q.parts[i].kinds()
		}
		return out
	case q.kind == ldap.FilterOr:
		var out kindSet
		for i := range q.parts {
			out |= q.parts[i].kinds()
		}
		return out
	case q.undefined:
		return 0
	case q.kind == ldap.FilterEqual && q.attribute.name == "objectClass":
		var out kindSet
		for kind, list := range entryClasses {
			if slices.ContainsFunc(list, q.matches) {
				out |= kindOf(kind)
			}
		}
		return out
	}
	return allKinds
}

// kindSet is a set of kinds of records.
type kindSet uint8

func kindOf(k directory.TargetKind) kindSet { return 1 << k }

const allKinds kindSet = 1<<directory.TargetPerson | 1<<directory.TargetGroup | 1<<directory.TargetMailIn
