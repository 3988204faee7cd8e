package external

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"
	"doublet/env"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// held makes an environment whose goroutines of one name wait until release.
type held struct {
	mu   sync.Mutex
	hold bool
	wait []func()
}

func (h *held) env(e *env.Env, name string) *env.Env {
	out, start := *e, e.Go
	out.Go = func(n string, f func()) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if n == name && h.hold {
			h.wait = append(h.wait, func() { start(n, f) })
			return
		}
		start(n, f)
	}
	return &out
}

func (h *held) set(hold bool) {
	h.mu.Lock()
	h.hold = hold
	h.mu.Unlock()
}

func (h *held) release() {
	h.set(false)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.wait {
		f()
	}
	h.wait = nil
}

// TestFlood has another NATS user replay a member's requests, unchanged and changed, faster than the server serves
// them: no serving goroutine has run yet. The member's next request must still be served.
func TestFlood(t *testing.T) {
	t.Parallel()
	n := runNATS(t, &natsserver.Options{})
	w := world{bustest.Found(t), "nats://" + n.Addr().String()}
	var h held
	w.f.Env.Env = h.env(w.f.Env.Env, "bus request")
	buses, _ := w.echoes(t)
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, err := buses[0].Request(ctx, buses[1].Self(), "test.echo", nil)
		return err
	}
	bustest.Eventually(t, "they talk", ask)
	spy, err := nats.Connect(w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	heard := make(chan *nats.Msg, 4096)
	if _, err := spy.ChanSubscribe("doublet.*."+buses[1].Self().String()+".m", heard); err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	m := <-heard
	h.set(true)
	for i := range 4 * bus.DefaultGrant.Requests {
		said := m.Data
		if i%2 == 0 {
			said = bytes.Clone(m.Data)
			said[len(said)-1-i%8] ^= 1
		}
		if err := spy.Publish(m.Subject, said); err != nil {
			t.Fatal(err)
		}
	}
	if err := spy.Flush(); err != nil { // later messages arrive after its subscription
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- ask() }()
	for range 4*bus.DefaultGrant.Requests + 1 {
		<-heard // the last one is the request
	}
	time.AfterFunc(100*time.Millisecond, h.release)
	if err := <-done; err != nil {
		t.Errorf("behind what somebody else said: %v", err)
	}
}
