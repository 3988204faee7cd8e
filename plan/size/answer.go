package size

import (
	"fmt"
	"math"
	"strings"

	"doublet/plan/estimate"
	"doublet/plan/point"
	"doublet/stat/chart"
)

// Limit holds the need of one resource.
type Limit struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Need is the use of all servers together without their fixed part, Room what a server has for it.
	Need estimate.Interval `json:"need"`
	Room estimate.Interval `json:"room_of_a_server"`
	// Servers is the number of servers that have enough room.
	Servers estimate.Interval `json:"servers"`
	From    string            `json:"from"`
	// Full is the number of years until the servers of the answer are full of it, -1 if they are not within 20.
	Full float64 `json:"full_in_years"`
}

// Answer holds the servers for a request.
type Answer struct {
	Request     Request      `json:"request"`
	Calibration *Calibration `json:"calibration"`
	// Active is the number of active people at the end of the years.
	Active float64 `json:"active"`
	Limits []Limit `json:"limits"`
	// Servers is the number of servers, Deciding the resource that decides it. The bounds of an answer come from the
	// lower and the upper bounds of all costs at once: a range that is wider than an interval of 95 %.
	Servers  estimate.Interval `json:"servers"`
	Deciding string            `json:"deciding"`
	// Partitions is the number of a server. Use is the processor use of a server in percent, AfterFailure that of each
	// one that is left.
	Partitions   estimate.Interval `json:"partitions_of_a_server"`
	Use          estimate.Interval `json:"cpu_pct"`
	AfterFailure estimate.Interval `json:"cpu_pct_after_failure"`
	Price        estimate.Interval `json:"price,omitzero"`
	Marks        []string          `json:"marks,omitempty"`
}

// space is the share of a disk that may be full.
const space = 0.8

// needs returns need and room of each limit, in order.
func needs(c *Calibration, r *Request, years float64, b bound) (out []Limit, values [][2]float64) {
	people := float64(r.People) * math.Pow(1+r.PeopleGrowth, years)
	work := people * r.Active * r.Heavier
	add := func(name, unit, from string, need, room float64) {
		out = append(out, Limit{Name: name, Unit: unit, From: from})
		values = append(values, [2]float64{need, room})
	}
	copies := float64(r.Replicas)
	for i := range c.Costs {
		x := &c.Costs[i]
		slope, fixed := b.of(x.Slope), b.of(x.Fixed)
		switch x.Name {
		case point.CPU:
			add(
				"processors",
				x.Unit,
				x.From,
				slope*work*r.Features*(1+(copies-1)*b.of(c.Replica)),
				r.Processors*r.Target-fixed,
			)
		case point.Memory:
			// Memory belongs to sessions, not to what they do.
			add("memory", x.Unit, x.From, slope*people*r.Active, r.MemoryGB*1000-fixed)
		case point.DiskWrite:
			add("disk writes", x.Unit, x.From, slope*work*copies, r.DiskMBs*r.Target-fixed)
		case point.DiskRead:
			add("disk reads", x.Unit, x.From, slope*work, r.DiskMBs*r.Target-fixed)
		case point.Network:
			add("network", x.Unit, x.From, slope*work*copies, r.NetworkMbit*125*r.Target-fixed)
		}
	}
	add(
		"disk space",
		"GB",
		"request",
		people*r.MailboxMB/1000*math.Pow(1+r.MailboxGrowth, years)*copies,
		r.DiskGB*space,
	)
	if r.P99 > 0 {
		most := 0.0
		for _, l := range c.Loads {
			if l.P99 > r.P99 {
				break
			}
			most = l.Users
		}
		// The measured server had other processors: its load holds for as many.
		room := most * r.Processors / float64(max(1, c.Processors))
		add("p99", "users", fmt.Sprintf("the most users within %g ms", r.P99), work, room)
	}
	return out, values
}

// count returns the servers of a need, +Inf if a server has no room.
func count(need, room float64) float64 {
	if room <= 0 {
		return math.Inf(1)
	}
	return math.Max(1, math.Ceil(need/room-1e-9))
}

// ErrRoom means that no number of servers is enough.
var ErrRoom = fmt.Errorf("%w: a server has no room", ErrCalibration)

// Plan answers a request.
func Plan(c *Calibration, r Request) (*Answer, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	a := &Answer{Request: r, Calibration: c, Marks: c.Marks}
	a.Active = float64(r.People) * math.Pow(1+r.PeopleGrowth, r.Years) * r.Active
	a.Deciding = "the number of replicas"
	var servers [3]float64
	for b := range bound(3) {
		limits, values := needs(c, &r, r.Years, b)
		if b == middle {
			a.Limits = limits
		}
		servers[b] = float64(r.Replicas)
		for i, v := range values {
			l := &a.Limits[i]
			n := count(v[0], v[1])
			put(&l.Need, b, v[0])
			put(&l.Room, b, v[1])
			put(&l.Servers, b, n)
			if n > servers[b] && b == middle {
				a.Deciding = l.Name
			}
			servers[b] = max(servers[b], n)
		}
		if math.IsInf(servers[middle], 1) {
			return nil, fmt.Errorf(
				"%w for %s: the fixed part alone is more than --target of a server",
				ErrRoom,
				a.Deciding,
			)
		}
	}
	extra := float64(r.Survive)
	a.Servers = estimate.Interval{
		Value: servers[middle] + extra,
		Low:   servers[low] + extra,
		High:  servers[high] + extra,
	}
	a.use()
	a.growth()
	work := a.Active * r.Heavier / servers[middle]
	if limit := c.MaxLoad * r.Processors / float64(max(1, c.Processors)); work > limit*1.05 {
		a.Marks = append(
			a.Marks,
			fmt.Sprintf("extrapolated: %.0f active users a server, measured up to %.0f", work, limit),
		)
	}
	if r.Replicas > 1 {
		a.Marks = append(a.Marks, "cost of replicas from "+c.ReplicaFrom)
	}
	a.Price = estimate.Interval{
		Value: a.Servers.Value * r.Price,
		Low:   a.Servers.Low * r.Price,
		High:  a.Servers.High * r.Price,
	}
	return a, nil
}

