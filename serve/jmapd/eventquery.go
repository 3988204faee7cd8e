package jmapd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/contact"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// maxExpandedQuery is the longest time between after and before of a query that expands recurrences.
const maxExpandedQuery = 2 * 366 * 24 * time.Hour

// durationText prints a duration of whole days as JSCalendar does.
func durationText(d time.Duration) string { return "P" + strconv.Itoa(int(d/(24*time.Hour))) + "D" }

// foundEvent is an event, or an instance of one, that a query looks at.
type foundEvent struct {
	q     *eventQuerying
	times groupware.Times
	// at is the instance, if the query expands recurrences.
	at *calendar.Occurrence
	// texts holds the values of the keys of the query that stand in the text of the event, by property.
	texts map[string]string
}

// id returns the id of the event, or of the instance.
func (x *foundEvent) id() string {
	id := eventID{letter: x.q.t.letter, unid: x.times.UNID}
	if x.at != nil && x.times.Series.Recurs() {
		id.at = x.at.ID
	}
	return id.String()
}

// start returns the start of the instance, or that of the series.
func (x *foundEvent) start() time.Time {
	if x.at != nil {
		return x.at.Start
	}
	return x.times.Series.Start(x.q.zone)
}

// parts returns the components of the event that describe it, or the instance alone. There are none if the event has
// lost the instance since its times were read.
func (x *foundEvent) parts() []*ical.Component {
	o := x.load()
	switch {
	case o == nil, x.at != nil && x.at.Part >= len(o.Parts):
		return nil
	case x.at != nil:
		return o.Parts[x.at.Part : x.at.Part+1]
	}
	return o.Parts
}

// load reads the text of the event; nil if it is gone meanwhile. The query keeps one event, because it looks at the
// instances of an event one after another.
func (x *foundEvent) load() *calendar.Object {
	q := x.q
	if q.loaded == x.times.UNID {
		return q.object
	}
	q.loaded, q.object = x.times.UNID, nil
	err := q.f.ByID(q.c.ctx, groupware.Calendar, []note.UNID{q.loaded}, true, func(e *groupware.Entry) bool {
		q.object = q.t.of(e)
		return false
	})
	if err != nil && q.err == nil {
		q.err = err
	}
	return q.object
}

// eventQuerying is a query for events in progress.
type eventQuerying struct {
	t    *objectType
	c    *call
	f    *groupware.File
	zone *ical.Zone
	// expand is set if the query lists the instances of recurring events, which overlap window.
	expand   bool
	from, to time.Time
	// object is the event that was read last, whose UNID is loaded; err is the first error of a read.
	loaded note.UNID
	object *calendar.Object
	err    error
}

// eventArguments are the arguments of a query that other types do not have.
var eventArguments = []string{"expandRecurrences", "timeZone"}

// query answers a /query.
//
// Implements: draft-ietf-jmap-calendars §5.11 CalendarEvent/query
func (t *objectType) query(c *call) error {
	w, err := c.queryArguments(false, eventArguments...)
	if err != nil {
		return err
	}
	q, err := t.querying(c)
	if err != nil {
		return err
	}
	found, err := q.results()
	if err != nil {
		return err
	}
	return c.answerQuery(&w, &found, !q.expand, maxResults)
}

// queryChanges answers a /queryChanges. The instances that an event had before it changed are not
// known, so that the changes of an expanded query cannot be calculated.
//
// Implements: draft-ietf-jmap-calendars §5.12 CalendarEvent/queryChanges
func (t *objectType) queryChanges(c *call) error {
	return c.queryChanges(false, func(state string) (out queryDelta, err error) {
		q, err := t.querying(c)
		if err != nil {
			return out, err
		}
		if q.expand {
			return out, mailbox.ErrForgotten
		}
		return c.groupwareDelta(groupware.Calendar, t.letter, state, q.results)
	}, eventArguments...)
}

// querying reads the arguments of a query.
func (t *objectType) querying(c *call) (q *eventQuerying, err error) {
	q = &eventQuerying{t: t, c: c}
	if q.expand, err = c.bool("expandRecurrences", false); err != nil {
		return nil, err
	}
	if q.zone, err = c.zone("timeZone"); err != nil {
		return nil, err
	}
	if q.f, err = c.box(); err != nil {
		return nil, err
	}
	q.to = time.Unix(1<<40, 0)
	q.from = time.Unix(-1<<40, 0)
	return q, q.window(c.args.Get("filter"))
}

// window reads the time between after and before, where the filter is a condition that has them.
func (q *eventQuerying) window(filter *jmap.Value) error {
	after, _ := filter.Get("after").Text()
	before, _ := filter.Get("before").Text()
	from, hasFrom := calendar.ParseLocal(after)
	to, hasTo := calendar.ParseLocal(before)
	if hasFrom {
		q.from = q.zone.At(from)
	}
	if hasTo {
		q.to = q.zone.At(to)
	}
	switch {
	case !q.expand:
		return nil
	case filter.Get("operator") != nil || !hasFrom || !hasTo:
		return invalid("a query that expands recurrences has a FilterCondition with before and after")
	case q.to.Sub(q.from) > maxExpandedQuery:
		return &jmap.Error{Type: "expandDurationTooLarge",
			Description: "At most " + durationText(maxExpandedQuery) + "."}
	}
	return nil
}

