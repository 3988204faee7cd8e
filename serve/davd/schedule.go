package davd

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/scheduling"
)

// The names of the scheduling resources of a person, below the home of their calendars.
const (
	inbox  = "inbox"
	outbox = "outbox"
)

// schedules reports whether the third part of a path, below the home of calendars, is that of a scheduling resource.
func schedules(kind groupware.Kind, path []string) bool {
	return kind == groupware.Calendar && len(path) > 2 && (path[2] == inbox || path[2] == outbox)
}

// target returns the entry of a change for scheduling.
//
// Implements: RFC 6638 §8.1 Schedule-Reply Request Header
// Implements: RFC 6638 §8.3 If-Schedule-Tag-Match Request Header
func target(q *request, x *resource, c groupware.Condition) *scheduling.Target {
	if _, tags := etags(q.r.Header.Get("If-Schedule-Tag-Match")); len(tags) == 1 {
		c.ScheduleTag = tags[0]
	}
	return &scheduling.Target{File: q.file(x.owner), Owner: x.owner.id,
		Place:     groupware.Place{Collection: x.col, Name: x.name},
		Condition: c, Silent: strings.EqualFold(strings.TrimSpace(q.r.Header.Get("Schedule-Reply")), "F")}
}

// write writes the text of an entry, and sends the messages that follow from it.
func write(q *request, x *resource, text []byte, c groupware.Condition) (scheduling.Written, error) {
	if x.kind == groupware.Calendar {
		return q.s.scheduling.Put(q.ctx, target(q, x, c), text)
	}
	var w scheduling.Written
	var err error
	w.Entry, w.Created, err = q.file(x.owner).Put(q.ctx, x.kind, x.col, x.name, text, c)
	return w, err
}

// rejectSchedule makes the answers to a change that the rules of scheduling do not allow; nil for other errors.
//
// Implements: RFC 6638 §3.2.4 Additional Preconditions for PUT, COPY, MOVE
func rejectSchedule(x *resource, err error) error {
	var other *scheduling.ErrElsewhere
	switch {
	case errors.As(err, &other):
		at := *x
		at.col, at.name = other.Collection, other.Name
		return fail(http.StatusForbidden, "<C:unique-scheduling-object-resource>"+href(at.path())+
			"</C:unique-scheduling-object-resource>", err.Error())
	case errors.Is(err, itip.ErrNotAllowed):
		return fail(http.StatusForbidden, "<C:allowed-attendee-scheduling-object-change/>", err.Error())
	case errors.Is(err, itip.ErrOrganizers):
		return fail(http.StatusForbidden, "<C:same-organizer-in-all-components/>", err.Error())
	case errors.Is(err, itip.ErrTooMany):
		return fail(http.StatusForbidden, "<C:max-attendees-per-instance/>", err.Error())
	case errors.Is(err, itip.ErrMalformed):
		return fail(http.StatusForbidden, "<C:valid-calendar-data/>", err.Error())
	}
	return nil
}

// post answers POST at an entry, or at the outbox: a request for free time.
//
// Implements: RFC 6638 §5 Request for Busy Time Information
func (q *request) post(x *resource) error {
	if x.at == atEntry {
		return attach(q, x)
	}
	if x.at != atSchedule || x.col != outbox {
		return fail(http.StatusMethodNotAllowed, "", "only the outbox and entries of calendars take POST")
	}
	text, err := q.body(maxRequest, fail(http.StatusRequestEntityTooLarge, "", "request is too large"))
	if err != nil {
		return err
	}
	list, err := q.s.scheduling.FreeBusy(q.ctx, q.caller.Who, q.self.id, text)
	switch {
	case errors.Is(err, scheduling.ErrRequest):
		return fail(http.StatusForbidden, "<C:valid-scheduling-message/>", err.Error())
	case errors.Is(err, scheduling.ErrOrganizer):
		return fail(http.StatusForbidden, "<C:organizer-allowed/>", err.Error())
	case errors.Is(err, itip.ErrTooMany):
		return fail(http.StatusForbidden, "<C:max-attendees-per-instance/>", err.Error())
	case err != nil:
		return err
	}
	var b strings.Builder
	b.WriteString(strings.Replace(head("schedule-response"), "<D:", "<C:", 1))
	for i := range list {
		b.WriteString("\n<C:response><C:recipient>" + href(list[i].Address) + "</C:recipient><C:request-status>" +
			escape(list[i].Status) + "</C:request-status>")
		if list[i].Text != nil {
			b.WriteString("<C:calendar-data>" + escape(string(list[i].Text)) + "</C:calendar-data>")
		}
		b.WriteString("</C:response>")
		if b.Len() > maxResponse {
			return fail(http.StatusInsufficientStorage, "", "response is too large")
		}
	}
	b.WriteString("\n</C:schedule-response>\n")
	q.answer(http.StatusOK, "application/xml; charset=utf-8", []byte(b.String()))
	return nil
}

