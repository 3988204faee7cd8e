package lite

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/jmap"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// saveEvent writes the event of the form.
func (v *visit) saveEvent(p *planner) error {
	given := v.givenEvent()
	if v.form.Get("e") == "" {
		err := v.createEvent(p, given)
		if err == nil {
			return v.leave(pathCalendar, "day", given.First, "said", "calSaved")
		}
		return v.unsavedEvent(p, nil, given, err)
	}
	x, e, err := p.editable()
	if err != nil {
		return err
	}
	if err := v.writeEvent(p, x, e, given); err != nil {
		return v.unsavedEvent(p, x, given, err)
	}
	return v.leave(pathCalendar, "day", given.First, "said", "calSaved")
}

// unsavedEvent shows the form again, so that nothing that was written is lost.
func (v *visit) unsavedEvent(p *planner, x *found, given eventForm, why error) error {
	if status, _ := refusal(why); status == http.StatusServiceUnavailable && eventProblem(why) == "" &&
		!errors.As(why, new(*problem)) {
		return why
	}
	return v.showEventForm(p, x, given, why)
}

func (v *visit) createEvent(p *planner, f eventForm) error {
	name := v.s.plans.NewName(groupware.Calendar)
	o := calendar.New(calendar.Event, strings.TrimSuffix(name, ".ics"), v.s.env.Clock.Now())
	empty := jmap.MakeObject(nil, nil)
	changed, err := p.changes(eventForm{Alert: "none", Repeat: "never"}, f, empty)
	if err != nil {
		return err
	}
	if o, err = o.Edit(changed); err != nil {
		return err
	}
	return p.put(groupware.Place{Collection: v.form.Get("calendar"), Name: name}, groupware.Condition{New: true},
		o.Text())
}

// writeEvent changes an event, or an instance of it, as its form did: e is the event that the form was made from.
func (v *visit) writeEvent(p *planner, x *found, e *jmap.Value, f eventForm) error {
	if v.form.Get("state") != x.ETag {
		return groupware.ErrChanged
	}
	changed, err := p.changes(readEventForm(e, p), f, e)
	if err != nil || changed.Len() == 0 {
		return err
	}
	stamps := p.stamps(x.object, true)
	o := x.object
	if x.at != nil && o.Series.Recurs() {
		o, err = o.EditInstance(*x.at, changed, stamps)
	} else {
		var all *jmap.Value
		if all, err = shifted(e, changed); err != nil {
			return err
		}
		for i := range stamps.Len() {
			next := all.With(stamps.Name(i), *stamps.At(i))
			all = &next
		}
		o, err = o.Edit(all)
	}
	if err != nil {
		return err
	}
	return p.put(x.place(), groupware.Condition{ETag: x.ETag}, o.Text())
}

// badEvent is the problem of a form that cannot be read.
func badEvent(key string) error { return &problem{key, nil} }

// eventTimes returns the properties of the times of a form.
func (f *eventForm) times() (start time.Time, length time.Duration, err error) {
	first, err1 := time.Parse(dayLayout, f.First)
	last, err2 := time.Parse(dayLayout, cmp.Or(f.Last, f.First))
	if err1 != nil || err2 != nil || first.Year() < 1 || last.Year() > 9998 {
		return start, 0, badEvent("calBadTime")
	}
	if f.AllDay {
		if last.Before(first) {
			return start, 0, badEvent("calEndBeforeStart")
		}
		return first, last.Sub(first) + 24*time.Hour, nil
	}
	from, err1 := time.Parse(clock, f.From)
	to, err2 := time.Parse(clock, cmp.Or(f.To, f.From))
	if err1 != nil || err2 != nil {
		return start, 0, badEvent("calBadTime")
	}
	at := func(d, t time.Time) time.Time {
		return d.Add(time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute)
	}
	start = at(first, from)
	zone := cmp.Or(namedZone(f.Zone), ical.UTC)
	if length = zone.At(at(last, to)).Sub(zone.At(start)); length < 0 {
		return start, 0, badEvent("calEndBeforeStart")
	}
	return start, length, nil
}

