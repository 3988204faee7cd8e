// Package size computes the servers that a number of people needs, from measured steps: each figure has its interval
// and names the measurement that it comes from. The page computes the same in the browser (size.js).
package size

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"doublet/plan/estimate"
	"doublet/plan/point"
)

// Cost holds the use of a resource by a server: Fixed, and Slope for each active user.
type Cost struct {
	Name  string            `json:"name"`
	Unit  string            `json:"unit"`
	Fixed estimate.Interval `json:"fixed"`
	Slope estimate.Interval `json:"slope"`
	From  string            `json:"from"`
}

// Calibration holds the costs of a server, from measured steps.
type Calibration struct {
	Workload string `json:"workload"`
	Target   string `json:"target"`
	// Processors are those of the measured server, MaxLoad the most active users at the workload's speed that it had.
	Processors int     `json:"processors"`
	MaxLoad    float64 `json:"max_load"`
	Costs      []Cost  `json:"costs"`
	// Loads are the measured loads with their p99 in milliseconds, ascending.
	Loads []Load `json:"loads"`
	// Replica is the share that each further replica adds to the processor use. Its bounds are a range: see
	// ReplicaFrom.
	Replica     estimate.Interval `json:"replica"`
	ReplicaFrom string            `json:"replica_from"`
	Marks       []string          `json:"marks,omitempty"`
}

// Load is a measured load and its p99.
type Load struct {
	Users float64 `json:"users"`
	P99   float64 `json:"p99_ms"`
}

// ErrCalibration means that steps carry no calibration.
var ErrCalibration = errors.New("steps carry no calibration")

// resources are those that are fitted, with the unit of a user's share.
var resources = []struct{ name, unit string }{{point.CPU, "cores"}, {point.Memory, "MB"}, {point.DiskWrite, "MB/s"},
	{point.DiskRead, "MB/s"}, {point.Network, "kB/s"}}

// Calibrate fits the use of each resource to the active users. It needs three different loads of one server, under the
// same work.
func Calibrate(points []point.Point) (*Calibration, error) {
	if err := errors.Join(point.SameWork(points), point.SameGuests(points),
		point.Same(points, "target", func(p *point.Point) string { return p.Target }),
		point.Same(points, "processors", func(p *point.Point) int { return p.Processors })); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCalibration, err)
	}
	c := &Calibration{Workload: points[0].Workload, Target: points[0].Target, Processors: points[0].Processors}
	var distinct []float64
	for i := range points {
		p := &points[i]
		if !slices.Contains(distinct, p.Load()) {
			distinct = append(distinct, p.Load())
		}
		c.MaxLoad = max(c.MaxLoad, p.Load())
		if !math.IsNaN(p.P99) {
			c.Loads = append(c.Loads, Load{p.Load(), p.P99 * 1000})
		}
	}
	c.Marks = point.Marks(points)
	if len(distinct) < 3 {
		return nil, fmt.Errorf(
			"%w: %d different numbers of users, at least 3: run doublet bench run … --users 100..300 --step "+
				"100",
			ErrCalibration,
			len(distinct),
		)
	}
	slices.SortFunc(c.Loads, func(a, b Load) int { return cmp.Compare(a.Users, b.Users) })
	for _, r := range resources {
		cost, err := fit(points, r.name, r.unit)
		if err != nil {
			return nil, err
		}
		if cost != nil {
			c.Costs = append(c.Costs, *cost)
		}
	}
	if c.cost(point.CPU) == nil {
		return nil, fmt.Errorf("%w: no processor use: meter the server (--monitor), or give cpu_pct", ErrCalibration)
	}
	c.published()
	return c, nil
}

// cost returns the cost of a resource, nil if it was not measured.
func (c *Calibration) cost(name string) *Cost {
	if i := slices.IndexFunc(c.Costs, func(x Cost) bool { return x.Name == name }); i >= 0 {
		return &c.Costs[i]
	}
	return nil
}

// fit fits a resource to the load, memory to the sessions: a session at speed 20 asks as much as 20 users and is one of
// them in memory. It returns nil if no step has the resource.
func fit(points []point.Point, name, unit string) (*Cost, error) {
	var y, x, ones []float64
	runs := []string{}
	for i := range points {
		p := &points[i]
		if v, ok := p.Use[name]; ok {
			load := p.Load()
			if name == point.Memory {
				load = float64(p.Users)
			}
			y, x, ones = append(y, v), append(x, load), append(ones, 1)
			if !slices.Contains(runs, p.Run) {
				runs = append(runs, p.Run)
			}
		}
	}
	if len(y) == 0 {
		return nil, nil //nolint:nilnil // not measured
	}
	from := fmt.Sprintf("%d steps of %s", len(y), runs[0])
	if len(runs) > 1 {
		from += fmt.Sprintf(" and %d more", len(runs)-1)
	}
	l, err := estimate.LeastSquares(y, [][]float64{ones, x})
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrCalibration, name, err)
	}
	out := &Cost{Name: name, Unit: unit, Fixed: l.Coefficient(0), Slope: l.Coefficient(1), From: from}
	if out.Fixed.Value < 0 { // a cost below 0 is chance: the line goes through 0, and what is fixed is up to its bound
		if l, err = estimate.LeastSquares(y, [][]float64{x}); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrCalibration, name, err)
		}
		out.Fixed.Value, out.Slope = 0, l.Coefficient(0)
	}
	out.Fixed.Low, out.Fixed.High = max(0, out.Fixed.Low), max(0, out.Fixed.High)
	switch {
	case out.Slope.Low > 0:
	case name == point.CPU:
		return nil, fmt.Errorf(
			"%w: cores are not shown to grow with users (%.3g to %.3g each): repeat the steps",
			ErrCalibration,
			out.Slope.Low,
			out.Slope.High,
		)
	default:
		out.Slope.Low, out.Slope.Value, out.Slope.High = 0, max(0, out.Slope.Value), max(0, out.Slope.High)
	}
	return out, nil
}

