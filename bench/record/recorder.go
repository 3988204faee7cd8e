package record

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// maxErrorKinds is the number of different errors that are counted separately per action and interval; the rest count
// as "other".
const maxErrorKinds = 20

// Recorder collects the actions of one driver's users. Its methods may be called from any goroutine.
type Recorder struct {
	mu      sync.Mutex
	actions map[string]*collected
	from    time.Time
}

type collected struct {
	mu sync.Mutex
	Interval
}

// Done is one completed action.
type Done struct {
	Action string
	// Intended is the time in the user's schedule, Begun the time at which the action began, Ended the time of the last
	// byte of the answer.
	Intended, Begun, Ended time.Time
	// Err is the server's error, "" for success.
	Err            string
	Sent, Received uint64
}

// NewRecorder returns a recorder whose first interval begins now.
func NewRecorder(now time.Time) *Recorder {
	return &Recorder{actions: make(map[string]*collected), from: now}
}

func (r *Recorder) action(name string) *collected {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.actions[name]
	if c == nil {
		c = &collected{Interval: Interval{Action: name}}
		r.actions[name] = c
	}
	return c
}

// Done counts an action.
func (r *Recorder) Done(d Done) {
	c := r.action(d.Action)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Sent += d.Sent
	c.Received += d.Received
	if d.Err != "" {
		c.fail(d.Err)
		return
	}
	c.Latency.Add(d.Ended.Sub(d.Intended))
	c.Service.Add(d.Ended.Sub(d.Begun))
}

func (c *collected) fail(kind string) {
	if c.Errors == nil {
		c.Errors = make(map[string]uint64)
	}
	if _, known := c.Errors[kind]; !known && len(c.Errors) >= maxErrorKinds {
		kind = "other"
	}
	c.Errors[kind]++
}

// Missed counts an action that could not begin before the user's next loop.
func (r *Recorder) Missed(action string) {
	c := r.action(action)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Interval.Missed++
}

// Nothing counts an action for which there was nothing to do, such as to read a message in an empty folder.
func (r *Recorder) Nothing(action string) {
	c := r.action(action)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Interval.Nothing++
}

// Pending counts an action that a user has wanted for a time and that is without an answer at the end of the
// measurement.
func (r *Recorder) Pending(action string, wanted time.Duration) {
	c := r.action(action)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Latency.Add(wanted)
	c.Interval.Pending++
}

// Cut ends an interval and returns one element for each action in it, sorted by name. started is the start of the run.
func (r *Recorder) Cut(now, started time.Time, step int, phase Phase) []Interval {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Interval
	for _, name := range slices.Sorted(maps.Keys(r.actions)) {
		c := r.actions[name]
		c.mu.Lock()
		if c.Latency.Count() > 0 || len(c.Errors) > 0 || c.Interval.Missed+c.Interval.Nothing > 0 ||
			c.Sent+c.Received > 0 {
			i := c.Interval
			i.Step, i.Phase, i.From, i.To = step, phase, Duration(r.from.Sub(started)), Duration(now.Sub(started))
			i.Latency, i.Service = c.Latency.Clone(), c.Service.Clone()
			out = append(out, i)
			c.Latency.Reset()
			c.Service.Reset()
			c.Interval = Interval{Action: name, Latency: c.Latency, Service: c.Service}
		}
		c.mu.Unlock()
	}
	r.from = now
	return out
}
