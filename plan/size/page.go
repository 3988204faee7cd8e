package size

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"doublet/stat/chart"
)

//go:embed page.html
var pageHTML string

//go:embed size.js
var script string

var parsed = template.Must(template.New("size").Parse(pageHTML))

// HTML writes the answer as a page with sliders.
func (a *Answer) HTML(w io.Writer) error {
	var costs [][]string
	for _, c := range a.Calibration.Costs {
		costs = append(costs, []string{c.Name, Span(c.Fixed), Precise(c.Slope), c.Unit, c.From})
	}
	err := parsed.Execute(
		w,
		map[string]any{"Style": chart.Style(), "Calibration": a.Calibration, "Answer": a, "Costs": costs,
			"Marks": a.Calibration.Marks, "MaxLoad": chart.Number(a.Calibration.MaxLoad),
			"Script": template.JS(script)},
	) //nolint:gosec // our own
	if err != nil {
		return fmt.Errorf("size: page: %w", err)
	}
	return nil
}
