package lite

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/note"
	"doublet/scheduling"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/jmap"
	"doublet/wire/safehtml"
)

// eventPage is the page of an event, or of an instance of one.
type eventPage struct {
	*frame
	ID, Instance, ETag             string
	Heading, When, Repeats         string
	Place, Calendar, From          string
	Meeting                        string // address of the online meeting
	Guests                         []guest
	MoreGuests                     int
	Text                           template.HTML // sanitized by safehtml
	Cut                            bool
	Answer                         string // key of the text of the owner's answer, "" if not invited
	MayAnswer, Recurs, Cancelled   bool
	Private, Ask                   bool
	Edit, EditAll, Delete, Back, M string
	Files                          []eventFile
	MayAttach                      bool
	MaxFile                        string
}

// event shows an event, or the form to edit one.
func (v *visit) event() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	if v.form.Get("edit") != "" {
		return v.editEvent(p)
	}
	if v.form.Get("file") != "" {
		return v.eventFile(p)
	}
	x, err := p.event()
	if err != nil {
		return err
	}
	return v.showEvent(p, x)
}

func (v *visit) showEvent(p *planner, x *found) error {
	fr, _, err := v.framed("calEvent", note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "calendar"
	c := x.part()
	from, to := x.span(p.zone)
	id, at := x.UNID.String(), v.form.Get("at")
	page := &eventPage{frame: fr, ID: id, Instance: at, ETag: x.ETag, Ask: v.form.Get("ask") != "", When: p.when(c,
		from, to),
		Heading:  cmp.Or(fit(c.Text("SUMMARY"), 500, 1500), v.T("calNoTitle")),
		Place:    fit(c.Text("LOCATION"), 500, 1000),
		Calendar: fit(x.in.Title, 80, 120), Private: x.Private, Recurs: x.object.Series.Recurs() && x.at != nil,
		Cancelled: c.Text("STATUS") == "CANCELLED",
		Back:      v.at(pathCalendar, "day", p.zone.Wall(from).Format(dayLayout))}
	fr.Title = clip(page.Heading, 80)
	if page.Meeting = c.Text("CONFERENCE"); !strings.HasPrefix(page.Meeting, "https://") || len(page.Meeting) > 500 {
		page.Meeting = ""
	}
	if rule := x.object.Parts[0].Get("RRULE"); rule != nil {
		page.Repeats = v.rule(rule)
	}
	page.From = fit(organizerName(x.object), 100, 150)
	page.Guests, page.MoreGuests = v.guests(c)
	v.eventText(page, c)
	status := statusIn(c, p.me)
	organizes := organizedBy(x.object, p.me)
	if status != "" && !organizes {
		page.Answer, page.MayAnswer = strings.ToLower(status), x.may(note.Write) && !page.Cancelled
		if page.Answer == "needs-action" {
			page.Answer = "waiting"
		}
	}
	v.eventLinks(page, x, organizes)
	v.eventFiles(page, x, organizes)
	v.toldOf(fr, "")
	v.s.show(v.w, http.StatusOK, "event.html", page)
	return nil
}

// statusIn returns the participation status of a person in one component, "" without an invitation.
func statusIn(c *ical.Component, me func(string) bool) string {
	for i := range c.Properties {
		if q := &c.Properties[i]; q.Name == "ATTENDEE" && me(itip.Address(q.Value)) {
			return cmp.Or(strings.ToUpper(q.Param("PARTSTAT")), "NEEDS-ACTION")
		}
	}
	return ""
}

// organizedBy reports whether an event is a person's to change: nobody else organizes it.
func organizedBy(o *calendar.Object, me func(string) bool) bool {
	from, err := itip.OrganizerOf(o)
	return err == nil && (from == "" || me(from))
}

// eventLinks sets the addresses of what the user may do with an event.
func (v *visit) eventLinks(page *eventPage, x *found, organizes bool) {
	link := func(name, at string) string { return v.at(pathEvent, "e", page.ID, "at", at, name, "1") }
	if x.may(note.Write) && organizes {
		page.Edit = link("edit", page.Instance)
		if page.Recurs {
			page.EditAll = link("edit", "")
		}
	}
	if x.may(note.Expunge) {
		page.Delete = link("ask", page.Instance)
	}
}

// eventText renders the description.
func (v *visit) eventText(page *eventPage, c *ical.Component) {
	text := strings.ReplaceAll(strings.ToValidUTF8(c.Text("DESCRIPTION"), "\ufffd"), "\r\n", "\n")
	if strings.TrimSpace(text) == "" {
		return
	}
	pieces := safehtml.Text(text, &safehtml.Options{Piece: 8 << 10, Pieces: 2, Link: link})
	page.Text, page.Cut = template.HTML("<pre>"+pieces[0]+"</pre>"), len(pieces) > 1
}

// rule describes a recurrence rule in a few words.
func (v *visit) rule(p *ical.Property) string {
	parts := ical.Rule(p.Value)
	freq := strings.ToLower(parts["FREQ"])
	words := ""
	switch n := parts["INTERVAL"]; {
	case freq != "daily" && freq != "weekly" && freq != "monthly" && freq != "yearly":
		words = v.T("calRepeats")
	case n != "" && n != "1":
		words = v.T("calEvery_"+freq, clip(n, 6))
	default:
		words = v.T("calRepeat_" + freq)
	}
	var days []string
	for code := range strings.SplitSeq(strings.ToLower(parts["BYDAY"]), ",") {
		if d := slices.Index(weekdayCodes[:], code); d >= 0 && freq == "weekly" {
			days = append(days, v.Weekday(time.Weekday(d)))
		}
	}
	if len(days) > 0 {
		words += " (" + strings.Join(days, " ") + ")"
	}
	until := ical.Property{Value: parts["UNTIL"]}
	if m, ok := until.Moment(); ok {
		words += ", " + v.T("calUntil", v.Speech.Day(m.Wall))
	}
	if n := parts["COUNT"]; n != "" {
		words += ", " + v.T("calTimes", clip(n, 6))
	}
	return words
}

// changeEvent answers an invitation, or writes or deletes an event.
func (v *visit) changeEvent() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	do := v.form.Get("do")
	if status, ok := answers[do]; ok {
		if v.form.Get("m") != "" {
			return v.answerMail(p, status)
		}
		return v.answerEvent(p, status)
	}
	if id, ok := strings.CutPrefix(do, "detach:"); ok {
		return v.detach(p, id)
	}
	switch do {
	case "save":
		return v.saveEvent(p)
	case "attach":
		return v.attach(p)
	case "delete":
		return v.deleteEvent(p, v.form.Get("at"))
	case "deleteAll":
		return v.deleteEvent(p, "")
	}
	return errForm
}

