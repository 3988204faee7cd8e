package jmapd

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/test/long"
)

// calendarFollower is a client that updates its calendars and events only by /changes.
type calendarFollower struct {
	w                *world
	r                *rand.Rand
	account          string
	calendars        map[string]obj
	events           map[string]obj
	calendarState    string
	eventState       string
	queried          []string // the result of a query, which queryChanges updates
	queryState       string
	dav              []string // names of entries that were written as CalDAV does
	made, overridden int
}

// TestCalendarModel makes random changes over JMAP and as CalDAV does, and compares what a client that follows the
// changes knows with what the server has, and expanded queries with the expansion of package calendar.
func TestCalendarModel(t *testing.T) {
	t.Parallel()
	made, overridden := 0, 0
	for seed := range uint64(long.Pick(6, 30)) {
		w := open(t, settings{})
		x := &calendarFollower{w: w, r: rand.New(rand.NewPCG(seed, 2)), account: w.account("alice"),
			calendars: map[string]obj{}, events: map[string]obj{}}
		x.start()
		for range 40 {
			if x.r.IntN(3) == 0 {
				x.davWrite()
			} else {
				x.change()
			}
			if x.r.IntN(2) == 0 {
				x.follow(1 + x.r.IntN(4))
				x.compare()
			}
		}
		x.follow(0)
		x.compare()
		x.expand()
		made, overridden = made+x.made, overridden+x.overridden
	}
	if made == 0 || overridden == 0 { // of a single seed, there may be none
		t.Errorf("made %d events and %d overrides", made, overridden)
	}
}

func (x *calendarFollower) one(name string, args obj) obj {
	args["accountId"] = x.account
	return x.w.one("alice", name, args)
}

func (x *calendarFollower) start() {
	got := x.one("Calendar/get", obj{"ids": nil})
	x.calendarState = got["state"].(string)
	for _, c := range got["list"].([]any) {
		x.calendars[c.(obj)["id"].(string)] = c.(obj)
	}
	x.eventState = x.one("CalendarEvent/get", obj{"ids": []string{}})["state"].(string)
	x.query()
}

func (x *calendarFollower) query() {
	got := x.one("CalendarEvent/query", obj{"filter": obj{"text": "m"}})
	x.queried, x.queryState = strs(got["ids"]), got["queryState"].(string)
}

func (x *calendarFollower) pick(m map[string]obj) string {
	ids := slices.Sorted(maps.Keys(m))
	if len(ids) == 0 {
		return "e0"
	}
	return ids[x.r.IntN(len(ids))]
}

// event returns a random event of a calendar.
func (x *calendarFollower) event(calendar string) obj {
	title := []string{"tea", "meeting", "mow"}[x.r.IntN(3)]
	e := obj{"calendarIds": obj{calendar: true}, "title": fmt.Sprint(title, x.r.IntN(9)),
		"start":    fmt.Sprintf("2026-%02d-%02dT%02d:00:00", 1+x.r.IntN(3), 1+x.r.IntN(28), x.r.IntN(24)),
		"timeZone": []any{"Europe/Berlin", "America/New_York", "Etc/UTC", nil}[x.r.IntN(4)], "duration": "PT1H"}
	if x.r.IntN(2) == 0 {
		e["recurrenceRules"] = []obj{{"frequency": []string{"daily", "weekly"}[x.r.IntN(2)], "count": 2 + x.r.IntN(9)}}
	}
	if x.r.IntN(4) == 0 {
		e["showWithoutTime"], e["duration"] = true, "P1D"
	}
	return e
}

// change makes a random change over JMAP.
func (x *calendarFollower) change() {
	switch x.r.IntN(9) {
	case 0:
		x.one("Calendar/set", obj{"create": obj{"c": obj{"name": fmt.Sprint("C", x.r.IntN(9))}}})
	case 1:
		x.one("Calendar/set", obj{"update": obj{x.pick(x.calendars): obj{"color": []any{"teal", nil}[x.r.IntN(2)]}}})
	case 2:
		if len(x.calendars) > 1 {
			x.one("Calendar/set", obj{"destroy": []string{x.pick(x.calendars)},
				"onDestroyRemoveEvents": x.r.IntN(2) == 0})
		}
	case 3, 4:
		x.one("CalendarEvent/set", obj{"create": obj{"a": x.event(x.pick(x.calendars)),
			"b": x.event(x.pick(x.calendars))}})
		x.made++
	case 5:
		x.one("CalendarEvent/set", obj{"update": obj{x.pick(x.events): obj{"title": fmt.Sprint("moved", x.r.IntN(9)),
			"calendarIds": obj{x.pick(x.calendars): true}}}})
	case 6:
		x.one("CalendarEvent/set", obj{"destroy": []string{x.pick(x.events)}})
	default:
		x.instance()
	}
}

