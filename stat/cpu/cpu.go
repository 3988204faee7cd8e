// Package cpu estimates the processor time of server tasks. Go measures the processor time of a process, not of a
// goroutine. So the goroutines of a task carry its name as a label, a short processor profile is taken from time to
// time, and the exact time of the process is divided by the labels of the profile's samples.
package cpu

import (
	"bytes"
	"context"
	"fmt"
	"runtime/metrics"
	"runtime/pprof"
	"sync"
	"time"

	"doublet/stat"

	"github.com/google/pprof/profile"
)

// label is the key of the label, and other the task of goroutines without one.
const (
	label = "task"
	other = "Server"
)

// Label makes the calling goroutine, and the goroutines that it starts from now on, count for a task. The name must be
// a word of a statistic's name.
func Label(task string) {
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels(label, task)))
}

// profiling is held while a processor profile is taken: the runtime takes one at a time.
var profiling sync.Mutex

// Exclusive runs fn, which takes a processor profile, while no Meter does.
func Exclusive(fn func()) {
	profiling.Lock()
	defer profiling.Unlock()
	fn()
}

// Meter divides the processor time of this process by task. Its methods may be called from any goroutine.
type Meter struct {
	tree *stat.Tree
	used func() time.Duration

	mu    sync.Mutex
	last  time.Duration // the process's time that is divided already
	tasks map[string]*taskTime
}

// taskTime is the processor time of a task, in seconds.
type taskTime struct {
	mu      sync.Mutex
	seconds float64
}

func (t *taskTime) value() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seconds
}

// New returns a Meter that adds the statistics Platform.Process.CPU.Seconds, Platform.Process.LockWait.Seconds and, for
// each task that was seen at work, Server.CPU.<task>.Seconds.
func New(tree *stat.Tree) *Meter { return newMeter(tree, ProcessTime) }

func newMeter(tree *stat.Tree, used func() time.Duration) *Meter {
	tree.CounterFunc("Platform.Process.CPU.Seconds", "processor time of this process, seconds",
		func() float64 { return used().Seconds() })
	tree.CounterFunc("Platform.Process.LockWait.Seconds",
		"time that goroutines have waited for locks of this process, seconds", lockWait)
	m := &Meter{tree: tree, used: used, last: used(), tasks: map[string]*taskTime{}}
	m.add(other, m.last.Seconds()) // the start of the server
	return m
}

// add adds processor time to a task. Except in newMeter, the caller holds mu.
func (m *Meter) add(name string, seconds float64) {
	t := m.tasks[name]
	if t == nil {
		t = &taskTime{}
		m.tasks[name] = t
		m.tree.CounterFunc("Server.CPU."+name+".Seconds",
			"processor time of "+name+", seconds, estimated from samples", t.value)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seconds += seconds
}

func lockWait() float64 {
	s := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64 {
		return 0
	}
	return s[0].Value.Float64()
}

// Sample profiles the process until wait returns, and divides the processor time since the last call by the samples.
// Without samples the time is left to the next call. While another profile is taken, Sample waits for its end.
func (m *Meter) Sample(wait func()) error {
	var out bytes.Buffer
	var err error
	Exclusive(func() {
		if err = pprof.StartCPUProfile(&out); err == nil {
			wait()
			pprof.StopCPUProfile()
		}
	})
	if err != nil {
		return fmt.Errorf("processor profile: %w", err)
	}
	p, err := profile.Parse(&out)
	if err != nil {
		return fmt.Errorf("processor profile: %w", err)
	}
	m.divide(samplesOf(p))
	return nil
}

// samplesOf counts the samples of each task.
func samplesOf(p *profile.Profile) map[string]int64 {
	n := map[string]int64{}
	for _, s := range p.Sample {
		task := other
		if l := s.Label[label]; len(l) > 0 {
			task = l[0]
		}
		n[task] += s.Value[0]
	}
	return n
}

// divide adds the processor time since the last call to the tasks, by their samples.
func (m *Meter) divide(samples map[string]int64) {
	var all int64
	for _, n := range samples {
		all += n
	}
	if all == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.used()
	spent := (now - m.last).Seconds()
	m.last = now
	for name, n := range samples {
		m.add(name, spent*float64(n)/float64(all))
	}
}
