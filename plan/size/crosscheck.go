package size

import (
	"fmt"
	"slices"

	"doublet/plan/estimate"
	"doublet/plan/point"
)

// Predicted is the processor use of a step that was not used for the calibration, in cores.
type Predicted struct {
	// Load are the active users at the workload's own speed.
	Load      float64           `json:"users"`
	Predicted estimate.Interval `json:"predicted"`
	Measured  float64           `json:"measured"`
	// Within reports whether the measured use lies within the bounds of the prediction.
	Within bool `json:"within"`
}

// CrossCheck calibrates from one half of the runs and predicts the steps of the other half. A run is in the first half
// if its place among the runs, in the order of the points, is even. Both halves must have three numbers of users.
func CrossCheck(points []point.Point) ([]Predicted, error) {
	var names []string
	var halves [2][]point.Point
	for i := range points {
		k := slices.Index(names, points[i].Run)
		if k < 0 {
			k = len(names)
			names = append(names, points[i].Run)
		}
		halves[k%2] = append(halves[k%2], points[i])
	}
	if len(names) < 2 {
		return nil, fmt.Errorf("%w: one run has no other half", ErrCalibration)
	}
	c, err := Calibrate(halves[0])
	if err != nil {
		return nil, err
	}
	cpu := c.cost(point.CPU)
	var out []Predicted
	for i := range halves[1] {
		p := &halves[1][i]
		cores, ok := p.Use[point.CPU]
		if !ok {
			continue
		}
		x := Predicted{Load: p.Load(), Measured: cores}
		x.Predicted = estimate.Interval{Value: cpu.Fixed.Value + cpu.Slope.Value*x.Load,
			Low: cpu.Fixed.Low + cpu.Slope.Low*x.Load, High: cpu.Fixed.High + cpu.Slope.High*x.Load}
		x.Within = cores >= x.Predicted.Low && cores <= x.Predicted.High
		out = append(out, x)
	}
	return out, nil
}