// instance changes or removes an instance of an event.
func (x *calendarFollower) instance() {
	got := x.one("CalendarEvent/query", obj{"expandRecurrences": true,
		"filter": obj{"after": "2026-01-01T00:00:00", "before": "2026-06-01T00:00:00"}})
	ids := slices.DeleteFunc(strs(got["ids"]), func(id string) bool { return !strings.Contains(id, "-") })
	if len(ids) == 0 {
		return
	}
	id := ids[x.r.IntN(len(ids))]
	args := obj{"update": obj{id: obj{"title": "mine", "duration": "PT3H"}}}
	switch x.r.IntN(3) {
	case 0:
		args = obj{"destroy": []string{id}}
	case 1:
		args = obj{"update": obj{id: obj{"start": fmt.Sprintf("2026-02-%02dT10:00:00", 1+x.r.IntN(28))}}}
	}
	if out := x.one("CalendarEvent/set", args); out["notUpdated"] != nil || out["notDestroyed"] != nil {
		x.w.t.Fatalf("%v: %v", args, out)
	}
	x.overridden++
}

// davWrite writes an entry as CalDAV does: an event or a task, a new one or an old one, or removes one.
func (x *calendarFollower) davWrite() {
	c := x.w.who["alice"]
	f := x.w.groupware.File(c.Who, c.Database)
	if len(x.dav) > 0 && x.r.IntN(3) == 0 {
		i := x.r.IntN(len(x.dav))
		collection, name, _ := strings.Cut(x.dav[i], "/")
		_ = f.Remove(bg, groupware.Calendar, collection, name, groupware.Condition{}) // it may have moved
		x.dav = slices.Delete(x.dav, i, i+1)
		return
	}
	n := x.r.IntN(20)
	collection, text := "calendar", fmt.Sprintf("BEGIN:VEVENT\r\nUID:dav%d\r\n"+
		"DTSTART;TZID=Europe/Berlin:202602%02dT100000\r\n"+
		"RRULE:FREQ=DAILY;COUNT=%d\r\nEXDATE;TZID=Europe/Berlin:202602%02dT100000\r\nSUMMARY:dav %d\r\nX-A;B=c:d\r\n"+
		"END:VEVENT\r\n", n, 1+n, 1+x.r.IntN(9), 2+n, x.r.IntN(9))
	if x.r.IntN(4) == 0 {
		collection, text = "tasks", fmt.Sprintf("BEGIN:VTODO\r\nUID:task%d\r\nSUMMARY:t\r\nEND:VTODO\r\n", n)
	}
	name := fmt.Sprintf("%d.ics", n)
	_, _, err := f.Put(bg, groupware.Calendar, collection, name,
		[]byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n"+text+"END:VCALENDAR\r\n"), groupware.Condition{})
	if err == nil { // else the calendar is gone, or the entry was moved and its UID is taken
		x.dav = append(x.dav, collection+"/"+name)
	}
}

// follow applies the changes since the last time, at most limit at once (0: all).
func (x *calendarFollower) follow(limit int) {
	x.calendarState = x.changes("Calendar", x.calendarState, x.calendars, limit)
	x.eventState = x.changes("CalendarEvent", x.eventState, x.events, limit)
	got := x.w.call("alice", []any{"CalendarEvent/queryChanges", obj{"accountId": x.account,
		"filter": obj{"text": "m"}, "sinceQueryState": x.queryState}, "0"})[0]
	if got[0] != "CalendarEvent/queryChanges" {
		x.w.t.Fatal(got)
	}
	delta := got[1].(obj)
	for _, id := range strs(delta["removed"]) {
		x.queried = slices.DeleteFunc(x.queried, func(s string) bool { return s == id })
	}
	for _, a := range delta["added"].([]any) {
		x.queried = slices.Insert(x.queried, int(a.(obj)["index"].(float64)), a.(obj)["id"].(string))
	}
	x.queryState = delta["newQueryState"].(string)
}

func (x *calendarFollower) changes(kind, state string, known map[string]obj, limit int) string {
	for {
		args := obj{"sinceState": state}
		if limit > 0 {
			args["maxChanges"] = limit
		}
		got := x.one(kind+"/changes", args)
		for _, id := range strs(got["destroyed"]) {
			delete(known, id)
		}
		ids := append(strs(got["created"]), strs(got["updated"])...)
		objects := x.one(kind+"/get", obj{"ids": ids})
		for _, o := range objects["list"].([]any) {
			known[o.(obj)["id"].(string)] = o.(obj)
		}
		if state = got["newState"].(string); got["hasMoreChanges"] == false {
			return state
		}
	}
}

// compare compares what the client knows with what the server has.
func (x *calendarFollower) compare() {
	x.w.t.Helper()
	for _, c := range []struct {
		kind  string
		known map[string]obj
	}{{"Calendar", x.calendars}, {"CalendarEvent", x.events}} {
		all := map[string]obj{}
		for _, o := range x.one(c.kind+"/get", obj{"ids": nil})["list"].([]any) {
			all[o.(obj)["id"].(string)] = o.(obj)
		}
		for id, o := range c.known {
			if !reflect.DeepEqual(all[id], o) {
				x.w.t.Fatalf("%s %s: the client has\n%v\nthe server\n%v", c.kind, id, o, all[id])
			}
		}
		if len(all) != len(c.known) {
			x.w.t.Fatalf("%s: the client has %d, the server %d", c.kind, len(c.known), len(all))
		}
	}
	want := strs(x.one("CalendarEvent/query", obj{"filter": obj{"text": "m"}})["ids"])
	if !slices.Equal(x.queried, want) {
		x.w.t.Fatalf("the query has %v, the client %v", want, x.queried)
	}
}

// expand compares expanded queries with the expansion of the stored objects, and the ids with what /get shows.
func (x *calendarFollower) expand() {
	x.w.t.Helper()
	c := x.w.who["alice"]
	f := x.w.groupware.File(c.Who, c.Database)
	for month := time.January; month <= time.June; month++ {
		from := time.Date(2026, month, 1, 0, 0, 0, 0, time.UTC)
		to := from.AddDate(0, 1, 0)
		var want []string
		x.w.ok(f.All(bg, groupware.Calendar, true, func(e *groupware.Entry) bool {
			o, err := calendar.ReadObject(e.Text)
			x.w.ok(err)
			if o.Kind != calendar.Event {
				return true
			}
			x.w.ok(o.Series.Between(from, to, nil, func(at calendar.Occurrence) bool {
				id := idOf(letterEvent, e.UNID)
				if o.Series.Recurs() {
					id += "-" + at.ID.Format("20060102T150405")
				}
				want = append(want, id+" "+at.Start.Format(time.RFC3339))
				return true
			}))
			return true
		}))
		ids := strs(x.one("CalendarEvent/query", obj{"expandRecurrences": true, "filter": obj{
			"after": from.Format("2006-01-02T15:04:05"), "before": to.Format("2006-01-02T15:04:05")}})["ids"])
		var got []string
		shown := x.one("CalendarEvent/get", obj{"ids": ids, "properties": []string{"utcStart"}})
		for _, o := range shown["list"].([]any) {
			got = append(got, o.(obj)["id"].(string)+" "+fmt.Sprint(o.(obj)["utcStart"]))
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			x.w.t.Fatalf("%s: %v, want %v", month, got, want)
		}
	}
}

// TestEventsBesideTasks: in a calendar of a CalDAV program that holds events and tasks, TaskList/set neither destroys
// nor shares the events, and Calendar/set does not destroy the tasks.
func TestEventsBesideTasks(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	account := w.account("alice")
	one := func(method string, args obj) obj {
		args["accountId"] = account
		return w.call("alice", []any{method, args, "0"})[0][1].(obj)
	}
	f := w.groupware.File(w.who["alice"].Who, w.who["alice"].Database)
	w.ok(f.Change(bg, func(c *groupware.Changing) error {
		return c.Create(groupware.Calendar, "both", groupware.Properties{Title: "Both"})
	}))
	find := func(method string) string {
		for _, x := range one(method, obj{})["list"].([]any) {
			if x.(obj)["name"] == "Both" {
				return x.(obj)["id"].(string)
			}
		}
		return ""
	}
	cal, list := find("Calendar/get"), find("TaskList/get")
	created := func(method string, object obj) string {
		made, _ := one(method, obj{"create": obj{"x": object}})["created"].(obj)
		return made["x"].(obj)["id"].(string)
	}
	created("CalendarEvent/set", obj{"calendarIds": obj{cal: true}, "title": "Wedding", "start": "2027-03-10T10:00:00"})
	task := created("Task/set", obj{"@type": "Task", "taskListId": list, "title": "Buy rings"})
	bob := principalID(w.who["bob"].Who.Person)
	out := one("TaskList/set", obj{"update": obj{list: obj{"shareWith": obj{bob: obj{"mayReadItems": true}}}}})
	if no, _ := out["notUpdated"].(obj); no == nil || no[list].(obj)["type"] != "forbidden" {
		t.Errorf("the events are shared: %v", out)
	}
	refused := func(method, id, with string) {
		t.Helper()
		out := one(method, obj{"destroy": []any{id}, with: true})
		if no, _ := out["notDestroyed"].(obj); no == nil || no[id].(obj)["type"] != "forbidden" {
			t.Errorf("%s destroys entries of the other type: %v", method, out)
		}
	}
	refused("TaskList/set", list, "onDestroyRemoveTasks")
	refused("Calendar/set", cal, "onDestroyRemoveEvents")
	one("Task/set", obj{"destroy": []any{task}})
	refused("TaskList/set", list, "onDestroyRemoveTasks")
	out = one("Calendar/set", obj{"destroy": []any{cal}, "onDestroyRemoveEvents": true})
	if out["destroyed"] == nil || find("TaskList/get") != "" {
		t.Errorf("a calendar of events alone stays: %v", out)
	}
}
