package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// TestHostile has another NATS user who sees every message, replays it unchanged and changed, and forges messages and
// reports of missing receivers. None of these may be accepted, nothing may be readable, and requests must be answered.
func TestHostile(t *testing.T) {
	t.Parallel()
	n := runNATS(t, &natsserver.Options{Username: "doublet", Password: "secret"})
	url := "nats://doublet:secret@" + n.Addr().String()
	w := world{bustest.Found(t), url}
	hosts := []*server{w.Server("a").(*server), w.Server("b").(*server)}
	var handled atomic.Int64
	var members []bus.Member
	var buses []bus.Bus
	for _, h := range hosts {
		b := h.Start(bus.Grant{}, func(b bus.Bus) {
			b.Handle("test.echo", func(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
				handled.Add(1)
				return body, nil
			})
		})
		defer b.Close()
		buses, members = append(buses, b), append(members, h.Member())
	}
	for _, b := range buses {
		b.SetMembers(members)
	}
	ask := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		out, err := buses[0].Request(ctx, buses[1].Self(), "test.echo", []byte("a secret"))
		if err == nil && string(out) != "a secret" {
			err = errors.New("the answer is another")
		}
		return err
	}
	bustest.Eventually(t, "they talk", ask)

	spy, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer spy.Close()
	var mu sync.Mutex
	seen := map[string]bool{}
	heard := 0
	_, err = spy.Subscribe("doublet.>", func(m *nats.Msg) {
		mu.Lock()
		mine := seen[m.Subject+string(m.Data)]
		heard++
		mu.Unlock()
		if mine {
			return
		}
		if bytes.Contains(m.Data, []byte("a secret")) || bytes.Contains(m.Data, []byte("test.echo")) {
			t.Error("a message can be read")
		}
		say := func(subject string, data []byte) {
			mu.Lock()
			seen[subject+string(data)] = true
			mu.Unlock()
			_ = spy.Publish(subject, data)
		}
		if !strings.HasSuffix(m.Subject, ".m") {
			return
		}
		say(m.Subject, m.Data)
		for i := range 20 {
			bad := bytes.Clone(m.Data)
			bad[(i*7919)%len(bad)] ^= 1 << (i % 8)
			say(m.Subject, bad)
		}
		say(m.Subject, m.Data[:len(m.Data)/2])
		say(m.Subject, append(bytes.Clone(m.Data), 0))
		say(m.Subject, nil)
		say(m.Subject, make([]byte, 400<<10))
		if m.Reply != "" {
			say(m.Reply, []byte("not empty"))
			say(strings.TrimSuffix(m.Reply, m.Reply[len(m.Reply)-1:])+"zz", nil)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := spy.Flush(); err != nil {
		t.Fatal(err)
	}
	before := handled.Load()
	const asked = 50
	for range asked {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "the spy has said it all", func() error {
		mu.Lock()
		defer mu.Unlock()
		if heard < 40*asked {
			return fmt.Errorf("it heard %d", heard)
		}
		return nil
	})
	if err := ask(); err != nil { // after the forged messages
		t.Fatal(err)
	}
	handled.Add(-1)
	if n := handled.Load() - before; n != asked {
		t.Errorf("%d were handled, %d asked", n, asked)
	}
}

// echoes starts two servers. ask sends a request from the first to the second.
func (w *world) echoes(t *testing.T) (buses []bus.Bus, ask func() error) {
	t.Helper()
	var members []bus.Member
	for _, name := range []string{"a", "b"} {
		h := w.Server(name).(*server)
		b := h.Start(bus.Grant{}, func(b bus.Bus) {
			b.Handle("test.echo", func(_ context.Context, _ bus.ServerID,
				body []byte) ([]byte, error) {
				return body, nil
			})
		})
		t.Cleanup(func() { b.Close() })
		buses, members = append(buses, b), append(members, h.Member())
	}
	for _, b := range buses {
		b.SetMembers(members)
	}
	return buses, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := buses[0].Request(ctx, buses[1].Self(), "test.echo", nil)
		return err
	}
}

// TestLost checks that requests fail soon while the NATS is down, and work again when it is back.
func TestLost(t *testing.T) {
	t.Parallel()
	n := runNATS(t, &natsserver.Options{})
	port := n.Addr().String()
	w := world{bustest.Found(t), "nats://" + port}
	_, ask := w.echoes(t)
	bustest.Eventually(t, "they talk", ask)
	at := n.Addr()
	n.Shutdown()
	n.WaitForShutdown()
	bustest.Eventually(t, "it is missed", func() error {
		if err := ask(); !errors.Is(err, bus.ErrNoServer) {
			return errors.Join(errors.New("asked"), err)
		}
		return nil
	})
	runNATS(t, &natsserver.Options{Port: portOf(at.String())})
	bustest.Eventually(t, "they talk again", ask)
}

// TestLater checks that a server that starts while its NATS is down connects when it comes up.
func TestLater(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	w := world{bustest.Found(t), "nats://" + at}
	buses, ask := w.echoes(t)
	bustest.Eventually(t, "probes go directly", func() error {
		_, err := buses[0].Probe(context.Background(), buses[1].Self())
		return err
	})
	if err := ask(); !errors.Is(err, bus.ErrNoServer) {
		t.Errorf("without NATS: %v", err)
	}
	runNATS(t, &natsserver.Options{Port: portOf(at)})
	bustest.Eventually(t, "they talk", ask)
}

// TestNotIn checks that the reason why NATS cannot be used is reported.
func TestNotIn(t *testing.T) {
	t.Parallel()
	n := runNATS(t, &natsserver.Options{Username: "doublet", Password: "secret"})
	small := runNATS(t, &natsserver.Options{MaxPayload: 1000})
	f := bustest.Found(t)
	folder := f.Folder("a")
	for url, want := range map[string]string{
		"nats://doublet:wrong@" + n.Addr().String(): "does not let this server in",
		"nats://" + small.Addr().String():           "max_payload",
	} {
		var o Options
		o.Identity, o.Listen, o.URLs, o.Connect = folder, "127.0.0.1:0", url, time.Second
		b, err := Open(f.Env.Env, o)
		if err == nil {
			b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"://"} {
		var o Options
		o.Identity, o.Listen, o.URLs = folder, "127.0.0.1:0", url
		if b, err := Open(f.Env.Env, o); err == nil {
			b.Close()
			t.Errorf("%s is a URL", url)
		}
	}
	var o Options
	o.Identity, o.Listen, o.URLs, o.NKey = folder, "127.0.0.1:0", "nats://"+n.Addr().String(), "/nonexistent"
	if _, err := Open(f.Env.Env, o); err == nil {
		t.Error("without its key")
	}
}

func portOf(address string) int {
	n := 0
	for _, c := range address[strings.LastIndexByte(address, ':')+1:] {
		n = 10*n + int(c-'0')
	}
	return n
}
