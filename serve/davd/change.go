package davd

import (
	"encoding/xml"
	"errors"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/wire/ical"
)

// color matches the colours of Apple: #rrggbb or #rrggbbaa.
var color = regexp.MustCompile(`^#[0-9A-Fa-f]{6}([0-9A-Fa-f]{2})?$`)

// protected reports whether clients may not set a property, because the server computes it.
func protected(n xml.Name) bool {
	return n.Space == nsDAV && n.Local != "displayname" || slices.ContainsFunc(properties, func(p property) bool {
		return p.name == n
	})
}

// set sets a property, or removes it with nil. It returns false if the value or the property cannot be set.
func set(p *groupware.Properties, n xml.Name, e *element) bool {
	text := ""
	if e != nil {
		text = strings.TrimSpace(e.text)
	}
	switch keyOf(n) {
	case "{DAV:}displayname":
		p.Title = text
	case "{" + nsCalDAV + "}calendar-description", "{" + nsCardDAV + "}addressbook-description":
		p.Description = text
	case "{" + nsApple + "}calendar-color":
		if text != "" && !color.MatchString(text) {
			return false
		}
		p.Color = text
	case "{" + nsApple + "}calendar-order":
		order, err := strconv.Atoi(text)
		if text != "" && err != nil {
			return false
		}
		p.Order = order
	case "{" + nsCalDAV + "}schedule-calendar-transp":
		p.Transparent = e.child(nsCalDAV, "transparent") != nil
	case "{" + nsCalDAV + "}calendar-timezone-id":
		if text != "" && ical.Named(text) == ical.UTC { // no zone has this name
			return false
		}
		p.TimeZone = text
	case "{" + nsCalDAV + "}calendar-timezone":
		if !setZone(p, text) {
			return false
		}
		return setExtra(p, n, e)
	default:
		return !protected(n) && setExtra(p, n, e)
	}
	return true
}

// setZone sets the time zone to that of a VTIMEZONE.
//
// Implements: RFC 4791 §5.2.2 CALDAV:calendar-timezone Property
func setZone(p *groupware.Properties, text string) bool {
	p.TimeZone = ""
	if text == "" {
		return true
	}
	c, err := ical.Parse([]byte(text), ical.DefaultLimits)
	if err != nil || c.Name != "VCALENDAR" || len(c.Children) != 1 || c.Children[0].Name != "VTIMEZONE" {
		return false
	}
	if name := c.Children[0].Text("TZID"); ical.Named(name) != nil {
		p.TimeZone = name
	}
	return true
}

func setExtra(p *groupware.Properties, n xml.Name, e *element) bool {
	if e == nil {
		delete(p.Extra, keyOf(n))
		return true
	}
	if p.Extra == nil {
		p.Extra = map[string]string{}
	}
	p.Extra[keyOf(n)] = e.inner()
	return true
}

// proppatch answers PROPPATCH: all changes happen, or none.
//
// Implements: RFC 4918 §9.2 PROPPATCH Method
func (q *request) proppatch(x *resource) error {
	e, err := q.xml()
	if err != nil {
		return err
	}
	if !e.is(nsDAV, "propertyupdate") {
		return fail(http.StatusBadRequest, "", "body is not a propertyupdate element")
	}
	if err := q.load(x); err != nil {
		return err
	}
	if x.at != atCollection {
		return fail(http.StatusForbidden, "", "properties of this resource cannot be set")
	}
	p := x.collection.Properties
	done, wrong := update(&p, e)
	m := newMultistatus()
	m.b.WriteString("\n<D:response>" + href(x.path()))
	if len(wrong) > 0 {
		m.propstat(names(wrong), http.StatusForbidden, "<D:error><D:cannot-modify-protected-property/></D:error>")
		if len(done) > 0 {
			m.propstat(names(done), http.StatusFailedDependency, "")
		}
	} else {
		err := q.file(x.owner).Change(q.ctx, func(c *groupware.Changing) error {
			p, err := c.Properties(x.kind, x.col)
			if err != nil {
				return err
			}
			update(&p, e)
			return c.SetProperties(x.kind, x.col, p)
		})
		if errors.Is(err, groupware.ErrTooLarge) {
			m.propstat(names(done), http.StatusInsufficientStorage, "")
		} else if err != nil {
			return err
		} else {
			m.propstat(names(done), http.StatusOK, "")
		}
	}
	m.b.WriteString("</D:response>")
	return q.multi(m, "")
}

// update carries out a propertyupdate element. It returns the names of the properties that it has set or removed, and
// of those that cannot be set.
func update(p *groupware.Properties, e *element) (done, wrong []xml.Name) {
	p.Extra = maps.Clone(p.Extra)
	for _, part := range e.children {
		props := part.child(nsDAV, "prop")
		if props == nil {
			continue
		}
		for _, v := range props.children {
			n, value := v.name, v
			if part.is(nsDAV, "remove") {
				value = nil
			}
			if set(p, n, value) {
				done = append(done, n)
			} else {
				wrong = append(wrong, n)
			}
		}
	}
	return done, wrong
}

// mkcol answers MKCALENDAR and the extended MKCOL.
//
// Implements: RFC 4791 §5.3.1 MKCALENDAR Method
// Implements: RFC 5689 §3 Extended MKCOL
func (q *request) mkcol(x *resource) error {
	e, err := q.xml()
	if err != nil {
		return err
	}
	if x.at != atCollection || q.r.Method == "MKCALENDAR" && x.kind != groupware.Calendar {
		return fail(http.StatusForbidden, "<C:calendar-collection-location-ok/>", "no collection can be made here")
	}
	p := groupware.Properties{Title: x.col}
	if e != nil {
		for _, s := range e.children {
			props := s.child(nsDAV, "prop")
			if !s.is(nsDAV, "set") || props == nil {
				continue
			}
			for _, v := range props.children {
				if !setNew(&p, x.kind, v) {
					return fail(http.StatusForbidden, "<D:valid-resourcetype/>", "property "+v.name.Local+" is refused")
				}
			}
		}
	}
	err = q.file(x.owner).Change(q.ctx, func(c *groupware.Changing) error { return c.Create(x.kind, x.col, p) })
	if errors.Is(err, groupware.ErrExists) {
		return fail(http.StatusMethodNotAllowed, "<D:resource-must-be-null/>", "collection exists")
	}
	if err != nil {
		return err
	}
	q.answer(http.StatusCreated, "", nil)
	return nil
}

// setNew sets a property of a new collection, and returns false if it cannot be set.
func setNew(p *groupware.Properties, kind groupware.Kind, v *element) bool {
	switch {
	case v.is(nsDAV, "resourcetype"):
		book, cal := v.child(nsCardDAV, "addressbook") != nil, v.child(nsCalDAV, "calendar") != nil
		return (!book || kind == groupware.AddressBook) && (!cal || kind == groupware.Calendar)
	case v.is(nsCalDAV, "supported-calendar-component-set"):
		for _, c := range v.children {
			name := strings.ToUpper(c.attr("name"))
			if slices.Contains(calendar.Kinds, name) && !slices.Contains(p.Components, name) {
				p.Components = append(p.Components, name)
			}
		}
		return len(p.Components) > 0
	}
	return set(p, v.name, v)
}
