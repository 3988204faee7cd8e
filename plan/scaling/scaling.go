// Package scaling computes how a server scales, as document 001 does: rates (ETR, ITR) and their ratios, scaling
// factors beside reference curves, the cost of partitions and guests, a fit of the Universal Scalability Law, and a
// queueing model beside it.
package scaling

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"doublet/plan/estimate"
	"doublet/plan/point"
)

// Row is the mean of the measurements of one configuration and number of users.
type Row struct {
	Users      int `json:"users"`
	Processors int `json:"processors"`
	Partitions int `json:"partitions"`
	Guests     int `json:"guests,omitempty"`
	// Ratio is the number of virtual processors for each real one, 1 without guests.
	Ratio   float64 `json:"virtual_to_real"`
	Repeats int     `json:"repeats"`
	ETR     float64 `json:"etr"`
	// CPU is the share of the processors in percent.
	CPU float64 `json:"cpu_pct"`
	ITR float64 `json:"itr"`
	// PerITR is the ITR over that of the first row.
	PerITR estimate.Interval `json:"itr_ratio"`
	itr    []float64
	cpu    []float64
	loads  []float64
	rates  []float64
}

// Step is the scaling from one number of processors to another, with users a processor held constant.
type Step struct {
	From   int               `json:"from"`
	To     int               `json:"to"`
	Factor estimate.Interval `json:"factor"`
	// Beside compares the factor with the reference curves of that step.
	Beside []string `json:"beside,omitempty"`
	// Rules are the conditions of document 001 that the measurements break.
	Rules []string `json:"broken_rules,omitempty"`
}

// Partition is the cost of more partitions at the same users and processors.
type Partition struct {
	From int               `json:"from"`
	To   int               `json:"to"`
	CPU  estimate.Interval `json:"cpu_change_pct"`
	ITR  estimate.Interval `json:"itr_change_pct"`
	ETR  estimate.Interval `json:"etr_change_pct"`
}

// Guest is the cost of guests, or of more of them, with as many virtual processors for each real one; or that of more
// virtual processors for the same guests. Users, processors and partitions are the same.
type Guest struct {
	Users      int `json:"users"`
	Processors int `json:"processors"`
	Partitions int `json:"partitions"`
	// From and To name the guests, and their virtual processors for each real one: "none", "4 at 2:1".
	From string            `json:"from"`
	To   string            `json:"to"`
	CPU  estimate.Interval `json:"cpu_change_pct"`
	ITR  estimate.Interval `json:"itr_change_pct"`
	ETR  estimate.Interval `json:"etr_change_pct"`
}

// Report is the analysis.
type Report struct {
	Rows       []Row       `json:"rows"`
	Steps      []Step      `json:"steps,omitempty"`
	Partitions []Partition `json:"partitions,omitempty"`
	Guests     []Guest     `json:"guests,omitempty"`
	// Law is the fit over users; NoLaw tells why there is none.
	Law   *Law   `json:"usl,omitempty"`
	NoLaw string `json:"no_usl,omitempty"`
	// Check is the queueing model's prediction beside the measurements; NoCheck tells why there is none.
	Check   []Predicted `json:"mva,omitempty"`
	NoCheck string      `json:"no_mva,omitempty"`
	// Marks list what keeps the points from ones by the book.
	Marks []string `json:"marks,omitempty"`
}

// Curve is a published reference curve: throughput with To processors over that with From.
type Curve struct {
	Name     string
	From, To int
	Factor   float64
}

// Analyse analyses usable points of the same work. think is the mean time between two actions of a user in seconds, 0
// if it is unknown.
func Analyse(points []point.Point, curves []Curve, think float64) (*Report, error) {
	if !(think >= 0 && think <= 1e6) {
		return nil, fmt.Errorf("%w: --think is %g: want seconds from 0 to 1e6", point.ErrPoints, think)
	}
	if err := point.SameWork(points); err != nil {
		return nil, err
	}
	for i := range points {
		if p := &points[i]; !(p.Share() > 0 && p.Rate > 0 && p.Load() > 0 && p.ITR() < math.MaxFloat32) {
			return nil, fmt.Errorf("%w: %s, %d users: no CPU use, no rate or no speed: meter the server, or give "+
				"cpu_pct and tpm above 0", point.ErrPoints, p.Run, p.Users)
		}
	}
	r := &Report{Rows: rows(points), Marks: point.Marks(points)}
	if err := point.Same(points, "target", func(p *point.Point) string { return p.Target }); err != nil {
		r.Marks = append(r.Marks, err.Error())
	}
	for i := range r.Rows {
		r.Rows[i].PerITR = estimate.Quotient(r.Rows[0].itr, r.Rows[i].itr)
	}
	r.steps(curves)
	r.partitions()
	r.guests()
	var err error
	if r.Law, err = r.law(); err != nil {
		r.NoLaw = err.Error()
	}
	if r.Check, err = check(points, think); err != nil {
		r.NoCheck = err.Error()
	}
	return r, nil
}

