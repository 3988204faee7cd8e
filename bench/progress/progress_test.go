package progress

import (
	"strings"
	"testing"
	"time"

	"doublet/bench/record"
	"doublet/bench/run"
)

// TestProgress checks that progress is sparse without a terminal, and that its lines fit a terminal.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tell := Console{Out: &out}.Run()
	for step := range 2 {
		for i := range 50 {
			phase := record.Settle
			if i > 20 {
				phase = record.Measure
			}
			tell(run.Progress{Step: step, Steps: 2, Phase: phase, Users: 1_000_000, Active: 999_999,
				Rate: 123456.7, P50: time.Hour, P99: time.Hour, Errors: 1e9, Missed: 1e9, Left: 999 * time.Hour})
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 4 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines: %s", n, out.String())
	}
	for _, l := range block(run.Progress{Steps: 10, Phase: record.Measure, Users: 1_000_000,
		Active: 999_999, Rate: 123456.7, P50: time.Hour, P99: time.Hour, Errors: 1e9, Missed: 1e9,
		Left: 999 * time.Hour}) {
		if len(l) > 79 {
			t.Errorf("%d letters: %s", len(l), l)
		}
	}
}

// TestNote checks that a terminal shows each note in place of the one before, and that a log has the last one only.
func TestNote(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal bool
		want     string
	}{{false, "2 of 2\n"}, {true, "\r\x1b[K1 of 2\r\x1b[K2 of 2\n"}} {
		var out strings.Builder
		console := Console{Out: &out, Terminal: c.terminal}
		console.Note(false, "%d of 2", 1)
		console.Note(true, "%d of 2", 2)
		if out.String() != c.want {
			t.Errorf("terminal %v: %q, want %q", c.terminal, out.String(), c.want)
		}
	}
}
