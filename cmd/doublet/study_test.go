package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doublet/bench/record"
	"doublet/bench/study"
	"doublet/plan/compare"
	"doublet/plan/point"
)

// TestStudies checks that bench lab accepts each configuration of the studies that come with the program.
func TestStudies(t *testing.T) {
	t.Parallel()
	code, out, errs := command(t, "", "study", "list")
	if code != 0 {
		t.Fatalf("%d %s", code, errs)
	}
	a := &app{streams: streams{out: os.Stdout, err: os.Stderr}}
	for _, name := range study.Names() {
		if !strings.Contains(out, name) {
			t.Errorf("%s is not listed in\n%s", name, out)
		}
		s, text, err := study.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Cells() {
			x, err := (workbench{a}).cellSeries(&c, "out")
			if err != nil || x.Measure.Label != c.Name || x.Measure.Out != "out" || (x.Script == nil) != (c.Lab != "") {
				t.Errorf("%s, %s: %v", name, c.Name, err)
			}
		}
		if code, shown, _ := command(t, "", "study", "show", name); code != 0 || shown != string(text) {
			t.Errorf("show %s: %d %s", name, code, shown)
		}
	}
}

// TestStudyRefusals checks that mistakes in a study end it before anything begins.
func TestStudyRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, c := range []struct{ common, value, want string }{
		{"", `colour = 5`, "doublet bench lab has no flag --colour"},
		{"", `replicators = "many"`, "invalid argument \"many\""},
		{"", `setting = ["no.such=1"]`, "--setting: "},
		{"", `setting = ["doors.imap=x"]`, "--setting doors.imap: the lab sets it itself"},
		{"", `setting = ["nothing"]`, "--setting nothing: want KEY=VALUE"},
		{"", `rule = ["nothing"]`, "--rule nothing: want NAME=JSON"},
		{"", `rule = ['a={"do":{"burn":true}}']`, "--rule a: rule: json: unknown field"},
		{"", `quota = -1`, "--quota -1: want processors from 0.01 to 4096"},
		{"", `quota = "half"`, "invalid argument \"half\""},
		{"", `cpus = "all"`, "--cpus \"all\": want numbers of processors"},
		{"", `program = "/no/such/doublet"`, "--program: "},
		{"", `people = 1000000`, "--people 1000000"},
		{"", `set = ["colour=5"]`, "colour"},
		{"", `json = true`, "json is not a flag of a study"},
		{"", `window = "5s"`, "window: configurations that differ"},
		{"", `run = "-"`, "run is given twice"},
		{"", `max-failed = "many"`, "is no share"},
		{`run = "no-such-workload"`, `people = 5`, "no-such-workload"},
		{`users = "5"`, `people = 5`, "no run: name a workload"},
	} {
		if c.common == "" {
			c.common = `run = "r6mail"`
		}
		path := written(t, dir, "s.toml", "title = \"t\"\n[run]\n"+c.common+"\n[[axis]]\nname = \"a\"\nvalue = ["+
			"{ name = \"x\", lab = \"config4\", "+c.value+" }, { name = \"y\", lab = \"config1\" }]\n")
		code, _, errs := command(t, "", "study", "run", path, "--out", filepath.Join(dir, "out"))
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%+v: %d %s", c, code, errs)
		}
	}
	for extra, want := range map[string]string{
		`script = "exim"`: "want the path of a script",
		`script = "dovecot-postfix", lab = "config1"`:           "a lab and a script",
		`script = "dovecot-postfix", setting = ["a.b=1"]`:       "are of a Doublet",
		`script = "dovecot-postfix", kill = "one@1s"`:           "are of the servers of a configuration",
		`script = "dovecot-postfix", quota = 1`:                 "--quota are of a Doublet",
		`script = "dovecot-postfix", cpus = "many"`:             "--cpus \"many\"",
		`script = "dovecot-postfix", set = ["no-such-thing=1"]`: "no-such-thing",
	} {
		path := written(t, dir, "s.toml", "title = \"t\"\n[run]\nrun = \"r6mail\"\nusers = \"5\"\n[[axis]]\n"+
			"name = \"a\"\nvalue = [{ name = \"x\", "+extra+" }, { name = \"y\", lab = \"config1\" }]\n")
		code, _, errs := command(t, "", "study", "run", path, "--out", filepath.Join(dir, "out"))
		if code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s, want %s", extra, code, errs, want)
		}
	}
	path := written(t, dir, "s.toml", "title = \"t\"\n[run]\nrun = \"-\"\n[[axis]]\nname = \"a\"\n"+
		"value = [{ name = \"x\", lab = \"config9\" }, { name = \"y\", lab = \"config1\" }]\n")
	if code, _, errs := command(t, "", "study", "run", path, "--out", filepath.Join(dir, "out")); code != exitUsage ||
		!strings.Contains(errs, "want one of config1") {
		t.Errorf("a lab that does not exist: %d %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
		t.Error("a refused study has made its folder")
	}
}

