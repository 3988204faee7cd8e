package stat

import (
	"encoding/json"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// testClock stands still until the test moves it.
type testClock struct{ seconds atomic.Int64 }

func (c *testClock) Now() time.Time          { return time.Unix(c.seconds.Load(), 0) }
func (c *testClock) Advance(d time.Duration) { c.seconds.Add(int64(d / time.Second)) }

func newTree() (*Tree, *testClock) {
	c := new(testClock)
	c.seconds.Store(1_800_000_000) // a full minute
	return New(c), c
}

func lines(entries []Entry) string {
	var b strings.Builder
	for _, e := range entries {
		b.WriteString(e.String() + "\n")
	}
	return b.String()
}

func TestSnapshotIsSortedAndFiltered(t *testing.T) {
	t.Parallel()
	tree, _ := newTree()
	tree.Text("Server.Version", "v", func() string { return "1.0" })
	tree.Counter("Mail.Delivered", "messages").Add(3)
	tree.Counter("Mail.TotalRouted", "messages").Inc()
	tree.Gauge("Mail.Waiting", "entries").Add(-2)
	tree.GaugeFunc("Database.DbCache.CurrentEntries", "entries", func() float64 { return 0.25 })

	if got, want := lines(tree.Snapshot("mail.*")),
		"Mail.Delivered = 3\nMail.TotalRouted = 1\nMail.Waiting = -2\n"; got != want {
		t.Errorf("Snapshot(mail.*):\n%s want\n%s", got, want)
	}
	if got, want := lines(tree.Snapshot("")), "Database.DbCache.CurrentEntries = 0.25\nMail.Delivered = 3\n"+
		"Mail.TotalRouted = 1\nMail.Waiting = -2\nServer.Version = 1.0\n"; got != want {
		t.Errorf("Snapshot():\n%s want\n%s", got, want)
	}
	var back []Entry
	raw, err := json.Marshal(tree.Snapshot("*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &back); err != nil || lines(back) != lines(tree.Snapshot("*")) {
		t.Errorf("JSON gives back %q, %v", lines(back), err)
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"", "Mail.Delivered", true},
		{"*", "Mail.Delivered", true},
		{"Mail", "Mail.Delivered", true},
		{"Mail.", "Mail.Delivered", true},
		{"mail.delivered", "Mail.Delivered", true},
		{"Mai", "Mail.Delivered", false},
		{"Mail.*", "Mail.Delivered", true},
		{"Mail.*", "Mailbox.Delivered", false},
		{"*.Active*Min", "Server.Users.Active15Min", true},
		{"*.Active?Min", "Server.Users.Active15Min", false},
		{"*.Active??Min", "Server.Users.Active15Min", true},
		{"S*s.*n", "Server.Users.Active15Min", true},
		{"S*s.*nx", "Server.Users.Active15Min", false},
		{"**", "A", true},
		{"?", "", false},
	} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("Match(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}

func TestSameNameGivesSameObject(t *testing.T) {
	t.Parallel()
	tree, _ := newTree()
	if first, again := tree.Counter("A.B", ""), tree.Counter("A.B", ""); first != again {
		t.Error("two counters under one name")
	}
	tree.GaugeFunc("A.C", "", func() float64 { return 1 })
	tree.GaugeFunc("A.C", "", func() float64 { return 2 })
	if got := lines(tree.Snapshot("A.C")); got != "A.C = 2\n" {
		t.Errorf("the newer function does not win: %s", got)
	}
	for what, f := range map[string]func(){
		"another kind":      func() { tree.Gauge("A.B", "") },
		"another unit":      func() { tree.Histogram("H", "", Bytes); tree.Histogram("H", "", Seconds) },
		"same snake case":   func() { tree.Counter("A.b", "") },
		"an empty word":     func() { tree.Counter("A..C", "") },
		"a space":           func() { tree.Counter("A C", "") },
		"an empty name":     func() { tree.Counter("", "") },
		"a dot at the end":  func() { tree.Counter("A.", "") },
		"a digit in front":  func() { tree.Counter("1A", "") },
		"control character": func() { tree.Counter("A\n", "") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", what)
				}
			}()
			f()
		}()
	}
}

func TestNilTree(t *testing.T) {
	t.Parallel()
	var tree *Tree
	c := tree.Counter("A", "")
	c.Inc()
	tree.GaugeFunc("B", "", func() float64 { return 0 })
	tree.Rate("C", "").Inc()
	tree.Active("D", "").Touch([16]byte{1})
	tree.Histogram("E", "", Bytes).Observe(1)
	if c.Value() != 1 || len(tree.Snapshot("")) != 0 {
		t.Error("statistics of no tree do not count, or are shown")
	}
}

func TestHistogramBuckets(t *testing.T) {
	t.Parallel()
	for i := range bucketCount {
		low := bucketLow(i)
		if bucketOf(low) != i {
			t.Fatalf("bucket %d starts at %d, which is in bucket %d", i, low, bucketOf(low))
		}
		if i > 0 && bucketOf(low-1) != i-1 {
			t.Fatalf("%d is in bucket %d, want %d", low-1, bucketOf(low-1), i-1)
		}
	}
	if got := bucketOf(math.MaxInt64); got != bucketCount-1 {
		t.Errorf("the greatest number is in bucket %d of %d", got, bucketCount)
	}
}

func TestHistogramQuantiles(t *testing.T) {
	t.Parallel()
	tree, _ := newTree()
	h := tree.Histogram("Mail.DeliveryTime", "time to deliver", Seconds)
	if h.Distribution().Quantile(0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 250 {
				h.ObserveDuration(time.Duration(g*250+i+1) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	if low := h.Distribution().Min; low != 0.001 {
		t.Errorf("minimum %g", low)
	}
	h.Observe(-5)
	d := h.Distribution()
	if d.Min != 0 {
		t.Errorf("minimum %g", d.Min)
	}
	if d.Count != 1001 || d.Max != 1 || math.Abs(d.Mean-0.5) > 1e-9 {
		t.Errorf("count %d, max %g, mean %g", d.Count, d.Max, d.Mean)
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99} {
		if got := d.Quantile(q); math.Abs(got-q) > q/30+0.001 {
			t.Errorf("quantile %g is %g", q, got)
		}
	}
	if d.Quantile(1) > d.Max {
		t.Error("a quantile above the maximum")
	}
	if got := lines(tree.Snapshot("*.Count")); got != "Mail.DeliveryTime.Count = 1001\n" {
		t.Error(got)
	}
	if got := lines(tree.Snapshot("*.Max")); got != "Mail.DeliveryTime.Max = 1 seconds\n" {
		t.Error(got)
	}
}

func TestRate(t *testing.T) {
	t.Parallel()
	tree, clock := newTree()
	r := tree.Rate("Server.Trans", "transactions")
	r.Add(5)
	if got, want := lines(tree.Snapshot("Server.Trans")),
		"Server.Trans.PerMinute = 0\nServer.Trans.PerMinute.Peak = 0\nServer.Trans.PerMinute.Peak.Time = \n"+
			"Server.Trans.Total = 5\n"; got != want {
		t.Errorf("in the first minute:\n%s", got)
	}
	clock.Advance(time.Minute)
	r.Add(2)
	if last, peak, _ := r.PerMinute(); last != 5 || peak != 5 {
		t.Errorf("in the second minute: %d, peak %d", last, peak)
	}
	clock.Advance(time.Minute)
	if got, want := lines(tree.Snapshot("Server.Trans")),
		"Server.Trans.PerMinute = 2\nServer.Trans.PerMinute.Peak = 5\n"+
			"Server.Trans.PerMinute.Peak.Time = 2027-01-15T08:00:00Z\nServer.Trans.Total = 7\n"; got != want {
		t.Errorf("in the third minute:\n%s", got)
	}
	r.Add(9)
	clock.Advance(3 * time.Minute)
	if last, peak, at := r.PerMinute(); last != 0 || peak != 9 || at.Unix() != 1_800_000_120 {
		t.Errorf("after a silence: %d, peak %d at %v", last, peak, at)
	}
}

func TestRateCountsEverythingOnce(t *testing.T) {
	t.Parallel()
	tree, clock := newTree()
	r := tree.Rate("R", "")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				r.Inc()
				if i%100 == 0 {
					clock.Advance(20 * time.Second)
				}
			}
		})
	}
	wg.Wait()
	if r.Total() != 4000 {
		t.Errorf("total %d", r.Total())
	}
	if _, peak, _ := r.PerMinute(); peak == 0 || peak > 4000 {
		t.Errorf("peak %d", peak)
	}
}

