package davd

import (
	"cmp"
	"encoding/xml"
	"errors"
	"net/http"
	"strings"

	"doublet/directory"
)

// expandProperty answers expand-property: the properties that are addresses, each with properties of what it names.
//
// Implements: RFC 3253 §3.8 DAV:expand-property REPORT
func (q *request) expandProperty(x *resource, e *element) error {
	m := newMultistatus()
	if err := (&expansion{request: q}).add(m, x, e, 0); err != nil {
		return err
	}
	return q.multi(m, "")
}

// maxExpansions bounds the properties of one expand-property, and maxExpanded the resources that it reads for them:
// each may be a large entry.
const (
	maxExpansions = 1000
	maxExpanded   = 100
)

// expansion is the work for one expand-property.
type expansion struct {
	*request
	properties, resources int
}

// add adds a resource with the properties that e names. A property that is the address of a resource which the person
// may see becomes that resource, if e names properties of it.
func (q *expansion) add(m *multistatus, x *resource, e *element, depth int) error {
	var found strings.Builder
	var missing []xml.Name
	for _, p := range e.children {
		name := dav(p.attr("name"))
		if !p.is(nsDAV, "property") || !validName(name.Local) {
			continue
		}
		if q.properties++; q.properties > maxExpansions || q.resources > maxExpanded {
			return fail(http.StatusInsufficientStorage, "<D:number-of-matches-within-limits/>",
				"too many properties or resources")
		}
		name.Space = cmp.Or(p.attr("namespace"), nsDAV)
		s, ok := q.value(x, name)
		if !ok {
			missing = append(missing, name)
			continue
		}
		if path := hrefOf(s); len(p.children) > 0 && path != "" && depth < 4 {
			q.resources++
			to, err := q.find(path)
			if err == nil {
				err = q.load(to)
			}
			if err == nil {
				inner := &multistatus{}
				if err := q.add(inner, to, p, depth+1); err != nil {
					return err
				}
				s = inner.b.String()
			}
		}
		found.WriteString(open(name) + s + closing(name))
	}
	m.props(x.path(), found.String(), missing)
	return nil
}

// validName reports whether a name from an attribute can name an element.
func validName(s string) bool { return s != "" && !strings.ContainsAny(s, " <>&\"'/:=\t\r\n") }

// hrefOf returns the path of a value that is one address of this server.
func hrefOf(s string) string {
	e, err := parseXML([]byte(head("x") + s + "</D:x>"))
	if err != nil || len(e.children) != 1 || !e.children[0].is(nsDAV, "href") {
		return ""
	}
	return unescapePath(e.children[0].text)
}

// searchPrincipals answers principal-property-search for the names of people. It finds people that the directory shows,
// and returns those whose collections the caller may see.
//
// Implements: RFC 3744 §9.4 DAV:principal-property-search REPORT
func (q *request) searchPrincipals(e *element) error {
	w, err := readWanted(e)
	if err != nil {
		return err
	}
	text := ""
	for _, s := range e.children {
		if m := s.child(nsDAV, "match"); s.is(nsDAV, "property-search") && m != nil && text == "" {
			text = strings.TrimPrefix(strings.TrimSpace(m.text), "mailto:")
		}
	}
	list, err := q.s.dir.Names.Find(q.ctx, directory.Search{Text: text, Kind: directory.TargetPerson})
	if err != nil {
		return err
	}
	m := newMultistatus()
	for _, p := range list {
		o, err := q.ownerNamed(nameOf(p.Address, p.Name))
		if errors.Is(err, errNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := w.add(q, m, &resource{at: atPrincipal, owner: o}, ""); err != nil {
			return err
		}
	}
	return q.multi(m, "")
}
