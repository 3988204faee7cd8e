package davd

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/scheduling"
	"doublet/store"
	"doublet/wire/ical"
)

// report answers REPORT.
//
// Implements: RFC 3253 §3.6 REPORT Method
func (q *request) report(x *resource) error {
	e, err := q.xml()
	if err != nil {
		return err
	}
	if e == nil {
		return fail(http.StatusBadRequest, "", "body is missing")
	}
	if err := q.load(x); err != nil {
		return err
	}
	switch {
	case e.is(nsDAV, "expand-property"):
		return q.expandProperty(x, e)
	case e.is(nsDAV, "principal-property-search"):
		return q.searchPrincipals(e)
	case e.is(nsDAV, "principal-search-property-set"):
		q.answer(http.StatusOK, "application/xml; charset=utf-8", []byte(head("principal-search-property-set")+
			"<D:principal-search-property><D:prop><D:displayname/></D:prop><D:description xml:lang=\"en\">Name"+
			"</D:description></D:principal-search-property></D:principal-search-property-set>\n"))
		return nil
	case x.at == atCollection && e.is(nsDAV, "sync-collection"):
		return q.syncCollection(x, e)
	}
	if answer := q.reportOf(x, e); answer != nil {
		return answer(x, e)
	}
	return fail(http.StatusForbidden, "<D:supported-report/>", "report "+e.name.Local+" is not supported here")
}

// reportOf returns the function that answers a report of calendars or address books; nil if x has no such report.
func (q *request) reportOf(x *resource, e *element) func(*resource, *element) error {
	collection := x.at == atCollection
	switch cal, book := x.kind == groupware.Calendar, x.kind == groupware.AddressBook; {
	case cal && x.at >= atHome && e.is(nsCalDAV, "calendar-multiget"),
		book && x.at >= atHome && e.is(nsCardDAV, "addressbook-multiget"):
		return q.multiget
	case cal && collection && e.is(nsCalDAV, "calendar-query"):
		return q.queryCalendar
	case cal && collection && e.is(nsCalDAV, "free-busy-query"):
		return q.freeBusy
	case book && collection && e.is(nsCardDAV, "addressbook-query"):
		return q.queryBook
	}
	return nil
}

// maxHrefs bounds the hrefs of a multiget.
const maxHrefs = 10_000

// multiget answers calendar-multiget and addressbook-multiget.
//
// Implements: RFC 4791 §7.9 CALDAV:calendar-multiget REPORT
// Implements: RFC 6352 §8.7 CARDDAV:addressbook-multiget Report
func (q *request) multiget(x *resource, e *element) error {
	w, err := readWanted(e)
	if err != nil {
		return err
	}
	m := newMultistatus()
	n := 0
	seen := map[string]bool{} // an entry may be large, and its address is short
	for _, c := range e.children {
		if !c.is(nsDAV, "href") {
			continue
		}
		if n++; n > maxHrefs {
			return fail(http.StatusInsufficientStorage, "<D:number-of-matches-within-limits/>", "too many addresses")
		}
		address := strings.TrimSpace(c.text)
		to, err := q.within(x, address)
		if err == nil {
			if seen[to.path()] {
				continue
			}
			seen[to.path()] = true
			err = q.load(to)
		}
		switch {
		case isGone(err):
			m.status(address, http.StatusNotFound, "")
		case errors.Is(err, store.ErrDenied):
			m.status(address, http.StatusForbidden, "")
		case err != nil:
			return err
		default:
			if err := q.addEntry(m, &w, to); err != nil {
				return err
			}
		}
	}
	return q.multi(m, "")
}

// within returns the entry of an address below the resource x.
func (q *request) within(x *resource, address string) (*resource, error) {
	path, err := q.pathOf(address)
	if err != nil {
		return nil, errNotFound
	}
	to, err := q.find(path)
	if err != nil {
		return nil, err
	}
	if to.at != atEntry || to.kind != x.kind || to.owner.db != x.owner.db || x.at >= atCollection && to.col != x.col {
		return nil, errNotFound
	}
	if to.col == x.col {
		to.collection = x.collection
	}
	return to, nil
}

