package cluster

import (
	"sync"
	"time"

	"doublet/stat"
)

// queueStats holds the statistics of a work queue under Domino's names: the number of modified databases that wait for
// cluster replication, and their waiting times. There is one for each mate and one for all mates.
type queueStats struct {
	above *queueStats // the one for all mates; nil in that one itself

	mu    sync.Mutex
	depth int64
	// deepest is the peak. sum and samples are for the average, with a sample at every Probe.
	deepest, sum, samples int64
	// last, longest, total and count are about the waiting times of databases.
	last, longest, total time.Duration
	count                int64

	successful, failed *stat.Counter
}

// newQueueStats registers the statistics under a prefix such as "Replica.Cluster". above may be nil.
func newQueueStats(t *stat.Tree, prefix, of string, above *queueStats) *queueStats {
	q := &queueStats{above: above}
	gauge := func(name, help string, fn func() float64) {
		t.GaugeFunc(prefix+name, help+of, func() float64 {
			q.mu.Lock()
			defer q.mu.Unlock()
			return fn()
		})
	}
	gauge(".WorkQueueDepth", "modified databases that wait for cluster replication",
		func() float64 { return float64(q.depth) })
	gauge(".WorkQueueDepth.Avg", "average of the modified databases waiting",
		func() float64 { return ratio(float64(q.sum), q.samples) })
	gauge(".WorkQueueDepth.Max", "most modified databases waiting", func() float64 { return float64(q.deepest) })
	gauge(".SecondsOnQueue", "seconds that the database replicated last spent waiting",
		func() float64 { return q.last.Seconds() })
	gauge(".SecondsOnQueue.Avg", "average seconds that databases spent waiting",
		func() float64 { return ratio(q.total.Seconds(), q.count) })
	gauge(".SecondsOnQueue.Max", "most seconds that a database spent waiting",
		func() float64 { return q.longest.Seconds() })
	q.successful = t.Counter(prefix+".Successful", "databases replicated to mates"+of)
	q.failed = t.Counter(prefix+".Failed", "databases whose replication to mates failed"+of)
	return q
}

func ratio(sum float64, n int64) float64 {
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// arrived counts a database that begins to wait.
func (q *queueStats) arrived() {
	for ; q != nil; q = q.above {
		q.mu.Lock()
		q.depth++
		q.deepest = max(q.deepest, q.depth)
		q.mu.Unlock()
	}
}

// left counts databases that no longer wait.
func (q *queueStats) left(n int) {
	for ; q != nil; q = q.above {
		q.mu.Lock()
		q.depth -= int64(n)
		q.mu.Unlock()
	}
}

// replicated counts a database that was sent after the given waiting time.
func (q *queueStats) replicated(waited time.Duration) {
	for ; q != nil; q = q.above {
		q.successful.Inc()
		q.mu.Lock()
		q.last = waited
		q.longest = max(q.longest, waited)
		q.total += waited
		q.count++
		q.mu.Unlock()
	}
}

func (q *queueStats) fail() {
	for ; q != nil; q = q.above {
		q.failed.Inc()
	}
}

// sample adds the current depth to the average.
func (q *queueStats) sample() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sum += q.depth
	q.samples++
}
