package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"doublet/plan/estimate"
	"doublet/plan/point"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Roles is the processor use of a server by its role in a cluster, in cores, for a number of users.
type Roles struct {
	Users int `json:"users"`
	// Single is a server alone, Routing the part that comes with mail to another server.
	Single  estimate.Interval `json:"single"`
	Routing estimate.Interval `json:"with_routing"`
	// Initiating is the cost of pushing changes to a mate, Receiving that of applying those of a mate.
	Initiating estimate.Interval `json:"initiating"`
	Receiving  estimate.Interval `json:"receiving"`
	// Both is a server that does all of it, Sum the sum of its parts.
	Both estimate.Interval `json:"both"`
	Sum  estimate.Interval `json:"sum_of_parts"`
	// Additive is the comparison of the two, in words.
	Additive string `json:"additive"`
	// Marks list what keeps the points from ones by the book.
	Marks []string `json:"marks,omitempty"`
}

// spread is a sample mean with the square of its error and its degrees of freedom.
type spread struct{ mean, square, freedom float64 }

func of(values []float64) spread {
	if len(values) < 2 {
		return spread{stat.Mean(values, nil), math.NaN(), 0}
	}
	n := float64(len(values))
	return spread{stat.Mean(values, nil), stat.Variance(values, nil) / n, n - 1}
}

// sum adds means; factors are 1 or -1.
func sum(parts []spread, factors ...float64) spread {
	var out spread
	weighted := 0.0
	for i, p := range parts {
		out.mean += factors[i] * p.mean
		out.square += p.square
		if p.freedom > 0 {
			weighted += p.square * p.square / p.freedom
		}
	}
	if weighted > 0 {
		out.freedom = out.square * out.square / weighted
	}
	return out
}

func (s spread) interval() estimate.Interval {
	if math.IsNaN(s.square) || s.freedom <= 0 && s.square > 0 {
		return estimate.Interval{Value: s.mean, Low: math.NaN(), High: math.NaN()}
	}
	if s.square == 0 {
		return estimate.Interval{Value: s.mean, Low: s.mean, High: s.mean}
	}
	half := distuv.StudentsT{Sigma: 1, Nu: s.freedom}.Quantile((1+estimate.Confidence)/2) * math.Sqrt(s.square)
	return estimate.Interval{Value: s.mean, Low: s.mean - half, High: s.mean + half}
}

// Configurations are the points of document 004's four configurations, as bench lab runs them.
type Configurations struct{ Single, Routing, Standby, Both []point.Point }

// ByRole computes the roles. All points must be of the same number of users, work and processors.
func ByRole(c Configurations) (*Roles, error) {
	all := slices.Concat(c.Single, c.Routing, c.Standby, c.Both)
	if err := errors.Join(point.SameWork(all), point.SameGuests(all),
		point.Same(all, "users", func(p *point.Point) int { return p.Users }),
		point.Same(all, "processors", func(p *point.Point) int { return p.Processors })); err != nil {
		return nil, err
	}
	r := &Roles{Marks: point.Marks(all)}
	var values [5][]float64 // single, routing, active of configuration 3, its standby, both
	for k, points := range [][]point.Point{c.Single, c.Routing, c.Standby, c.Both} {
		for i := range points {
			p := &points[i]
			r.Users = p.Users
			uses := slices.Sorted(maps.Values(p.Servers))
			want := 2
			if k == 0 {
				want = 1
			}
			if len(uses) != want {
				return nil, fmt.Errorf(
					"%w: %s has %d metered servers, configuration %d has %d: make it with bench lab config%d",
					point.ErrPoints,
					p.Run,
					len(uses),
					k+1,
					want,
					k+1,
				)
			}
			switch k {
			case 0:
				values[0] = append(values[0], uses[0])
			case 1, 3:
				values[k+k/3] = append(values[k+k/3], stat.Mean(uses, nil))
			default: // the active server is the busier one
				values[2], values[3] = append(values[2], uses[1]), append(values[3], uses[0])
			}
		}
		if len(points) == 0 {
			return nil, fmt.Errorf("%w: configuration %d has no step", point.ErrPoints, k+1)
		}
	}
	single, routing, active := of(values[0]), of(values[1]), of(values[2])
	initiating := sum([]spread{active, single}, 1, -1)
	r.fill(single, routing, initiating, of(values[3]), of(values[4]))
	return r, nil
}

// fill sets the intervals and compares the sum with the whole.
func (r *Roles) fill(single, routing, initiating, receiving, both spread) {
	all := sum([]spread{routing, initiating, receiving}, 1, 1, 1)
	r.Single, r.Routing, r.Initiating = single.interval(), routing.interval(), initiating.interval()
	r.Receiving, r.Both, r.Sum = receiving.interval(), both.interval(), all.interval()
	gap := sum([]spread{both, all}, 1, -1).interval()
	relative := gap.Value / r.Both.Value * 100
	switch {
	case math.IsNaN(gap.Low):
		r.Additive = fmt.Sprintf("the whole differs from the sum by %+.1f %%; without repeats no decision", relative)
	case gap.Contains(0):
		r.Additive = fmt.Sprintf("no difference from the sum is shown (%+.1f %%)", relative)
	case gap.Value < 0:
		r.Additive = fmt.Sprintf(
			"less than the sum (%+.1f %%): another resource, such as the disk, holds it back",
			relative,
		)
	default:
		r.Additive = fmt.Sprintf("more than the sum (%+.1f %%): the roles disturb each other", relative)
	}
}

// Text returns the roles as a table.
func (r *Roles) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cores of a server by role, %d users\n", r.Users)
	for _, x := range []struct {
		name string
		i    estimate.Interval
	}{{"single", r.Single}, {"with routing", r.Routing}, {"initiating replication", r.Initiating},
		{"receiving replication", r.Receiving}, {"sum of parts", r.Sum}, {"all of it", r.Both}} {
		if math.IsNaN(x.i.Low) {
			fmt.Fprintf(&b, "  %-24s %.3f (not repeated)\n", x.name, x.i.Value)
			continue
		}
		fmt.Fprintf(&b, "  %-24s %.3f (%.3f to %.3f)\n", x.name, x.i.Value, x.i.Low, x.i.High)
	}
	fmt.Fprintf(&b, "%s\n", r.Additive)
	for _, m := range r.Marks {
		fmt.Fprintf(&b, "marked: %s\n", m)
	}
	return b.String()
}