// deleteEvent deletes an event, or an instance of it. People who were invited are told, or the organizer is.
func (v *visit) deleteEvent(p *planner, at string) error {
	v.form.Set("at", at)
	x, err := p.event()
	if err != nil {
		return err
	}
	if etag := v.form.Get("state"); etag != "" && etag != x.ETag {
		return groupware.ErrChanged
	}
	if !x.may(note.Expunge) {
		return store.ErrDenied
	}
	back := ""
	if from, _ := x.span(p.zone); !from.IsZero() {
		back = p.zone.Wall(from).Format(dayLayout)
	}
	o := x.object
	if x.at != nil {
		if o, err = o.RemoveInstance(*x.at, p.stamps(x.object, true)); err != nil {
			return err
		}
	} else {
		o = nil
	}
	condition := groupware.Condition{ETag: x.ETag}
	if o != nil {
		err = p.put(x.place(), condition, o.Text())
	} else {
		err = v.s.invites.Remove(v.ctx, &scheduling.Target{File: p.File, Owner: p.owner, Place: x.place(),
			Condition: condition})
	}
	if err != nil {
		return err
	}
	return v.leave(pathCalendar, "day", back, "said", "calDeleted")
}

// stamps returns the properties that the server sets in a change: the time, and the next sequence where the change
// concerns other people.
//
// Implements: RFC 8984 §4.1.6 updated, §4.1.7 sequence
func (p *planner) stamps(o *calendar.Object, concerns bool) *jmap.Value {
	out := jmap.MakeObject(nil, nil)
	if o != nil && !organizedBy(o, p.me) {
		return out
	}
	next := out.With("updated", jmap.Text(p.v.s.env.Clock.Now().UTC().Format("2006-01-02T15:04:05Z")))
	if o != nil && concerns {
		next = next.With("sequence", jmap.MakeNumber(o.Sequence()+1))
	}
	return &next
}

// eventProblem returns the key of the text for an error that the form of an event can show again; "" for other errors.
func eventProblem(err error) string {
	var bad *calendar.InvalidError
	var elsewhere *scheduling.ErrElsewhere
	switch {
	case errors.As(err, &bad), errors.Is(err, calendar.ErrObject), errors.Is(err, groupware.ErrInvalid):
		return "calBadEvent"
	case errors.Is(err, groupware.ErrChanged):
		return "calChanged"
	case errors.As(err, &elsewhere):
		return "calElsewhere"
	case errors.Is(err, itip.ErrTooMany):
		return "calTooMany"
	}
	return ""
}
