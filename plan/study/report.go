package study

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"doublet/plan/page"
	"doublet/stat/chart"
)

// Study holds the statements of a document beside those that follow from its figures.
type Study struct {
	// Document is 000 to 004, or empty for all of them.
	Document   string    `json:"document,omitempty"`
	Statements []Checked `json:"statements"`
}

// titles are the subjects of the documents.
var titles = map[string]string{
	"000": "Two servers in production, before and after an upgrade",
	"001": "Scaling, partitions and guests",
	"002": "Two releases and two modes of a web client",
	"003": "Two releases with their own clients",
	"004": "Clusters",
}

// Of returns the study of a document, or of all if it is empty.
func Of(document string) (*Study, error) {
	if document != "" && titles[document] == "" {
		return nil, fmt.Errorf("no document %q: there are 000, 001, 002, 003 and 004", document)
	}
	s := &Study{Document: document}
	for _, c := range Check() {
		if strings.HasPrefix(c.Name, document) {
			s.Statements = append(s.Statements, c)
		}
	}
	return s, nil
}

// Count returns the number of statements with a verdict.
func (s *Study) Count(v Verdict) int {
	n := 0
	for _, c := range s.Statements {
		if c.Verdict == v {
			n++
		}
	}
	return n
}

// Text lists the statements that do not agree, and counts the others.
func (s *Study) Text() string {
	var b strings.Builder
	if s.Document != "" {
		fmt.Fprintf(&b, "Document %s: %s\n", s.Document, titles[s.Document])
	}
	fmt.Fprintf(&b, "%d statements recomputed: %d agree, %d are explained by rounding, %d err, %d are not supported\n",
		len(s.Statements), s.Count(Agrees), s.Count(Rounded), s.Count(Errs), s.Count(Unsupported))
	for _, c := range s.Statements {
		if c.Verdict == Errs || c.Verdict == Unsupported {
			fmt.Fprintf(&b, "%s: %s\n    printed: %s\n    found:   %s\n", c.Verdict, c.Name, c.Printed, c.Found)
		}
	}
	return b.String()
}

// Page returns the study of one document as a page.
func (s *Study) Page() (*page.Page, error) {
	if s.Document == "" {
		return nil, errors.New("pages are about one document: name it, such as 004")
	}
	p := &page.Page{Kicker: "Doublet plan · study " + s.Document, Title: titles[s.Document],
		Method: "The figures are those that the document prints. Every percentage, ratio and conclusion is computed " +
			"from them " +
			"anew. A printed figure agrees if it is the computed one, rounded; it is explained by rounding if the " +
			"rounding of " +
			"its inputs, or cutting off, gives it; else it errs. The document measured each point once, so that its " +
			"bars have " +
			"no intervals: a whisker shows what the rounding of the two printed figures leaves open, and not the " +
			"noise of " +
			"measuring.",
		Tiles: []page.Tile{{Value: fmt.Sprint(len(s.Statements)), Label: "statements recomputed"},
			{Value: fmt.Sprint(s.Count(Agrees) + s.Count(Rounded)), Label: "agree, or are explained by rounding"},
			{Value: fmt.Sprint(s.Count(Errs)), Label: "err"}, {Value: fmt.Sprint(s.Count(Unsupported)),
				Label: "not supported by the figures"}}}
	if figures := s.figures(); len(figures) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Figures", Figures: figures})
	}
	wrong := page.Section{Title: "Where the document errs", Head: []string{"statement", "printed", "found", "verdict"}}
	all := page.Section{Title: "All statements", Head: wrong.Head}
	for _, c := range s.Statements {
		row := []string{c.Name, c.Printed, c.Found, string(c.Verdict)}
		all.Rows = append(all.Rows, row)
		if c.Verdict == Errs || c.Verdict == Unsupported {
			wrong.Rows = append(wrong.Rows, row)
		}
	}
	if len(wrong.Rows) > 0 {
		p.Sections = append(p.Sections, wrong)
	}
	p.Sections = append(p.Sections, all)
	for _, name := range Names() {
		text, err := File(name)
		if err != nil {
			return nil, err
		}
		p.Data = append(p.Data, page.Data{Name: name, Text: string(text)})
	}
	return p, nil
}

