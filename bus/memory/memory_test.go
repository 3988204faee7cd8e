package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"doublet/bus"
	"doublet/bus/bustest"
	"doublet/env"
	"doublet/note"
)

type world struct{ n *Network }

type server struct {
	n    *Network
	name string
	id   bus.ServerID
}

func (w world) Server(name string) bustest.Server {
	return &server{w.n, name, note.DeriveUNID([]byte(name))}
}

func (s *server) Start(grant bus.Grant, setup func(bus.Bus)) bus.Bus {
	b := s.n.Open(s.id, grant)
	setup(b)
	return b
}

func (s *server) Member() bus.Member { return bus.Member{ID: s.id, Name: s.name} }

func TestConduct(t *testing.T) {
	t.Parallel()
	bustest.Run(t, func(t *testing.T) bustest.World { return world{New(env.Test(t).Env, nil)} })
}

// pair starts two servers. log records the messages that they receive.
func pair(t *testing.T, p Policy) (n *Network, a, b *Bus, log *[]string) {
	n = New(env.Test(t).Env, p)
	a, b = n.Open(bus.ServerID{1}, bus.Grant{}), n.Open(bus.ServerID{2}, bus.Grant{})
	log = &[]string{}
	for _, x := range []*Bus{a, b} {
		x.Handle("say", func(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
			*log = append(*log, string(body))
			return body, nil
		})
		x.SetMembers([]bus.Member{{ID: a.Self()}, {ID: b.Self()}})
	}
	return n, a, b, log
}

var bg = context.Background()

func TestFates(t *testing.T) {
	t.Parallel()
	fate := Deliver
	var kinds []Kind
	n, a, b, log := pair(t, func(m Message) Fate {
		kinds = append(kinds, m.Kind)
		if m.Kind == Answer && fate != Lose {
			return Deliver
		}
		return fate
	})
	say := func(word string) error {
		_, err := a.Request(bg, b.Self(), "say", []byte(word))
		return err
	}
	if err := say("one"); err != nil {
		t.Fatal(err)
	}
	fate = Twice
	if err := say("two"); err != nil {
		t.Fatal(err)
	}
	fate = Lose
	if err := say("three"); !errors.Is(err, bus.ErrNoAnswer) {
		t.Fatal(err)
	}
	fate = Delay
	for _, word := range []string{"four", "five", "six"} {
		if err := say(word); !errors.Is(err, bus.ErrNoAnswer) {
			t.Fatal(err)
		}
	}
	fate = Deliver
	if err := a.Broadcast("say", []byte("seven")); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{2, 0, 0} {
		n.Release(i)
	}
	if want := []string{"one", "two", "two", "seven", "six", "four", "five"}; !slices.Equal(*log, want) ||
		n.Delayed() != 0 {
		t.Errorf("heard %q, want %q; %d wait", *log, want, n.Delayed())
	}
	if want := []Kind{Request, Answer, Request, Answer, Request, Request, Request, Request,
		Broadcast}; !slices.Equal(kinds, want) {
		t.Errorf("the policy was asked about %v, want %v", kinds, want)
	}
}

// TestLoseAnswer checks that the handler runs but the asker gets ErrNoAnswer.
func TestLoseAnswer(t *testing.T) {
	t.Parallel()
	_, a, b, log := pair(t, func(m Message) Fate {
		if m.Kind == Answer {
			return Lose
		}
		return Deliver
	})
	if _, err := a.Request(bg, b.Self(), "say", []byte("x")); !errors.Is(err, bus.ErrNoAnswer) || len(*log) != 1 {
		t.Errorf("%v, heard %q", err, *log)
	}
}

// TestCut checks that a cut drops requests in its direction, and answers to requests in the other.
func TestCut(t *testing.T) {
	t.Parallel()
	n, a, b, log := pair(t, nil)
	n.Cut(a.Self(), b.Self())
	if _, err := a.Request(bg, b.Self(), "say", []byte("a")); !errors.Is(err, bus.ErrNoAnswer) || len(*log) != 0 {
		t.Errorf("through the cut: %v, heard %q", err, *log)
	}
	if _, err := b.Request(bg, a.Self(), "say", []byte("b")); !errors.Is(err, bus.ErrNoAnswer) || len(*log) != 1 {
		t.Errorf("against the cut: %v, heard %q", err, *log)
	}
	if _, err := b.Probe(bg, a.Self()); !errors.Is(err, bus.ErrNoAnswer) {
		t.Errorf("a probe whose answer is cut: %v", err)
	}
	n.Heal(a.Self(), b.Self())
	if _, err := a.Request(bg, b.Self(), "say", []byte("c")); err != nil {
		t.Error(err)
	}
}

// TestStreamCut checks that both sides of a stream that a policy breaks get an error.
func TestStreamCut(t *testing.T) {
	t.Parallel()
	left := 3
	_, a, b, _ := pair(t, func(m Message) Fate {
		if m.Kind != StreamData {
			return Deliver
		}
		if left--; left < 0 {
			return Lose
		}
		return Deliver
	})
	var ended error
	b.HandleStream("s", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
		buf := make([]byte, 10)
		for {
			var n int
			if n, ended = s.Read(buf); ended != nil {
				return ended
			}
			if _, ended = s.Write(buf[:n]); ended != nil {
				return ended
			}
		}
	})
	s, err := a.Stream(bg, b.Self(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	talk := func() error {
		if _, err := s.Write([]byte("x")); err != nil {
			return err
		}
		_, err := s.Read(make([]byte, 10))
		return err
	}
	if err := talk(); err != nil {
		t.Fatal(err)
	}
	if err := talk(); !errors.Is(err, bus.ErrNoAnswer) || !errors.Is(ended, bus.ErrNoAnswer) {
		t.Errorf("here %v, there %v", err, ended)
	}
	// If both sides wait for each other, one thread could never continue, so it is an error.
	left = 100
	if s, err = a.Stream(bg, b.Self(), "s", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, errStalled) {
		t.Errorf("both sides read: %v", err)
	}
}

// TestDeterministic checks that the same policy sees the same messages in the same order.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	run := func() (seen []string) {
		n := New(env.Test(t).Env, func(m Message) Fate {
			seen = append(seen, fmt.Sprintf("%d %d %x %x %s %d", m.Serial, m.Kind, m.From[:1], m.To[:1],
				m.Verb, m.Bytes))
			return Fate(m.Serial % 4)
		})
		var members []bus.Member
		var all []*Bus
		for i := range 5 {
			b := n.Open(bus.ServerID{byte(i + 1)}, bus.Grant{})
			b.Handle("go", func(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
				if len(body) > 6 {
					return nil, nil
				}
				_ = b.Broadcast("go", append(body, 1, 2))
				return b.Request(ctx, from, "go", append(body, 1))
			})
			members, all = append(members, bus.Member{ID: b.Self()}), append(all, b)
		}
		for _, b := range all {
			b.SetMembers(members)
		}
		for i := range 5 {
			_, _ = all[i].Request(bg, all[(i+1)%5].Self(), "go", nil)
		}
		for n.Delayed() > 0 && len(seen) < 5000 {
			n.Release(n.Delayed() / 2)
		}
		return seen
	}
	one, two := run(), run()
	if len(one) < 100 || !slices.Equal(one, two) {
		t.Errorf("%d and %d messages, or others", len(one), len(two))
	}
}
