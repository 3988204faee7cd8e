package result

import (
	"fmt"
	"strings"
)

// Series holds the results of several configurations, as --json prints them.
type Series struct {
	Runs []*Result `json:"runs"`
	// PerServer is the busiest server's processor time in the last step of each run, in seconds per 1,000 actions of
	// all users. Ratio is that value relative to the first run's, 0 if it was not measured.
	PerServer []float64 `json:"cpu_s_per_1000_of_busiest_server"`
	Ratio     []float64 `json:"ratio"`
}

// NewSeries compares runs.
func NewSeries(runs []*Result) *Series {
	all := &Series{Runs: runs}
	for _, r := range runs {
		most := 0.0
		if s := r.Steps; len(s) > 0 && s[len(s)-1].TPM > 0 {
			last := &s[len(s)-1]
			for _, v := range last.Servers {
				if !v.Metered { // it may be the busiest one
					most = 0
					break
				}
				most = max(most, v.Cores/(last.TPM/60)*1000)
			}
		}
		all.PerServer = append(all.PerServer, most)
		ratio := 0.0
		if first := all.PerServer[0]; first > 0 {
			ratio = most / first
		}
		all.Ratio = append(all.Ratio, ratio)
	}
	return all
}

// Text returns the tables of the runs, and compares each with the first.
func (s *Series) Text() string {
	var b strings.Builder
	for i, r := range s.Runs {
		b.WriteString(r.Text())
		if i > 0 && s.Ratio[i] > 0 {
			fmt.Fprintf(&b, "the busiest server: %.3f CPU-s for 1,000 actions, %.2f times that of the first\n",
				s.PerServer[i], s.Ratio[i])
		}
	}
	return b.String()
}
