package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
	"doublet/store"
)

// rig is a log with a monitor of one probe, whose findings the test sets.
type rig struct {
	*env.Fixture
	t    *testing.T
	s    *store.Store
	tree *stat.Tree
	log  *Log
	m    *Monitor
	list []Finding
	err  error
	boom bool
}

var testKind = Kind{Type: System, Name: "Disk", Remedy: "free some space", Every: Tick, Hold: 10 * time.Second,
	Clear: time.Minute, Limits: []Limit{{"low", 10, Percent}}}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{Fixture: env.Test(t), t: t}
	r.open()
	t.Cleanup(func() {
		if err := r.s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.s, err = store.Open(r.Env, "data", store.Options{FloorBytes: -1, Ballast: -1,
		MemTableSize: 1 << 20}); err != nil {
		r.t.Fatal(err)
	}
	r.tree = stat.New(r.Clock)
	if r.log, err = Open(r.s, r.Env, r.tree); err != nil {
		r.t.Fatal(err)
	}
	r.plan(Settings{Run: "all"})
}

func (r *rig) plan(s Settings) {
	r.t.Helper()
	plan, err := ParsePlan([]*Kind{&testKind}, s)
	if err != nil {
		r.t.Fatal(err)
	}
	check := &Check[int]{Kind: testKind, Find: func(int, Limits) []Finding { return r.list }}
	r.m = NewMonitor(r.log, plan, 24*time.Hour, []*Probe{Bind(check, func(context.Context) (int, error) {
		if r.boom {
			panic("boom")
		}
		return 0, r.err
	})})
}

// restart closes the store and opens it again.
func (r *rig) restart() {
	r.t.Helper()
	if err := r.s.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open()
}

// run lets time pass, a round each Tick.
func (r *rig) run(d time.Duration) {
	for end := r.Clock.Now().Add(d); r.Clock.Now().Before(end); r.Time.Advance(Tick) {
		r.m.Round(context.Background())
	}
}

func (r *rig) only() Event {
	r.t.Helper()
	list := r.log.List(Query{Probe: "Disk"})
	if len(list) != 1 {
		r.t.Fatalf("events: %+v", list)
	}
	return list[0]
}

func disk(s Severity, cause string) []Finding {
	return []Finding{{Target: "/data", Severity: s, Cause: cause}}
}

// TestFold checks that a problem opens one event when it has lasted, that the event repeats, becomes worse and better,
// closes when the problem is gone for a while, and opens again as the same event, over restarts too.
func TestFold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.list = disk(WarningLow, "9 % free")
	r.run(5 * time.Second)
	r.list = nil
	r.run(5 * time.Second)
	if list := r.log.List(Query{}); len(list) != 0 {
		t.Fatalf("a problem that did not last opened %+v", list)
	}
	r.list = disk(WarningLow, "9 % free")
	r.run(30 * time.Second)
	e := r.only()
	if e.State != StateOpen || e.Severity != WarningLow || e.Count < 3 || e.Remedy != "free some space" ||
		e.Type != System {
		t.Fatalf("%+v", e)
	}
	first := e.First
	r.list = disk(Failure, "2 % free")
	r.run(5 * time.Second)
	if e = r.only(); e.Severity != Failure || e.Cause != "2 % free" {
		t.Fatalf("%+v", e)
	}
	// A value that moves about a threshold does not change the severity to and fro.
	for range 20 {
		r.list = disk(WarningLow, "9 % free")
		r.run(5 * time.Second)
		r.list = disk(Failure, "2 % free")
		r.run(5 * time.Second)
	}
	if e = r.only(); e.Severity != Failure || len(e.History) != 2 {
		t.Fatalf("%+v", e)
	}
	r.list = disk(WarningLow, "9 % free")
	r.run(2 * time.Minute)
	if e = r.only(); e.Severity != WarningLow {
		t.Fatalf("%+v", e)
	}
	r.restart()
	if e := r.only(); e.State != StateOpen || !e.First.Equal(first.Truncate(time.Second)) || len(e.History) != 3 {
		t.Fatalf("after a restart: %+v", e)
	}
	r.list = nil
	r.run(30 * time.Second)
	if e = r.only(); e.State != StateOpen {
		t.Fatal("the event closed too soon")
	}
	r.run(time.Minute)
	if e = r.only(); e.State != StateClosed {
		t.Fatalf("%+v", e)
	}
	r.restart()
	r.list = disk(WarningHigh, "4 % free")
	r.run(30 * time.Second)
	if e = r.only(); e.State != StateOpen || e.Reopened != 1 || e.Severity != WarningHigh {
		t.Fatalf("%+v", e)
	}
	if v := r.tree.Snapshot("Events.Open.System.WarningHigh"); len(v) != 1 || v[0].Value != 1 {
		t.Errorf("statistic %+v", v)
	}
}