// results returns all results of the query.
func (q *eventQuerying) results() (out queryResults, err error) {
	fits, err := match(q.c, q.condition)
	if err != nil {
		return out, err
	}
	keys, err := q.c.sortKeys("start", "uid", "recurrenceId", "created", "updated")
	if err != nil {
		return out, err
	}
	m, err := q.f.Moments(q.c.ctx, groupware.Calendar)
	if err != nil {
		return out, err
	}
	all, err := q.candidates()
	if err != nil {
		return out, err
	}
	list := all[:0]
	for _, x := range all {
		if fits(x) {
			x.readTexts(keys)
			list = append(list, x)
		}
		if q.err != nil {
			return out, q.err
		}
	}
	q.sort(list, keys)
	for _, x := range list {
		out.ids = append(out.ids, x.id())
	}
	out.state = m.Entries.String()
	return out, nil
}

// candidates returns the events, or instances, in the window.
func (q *eventQuerying) candidates() (list []*foundEvent, err error) {
	var inner error
	window := groupware.Range{From: q.from, To: q.to, Floating: q.zone, Component: q.t.component}
	err = q.f.Times(q.c.ctx, window, func(t *groupware.Times) bool {
		if !q.expand {
			list = append(list, &foundEvent{q: q, times: *t})
			return true
		}
		inner = t.Series.Between(q.from, q.to, q.zone, func(at calendar.Occurrence) bool {
			list = append(list, &foundEvent{q: q, times: *t, at: &at})
			return len(list) <= maxExpanded
		})
		return inner == nil && len(list) <= maxExpanded
	})
	if err == nil && (inner != nil || len(list) > maxExpanded) {
		err = &jmap.Error{Type: "cannotCalculateOccurrences", Description: "There are too many instances, or a rule " +
			"takes too long to expand."}
	}
	return list, err
}

// sort sorts results by the keys, then by start and id.
func (q *eventQuerying) sort(list []*foundEvent, keys []sortKey) {
	compare := compareBy(keys, func(property string, a, b *foundEvent) int {
		switch property {
		case "start":
			return a.start().Compare(b.start())
		case "recurrenceId":
			return cmp.Compare(recurrenceOf(a), recurrenceOf(b))
		}
		return cmp.Compare(a.texts[property], b.texts[property])
	})
	slices.SortStableFunc(list, func(a, b *foundEvent) int {
		if n := compare(a, b); n != 0 {
			return n
		}
		if n := a.start().Compare(b.start()); n != 0 {
			return n
		}
		return cmp.Compare(a.id(), b.id())
	})
}

// recurrenceOf returns the recurrenceId of an instance, "" for other events.
func recurrenceOf(x *foundEvent) string {
	if x.at == nil || !x.times.Series.Recurs() {
		return ""
	}
	return x.at.ID.Format(instanceForm)
}

// readTexts reads the texts by which the event is sorted.
func (x *foundEvent) readTexts(keys []sortKey) {
	for _, k := range keys {
		if k.property == "start" || k.property == "recurrenceId" {
			continue
		}
		parts := x.parts()
		if len(parts) == 0 {
			return
		}
		if x.texts == nil {
			x.texts = map[string]string{}
		}
		switch k.property {
		case "uid":
			x.texts["uid"] = x.q.object.UID
		case "created":
			x.texts["created"] = parts[0].Text("CREATED")
		default:
			x.texts["updated"] = cmp.Or(parts[0].Text("LAST-MODIFIED"), parts[0].Text("DTSTAMP"))
		}
	}
}

// overlaps reports whether an occurrence of the event lies in a time.
func (x *foundEvent) overlaps(from, to time.Time) (found bool) {
	if x.at != nil {
		return x.at.End.After(from) && x.at.Start.Before(to) || x.at.Start.Equal(from) && x.at.End.Equal(from)
	}
	err := x.times.Series.Between(from, to, x.q.zone, func(calendar.Occurrence) bool {
		found = true
		return false
	})
	return found || err != nil // the client decides over a rule that takes too long to expand
}

// condition reads one property of a FilterCondition.
func (q *eventQuerying) condition(name string, v *jmap.Value) (matcher[*foundEvent], error) {
	if v.IsNull() {
		return func(*foundEvent) bool { return true }, nil
	}
	text, isText := v.Text()
	if name == "after" || name == "before" {
		return q.when(name, text)
	}
	if list, ok := texts(v); ok && name == q.t.inside+"s" {
		return q.in(list...), nil
	}
	if isText {
		if m := q.textCondition(name, text); m != nil {
			return m, nil
		}
	}
	return nil, q.bad(name)
}

