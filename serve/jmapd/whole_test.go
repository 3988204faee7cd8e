package jmapd

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// whole is a type whose objects a client sends back as it read them.
type whole struct {
	name    string
	get     obj            // arguments of /get besides the account
	id      string         // of the object; "" means the first of the list
	mutable map[string]any // properties that the client may change, with new values
	extra   obj            // properties that the client knows but /get does not return
	also    []string       // further properties that cannot change
}

const wholeMail = "From: a@far.example\nTo: alice@example.com\nSubject: whole\nX-Own: one\nX-Own: two\n" +
	"MIME-Version: 1.0\n" +
	"Message-ID: <w@x>\nDate: Mon, 5 Jan 2026 09:00:00 +0000\nContent-Type: multipart/mixed; boundary=b\n\n--b\n" +
	"Content-Type: text/plain\nX-Part: yes\n\ntext of some length\n--b\nContent-Type: image/png; name=a.png\n" +
	"Content-Disposition: attachment\n\nnot a picture\n--b--\n"

// TestWholeObjects sends back the objects of every type as /get returned them (RFC 8620 section 5.3). Nothing may be
// rejected or changed. Then each mutable property is changed, and each fixed one must be rejected by name if it
// differs.
func TestWholeObjects(t *testing.T) {
	t.Parallel()
	for _, x := range []whole{
		{name: "Mailbox", mutable: map[string]any{"name": "Other", "sortOrder": 77.0, "isSubscribed": true}},
		{
			name: "Email", also: []string{"headers", "header:X-Own:asText:all", "bodyStructure"},
			get: obj{
				"properties": []string{
					"id", "blobId", "threadId", "mailboxIds", "keywords", "size", "receivedAt", "messageId",
					"inReplyTo", "references",
					"sender", "from", "to", "cc", "bcc", "replyTo", "subject", "sentAt", "hasAttachment", "preview",
					"bodyValues",
					"textBody", "htmlBody", "attachments", "bodyStructure", "headers", "header:X-Own:asText:all",
				},
				"bodyProperties":     []string{"partId", "blobId", "size", "type", "name", "header:X-Part:asText"},
				"fetchAllBodyValues": true,
				"maxBodyValueBytes":  5,
			},
			mutable: map[string]any{"keywords": obj{"$seen": true, "new": true}},
		},
		{name: "Identity", mutable: map[string]any{"name": "Another", "textSignature": "--",
			"bcc": []any{obj{"email": "x@y.example", "name": nil}}}},
		{name: "VacationResponse", mutable: map[string]any{"isEnabled": true, "subject": "Away",
			"textBody": "Until Monday."}},
		{name: "SieveScript", mutable: map[string]any{"name": "Another"}},
		{name: "EmailSubmission", mutable: map[string]any{"undoStatus": "canceled"}},
		{name: "PushSubscription", mutable: map[string]any{"types": []any{"Email"}}, also: []string{"url", "keys"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			w := open(t, settings{})
			x.prepare(w)
			if x.name != "EmailSubmission" { // its only change, canceling, works only once
				x.unchanged(w)
			}
			x.fixed(w)
			x.changed(w)
		})
	}
}

// prepare creates an object of the type.
func (x *whole) prepare(w *world) {
	w.t.Helper()
	account := w.account("alice")
	switch x.name {
	case "Mailbox":
		r := w.one("alice", "Mailbox/set", obj{"accountId": account, "create": obj{"a": obj{"name": "Mine"}}})
		x.id = r["created"].(obj)["a"].(obj)["id"].(string)
	case "Email":
		x.id = w.append("alice", "INBOX", wholeMail, `\Flagged`)
	case "SieveScript":
		r := w.one("alice", "Blob/upload", obj{"accountId": account, "create": obj{"b": obj{
			"data": []any{obj{"data:asText": "keep;"}}}}})
		r = w.one("alice", "SieveScript/set", obj{"accountId": account, "create": obj{"a": obj{
			"name": "main", "blobId": r["created"].(obj)["b"].(obj)["id"]}}})
		x.id = r["created"].(obj)["a"].(obj)["id"].(string)
	case "PushSubscription":
		_, url, _ := w.pushes()
		x.extra = obj{"url": url}
		r := w.one("alice", "PushSubscription/set", obj{"create": obj{"a": obj{"deviceClientId": "d", "url": url}}})
		x.id = r["created"].(obj)["a"].(obj)["id"].(string)
	case "EmailSubmission":
		mail := w.append("alice", "Drafts", "From: alice@example.com\nTo: bob@example.com\n\nx\n")
		who := w.one("alice", "Identity/get", obj{"accountId": account})["list"].([]any)[0].(obj)["id"]
		at := obj{"email": "alice@example.com", "parameters": obj{"HOLDFOR": "60"}}
		r := w.one("alice", "EmailSubmission/set", obj{"accountId": account, "create": obj{"a": obj{
			"identityId": who, "emailId": mail, "envelope": obj{"mailFrom": at,
				"rcptTo": []any{obj{"email": "bob@example.com"}}},
		}}})
		x.id = r["created"].(obj)["a"].(obj)["id"].(string)
	}
}

