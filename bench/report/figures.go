package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"doublet/bench/record"
	"doublet/stat/chart"
	"doublet/stat/repeats"
)

// figures creates the figures of the documents: against users, then over time.
func (r *Report) figures() {
	byUsers := func(title, y, note string, lines ...Line) {
		kept := lines[:0]
		for _, l := range lines {
			if len(l.Points) > 0 {
				kept = append(kept, l)
			}
		}
		// A figure of one step is a single point, which the table shows too.
		if len(kept) > 0 && len(r.Run.Steps) > 1 {
			r.Figures = append(r.Figures, &Chart{Title: title, Y: y, X: "active users", Note: note, Lines: kept,
				Top: topOf(y)})
		}
	}
	latency := func(name string, of func(*record.Total) time.Duration) Line {
		return r.line(name, func(s *record.Step) (float64, bool) {
			t := r.Run.Total(s.Index, record.All)
			return of(&t).Seconds() * 1000, t.Latency.Count() > 0
		})
	}
	byUsers(responseTime, "ms", "from the moment the user wanted the answer",
		latency("average", func(t *record.Total) time.Duration { return t.Latency.Mean() }),
		latency("p50", func(t *record.Total) time.Duration { return t.Latency.Percentile(50) }),
		latency("p90", func(t *record.Total) time.Duration { return t.Latency.Percentile(90) }))
	r.limit(responseTime)
	byUsers("Response time, p99", "ms", "one action in a hundred took longer",
		latency("p99", func(t *record.Total) time.Duration { return t.Latency.Percentile(99) }))
	byUsers("Probe response", "ms", "the median of one small operation, once a second, by somebody apart",
		r.line("median", func(s *record.Step) (float64, bool) {
			v, n := r.Run.Mean(s, "probe", "", "p50")
			return v * 1000, n > 0
		}))
	byUsers("Throughput", "user actions a minute (TPM)", "",
		r.line("TPM", func(s *record.Step) (float64, bool) { return r.Run.TPM(s), true }))
	byUsers("External throughput rate (ETR)", "user actions a second", "", r.line("ETR", r.etr))
	byUsers("Internal throughput rate (ITR)", "user actions a second",
		"ETR, if the server used all processors that it may use", r.line("ITR", func(s *record.Step) (float64, bool) {
			pct, known := serverBusy(r.Run, s)
			etr, _ := r.etr(s)
			return etr / pct * 100, known && pct > 0
		}))
	cpu := []Line{r.line("whole machine", func(s *record.Step) (float64, bool) {
		v, n := r.Run.Mean(s, "server", "", "cpu_pct")
		return v, n > 0
	})}
	cores := 1.0
	if r.Run.Header.Server != nil {
		cores = float64(max(1, r.Run.Header.Server.CPUs))
	}
	for _, g := range r.groups() {
		cpu = append(cpu, r.line(g, func(s *record.Step) (float64, bool) {
			v, n := r.Run.Mean(s, "server", g, "cpu")
			return v / cores * 100, n > 0
		}))
	}
	byUsers("Processor", "percent of the server's machine", "", cpu...)
	r.memory(byUsers)
	r.disk(byUsers)
	network := func(name, value string) Line {
		return r.line(name, func(s *record.Step) (float64, bool) {
			v, n := r.Run.Mean(s, "server", "", value)
			return v / 1e3, n > 0
		})
	}
	byUsers("Network", "KB a second", "the whole machine; loopback is counted apart", network("in", "net_in"),
		network("out", "net_out"), network("loopback", "loopback"))
	r.overTime()
}

// responseTime is the title of the figure that has the workload's limit.
const responseTime = "Response time"

// limit draws the limit of the workload into a figure; its note tells a limit that is far above.
func (r *Report) limit(title string) {
	limit := time.Duration(r.Run.Header.Workload.Limit)
	for _, f := range r.Figures {
		if f.Title == title && limit > 0 {
			f.Limit, f.LimitName = limit.Seconds()*1000, "limit of the average: "+ms(limit)
			if !f.ShowsLimit() {
				f.Note += "; the limit of the average, " + ms(limit) + ", is above the figure"
			}
		}
	}
}