// scheduleProperties lists the properties of scheduling.
//
// Implements: RFC 6638 §2 Scheduling-related principal properties
// Implements: RFC 6638 §9 Scheduling WebDAV Properties
var scheduleProperties = []property{
	{caldav("schedule-inbox-URL"), true, scheduleURL(inbox)},
	{caldav("schedule-outbox-URL"), true, scheduleURL(outbox)},
	{caldav("schedule-default-calendar-URL"), true, defaultCalendar},
	{caldav("schedule-tag"), true, func(_ *request, x *resource) (string, bool) {
		if x.at != atEntry || x.entry.ScheduleTag == "" {
			return "", false
		}
		return escape(quoted(x.entry.ScheduleTag)), true
	}},
	{caldav("calendar-user-address-set"), true, addresses},
	{caldav("calendar-user-type"), true, ofPrincipal(func(*owner) string { return "INDIVIDUAL" })},
}

// scheduleURL returns the value of a property with the address of a scheduling resource. Only the person has one.
func scheduleURL(name string) func(*request, *resource) (string, bool) {
	return func(q *request, x *resource) (string, bool) {
		mine := x.owner == q.self && x.owner.db != 0 && (x.at == atPrincipal || x.at == atRoot)
		return href(x.owner.home(groupware.Calendar) + name + "/"), mine
	}
}

// defaultCalendar returns the calendar that gets new invitations.
func defaultCalendar(q *request, x *resource) (string, bool) {
	if x.at != atSchedule || x.col != inbox {
		return "", false
	}
	name, err := q.file(x.owner).DefaultFor(q.ctx, "VEVENT")
	to := resource{at: atCollection, owner: x.owner, kind: groupware.Calendar, col: name}
	return href(to.path()), err == nil
}

// addresses returns the addresses of a person in invitations: that of their mail first.
func addresses(q *request, x *resource) (string, bool) {
	if x.at != atPrincipal && x.at != atRoot {
		return "", false
	}
	list := []string{}
	if p, err := q.s.dir.Names.Person(q.ctx, x.owner.id); err == nil {
		list = p.Addresses()
	}
	if x.owner.address != "" && !slices.Contains(list, x.owner.address) {
		list = append([]string{x.owner.address}, list...)
	}
	var b strings.Builder
	for _, a := range list {
		b.WriteString(href("mailto:" + a))
	}
	return b.String() + href(x.owner.principal()), true
}

// schedulePrivileges returns the privileges of a scheduling resource.
//
// Implements: RFC 6638 §6 Scheduling Privileges
func schedulePrivileges(name string) string {
	list := []string{"D:read", "C:schedule-deliver"}
	if name == outbox {
		list = []string{"D:read", "C:schedule-send", "C:schedule-send-freebusy", "C:schedule-send-invite",
			"C:schedule-send-reply"}
	}
	var b strings.Builder
	for _, p := range list {
		b.WriteString("<D:privilege><" + p + "/></D:privilege>")
	}
	return b.String()
}

// scheduleResource returns the inbox or the outbox of the person who asks, which have nothing in them.
func scheduleResource(q *request, x *resource, path []string) (*resource, error) {
	if x.owner != q.self || len(path) > 1 {
		return nil, errNotFound
	}
	x.at, x.col = atSchedule, path[0]
	return x, nil
}
