package lite

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
)

// Bounds of the pages, which keep them under 30 KB: events of a day in each view, occurrences that a page reads, and
// invitations that wait. waitAhead is the time in which those are looked for.
const (
	maxInDay    = 40
	maxInWeek   = 9
	maxInMonth  = 2
	maxSlots    = 5000
	maxWaiting  = 5
	maxAsked    = 500
	waitAhead   = 183 * 24 * time.Hour
	monthLength = 6 * 7
)

// calendarPage is a day, a week or a month.
type calendarPage struct {
	*frame
	View, Heading        string
	Day                  string // the day that was asked for, for the form to go to another one
	Before, After, Today string
	Views                []viewLink
	Days                 []dayOfPage
	Weekdays             []string // of a month
	New                  string   // address to add an event, "" if the user may not
	Waiting              []waiting
	MoreWaiting, Cut     bool
}

type viewLink struct {
	Name, Href string
	Here       bool
}

// dayOfPage is a day with its events.
type dayOfPage struct {
	Title, Number, Href string
	Today, Other        bool // Other: of another month
	WeekEnds            bool // the last day of a row
	Slots               []slot
	More                int
}

// slot is an occurrence of an event as a page lists it.
type slot struct {
	unid                         note.UNID
	occurrence                   calendar.Occurrence
	recurs                       bool
	collection                   note.UNID
	When, Title, Place, Calendar string
	Href                         string
	Cancelled                    bool
}

// waiting is an invitation that the user has not answered.
type waiting struct {
	ID, Title, When, From, Href string
}

// calendar shows a day, a week or a month.
func (v *visit) calendar() error {
	p, err := v.planner()
	if err != nil {
		return err
	}
	fr, _, err := v.framed("calCalendar", note.UNID{})
	if err != nil {
		return err
	}
	fr.Here = "calendar"
	page := &calendarPage{frame: fr, View: v.form.Get("view")}
	if !slices.Contains([]string{"day", "month"}, page.View) {
		page.View = "week"
	}
	day := dayOf(p.zone.Wall(v.Now))
	if t, err := time.Parse(dayLayout, v.form.Get("day")); err == nil && t.Year() >= 1 && t.Year() < 9999 {
		day = t
	}
	page.Day = day.Format(dayLayout)
	if err := p.fill(page, day); err != nil {
		return err
	}
	if v.box.ID == "" {
		if page.Waiting, page.MoreWaiting, err = p.waiting(); err != nil {
			return err
		}
	}
	v.toldOf(fr, "")
	v.s.show(v.w, http.StatusOK, "calendar.html", page)
	return nil
}

// dayOf returns the day of a wall time.
func dayOf(wall time.Time) time.Time {
	return time.Date(wall.Year(), wall.Month(), wall.Day(), 0, 0, 0, 0, time.UTC)
}

// fill puts the days of the view around a day on the page.
func (p *planner) fill(page *calendarPage, day time.Time) error {
	v := p.v
	link := func(view string, d time.Time) string {
		return v.at(pathCalendar, "view", view, "day", d.Format(dayLayout))
	}
	first, err := p.weekStart()
	if err != nil {
		return err
	}
	monday := func(d time.Time) time.Time { return d.AddDate(0, 0, -(int(d.Weekday())-int(first)+7)%7) }
	from, n, most := day, 1, maxInDay
	before, after := day.AddDate(0, 0, -1), day.AddDate(0, 0, 1)
	page.Heading = v.Speech.Day(day)
	switch page.View {
	case "week":
		from, n, most = monday(day), 7, maxInWeek
		before, after = day.AddDate(0, 0, -7), day.AddDate(0, 0, 7)
		page.Heading = v.Speech.Day(from) + " – " + v.Speech.Day(from.AddDate(0, 0, 6))
	case "month":
		one := day.AddDate(0, 0, 1-day.Day())
		from, n, most = monday(one), monthLength, maxInMonth
		before, after = one.AddDate(0, -1, 0), one.AddDate(0, 1, 0)
		page.Heading = v.Month(day)
		for i := range 7 {
			page.Weekdays = append(page.Weekdays, v.Weekday((first+time.Weekday(i))%7))
		}
	}
	page.Before, page.After = link(page.View, before), link(page.View, after)
	today := dayOf(p.zone.Wall(v.Now))
	page.Today = link(page.View, today)
	for _, x := range []struct{ view, key string }{{"day", "calDay"}, {"week", "calWeek"}, {"month", "calMonth"}} {
		page.Views = append(page.Views, viewLink{v.T(x.key), link(x.view, day), x.view == page.View})
	}
	for i := range n {
		d := from.AddDate(0, 0, i)
		page.Days = append(page.Days, dayOfPage{Title: v.Speech.Day(d), Number: strconv.Itoa(d.Day()),
			Href: link("day", d), Today: d.Equal(today), Other: d.Month() != day.Month(), WeekEnds: i%7 == 6})
	}
	return p.list(page, from, most)
}

// weekStart returns the day on which the owner's weeks start, as chosen in the full client; otherwise Monday (ISO
// 8601).
func (p *planner) weekStart() (first time.Weekday, err error) {
	first = time.Monday
	if p.v.id.Database == 0 {
		return first, nil
	}
	own, err := p.v.own()
	if err != nil {
		return first, err
	}
	err = own.Read(p.v.ctx, func(d *mailbox.Reading) error {
		all, err := d.Preferences()
		if n, bad := strconv.Atoi(all["calendar:week"]); bad == nil && n >= 0 && n <= 6 {
			first = time.Weekday(n)
		}
		return err
	})
	return first, err
}

