package jmapd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/store"
	"doublet/store/layout"
)

// leaving is a Backend whose client goes away as soon as the message is in the queue.
type leaving struct {
	Backend
	leave func()
}

func (b leaving) Submit(ctx context.Context, a *signin.Account, s *Submission) (note.UNID, error) {
	id, err := b.Backend.Submit(ctx, a, s)
	b.leave()
	return id, err
}

// TestClientLeavesAfterSubmit checks that a message is filed in Sent, with its submission, though its client goes away
// once the queue has it. A draft that stays would be sent again.
func TestClientLeavesAfterSubmit(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	a := &actor{&operator{w: w, rng: rand.New(rand.NewPCG(1, 1))}}
	ctx, leave := context.WithCancel(bg)
	w.server.backend = leaving{w.server.backend, leave}
	drafts, sent := a.folderID("Drafts"), a.folderID("Sent")
	alice := obj{"email": "alice@example.com"}
	body, err := json.Marshal(obj{"using": capabilities, "methodCalls": []any{
		[]any{"Email/set", a.args(obj{"create": obj{"m": obj{"mailboxIds": obj{drafts: true}, "from": []any{alice},
			"to": []any{alice}, "subject": "once"}}}), "0"},
		[]any{"EmailSubmission/set", a.args(obj{
			"create": obj{"s": obj{"identityId": a.pick("Identity", nil), "emailId": "#m",
				"envelope": obj{"mailFrom": alice, "rcptTo": []any{alice}}}},
			"onSuccessUpdateEmail": obj{"#s": obj{"mailboxIds/" + drafts: nil, "mailboxIds/" + sent: true}},
		}), "1"}}})
	w.ok(err)
	answer, problem := w.server.Call(ctx, w.who["alice"], body)
	if problem != nil || ctx.Err() == nil {
		t.Fatal(problem, ctx.Err())
	}
	answer.Release()
	for folder, want := range map[string]int{drafts: 0, sent: 1} {
		in := w.one("alice", "Email/query", a.args(obj{"filter": obj{"inMailbox": folder}}))
		if ids := strs(in["ids"]); len(ids) != want {
			t.Errorf("%d messages in %s, want %d", len(ids), folder, want)
		}
	}
	if a.pick("EmailSubmission", nil) == "" {
		t.Error("no submission")
	}
}

// unasked is a Backend that nobody asks for the progress of a message.
type unasked struct {
	Backend
	t *testing.T
}

func (b unasked) Progress(context.Context, note.UNID, []string) ([]Progress, error) {
	b.t.Error("the progress of a message was looked up")
	return nil, nil
}

// TestCreatedDelivery checks that a new submission shows its recipients as queued, and that nothing is looked up for
// that.
func TestCreatedDelivery(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	a := &actor{&operator{w: w, rng: rand.New(rand.NewPCG(1, 1))}}
	w.server.backend = unasked{w.server.backend, t}
	email := w.append("alice", "Drafts", strings.ReplaceAll(simple("queued"), "eve@far.example", "alice@example.com"))
	alice, bob := obj{"email": "alice@example.com"}, obj{"email": "bob@example.com"}
	got := w.one("alice", "EmailSubmission/set", a.args(obj{"create": obj{"s": obj{
		"identityId": a.pick("Identity", nil), "emailId": email,
		"envelope": obj{"mailFrom": alice, "rcptTo": []any{bob}}}}}))
	made, _ := got["created"].(obj)
	one, _ := made["s"].(obj)
	status, _ := one["deliveryStatus"].(obj)
	if to, _ := status["bob@example.com"].(obj); to["delivered"] != "queued" || to["smtpReply"] != "250 2.0.0 Queued" {
		t.Errorf("created: %v", got)
	}
}

// unsent is a Backend that must not be given a message.
type unsent struct {
	Backend
	t *testing.T
}

func (b unsent) Submit(context.Context, *signin.Account, *Submission) (note.UNID, error) {
	b.t.Error("a message was sent")
	return note.UNID{}, errors.New("not sent")
}

// rewrite changes the stored content of a note. The types of the storage engine, which only the store imports, follow
// from Store.Derive.
func rewrite[R interface {
	Get(key []byte) ([]byte, io.Closer, error)
}, O any, B interface {
	Set(key, value []byte, o *O) error
}](w *world, db note.DatabaseID, u note.UNID, derive func(note.DatabaseID, func(R, uint32, B) error) error,
	change func([]byte) []byte) {
	w.t.Helper()
	var id note.ID
	w.ok(w.store.Read(bg, note.System, db, func(r *store.Reader) (err error) {
		id, err = r.Find(u)
		return err
	}))
	w.ok(derive(db, func(r R, number uint32, b B) error {
		key := layout.NoteKey(number, layout.KindContent, id)
		v, c, err := r.Get(key)
		if err != nil {
			return err
		}
		defer c.Close()
		return b.Set(key, change(v), nil)
	}))
}

// TestUnreadableSubmissions checks that no message is sent while the list of submissions cannot be read: it could not
// be stored as sent, and the client would send it again.
func TestUnreadableSubmissions(t *testing.T) {
	t.Parallel()
	w := open(t, settings{})
	a := &actor{&operator{w: w, rng: rand.New(rand.NewPCG(1, 1))}}
	email := w.append("alice", "Drafts", strings.ReplaceAll(simple("queued"), "eve@far.example", "alice@example.com"))
	alice, bob := obj{"email": "alice@example.com"}, obj{"email": "bob@example.com"}
	identity := a.pick("Identity", nil)
	send := func() []any {
		return w.call("alice", []any{"EmailSubmission/set", a.args(obj{"create": obj{"s": obj{
			"identityId": identity, "emailId": email,
			"envelope": obj{"mailFrom": alice, "rcptTo": []any{bob}}}}}), "0"})[0]
	}
	sent := func(when string) {
		t.Helper()
		if got := send(); got[0] != "EmailSubmission/set" || got[1].(obj)["created"] == nil {
			t.Fatalf("%s: %v", when, got)
		}
	}
	sent("first")
	var content []byte
	put := func(change func([]byte) []byte) {
		t.Helper()
		f := w.file("alice")
		rewrite(w, w.who["alice"].Database, f.ProfileID("Submissions"), w.store.Derive, change)
	}
	put(func(v []byte) []byte {
		content = bytes.Clone(v)
		return []byte{0xff}
	})
	backend := w.server.backend
	w.server.backend = unsent{backend, t}
	if got := send(); got[0] != "error" {
		t.Errorf("with a list that cannot be read: %v", got)
	}
	w.server.backend = backend
	put(func([]byte) []byte { return content })
	sent("mended")
}

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
