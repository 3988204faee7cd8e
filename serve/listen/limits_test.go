package listen

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// TestPersons checks that the sessions of a person and the number of people are limited over all doors.
func TestPersons(t *testing.T) {
	t.Parallel()
	// A line is a name: the session signs in as that person.
	s, st, a := openDoor(t, testEnv(), Options{MaxPerPerson: 2, MaxUsers: 2}, Door{Name: "sign", Serve: func(c *Conn) {
		for c.Await(time.Minute) == nil {
			line, err := c.ReadLine(100, time.Minute)
			if err != nil {
				return
			}
			var id [16]byte
			copy(id[:], line)
			switch c.SignedIn(id) {
			case nil:
				c.PrintString("in\n")
			case ErrSessions:
				c.PrintString("sessions\n")
			case ErrUsers:
				c.PrintString("users\n")
			}
		}
	}})
	sign := func(name, want string) io.Closer {
		c := dial(t, a)
		_, _ = io.WriteString(c, name+"\n")
		expect(t, c, want)
		return c
	}
	one := sign("ada", "in\n")
	sign("ada", "in\n")
	sign("ada", "sessions\n")
	two := sign("bob", "in\n")
	sign("carol", "users\n")
	if l := s.Load(); l.Users != 2 {
		t.Errorf("%+v", l)
	}
	until := func(ok func() bool) {
		for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%+v", s.Load())
			}
		}
	}
	_ = two.Close()
	until(func() bool { return s.Load().Users == 1 })
	if peak := s.Load().PeakUsers; peak != 2 {
		t.Error(peak)
	}
	sign("carol", "in\n")
	before := s.Load().Connections
	_ = one.Close()
	until(func() bool { return s.Load().Connections == before-1 })
	again := dial(t, a)
	_, _ = io.WriteString(again, "ada\nada\n") // a second sign-in on one connection does not count
	expect(t, again, "in\nin\n")
	// A connection that signs in as another person leaves the first.
	_, _ = io.WriteString(again, "carol\n")
	expect(t, again, "in\n")
	sign("ada", "in\n")
	if st.get("Server.Listen.Refused.Person") != 1 || st.get("Server.Listen.Refused.Users") != 1 {
		t.Errorf("counted %v", st.m)
	}
	// New limits apply to new sign-ins. Existing sessions stay.
	s.Limit(Options{MaxPerPerson: 1, MaxUsers: 100})
	sign("ada", "sessions\n")
	sign("dora", "in\n")
	sign("emil", "in\n")
}

// TestRunning checks that no more commands than allowed run at the same time. One that waits for its client occupies no
// slot.
func TestRunning(t *testing.T) {
	t.Parallel()
	const most = 2
	enter, let := make(chan struct{}), make(chan struct{})
	s, _, a := openDoor(t, testEnv(), Options{MaxRunning: most}, Door{Name: "busy", Serve: func(c *Conn) {
		for c.Await(time.Minute) == nil {
			line, err := c.ReadLine(100, time.Minute)
			if err != nil {
				return
			}
			switch string(line) {
			case "work\n":
				enter <- struct{}{}
				<-let
			case "wait\n":
				c.PrintString("go\n")
				if line, err = c.ReadLine(100, time.Minute); err != nil {
					return
				}
			}
			c.Print(line)
		}
	}})
	slow := dial(t, a)
	_, _ = io.WriteString(slow, "wait\n")
	expect(t, slow, "go\n")
	for range 3 {
		_, _ = io.WriteString(dial(t, a), "work\n")
	}
	<-enter
	<-enter
	for deadline := time.Now().Add(10 * time.Second); s.Load().Waits == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the third command does not wait")
		}
	}
	select {
	case <-enter:
		t.Fatal("three commands at one time")
	default:
	}
	if l := s.Load(); l.Running != most || l.Peak != most {
		t.Errorf("%+v", l)
	}
	let <- struct{}{}
	<-enter // the third got a slot
	let <- struct{}{}
	let <- struct{}{}
	_, _ = io.WriteString(slow, "x\n")
	expect(t, slow, "x\n")
}

