package sim

import (
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/env"
)

// TestSim runs seeds in parallel, one per processor. SEEDS=n runs n seeds, SEEDS=a-b a range, and SEED=a one seed with
// its log. NOFOLDERS=1 disables changes of folders. By default it runs the first 10 seeds; .ci/run has make sim run
// 200.
func TestSim(t *testing.T) {
	first, last := uint64(1), uint64(10)
	number := func(name, text string) uint64 {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("%s=%s", name, os.Getenv(name))
		}
		return n
	}
	if s := os.Getenv("SEEDS"); s != "" {
		a, b, isRange := strings.Cut(s, "-")
		if last = number("SEEDS", a); isRange {
			first, last = last, number("SEEDS", b)
		}
	}
	verbose := false
	if s := os.Getenv("SEED"); s != "" {
		first = number("SEED", s)
		last, verbose = first, true
	}
	began := time.Now()
	var mu sync.Mutex
	var sum Result
	next, runs, failed := first, 0, 0
	// run takes one seed after the other until none is left or enough have failed.
	run := func() {
		for {
			mu.Lock()
			seed := next
			if next++; seed > last || failed >= maxFailed {
				mu.Unlock()
				return
			}
			mu.Unlock()
			res, log, err := Run(Config{Seed: seed, NoFolders: os.Getenv("NOFOLDERS") != ""})
			mu.Lock()
			runs++
			add(&sum, &res)
			switch {
			case err != nil:
				failed++
				if !verbose {
					log = log[max(0, len(log)-120):]
				}
				t.Errorf("SEED=%d: %v\n%s", seed, err, strings.Join(log, "\n"))
			case verbose:
				t.Log(strings.Join(log, "\n"))
			}
			mu.Unlock()
		}
	}
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(run)
	}
	all.Wait()
	t.Logf("%d seeds in %s: %+v", runs, time.Since(began).Round(time.Second), sum)
}

// maxFailed is the number of failed seeds after which no more seeds are run.
const maxFailed = 20

func add(sum, r *Result) {
	for _, x := range []struct{ to, from *int }{
		{&sum.Servers, &r.Servers}, {&sum.Databases, &r.Databases}, {&sum.Delivered, &r.Delivered},
		{&sum.Degraded, &r.Degraded},
		{&sum.Flags, &r.Flags}, {&sum.Moves, &r.Moves}, {&sum.Expunges, &r.Expunges}, {&sum.Edits, &r.Edits},
		{&sum.Syncs, &r.Syncs},
		{&sum.Crashes, &r.Crashes}, {&sum.Cuts, &r.Cuts}, {&sum.DiskLosses, &r.DiskLosses},
		{&sum.FullDisks, &r.FullDisks}, {&sum.Restores, &r.Restores},
		{&sum.TakeOvers, &r.TakeOvers}, {&sum.HandOvers, &r.HandOvers}, {&sum.StepDowns, &r.StepDowns},
		{&sum.Joined, &r.Joined},
		{&sum.Removed, &r.Removed},
	} {
		*x.to += *x.from
	}
	sum.Quiet = max(sum.Quiet, r.Quiet)
}

// TestLogAttrs checks that the log of a run has the attributes of a logger before those of the record.
func TestLogAttrs(t *testing.T) {
	w := &world{now: env.TestStart}
	log := slog.New(&logHandler{s: &server{w: w, name: "S1"}}).With("database", "D")
	log.With("mate", "S2").Info("cluster: replicate", "notes", 3)
	log.Warn("cluster: replicate", "notes", 4)
	log.Info("store: not of the cluster")
	want := []string{"     0.0  S1: replicate database=D mate=S2 notes=3", "     0.0  S1: replicate database=D notes=4"}
	if !slices.Equal(w.log, want) {
		t.Errorf("%q, want %q", w.log, want)
	}
}
