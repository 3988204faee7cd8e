package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"

	"github.com/nats-io/nats.go"
)

// heardOf counts the requests that a server got, by asker and body.
type heardOf struct {
	mu   sync.Mutex
	list map[string]int
}

func (h *heardOf) note(from bus.ServerID, body []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.list == nil {
		h.list = map[string]int{}
	}
	h.list[fmt.Sprintf("%s %s", from, body)]++
}

func (h *heardOf) all() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.list)
}

// TestRogue runs a member that uses the cluster's NATS with every subject, so the messages between the others reach it.
// It must not read, change or replay them, forge an answer, or ask in another's name: neither with the messages of
// others, nor with its own under the link of another. It floods the bus, so it runs alone.
func TestRogue(t *testing.T) {
	w := world{bustest.Found(t)}
	var hosts []*host
	var buses []bus.Bus
	var heard [3]heardOf
	var members []bus.Member
	for i, name := range []string{"a", "b", "rogue"} {
		h := w.server(name)
		b := h.Start(bus.Grant{}, func(b bus.Bus) {
			b.Handle("test.echo", func(_ context.Context, from bus.ServerID, body []byte) ([]byte, error) {
				heard[i].note(from, body)
				return append([]byte("back "), body...), nil
			})
		})
		t.Cleanup(func() { _ = b.Close() })
		hosts, buses, members = append(hosts, h), append(buses, b), append(members, h.member)
	}
	for _, b := range buses {
		b.SetMembers(members)
	}
	ask := func(from, to int, body string) error {
		out, err := buses[from].Request(short(t, 10*time.Second), buses[to].Self(), "test.echo", []byte(body))
		if err == nil && string(out) != "back "+body {
			err = fmt.Errorf("the answer is %q", out)
		}
		return err
	}
	for from := range buses {
		for to := range buses {
			if from != to {
				bustest.Eventually(t, "they talk", func() error { return ask(from, to, "hello") })
			}
		}
	}

	raw, err := nats.Connect("", nats.InProcessServer(buses[2].(*Bus).nats.server))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var mu sync.Mutex
	said := map[string]bool{}
	var caught [][]byte // its own messages and those of others
	say := func(subject string, data []byte) {
		mu.Lock()
		said[subject+string(data)] = true
		mu.Unlock()
		_ = raw.Publish(subject, data)
	}
	_, err = raw.Subscribe(">", func(m *nats.Msg) {
		mu.Lock()
		mine := said[m.Subject+string(m.Data)]
		if !mine && strings.HasSuffix(m.Subject, ".m") {
			caught = append(caught, bytes.Clone(m.Data))
		}
		links := slices.Clone(caught[max(0, len(caught)-8):])
		mu.Unlock()
		if bytes.Contains(m.Data, []byte("a secret")) || bytes.Contains(m.Data, []byte("test.echo")) {
			t.Errorf("a message can be read: %q", m.Data)
		}
		if mine || !strings.HasSuffix(m.Subject, ".m") {
			return
		}
		base := strings.TrimSuffix(m.Subject, m.Subject[strings.LastIndex(strings.TrimSuffix(m.Subject, ".m"), ".")+1:])
		for _, to := range members { // replay them to the right receiver and to others
			say(base+to.ID.String()+".m", m.Data)
			for _, other := range links { // mix bodies and links of different servers
				if len(other) > 18 && len(m.Data) > 18 {
					say(base+to.ID.String()+".m", append(bytes.Clone(other[:10]), m.Data[10:]...))
					say(base+to.ID.String()+".m", append(bytes.Clone(m.Data[:18]), other[18:]...))
				}
			}
			for i := range 4 {
				bad := bytes.Clone(m.Data)
				bad[i*len(bad)/4] ^= 1
				say(base+to.ID.String()+".m", bad)
			}
			as := bytes.Clone(m.Data) // an answer made from a request
			as[1] = 3
			say(base+to.ID.String()+".m", as)
		}
		if m.Reply != "" {
			say(m.Reply, nil)
			_ = raw.PublishMsg(&nats.Msg{Subject: m.Reply, Header: nats.Header{"Status": {"503"}}}) // a forged report
			say(m.Reply, []byte("no"))
		}
	})
	if err == nil {
		err = raw.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "what the others say reaches the rogue", func() error {
		if err := ask(0, 1, "warm"); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(caught) == 0 {
			return errors.New("nothing")
		}
		return nil
	})
	var before [3]map[string]int
	for i := range heard {
		before[i] = heard[i].all()
	}
	const asked = 30
	for i := range asked {
		for _, way := range [][2]int{{0, 1}, {1, 0}, {2, 0}, {2, 1}} {
			if err := ask(way[0], way[1], fmt.Sprintf("a secret %d", i)); err != nil {
				t.Fatalf("%v: %v", way, err)
			}
		}
	}
	if err := raw.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, way := range [][2]int{{0, 1}, {1, 0}, {2, 0}, {2, 1}} { // after all forged messages
		if err := ask(way[0], way[1], "last"); err != nil {
			t.Fatal(err)
		}
	}
	for i := range heard[:2] {
		want := before[i]
		for _, from := range []int{1 - i, 2} {
			for n := range asked {
				want[fmt.Sprintf("%s a secret %d", buses[from].Self(), n)] = 1
			}
			want[fmt.Sprintf("%s last", buses[from].Self())] = 1
		}
		if got := heard[i].all(); !maps.Equal(got, want) {
			t.Errorf("server %d heard\n%v\nwant\n%v", i, got, want)
		}
	}
	_ = hosts
}

// TestRogueVerbs checks that a member's requests over its own link run with its own identity, whatever the body says.
// Invalid verbs and arbitrary bodies are rejected without side effects.
func TestRogueVerbs(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	to := p.buses[0].Self()
	for _, verb := range []string{"cluster.hello", "bus.none", "bus.renew", "a..b", "UPPER", strings.Repeat("x", 65),
		"", ">", "test.*"} {
		for _, body := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte{0xff}, 1000), make([]byte, bus.MaxBody+1)} {
			if _, err := p.buses[1].Request(short(t, 5*time.Second), to, verb, body); err == nil {
				t.Errorf("%q with %d bytes is answered", verb, len(body))
			}
		}
	}
	// A member can renew a certificate only for its own key.
	other := p.hosts[0].f.Folder("other")
	var request []byte
	_ = other.Renew(context.Background(), func(_ context.Context,
		r []byte) ([]byte, error) {
		request = r
		return nil, errors.New("caught")
	})
	if len(request) > 0 {
		if _, err := p.buses[1].Request(short(t, 5*time.Second), to, "bus.renew", request); err == nil {
			t.Error("a certificate is issued about another's key")
		}
	}
	p.talk(t)
}