// TestGate checks that a session that leaves wakes a waiting one.
func TestGate(t *testing.T) {
	t.Parallel()
	g := newGate(3)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 500 {
				g.enter()
				if n := g.running.Load(); n > 3 {
					t.Errorf("%d at one time", n)
				}
				g.leave()
			}
		})
	}
	wg.Wait()
	if g.running.Load() != 0 || g.peak.Load() > 3 {
		t.Errorf("%d left, %d at most", g.running.Load(), g.peak.Load())
	}
}

// TestShare checks that one client cannot use the whole budget, but a client on this machine can.
func TestShare(t *testing.T) {
	t.Parallel()
	b := NewSharedBudget(100, Shares{Client: 40, Person: 60})
	conn := func(from string) *Conn { return &Conn{client: client{remote: netip.MustParseAddr(from)}} }
	one, two := conn("192.0.2.1").Share(b), conn("192.0.2.2").Share(b)
	here := conn("127.0.0.1").Share(b)
	if one.Max() != 40 || here.Max() != 100 {
		t.Errorf("%d and %d", one.Max(), here.Max())
	}
	if !one.Take(30) || one.Has(20) || one.Take(20) || !one.Take(10) || one.Take(1) {
		t.Error("the first client's share")
	}
	if same := conn("192.0.2.1").Share(b); same.Take(1) {
		t.Error("a second connection has a share of its own")
	}
	if !two.Take(40) || !here.Has(20) || here.Has(21) || !here.Take(20) || here.Take(1) {
		t.Error("the others")
	}
	if whole, share := b.Refused(); whole != 1 || share != 3 {
		t.Errorf("refused %d and %d", whole, share)
	}
	one.Give(40)
	two.Give(40)
	here.Give(20)
	if b.Used() != 0 || len(b.holders) != 0 {
		t.Errorf("%d bytes and %d clients are left", b.Used(), len(b.holders))
	}
	if !one.Take(40) || b.Used() != 40 {
		t.Error("nothing is given again")
	}
	one.Give(40)
	// A person has one share for all requests. The zero person has none.
	ada, bo := b.Of([16]byte{1}), b.Of([16]byte{2})
	if ada.Max() != 60 || !ada.Take(50) || b.Of([16]byte{1}).Take(11) || ada.Has(11) || !bo.Take(40) ||
		!b.Of([16]byte{}).Take(10) {
		t.Error("shares of people")
	}
	ada.Give(50)
	bo.Give(40)
	b.Of([16]byte{}).Give(10)
	if b.Used() != 0 || len(b.holders) != 0 {
		t.Errorf("%d bytes and %d holders are left", b.Used(), len(b.holders))
	}
}

// TestDrop checks that the connections of one person end, and then those of all who are signed in.
func TestDrop(t *testing.T) {
	t.Parallel()
	s, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "sign", Serve: func(c *Conn) {
		for c.Await(time.Minute) == nil {
			line, err := c.ReadLine(100, time.Minute)
			if err != nil {
				return
			}
			var id [16]byte
			copy(id[:], line)
			if c.SignedIn(id) == nil {
				c.PrintString("in\n")
			}
		}
	}})
	sign := func(name string) net.Conn {
		c := dial(t, a)
		_, _ = io.WriteString(c, name+"\n")
		expect(t, c, "in\n")
		return c
	}
	ada, again, bob, carol := sign("ada"), sign("ada"), sign("bob"), sign("carol")
	nobody := dial(t, a)
	var person [16]byte
	copy(person[:], "ada\n")
	if n := s.Drop(person); n != 2 {
		t.Errorf("%d connections", n)
	}
	expectEnd(t, ada)
	expectEnd(t, again)
	_, _ = io.WriteString(bob, "bob\n")
	expect(t, bob, "in\n")
	if n := s.Drop([16]byte{}); n != 2 {
		t.Errorf("%d connections of all", n)
	}
	expectEnd(t, bob)
	expectEnd(t, carol)
	_, _ = io.WriteString(nobody, "dora\n")
	expect(t, nobody, "in\n")
}
