package jmapd

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	client "doublet/client/jmap"
	"doublet/directory/session"
	"doublet/env"
	"doublet/note"
	"doublet/serve/jmapd/push"
	"doublet/serve/signin"
	"doublet/wire/webpush"
)

// here is a resolver that resolves every name to this machine.
type here struct{}

func (here) Addresses(context.Context, string) ([]netip.Addr, bool, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, false, nil
}

// pushes enables push in a world. Pushes to the push service at url are written to got.
func (w *world) pushes() (p *push.Service, url string, got chan []byte) {
	w.t.Helper()
	got = make(chan []byte, 100)
	there := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			w.t.Error(err)
		}
		got <- b
	}))
	w.t.Cleanup(there.Close)
	_, port, err := net.SplitHostPort(there.Listener.Addr().String())
	w.ok(err)
	keep, err := session.Open(w.store, w.fix.Env, []byte("key"), session.Options{})
	w.ok(err)
	key, _ := webpush.KeyFrom([]byte("the secret of thirty-two octets!"))
	roots := x509.NewCertPool()
	roots.AddCert(there.Certificate())
	p = w.server.OpenPush(push.Options{Web: push.WebOptions{
		Subscriptions: keep, Key: key, DNS: here{}, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/31"),
			netip.MustParsePrefix("127.0.0.1/32")}, Roots: roots,
		Account: func(_ context.Context, person note.UNID) (signin.Account, error) {
			for _, c := range w.who {
				if c.Who.Person == person {
					return c.Account, nil
				}
			}
			return signin.Account{}, signin.ErrDisabled
		},
	}})
	w.ok(p.Start(bg))
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		w.ok(p.Close(ctx))
		keep.Close()
	})
	return p, "https://example.com:" + port + "/push", got
}

func receive(t *testing.T, got chan []byte) []byte {
	t.Helper()
	select {
	case b := <-got:
		return b
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is pushed")
	}
	return nil
}

// TestPushScenario plays the life of a subscription.
func TestPushScenario(t *testing.T) {
	t.Parallel()
	p := &player{t: t, who: "alice", vars: map[string]string{}}
	p.w = open(t, settings{})
	_, url, got := p.w.pushes()
	text, err := os.ReadFile("testdata/push/subscription.txt")
	p.w.ok(err)
	p.vars["url"], p.vars["account"] = url, p.w.account("alice")
	// The code is known after the first call.
	first, rest, _ := strings.Cut(string(text), "\nC: [[\"PushSubscription/get\"")
	p.play("testdata/push/subscription.txt", 0, first)
	var v struct {
		Code string `json:"verificationCode"`
		ID   string `json:"pushSubscriptionId"`
	}
	p.w.ok(json.Unmarshal(receive(t, got), &v))
	if v.ID != p.vars["sub"] {
		t.Errorf("%s, not %s", v.ID, p.vars["sub"])
	}
	p.vars["code"] = v.Code
	p.play("testdata/push/subscription.txt", strings.Count(first, "\n")+1, "C: [[\"PushSubscription/get\""+rest)
}

// client returns a JMAP client of a person, for a server that serves the world.
func (w *world) client(base, who string) *client.Client {
	w.t.Helper()
	c, err := client.New(w.fix.Env, client.Options{URL: base, User: who, Password: "x", Timeout: 20 * time.Second})
	w.ok(err)
	w.t.Cleanup(c.Close)
	return c
}

// stream opens an event stream of a person.
type stream struct {
	w *world
	e *client.Events
}

func (w *world) stream(base, who string) *stream {
	w.t.Helper()
	e, err := w.client(base, who).Events(bg, client.EventOptions{})
	w.ok(err)
	w.t.Cleanup(func() { _ = e.Close() })
	return &stream{w, e}
}

// next returns the states in the next event, by account.
func (s *stream) next() client.Changed {
	s.w.t.Helper()
	c, err := s.e.Next()
	s.w.ok(err)
	return c
}

// TestPushedStates checks that pushes contain the states that /get returns, of the types that a change affects. Pushes
// for another person's mail file depend on the access to it.
func TestPushedStates(t *testing.T) {
	t.Parallel()
	w := openOn(t, env.TestRealTime(t), settings{})
	p, _, _ := w.pushes()
	door := httptest.NewServer(w.server)
	defer door.Close()
	id := w.append("alice", "INBOX", simple("one"))
	_ = id
	alice, bob := w.stream(door.URL, "alice"), w.stream(door.URL, "bob")
	types := func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
	need := func(s *stream, account string, want ...string) map[string]string {
		t.Helper()
		got := s.next()
		if len(got) != 1 || !slices.Equal(types(got[account]), want) {
			t.Errorf("%v, want %v of %s", got, want, account)
		}
		return got[account]
	}
	w.append("alice", "INBOX", simple("two"))
	got := need(alice, w.account("alice"), "Email", "EmailDelivery", "Mailbox", "Thread")
	states, err := w.server.States(bg, w.who["alice"], w.server.own(w.who["alice"]))
	w.ok(err)
	for kind, state := range got {
		if states[kind] != state {
			t.Errorf("%s: pushed %s, is %s", kind, state, states[kind])
		}
	}
	_, err = w.file("alice").Create(bg, "Projects", "")
	w.ok(err)
	need(alice, w.account("alice"), "Mailbox")
	w.one("alice", "SieveRules/set", obj{"accountId": w.account("alice"), "update": obj{"singleton": obj{
		"rules": []any{obj{"actions": []any{obj{"type": "keep"}}}}}}})
	need(alice, w.account("alice"), "SieveScript")
	// Bob gets pushes for alice's mail while he can see one of her folders.
	bobs := w.who["bob"].Who.Person
	w.ok(w.file("alice").SetAccess(bg, "INBOX", bobs, func(note.Rights) note.Rights { return note.Lookup | note.Read },
		false))
	p.Recheck()
	told := bob.next()
	if told[w.account("alice")]["Email"] == "" || told[w.account("bob")] != nil {
		t.Errorf("%v", told)
	}
	w.append("alice", "INBOX", simple("three"))
	for told = bob.next(); told[w.account("alice")]["EmailDelivery"] == ""; told = bob.next() {
	}
	w.ok(w.file("alice").SetAccess(bg, "INBOX", bobs, nil, true))
	w.append("alice", "INBOX", simple("four"))
	w.append("bob", "INBOX", simple("five"))
	for {
		told = bob.next()
		if told[w.account("bob")]["Email"] != "" {
			break
		}
	}
	if told[w.account("alice")] != nil {
		t.Errorf("%v", told)
	}
}