func TestActive(t *testing.T) {
	t.Parallel()
	tree, clock := newTree()
	a := tree.Active("Server.Users", "people")
	a.Touch([16]byte{1})
	a.Touch([16]byte{1})
	a.Touch([16]byte{2})
	clock.Advance(4 * time.Minute)
	a.Touch([16]byte{3})
	a.Touch([16]byte{2})
	want := "Server.Users.Active = 2\nServer.Users.Active15Min = 3\nServer.Users.Active1Min = 2\n" +
		"Server.Users.Active30Min = 3\nServer.Users.Active3Min = 2\nServer.Users.Active5Min = 3\n"
	if got := lines(tree.Snapshot("Server.Users.Active*")); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	clock.Advance(29 * time.Minute)
	if got := a.Within(30 * time.Minute); got != 2 {
		t.Errorf("%d active after half an hour", got)
	}
	clock.Advance(time.Minute)
	if got := a.Within(time.Hour); got != 0 {
		t.Errorf("%d active after the longest window", got)
	}
}

func TestActiveIsBounded(t *testing.T) {
	t.Parallel()
	tree, clock := newTree()
	a := tree.Active("U", "")
	const n = 400_000
	for i := range n {
		a.Touch([16]byte{byte(i), byte(i >> 8), byte(i >> 16)})
	}
	held := 0
	for i := range a.shards {
		held += len(a.shards[i].seen)
	}
	if held > activeShards*shardLimit {
		t.Errorf("%d ids held", held)
	}
	if got := float64(a.Within(time.Minute)); math.Abs(got-n) > n*0.03 {
		t.Errorf("%.0f counted, want about %d", got, n)
	}
	clock.Advance(31 * time.Minute)
	a.Within(time.Minute)
	for i := range uint64(100) {
		a.Touch([16]byte{15: byte(i)})
	}
	if got := a.Within(time.Minute); got != 100 {
		t.Errorf("%d after the crowd has gone, want exactly 100", got)
	}
}