// rows groups the points.
func rows(points []point.Point) []Row {
	type key struct {
		users, processors, partitions, guests int
		ratio                                 float64
	}
	at := map[key]*Row{}
	for i := range points {
		p := &points[i]
		k := key{p.Users, p.Processors, p.Partitions, p.Guests, p.Ratio()}
		if at[k] == nil {
			at[k] = &Row{Users: p.Users, Processors: p.Processors, Partitions: p.Partitions, Guests: p.Guests,
				Ratio: p.Ratio()}
		}
		r := at[k]
		r.Repeats++
		r.itr, r.cpu = append(r.itr, p.ITR()), append(r.cpu, p.Share())
		r.rates, r.loads = append(r.rates, p.Rate), append(r.loads, p.Load())
	}
	out := make([]Row, 0, len(at))
	for _, r := range at {
		r.ETR, r.CPU, r.ITR = mean(r.rates), mean(r.cpu), mean(r.itr)
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Processors, b.Processors), cmp.Compare(a.Partitions, b.Partitions),
			cmp.Compare(a.Guests, b.Guests), cmp.Compare(a.Ratio, b.Ratio), cmp.Compare(a.Users, b.Users))
	})
	return out
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// maxPairs bounds the pairs of rows that are compared.
const maxPairs = 1000

// full reports whether a list of n pairs is full, and marks the report then.
func (r *Report) full(n int) bool {
	if n < maxPairs {
		return false
	}
	if text := fmt.Sprintf("only the first %d pairs of steps are compared", maxPairs); !slices.Contains(r.Marks, text) {
		r.Marks = append(r.Marks, text)
	}
	return true
}

// steps finds pairs of rows with other numbers of processors and the same users a processor.
func (r *Report) steps(curves []Curve) {
	for i := range r.Rows {
		for j := range r.Rows {
			a, b := &r.Rows[i], &r.Rows[j]
			if a.Processors >= b.Processors || a.Partitions != b.Partitions || !sameGuests(a, b) ||
				a.Users*b.Processors != b.Users*a.Processors {
				continue
			}
			if r.full(len(r.Steps)) {
				return
			}
			s := Step{From: a.Processors, To: b.Processors, Factor: estimate.Quotient(a.itr, b.itr)}
			for _, x := range []*Row{a, b} {
				if x.CPU < 85 || x.CPU > 95 {
					s.Rules = append(
						s.Rules,
						fmt.Sprintf("%d processors were busy to %.0f %%, not to 85 to 95 %%", x.Processors,
							x.CPU),
					)
				}
			}
			for _, c := range curves {
				if c.From == s.From && c.To == s.To {
					s.Beside = append(s.Beside, beside(s.Factor, c))
				}
			}
			r.Steps = append(r.Steps, s)
		}
	}
}

// beside compares a factor with a reference curve.
func beside(f estimate.Interval, c Curve) string {
	switch {
	case math.IsNaN(f.Low):
		return fmt.Sprintf("%s: %.2f; without repeats no decision", c.Name, c.Factor)
	case f.Contains(c.Factor):
		return fmt.Sprintf("%s: %.2f, no difference shown", c.Name, c.Factor)
	case f.Value > c.Factor:
		return fmt.Sprintf("%s: %.2f, scales better", c.Name, c.Factor)
	}
	return fmt.Sprintf("%s: %.2f, scales worse", c.Name, c.Factor)
}

// partitions compares rows that differ in partitions only.
func (r *Report) partitions() {
	for i := range r.Rows {
		for j := range r.Rows {
			a, b := &r.Rows[i], &r.Rows[j]
			if a.Partitions < b.Partitions && a.Processors == b.Processors && a.Users == b.Users && sameGuests(a, b) {
				if r.full(len(r.Partitions)) {
					return
				}
				r.Partitions = append(r.Partitions, Partition{a.Partitions, b.Partitions,
					estimate.Quotient(a.cpu, b.cpu).Percent(), estimate.Quotient(a.itr, b.itr).Percent(),
					estimate.Quotient(a.rates, b.rates).Percent()})
			}
		}
	}
}

func sameGuests(a, b *Row) bool { return a.Guests == b.Guests && a.Ratio == b.Ratio }

// guests compares rows that differ in guests only, or in the virtual processors of the same guests. The rows are in
// ascending order of both.
func (r *Report) guests() {
	for i := range r.Rows {
		for j := i + 1; j < len(r.Rows); j++ {
			a, b := &r.Rows[i], &r.Rows[j]
			if a.Users != b.Users || a.Processors != b.Processors || a.Partitions != b.Partitions ||
				(a.Guests == b.Guests) == (a.Ratio == b.Ratio) {
				continue
			}
			if r.full(len(r.Guests)) {
				return
			}
			r.Guests = append(r.Guests, Guest{a.Users, a.Processors, a.Partitions, a.guests(), b.guests(),
				estimate.Quotient(a.cpu, b.cpu).Percent(),
				estimate.Quotient(a.itr, b.itr).Percent(), estimate.Quotient(a.rates, b.rates).Percent()})
		}
	}
}

// guests names the guests of a row, such as "4 at 2:1".
func (r *Row) guests() string {
	if r.Guests == 0 {
		return "none"
	}
	return fmt.Sprintf("%d at %.3g:1", r.Guests, r.Ratio)
}

