package scheduling

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// attach adds an attachment to an event of a person.
func (w *world) attach(name, entry, content string) *groupware.Attachment {
	w.t.Helper()
	a, err := w.group.NewAttachment(bg, "plan.txt", "text/plain", []byte(content))
	w.ok(err)
	defer a.Release()
	_, err = w.sched.Attach(bg, w.target(name, entry), &AttachmentChange{New: a})
	w.ok(err)
	return a
}

// bytesOf returns an attachment as a person reads it, "" if there is none for them.
func (w *world) bytesOf(name, id string) string {
	w.t.Helper()
	_, body, err := w.group.Attachment(bg, w.who(name), w.people[name].MailDatabase, id)
	if errors.Is(err, groupware.ErrNoEntry) {
		return ""
	}
	w.ok(err)
	b, err := body.AppendRange(nil, 0, body.Size())
	w.ok(err)
	return string(b)
}

// lastMail returns the message in the last mail of the queue, with its text.
func (w *world) lastMail() (*itip.Message, string) {
	w.t.Helper()
	list := w.queued()
	if len(list) == 0 {
		w.t.Fatal("no mail was sent")
	}
	raw := []byte(list[len(list)-1])
	m := messageIn(raw)
	if m == nil {
		w.t.Fatalf("no message in %s", raw)
	}
	p := mime.Parse(raw, mime.DefaultLimits)
	text, _ := mime.DecodeText(p.Children[1], raw, maxText)
	return m, strings.ReplaceAll(text, "\r\n ", "")
}

// TestAttachmentsByMail checks that people of other servers get small attachments in the mail, and large ones not.
func TestAttachmentsByMail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	w.put("alice", "a.ics", meeting("a", "", "alice", "bob", "far@far.example"))
	small := w.attach("alice", "a.ics", "agenda")
	_, text := w.lastMail()
	if !strings.Contains(text, base64.StdEncoding.EncodeToString([]byte("agenda"))) ||
		strings.Contains(text, "MANAGED-ID") || strings.Contains(text, groupware.AttachmentPath) {
		t.Fatalf("the attachment is not in the mail: %s", text)
	}
	before := len(w.queued())
	large := w.attach("alice", "a.ics", strings.Repeat("x", maxInlined))
	if len(w.queued()) <= before {
		t.Fatal("no mail was sent about the second attachment")
	}
	if _, text := w.lastMail(); strings.Count(text, "ATTACH") != 1 || strings.Contains(text, large.ID) {
		t.Fatalf("the mail has other attachments than the small one: %.2000s", text)
	}
	w.is(w.bytesOf("bob", small.ID), "agenda")
	w.arrive("far@far.example", "alice@example.com", itip.Reply, strings.Replace(meeting("a", "SEQUENCE:0\n",
		";PARTSTAT=ACCEPTED:far@far.example"), "DTSTAMP:2026", "DTSTAMP:2027", 1), true)
	far := func(a string) bool { return a == "far@far.example" }
	if o, _ := w.object("alice", "a"); itip.Status(o, far) != "ACCEPTED" {
		t.Error("the answer of the recipient did not apply")
	}
	if w.bytesOf("bob", large.ID) == "" || w.bytesOf("alice", large.ID) == "" {
		t.Error("an attendee here has no large attachment")
	}
	w.is(w.bytesOf("alice", small.ID), "agenda")
}

// TestForeignAttachments checks that the ids of another server in a mail have no effect.
func TestForeignAttachments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	w.put("alice", "own.ics", meeting("own", "", "alice"))
	a := w.attach("alice", "own.ics", "secret")
	text := strings.Replace(meeting("far", "ATTACH;MANAGED-ID="+a.ID+":https://far.example/x\n", "bob"),
		"ORGANIZER:mailto:alice@example.com", "ORGANIZER:mailto:far@far.example", 1)
	m, err := itip.Parse([]byte(strings.Replace(text, "VERSION:2.0", "VERSION:2.0\r\nMETHOD:REQUEST", 1)))
	w.ok(err)
	s := string(m.Text())
	if strings.Contains(s, "MANAGED-ID") || !strings.Contains(s, "ATTACH:https://far.example/x") {
		t.Errorf("the message has %s", s)
	}
	w.put("bob", "far.ics", text)
	o, _ := w.object("bob", "far")
	if len(o.Managed()) != 0 {
		t.Error("an id of another server is one of a managed attachment")
	}
	w.is(w.bytesOf("bob", a.ID), "")
}