func TestPromName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"Mail.TotalRouted":                "doublet_mail_total_routed",
		"Server.Users.Active15Min":        "doublet_server_users_active15_min",
		"Database.DbCache.CurrentEntries": "doublet_database_db_cache_current_entries",
		"IMAP.SessionsOpen":               "doublet_imap_sessions_open",
		"Server.SMTPSessions":             "doublet_server_smtp_sessions",
		"a.b_c":                           "doublet_a_b_c",
	} {
		if got := promName(name); got != want {
			t.Errorf("promName(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestCollector(t *testing.T) {
	t.Parallel()
	tree, _ := newTree()
	tree.Counter("Mail.Delivered", "messages delivered").Add(7)
	tree.Gauge("Mail.Waiting", "waiting").Set(4)
	tree.Text("Server.Version", "version", func() string { return "1\xff" })
	tree.Rate("Server.Trans", "transactions").Inc()
	h := tree.Histogram("Mail.Size", "size", Bytes)
	h.Observe(100)
	h.Observe(1 << 40)
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(tree.Collector())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		b.WriteString(f.String() + "\n")
	}
	got := strings.ReplaceAll(b.String(), "  ", " ")
	for _, want := range []string{
		`name:"doublet_mail_delivered_total" help:"messages delivered" type:COUNTER metric:{counter:{value:7`,
		`name:"doublet_mail_waiting"`,
		`name:"doublet_server_trans_total"`,
		`name:"doublet_server_trans_per_minute"`,
		`name:"doublet_server_version_info"`,
		`name:"doublet_mail_size_bytes" help:"size" type:HISTOGRAM metric:{histogram:{sample_count:2`,
		`bucket:{cumulative_count:0 upper_bound:64} bucket:{cumulative_count:1 upper_bound:128}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	tree, _ := newTree()
	c, g, h, r, a := tree.Counter("A", ""), tree.Gauge("B", ""), tree.Histogram("C", "", Count), tree.Rate("D",
		""), tree.Active("E", "")
	id := [16]byte{1}
	a.Touch(id)
	if n := testing.AllocsPerRun(100, func() { c.Inc(); g.Add(1); h.Observe(1000); r.Inc(); a.Touch(id) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	tree, _ := newTree()
	h := tree.Histogram("C", "", Seconds)
	b.RunParallel(func(pb *testing.PB) {
		for v := int64(1); pb.Next(); v += 997 {
			h.Observe(v)
		}
	})
}
