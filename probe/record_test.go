package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestFlushFails checks that events that cannot be written are all written later.
func TestFlushFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const n = 2*piece + 50
	r.log.changing.Lock()
	for i := range n {
		f := Finding{Target: fmt.Sprint(i), Severity: Failure}
		r.log.put(newEvent(&testKind, &f, r.Clock.Now()), news)
	}
	r.log.changing.Unlock()
	ended, end := context.WithCancel(context.Background())
	end()
	if err := r.log.Flush(ended); err == nil {
		t.Fatal("written after the end of the context")
	}
	if err := r.log.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	r.restart()
	if got := len(r.log.List(Query{})); got != n {
		t.Errorf("%d events of %d are left", got, n)
	}
}

// TestNewChannel checks that a channel that has never sent anything loses nothing by a restart, and that it is not sent
// what happened before it was attached.
func TestNewChannel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	got, fail := 0, errors.New("no network")
	attach := func() {
		r.log.Attach(Channel{Name: "new", Batch: 10, Send: func(_ context.Context, list []Event, _ int) error {
			if fail == nil {
				got += len(list)
			}
			return fail
		}})
	}
	r.list = []Finding{{Target: "old", Severity: Failure}}
	r.run(time.Minute)
	attach()
	r.list = append(r.list, Finding{Target: "new", Severity: Failure})
	r.run(time.Minute)
	r.log.Deliver(context.Background())
	r.restart()
	attach()
	fail = nil
	r.log.Deliver(context.Background())
	if got != 1 {
		t.Errorf("%d events sent", got)
	}
	r.run(Tick)
	r.restart()
	attach()
	if r.log.Deliver(context.Background()); got != 1 {
		t.Errorf("%d events sent after another restart", got)
	}
}

// TestEndIsNotified checks that a channel that was told of an event learns of its end, although the event was less
// severe by then, or a person closed it.
func TestEndIsNotified(t *testing.T) {
	t.Parallel()
	for _, closes := range []bool{false, true} {
		r := newRig(t)
		var got []State
		attach := func() {
			r.log.Attach(Channel{Name: "x", Least: Failure, Batch: 10,
				Send: func(_ context.Context, list []Event, _ int) error {
					got = append(got, list[0].State)
					return nil
				}})
		}
		attach()
		for _, list := range [][]Finding{disk(Failure, "2 % free"), disk(WarningLow, "9 % free")} {
			r.list = list
			r.run(5 * time.Minute)
			r.log.Deliver(context.Background())
		}
		r.run(Tick)
		r.restart()
		attach()
		if closes {
			if _, err := r.log.Close(context.Background(), r.only().ID, "Ada", false); err != nil {
				t.Fatal(err)
			}
		} else {
			r.list = nil
		}
		r.run(5 * time.Minute)
		r.log.Deliver(context.Background())
		if fmt.Sprint(got) != "[open closed]" {
			t.Errorf("by a person %v: %v", closes, got)
		}
	}
}

// TestSlowChannel checks that a channel that hangs or panics does not stop another one.
func TestSlowChannel(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	sent := make(chan struct{})
	r.log.Attach(Channel{Name: "hangs", Batch: 1, Send: func(ctx context.Context, _ []Event, _ int) error {
		<-ctx.Done()
		return ctx.Err()
	}})
	r.log.Attach(Channel{Name: "panics", Batch: 1, Send: func(context.Context, []Event, int) error { panic("ouch") }})
	r.log.Attach(Channel{Name: "works", Batch: 1, Send: func(context.Context, []Event, int) error {
		close(sent)
		return nil
	}})
	r.list = disk(Failure, "2 % free")
	r.run(time.Minute)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- r.log.Notify(ctx) }()
	<-sent
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestSwitchOff checks that the event about a probe that fails closes when the probe is switched off.
func TestSwitchOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.err = errors.New("cannot read")
	r.run(5 * time.Minute)
	plan, err := ParsePlan([]*Kind{&testKind}, Settings{Run: "none"})
	if err != nil {
		t.Fatal(err)
	}
	r.m.Replan(plan, time.Hour)
	r.run(10 * time.Minute)
	list := r.log.List(Query{})
	if len(list) != 1 || list[0].Probe != "Probe" || list[0].State != StateClosed {
		t.Errorf("%+v", list)
	}
}

// TestTextsOfStrangers checks that a text from outside cannot begin a line in a mail or turn the text around.
func TestTextsOfStrangers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	evil := "a\r\nFATAL  open\x1b[2J\u202e\u2028\xff"
	r.list = []Finding{{Target: evil, Severity: Failure, Cause: evil, Remedy: evil}}
	r.run(time.Minute)
	e := r.only()
	for _, s := range append(e.History, e.Target, e.Cause, e.Remedy) {
		if strings.ContainsAny(s, "\r\n\x1b\u202e\u2028") {
			t.Errorf("%q", s)
		}
	}
}
