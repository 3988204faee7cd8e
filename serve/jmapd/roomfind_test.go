package jmapd

import (
	"fmt"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/jmap"
)

// TestRooms checks that rooms are found, that their busy times are seen, and that an event books one.
func TestRooms(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	ids := map[string]string{}
	for _, r := range []struct {
		name string
		directory.ResourceFields
	}{
		{"Blue Room", directory.ResourceFields{Kind: directory.ResourceRoom, Capacity: 8, Site: "Main house",
			Equipment: []string{"Projector", "Camera"}}},
		{"Red Room", directory.ResourceFields{Kind: directory.ResourceRoom, Capacity: 20, Site: "Annex"}},
		{"Van", directory.ResourceFields{Kind: directory.ResourceOther, Capacity: 5}},
		{"Inbox of sales", directory.ResourceFields{}},
	} {
		db, err := w.files.Make(bg, note.UNID{}, r.name, 0, 0)
		w.ok(err)
		address := strings.ToLower(strings.ReplaceAll(r.name, " ", "."))
		m, err := w.people.MailIns.Add(bg, note.System, directory.MailInFields{Name: r.name,
			InternetAddress: address + "@example.com", Database: db, Resource: r.ResourceFields})
		w.ok(err)
		ids[r.name] = principalID(m.ID)
	}
	account := w.account("alice")
	for _, c := range []struct {
		args obj
		want string
	}{
		{obj{}, "Blue Room,Red Room,Van"}, {obj{"text": "room"}, "Blue Room,Red Room"},
		{obj{"text": "main PROJ"}, "Blue Room"}, {obj{"capacity": 9}, "Red Room"}, {obj{"site": "annex"}, "Red Room"},
		{obj{"equipment": []string{"camera", "projector"}}, "Blue Room"}, {obj{"equipment": []string{"sauna"}}, ""},
		{obj{"capacity": -1}, "invalidArguments"}, {obj{"capacity": "x"}, "invalidArguments"},
		{obj{"colour": "x"}, "invalidArguments"},
	} {
		c.args["accountId"] = account
		r := w.call("alice", []any{"Room/find", c.args, "0"})[0]
		if r[0] == jmap.MethodError {
			if got := r[1].(obj)["type"]; got != c.want {
				t.Error(c.args, got)
			}
			continue
		}
		var names []string
		for _, x := range r[1].(obj)["list"].([]any) {
			names = append(names, x.(obj)["name"].(string))
		}
		if got := strings.Join(names, ","); got != c.want {
			t.Errorf("%v: %s", c.args, got)
		}
	}
	calendars := w.call("alice", []any{"Calendar/get", obj{"accountId": account}, "0"})[0][1].(obj)["list"].([]any)
	cal := calendars[0].(obj)["id"].(string)
	book := func(start string) string {
		made := w.call("alice", []any{"CalendarEvent/set", obj{"accountId": account, "sendSchedulingMessages": true,
			"create": obj{"e": obj{"calendarIds": obj{cal: true}, "title": "Talk", "start": start,
				"timeZone": "Etc/UTC",
				"duration": "PT1H", "participants": obj{"r": obj{"@type": "Participant", "kind": "location",
					"roles": obj{"attendee": true}, "email": "blue.room@example.com",
					"sendTo": obj{"imip": "mailto:blue.room@example.com"}}}}}}, "0"})[0][1].(obj)
		id := made["created"].(obj)["e"].(obj)["id"]
		got := w.call("alice", []any{"CalendarEvent/get", obj{"accountId": account, "ids": []any{id},
			"properties": []string{"participants"}}, "0"})[0][1].(obj)["list"].([]any)[0].(obj)["participants"].(obj)
		for _, p := range got {
			if p := p.(obj); p["email"] == "blue.room@example.com" {
				return fmt.Sprint(p["kind"], " ", p["participationStatus"])
			}
		}
		return ""
	}
	if got := book("2026-03-10T10:00:00"); got != "location accepted" {
		t.Error(got)
	}
	if got := book("2026-03-10T10:30:00"); got != "location declined" {
		t.Error(got)
	}
	busy := func(id string) any {
		return w.call("alice", []any{"Principal/getAvailability", obj{"accountId": account, "id": id,
			"utcStart": "2026-03-10T00:00:00Z", "utcEnd": "2026-03-11T00:00:00Z"}, "0"})[0]
	}
	if got := fmt.Sprint(busy(ids["Blue Room"])); !strings.Contains(got, "2026-03-10T10:00:00Z") ||
		strings.Contains(got, "10:30") {
		t.Error(got)
	}
	if got := fmt.Sprint(busy(ids["Inbox of sales"])); !strings.Contains(got, "notFound") {
		t.Error(got)
	}
	if private := open(t, settings{private: true}); private.server.has(jmap.Rooms) {
		t.Error("rooms of a private directory are found")
	}
}
