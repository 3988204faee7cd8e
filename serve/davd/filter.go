package davd

import (
	"net/http"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/wire/ical"

	"golang.org/x/text/cases"
)

func badFilter(text string) error { return fail(http.StatusForbidden, "<C:valid-filter/>", text) }

// maxFilter bounds the elements of a filter: each is compared with each entry.
const maxFilter = 100

// compFilter is a filter over a component.
type compFilter struct {
	name   string
	absent bool
	period *groupware.Range
	props  []propFilter
	comps  []compFilter
}

// propFilter is a filter over a property of a component or a vCard.
type propFilter struct {
	name   string
	absent bool
	any    bool // one of the conditions suffices
	period *groupware.Range
	texts  []textMatch
	params []paramFilter
}

// paramFilter is a filter over a parameter.
type paramFilter struct {
	name   string
	absent bool
	text   *textMatch
}

// textMatch compares a text.
type textMatch struct {
	text   string
	kind   string // contains, equals, starts-with, ends-with
	fold   func(string) string
	negate bool
}

func (t *textMatch) match(s string) bool {
	s = t.fold(s)
	ok := false
	switch t.kind {
	case "equals":
		ok = s == t.text
	case "starts-with":
		ok = strings.HasPrefix(s, t.text)
	case "ends-with":
		ok = strings.HasSuffix(s, t.text)
	default:
		ok = strings.Contains(s, t.text)
	}
	return ok != t.negate
}

// readText reads a text-match.
//
// Implements: RFC 4791 §9.7.5 CALDAV:text-match XML Element
// Implements: RFC 6352 §10.5.4 CARDDAV:text-match XML Element
func readText(e *element, card bool) (*textMatch, error) {
	t := &textMatch{kind: "contains", negate: e.attr("negate-condition") == "yes"}
	if k := e.attr("match-type"); k != "" {
		t.kind = k
	}
	collation := e.attr("collation")
	if collation == "" && card {
		collation = "i;unicode-casemap"
	}
	switch collation {
	case "i;octet":
		t.fold = func(s string) string { return s }
	case "", "default", "i;ascii-casemap":
		t.fold = asciiFold
	case "i;unicode-casemap":
		t.fold = func(s string) string { return cases.Fold().String(s) }
	default:
		p := "C"
		if card {
			p = "A"
		}
		return nil, fail(http.StatusForbidden, "<"+p+":supported-collation/>", "collation is not supported")
	}
	t.text = t.fold(e.text)
	return t, nil
}

