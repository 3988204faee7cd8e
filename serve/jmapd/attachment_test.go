package jmapd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"doublet/groupware"
	"doublet/scheduling"
)

// TestManagedAttachment checks that a managed attachment is a link of the event, that changes of the event and of the
// link keep it, in a copy of another account too, and that the removal of the link removes it.
//
// Implements: RFC 8984 §4.2.7 links
func TestManagedAttachment(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	account := w.account("alice")
	one := func(who, method string, args obj) obj {
		t.Helper()
		return w.call(who, []any{method, args, "0"})[0][1].(obj)
	}
	calendarOf := func(who string) string {
		list := one(who, "Calendar/get", obj{"accountId": w.account(who)})["list"].([]any)
		return list[0].(obj)["id"].(string)
	}
	id := one("alice", "CalendarEvent/set", obj{"accountId": account, "create": obj{"e": obj{"calendarIds": obj{
		calendarOf("alice"): true}, "uid": "e", "title": "Talk", "start": "2026-03-10T10:00:00",
		"timeZone": "Etc/UTC"}}})["created"].(obj)["e"].(obj)["id"].(string)

	a, err := w.groupware.NewAttachment(bg, "plan.txt", "text/plain; charset=utf-8", []byte("agenda"))
	w.ok(err)
	f := w.groupware.File(w.who["alice"].Who, w.who["alice"].Database)
	entryOf := func() (e groupware.Entry) {
		w.ok(f.All(bg, groupware.Calendar, true, func(x *groupware.Entry) bool {
			e = *x
			return x.UID != "e"
		}))
		return e
	}
	e := entryOf()
	_, err = w.server.backend.Scheduling().Attach(bg, &scheduling.Target{File: f, Owner: w.who["alice"].Who.Person,
		Place: groupware.Place{Collection: groupware.DefaultCalendar, Name: e.Name}},
		&scheduling.AttachmentChange{New: a})
	a.Release()
	w.ok(err)
	link := func(who, event string) (string, obj) {
		t.Helper()
		list := one(who, "CalendarEvent/get", obj{"accountId": w.account(who), "ids": []any{event},
			"properties": []string{"links"}})["list"].([]any)
		links, _ := list[0].(obj)["links"].(obj)
		for key, v := range links {
			return key, v.(obj)
		}
		return "", nil
	}
	read := func() string {
		_, body, err := w.groupware.Attachment(bg, w.who["alice"].Who, w.who["alice"].Database, a.ID)
		if errors.Is(err, groupware.ErrNoEntry) {
			return ""
		}
		w.ok(err)
		b, err := body.AppendRange(nil, 0, body.Size())
		w.ok(err)
		return string(b)
	}
	update := func(patch obj) {
		t.Helper()
		out := one("alice", "CalendarEvent/set", obj{"accountId": account, "update": obj{id: patch}})
		if out["notUpdated"] != nil {
			t.Fatal(out["notUpdated"])
		}
	}
	key, l := link("alice", id)
	if href, _ := l["href"].(string); !strings.HasPrefix(href, "https://mx.example.com/dav/attachments/") ||
		l["title"] != "plan.txt" || l["contentType"] != "text/plain" || l["rel"] != "enclosure" {
		t.Errorf("the link is %v", l)
	}
	update(obj{"title": "Other"})
	update(obj{"links/" + key + "/title": "agenda.txt"})
	if got := read(); got != "agenda" || len(entryOf().Attachments) != 1 {
		t.Errorf("after changes of the event the attachment has %q", got)
	}
	shared := one("alice", "Calendar/set", obj{"accountId": account, "update": obj{calendarOf("alice"): obj{
		"shareWith": obj{principalID(w.who["bob"].Who.Person): obj{"mayReadItems": true}}}}})
	if shared["notUpdated"] != nil {
		t.Fatal(shared)
	}
	copied := one("bob", "CalendarEvent/copy", obj{"fromAccountId": account, "accountId": w.account("bob"),
		"create": obj{"c": obj{"id": id, "calendarIds": obj{calendarOf("bob"): true}}}})
	if made, _ := copied["created"].(obj); made == nil {
		t.Fatal(copied)
	} else if _, got := link("bob", made["c"].(obj)["id"].(string)); got["href"] == l["href"] || got["blobId"] == nil ||
		got["title"] != "agenda.txt" {
		t.Errorf("the copy has the link %v", got)
	}
	update(obj{"links/" + key: nil})
	if got := read(); got != "" || len(entryOf().Attachments) != 0 {
		t.Errorf("without the link the attachment has %q", got)
	}
}

// TestManyAttachments checks the bounds of an event and of a request.
func TestManyAttachments(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	account := w.account("alice")
	one := func(method string, args obj) obj {
		return w.call("alice", []any{method, args, "0"})[0][1].(obj)
	}
	place := one("Calendar/get", obj{"accountId": account})["list"].([]any)[0].(obj)["id"].(string)
	blob := one("Blob/upload", obj{"accountId": account, "create": obj{"b": obj{"data": []any{obj{
		"data:asText": "x"}}}}})["created"].(obj)["b"].(obj)["id"].(string)
	event := func(from, n int) obj {
		links := obj{}
		for i := range n {
			links[fmt.Sprint("l", i)] = obj{"@type": "Link", "blobId": blob, "title": fmt.Sprint(from + i)}
		}
		return obj{"calendarIds": obj{place: true}, "start": "2026-03-10T10:00:00", "links": links}
	}
	create := func(events obj) (made, not obj) {
		out := one("CalendarEvent/set", obj{"accountId": account, "create": events})
		made, _ = out["created"].(obj)
		not, _ = out["notCreated"].(obj)
		return made, not
	}
	if made, not := create(obj{"a": event(0, 51)}); len(made) != 0 || not["a"].(obj)["type"] != "invalidProperties" {
		t.Errorf("an event with too many: %v", not)
	}
	all := obj{}
	for i := range 11 {
		all[fmt.Sprint("e", i)] = event(50*i, 50)
	}
	made, not := create(all)
	if len(made) != 10 || len(not) != 1 {
		t.Fatalf("%d events are made, %d are not", len(made), len(not))
	}
	for _, v := range not {
		if v.(obj)["type"] != "tooLarge" {
			t.Error(v)
		}
	}
}
