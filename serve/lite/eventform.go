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
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// eventForm is an event as its form shows it. What the form does not show stays as it is in the event.
type eventForm struct {
	Subject, Place, People, Text string
	First, Last, From, To        string // days and clock times of Zone
	Zone                         string // "" for times without a zone
	Repeat                       string // never, daily, weekdays, weekly, monthly, yearly, asBefore
	Until                        string // last day of the rule, "" for none
	Alert                        string // minutes before the start, none, asBefore
	AllDay, Free, Private        bool
}

// The choices of the form.
var (
	repeats = []string{"never", "daily", "weekdays", "weekly", "monthly", "yearly"}
	alerts  = []string{"none", "0", "5", "10", "15", "30", "60", "120", "1440", "2880"}
)

const (
	clock     = "15:04"
	localTime = "2006-01-02T15:04:05"
)

// eventFormPage is the form of an event.
type eventFormPage struct {
	*frame
	eventForm
	ID, Instance, ETag, Calendar string
	Collections                  []target // of a new event
	Repeats, Alerts              []choice
	Series                       bool // the form changes all instances
	OneOf                        bool // the form changes one instance of several
	MayPrivate                   bool
	Cancel                       string
	ZoneNote                     string
}

// choice is an option of a select element.
type choice struct {
	Value, Name string
	Here        bool
}

// readEventForm returns the form of an event of JSCalendar.
func readEventForm(e *jmap.Value, p *planner) eventForm {
	text := func(v *jmap.Value) string { s, _ := v.Text(); return s }
	f := eventForm{Subject: text(e.Get("title")), Text: text(e.Get("description")), Zone: text(e.Get("timeZone"))}
	f.AllDay, _ = e.Get("showWithoutTime").Bool()
	f.Free = text(e.Get("freeBusyStatus")) == "free"
	privacy := text(e.Get("privacy"))
	f.Private = privacy != "" && privacy != "public"
	if l := e.Get("locations"); l.Len() > 0 {
		f.Place = text(l.At(0).Get("name"))
	}
	start, _ := calendar.ParseLocal(text(e.Get("start")))
	length, _ := ical.Duration(text(e.Get("duration")))
	end := start.Add(length)
	if f.AllDay {
		end = start.Add(max(length, 24*time.Hour) - 24*time.Hour)
	} else if zone := namedZone(f.Zone); zone != nil {
		end = zone.Wall(zone.At(start).Add(length))
	}
	f.First, f.Last, f.From, f.To = start.Format(dayLayout), end.Format(dayLayout), start.Format(clock),
		end.Format(clock)
	var guests []string
	people := e.Get("participants")
	for i := range people.Len() {
		if q := people.At(i); !isOwnerOf(e, q) && text(q.Get("email")) != "" {
			guests = append(guests, text(q.Get("email")))
		}
	}
	f.People = strings.Join(guests, ", ")
	f.Repeat, f.Until = readRepeat(e.Get("recurrenceRules"), start)
	f.Alert = readAlert(e.Get("alerts"))
	return f
}

func namedZone(name string) *ical.Zone {
	if name == "" || !ical.HasZone(name) {
		return nil
	}
	return ical.Named(name)
}

// isOwnerOf reports whether a participant organizes an event.
func isOwnerOf(e, participant *jmap.Value) bool {
	on, _ := participant.Get("roles").Get("owner").Bool()
	to, _ := e.Get("replyTo").Get("imip").Text()
	email, _ := participant.Get("email").Text()
	return on || to != "" && strings.EqualFold(to, "mailto:"+email)
}

// readRepeat returns the choice that stands for recurrence rules: asBefore if none does.
func readRepeat(rules *jmap.Value, start time.Time) (repeat, until string) {
	if rules.Len() == 0 {
		return "never", ""
	}
	r := rules.At(0)
	text, _ := r.Get("until").Text()
	last, ends := calendar.ParseLocal(text)
	if ends {
		until = last.Format(dayLayout)
	}
	for _, c := range repeats[1:] {
		want := ruleValue(c, until, start)
		if rules.Len() == 1 && sameRule(r, want) {
			return c, until
		}
	}
	freq, _ := r.Get("frequency").Text()
	days := r.Get("byDay")
	if rules.Len() == 1 && freq == "weekly" && days.Len() == 1 {
		day, _ := days.At(0).Get("day").Text()
		plain := r.Without("byDay")
		want := ruleValue("weekly", until, start)
		if day == weekdayCodes[start.Weekday()] && sameRule(&plain, want) {
			return "weekly", until // as programs write it that name the day of the start
		}
	}
	return "asBefore", ""
}