func (r *Report) etr(s *record.Step) (float64, bool) { return r.Run.TPM(s) / 60, true }

// moments returns the events that figures over time mark.
func (r *Report) moments() (out []chart.Moment) {
	for _, e := range r.Run.Events {
		if e.Mark != "" {
			out = append(out, chart.Moment{X: e.At.Seconds(), Name: e.Mark})
		}
	}
	return out
}

func (r *Report) memory(byUsers func(title, y, note string, lines ...Line)) {
	var lines []Line
	for _, g := range r.groups() {
		lines = append(lines, r.line(g, func(s *record.Step) (float64, bool) {
			v, n := r.Run.Mean(s, "server", g, "pss")
			return v / 1e6, n > 0 && v > 0
		}))
	}
	byUsers("Memory", "MB (PSS)", "what the server's processes alone would free", lines...)
}

func (r *Report) disk(byUsers func(title, y, note string, lines ...Line)) {
	disks := r.disks()
	sum := func(value string) func(*record.Step) (float64, bool) {
		return func(s *record.Step) (float64, bool) { return Disks(r.Run, s, value) }
	}
	mega := func(fn func(*record.Step) (float64, bool)) func(*record.Step) (float64, bool) {
		return func(s *record.Step) (float64, bool) { v, ok := fn(s); return v / 1e6, ok }
	}
	byUsers("Disk operations", "a second", "", r.line("reads", sum("reads")), r.line("writes", sum("writes")),
		r.line("flushes", sum("flushes")))
	byUsers("Disk transfer", "MB a second", "", r.line("read", mega(sum("read_bytes"))),
		r.line("written", mega(sum("write_bytes"))))
	byUsers("Disk utilisation", "percent busy", "the busiest disk", r.line("busy", func(s *record.Step) (float64,
		bool) {
		return Busiest(r.Run, s, "busy_pct")
	}))
	byUsers("Disk response", "ms", "of a read or write, on the slowest disk",
		r.line("response", func(s *record.Step) (float64, bool) { return Busiest(r.Run, s, "response_ms") }))
	if len(r.Run.Steps) < 2 || len(disks) == 0 {
		return
	}
	busy := Line{Name: "average response"}
	for i := range r.Run.Steps {
		s := &r.Run.Steps[i]
		most := 0.0
		for _, d := range disks {
			v, _ := r.Run.Mean(s, "server", d, "busy_pct")
			most = max(most, v)
		}
		t := r.Run.Total(s.Index, record.All)
		busy.Points = append(busy.Points, Point{X: most, Y: t.Latency.Mean().Seconds() * 1000,
			Hollow: s.Outcome != record.Measured})
	}
	slices.SortStableFunc(busy.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	r.Figures = append(r.Figures, &Chart{Title: "Response time against disk utilisation", Y: "ms",
		X: "percent busy, the busiest disk", Lines: []Line{busy}})
}

// line returns a value of each step against its number of users. Repeated steps are one point, their mean.
func (r *Report) line(name string, of func(*record.Step) (float64, bool)) Line {
	l := Line{Name: name}
	for i := range r.Run.Steps {
		s := &r.Run.Steps[i]
		if v, ok := of(s); ok {
			l.Points = append(l.Points, Point{X: float64(s.Users), Y: v, Hollow: s.Outcome != record.Measured})
		}
	}
	// The steps of a search, and repeated ones, are not in ascending order.
	slices.SortStableFunc(l.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	return merged(l)
}

// merged returns a line, sorted by X, with one point for all points of a kind at the same X: their mean with its
// interval, if there are several.
func merged(l Line) Line {
	out := Line{Name: l.Name}
	var values []float64
	for _, p := range l.Points {
		if n := len(out.Points); n > 0 && out.Points[n-1].X == p.X && out.Points[n-1].Hollow == p.Hollow {
			values = append(values, p.Y)
			last := &out.Points[n-1]
			last.Y, last.Low, last.High = repeats.Mean(values)
			continue
		}
		out.Points, values = append(out.Points, p), append(values[:0], p.Y)
	}
	return out
}

// overTime creates the figures of latency, rate and the server's processor use over the run.
func (r *Report) overTime() {
	type moment struct {
		latency        record.Histogram
		n              int64
		failed, missed uint64
		seconds        float64
	}
	var order []record.Duration
	at := map[record.Duration]*moment{}
	for i := range r.Run.Intervals {
		x := &r.Run.Intervals[i]
		if x.Action == record.Sync {
			continue
		}
		m := at[x.To]
		if m == nil {
			m = &moment{seconds: (x.To - x.From).Seconds()}
			at[x.To] = m
			order = append(order, x.To)
		}
		m.latency.Merge(&x.Latency)
		m.n += x.Latency.Count()
		m.missed += x.Missed
		for _, n := range x.Errors {
			m.failed += n
		}
	}
	p50, p99, rate := Line{Name: "p50"}, Line{Name: "p99"}, Line{Name: "actions"}
	failed, missed, bad := Line{Name: "errors"}, Line{Name: "missed"}, false
	every := max(1, len(order)/maxOverTime+1)
	for start := 0; start < len(order); start += every {
		var all moment
		part := order[start:min(start+every, len(order))]
		for _, t := range part {
			all.latency.Merge(&at[t].latency)
			all.n += at[t].n
			all.seconds += at[t].seconds
			all.failed += at[t].failed
			all.missed += at[t].missed
		}
		x := part[len(part)-1].Seconds()
		p50.Points = append(p50.Points, Point{X: x, Y: all.latency.Percentile(50).Seconds() * 1000})
		p99.Points = append(p99.Points, Point{X: x, Y: all.latency.Percentile(99).Seconds() * 1000})
		if all.seconds > 0 {
			rate.Points = append(rate.Points, Point{X: x, Y: float64(all.n) / all.seconds})
			failed.Points = append(failed.Points, Point{X: x, Y: float64(all.failed) / all.seconds})
			missed.Points = append(missed.Points, Point{X: x, Y: float64(all.missed) / all.seconds})
			bad = bad || all.failed+all.missed > 0
		}
	}
	add := func(title, y, note string, lines ...Line) {
		if len(lines[0].Points) > 1 {
			r.Figures = append(r.Figures, &Chart{Title: title, Y: y, X: "minutes of the run", Note: note, Lines: lines,
				Time: true, Top: topOf(y), Moments: r.moments()})
		}
	}
	add("Response time over time", "ms", "the median; all phases, ramps and settling too", p50)
	add("Response time over time, p99", "ms", "all phases, ramps and settling too", p99)
	add("Rate over time", "user actions a second", "", rate)
	if bad {
		add("Errors over time", "a second", "what failed, and what could not begin in time", failed, missed)
	}
	probe, cpu := Line{Name: "median"}, Line{Name: "processor"}
	for i := range r.Run.Samples {
		x := &r.Run.Samples[i]
		switch {
		case x.Host == "probe":
			probe.Points = append(probe.Points, Point{X: x.At.Seconds(), Y: x.Values["p50"] * 1000})
		case x.Host == "server" && x.Group == "":
			cpu.Points = append(cpu.Points, Point{X: x.At.Seconds(), Y: x.Values["cpu_pct"]})
		}
	}
	add("Processor over time", "percent of the server's machine", "", thin(cpu))
	r.serversOverTime(add)
	add("Probe over time", "ms", "one small operation, once a second, by somebody apart", thin(probe))
}

// thin reduces a line to at most maxOverTime points: the maximum of each section.
func thin(l Line) Line {
	every := len(l.Points)/maxOverTime + 1
	out := Line{Name: l.Name, Steps: l.Steps}
	for start := 0; start < len(l.Points); start += every {
		part := l.Points[start:min(start+every, len(l.Points))]
		best := part[0]
		for _, p := range part {
			if p.Y > best.Y {
				best = p
			}
		}
		out.Points = append(out.Points, best)
	}
	return out
}

// topOf returns 100 for an axis of percent, else 0.
func topOf(unit string) float64 {
	if strings.HasPrefix(unit, "percent") {
		return 100
	}
	return 0
}
