package size

import (
	"errors"
	"fmt"
	"math"

	"doublet/plan/estimate"
	"doublet/plan/point"
	"doublet/plan/study"

	"gonum.org/v1/gonum/stat"
)

// published sets the cost of a replica from document 004: the use of configuration 4 beyond a server with routing, of
// light and medium users, each measured once: its bounds are those two values, and no interval of 95 %. Heavy users
// were held back by the disk.
func (c *Calibration) published() {
	c.ReplicaFrom = "document 004, configuration 4 over 2: the range of light and medium users, measured once each"
	c.Replica = estimate.Interval{Low: math.Inf(1), High: math.Inf(-1)}
	n := 0.0
	for _, r := range study.Rows("roles.csv") {
		if r["users"] == "heavy" {
			continue
		}
		v := r.Number("both")/r.Number("routing") - 1
		c.Replica.Value += v
		c.Replica.Low, c.Replica.High = min(c.Replica.Low, v), max(c.Replica.High, v)
		n++
	}
	c.Replica.Value /= n
}

// MeasureReplica sets the cost of a replica from repeated runs of document 004's configurations 2 (routing) and 4
// (both), as bench lab makes them: the same people on two servers, without and with a replica on the other one. The
// interval is that of the quotient of their processor use.
func (c *Calibration) MeasureReplica(routing, both []point.Point) error {
	all := append(append([]point.Point(nil), routing...), both...)
	err := errors.Join(point.SameWork(all), point.SameGuests(all),
		point.Same(all, "users", func(p *point.Point) int { return p.Users }),
		point.Same(all, "processors", func(p *point.Point) int { return p.Processors }))
	if err != nil {
		return fmt.Errorf("%w: cost of a replica: %w", ErrCalibration, err)
	}
	var uses [2][]float64
	for k, points := range [][]point.Point{routing, both} {
		for i := range points {
			p := &points[i]
			if len(p.Servers) != 2 {
				return fmt.Errorf("%w: cost of a replica: %s has %d metered servers, 2 wanted (lab config2, config4)",
					ErrCalibration, p.Run, len(p.Servers))
			}
			values := make([]float64, 0, 2)
			for _, v := range p.Servers {
				values = append(values, v)
			}
			uses[k] = append(uses[k], stat.Mean(values, nil))
		}
		if len(points) < 2 {
			return fmt.Errorf("%w: cost of a replica: configuration %d has %d steps: repeat it (bench lab --repeat 5)",
				ErrCalibration, 2+2*k, len(points))
		}
	}
	q := estimate.Quotient(uses[0], uses[1])
	if math.IsNaN(q.Low) || !(q.High > q.Low) {
		return fmt.Errorf("%w: cost of a replica: the runs carry no interval", ErrCalibration)
	}
	// A replica that costs less than nothing is chance.
	c.Replica = estimate.Interval{Value: max(0, q.Value-1), Low: max(0, q.Low-1), High: max(0, q.High-1)}
	c.ReplicaFrom = fmt.Sprintf("own runs, configuration 4 (%s and %d more) over 2 (%s and %d more)", both[0].Run,
		len(both)-1, routing[0].Run, len(routing)-1)
	if routing[0].Workload != c.Workload {
		c.Marks = append(c.Marks, fmt.Sprintf("cost of a replica under %s, of a user under %s", routing[0].Workload,
			c.Workload))
	}
	for _, m := range point.Marks(all) {
		c.Marks = append(c.Marks, "cost of a replica: "+m)
	}
	return nil
}
