package run

import (
	"context"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"doublet/bench/drive"
	"doublet/bench/workload"
	"doublet/env"
)

// crewOf returns a crew of n users of a workload, whose server answers at once.
func crewOf(b *testing.B, text string, n int) *Local {
	b.Helper()
	w, err := workload.Parse("x", []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	users := make([]drive.User, n)
	for i := range users {
		users[i].Index = i
	}
	f := &fake{delay: func(int) time.Duration { return 0 }}
	return NewLocal(&Plan{Env: env.Real(slog.New(slog.NewTextHandler(io.Discard, nil))), Workload: w, Protocol: "imap",
		Seed: 1, Speed: 1, Users: users, Open: f.open})
}

// BenchmarkWaitingUsers reports the memory of users who are signed in and wait, without their connections.
func BenchmarkWaitingUsers(b *testing.B) {
	const n = 10_000
	var before, after runtime.MemStats
	for b.Loop() {
		l := crewOf(b, script+"think = \"1h\"\n", n)
		runtime.GC()
		runtime.ReadMemStats(&before)
		if err := l.Begin(context.Background(), Shift{Count: n, LoginRate: 1e9}); err != nil {
			b.Fatal(err)
		}
		for l.now.get() < n {
			time.Sleep(10 * time.Millisecond)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		l.End()
	}
	b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/n, "B/user")
}

// BenchmarkTimers reports the lag of 2,000 users who act once a second each.
func BenchmarkTimers(b *testing.B) {
	l := crewOf(b, script, 2000)
	if err := l.Begin(context.Background(), Shift{Count: 2000, LoginRate: 120_000}); err != nil {
		b.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	l.lag.cut()
	for b.Loop() {
		time.Sleep(10 * time.Second)
	}
	lag := l.lag.cut()
	l.End()
	b.ReportMetric(float64(lag.Percentile(50).Microseconds()), "µs-late-p50")
	b.ReportMetric(float64(lag.Percentile(99).Microseconds()), "µs-late-p99")
	b.ReportMetric(float64(lag.Count()), "begun")
}