// TestFlapping checks that a problem that comes and goes becomes one event that stays open, not a stream of openings.
func TestFlapping(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 100 {
		r.list = disk(WarningLow, "9 % free")
		r.run(time.Minute)
		r.list = nil
		r.run(2 * time.Minute)
	}
	if e := r.only(); e.Reopened > 3 || e.State != StateOpen {
		t.Errorf("opened again %d times", e.Reopened)
	}
}

// TestPeople checks what people do to an event: assign, comment, close, close for good, let it open again.
func TestPeople(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	r.list = disk(WarningLow, "9 % free")
	r.run(20 * time.Second)
	id := r.only().ID
	for _, fn := range []func() (Event, error){
		func() (Event, error) { return r.log.Assign(ctx, id, "Ada", "Grace") },
		func() (Event, error) { return r.log.Comment(ctx, id, "Ada", "ordered a disk") },
		func() (Event, error) { return r.log.Close(ctx, id, "Ada", false) },
	} {
		if _, err := fn(); err != nil {
			t.Fatal(err)
		}
	}
	r.run(10 * time.Minute)
	r.restart()
	r.run(10 * time.Minute)
	e := r.only()
	if e.State != StateClosed || e.Assigned != "Grace" || e.Comment != "ordered a disk" ||
		!strings.Contains(e.History[len(e.History)-1], "Ada: closed") {
		t.Fatalf("%+v", e)
	}
	r.list = disk(Failure, "1 % free")
	r.run(time.Minute)
	if e = r.only(); e.State != StateOpen {
		t.Fatalf("a closed event that became worse: %+v", e)
	}
	if _, err := r.log.Close(ctx, id, "Ada", false); err != nil {
		t.Fatal(err)
	}
	r.list = nil
	r.run(5 * time.Minute)
	r.list = disk(Failure, "1 % free")
	r.run(time.Minute)
	if e = r.only(); e.State != StateOpen {
		t.Fatalf("a closed event whose cause came back: %+v", e)
	}
	if _, err := r.log.Close(ctx, id, "Ada", true); err != nil {
		t.Fatal(err)
	}
	r.list = nil
	r.run(time.Hour)
	r.list = disk(Fatal, "full")
	r.run(time.Hour)
	if e = r.only(); e.State != StatePermanent || e.Cause != "full" {
		t.Fatalf("a permanently closed event: %+v", e)
	}
	if _, err := r.log.Reopen(ctx, id, "Ada"); err != nil {
		t.Fatal(err)
	}
	r.run(time.Minute)
	if e = r.only(); e.State != StateOpen {
		t.Fatalf("%+v", e)
	}
	if _, err := r.log.Reopen(ctx, id, "Ada"); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if _, err := r.log.Assign(ctx, "0", "Ada", "Grace"); !errors.Is(err, ErrNoEvent) {
		t.Error(err)
	}
	if _, err := r.log.Comment(ctx, id, "Ada", strings.Repeat("x", maxText+1)); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if e := r.only(); e.Comment != "ordered a disk" {
		t.Errorf("a refused comment changed it to %q", e.Comment)
	}
}