// textCondition returns the matcher of a property whose value is any text, nil if there is none.
func (q *eventQuerying) textCondition(name, text string) matcher[*foundEvent] {
	if read := eventTexts[name]; read != nil {
		return inTexts(read, cardWords(text))
	}
	switch {
	case name == q.t.inside:
		return q.in(text)
	case name == "progress" && q.t == tasks:
		return hasProgress(text)
	case name == "uid":
		return func(x *foundEvent) bool { o := x.load(); return o != nil && o.UID == text }
	case name == "participationStatus":
		return q.status(text)
	}
	return nil
}

// hasProgress matches tasks of which a component has a progress.
func hasProgress(want string) matcher[*foundEvent] {
	return func(x *foundEvent) bool {
		return slices.ContainsFunc(x.parts(), func(c *ical.Component) bool {
			return cmp.Or(calendar.Progress(c), "needs-action") == want
		})
	}
}

// bad returns the error for a condition that there is not, or that has a value of another type.
func (q *eventQuerying) bad(name string) error {
	known := []string{q.t.inside + "s", q.t.inside, "uid", "participationStatus"}
	if eventTexts[name] == nil && !slices.Contains(known, name) {
		return noCondition(name)
	}
	return invalid("the filter's %s is not what it should be", name)
}

// when matches events after or before a time.
func (q *eventQuerying) when(name, text string) (matcher[*foundEvent], error) {
	local, ok := calendar.ParseLocal(text)
	if !ok {
		return nil, invalid("the filter's %s is no LocalDateTime", name)
	}
	from, to := q.zone.At(local), time.Unix(1<<40, 0)
	if name == "before" {
		from, to = time.Unix(-1<<40, 0), from
	}
	return func(x *foundEvent) bool { return x.overlaps(from, to) }, nil
}

// inTexts matches events with all words in one of their components.
func inTexts(read func(c *ical.Component) []string, words []string) matcher[*foundEvent] {
	return func(x *foundEvent) bool {
		return slices.ContainsFunc(x.parts(), func(c *ical.Component) bool { return contact.HasWords(read(c), words) })
	}
}

// in matches the objects of collections.
func (q *eventQuerying) in(ids ...string) matcher[*foundEvent] {
	letter := q.t.collections.letter
	return func(x *foundEvent) bool { return slices.Contains(ids, idOf(letter, x.times.Collection)) }
}

// status matches events by the answer of a participant: of the one whom a condition owner or attendee of the filter
// names, else of any.
func (q *eventQuerying) status(want string) matcher[*foundEvent] {
	who := func(*ical.Component, *ical.Property) bool { return true }
	for name, isOwner := range map[string]bool{"attendee": false, "owner": true} {
		text, ok := q.c.args.Get("filter").Get(name).Text()
		if words := cardWords(text); ok {
			who = func(c *ical.Component, p *ical.Property) bool {
				return (!isOwner || isOrganizer(c, p)) && contact.HasWords(personTexts(p), words)
			}
		}
	}
	return func(x *foundEvent) bool {
		for _, c := range x.parts() {
			for i := range c.Properties {
				p := &c.Properties[i]
				status := strings.ToLower(cmp.Or(p.Param("PARTSTAT"), "needs-action"))
				if p.Name == "ATTENDEE" && status == want && who(c, p) {
					return true
				}
			}
		}
		return false
	}
}

// isOrganizer reports whether an attendee organizes the event.
func isOrganizer(c *ical.Component, p *ical.Property) bool {
	o := c.Get("ORGANIZER")
	return o != nil && strings.EqualFold(strings.TrimSpace(o.Value), strings.TrimSpace(p.Value))
}

func personTexts(p *ical.Property) []string { return []string{p.Param("CN"), p.Value} }

// eventTexts maps conditions to the texts of an event in which they look.
var eventTexts = map[string]func(c *ical.Component) []string{
	"title":       func(c *ical.Component) []string { return []string{c.Text("SUMMARY")} },
	"description": func(c *ical.Component) []string { return []string{c.Text("DESCRIPTION")} },
	"location":    func(c *ical.Component) []string { return []string{c.Text("LOCATION")} },
	"owner": func(c *ical.Component) []string {
		return peopleTexts(c, func(p *ical.Property) bool { return p.Name == "ORGANIZER" || isOrganizer(c, p) })
	},
	"attendee": func(c *ical.Component) []string {
		return peopleTexts(c, func(p *ical.Property) bool { return p.Name == "ATTENDEE" })
	},
	"text": func(c *ical.Component) []string {
		return append(peopleTexts(c, func(*ical.Property) bool { return true }), c.Text("SUMMARY"),
			c.Text("DESCRIPTION"), c.Text("LOCATION"), c.Text("CATEGORIES"), c.Text("COMMENT"))
	},
}

// peopleTexts returns the names and addresses of people of an event.
func peopleTexts(c *ical.Component, of func(p *ical.Property) bool) (list []string) {
	for i := range c.Properties {
		if p := &c.Properties[i]; (p.Name == "ATTENDEE" || p.Name == "ORGANIZER") && of(p) {
			list = append(list, personTexts(p)...)
		}
	}
	return list
}
