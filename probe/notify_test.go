package probe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"doublet/client/reach"
)

type noNames struct{}

func (noNames) Addresses(context.Context, string) ([]netip.Addr, bool, error) {
	return nil, false, errors.New("no names here")
}

// TestWebhook checks that an event reaches a webhook with a signature that its receiver can verify, that a refused one
// comes again, and that the host of the URL must be allowed.
func TestWebhook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	status, posts := http.StatusServiceUnavailable, 0
	var got struct{ Events []Event }
	there := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		posts++
		body, err := io.ReadAll(q.Body)
		if want := "sha256=" + Sign("secret", q.Header.Get("X-Doublet-Time"), body); err != nil ||
			q.Header.Get("X-Doublet-Signature") != want {
			t.Errorf("signature %q, want %q (%v)", q.Header.Get("X-Doublet-Signature"), want, err)
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
	}))
	defer there.Close()
	r.Env.Dial = func(network, address string, d time.Duration) (net.Conn, error) {
		return net.DialTimeout(network, address, d)
	}
	r.Time.Advance(time.Until(r.Clock.Now()) * -1) // the certificate of httptest holds then and now
	o := WebhookOptions{Server: "one", URL: there.URL + "/hook", Secret: "secret", Least: WarningLow,
		Roots: there.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs,
		Reach: reach.New(r.Env, noNames{}, nil)}
	if _, err := Webhook(r.Env, o); !errors.Is(err, reach.ErrAddress) {
		t.Errorf("a webhook on loopback: %v", err)
	}
	o.Reach = reach.New(r.Env, noNames{}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	hook, err := Webhook(r.Env, o)
	if err != nil {
		t.Fatal(err)
	}
	r.log.Attach(hook)
	r.list = disk(Failure, "2 % free")
	r.run(time.Minute)
	r.log.Deliver(ctx)
	r.log.Deliver(ctx) // it pauses
	status = http.StatusNoContent
	r.Time.Advance(firstPause)
	r.log.Deliver(ctx)
	r.log.Deliver(ctx)
	there.Close()
	r.list = nil
	r.run(5 * time.Minute)
	list, more := r.log.batch(r.log.outboxes[0])
	if err := hook.Send(ctx, list, more); err == nil || strings.Contains(err.Error(), "/hook") {
		t.Errorf("the error of a webhook shows its URL: %v", err)
	}
	if posts != 2 || len(got.Events) != 1 || got.Events[0].Cause != "2 % free" || got.Events[0].Severity != Failure {
		t.Errorf("%d posts, %+v", posts, got)
	}
}

// TestDigest checks the mail about events.
func TestDigest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.list = disk(Failure, "2 % free")
	r.run(time.Minute)
	list := []Event{r.only()}
	subject, text := Digest("one", list, 7)
	if subject != "one: 1 open events, failure" {
		t.Error(subject)
	}
	for _, want := range []string{"FAILURE  open  System/Disk  /data", "2 % free", "free some space",
		"doublet event show " + list[0].ID, "7 further changes"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	list[0].State = StateClosed
	if subject, _ = Digest("one", list, 0); subject != "one: 1 events closed" {
		t.Error(subject)
	}
}

// TestMailStorm checks that a channel with a least time between two notifications sends one batch in that time,
// and that
// nothing is sent while it must wait.
func TestMailStorm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	later, sent, events := true, 0, 0
	r.log.Attach(Channel{Name: "mail", Every: time.Hour, Batch: 50, Send: func(_ context.Context, list []Event,
		more int) error {
		if later {
			return ErrLater
		}
		if sent++; len(list) > 50 || len(list)+more > maxEvents {
			t.Errorf("%d events and %d more", len(list), more)
		}
		events += len(list)
		return nil
	}})
	for i := range 100_000 {
		r.list = append(r.list, Finding{Target: string(rune('a'+i%26)) + strings.Repeat("x", i%150), Severity: Failure})
	}
	for range 12 {
		r.run(Tick)
		r.log.Deliver(ctx)
	}
	if sent != 0 {
		t.Fatal("sent while mail is the trouble")
	}
	later = false
	for range 12 {
		r.run(Tick)
		r.log.Deliver(ctx)
	}
	if sent != 1 || events != 50 {
		t.Errorf("%d mails with %d events in a minute", sent, events)
	}
}