// TestStudyReport writes the report of runs: configurations compared, every run with a link to its own report, and
// those that do not count named as such.
func TestStudyReport(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"runs", "quarantine"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s, err := study.Parse("s.toml", []byte("title = \"Two of them\"\n[run]\nrun = \"r6mail\"\n[[axis]]\nname = \"a\"\n"+
		"value = [{ name = \"one\", lab = \"config1\" }, { name = \"two\", lab = \"config4\" }]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []study.Entry
	for i, name := range []string{"a", "bb", "c", "dd"} {
		runFile(t, filepath.Join(dir, "runs"), name+".run", record.Measured, 100, 200)
		entries = append(entries, study.Entry{Index: i % 2, Repeat: i / 2, Name: s.Cells()[i%2].Name,
			File: "runs/" + name + ".run"})
	}
	runFile(t, filepath.Join(dir, "quarantine"), "q.run", record.Unsteady, 100, 200)
	entries = append(entries, study.Entry{Name: "one", File: "quarantine/q.run", Quarantined: "100 users: unsteady"})
	var out, errs strings.Builder
	x := studies{&app{streams: streams{out: &out, err: &errs}}}
	doc := filepath.Join(dir, "doc")
	if err := saveDocument(doc, "s", map[string]string{"s-99.svg": "of an earlier report"}); err != nil {
		t.Fatal(err)
	}
	if err := x.report(s, "s", entries, &studyFlags{out: dir, doc: doc}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(doc, "s-99.svg")); err == nil {
		t.Error("a picture of an earlier report is there")
	}
	if !strings.Contains(out.String(), "Resource usage at 200 users") || !strings.Contains(out.String(), " one ") {
		t.Error(out.String())
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>Two of them</h1>", `<a href="runs/a.html">one, run 1</a>`,
		`<a href="quarantine/q.html">one, run 1</a>: does not count: 100 users: unsteady`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, f := range []string{"runs/dd.html", "quarantine/q.html", "doc/s.md", "doc/s-01.svg"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Error(err)
		}
	}
	err = x.report(s, "s", entries[4:], &studyFlags{out: dir})
	if err == nil || !strings.Contains(err.Error(), "fewer than two") {
		t.Errorf("a study without a run that counts: %v", err)
	}
}

// TestStudyLeftOut writes the report of a study in which a run of one configuration was discarded at a number of users,
// and another run set aside: the page, the document, the text and the JSON say that the number is left out, and why.
func TestStudyLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := study.Parse("s.toml", []byte("title = \"t\"\n[run]\nrun = \"r6mail\"\nlab = \"config1\"\n[[axis]]\n"+
		"name = \"a\"\nvalue = [{ name = \"one\" }, { name = \"two\" }, { name = \"three\" }]\n"))
	if err != nil {
		t.Fatal(err)
	}
	runFile(t, dir, "a.run", record.Measured, 100, 200)
	r, err := record.ReadFile(runFile(t, dir, "b.run", record.Measured, 100, 200))
	if err != nil {
		t.Fatal(err)
	}
	r.Steps[1].Outcome, r.Steps[1].Reason = record.Discarded, "average of 9s"
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	written(t, dir, "b.run", b.String())
	runFile(t, dir, "q.run", record.Unsteady, 100, 200)
	entries := []study.Entry{{Name: "one", File: "a.run"}, {Index: 1, Name: "two", File: "b.run"},
		{Index: 1, Name: "two", File: "q.run", Quarantined: "busy"}, {Index: 2, Name: "three", File: "q.run",
			Quarantined: "cut off"}}
	want := []string{"200 users: two lacks it: b.run was discarded: average of 9s; q.run was set aside: busy",
		"three: left out: steps cannot be used: none of 0 was measured; q.run was set aside: cut off"}
	for _, asJSON := range []bool{false, true} {
		var out strings.Builder
		x := studies{&app{streams: streams{out: &out, err: &bytes.Buffer{}}}}
		if err := x.report(s, "s", entries, &studyFlags{out: dir, doc: dir, asJSON: asJSON}); err != nil {
			t.Fatal(err)
		}
		if asJSON && !strings.Contains(out.String(), `"left_out": [`) {
			t.Error(out.String())
		}
		for _, text := range want {
			if !asJSON && !strings.Contains(out.String(), text) {
				t.Errorf("%q is missing in\n%s", text, out.String())
			}
			for _, file := range []string{"report.html", "s.md"} {
				page, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil || !strings.Contains(string(page), text) {
					t.Errorf("%v: %q is missing in %s", err, text, file)
				}
			}
		}
	}
}

// TestStudyScaling writes the report of a study of processors, one of partitions and one of guests: the runs of one
// processor of two count as such, and the report has the scaling factor or the cost beside the comparison.
func TestStudyScaling(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*record.Header){
		"1 to 2 processors: factor":               func(h *record.Header) { h.Server.Allowed = 1 },
		"1 to 4 partitions: CPU":                  func(h *record.Header) { h.Target.Partitions = 4 },
		"guests none to 4 at 1:1, 200 users: CPU": func(h *record.Header) { h.Target.Guests, h.Target.Quota = 4, 0.5 },
	} {
		dir := t.TempDir()
		s, err := study.Parse("s.toml", []byte("title = \"Scaling\"\n[run]\nrun = \"n8mail\"\nlab = \"config1\"\n"+
			"[[axis]]\nname = \"a\"\nvalue = [{ name = \"changed\" }, { name = \"two processors\" }]\n"))
		if err != nil {
			t.Fatal(err)
		}
		var entries []study.Entry
		for i, name := range []string{"a.run", "bb.run", "c.run", "dd.run"} {
			path := runFile(t, dir, name, record.Measured, 100, 200)
			r, err := record.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 {
				change(&r.Header)
			}
			var b bytes.Buffer
			if err := r.Write(&b); err != nil {
				t.Fatal(err)
			}
			written(t, dir, name, b.String())
			entries = append(entries, study.Entry{Index: i % 2, Repeat: i / 2, Name: s.Cells()[i%2].Name, File: name})
		}
		x := studies{&app{streams: streams{out: &bytes.Buffer{}, err: &bytes.Buffer{}}}}
		if err := x.report(s, "s", entries, &studyFlags{out: dir, doc: filepath.Join(dir, "doc")}); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(dir, "report.html"))
		if err != nil || !strings.Contains(string(page), want) || !strings.Contains(string(page), "ITR against users") {
			t.Errorf("%v: no %q in the report", err, want)
		}
	}
}