// TestNotify checks that a channel gets what opens, becomes worse and closes, once, over a restart and failures, and
// nothing that is silenced until the silence ends.
func TestNotify(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	var got []string
	fail := error(nil)
	attach := func() {
		r.log.Attach(Channel{Name: "test", Least: WarningHigh, Batch: 10,
			Send: func(_ context.Context, list []Event, _ int) error {
				if fail == nil {
					for _, e := range list {
						got = append(got, string(e.State)+" "+e.Severity.String())
					}
				}
				return fail
			}})
	}
	step := func(list []Finding) {
		r.list = list
		r.run(5 * time.Minute)
		r.log.Deliver(ctx)
	}
	attach()
	step(disk(WarningLow, "9 % free"))
	step(disk(Failure, "2 % free"))
	fail = errors.New("no network")
	step(nil)
	r.restart()
	attach()
	fail = nil
	r.log.Deliver(ctx)
	r.log.Deliver(ctx)
	if want := "[open failure closed failure]"; fmt.Sprint(got) != want {
		t.Errorf("notified %v, want %s", got, want)
	}
	s, err := r.log.Silence(ctx, Silence{Target: "/da*", Until: r.Clock.Now().Add(time.Hour), By: "Ada"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.log.Flush(ctx); err != nil { // as Notify does at its end
		t.Fatal(err)
	}
	r.restart()
	attach()
	got = nil
	step(disk(Fatal, "full"))
	step(nil)
	if e := r.only(); len(got) != 0 || e.Reopened != 1 {
		t.Errorf("silenced, but notified: %v, %+v", got, e)
	}
	if err := r.log.EndSilence(ctx, s.ID); err != nil || len(r.log.Silences()) != 0 {
		t.Error(err)
	}
	if _, err := r.log.SilenceEvent(ctx, r.only().ID, "Ada", r.Clock.Now().Add(6*time.Minute)); err != nil {
		t.Fatal(err)
	}
	step(disk(Fatal, "full"))
	if len(got) != 0 {
		t.Errorf("silenced, but notified: %v", got)
	}
	step(r.list)
	r.list = nil
	r.run(time.Hour)
	r.log.Deliver(ctx)
	if fmt.Sprint(got) != "[open fatal closed fatal]" {
		t.Errorf("after the silence: %v", got)
	}
	for _, bad := range []Silence{{Until: r.Clock.Now().Add(time.Hour)}, {Target: "[",
		Until: r.Clock.Now().Add(time.Hour)},
		{Target: "x", Until: r.Clock.Now()}, {Target: "x", Until: r.Clock.Now().Add(2 * longestSilence)}} {
		if _, err := r.log.Silence(ctx, bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestAfterSilence checks that a channel is notified after a silence, once, of an event that opened or became worse in
// it and lasts, and of the end of one that it knows; and not of one that it never heard of. The server starts again
// meanwhile.
func TestAfterSilence(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, x := range []struct {
		name                  string
		before, within, after []Finding
		want                  string
	}{
		{"opens", nil, disk(Fatal, "full"), disk(Fatal, "full"), "[open fatal]"},
		{"worse", disk(Failure, "1 %"), disk(Fatal, "full"), disk(Fatal, "full"), "[open failure open fatal]"},
		{"ends", disk(Fatal, "full"), nil, nil, "[open fatal closed fatal]"},
		{"repeats", disk(Fatal, "full"), disk(Fatal, "full"), disk(Fatal, "full"), "[open fatal]"},
		{"less", disk(Fatal, "full"), disk(Failure, "1 %"), disk(Failure, "1 %"), "[open fatal]"},
		{"unheard", nil, disk(Fatal, "full"), nil, "[]"},
	} {
		r := newRig(t)
		var got []string
		step := func(list []Finding) {
			r.list = list
			r.run(30 * time.Minute)
			r.log.Deliver(ctx)
		}
		attach := func() {
			r.log.Attach(Channel{Name: "test", Batch: 10, Send: func(_ context.Context, list []Event, _ int) error {
				for _, e := range list {
					got = append(got, string(e.State)+" "+e.Severity.String())
				}
				return nil
			}})
		}
		attach()
		step(x.before)
		s := Silence{Probe: "Disk", Until: r.Clock.Now().Add(65 * time.Minute), By: "Ada"}
		if _, err := r.log.Silence(ctx, s); err != nil {
			t.Fatal(err)
		}
		heard := len(got)
		step(x.within)
		if err := r.log.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		r.restart()
		attach()
		step(x.after)
		if len(got) != heard {
			t.Errorf("%s: notified of %v in the silence", x.name, got[heard:])
		}
		step(x.after)
		step(x.after)
		if fmt.Sprint(got) != x.want {
			t.Errorf("%s: notified of %v, want %s", x.name, got, x.want)
		}
	}
}

// TestStorm checks that 100,000 problems at once open a bounded number of events, and one that says how many are left
// out; and that old closed events are removed.
func TestStorm(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.log.Attach(Channel{Name: "down", Batch: 50, Send: func(context.Context, []Event, int) error {
		return errors.New("no network")
	}})
	for wave := range 30 {
		r.list = make([]Finding, 100_000/30)
		for i := range r.list {
			r.list[i] = Finding{Target: fmt.Sprint(wave, " ", i), Severity: WarningLow, Cause: "c"}
		}
		r.run(time.Minute)
		if open := r.log.List(Query{Probe: "Disk", State: StateOpen}); len(open) > maxFindings {
			t.Fatalf("%d events are open", len(open))
		}
		if len(r.m.probes[0].held) > maxFindings {
			t.Fatalf("%d problems are held", len(r.m.probes[0].held))
		}
		r.run(2 * time.Minute)
		own := r.log.List(Query{Probe: "Probe", State: StateOpen})
		if len(own) != 1 || !strings.Contains(own[0].Cause, "further problems of the probe Disk are left out") {
			t.Fatalf("%+v", own)
		}
	}
	if n := len(r.log.List(Query{})); n > maxEvents+maxFindings+1 {
		t.Errorf("%d events are kept", n)
	}
	if n := len(r.log.outboxes[0].waiting); n > maxEvents+maxFindings+1 {
		t.Errorf("%d events wait for a channel that is down", n)
	}
	r.list = nil
	r.run(10 * time.Minute)
	r.Time.Advance(48 * time.Hour)
	r.m.Round(context.Background())
	r.restart()
	if n := len(r.log.List(Query{})); n != 0 {
		t.Errorf("%d events are kept too long", n)
	}
}

// TestFailingProbe checks that a probe that fails or panics opens an event of its own, and that what it has found stays
// open meanwhile.
func TestFailingProbe(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		r := newRig(t)
		r.list = disk(Failure, "2 % free")
		r.run(time.Minute)
		if r.boom = panics; !panics {
			r.err = errors.New("cannot read")
		}
		r.run(5 * time.Minute)
		list := r.log.List(Query{State: StateOpen})
		if len(list) != 2 || list[0].Probe != "Disk" || list[1].Target != "Disk" || list[1].Probe != "Probe" {
			t.Fatalf("%+v", list)
		}
		r.boom, r.err = false, nil
		r.run(10 * time.Minute)
		if list := r.log.List(Query{State: StateOpen}); len(list) != 1 || list[0].Probe != "Disk" {
			t.Fatalf("%+v", list)
		}
		r.plan(Settings{Run: "none"})
		r.run(10 * time.Minute)
		if list := r.log.List(Query{State: StateOpen}); len(list) != 0 {
			t.Fatalf("the probe is off: %+v", list)
		}
	}
}

// TestPlan checks the settings of probes.
func TestPlan(t *testing.T) {
	t.Parallel()
	kinds := []*Kind{&testKind, {Name: "Queue", Every: time.Minute, Limits: []Limit{{"age", 3600, Time}, {"size", 1,
		Bytes}}}}
	p, err := ParsePlan(kinds, Settings{Run: "all -queue", Every: "queue=1h", Limits: "Disk.low=5% queue.age=2d " +
		"Queue.size=1GB"})
	if err != nil {
		t.Fatal(err)
	}
	if !p.on["Disk"] || p.on["Queue"] || p.every["Queue"] != time.Hour || p.limits["Disk"]["low"] != 5 ||
		p.limits["Queue"]["age"] != 172800 || p.limits["Queue"]["size"] != 1<<30 {
		t.Errorf("%+v", p)
	}
	for _, bad := range []Settings{{Run: "all -Disc"}, {Every: "Disk"}, {Every: "Disk=1s"}, {Every: "Disk=x"},
		{Limits: "Disk.low"}, {Limits: "low=3"}, {Limits: "Disk.high=3"}, {Limits: "Disk.low=-3"},
		{Limits: "Disk.low=NaN"},
		{Limits: "Queue.age=-3h"}, {Limits: "Queue.age=9999999999d"},
		{Limits: "Queue.age=800000d"}, {Limits: "Queue.size=many"}} {
		if _, err := ParsePlan(kinds, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// FuzzParsePlan checks that no settings crash the parser, and that every limit that it accepts is a number.
func FuzzParsePlan(f *testing.F) {
	f.Add("all -Disk", "Disk=5m", "Disk.low=5%")
	f.Fuzz(func(t *testing.T, run, every, limits string) {
		p, err := ParsePlan([]*Kind{&testKind}, Settings{run, every, limits})
		if err == nil && !(p.limits["Disk"]["low"] >= 0) {
			t.Errorf("limit %v", p.limits["Disk"]["low"])
		}
	})
}
