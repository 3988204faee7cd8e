package jmapd

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	client "doublet/client/jmap"
	"doublet/env"
	"doublet/wire/jmap"
)

// TestClient runs package client/jmap against this server. It imports, lists, reads, downloads (from an offset),
// changes and destroys a message, and receives its changes over a WebSocket.
func TestClient(t *testing.T) {
	t.Parallel()
	w := openOn(t, env.TestRealTime(t), settings{})
	w.pushes()
	door := httptest.NewServer(w.server)
	defer door.Close()
	c := w.client(door.URL, "alice")
	session, err := c.Session(bg)
	w.ok(err)
	account, err := session.MailAccount()
	w.ok(err)
	if account != w.account("alice") || session.Limits.Calls != 64 || session.Limits.ObjectsInGet != 1000 ||
		!session.Accounts[account].Personal {
		t.Errorf("%s %+v", account, session)
	}
	socket, err := c.Socket(bg)
	w.ok(err)
	defer socket.Close()
	w.ok(socket.Push([]string{"Email"}, ""))
	r := client.NewRequest(jmap.Mail)
	h := r.Query("Mailbox", account, &client.Query{Filter: func(w *jmap.Writer) { w.Text("role", "inbox") }})
	out, err := socket.Do(bg, r)
	w.ok(err)
	v, err := out.Get(h)
	w.ok(err)
	inbox, _ := v.Get("ids").At(0).Text()
	raw := strings.ReplaceAll(simple("by our client"), "\n", "\r\n")
	id, err := c.Import(bg, account, strings.NewReader(raw), int64(len(raw)), func(w *jmap.Writer) {
		w.Object("mailboxIds", func(m *jmap.Writer) { m.Key(inbox); m.B = append(m.B, "true"...) })
	})
	w.ok(err)
	changed, err := socket.Next(bg)
	w.ok(err)
	if changed[account]["Email"] == "" || socket.PushState == "" {
		t.Errorf("%v", changed)
	}
	r = client.NewRequest(jmap.Mail)
	q := r.Query("Email", account, &client.Query{Filter: func(w *jmap.Writer) { w.Text("inMailbox", inbox) },
		Sort: "receivedAt", Limit: 5, Total: true})
	g := r.GetReferred("Email", account, q.At("/ids"), "id", "subject", "blobId")
	s := r.Set("Email", account,
		&client.Set{Update: map[string]func(*jmap.Writer){id: func(w *jmap.Writer) { w.Bool("keywords/$seen", true) },
			"nobody": func(w *jmap.Writer) { w.Bool("keywords/$seen", true) }}})
	out, err = c.Do(bg, r)
	w.ok(err)
	v, err = out.Get(g)
	w.ok(err)
	first := v.Get("list").At(0)
	if subject, _ := first.Get("subject").Text(); subject != "by our client" {
		t.Errorf("%s", v.Append(nil))
	}
	o, err := out.OutcomeOf(s)
	w.ok(err)
	var refused *jmap.Error
	if err := o.Updated("nobody"); o.Updated(id) != nil || !errors.As(err, &refused) || refused.Type != "notFound" {
		t.Error(err)
	}
	blob, _ := first.Get("blobId").Text()
	var got bytes.Buffer
	if _, err := c.Download(bg, account, blob, "a.eml", "message/rfc822", 10, &got); err != nil ||
		got.String() != raw[10:] {
		t.Error(err, got.String())
	}
	r = client.NewRequest(jmap.Mail)
	d := r.Set("Email", account, &client.Set{Destroy: []string{id}})
	out, err = c.Do(bg, r)
	w.ok(err)
	if o, err = out.OutcomeOf(d); err != nil || o.Destroyed(id) != nil {
		t.Error(err)
	}
	var problem *jmap.Problem
	if _, err := w.client(door.URL, "nobody").Session(bg); !errors.As(err, &problem) || problem.Status != 401 {
		t.Error(err)
	}
	if _, err := c.One(bg, jmap.Mail, "Email/nothing", nil); !errors.As(err, &refused) ||
		refused.Type != "unknownMethod" {
		t.Error(err)
	}
}