// list puts the events on the days of the page, the first of which is from: at most most on each.
func (p *planner) list(page *calendarPage, from time.Time, most int) error {
	collections, err := p.calendars()
	if err != nil {
		return err
	}
	for i := range collections {
		if c := &collections[i]; c.Rights&note.Insert != 0 && page.New == "" {
			page.New = p.v.at(pathEvent, "edit", "new", "day", page.Day)
		}
	}
	shown := func(u note.UNID) bool {
		c := collectionOf(collections, u)
		return c != nil && !c.Invisible && (c.Subscribed || p.v.box.ID != "")
	}
	all, cut, err := p.slots(p.zone.At(from), p.zone.At(from.AddDate(0, 0, len(page.Days))), shown)
	if err != nil {
		return err
	}
	page.Cut = cut
	var used []*slot
	for i := range page.Days {
		d := &page.Days[i]
		begin, end := p.zone.At(from.AddDate(0, 0, i)), p.zone.At(from.AddDate(0, 0, i+1))
		for k := range all {
			if !isOn(&all[k].occurrence, begin, end) {
				continue
			}
			if len(d.Slots) == most {
				d.More++
				continue
			}
			s := all[k]
			s.When = p.times(&s.occurrence, begin, end)
			d.Slots = append(d.Slots, s)
		}
		for k := range d.Slots {
			used = append(used, &d.Slots[k])
		}
	}
	return p.describe(page.View, collections, used)
}

// isOn reports whether an occurrence reaches into a day. One without a length is on the day of its start.
func isOn(o *calendar.Occurrence, begin, end time.Time) bool {
	return o.Start.Before(end) && (o.End.After(begin) || !o.Start.Before(begin))
}

// slots returns the occurrences of a time in the order of their starts, at most maxSlots; cut is set if there are more.
func (p *planner) slots(from, to time.Time, shown func(note.UNID) bool) (list []slot, cut bool, err error) {
	in := groupware.Range{From: from, To: to, Floating: p.zone, Component: calendar.Event}
	err = p.Times(p.v.ctx, in, func(t *groupware.Times) bool {
		if !shown(t.Collection) {
			return true
		}
		recurs := t.Series.Recurs()
		bad := t.Series.Between(from, to, p.zone, func(o calendar.Occurrence) bool {
			list = append(list, slot{unid: t.UNID, collection: t.Collection, occurrence: o, recurs: recurs})
			return len(list) < maxSlots
		})
		cut = cut || bad != nil || len(list) >= maxSlots // a rule that takes too long to expand ends early
		return len(list) < maxSlots
	})
	slices.SortStableFunc(list, func(a, b slot) int {
		return cmp.Or(a.occurrence.Start.Compare(b.occurrence.Start), b.occurrence.End.Compare(a.occurrence.End),
			a.unid.Compare(b.unid))
	})
	return list, cut, err
}

// times prints the part of an occurrence on one day: "" if it fills the day.
func (p *planner) times(o *calendar.Occurrence, begin, end time.Time) string {
	from, to := p.zone.Wall(o.Start).Format("15:04"), p.zone.Wall(o.End).Format("15:04")
	switch starts, ends := !o.Start.Before(begin), !o.End.After(end); {
	case o.Start.Equal(begin) && o.End.Equal(end), !starts && !ends, !starts && o.End.Equal(end),
		o.Start.Equal(begin) && !ends:
		return ""
	case starts && ends && from == to:
		return from
	case starts && ends:
		return from + "–" + to
	case starts:
		return from + " –"
	default:
		return "– " + to
	}
}

// describe reads the texts of occurrences.
func (p *planner) describe(view string, collections []groupware.Collection, list []*slot) error {
	title, room := 60, 100
	if view == "month" {
		title, room = 18, 40
	}
	by := map[note.UNID][]*slot{}
	var ids []note.UNID
	for _, s := range list {
		if by[s.unid] == nil {
			ids = append(ids, s.unid)
		}
		by[s.unid] = append(by[s.unid], s)
	}
	return p.ByID(p.v.ctx, groupware.Calendar, ids, true, func(e *groupware.Entry) bool {
		o, err := calendar.ReadObject(e.Text)
		if err != nil {
			return true
		}
		for _, s := range by[e.UNID] {
			at := ""
			if s.recurs {
				at = s.occurrence.ID.Format(instanceForm)
			}
			s.Href = p.v.at(pathEvent, "e", s.unid.String(), "at", at)
			if s.occurrence.Part >= len(o.Parts) {
				continue // it changed meanwhile
			}
			c := o.Parts[s.occurrence.Part]
			if s.Title = fit(c.Text("SUMMARY"), title, room); s.Title == "" {
				s.Title = p.v.T("calNoTitle")
			}
			s.Cancelled = c.Text("STATUS") == "CANCELLED"
			if s.When == "" {
				s.When = p.v.T("calAllDay")
			}
			if view == "day" {
				s.Place = fit(c.Text("LOCATION"), 60, 100)
				if in := collectionOf(collections, s.collection); in != nil && len(collections) > 1 {
					s.Calendar = fit(in.Title, 40, 60)
				}
			}
		}
		return true
	})
}
