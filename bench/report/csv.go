package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"doublet/bench/record"
)

// CSV writes a row for each step and action: counts, and latencies in milliseconds.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"users", "outcome", "action", "completed", "per_minute", "average_ms", "p50_ms", "p90_ms",
		"p95_ms", "p99_ms", "max_ms", "errors", "missed", "sent_bytes", "received_bytes"})
	f := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	for i := range r.Run.Steps {
		s := &r.Run.Steps[i]
		for _, name := range append([]string{record.All}, r.Run.Actions()...) {
			t := r.Run.Total(s.Index, name)
			minutes := time.Duration(s.To - s.From).Minutes()
			if minutes <= 0 {
				continue
			}
			ms := func(d time.Duration) string { return f(float64(d.Microseconds()) / 1000) }
			if name == record.All {
				name = "all"
			}
			_ = out.Write([]string{strconv.Itoa(s.Users), string(s.Outcome), name,
				strconv.FormatInt(t.Latency.Count(), 10), f(float64(t.Latency.Count()) / minutes),
				ms(t.Latency.Mean()), ms(t.Latency.Percentile(50)), ms(t.Latency.Percentile(90)),
				ms(t.Latency.Percentile(95)), ms(t.Latency.Percentile(99)), ms(t.Latency.Max()),
				strconv.FormatUint(t.Failed, 10), strconv.FormatUint(t.Missed, 10), strconv.FormatUint(t.Sent, 10),
				strconv.FormatUint(t.Received, 10)})
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("report: CSV: %w", err)
	}
	return nil
}