// TestConclusions checks what a report has beside the comparison: the roles of document 004's configurations, or why
// there are none, and the prediction of one half of the runs from the other.
func TestConclusions(t *testing.T) {
	t.Parallel()
	steps := func(server float64, servers ...string) (out []point.Point) {
		for run := range 2 {
			for k, users := range []int{100, 200, 400} {
				p := point.Point{Run: fmt.Sprint("run", run), Workload: "n8mail", Outcome: point.Measured, Users: users,
					Speed: 1, Processors: 2, Partitions: 1, Rate: float64(users), Servers: map[string]float64{},
					Use: map[string]float64{point.CPU: (0.1 + 0.001*float64(users)) * (1 + 0.001*float64((run+k)%2))}}
				for _, name := range servers {
					p.Servers[name] = server
				}
				out = append(out, p)
			}
		}
		return out
	}
	cells := []study.Cell{{Lab: "config1"}, {Lab: "config2"}, {Lab: "config3"}, {Lab: "config4"}}
	legs := []compare.Leg{{Name: "one", Points: steps(0.1, "a")}, {Name: "two", Points: steps(0.2, "a", "b")},
		{Name: "three", Points: steps(0.3, "a", "b")}, {Name: "four", Points: steps(0.4, "a", "b")}}
	text := func(cells []study.Cell) string { return fmt.Sprint(conclusions(cells, legs)) }
	if got := text(cells); !strings.Contains(got, "Processors by role") || !strings.Contains(got, "differ in users") ||
		!strings.Contains(got, "predicts the other") || !strings.Contains(got, "true") {
		t.Error(got)
	}
	flat := legs[3].Points[0].Use
	for i := range legs[3].Points {
		legs[3].Points[i].Use = flat
	}
	if got := text(cells); !strings.Contains(got, "four: no answer: ") || strings.Contains(got, "three: no answer") {
		t.Error(got)
	}
	for i := range legs {
		legs[i].Points = slices.DeleteFunc(legs[i].Points, func(p point.Point) bool { return p.Users != 200 })
	}
	if got := text(cells); !strings.Contains(got, "cores of a server by role, 200 users") ||
		strings.Contains(got, "predicts the other") {
		t.Error(got)
	}
	cells[3].Lab = "pulse"
	if got := text(cells); strings.Contains(got, "role") {
		t.Error(got)
	}
}

// TestConclusionsTwoAxes: configurations with the same processors that differ in something else are no repeats of one.
func TestConclusionsTwoAxes(t *testing.T) {
	t.Parallel()
	leg := func(name string, processors int, rate float64) compare.Leg {
		return compare.Leg{Name: name, Points: []point.Point{{Run: name, Workload: "n8mail", Outcome: point.Measured,
			Users: 100, Speed: 1, Processors: processors, Partitions: 1, Rate: rate,
			Use: map[string]float64{point.CPU: 0.5}}}}
	}
	legs := []compare.Leg{leg("on, 1", 1, 100), leg("on, 2", 2, 200), leg("off, 1", 1, 300), leg("off, 2", 2, 600)}
	got := fmt.Sprint(conclusions(make([]study.Cell, 4), legs))
	if !strings.Contains(got, "No answer: on, 2 and off, 2") || strings.Contains(got, "factor") {
		t.Error(got)
	}
	if got := fmt.Sprint(conclusions(make([]study.Cell, 2), legs[:2])); !strings.Contains(got, "Rates") {
		t.Error(got)
	}
}