// sameRule compares recurrence rules but for their ends.
func sameRule(a, b *jmap.Value) bool {
	x, y := a.Without("until"), b.Without("until")
	return x.Equal(&y)
}

// weekdayCodes are the days of a rule, by time.Weekday.
var weekdayCodes = [...]string{"su", "mo", "tu", "we", "th", "fr", "sa"}

// ruleValue returns the recurrence rule of a choice.
func ruleValue(repeat, until string, start time.Time) *jmap.Value {
	frequency := repeat
	var days []jmap.Value
	if repeat == "weekdays" {
		frequency = "weekly"
		for _, d := range weekdayCodes[1:6] {
			days = append(days, *jmap.MakeObject([]string{"@type", "day"}, []jmap.Value{jmap.Text("NDay"),
				jmap.Text(d)}))
		}
	}
	r := jmap.MakeObject([]string{"@type", "frequency"}, []jmap.Value{jmap.Text("RecurrenceRule"),
		jmap.Text(frequency)})
	if days != nil {
		next := r.With("byDay", jmap.List(days...))
		r = &next
	}
	if until != "" {
		next := r.With("until", jmap.Text(until+"T23:59:59"))
		r = &next
	}
	return r
}

// readAlert returns the choice that stands for alerts.
func readAlert(v *jmap.Value) string {
	if v.Len() == 0 {
		return "none"
	}
	t := v.At(0).Get("trigger")
	offset, _ := t.Get("offset").Text()
	to, _ := t.Get("relativeTo").Text()
	d, ok := ical.Duration(offset)
	action, _ := v.At(0).Get("action").Text()
	if minutes := strconv.Itoa(int(-d / time.Minute)); v.Len() == 1 && ok && to != "end" && action != "email" &&
		d%time.Minute == 0 && slices.Contains(alerts, minutes) {
		return minutes
	}
	return "asBefore"
}

// newEventForm returns the form of a new event on a day: the next hour, or nine o'clock on another day.
func (p *planner) newEventForm(day string) eventForm {
	now := p.zone.Wall(p.v.Now)
	at := now.Truncate(time.Hour).Add(time.Hour)
	if d, err := time.Parse(dayLayout, day); err == nil && day != now.Format(dayLayout) {
		at = d.Add(9 * time.Hour)
	}
	end := at.Add(time.Hour)
	zone := cmp.Or(p.zone.Name, ical.UTC.Name)
	if p.zone.Name == "" { // the server's own zone has no name that programs know
		at, end = p.zone.At(at), p.zone.At(end)
	}
	return eventForm{First: at.Format(dayLayout), Last: end.Format(dayLayout), From: at.Format(clock),
		To: end.Format(clock), Zone: zone, Repeat: "never", Alert: "15"}
}

// given reads the form that the user sent.
func (v *visit) givenEvent() eventForm {
	f := v.form
	return eventForm{Subject: f.line("title"), Place: f.line("place"), People: f.Get("people"),
		Text: strings.TrimRight(f.Get("text"), "\n"), First: f.line("first"), Last: f.line("last"),
		From: f.line("from"),
		To:   f.line("to"), Zone: f.line("zone"), Repeat: f.line("repeat"), Until: f.line("until"),
		Alert:  f.line("alert"),
		AllDay: f.Get("allday") != "", Free: f.Get("free") != "", Private: f.Get("private") != ""}
}

// editEvent shows the form of an event, or of a new one.
func (v *visit) editEvent(p *planner) error {
	if v.form.Get("edit") == "new" {
		return v.showEventForm(p, nil, p.newEventForm(v.form.Get("day")), nil)
	}
	x, e, err := p.editable()
	if err != nil {
		return err
	}
	return v.showEventForm(p, x, readEventForm(e, p), nil)
}

