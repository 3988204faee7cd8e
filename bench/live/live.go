// Package live shows a run while it goes on: one self-contained page that updates itself.
package live

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"sync"
	"time"

	"doublet/bench/record"
	"doublet/bench/report"
	"doublet/bench/run"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("live").Parse(pageHTML))

// kept is the limit of points in the figures. When it is reached, every second one is dropped and a point stands for
// twice as many intervals.
const kept = 600

// Page holds the figures that are shown. Its methods may be called from any goroutine.
type Page struct {
	header record.Header

	mu      sync.Mutex
	begun   time.Time
	now     run.Progress
	points  []point
	stretch int // number of intervals that one point stands for
	since   int
	errors  uint64
	missed  uint64
}

type point struct {
	at             time.Duration
	rate, p50, p99 float64
}

// New returns the page of a run.
func New(h record.Header) *Page { return &Page{header: h, stretch: 1} }

// Add adds the figures of an interval.
func (p *Page) Add(now time.Time, x run.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun.IsZero() {
		p.begun = now
	}
	p.now = x
	p.errors += x.Errors
	p.missed += x.Missed
	if p.since++; p.since < p.stretch {
		return
	}
	p.since = 0
	p.points = append(p.points, point{now.Sub(p.begun), x.Rate, x.P50.Seconds() * 1000, x.P99.Seconds() * 1000})
	if len(p.points) >= kept {
		half := p.points[:0]
		for i := 1; i < len(p.points); i += 2 {
			half = append(half, p.points[i])
		}
		p.points = half
		p.stretch *= 2
	}
}

// State is the content of the page.
type State struct {
	Header  record.Header   `json:"-"`
	Style   template.CSS    `json:"-"`
	Step    int             `json:"step"`
	Steps   int             `json:"steps"`
	Phase   record.Phase    `json:"phase"`
	Users   int             `json:"users"`
	Active  int             `json:"active"`
	Left    string          `json:"left"`
	Rate    string          `json:"rate"`
	P50     string          `json:"p50"`
	P99     string          `json:"p99"`
	Errors  uint64          `json:"errors"`
	Missed  uint64          `json:"missed"`
	Figures []template.HTML `json:"figures"`
}

// State returns the current content of the page.
func (p *Page) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.now
	s := State{
		Header: p.header, Style: report.Style(), Step: x.Step + 1, Steps: x.Steps, Phase: x.Phase, Users: x.Users,
		Active: x.Active, Left: x.Left.Round(time.Second).String(),
		Rate: report.Number(x.Rate), P50: report.Milliseconds(x.P50), P99: report.Milliseconds(x.P99), Errors: p.errors,
		Missed: p.missed,
	}
	var rate, p50, p99 report.Line
	rate.Name, p50.Name, p99.Name = "actions", "p50", "p99"
	for _, v := range p.points {
		at := v.at.Seconds()
		rate.Points = append(rate.Points, report.Point{X: at, Y: v.rate})
		p50.Points = append(p50.Points, report.Point{X: at, Y: v.p50})
		p99.Points = append(p99.Points, report.Point{X: at, Y: v.p99})
	}
	for _, c := range []report.Chart{
		{Title: "Response time", Y: "ms", X: "minutes of the run", Time: true, Lines: []report.Line{p50, p99}},
		{Title: "Rate", Y: "user actions a second", X: "minutes of the run", Time: true, Lines: []report.Line{rate}},
	} {
		s.Figures = append(s.Figures, c.SVG())
	}
	return s
}

// Server returns a server that answers / with the page and /state with its figures as JSON.
func (p *Page) Server() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'")
		_ = page.Execute(w, p.State())
	})
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.State())
	})
	return &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
}