// guests returns the addresses of the form, each once.
func (f *eventForm) guests() (list []string, err error) {
	typed := strings.ReplaceAll(f.People, "\n", ",")
	for _, a := range mime.ParseAddressList([]byte(semicolons(typed))) {
		if a.Group || a.Mailbox == "" && a.Host == "" {
			continue
		}
		email := a.Mailbox + "@" + a.Host
		if _, bad := smtp.ParsePath(email); bad != nil || a.Host == "" {
			return nil, &problem{"badAddress", []any{clip(a.Mailbox, 100)}}
		}
		if !slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, email) }) {
			list = append(list, email)
		}
	}
	if len(list) == 0 && strings.Trim(typed, ",; \n") != "" {
		err = &problem{"badAddress", []any{clip(typed, 100)}}
	}
	return list, err
}

// changes returns the properties of JSCalendar that differ between two forms of an event e.
func (p *planner) changes(before, after eventForm, e *jmap.Value) (*jmap.Value, error) {
	out := jmap.MakeObject(nil, nil)
	set := func(name string, v jmap.Value) {
		next := out.With(name, v)
		out = &next
	}
	for _, t := range []struct{ name, was, is string }{{"title", before.Subject, after.Subject},
		{"description", before.Text, after.Text}} {
		if t.was != t.is {
			set(t.name, jmap.Text(t.is))
		}
	}
	start, length, err := after.times()
	if err != nil {
		return nil, err
	}
	if was, lasted, err := before.times(); err != nil || !was.Equal(start) || lasted != length ||
		before.AllDay != after.AllDay {
		after.setTimes(start, length, set)
	}
	if before.Place != after.Place {
		set("locations", placeValue(e.Get("locations"), after.Place))
	}
	if before.Repeat != after.Repeat || before.Until != after.Until {
		if err := after.setRepeat(start, set); err != nil {
			return nil, err
		}
	}
	if before.Alert != after.Alert && after.Alert != "asBefore" {
		set("alerts", alertValue(after.Alert))
	}
	if err := p.visibility(before, after, set); err != nil {
		return nil, err
	}
	return out, p.invite(before, after, e, set)
}

// visibility sets the properties that say what others see of an event.
func (p *planner) visibility(before, after eventForm, set func(string, jmap.Value)) error {
	if before.Free != after.Free {
		set("freeBusyStatus", jmap.Text(map[bool]string{true: "free", false: "busy"}[after.Free]))
	}
	if before.Private != after.Private {
		if after.Private && p.v.box.ID != "" {
			return store.ErrDenied // its other people would not see it
		}
		set("privacy", jmap.Text(map[bool]string{true: "private", false: "public"}[after.Private]))
	}
	return nil
}

// setTimes sets the times of a form.
func (f *eventForm) setTimes(start time.Time, length time.Duration, set func(string, jmap.Value)) {
	set("start", jmap.Text(start.Format(localTime)))
	if f.AllDay {
		set("showWithoutTime", jmap.True())
		set("timeZone", jmap.Value{})
		set("duration", jmap.Text("P"+strconv.Itoa(int(length/(24*time.Hour)))+"D"))
		return
	}
	set("showWithoutTime", *mustJSON("false"))
	set("timeZone", jmap.Value{})
	if f.Zone != "" {
		set("timeZone", jmap.Text(f.Zone))
	}
	set("duration", jmap.Text(calendar.Duration(length)))
}

// setRepeat sets the recurrence rule of a form.
func (f *eventForm) setRepeat(start time.Time, set func(string, jmap.Value)) error {
	switch {
	case f.Repeat == "asBefore":
		return badEvent("calUntilAsBefore") // the form has no words for the rule, so it does not change its end
	case f.Repeat == "never" || f.Repeat == "":
		set("recurrenceRules", jmap.Value{})
		return nil
	case !slices.Contains(repeats, f.Repeat):
		return errForm
	}
	until := ""
	if f.Until != "" {
		last, err := time.Parse(dayLayout, f.Until)
		if err != nil || last.Before(dayOf(start)) {
			return badEvent("calBadUntil")
		}
		until = last.Format(dayLayout)
	}
	set("recurrenceRules", jmap.List(*ruleValue(f.Repeat, until, start)))
	return nil
}