func isGone(err error) bool {
	return errors.Is(err, errNotFound) || errors.Is(err, groupware.ErrNoEntry) ||
		errors.Is(err, groupware.ErrNoCollection)
}

// addEntry adds an entry with its text to a response.
func (q *request) addEntry(m *multistatus, w *wanted, x *resource) error {
	data := ""
	if w.data != nil {
		text, err := q.data(x, w.data)
		if err != nil {
			return err
		}
		data = open(w.data.name) + escape(string(text)) + closing(w.data.name)
	}
	return w.add(q, m, x, data)
}

// data returns the text of an entry in the form that a calendar-data element asks for.
//
// Implements: RFC 4791 §9.6 CALDAV:calendar-data XML Element
func (q *request) data(x *resource, want *element) ([]byte, error) {
	text := x.entry.Text
	var whole *ical.Component // other than the text
	for _, c := range want.children {
		expand, limit := c.is(nsCalDAV, "expand"), c.is(nsCalDAV, "limit-recurrence-set")
		if !expand && !limit {
			continue
		}
		if whole != nil {
			return nil, fail(http.StatusBadRequest, "", "calendar-data is expanded or limited once")
		}
		r, err := readRange(c)
		if err != nil || r.From.IsZero() || r.To.IsZero() {
			return nil, fail(http.StatusBadRequest, "", "expand needs a start and an end")
		}
		o, err := calendar.ReadObject(text)
		if err != nil {
			return text, nil //nolint:nilerr // it came from a newer program: the client gets it as it is
		}
		zone := ical.Named(x.collection.TimeZone)
		if expand {
			whole, err = o.Expand(r.From, r.To, zone)
		} else {
			whole, err = o.Limit(r.From, r.To, zone)
		}
		if errors.Is(err, calendar.ErrTooMany) {
			return nil, fail(http.StatusInsufficientStorage, "<D:number-of-matches-within-limits/>", err.Error())
		}
		if err != nil {
			return text, nil //nolint:nilerr // a rule that takes too long to expand: the client decides over it
		}
	}
	if comp := want.child(nsCalDAV, "comp"); comp != nil {
		if whole == nil {
			o, err := calendar.ReadObject(text)
			if err != nil {
				return text, nil //nolint:nilerr // as above
			}
			whole = o.Whole
		}
		whole = part(whole, comp)
	}
	if whole != nil {
		text = ical.Append(nil, whole)
	}
	return text, nil
}

// part returns the properties and components that a comp element names.
func part(c *ical.Component, want *element) *ical.Component {
	out := &ical.Component{Name: c.Name}
	for _, p := range c.Properties {
		if want.child(nsCalDAV, "allprop") != nil || slices.ContainsFunc(want.children, func(e *element) bool {
			return e.is(nsCalDAV, "prop") && strings.EqualFold(e.attr("name"), p.Name)
		}) {
			out.Properties = append(out.Properties, p)
		}
	}
	for _, child := range c.Children {
		if want.child(nsCalDAV, "allcomp") != nil {
			out.Children = append(out.Children, child)
			continue
		}
		for _, e := range want.children {
			if e.is(nsCalDAV, "comp") && strings.EqualFold(e.attr("name"), child.Name) {
				out.Children = append(out.Children, part(child, e))
				break
			}
		}
	}
	return out
}

// stamp is the form of the times of ranges.
const stamp = "20060102T150405Z"

// readRange reads the attributes start and end.
//
// Implements: RFC 4791 §9.9 CALDAV:time-range XML Element
func readRange(e *element) (r groupware.Range, err error) {
	for _, x := range []struct {
		name string
		at   *time.Time
	}{{"start", &r.From}, {"end", &r.To}} {
		if s := e.attr(x.name); s != "" {
			if *x.at, err = time.Parse(stamp, s); err != nil {
				return r, badFilter("time " + x.name + " is no UTC time")
			}
		}
	}
	if r.From.IsZero() && r.To.IsZero() || !r.To.IsZero() && !r.From.Before(r.To) {
		return r, badFilter("time range is empty")
	}
	return r, nil
}