// Law is a fit of the Universal Scalability Law (Gunther): X(N) = λN / (1 + σ(N-1) + κN(N-1)).
type Law struct {
	// Over is the unit of N: processors, or users.
	Over   string            `json:"over"`
	Lambda estimate.Interval `json:"lambda"`
	Sigma  estimate.Interval `json:"sigma"`
	Kappa  estimate.Interval `json:"kappa"`
	// Peak is the N of the most throughput, 0 if κ is not shown to be above 0.
	Peak float64 `json:"peak,omitempty"`
	// Worst is the largest relative error of the fit.
	Worst float64 `json:"worst_relative_error"`
}

// At returns the throughput at n.
func (l *Law) At(n float64) float64 {
	return l.Lambda.Value * n / (1 + l.Sigma.Value*(n-1) + l.Kappa.Value*n*(n-1))
}

// ErrLaw means that the data carry no fit.
var ErrLaw = errors.New("data carry no fit of the Universal Scalability Law")

// law fits the throughput at full use over processors, or over users, whichever varies.
func (r *Report) law() (*Law, error) {
	var n, x []float64
	over := "processors"
	distinct := map[float64]bool{}
	for i := range r.Rows {
		distinct[float64(r.Rows[i].Processors)] = true
		if !sameGuests(&r.Rows[0], &r.Rows[i]) {
			return nil, fmt.Errorf("%w: the steps differ in guests", ErrLaw)
		}
	}
	byUsers := len(distinct) == 1
	if byUsers {
		over = "users"
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		for k := range row.itr {
			if byUsers {
				n, x = append(n, row.loads[k]), append(x, row.rates[k])
			} else {
				n, x = append(n, float64(row.Processors)), append(x, row.itr[k])
			}
		}
	}
	l, err := FitLaw(n, x)
	if err == nil {
		l.Over = over
	}
	return l, err
}

// carries returns the largest n, or ErrLaw if the measurements cannot carry a fit.
func carries(n, x []float64) (largest float64, err error) {
	distinct := slices.Clone(n)
	slices.Sort(distinct)
	distinct = slices.Compact(distinct)
	if len(distinct) < 4 || distinct[len(distinct)-1] < 4*distinct[0] || len(n) < 5 {
		return 0, fmt.Errorf("%w: it needs 5 measurements at 4 sizes, the largest 4 times the smallest; there are %d "+
			"at %d", ErrLaw, len(n), len(distinct))
	}
	for i := range n {
		if !(n[i] > 0 && x[i] > 0 && x[i]/n[i] < math.MaxFloat32) {
			return 0, fmt.Errorf("%w: throughput of %g is %g", ErrLaw, n[i], x[i])
		}
	}
	return distinct[len(distinct)-1], nil
}

// FitLaw fits throughputs x at n, both above 0. It needs four different n over a range of 1 to 4, and refuses a fit
// whose coefficients the data leave open.
func FitLaw(n, x []float64) (*Law, error) {
	largest, err := carries(n, x)
	if err != nil {
		return nil, err
	}
	// N/X = (1 + σ(N-1) + κN(N-1)) / λ is linear. Each row is weighted by X/N, so that relative errors count.
	y := make([]float64, len(n))
	columns := [][]float64{make([]float64, len(n)), make([]float64, len(n)), make([]float64, len(n))}
	scale := largest
	for i := range n {
		w := x[i] / n[i]
		y[i] = 1
		columns[0][i], columns[1][i], columns[2][i] = w, w*(n[i]-1)/scale, w*n[i]*(n[i]-1)/scale/scale
	}
	f, err := estimate.LeastSquares(y, columns)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLaw, err)
	}
	a := f.Coefficient(0)
	if !(a.Low > 0) {
		return nil, fmt.Errorf("%w: the throughput of one is open: measure smaller sizes", ErrLaw)
	}
	// σ and κ are quotients of coefficients, and as uncertain as both.
	over := func(k int, by float64) estimate.Interval {
		i := f.Quotient(k, 0)
		return estimate.Interval{Value: i.Value / by, Low: i.Low / by, High: i.High / by}
	}
	l := &Law{Lambda: estimate.Interval{Value: 1 / a.Value, Low: 1 / a.High, High: 1 / a.Low}, Sigma: over(1, scale),
		Kappa: over(2, scale*scale)}
	if l.Sigma.High < 0 || l.Kappa.High < 0 {
		return nil, fmt.Errorf(
			"%w: throughput grows faster than size: has the workload changed, or a cache filled?",
			ErrLaw,
		)
	}
	for i := range n {
		l.Worst = max(l.Worst, math.Abs(l.At(n[i])-x[i])/x[i]) // max keeps NaN
	}
	if !(l.Worst <= 0.15) { // a fit without a finite value as well
		return nil, fmt.Errorf("%w: it misses a measurement by %.0f %%", ErrLaw, l.Worst*100)
	}
	if l.Kappa.Low > 0 && l.Sigma.Value < 1 {
		l.Peak = math.Sqrt((1 - l.Sigma.Value) / l.Kappa.Value)
	}
	return l, nil
}