// placeValue returns the locations of an event with the name of the first one changed.
func placeValue(locations *jmap.Value, name string) jmap.Value {
	if name == "" {
		return jmap.Value{}
	}
	if locations.Len() == 0 {
		one := jmap.MakeObject([]string{"@type", "name"}, []jmap.Value{jmap.Text("Location"), jmap.Text(name)})
		return *jmap.MakeObject([]string{"1"}, []jmap.Value{*one})
	}
	return locations.With(locations.Name(0), locations.At(0).With("name", jmap.Text(name)))
}

// alertValue returns the alerts of a choice.
func alertValue(minutes string) jmap.Value {
	n, err := strconv.Atoi(minutes)
	if err != nil || n < 0 {
		return jmap.Value{}
	}
	offset := "-PT" + strconv.Itoa(n) + "M"
	if n == 0 {
		offset = "PT0S"
	}
	return *mustJSON(`{"a1":{"@type":"Alert","action":"display","trigger":{"@type":"OffsetTrigger",` +
		`"relativeTo":"start",` +
		`"offset":"` + offset + `"}}}`)
}

// mustJSON parses a JSON text of this program.
func mustJSON(text string) *jmap.Value {
	v, err := jmap.Parse(text, jmap.Bounds{})
	if err != nil {
		panic(err) // a bug
	}
	return v
}

// invite sets the participants of an event whose people were changed. The owner of the mail file organizes it.
func (p *planner) invite(before, after eventForm, e *jmap.Value, set func(string, jmap.Value)) error {
	if before.People == after.People {
		return nil
	}
	guests, err := after.guests()
	if err != nil {
		return err
	}
	had := e.Get("participants")
	people, organized := jmap.MakeObject(nil, nil), false
	known := map[string]bool{}
	add := func(id string, v jmap.Value) {
		next := people.With(id, v)
		people = &next
	}
	for i := range had.Len() {
		q := had.At(i)
		email, _ := q.Get("email").Text()
		owner := isOwnerOf(e, q)
		stays := slices.ContainsFunc(guests, func(g string) bool { return strings.EqualFold(g, email) })
		if owner || stays {
			organized = organized || owner
			known[strings.ToLower(email)] = true
			add(had.Name(i), *q)
		}
	}
	if len(guests) == 0 {
		set("participants", jmap.Value{})
		set("replyTo", jmap.Value{})
		return nil
	}
	if len(p.addresses) == 0 {
		return store.ErrDenied // nobody is there to invite
	}
	if !organized {
		add("owner", participant(p.name, p.addresses[0], true))
		known[p.addresses[0]] = true
		if e.Get("replyTo").IsNull() {
			set("replyTo", *jmap.MakeObject([]string{"imip"}, []jmap.Value{jmap.Text("mailto:" + p.addresses[0])}))
		}
	}
	for i, g := range guests {
		if !known[strings.ToLower(g)] {
			add("guest"+strconv.Itoa(i)+"-"+strconv.Itoa(had.Len()), participant("", g, false))
		}
	}
	set("participants", *people)
	return nil
}

// participant returns a participant of an event: the organizer, who comes, or a guest who is asked.
func participant(name, email string, owner bool) jmap.Value {
	w := jmap.NewWriter(nil)
	w.Text("@type", "Participant")
	if name != "" {
		w.Text("name", name)
	}
	w.Text("email", email)
	w.Object("sendTo", func(o *jmap.Writer) { o.Text("imip", "mailto:"+email) })
	w.Object("roles", func(o *jmap.Writer) {
		if o.Bool("attendee", true); owner {
			o.Bool("owner", true)
		}
	})
	if owner {
		w.Text("participationStatus", "accepted")
	} else {
		w.Text("participationStatus", "needs-action")
		w.Bool("expectReply", true)
	}
	return *mustJSON(string(w.End()))
}