// TestAttachTogether adds attachments at the same time: all are kept. With one and the same state required, one wins.
func TestAttachTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	w.put("alice", "a.ics", meeting("a", "", "alice", "bob"))
	try := func(n int, tag string) (won int) {
		errs := make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				a, err := w.group.NewAttachment(bg, "a", "text/plain", []byte{byte(i)})
				if errs[i] = err; err != nil {
					return
				}
				defer a.Release()
				to := w.target("alice", "a.ics")
				to.Condition.ETag = tag
				_, errs[i] = w.sched.Attach(bg, to, &AttachmentChange{New: a})
			})
		}
		all.Wait()
		for _, err := range errs {
			if err == nil {
				won++
			} else if !errors.Is(err, groupware.ErrChanged) {
				t.Error(err)
			}
		}
		return won
	}
	won := try(6, "")
	_, e := w.object("alice", "a")
	if won == 0 || len(e.Attachments) != won {
		t.Errorf("%d were added, the event has %d", won, len(e.Attachments))
	}
	if n := try(6, e.ETag); n != 1 {
		t.Errorf("%d changes of one state succeeded", n)
	}
	for _, name := range []string{"alice", "bob"} {
		o, e := w.object(name, "a")
		ids := o.Managed()
		if len(ids) != won+1 || !slices.EqualFunc(ids, e.Attachments,
			func(id string, a groupware.Attachment) bool { return id == a.ID && len(w.bytesOf(name, id)) == 1 }) {
			t.Errorf("%s has %d of %d attachments", name, len(e.Attachments), won+1)
		}
	}
}

// TestAttachmentsRestored checks that an entry keeps its attachments while it is removed, unreadable, and that all
// references end when it is purged.
func TestAttachmentsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	w.put("alice", "a.ics", meeting("a", ""))
	a := w.attach("alice", "a.ics", "agenda")
	w.ok(w.file("alice").Remove(bg, groupware.Calendar, groupware.DefaultCalendar, "a.ics", groupware.Condition{}))
	w.is(w.bytesOf("alice", a.ID), "")
	list, err := w.file("alice").Removed(bg)
	w.ok(err)
	if len(list) != 1 {
		t.Fatalf("%d removed entries", len(list))
	}
	w.ok(w.file("alice").Change(bg, func(c *groupware.Changing) error {
		return c.Restore(list[0].UNID, groupware.Calendar, groupware.DefaultCalendar)
	}))
	w.is(w.bytesOf("alice", a.ID), "agenda")
	w.ok(w.file("alice").Remove(bg, groupware.Calendar, groupware.DefaultCalendar, "a.ics", groupware.Condition{}))
	n, err := w.group.Purge(bg, w.people["alice"].MailDatabase, w.fix.Clock.Now().Add(1<<40))
	w.ok(err)
	if n != 1 {
		t.Errorf("%d entries were purged", n)
	}
	err = w.store.Read(bg, note.System, w.people["alice"].MailDatabase, func(r *store.Reader) error {
		_, err := r.Find(list[0].UNID)
		return err
	})
	if !errors.Is(err, store.ErrGrave) {
		t.Errorf("the note is there: %v", err)
	}
}

// TestAttachLimits checks the bounds, with an event that stays as it is.
func TestAttachLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	w.put("alice", "a.ics", meeting("a", ""))
	if _, err := w.group.NewAttachment(bg, "a", "text/plain", make([]byte, groupware.MaxAttachment+1)); !errors.Is(err,
		groupware.ErrTooLarge) {
		t.Errorf("a large attachment: %v", err)
	}
	for range groupware.MaxAttachments {
		w.attach("alice", "a.ics", "x")
	}
	a, err := w.group.NewAttachment(bg, "a", "text/plain", nil)
	w.ok(err)
	defer a.Release()
	before, _ := w.object("alice", "a")
	if _, err := w.sched.Attach(bg, w.target("alice", "a.ics"), &AttachmentChange{New: a}); !errors.Is(err,
		groupware.ErrAttachments) {
		t.Errorf("one attachment too many: %v", err)
	}
	after, _ := w.object("alice", "a")
	w.is(string(after.Text()), string(before.Text()))
	if _, err := w.sched.Attach(bg, w.target("alice", "a.ics"), &AttachmentChange{ID: "x"}); !errors.Is(err,
		calendar.ErrManagedID) {
		t.Errorf("an unknown id: %v", err)
	}
}

// TestAttachmentsFull checks that an attendee without room for an attachment learns of the change in any case, and gets
// the attachment with a later one.
func TestAttachmentsFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	quota := func(n uint64) {
		w.ok(w.store.SetInfo(note.System, w.people["bob"].MailDatabase, func(i *layout.Info) { i.Quota = n }))
	}
	w.put("alice", "a.ics", meeting("a", "", "alice", "bob"))
	quota(10_000)
	a := w.attach("alice", "a.ics", strings.Repeat("x", 20_000))
	o, _ := w.object("bob", "a")
	if len(o.Managed()) != 1 || w.bytesOf("bob", a.ID) != "" {
		t.Errorf("an attendee without room has %q in %s", w.bytesOf("bob", a.ID), o.Text())
	}
	_, e := w.object("alice", "a")
	w.put("alice", "a.ics", strings.Replace(string(e.Text), "SUMMARY:Meeting", "SUMMARY:Moved", 1))
	o, _ = w.object("bob", "a")
	w.is(o.Parts[0].Text("SUMMARY"), "Moved")
	quota(0)
	_, e = w.object("alice", "a")
	w.put("alice", "a.ics", strings.Replace(string(e.Text), "SUMMARY:Moved", "SUMMARY:Again", 1))
	if got := w.bytesOf("bob", a.ID); len(got) != 20_000 {
		t.Errorf("with room for it the attachment has %d bytes", len(got))
	}
}
