package mail

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
)

// enterMany adds remote messages to mail.box, and returns their queue IDs.
func (w *world) enterMany(n int) []note.UNID {
	w.t.Helper()
	c, err := w.files.Compose(bg, []byte("Return-Path: <a@b.example>\r\n"+plain))
	w.ok(err)
	defer c.Release()
	ids := make([]note.UNID, n)
	for at := 0; at < n; {
		some := ids[at:min(n, at+500)]
		w.ok(w.db.Update(bg, note.System, []note.DatabaseID{queue.BoxID}, func(tx *store.Tx) error {
			box, err := tx.Database(queue.BoxID)
			for i := 0; err == nil && i < len(some); i++ {
				w.fix.Fill(some[i][:])
				e := queue.Entry{ID: some[i], From: path("a@b.example"), Created: w.fix.Clock.Now(), ReturnPath: 28,
					Recipients: []queue.Recipient{
						{Address: fmt.Sprintf("u@d%d.example", (at+i)%50), State: queue.Waiting},
					}}
				_, err = w.Queue.Enter(box, c.New(e.Created), e)
			}
			return err
		}))
		at += len(some)
	}
	return ids
}

// TestStartReadsLittle checks that startup counts a bounded number of waiting messages, and that the router processes
// the entries that it has read while it reads the rest.
func TestStartReadsLittle(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	const many, counted = 6*catchUpStep + 7, 500 // the number of messages that the census counts at a time
	w.enterMany(many)
	w.stop()
	w.start()
	w.closed = false
	w.shows(fmt.Sprintf("Mail.Waiting = %d", counted), "Mail.Uncounted = 1", "Mail.Transfer.Appointments = 0")
	// The router reads a piece, and delivers newer messages before it has read everything.
	alice := w.person("alice")
	more, err := w.Router.catchUp(bg)
	w.ok(err)
	if n := w.Router.agenda.items; !more || n != catchUpStep {
		t.Errorf("%d appointments after one look, more %v", n, more)
	}
	w.quota(alice, 1)
	w.deposit(w.from("eve@far.example", "alice@example.com", "postmaster@elsewhere.example"))
	w.quota(alice, 0)
	w.fix.Time.Advance(time.Hour)
	w.route()
	w.has(alice, 1)
	w.Queue.CountRest(bg)
	w.shows(fmt.Sprintf("Mail.Waiting = %d", many+1), fmt.Sprintf("Mail.WaitingForTransfer = %d", many+1),
		"Mail.Uncounted = 0")
	w.Queue.CountRest(bg)
	w.shows(fmt.Sprintf("Mail.Waiting = %d", many+1), "Mail.Uncounted = 0")
}

// TestCensus checks that the counts are right in the end if messages come, change and go during the census.
func TestCensus(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		w := open(t, Options{})
		ids := w.enterMany(2600)
		w.stop()
		w.start()
		w.closed = false
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Queue.CountRest(context.Background())
		}()
		r := rand.New(rand.NewPCG(seed, 0))
		for range 400 {
			switch id := ids[r.IntN(len(ids))]; r.IntN(4) {
			case 0:
				_ = w.Drop(bg, id)
			case 1:
				_ = w.Hold(bg, id)
			case 2:
				_ = w.Moderation.Release(bg, id)
			case 3:
				w.deposit(w.from("eve@far.example", "u@elsewhere.example", "v@elsewhere.example"))
			}
		}
		<-done
		var want struct{ waiting, hold, recipients int }
		w.ok(w.Queue.Each(bg, func(e *queue.Entry) bool {
			if want.recipients += len(e.Recipients); e.Held {
				want.hold++
			} else {
				want.waiting++
			}
			return true
		}))
		w.shows(fmt.Sprintf("Mail.Waiting = %d", want.waiting), fmt.Sprintf("Mail.Hold = %d", want.hold),
			fmt.Sprintf("Mail.WaitingRecipients = %d", want.recipients),
			fmt.Sprintf("Mail.WaitingForTransfer = %d", want.recipients))
	}
}