func (s *Study) figures() []page.Figure {
	switch s.Document {
	case "001":
		return scalingFigures()
	case "002":
		return append(platforms("002", "DWA8", "DWA85", "disk operations/s", "disk MB/s", "cpu %", "network MB/s"),
			platforms("002", "DWA85", "DWA85Lite", "disk operations/s", "disk MB/s", "cpu %", "network MB/s")...)
	case "003":
		return platforms(
			"003",
			"N7Mail",
			"N8Mail",
			"cpu %",
			"disk reads/s",
			"disk writes/s",
			"shared memory MB",
			"network B/s",
		)
	case "004":
		return clusterFigures()
	}
	return nil
}

// The notes of figures: the documents measured each point once.
const (
	once     = "measured once: no intervals"
	rounding = "what rounding leaves open"
)

// platforms draws the change of resources across platforms, as the summaries of documents 002 and 003.
func platforms(document, from, to string, resources ...string) []page.Figure {
	var out []page.Figure
	var groups []string
	for _, r := range Rows("changes.csv") {
		if r["document"] == document && r["from"] == from && !slices.Contains(groups, r["platform"]) {
			groups = append(groups, r["platform"])
		}
	}
	for _, resource := range resources {
		values := &chart.Bars{Title: fmt.Sprintf("%s at 4,000 users", resource), Y: resource,
			Note: from + " and " + to + "; " + once, Interval: rounding}
		change := &chart.Bars{Title: fmt.Sprintf("Change of %s, %s to %s", resource, from, to), Y: "percent",
			Note: once, Interval: rounding}
		a, b, c := chart.Bar{Name: from}, chart.Bar{Name: to}, chart.Bar{Name: "change"}
		for _, r := range Rows("changes.csv") {
			if r["document"] != document || r["from"] != from || r["resource"] != resource {
				continue
			}
			values.Groups, change.Groups = append(values.Groups, r["platform"]), append(change.Groups, r["platform"])
			x, y, dx, dy := r.Number("a"), r.Number("b"), half(r["a"]), half(r["b"])
			add(&a, r, "a")
			add(&b, r, "b")
			c.Values = append(c.Values, Change(x, y))
			c.Low, c.High = append(c.Low, Change(x+dx, y-dy)), append(c.High, Change(x-dx, y+dy))
		}
		values.Series, change.Series = []chart.Bar{a, b}, []chart.Bar{c}
		out = append(out, values, change)
	}
	return out
}

func scalingFigures() []page.Figure {
	curves := &chart.Bars{
		Title: "Throughput with 4 processors over that with 2",
		Y:     "factor",
		Note:  "perfect is 2; " + once, Interval: rounding,
	}
	bar := chart.Bar{Name: "factor"}
	for _, x := range [][2]string{{"NRPC 6.5", "scaling NRPC 2 to 4 processors Domino 6.5"},
		{"NRPC 7.0", "scaling NRPC 2 to 4 processors"}, {"OLTP-T", "scaling OLTP-T 2 to 4 processors"},
		{"CB-L", "scaling CB-L 2 to 4 processors"}, {"DWA 7.0", "scaling DWA 2 to 4 processors"}} {
		v := Fact(x[1])
		d := 0.005
		if v == 1.7 || v == 1.5 {
			d = 0.05
		}
		curves.Groups = append(curves.Groups, x[0])
		bar.Values, bar.Low, bar.High = append(bar.Values, v), append(bar.Low, v-d), append(bar.High, v+d)
	}
	curves.Series = []chart.Bar{bar}
	guests := &chart.Bars{Title: "ITR of guests and of processors given twice", Y: "ITR",
		Note: "NRPC, 4 processors; virtual:real; " + once, Interval: rounding}
	itr := chart.Bar{Name: "NRPC, 4 processors"}
	for _, r := range Rows("guests.csv") {
		if r["workload"] == "NRPC" {
			ratio := r.Number("virtual") / r.Number("processors")
			guests.Groups = append(guests.Groups, fmt.Sprintf("%s at %g:1", r["guests"], ratio))
			add(&itr, r, "itr")
		}
	}
	guests.Series = []chart.Bar{itr}
	cost := &chart.Bars{
		Title: "Cost of partitions",
		Y:     "percent",
		Note:  "change of CPU and of ITR; " + once, Interval: rounding,
		Groups: []string{"NRPC 2 to 3", "NRPC 2 to 4", "DWA 2 to 4"},
		Series: []chart.Bar{rounded("CPU", 0.05, 3.7, 12.9, 3.7), rounded("ITR", 0.05, -3.6, -11.3, -3.3)},
	}
	return []page.Figure{curves, cost, guests}
}

