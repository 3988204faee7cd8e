package collect

import (
	"context"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
	"doublet/store"
)

func open(t *testing.T) (*env.Fixture, *stat.Tree, *History) {
	t.Helper()
	f := env.Test(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	tree := stat.New(f.Clock)
	h, err := Open(s, f.Env, tree)
	if err != nil {
		t.Fatal(err)
	}
	return f, tree, h
}

func times(t *testing.T, h *History, from time.Time) (list []time.Time) {
	t.Helper()
	if err := h.Each(context.Background(), from, func(r *Report) bool {
		list = append(list, r.Time)
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return list
}

// TestReport checks that a report holds whole and broken numbers and texts, and that a reopened database has it.
func TestReport(t *testing.T) {
	t.Parallel()
	f, tree, h := open(t)
	ctx := context.Background()
	mail := tree.Counter("Mail.Delivered", "x")
	tree.GaugeFunc("Mail.Average", "x", func() float64 { return 1.25 })
	tree.Text("Server.Name", "x", func() string { return "one" })
	mail.Add(7)
	if n, err := h.Collect(ctx); err != nil || n != 3 {
		t.Fatal(n, err)
	}
	first := f.Clock.Now()
	f.Time.Advance(15 * time.Minute)
	mail.Add(5)
	if _, err := h.Collect(ctx); err != nil {
		t.Fatal(err)
	}
	again, err := Open(h.store, f.Env, tree)
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	err = again.Each(ctx, first, func(r *Report) bool {
		v, ok := r.Number("Mail.Delivered")
		if !ok {
			t.Error("no Mail.Delivered")
		}
		got = append(got, v)
		r.Each("mail", func(name string, v float64) {
			if name == "Mail.Average" && v != 1.25 || name == "Server.Name" {
				t.Error(name, v)
			}
		})
		if _, ok := r.Number("Server.Name"); ok {
			t.Error("a text is a number")
		}
		return true
	})
	if err != nil || len(got) != 2 || got[0] != 7 || got[1] != 12 {
		t.Errorf("%v %v", got, err)
	}
	if list := times(t, h, f.Clock.Now()); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

// TestThin compares what is kept with the rule, over six years with reports at irregular times and the database thinned
// now and then.
func TestThin(t *testing.T) {
	t.Parallel()
	f, _, h := open(t)
	ctx := context.Background()
	const keep = 48 * time.Hour
	var all []time.Time
	r := f.Env.Uint64
	for range 1500 {
		step := time.Duration(r()%40) * time.Minute
		if r()%5 == 0 {
			step = time.Duration(r()%200) * time.Hour
		}
		f.Time.Advance(step + time.Second)
		if _, err := h.Collect(ctx); err != nil {
			t.Fatal(err)
		}
		all = append(all, f.Clock.Now().UTC().Truncate(time.Second))
		if r()%50 == 0 {
			if _, err := h.Thin(ctx, keep); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := h.Thin(ctx, keep); err != nil {
		t.Fatal(err)
	}
	now := f.Clock.Now()
	kept := map[time.Time]bool{}
	for _, at := range times(t, h, time.Time{}) {
		kept[at] = true
	}
	hours, days, young := map[int64]int{}, map[int64]int{}, 0
	for _, at := range all {
		switch age := now.Sub(at); {
		case age < keep:
			young++
			if !kept[at] {
				t.Errorf("%s old: removed", age)
			}
		case age > longest+time.Second:
			if kept[at] {
				t.Errorf("%s old: still there", age)
			}
		case age > yearly && kept[at]:
			days[at.Unix()/86400]++
		case age > keep && kept[at]:
			hours[at.Unix()/3600]++
		}
	}
	for span, list := range map[string]map[int64]int{"hour": hours, "day": days} {
		if len(list) < 20 {
			t.Errorf("only %d: the test sees too little", len(list))
		}
		for at, n := range list {
			if n > 1 {
				t.Errorf("%d reports of %s %d", n, span, at)
			}
		}
	}
	// Every hour and day of which there was a report still has one.
	for _, at := range all {
		if age := now.Sub(at); age < longest && days[at.Unix()/86400] == 0 && hours[at.Unix()/3600] == 0 && !kept[at] &&
			age > yearly+24*time.Hour {
			t.Errorf("nothing is left of the day of %s", at)
		}
	}
	if n, err := h.Thin(ctx, keep); n != 0 || err != nil {
		t.Errorf("thinned again: %d %v", n, err)
	}
}
