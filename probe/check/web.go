package check

import (
	"fmt"
	"time"

	"doublet/probe"
)

// Requests are the requests at one door or interface since the last reading.
type Requests struct {
	Of     string
	Count  uint64
	Errors uint64 // answered with a status from 500 on, or not at all because the server is at fault
	Mean   time.Duration
}

// fewRequests is the number of requests below which a share or a mean says nothing.
const fewRequests = 20

// WebErrors reports requests that fail for a fault of the server.
var WebErrors = probe.Check[[]Requests]{
	Kind: probe.Kind{Type: probe.Web, Name: "WebErrors",
		What:   "share of requests that the server answered with a status from 500 on, of 20 or more in 5 minutes",
		Cause:  "The disk is full, databases are out of service, or the program has an error.",
		Remedy: "Look at the log for the errors, and at the other events.",
		Every:  5 * time.Minute, Clear: 5 * time.Minute,
		Limits: []probe.Limit{low(5, probe.Percent), high(25, probe.Percent), failure(75, probe.Percent)}},
	Find: func(list []Requests, l probe.Limits) (out []probe.Finding) {
		for _, r := range list {
			s, bad := l.Above(percent(float64(r.Errors), float64(r.Count)))
			out = append(out, one(s, bad && r.Count >= fewRequests, r.Of,
				fmt.Sprintf("%d of %d requests to %s failed", r.Errors, r.Count, r.Of))...)
		}
		return out
	},
}

// WebLatency reports requests that take long.
var WebLatency = probe.Check[[]Requests]{
	Kind: probe.Kind{Type: probe.Web, Name: "WebLatency",
		What:   "mean time of a request, of 20 or more in 5 minutes; pushes that wait for changes do not count",
		Cause:  "The disk is slow or the processor is busy.",
		Remedy: "Look at the probes DiskLatency and CPU; log.slow records what the program did meanwhile.",
		Every:  5 * time.Minute, Hold: 5 * time.Minute, Clear: 10 * time.Minute,
		Limits: []probe.Limit{low(3, probe.Time), high(15, probe.Time)}},
	Find: func(list []Requests, l probe.Limits) (out []probe.Finding) {
		for _, r := range list {
			s, bad := l.Older(r.Mean)
			out = append(out, one(s, bad && r.Count >= fewRequests, r.Of,
				fmt.Sprintf("%d requests to %s took %s each", r.Count, r.Of, age(r.Mean)))...)
		}
		return out
	},
}
