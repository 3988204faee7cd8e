package lite

import (
	"cmp"
	"errors"
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
	wiremime "doublet/wire/mime"
)

// answers maps the buttons to the participation status of iCalendar.
var answers = map[string]string{"accepted": "ACCEPTED", "tentative": "TENTATIVE", "declined": "DECLINED"}

// maxAttempts bounds the attempts to change an event that others change at the same time.
const maxAttempts = 8

// waiting returns the invitations of the next half year that the owner has not answered, at most maxWaiting; more is
// set if there are others.
func (p *planner) waiting() (list []waiting, more bool, err error) {
	all, _, err := p.slots(p.v.Now, p.v.Now.Add(waitAhead), func(note.UNID) bool { return true })
	if err != nil {
		return nil, false, err
	}
	var ids []note.UNID
	first := map[note.UNID]*slot{}
	for i := range all {
		if s := &all[i]; first[s.unid] == nil {
			first[s.unid] = s
			ids = append(ids, s.unid)
		}
	}
	asked, err := p.invitations(ids)
	if err != nil {
		return nil, false, err
	}
	err = p.ByID(p.v.ctx, groupware.Calendar, asked, true, func(e *groupware.Entry) bool {
		o, err := calendar.ReadObject(e.Text)
		if err != nil || itip.Status(o, p.me) != "NEEDS-ACTION" || o.Parts[0].Text("STATUS") == "CANCELLED" {
			return true
		}
		if from, err := itip.OrganizerOf(o); err != nil || p.me(from) {
			return true
		}
		if len(list) == maxWaiting {
			more = true
			return false
		}
		s := first[e.UNID]
		list = append(list, waiting{ID: e.UNID.String(), When: p.when(o.Parts[0], s.occurrence.Start, s.occurrence.End),
			Title: cmp.Or(fit(e.Subject, 80, 120), p.v.T("calNoTitle")), From: fit(organizerName(o), 60, 90),
			Href: p.v.at(pathEvent, "e", e.UNID.String())})
		return true
	})
	return list, more, err
}

// invitations returns those of the entries that have an organizer and attendees, at most maxAsked. It reads no texts.
func (p *planner) invitations(ids []note.UNID) (asked []note.UNID, err error) {
	err = p.ByID(p.v.ctx, groupware.Calendar, ids, false, func(e *groupware.Entry) bool {
		if e.ScheduleTag != "" {
			asked = append(asked, e.UNID)
		}
		return len(asked) < maxAsked
	})
	return asked, err
}

// organizerName returns the name of the organizer, or else the address.
func organizerName(o *calendar.Object) string {
	q := o.Parts[0].Get("ORGANIZER")
	if q == nil {
		return ""
	}
	return cmp.Or(strings.TrimSpace(q.Param("CN")), itip.Address(q.Value))
}