// freeBusy answers free-busy-query.
func (q *request) freeBusy(x *resource, e *element) error {
	t := e.child(nsCalDAV, "time-range")
	if t == nil {
		return fail(http.StatusBadRequest, "", "time range is missing")
	}
	r, err := readRange(t)
	if err != nil {
		return err
	}
	if r.From.IsZero() || r.To.IsZero() {
		return fail(http.StatusBadRequest, "", "time range needs a start and an end")
	}
	list, err := q.file(x.owner).Busy(q.ctx, x.col, r.From, r.To)
	if err != nil {
		return err
	}
	busy := scheduling.Busy{Replica: q.s.scheduling.Replica(q.file(x.owner).Database())}
	q.answer(http.StatusOK, "text/calendar; charset=utf-8",
		calendar.AppendFreeBusy(nil, r.From, r.To, q.s.env.Clock.Now(), list, busy.Comment()))
	return nil
}

// entryMemory is about the size of an Entry without its text, in bytes.
const entryMemory = 500

// syncCollection answers sync-collection.
//
// Implements: RFC 6578 §3.2 DAV:sync-collection Report
func (q *request) syncCollection(x *resource, e *element) error {
	w, err := readWanted(e)
	if err != nil {
		return err
	}
	level := e.child(nsDAV, "sync-level")
	if level == nil && q.r.Header.Get("Depth") != "1" || level != nil && strings.TrimSpace(level.text) != "1" {
		return fail(http.StatusForbidden, "<D:sync-traversal-supported/>", "sync-level must be 1")
	}
	limit, err := readLimit(e, nsDAV)
	if err != nil {
		return err
	}
	token := ""
	if t := e.child(nsDAV, "sync-token"); t != nil && strings.TrimSpace(t.text) != "" {
		ours := false
		if token, ours = strings.CutPrefix(strings.TrimSpace(t.text), syncURI); !ours || token == "" {
			return groupware.ErrForgotten
		}
	}
	f := q.file(x.owner)
	changes, err := f.Changes(q.ctx, x.kind, x.col, token, limit)
	if err != nil {
		return err
	}
	if err := q.take(int64(len(changes.Changed)) * entryMemory); err != nil {
		return err
	}
	if token == "" && limit > 0 && len(changes.Changed) > limit {
		return fail(http.StatusInsufficientStorage, "<D:number-of-matches-within-limits/>",
			"first synchronization has no limit")
	}
	m := newMultistatus()
	for i := range changes.Changed {
		to := x.with(&changes.Changed[i])
		if w.data != nil {
			err := q.load(to)
			if isGone(err) {
				continue // it was removed a moment ago: the next synchronization tells of it
			}
			if err != nil {
				return err
			}
		}
		if err := q.addEntry(m, &w, to); err != nil {
			return err
		}
	}
	for _, name := range changes.Removed {
		m.status(x.with(&groupware.Entry{Name: name}).path(), http.StatusNotFound, "")
	}
	if changes.More {
		m.status(x.path(), http.StatusInsufficientStorage, "<D:error><D:number-of-matches-within-limits/></D:error>")
	}
	return q.multi(m, "\n<D:sync-token>"+syncURI+escape(changes.Token)+"</D:sync-token>")
}

// readLimit reads the element limit; 0 means none.
func readLimit(e *element, ns string) (int, error) {
	l := e.child(ns, "limit").child(ns, "nresults")
	if l == nil {
		return 0, nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(l.text))
	if err != nil || n <= 0 {
		return 0, fail(http.StatusBadRequest, "", "nresults is no number above 0")
	}
	return n, nil
}