func put(i *estimate.Interval, b bound, v float64) {
	switch b {
	case middle:
		i.Value = v
	case low:
		i.Low = v
	default:
		i.High = v
	}
}

// use computes partitions, and the processor use of the servers of the answer with all of them and after a failure.
func (a *Answer) use() {
	r := &a.Request
	n, left := a.Servers.Value, a.Servers.Value-float64(r.Survive)
	a.Partitions.Value = math.Max(1, math.Ceil(a.Active/left/r.PerPartition))
	a.Partitions.Low, a.Partitions.High = a.Partitions.Value, a.Partitions.Value
	cpu := a.Calibration.cost(point.CPU)
	for b := range bound(3) {
		_, values := needs(a.Calibration, r, r.Years, b)
		fixed := b.of(cpu.Fixed)
		put(&a.Use, b, (values[0][0]/n+fixed)/r.Processors*100)
		put(&a.AfterFailure, b, (values[0][0]/left+fixed)/r.Processors*100)
	}
}

// growth finds when the servers of the answer, those that may fail not counted, are full of each resource.
func (a *Answer) growth() {
	left := a.Servers.Value - float64(a.Request.Survive)
	for i := range a.Limits {
		a.Limits[i].Full = -1
	}
	for tenth := range 201 {
		_, values := needs(a.Calibration, &a.Request, float64(tenth)/10, middle)
		for i, v := range values {
			if a.Limits[i].Full < 0 && v[0] > v[1]*left*(1+1e-9) {
				a.Limits[i].Full = float64(tenth) / 10
			}
		}
	}
}

// Span formats a number with its interval.
func Span(i estimate.Interval) string {
	if !(i.High > i.Low) {
		return whole(i.Value)
	}
	if math.IsInf(i.High, 1) {
		return fmt.Sprintf("%s (%s or more)", whole(i.Value), whole(i.Low))
	}
	return fmt.Sprintf("%s (%s to %s)", whole(i.Value), whole(i.Low), whole(i.High))
}

// whole formats a number, a whole one without decimals.
func whole(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e6 {
		return chart.Group(int64(v))
	}
	return chart.Number(v)
}

// Text returns the answer as text.
func (a *Answer) Text() string {
	var b strings.Builder
	r := &a.Request
	fmt.Fprintf(
		&b,
		"%s servers for %d people (%.0f active after %g years), %d of which may fail; %s decides\n",
		Span(a.Servers),
		r.People,
		a.Active,
		r.Years,
		r.Survive,
		a.Deciding,
	)
	fmt.Fprintf(&b, "partitions of a server: %.0f\n", a.Partitions.Value)
	fmt.Fprintf(&b, "processors of a server: %s %% used, %s %% after a failure\n", Span(a.Use), Span(a.AfterFailure))
	if r.Price > 0 {
		fmt.Fprintf(&b, "price: %s\n", Span(a.Price))
	}
	fmt.Fprintf(
		&b,
		"%-14s %-34s %-14s %-22s %-12s %s\n",
		"",
		"need of all",
		"a server has",
		"servers",
		"full in",
		"from",
	)
	for i := range a.Limits {
		l := &a.Limits[i]
		full := "–"
		if l.Full >= 0 {
			full = fmt.Sprintf("%.1f years", l.Full)
		}
		fmt.Fprintf(
			&b,
			"%-14s %-34s %-14s %-22s %-12s %s\n",
			l.Name,
			Span(l.Need)+" "+l.Unit,
			chart.Number(l.Room.Value),
			Span(l.Servers),
			full,
			l.From,
		)
	}
	b.WriteString("ranges in brackets come from the bounds of all costs at once\n")
	for _, c := range a.Calibration.Costs {
		fmt.Fprintf(
			&b,
			"measured: %s: fixed %s, an active user %s (%s)\n",
			c.Name,
			Span(c.Fixed),
			Precise(c.Slope),
			c.From,
		)
	}
	for _, m := range a.Marks {
		fmt.Fprintf(&b, "marked: %s\n", m)
	}
	return b.String()
}

// Precise formats a small number with its interval.
func Precise(i estimate.Interval) string {
	return fmt.Sprintf("%.3g (%.3g to %.3g)", i.Value, i.Low, i.High)
}
