package push

import (
	"testing"
	"time"
)

// TestEndedWhileSynced checks that a subscription that ends during sync does not come back.
func TestEndedWhileSynced(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*webWorld, string) error{
		"by its owner": func(w *webWorld, id string) error { return w.Unsubscribe(bg, callerOf(alice, "x"), id) },
		"by a refusal": func(w *webWorld, _ string) error { w.web.unsubscribe(w.web.list()[0], "refused"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWeb(t)
			sub := w.subscribed(callerOf(alice, "x"), "/x")
			read, err := w.web.read(bg)
			w.ok(err)
			w.ok(end(w, SubscriptionID(&sub)))
			if _, settled := w.web.adopt(&read); settled {
				t.Error("what was read before the end counts as up to date")
			}
			if _, err := w.web.sync(bg); err != nil || w.count() != 0 {
				t.Errorf("%d subscriptions, %v", w.count(), err)
			}
		})
	}
}

// TestVerifiedWhileSynced checks that a verification during sync is kept.
func TestVerifiedWhileSynced(t *testing.T) {
	t.Parallel()
	w := openWeb(t)
	c := callerOf(alice, "x")
	sub, err := w.Subscribe(bg, c, NewSubscription{Device: "d", URL: w.base + "/x", AllTypes: true})
	w.ok(err)
	w.push()
	w.settle()
	read, err := w.web.read(bg)
	w.ok(err)
	_, err = w.Resubscribe(bg, c, SubscriptionID(&sub), SubscriptionChange{Code: &sub.Code})
	w.ok(err)
	w.change(1, "Email")
	w.web.adopt(&read)
	if !w.web.list()[0].verified() {
		t.Fatal("the verification was taken back")
	}
	w.settle()
	w.fix.Time.Advance(2 * time.Second) // Every, after the push of the code
	if got := changed(t, string(w.push().body)); got["a1"]["Email"] != "2" {
		t.Errorf("%v", got)
	}
}
