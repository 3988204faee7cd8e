package jmapd

import (
	"math/rand/v2"
	"testing"
	"time"

	"doublet/mail/submission"
	"doublet/mailbox"
)

// TestCancelAgain checks that a submission can be canceled if an earlier cancel was interrupted between the outbox,
// which had given the message back, and the mail file.
func TestCancelAgain(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	a := &actor{&operator{w: w, rng: rand.New(rand.NewPCG(1, 1))}}
	var pending []*submission.Record
	for f := w.file("alice"); len(pending) == 0; {
		a.submit()
		w.ok(f.Read(bg, func(d *mailbox.Reading) error {
			list, err := submission.Read(d, f, w.fix.Clock.Now())
			if err == nil {
				pending, err = list.Pending(d)
			}
			return err
		}))
	}
	if back, err := w.mail.Scheduled.Recall(bg, pending[0].Queue); !back || err != nil {
		t.Fatal(back, err)
	}
	id := idOf(letterSubmission, pending[0].ID)
	cancel := a.args(obj{"update": obj{id: obj{"undoStatus": "canceled"}}})
	if r := w.one("alice", "EmailSubmission/set", cancel); r["notUpdated"] != nil {
		t.Fatal(r)
	}
	w.fix.Time.Advance(time.Hour)
	w.mail.Scheduled.ReleaseDue(bg)
	got := w.one("alice", "EmailSubmission/get", a.args(obj{"ids": []string{id}}))["list"].([]any)[0].(obj)
	if got["undoStatus"] != "canceled" {
		t.Error(got)
	}
}