// Request describes the people and the kind of server.
type Request struct {
	People int `json:"people"`
	// Active is the share of people active in 15 minutes: document 000 has 0.35 to 0.40.
	Active float64 `json:"active"`
	// Heavier is the work of an active person over that of the workload's user: document 001 has 4 and more.
	Heavier float64 `json:"heavier"`
	// MailboxMB is the space of a mail file on disk.
	MailboxMB float64 `json:"mailbox_mb"`
	// PeopleGrowth and MailboxGrowth are a year's growth, as 0.1; Years the time to plan for.
	PeopleGrowth  float64 `json:"people_growth"`
	MailboxGrowth float64 `json:"mailbox_growth"`
	Years         float64 `json:"years"`
	// Replicas is the number of servers that have each mail file; Survive the number that may fail.
	Replicas int `json:"replicas"`
	Survive  int `json:"survive"`
	// Target is the share of a resource to use at most; P99 the longest p99 in milliseconds, 0 for any.
	Target float64 `json:"target"`
	P99    float64 `json:"p99_ms"`
	// Features multiplies the processor use for features that were off when it was measured.
	Features float64 `json:"features"`
	// The server that is bought.
	Processors   float64 `json:"processors"`
	MemoryGB     float64 `json:"memory_gb"`
	DiskGB       float64 `json:"disk_gb"`
	DiskMBs      float64 `json:"disk_mb_s"`
	NetworkMbit  float64 `json:"network_mbit"`
	PerPartition float64 `json:"per_partition"`
	// Price is that of a server, in any currency.
	Price float64 `json:"price"`
}

// Default returns a request with the defaults of the documents.
func Default() Request {
	return Request{
		People:        1000,
		Active:        0.36,
		Heavier:       1,
		MailboxMB:     300,
		PeopleGrowth:  0,
		MailboxGrowth: 0.2,
		Years:         3,
		Replicas:      1,
		Survive:       0,
		Target:        0.7,
		Features:      1,
		Processors:    4,
		MemoryGB:      16,
		DiskGB:        2000,
		DiskMBs:       200,
		NetworkMbit:   1000,
		PerPartition:  1000,
	}
}

// Check refuses a request without an answer.
func (r *Request) Check() error {
	for _, x := range []struct {
		name      string
		v, lo, hi float64
	}{{"people", float64(r.People), 1, 1e8}, {"active", r.Active, 0.001, 1}, {"heavier", r.Heavier, 0.01, 1000},
		{"mailbox", r.MailboxMB, 0, 1e7}, {"people-growth", r.PeopleGrowth, -0.9, 10}, {"mailbox-growth",
			r.MailboxGrowth, -0.9, 10},
		{"years", r.Years, 0, 20}, {"replicas", float64(r.Replicas), 1, 6}, {"survive", float64(r.Survive), 0, 5},
		{"target", r.Target, 0.05, 1}, {"p99", r.P99, 0, 1e6}, {"features", r.Features, 0.1, 100},
		{"processors", r.Processors, 1, 4096}, {"memory", r.MemoryGB, 0.1, 1e5}, {"disk", r.DiskGB, 1, 1e8},
		{"disk-speed", r.DiskMBs, 0.1, 1e6}, {"network", r.NetworkMbit, 1, 1e7}, {"per-partition", r.PerPartition, 1,
			1e6},
		{"price", r.Price, 0, 1e12}} {
		if math.IsNaN(x.v) || x.v < x.lo || x.v > x.hi {
			return fmt.Errorf("--%s is %g: want %g to %g", x.name, x.v, x.lo, x.hi)
		}
	}
	if r.Survive > 0 && r.Replicas <= r.Survive {
		return fmt.Errorf(
			"--survive %d needs --replicas %d: a mail file on %d servers does not outlive them",
			r.Survive,
			r.Survive+1,
			r.Replicas,
		)
	}
	return nil
}

// bound selects the side of the intervals.
type bound int

const (
	middle bound = iota
	low
	high
)

func (b bound) of(i estimate.Interval) float64 { return [3]float64{i.Value, i.Low, i.High}[b] }
