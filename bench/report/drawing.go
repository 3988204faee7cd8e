package report

import "doublet/stat/chart"

// The figures are drawn by stat/chart, as those of doublet plan are.
type (
	// Chart is a chart of lines over a common axis.
	Chart = chart.Chart
	// Line is one line of a chart.
	Line = chart.Line
	// Point is one point of a line.
	Point = chart.Point
)

// number formats a value with two or three significant digits, from 1,000 to a million as a whole number.
func number(v float64) string { return chart.Number(v) }

// group puts commas between thousands.
func group(n int64) string { return chart.Group(n) }
