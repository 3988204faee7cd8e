package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	meterLine    = "run: processor seconds " // start of the line of meter
	slowPackages = 12                        // number of packages in the figures
	slowTests    = 16                        // number of tests in the figures
	namedSkips   = 12                        // number of tests per reason for a skip
)

// event is a line of go test -json.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build
	Test       string
	Elapsed    float64
	Output     string
}

// timed is a package or test with its time in seconds.
type timed struct {
	name           string
	wall, consumed float64 // consumed is 0 if it was not measured
}

func (t timed) String() string {
	if t.consumed == 0 {
		return fmt.Sprintf("%7.1f s  %s", t.wall, t.name)
	}
	return fmt.Sprintf("%7.1f s %7.1f s of processor  %s", t.wall, t.consumed, t.name)
}

// test identifies a test of a package; name is empty for the package itself.
type test struct{ pkg, name string }

// report reads the events of go test, prints failures, and collects figures.
type report struct {
	out      io.Writer
	output   map[test]*bytes.Buffer // of tests that have not ended; of packages with an empty name
	consumed map[string]float64     // processor seconds by package, if measured
	packages []timed
	tests    []timed
	count    int
	cached   int
	failed   []string
	skipped  map[string][]string // by reason
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[test]*bytes.Buffer{}, consumed: map[string]float64{},
		skipped: map[string][]string{}}
}

// read reads all events up to the end of in. It prints lines that are no events.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil {
				r.take(e)
			} else {
				_, _ = r.out.Write(line)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.keep(key, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(key, e)
		}
		delete(r.output, key)
	}
}

func (r *report) keep(key test, text string) {
	if at := strings.Index(text, meterLine); at >= 0 && key.name == "" {
		r.consumed[key.pkg], _ = strconv.ParseFloat(strings.TrimSpace(text[at+len(meterLine):]), 64)
		if text = text[:at]; text == "" {
			return
		}
	}
	b := r.output[key]
	if b == nil {
		b = &bytes.Buffer{}
		r.output[key] = b
	}
	b.WriteString(text)
}

func (r *report) endTest(key test, e event) {
	if !strings.Contains(key.name, "/") {
		r.count++
		r.tests = append(r.tests, timed{name: short(key.pkg) + " " + key.name, wall: e.Elapsed})
	}
	switch e.Action {
	case "fail":
		r.failed = append(r.failed, short(key.pkg)+" "+key.name)
		r.show(key)
	case "skip":
		why := reason(r.output[key])
		r.skipped[why] = append(r.skipped[why], short(key.pkg)+" "+key.name)
	}
}

// endPackage prints the result line of a package. If it failed, it also prints its output and that of its unfinished
// tests.
func (r *report) endPackage(e event) {
	text := ""
	if b := r.output[test{e.Package, ""}]; b != nil {
		text = b.String()
	}
	if e.Action == "fail" {
		for _, key := range r.unfinished(e.Package) {
			fmt.Fprintf(r.out, "%s did not end:\n", key.name)
			r.failed = append(r.failed, short(key.pkg)+" "+key.name)
			r.show(key)
			delete(r.output, key)
		}
		fmt.Fprint(r.out, text)
		if len(r.failed) == 0 || !strings.HasPrefix(r.failed[len(r.failed)-1], short(e.Package)+" ") {
			r.failed = append(r.failed, short(e.Package))
		}
	}
	p := timed{short(e.Package), e.Elapsed, r.consumed[e.Package]}
	switch {
	case strings.Contains(text, "\t(cached)"):
		r.cached++
	case e.Action != "skip": // no test files
		r.packages = append(r.packages, p)
		if e.Action == "pass" {
			fmt.Fprintf(r.out, "ok %s\n", p)
		}
	}
}

func (r *report) unfinished(pkg string) []test {
	var keys []test
	for key := range r.output {
		if key.pkg == pkg && key.name != "" {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b test) int { return cmp.Compare(a.name, b.name) })
	return keys
}

func (r *report) show(key test) {
	if b := r.output[key]; b != nil {
		_, _ = r.out.Write(b.Bytes())
	}
}

// place matches the source position before the text of Skip.
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

// reason returns the text of a skipped test's Skip.
func reason(output *bytes.Buffer) string {
	why := "without a reason"
	if output == nil {
		return why
	}
	for line := range strings.Lines(output.String()) {
		if place.MatchString(line) {
			why = strings.TrimSpace(place.ReplaceAllString(line, ""))
		}
	}
	return why
}

func short(pkg string) string { return strings.TrimPrefix(pkg, "doublet/") }

// figures prints the figures of a run with its elapsed and processor time, builds included.
func (r *report) figures(wall, consumed time.Duration) {
	skipped := 0
	for _, names := range r.skipped {
		skipped += len(names)
	}
	fmt.Fprintf(r.out, "-- %d tests of %d packages in %.0f s, %.0f s of processor with builds; packages unchanged "+
		"%d; skipped %d; failed %d\n",
		r.count, len(r.packages), wall.Seconds(), consumed.Seconds(), r.cached, skipped, len(r.failed))
	for _, p := range slowest(r.packages, slowPackages) {
		fmt.Fprintf(r.out, "   package %s\n", p)
	}
	for _, t := range slowest(r.tests, slowTests) {
		fmt.Fprintf(r.out, "   test    %s\n", t)
	}
	reasons := make([]string, 0, len(r.skipped))
	for why := range r.skipped {
		reasons = append(reasons, why)
	}
	slices.Sort(reasons)
	for _, why := range reasons {
		names, more := r.skipped[why], ""
		if n := len(names) - namedSkips; n > 0 {
			names, more = names[:namedSkips], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(r.out, "   skipped (%s): %s%s\n", why, strings.Join(names, ", "), more)
	}
	for _, name := range r.failed {
		fmt.Fprintf(r.out, "   FAILED  %s\n", name)
	}
}

// slowest returns the n slowest entries: by processor time, then by elapsed time.
func slowest(list []timed, n int) []timed {
	slices.SortFunc(list, func(a, b timed) int {
		return cmp.Or(cmp.Compare(b.consumed, a.consumed), cmp.Compare(b.wall, a.wall))
	})
	return list[:min(len(list), n)]
}