func (x *whole) args(w *world, more obj) obj {
	out := obj{}
	if x.name != "PushSubscription" {
		out["accountId"] = w.account("alice")
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// object returns the object as /get shows it.
func (x *whole) object(w *world) obj {
	w.t.Helper()
	args := x.args(w, x.get)
	if x.id != "" {
		args["ids"] = []string{x.id}
	}
	return w.one("alice", x.name+"/get", args)["list"].([]any)[0].(obj)
}

// set updates the object. It returns the SetError, or nil if the object was updated.
func (x *whole) set(w *world, patch obj) obj {
	w.t.Helper()
	id, _ := x.object(w)["id"].(string)
	r := w.one("alice", x.name+"/set", x.args(w, obj{"update": obj{id: patch}}))
	if bad, ok := r["notUpdated"].(obj); ok {
		return bad[id].(obj)
	}
	return nil
}

func (x *whole) with(o obj, more obj) obj {
	out := obj{}
	for _, from := range []obj{o, x.extra, more} {
		for k, v := range from {
			out[k] = v
		}
	}
	return out
}

func (x *whole) unchanged(w *world) {
	before := x.object(w)
	if bad := x.set(w, x.with(before, nil)); bad != nil {
		w.t.Errorf("an object that is sent back as it is: %v", bad)
	}
	if after := x.object(w); !reflect.DeepEqual(before, after) {
		w.t.Errorf("it has changed: %v, was %v", after, before)
	}
}

func (x *whole) changed(w *world) {
	before := x.object(w)
	if bad := x.set(w, x.with(before, x.mutable)); bad != nil {
		w.t.Errorf("an object with changes: %v", bad)
	}
	if after := x.object(w); !reflect.DeepEqual(after, x.with(before, x.mutable)) && x.extra == nil {
		w.t.Errorf("it is %v, want %v", after, x.with(before, x.mutable))
	}
}

// other returns a value that differs from v.
func other(v any) any {
	switch v := v.(type) {
	case string:
		return v + "x"
	case float64:
		return v + 1
	case bool:
		return !v
	case []any:
		return append(append([]any{}, v...), "x")
	case obj:
		out := obj{"x": true}
		for k, member := range v {
			out[k] = member
		}
		return out
	}
	return "x"
}

func (x *whole) fixed(w *world) {
	before := x.object(w)
	names := append(keys(before), x.also...)
	for _, name := range names {
		if _, may := x.mutable[name]; may || x.may(name) {
			continue
		}
		bad := x.set(w, x.with(before, obj{name: other(before[name])}))
		if bad == nil || bad["type"] != "invalidProperties" ||
			fmt.Sprint(bad["properties"]) != fmt.Sprint([]any{name}) {
			w.t.Errorf("%s %v: %v", name, other(before[name]), bad)
		}
		if after := x.object(w); !reflect.DeepEqual(before, after) {
			w.t.Fatalf("%s: it has changed: %v, was %v", name, after, before)
		}
		// A path into the property is a patch of it.
		bad = x.set(w, obj{strings.ReplaceAll(name, "/", "~1") + "/a/b": 1})
		if bad == nil || bad["type"] != "invalidPatch" {
			w.t.Errorf("%s/a/b: %v", name, bad)
		}
	}
	if bad := x.set(w, obj{"nothing": nil}); bad == nil || bad["type"] != "invalidProperties" {
		w.t.Errorf("a property that there is not: %v", bad)
	}
	for _, patch := range []obj{
		{"nothing/a": 1}, {"id": before["id"], "id/a": 1}, {"id/~2": 1},
		{"keywords/a/b": true, "name/a": 1, "subject/a": 1, "types/0": "x", "undoStatus/a": 1},
	} {
		if bad := x.set(w, patch); bad == nil || bad["type"] != "invalidPatch" {
			w.t.Errorf("%v: %v", patch, bad)
		}
	}
}

// may reports whether a property is mutable, even if the test does not change it.
func (x *whole) may(name string) bool {
	m := map[string]string{
		"Mailbox": " parentId role ", "Email": " mailboxIds ", "Identity": " replyTo htmlSignature ",
		"VacationResponse": " fromDate toDate htmlBody ", "PushSubscription": " expires verificationCode ",
		"SieveScript": " blobId ",
	}
	return strings.Contains(m[x.name], " "+name+" ")
}
