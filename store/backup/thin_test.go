package backup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doublet/store/archive"
	"doublet/store/blob"
)

// kept is the model of a Keep: for each unit, it walks back through the periods that have a good generation, and keeps
// the latest one of each.
func (k Keep) kept(list []Generation) (out []uint64) {
	var good []Generation
	for _, g := range list {
		if g.counts() {
			good = append(good, g)
		}
	}
	if len(good) == 0 || k == (Keep{}) {
		for _, g := range list {
			out = append(out, g.Number)
		}
		return out
	}
	newest := good[len(good)-1].Number
	stays := map[uint64]bool{newest: true}
	year := func(t time.Time) string { return t.UTC().Format("2006") }
	month := func(t time.Time) string { return t.UTC().Format("200601") }
	day := func(t time.Time) string { return t.UTC().Format("20060102") }
	week := func(t time.Time) string { // the day of its Monday
		t = t.UTC()
		return t.AddDate(0, 0, -(int(t.Weekday())+6)%7).Format("20060102")
	}
	for _, u := range []struct {
		n    int
		name func(time.Time) string
	}{{k.Days, day}, {k.Weeks, week}, {k.Months, month}, {k.Years, year}} {
		latest := map[string]uint64{}
		for _, g := range good {
			latest[u.name(g.Began)] = g.Number
		}
		numbers := slices.Sorted(func(yield func(uint64) bool) {
			for _, n := range latest {
				if !yield(n) {
					return
				}
			}
		})
		for _, n := range numbers[max(0, len(numbers)-u.n):] {
			stays[n] = true
		}
	}
	for _, g := range list {
		if stays[g.Number] || g.Number > newest || g.unread {
			out = append(out, g.Number)
		}
	}
	return out
}

// TestKeepYear thins generations of a simulated year after each one, as the server does, and compares what stays with
// the model. Some generations are damaged or were never checked; some days have none, some have several.
func TestKeepYear(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		k := Keep{rng.IntN(9), rng.IntN(6), rng.IntN(14), rng.IntN(3)}
		now := time.Date(2025, 11, 26, 3, 0, 0, 0, time.UTC)
		var list []Generation
		for end := now.AddDate(1, 0, 0); now.Before(end); {
			now = now.Add(time.Duration(rng.Int64N(int64(60 * time.Hour))))
			g := Generation{Number: uint64(len(list) + 1), Began: now, Checked: Checked{Level: CheckOpen}}
			if n := len(list); n > 0 {
				g.Number = list[n-1].Number + 1
			}
			switch rng.IntN(12) {
			case 0:
				g.Damage, g.unread = ErrDamaged, rng.IntN(9) == 0
			case 1:
				g.Checked.Level = ""
			}
			list = append(list, g)
			want, gone := k.kept(list), k.doomed(list)
			list = slices.DeleteFunc(list, func(g Generation) bool {
				return slices.ContainsFunc(gone, func(d Generation) bool { return d.Number == g.Number })
			})
			var have []uint64
			for _, g := range list {
				have = append(have, g.Number)
			}
			if !slices.Equal(have, want) {
				t.Fatalf("seed %d, %+v, %s: %v, want %v", seed, k, now, have, want)
			}
		}
		if len(list) > 120 {
			t.Errorf("%d stay", len(list))
		}
	}
}

// TestParseKeep parses texts.
func TestParseKeep(t *testing.T) {
	t.Parallel()
	if k, err := ParseKeep(" 7d 4w  12m 3y "); err != nil || k != (Keep{7, 4, 12, 3}) {
		t.Errorf("%+v %v", k, err)
	}
	if k, err := ParseKeep(""); err != nil || k != (Keep{}) {
		t.Errorf("%+v %v", k, err)
	}
	for _, bad := range []string{"7", "d", "0d", "-1d", "7d 8d", "7x", "7d,4w", "99999d", "1.5d", "7dd"} {
		if k, err := ParseKeep(bad); err == nil || k != (Keep{}) {
			t.Errorf("%q: %+v %v", bad, k, err)
		}
	}
}

