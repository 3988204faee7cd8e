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

// Station is a resource of a closed queueing network: Demand is the seconds that an action needs of it, Servers the
// number of equal servers, such as processors.
type Station struct {
	Demand  float64
	Servers int
}

// mva calls visit with the throughput and the response time of 1 to n users who think for think seconds, by exact Mean
// Value Analysis (Reiser and Lavenberg 1980), also for stations of several servers.
func mva(stations []Station, think float64, n int, visit func(users int, throughput, response float64)) {
	queue := make([]float64, len(stations))
	idle := make([][]float64, len(stations)) // the probability of j at the station, j below Servers
	for k, s := range stations {
		idle[k] = make([]float64, max(1, s.Servers))
		idle[k][0] = 1
	}
	stay := make([]float64, len(stations))
	for users := 1; users <= n; users++ {
		response := 0.0
		for k, s := range stations {
			m := len(idle[k])
			waiting := 1 + queue[k]
			for j := range m - 1 {
				waiting += float64(m-1-j) * idle[k][j]
			}
			stay[k] = s.Demand / float64(m) * waiting
			response += stay[k]
		}
		throughput := float64(users) / (think + response)
		for k, s := range stations {
			queue[k] = throughput * stay[k]
			m := len(idle[k])
			sum := s.Demand * throughput
			for j := m - 1; j >= 1; j-- {
				idle[k][j] = s.Demand * throughput * idle[k][j-1] / float64(j)
				sum += float64(m-j) * idle[k][j]
			}
			idle[k][0] = max(0, 1-sum/float64(m))
		}
		visit(users, throughput, response)
	}
}

// Predicted is a prediction of the queueing model beside the measurement.
type Predicted struct {
	Users      int     `json:"users"`
	Rate       float64 `json:"predicted_etr"`
	Measured   float64 `json:"etr"`
	Response   float64 `json:"predicted_response_ms"`
	Found      float64 `json:"response_ms"`
	Bottleneck string  `json:"bottleneck"`
}

// ErrModel means that there is no queueing model of the points.
var ErrModel = errors.New("no queueing model")

// mostUsers bounds the work of the queueing model, which goes from one user to the next.
const mostUsers = 200_000

// network returns the stations of an action at a point, and the one with the largest demand.
func network(p *point.Point) (stations []Station, bottleneck string) {
	stations = []Station{{p.Use[point.CPU] / p.Rate, p.Processors}}
	if busy := p.Use[point.DiskBusy]; busy > 0 {
		stations = append(stations, Station{busy / 100 / p.Rate, 1})
	}
	if len(stations) > 1 && stations[1].Demand > stations[0].Demand/float64(stations[0].Servers) {
		return stations, "disk"
	}
	return stations, "processors"
}

// sameMachine reports whether two points are of the same processors and guests.
func sameMachine(a, b *point.Point) bool {
	return a.Processors == b.Processors && a.Guests == b.Guests && a.Virtual == b.Virtual
}

// check predicts each point that has a response time by a network of processors and disk, whose demands come from the
// point with the fewest users: those with more users are predicted, not fitted.
func check(points []point.Point, think float64) ([]Predicted, error) {
	first := slices.MinFunc(points, func(a, b point.Point) int { return cmp.Compare(a.Users, b.Users) })
	if math.IsNaN(first.Average) {
		return nil, fmt.Errorf("%w: the points have no response times", ErrModel)
	}
	if think == 0 {
		think = float64(first.Users)/first.Rate - first.Average
	}
	if !(think >= 0) {
		return nil, fmt.Errorf("%w: %d users with %.3g actions a second and answers after %.3g s have no time to think",
			ErrModel, first.Users, first.Rate, first.Average)
	}
	stations, bottleneck := network(&first)
	var out []Predicted
	most := 0
	for i := range points {
		if p := &points[i]; sameMachine(p, &first) && p.Users <= mostUsers && !math.IsNaN(p.Average) {
			out = append(out, Predicted{Users: p.Users, Measured: p.Rate, Found: p.Average * 1000,
				Bottleneck: bottleneck})
			most = max(most, p.Users)
		}
	}
	slices.SortStableFunc(out, func(a, b Predicted) int { return cmp.Compare(a.Users, b.Users) })
	at := 0
	mva(stations, think, most, func(users int, throughput, response float64) {
		for ; at < len(out) && out[at].Users == users; at++ {
			out[at].Rate, out[at].Response = throughput, response*1000
		}
	})
	for _, x := range out {
		if math.IsNaN(x.Rate) || math.IsInf(x.Rate, 0) || math.IsInf(x.Response, 0) {
			return nil, fmt.Errorf("%w: the demands of an action have no finite answer", ErrModel)
		}
	}
	return out, nil
}

// Percent returns a relative change as percent, with its interval.
func Percent(i estimate.Interval) string {
	if math.IsNaN(i.Low) {
		return fmt.Sprintf("%+.1f %% (not repeated)", i.Value)
	}
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", i.Value, i.Low, i.High)
}