// editable reads the event that the request names, if the user may change it.
func (p *planner) editable() (*found, *jmap.Value, error) {
	x, err := p.event()
	if err != nil {
		return nil, nil, err
	}
	if !x.may(note.Write) || !organizedBy(x.object, p.me) {
		return nil, nil, store.ErrDenied
	}
	e, err := eventValue(x.object, x.at)
	return x, e, err
}

// showEventForm shows a form; x is nil for a new event, and why the reason for which the form was refused, or nil.
func (v *visit) showEventForm(p *planner, x *found, f eventForm, why error) error {
	title := "calNew"
	if x != nil {
		title = "calEdit"
	}
	fr, _, err := v.framed(title, note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "calendar"
	page := &eventFormPage{frame: fr, eventForm: f, Instance: v.form.Get("at"), MayPrivate: v.box.ID == "",
		Cancel: v.at(pathCalendar, "day", f.First), ETag: v.form.Get("state"), Calendar: v.form.Get("calendar")}
	if x == nil {
		if page.Collections, err = p.targets(page.Calendar); err != nil {
			return err
		}
	} else {
		page.ID, page.ETag = x.UNID.String(), cmp.Or(page.ETag, x.ETag)
		recurs := x.object.Series.Recurs()
		page.Series, page.OneOf = recurs && x.at == nil, recurs && x.at != nil
		page.Cancel = v.at(pathEvent, "e", page.ID, "at", page.Instance)
	}
	for _, r := range repeats {
		page.Repeats = append(page.Repeats, choice{r, v.T("calRepeat_" + r), r == f.Repeat})
	}
	for _, a := range alerts {
		page.Alerts = append(page.Alerts, choice{a, v.alertWords(a), a == f.Alert})
	}
	if f.Repeat == "asBefore" {
		page.Repeats = append(page.Repeats, choice{f.Repeat, v.T("calAsBefore"), true})
	}
	if f.Alert == "asBefore" {
		page.Alerts = append(page.Alerts, choice{f.Alert, v.T("calAsBefore"), true})
	}
	if f.Zone == "" {
		page.ZoneNote = v.T("calFloating")
	} else if f.Zone != p.zone.Name {
		page.ZoneNote = v.T("calInZone", clip(f.Zone, 60))
	}
	status := http.StatusOK
	if why != nil {
		status = v.eventRefusal(fr, why)
	}
	v.s.show(v.w, status, "eventform.html", page)
	return nil
}

// eventRefusal puts the reason for which an event is not stored on its form, and returns the HTTP status.
func (v *visit) eventRefusal(fr *frame, why error) int {
	var p *problem
	if errors.As(why, &p) {
		fr.say(p.key, true, p.values...)
		return http.StatusBadRequest
	}
	status, key := refusal(why)
	if known := eventProblem(why); known != "" {
		status, key = http.StatusBadRequest, known
	}
	fr.say(key, true)
	return status
}

func (v *visit) alertWords(minutes string) string {
	n, err := strconv.Atoi(minutes)
	switch {
	case err != nil:
		return v.T("calAlertNone")
	case n == 0:
		return v.T("calAlertStart")
	case n < 60:
		return v.T("calAlertMinutes", n)
	case n < 1440:
		return v.T("calAlertHours", n/60)
	}
	return v.T("calAlertDays", n/1440)
}

// targets returns the calendars that take new events; chosen is the name of the one that is selected, "" for the
// default.
func (p *planner) targets(chosen string) (list []target, err error) {
	all, err := p.calendars()
	for i := range all {
		c := &all[i]
		if c.Rights&note.Insert == 0 || len(list) >= maxTargets {
			continue
		}
		t := target{c.Name, fit(c.Title, 60, 100)}
		if c.Name == chosen || chosen == "" && c.Default {
			list = append([]target{t}, list...)
		} else {
			list = append(list, t)
		}
	}
	if err == nil && len(list) == 0 {
		err = store.ErrDenied
	}
	return list, err
}