// TestThin thins real backups with an archive: each one that stays can be restored, and so can every moment after the
// oldest of them.
func TestThin(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRecorded(t, 30)
	r.turn()
	var at []doneAt
	for range 12 {
		r.base()
		at = append(at, doneAt{r.f.Time.Now(), r.done()})
		for range 4 {
			r.second()
			r.turn()
		}
		r.f.Time.Advance(17 * time.Hour)
	}
	r.end()
	k := Keep{Days: 2, Weeks: 1, Months: 1}
	before := r.files()
	dry, err := Thin(ctx, r.f.Env, "backup", k, true)
	if err != nil || len(dry.Generations) == 0 || r.files() != before {
		t.Fatalf("dry run: %+v %v, %d files, %d before", dry, err, r.files(), before)
	}
	got, err := Thin(ctx, r.f.Env, "backup", k, false)
	if err != nil || !slices.Equal(got.Generations, dry.Generations) || got.Files <= dry.Files || r.files() >= before {
		t.Fatalf("%+v %v; the dry run: %+v", got, err, dry)
	}
	list, err := List(ctx, r.f.Env, "backup")
	if err != nil || len(list)+len(got.Generations) != 12 || list[len(list)-1].Number != 12 {
		t.Fatalf("%d stay, %v", len(list), err)
	}
	for _, g := range list {
		if _, err := Verify(ctx, r.f.Env, "backup", g.Number, Options{}); err != nil {
			t.Error(err)
		}
		dir := fmt.Sprint("generation", g.Number)
		_, err := Restore(ctx, r.f.Env, "backup", dir, RestoreOptions{At: g.Number, Store: storeOptions()})
		if err != nil {
			t.Fatal(err)
		}
		n := at[g.Number-1].n
		r.compare(r.f.Env, dir, n, n)
	}
	for _, d := range r.times {
		if d.at.After(list[0].Archive.Captured) && r.rng.IntN(4) == 0 {
			r.restore(d)
		}
	}
	if ranges := r.moments(); len(ranges) != 1 || ranges[0].From.Before(list[0].Began) {
		t.Errorf("%v", ranges)
	}
	// The archive from before the oldest generation is gone.
	steps, err := r.target.List(ctx, "archive/")
	if err != nil || len(steps) == 0 {
		t.Fatal(steps, err)
	}
	again, err := Thin(ctx, r.f.Env, "backup", k, false)
	if err != nil || len(again.Generations) != 0 || again.Files != 0 {
		t.Errorf("thinned again: %+v %v", again, err)
	}
}

// files returns the number of blobs of the backup place.
func (r *recorded) files() int {
	r.t.Helper()
	p, err := blob.Open(r.f.Env, r.place)
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := p.List(context.Background(), "")
	if err != nil {
		r.t.Fatal(err)
	}
	return len(list)
}

// TestThinKeepsNewestGood thins when the latest generations are damaged: the latest good one and its log stay.
func TestThinKeepsNewestGood(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := newRecorded(t, 31)
	r.turn()
	for range 5 {
		r.base()
		r.second()
		r.turn()
		r.f.Time.Advance(time.Minute)
	}
	r.end()
	place, err := blob.Open(r.f.Env, "backup")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"4", "5"} {
		if err := place.Put(ctx, "generation-00000"+n+checkedSuffix,
			[]byte(`{"level":"open","failed":"it cannot be read"}`)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Thin(ctx, r.f.Env, "backup", Keep{Days: 1}, false)
	if err != nil || fmt.Sprint(got.Generations) != "[1 2]" || fmt.Sprint(got.Uncounted) != "[4 5]" {
		t.Fatalf("%+v %v", got, err)
	}
	list, err := List(ctx, r.f.Env, "backup")
	if err != nil || len(list) != 3 || list[0].Number != 3 || list[0].Damage != nil {
		t.Fatalf("%v %v", list, err)
	}
	last := r.times[len(r.times)-1]
	r.restore(last)
	if err := place.Remove(ctx, "generation-000003"); err != nil {
		t.Fatal(err)
	}
	if got, err := Thin(ctx, r.f.Env, "backup", Keep{Days: 1}, false); err != nil || len(got.Generations) != 0 {
		t.Errorf("without a good one: %+v %v", got, err)
	}
	_, err = Restore(ctx, r.f.Env, "backup", "none", RestoreOptions{To: last.at, Store: storeOptions()})
	if !errors.Is(err, archive.ErrNoMoment) {
		t.Error(err)
	}
}

// FuzzParseKeep parses any text. What is accepted keeps the same when it is written again.
func FuzzParseKeep(f *testing.F) {
	f.Add("7d 4w 12m 3y")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParseKeep(text)
		if err != nil {
			return
		}
		again := ""
		for unit, n := range map[string]int{"d": k.Days, "w": k.Weeks, "m": k.Months, "y": k.Years} {
			if n > 0 {
				again += fmt.Sprint(" ", n, unit)
			}
		}
		if b, err := ParseKeep(again); err != nil || b != k {
			t.Errorf("%q: %+v, again %+v, %v", text, k, b, err)
		}
	})
}
