package report

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
)

//go:embed compare.html
var compareHTML string

var comparePage = template.Must(template.New("compare").Parse(compareHTML))

// Series is the comparison of two sides over several numbers of users: a page with its tables and figures.
type Series struct {
	A, B   string
	Style  template.CSS
	Marks  []string
	Runs   []ComparedRun
	Tables []Comparison
	// Figures have a line for each side; a figure of one number of users would be two points, which the table shows
	// too.
	Figures []*Chart
}

// NewSeries returns the series of the tables that Compare returns, which are in ascending order of users.
func NewSeries(tables []Comparison) *Series {
	s := &Series{A: tables[0].A, B: tables[0].B, Style: Style(), Marks: tables[0].Marks, Runs: tables[0].Runs,
		Tables: tables}
	if len(tables) < 2 {
		return s
	}
	for i := range resources {
		x := &resources[i]
		a, b := Line{Name: "A: " + s.A}, Line{Name: "B: " + s.B}
		for k := range tables {
			for _, r := range tables[k].Rows {
				if r.Resource == x.name {
					users := float64(tables[k].Users)
					a.Points = append(a.Points, Point{X: users, Y: r.A, Low: r.RangeA[0], High: r.RangeA[1]})
					b.Points = append(b.Points, Point{X: users, Y: r.B, Low: r.RangeB[0], High: r.RangeB[1]})
				}
			}
		}
		if len(a.Points) > 1 {
			s.Figures = append(s.Figures, &Chart{Title: x.name, Y: x.unit, X: "active users", Lines: []Line{a, b}})
		}
	}
	return s
}

// HTML writes the page.
func (s *Series) HTML(w io.Writer) error {
	if err := comparePage.Execute(w, s); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
