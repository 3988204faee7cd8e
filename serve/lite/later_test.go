package lite

import (
	"strings"
	"testing"
	"time"

	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// records returns the records of a mail file's messages that wait for their time.
func (w *world) records(name string) (list []*submission.Record) {
	w.t.Helper()
	f := w.file(name)
	w.ok(f.Read(bg, func(d *mailbox.Reading) error {
		all, err := submission.Read(d, f, w.fix.Clock.Now())
		if err == nil {
			list, err = all.Pending(d)
		}
		return err
	}))
	return list
}

// TestSendLater checks that a message waits for its time, shows it, is sent then, and can be taken back until then.
func TestSendLater(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.zoned("Asia/Tokyo")
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	w.ok(err)
	now := w.fix.Clock.Now().In(tokyo)
	at := time.Date(now.Year(), now.Month(), now.Day()+2, 7, 15, 0, 0, tokyo)
	b.get(pathCompose)
	for _, bad := range []string{"tomorrow", now.Format(localLayout), at.AddDate(0, 2, 0).Format(localLayout)} {
		b.send("later", map[string]string{}, "to", "bob@example.com", "subject", "Not yet", "text", "Words",
			"later", bad, "do", "send")
		b.want(422, "Choose a time between now and ", `value="`+bad+`"`, "Words")
	}
	if len(w.records("alice")) != 0 {
		t.Fatal("it was scheduled")
	}
	// The time stays with the draft that is kept.
	b.send("later", map[string]string{}, "later", at.Format(localLayout), "do", "save")
	b.want(200, "Draft saved", `value="`+at.Format(localLayout)+`"`)
	b.send("later", map[string]string{}, "to", "bob@example.com, nobody@example.com", "do", "send")
	b.want(200, "nobody@example.com")
	list := w.records("alice")
	if len(list) != 1 || list[0].SendAt != at.Unix() || list[0].Envelope != `{"mailFrom":{"email":"alice@example.com",`+
		`"parameters":{"HOLDUNTIL":"`+at.UTC().Format(time.RFC3339)+`"}},"rcptTo":[{"email":"bob@example.com",`+
		`"parameters":null},{"email":"nobody@example.com","parameters":null}]}` || list[0].Refusals[0] != "" ||
		!strings.HasPrefix(list[0].Refusals[1], "550 ") {
		t.Fatalf("%+v", list)
	}

	b.get(Path)
	b.follow("Sent")
	b.want(200, "<bdi>Not yet", "07:15 JST")
	b.follow("Not yet")
	b.want(200, "This message will be sent on ", "07:15 JST")
	b.send("unsend", nil, "do", "unsend")
	b.want(200, "The message is a draft again.", "Words", "bob@example.com")
	if raw, words := w.last("alice", "Drafts"); raw == nil || strings.Join(words, " ") != mailbox.Draft {
		t.Errorf("%q", words)
	}
	if len(w.records("alice")) != 0 {
		t.Error("it still waits")
	}
	w.fix.Time.Advance(3 * 24 * time.Hour)
	w.mail.Scheduled.ReleaseDue(bg)
	if raw, _ := w.last("bob", "INBOX"); raw != nil {
		t.Fatal("what was taken back was sent")
	}

	at = at.AddDate(0, 0, 4)
	b = w.signed("alice")
	b.zoned("Asia/Tokyo")
	b.get(pathCompose)
	b.send("later", map[string]string{}, "to", "bob@example.com", "subject", "In time", "later", at.Format(localLayout),
		"do", "send")
	b.want(200, "Scheduled for ", "07:15 JST")
	b.follow("Sent")
	b.follow("In time")
	w.fix.Time.Advance(at.Sub(w.fix.Clock.Now()) + time.Minute)
	w.mail.Scheduled.ReleaseDue(bg)
	raw, _ := w.last("bob", "INBOX")
	if date, _ := mime.Get(raw, "Date"); date != at.UTC().Format("Mon, 2 Jan 2006 15:04:05 -0700") {
		t.Errorf("%q\n%s", date, raw)
	}
	page := b.page
	b = w.signed("alice")
	b.page = page
	csrf := func() string { b.get(Path); _, v := b.form("sign-out"); return v.Get("csrf") }()
	b.page = page
	b.send("unsend", nil, "do", "unsend", "csrf", csrf)
	b.want(200, "The message has been sent already.")
}

// TestLaterUnfiled checks that a scheduled message which cannot be moved to Sent is shown as scheduled in Drafts, and
// can be taken back there.
func TestLaterUnfiled(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.ok(w.file("alice").SetAccess(bg, "Sent", w.people["alice"].ID,
		func(r note.Rights) note.Rights { return r &^ note.Insert }, false))
	b := w.signed("alice")
	b.get(pathCompose)
	b.send("later", map[string]string{}, "to", "bob@example.com", "subject", "Stuck", "text", "Words", "later",
		w.fix.Clock.Now().AddDate(0, 0, 2).Format(localLayout), "do", "send")
	b.want(200, "Scheduled for ")
	if len(w.records("alice")) != 1 {
		t.Fatal("the message was scheduled without a record")
	}
	b.follow("Drafts")
	b.follow("Stuck")
	b.want(200, "This message will be sent on ")
	b.send("unsend", nil, "do", "unsend")
	b.want(200, "The message is a draft again.", "Words")
	if len(w.records("alice")) != 0 {
		t.Error("it still waits")
	}
	w.fix.Time.Advance(3 * 24 * time.Hour)
	w.mail.Scheduled.ReleaseDue(bg)
	if raw, _ := w.last("bob", "INBOX"); raw != nil {
		t.Error("what was taken back was sent")
	}
}

// TestUnsendAgain checks that a message becomes a draft if taking it back was interrupted between the outbox, which had
// given it back, and the mail file.
func TestUnsendAgain(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice")
	b.get(pathCompose)
	b.send("later", map[string]string{}, "to", "bob@example.com", "subject", "Halfway", "text", "Words", "later",
		w.fix.Clock.Now().AddDate(0, 0, 2).Format(localLayout), "do", "send")
	b.want(200, "Scheduled for ")
	if ok, err := w.mail.Scheduled.Recall(bg, w.records("alice")[0].Queue); !ok || err != nil {
		t.Fatal(ok, err)
	}
	b.follow("Sent")
	b.follow("Halfway")
	b.send("unsend", nil, "do", "unsend")
	b.want(200, "The message is a draft again.", "Words")
	if len(w.records("alice")) != 0 {
		t.Error("it still waits")
	}
	w.fix.Time.Advance(3 * 24 * time.Hour)
	w.mail.Scheduled.ReleaseDue(bg)
	if raw, _ := w.last("bob", "INBOX"); raw != nil {
		t.Error("what was taken back was sent")
	}
}