func asciiFold(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// filterReader reads a filter, and counts its elements.
type filterReader struct {
	ns   string
	left int
}

func (f *filterReader) count() error {
	if f.left--; f.left < 0 {
		return badFilter("filter is too large")
	}
	return nil
}

// comp reads a comp-filter.
//
// Implements: RFC 4791 §9.7.1 CALDAV:comp-filter XML Element
func (f *filterReader) comp(e *element) (c compFilter, err error) {
	c.name = strings.ToUpper(e.attr("name"))
	if err := f.count(); err != nil {
		return c, err
	}
	for _, x := range e.children {
		switch {
		case x.is(nsCalDAV, "is-not-defined"):
			c.absent = true
		case x.is(nsCalDAV, "time-range"):
			r, err := readRange(x)
			if err != nil {
				return c, err
			}
			if c.name != calendar.Event && c.name != calendar.Task && c.name != calendar.Journal {
				return c, fail(http.StatusForbidden, "<C:supported-filter/>", "no time range for "+c.name)
			}
			c.period = &r
		case x.is(nsCalDAV, "comp-filter"):
			inner, err := f.comp(x)
			if err != nil {
				return c, err
			}
			c.comps = append(c.comps, inner)
		case x.is(nsCalDAV, "prop-filter"):
			p, err := f.prop(x)
			if err != nil {
				return c, err
			}
			c.props = append(c.props, p)
		default:
			return c, fail(http.StatusForbidden, "<C:supported-filter/>", "filter "+x.name.Local+" is not supported")
		}
	}
	return c, nil
}

// prop reads a prop-filter.
func (f *filterReader) prop(e *element) (p propFilter, err error) {
	card := f.ns == nsCardDAV
	p.name, p.any = strings.ToUpper(e.attr("name")), card && e.attr("test") != "allof"
	if err := f.count(); err != nil {
		return p, err
	}
	for _, x := range e.children {
		if err := f.count(); err != nil {
			return p, err
		}
		switch {
		case x.is(f.ns, "is-not-defined"):
			p.absent = true
		case x.is(nsCalDAV, "time-range"):
			r, err := readRange(x)
			if err != nil {
				return p, err
			}
			p.period = &r
		case x.is(f.ns, "text-match"):
			t, err := readText(x, card)
			if err != nil {
				return p, err
			}
			p.texts = append(p.texts, *t)
		case x.is(f.ns, "param-filter"):
			q := paramFilter{name: strings.ToUpper(x.attr("name")), absent: x.child(f.ns, "is-not-defined") != nil}
			if t := x.child(f.ns, "text-match"); t != nil {
				if q.text, err = readText(t, card); err != nil {
					return p, err
				}
			}
			p.params = append(p.params, q)
		default:
			return p, fail(http.StatusForbidden, "<C:supported-filter/>", "filter "+x.name.Local+" is not supported")
		}
	}
	return p, nil
}

func (f *paramFilter) match(p *ical.Property) bool {
	defined := false
	for _, x := range p.Params {
		if x.Name != f.name {
			continue
		}
		defined = true
		for _, v := range x.Values {
			if f.text != nil && f.text.match(v) {
				return !f.absent
			}
		}
	}
	if f.absent {
		return !defined
	}
	return defined && f.text == nil
}

// match reports whether a property of the component fulfils the filter.
func (f *propFilter) match(c *ical.Component, zone *ical.Zone) bool {
	defined := false
	for i := range c.Properties {
		p := &c.Properties[i]
		if p.Name != f.name {
			continue
		}
		defined = true
		if f.one(p, c, zone) {
			return !f.absent
		}
	}
	return f.absent && !defined
}

func (f *propFilter) one(p *ical.Property, whole *ical.Component, zone *ical.Zone) bool {
	if f.period == nil && len(f.texts)+len(f.params) == 0 {
		return true
	}
	if f.period != nil {
		if at, ok := instant(p, whole, zone); !ok || at.Before(f.period.From) ||
			!f.period.To.IsZero() && !at.Before(f.period.To) {
			return false
		}
	}
	text := p.Text()
	hits, all := 0, len(f.texts)+len(f.params)
	for i := range f.texts {
		if f.texts[i].match(text) {
			hits++
		}
	}
	for i := range f.params {
		if f.params[i].match(p) {
			hits++
		}
	}
	return hits == all || f.any && hits > 0
}

// instant returns the instant of a property that is a time.
func instant(p *ical.Property, whole *ical.Component, zone *ical.Zone) (time.Time, bool) {
	m, ok := p.Moment()
	if !ok {
		return time.Time{}, false
	}
	if m.Zone != "" {
		if z := whole.Zone(m.Zone); z != nil {
			zone = z
		}
	}
	if zone == nil {
		zone = ical.UTC
	}
	return zone.At(m.Wall), true
}

// match reports whether the children of a component fulfil the filter.
func (f *compFilter) match(parent *ical.Component, zone *ical.Zone) bool {
	for _, c := range parent.Children {
		if c.Name != f.name {
			continue
		}
		if f.absent {
			return false
		}
		if f.inside(c, zone) {
			return true
		}
	}
	return f.absent
}

func (f *compFilter) inside(c *ical.Component, zone *ical.Zone) bool {
	for i := range f.props {
		if !f.props[i].match(c, zone) {
			return false
		}
	}
	for i := range f.comps {
		if !f.comps[i].match(c, zone) {
			return false
		}
	}
	return true
}

// queryCalendar answers calendar-query.
//
// Implements: RFC 4791 §7.8 CALDAV:calendar-query REPORT
func (q *request) queryCalendar(x *resource, e *element) error {
	w, err := readWanted(e)
	if err != nil {
		return err
	}
	top := e.child(nsCalDAV, "filter").child(nsCalDAV, "comp-filter")
	if top == nil {
		return badFilter("filter is missing")
	}
	f, err := (&filterReader{nsCalDAV, maxFilter}).comp(top)
	if err != nil {
		return err
	}
	if f.name != "VCALENDAR" {
		return badFilter("filter does not begin with VCALENDAR")
	}
	component := ""
	var period *groupware.Range
	for i := range f.comps {
		c := &f.comps[i]
		if c.absent {
			continue
		}
		if component != "" && component != c.name {
			return q.multi(newMultistatus(), "") // an object has components of one kind
		}
		if component = c.name; c.period == nil {
			continue
		}
		if period != nil {
			return fail(http.StatusForbidden, "<C:supported-filter/>", "filter has more than one time range")
		}
		period = c.period
	}
	zone := ical.Named(x.collection.TimeZone)
	m := newMultistatus()
	var inner error
	take := func(entry *groupware.Entry) bool {
		inner = q.match(m, &w, &f, x.with(entry), zone)
		return inner == nil
	}
	if component == "VTIMEZONE" {
		component = ""
	}
	if period != nil {
		period.Floating, period.Component = zone, component
		err = q.file(x.owner).Between(q.ctx, x.col, *period, true, take)
	} else {
		err = q.file(x.owner).Entries(q.ctx, x.kind, x.col, groupware.Select{Component: component, Text: true}, take)
	}
	if inner != nil {
		return inner
	}
	if err != nil {
		return err
	}
	return q.multi(m, "")
}

// match adds an entry to a response if it fulfils the filter. Its time range holds already.
func (q *request) match(m *multistatus, w *wanted, f *compFilter, x *resource, zone *ical.Zone) error {
	if f.absent {
		return nil
	}
	if err := q.ctx.Err(); err != nil { // the client has gone
		return err
	}
	if len(f.props) > 0 || f.deep() {
		o, err := calendar.ReadObject(x.entry.Text)
		if err != nil || !f.inside(o.Whole, zone) {
			return nil //nolint:nilerr // an object from a newer program matches nothing
		}
	}
	return q.addEntry(m, w, x)
}

// deep reports whether the kind of an entry and its time do not decide alone.
func (f *compFilter) deep() bool {
	for i := range f.comps {
		c := &f.comps[i]
		if c.absent || len(c.props)+len(c.comps) > 0 || c.name == "VTIMEZONE" {
			return true
		}
	}
	return false
}

// queryBook answers addressbook-query.
//
// Implements: RFC 6352 §8.6 CARDDAV:addressbook-query Report
func (q *request) queryBook(x *resource, e *element) error {
	w, err := readWanted(e)
	if err != nil {
		return err
	}
	limit, err := readLimit(e, nsCardDAV)
	if err != nil {
		return err
	}
	filter := e.child(nsCardDAV, "filter")
	var props []propFilter
	r := &filterReader{nsCardDAV, maxFilter}
	if filter != nil {
		for _, c := range filter.children {
			p, err := r.prop(c)
			if err != nil {
				return err
			}
			props = append(props, p)
		}
	}
	all := filter != nil && filter.attr("test") == "allof"
	m := newMultistatus()
	n, more := 0, false
	var inner error
	every := groupware.Select{Text: true}
	err = q.file(x.owner).Entries(q.ctx, x.kind, x.col, every, func(entry *groupware.Entry) bool {
		if inner = q.ctx.Err(); inner != nil { // the client has gone
			return false
		}
		if !matchCard(entry.Text, props, all) {
			return true
		}
		if n++; limit > 0 && n > limit {
			more = true
			return false
		}
		inner = q.addEntry(m, &w, x.with(entry))
		return inner == nil
	})
	if inner != nil {
		return inner
	}
	if err != nil {
		return err
	}
	if more {
		m.status(x.path(), http.StatusInsufficientStorage, "<D:error><D:number-of-matches-within-limits/></D:error>")
	}
	return q.multi(m, "")
}

// matchCard reports whether a vCard fulfils the filters: all or one of them.
func matchCard(text []byte, props []propFilter, all bool) bool {
	if len(props) == 0 {
		return true
	}
	c, err := ical.Parse(text, ical.Limits{Size: groupware.MaxEntry, Lines: 20_000, Depth: 2})
	if err != nil {
		return false
	}
	for i := range props {
		if props[i].match(c, nil) != all {
			return !all
		}
	}
	return all
}
