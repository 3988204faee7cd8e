package cluster

import (
	"sync"
	"time"

	"doublet/stat"
)

// queueStats are the statistics of work queues under Domino's names: the modified databases that wait
// for cluster replication, and how long they waited. They are kept for each mate and for all together.
type queueStats struct {
	above *queueStats // all together

	mu    sync.Mutex
	depth int64
	// deepest is the peak; sum and samples make the average, a sample with every Probe.
	deepest, sum, samples int64
	// last, longest, total and count are of the times that databases spent waiting.
	last, longest, total time.Duration
	count                int64

	successful, failed *stat.Counter
}

// newQueueStats registers the statistics below a prefix ("Replica.Cluster"), as part of above if there is one.
func newQueueStats(t *stat.Tree, prefix, of string, above *queueStats) *queueStats {
	q := &queueStats{above: above}
	get := func(fn func() float64) func() float64 {
		return func() float64 {
			q.mu.Lock()
			defer q.mu.Unlock()
			return fn()
		}
	}
	t.GaugeFunc(prefix+".WorkQueueDepth", "modified databases that wait for cluster replication"+of, get(func() float64 { return float64(q.depth) }))
	t.GaugeFunc(prefix+".WorkQueueDepth.Avg", "average of the modified databases waiting"+of, get(func() float64 { return ratio(float64(q.sum), q.samples) }))
	t.GaugeFunc(prefix+".WorkQueueDepth.Max", "most modified databases waiting"+of, get(func() float64 { return float64(q.deepest) }))
	t.GaugeFunc(prefix+".SecondsOnQueue", "seconds that the database replicated last spent waiting"+of, get(func() float64 { return q.last.Seconds() }))
	t.GaugeFunc(prefix+".SecondsOnQueue.Avg", "average seconds that databases spent waiting"+of, get(func() float64 { return ratio(q.total.Seconds(), q.count) }))
	t.GaugeFunc(prefix+".SecondsOnQueue.Max", "most seconds that a database spent waiting"+of, get(func() float64 { return q.longest.Seconds() }))
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

// left counts databases that wait no more.
func (q *queueStats) left(n int) {
	for ; q != nil; q = q.above {
		q.mu.Lock()
		q.depth -= int64(n)
		q.mu.Unlock()
	}
}

// replicated counts a database that was brought to a mate after waiting so long.
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

// sample takes the present depth into the average.
func (q *queueStats) sample() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sum += q.depth
	q.samples++
}