// rounded returns bars with what the rounding of the printed values leaves open.
func rounded(name string, half float64, values ...float64) chart.Bar {
	b := chart.Bar{Name: name, Values: values}
	for _, v := range values {
		b.Low, b.High = append(b.Low, v-half), append(b.High, v+half)
	}
	return b
}

// add adds the sum of columns of a row to a bar, with what the rounding of the printed values leaves open.
func add(b *chart.Bar, r Row, columns ...string) {
	v, d := 0.0, 0.0
	for _, c := range columns {
		v, d = v+r.Number(c), d+half(r[c])
	}
	b.Values, b.Low, b.High = append(b.Values, v), append(b.Low, v-d), append(b.High, v+d)
}

func clusterFigures() []page.Figure {
	roles := &chart.Bars{
		Title: "CPU by role, 100 users",
		Y:     "percent",
		Note:  "and the sum of parts; " + once, Interval: rounding,
	}
	measured, sum := chart.Bar{Name: "configuration 4"}, chart.Bar{Name: "sum of parts"}
	var parts [4]chart.Bar
	for k, column := range []string{"single", "routing", "initiating", "receiving"} {
		parts[k].Name = column
	}
	for _, r := range Rows("roles.csv") {
		roles.Groups = append(roles.Groups, r["users"])
		for k := range parts {
			add(&parts[k], r, parts[k].Name)
		}
		add(&sum, r, "routing", "initiating", "receiving")
		add(&measured, r, "both")
	}
	roles.Series = append(parts[:], sum, measured)
	out := []page.Figure{roles}
	response := &chart.Chart{Title: "Response time against disk utilisation", X: "disk, percent busy", Y: "ms",
		Note: "configuration 4, client response"}
	disk := &chart.Chart{Title: "Disk utilisation against users", X: "users", Y: "percent", Top: 100}
	cpu := &chart.Chart{Title: "CPU against users", X: "users", Y: "percent", Note: "flat where the disk is saturated"}
	for _, kind := range []string{"light", "medium", "heavy"} {
		a, b, c := chart.Line{Name: kind}, chart.Line{Name: kind}, chart.Line{Name: kind}
		for _, r := range Rows("load.csv") {
			if r["type"] == kind {
				users := r.Number("users")
				a.Points = append(a.Points, chart.Point{X: r.Number("disk_pct"), Y: r.Number("client_ms")})
				b.Points = append(b.Points, chart.Point{X: users, Y: r.Number("disk_pct")})
				c.Points = append(c.Points, chart.Point{X: users, Y: r.Number("cpu_pct")})
			}
		}
		response.Lines, disk.Lines, cpu.Lines = append(response.Lines, a), append(disk.Lines, b), append(cpu.Lines, c)
	}
	out = append(out, response, disk, cpu)
	for _, place := range []string{"active CPU", "standby CPU", "active disk", "standby disk"} {
		b := &chart.Bars{Title: "Cluster Replicators: " + place, Y: "percent",
			Note: "100 medium users; " + once, Interval: rounding}
		one, n := chart.Bar{Name: "one replicator"}, chart.Bar{Name: "one for each mate"}
		for _, r := range Rows("changes.csv") {
			if r["document"] == "004" && r["place"] == place {
				b.Groups = append(b.Groups, r["platform"])
				add(&one, r, "a")
				add(&n, r, "b")
			}
		}
		b.Series = []chart.Bar{one, n}
		out = append(out, b)
	}
	return out
}