// answerEvent records the owner's answer to the event that the form names, for one instance or for all, and tells the
// organizer.
func (v *visit) answerEvent(p *planner, status string) error {
	x, err := p.event()
	if err != nil {
		return err
	}
	for range maxAttempts {
		o, bad := p.answered(x, status)
		if bad != nil {
			return bad
		}
		if err = p.put(x.place(), groupware.Condition{ETag: x.ETag}, o.Text()); !errors.Is(err, groupware.ErrChanged) {
			break
		}
		if x, err = p.event(); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if v.form.Get("back") == "calendar" {
		return v.leave(pathCalendar, "said", "calAnswered")
	}
	return v.leave(pathEvent, "e", x.UNID.String(), "at", v.form.Get("at"), "said", "calAnswered")
}

// answered returns the object of an event with an answer of the owner, of one instance if the request names it.
func (p *planner) answered(x *found, status string) (*calendar.Object, error) {
	if itip.Status(x.object, p.me) == "" {
		return nil, errForm // the owner is not invited
	}
	if x.at == nil || p.v.form.Get("scope") == "all" {
		return itip.WithStatus(x.object, p.me, status)
	}
	e, err := eventValue(x.object, x.at)
	if err != nil {
		return nil, err
	}
	people := e.Get("participants")
	for i := range people.Len() {
		if email, _ := people.At(i).Get("email").Text(); p.me(strings.ToLower(email)) {
			next := people.With(people.Name(i), people.At(i).With("participationStatus",
				jmap.Text(strings.ToLower(status))))
			return x.object.EditInstance(*x.at, jmap.MakeObject([]string{"participants"}, []jmap.Value{next}),
				jmap.MakeObject(nil, nil))
		}
	}
	return nil, errForm
}

// eventValue returns an event, or an instance of it, as an object of JSCalendar.
func eventValue(o *calendar.Object, at *calendar.Occurrence) (*jmap.Value, error) {
	w := jmap.NewWriter(nil)
	if at != nil {
		o.AppendInstance(&w, *at, &calendar.View{})
	} else {
		o.Append(&w, &calendar.View{})
	}
	return jmap.Parse(string(w.End()), jmap.Bounds{})
}

// put writes an event, and sends the messages that follow from it.
func (p *planner) put(at groupware.Place, x groupware.Condition, text []byte) error {
	_, err := p.v.s.invites.Put(p.v.ctx, &scheduling.Target{File: p.File, Owner: p.owner, Place: at, Condition: x},
		text)
	return err
}

// invitation is the event that a message carries.
type invitation struct {
	Method, Title, When, Place, From string
	// Foreign is the sender of a message that is not from the organizer, "" otherwise.
	Foreign   string
	Guests    int
	Files     string // names of the attachments
	Asks      bool   // the user may answer
	Answer    string // the key of the text of the user's answer, "" without one
	Href      string // address of the event in the calendar, "" if it is not there
	Cancelled bool
}

// maxInvitation bounds the text of an invitation in a message, in bytes.
const maxInvitation = 1 << 20

// invitationOf reads the scheduling message in a message of mail; nil if it has none.
//
// Implements: RFC 6047 §2.4 text/calendar with a method
func (v *visit) invitationOf(l *letter) (*itip.Message, error) {
	var in *wiremime.Part
	for part := range l.places {
		if part.Type == "text" && part.Subtype == "calendar" && part.Param("method") != "" &&
			(in == nil || l.places[part] < l.places[in]) {
			in = part
		}
	}
	if in == nil {
		return nil, nil
	}
	text, more, err := l.text(in, maxInvitation)
	if err != nil || more {
		return nil, err
	}
	m, err := itip.Parse([]byte(text))
	if err != nil || m.Kind != calendar.Event {
		return nil, nil //nolint:nilerr // a part that is no invitation is an attachment like others
	}
	return m, nil
}

// invited describes the invitation in a message for its page; nil if it has none.
func (v *visit) invited(l *letter) (*invitation, error) {
	m, err := v.invitationOf(l)
	if err != nil || m == nil {
		return nil, err
	}
	o, err := m.Object()
	if err != nil {
		return nil, nil //nolint:nilerr // the text of the message tells what it is about
	}
	p, err := v.planner()
	if err != nil {
		return nil, err
	}
	c := o.Parts[0]
	x := &found{object: o}
	from, to := x.span(p.zone)
	out := &invitation{Method: m.Method, Title: cmp.Or(fit(c.Text("SUMMARY"), 200, 300), v.T("calNoTitle")),
		When: p.when(c, from, to), Place: fit(c.Text("LOCATION"), 200, 300), From: fit(organizerName(o), 80, 120),
		Guests: len(itip.Attendees(o.Parts)), Cancelled: m.Method == itip.Cancel, Files: enclosed(c)}
	sender := ""
	if len(l.env.From) > 0 {
		sender = strings.ToLower(l.env.From[0].Mailbox + "@" + l.env.From[0].Host)
	}
	if claimed := m.Sender(); claimed != "" && sender != claimed {
		out.Foreign = fit(sender, 100, 150)
	}
	stored, err := p.stored(m.UID)
	if err != nil {
		return nil, err
	}
	out.Asks = m.Method == itip.Request && itip.Status(o, p.me) != "" && !p.me(m.Organizer())
	if stored != nil {
		out.Href = v.at(pathEvent, "e", stored.UNID.String())
		if s := itip.Status(stored.object, p.me); s != "NEEDS-ACTION" {
			out.Answer = strings.ToLower(s)
		}
	}
	return out, nil
}

// stored returns the event with a UID in the calendars, nil if it is in none.
func (p *planner) stored(uid string) (*found, error) {
	list, err := p.ByUID(p.v.ctx, uid)
	if errors.Is(err, store.ErrDenied) {
		return nil, nil
	}
	all, failed := p.calendars()
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	for i := range list {
		in := collectionOf(all, list[i].Entry.Collection)
		if o, err := calendar.ReadObject(list[i].Text); err == nil && in != nil {
			return &found{Entry: list[i].Entry, object: o, in: in}, nil
		}
	}
	return nil, nil
}

// answerMail records the owner's answer to an invitation in a message. An event that is not in the calendar yet gets
// into the default one; the organizer is told by mail.
func (v *visit) answerMail(p *planner, status string) error {
	l, err := v.named(false)
	if err != nil {
		return err
	}
	m, err := v.invitationOf(l)
	if err != nil {
		return err
	}
	if m == nil || m.Method != itip.Request {
		return errForm
	}
	o, err := m.Object()
	if err != nil || itip.Status(o, p.me) == "" || p.me(m.Organizer()) {
		return errForm
	}
	for range maxAttempts {
		if err = p.answerUID(m.UID, o, status); !errors.Is(err, groupware.ErrChanged) {
			break
		}
	}
	if err != nil {
		return err
	}
	return v.leave(pathRead, "m", l.id.String(), "f", v.form.Get("f"), "said", "calAnswered")
}

// answerUID answers the event with a UID, and puts invited into the default calendar if there is none.
func (p *planner) answerUID(uid string, invited *calendar.Object, status string) error {
	x, err := p.stored(uid)
	if err != nil {
		return err
	}
	at, condition, o := groupware.Place{Name: p.v.s.plans.NewName(groupware.Calendar)}, groupware.Condition{New: true},
		invited
	if x != nil {
		at, condition, o = x.place(), groupware.Condition{ETag: x.ETag}, x.object
	} else if at.Collection, err = p.DefaultFor(p.v.ctx, calendar.Event); err != nil {
		return err
	}
	if o, err = itip.WithStatus(o, p.me, status); err != nil {
		return err
	}
	return p.put(at, condition, o.Text())
}

// when prints the time of an occurrence that a component describes, with the zone of the page.
func (p *planner) when(c *ical.Component, from, to time.Time) string {
	a, b := p.zone.Wall(from), p.zone.Wall(to)
	day := p.v.Speech.Day
	if isDay(c) {
		last := b.AddDate(0, 0, -1)
		if !last.After(a) {
			return day(a)
		}
		return day(a) + " – " + day(last)
	}
	abbreviation, _ := from.In(p.v.Location).Zone()
	switch {
	case a.Equal(b):
		return day(a) + ", " + a.Format("15:04 ") + abbreviation
	case dayOf(a).Equal(dayOf(b)):
		return day(a) + ", " + a.Format("15:04") + "–" + b.Format("15:04 ") + abbreviation
	}
	return day(a) + ", " + a.Format("15:04") + " – " + day(b) + ", " + b.Format("15:04 ") + abbreviation
}

// guest is an attendee of an event.
type guest struct{ Name, Address, Status string }

// maxGuests bounds the attendees on the page of an event.
const maxGuests = 30

// guests returns the attendees of a component for its page; more counts those beyond maxGuests.
func (v *visit) guests(c *ical.Component) (list []guest, more int) {
	known := []string{"accepted", "tentative", "declined", "delegated"}
	for i := range c.Properties {
		q := &c.Properties[i]
		if q.Name != "ATTENDEE" {
			continue
		}
		if len(list) == maxGuests {
			more++
			continue
		}
		status := strings.ToLower(q.Param("PARTSTAT"))
		if !slices.Contains(known, status) {
			status = "waiting"
		}
		address := itip.Address(q.Value)
		list = append(list, guest{fit(cmp.Or(strings.TrimSpace(q.Param("CN")), address), 60, 90), fit(address, 80, 120),
			v.T("calIs_" + status)})
	}
	return list, more
}
