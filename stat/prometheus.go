package stat

import (
	"math"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Collector returns a Prometheus collector for the tree. Names are converted to snake case with the prefix `doublet_`.
// Counters end in `_total`, histograms in their unit. A text is a gauge of 1 that ends in `_info` and has the text in
// the label `value`.
func (t *Tree) Collector() prometheus.Collector { return collector{t} }

type collector struct{ tree *Tree }

// Describe sends nothing, because the statistics of the tree are known only when it is read.
func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(to chan<- prometheus.Metric) {
	for _, n := range c.tree.all() {
		base := promName(n.name)
		switch m := n.metric.(type) {
		case *Histogram:
			to <- promHistogram(base, n.help, m)
		case *text:
			to <- promConst(base+"_info", n.help, prometheus.GaugeValue, 1, m.value())
		default:
			e := m.entries(n.name, n.help, nil)[0]
			if math.IsNaN(e.Value) {
				continue
			}
			if e.Kind == KindCounter {
				to <- promConst(strings.TrimSuffix(base, "_total")+"_total", n.help, prometheus.CounterValue, e.Value)
			} else {
				to <- promConst(base, n.help, prometheus.GaugeValue, e.Value)
			}
		}
	}
}

func promConst(name, help string, kind prometheus.ValueType, v float64, label ...string) prometheus.Metric {
	var labels []string
	if len(label) > 0 {
		labels = []string{"value"}
		label[0] = strings.ToValidUTF8(label[0], "\uFFFD")
	}
	m, err := prometheus.NewConstMetric(prometheus.NewDesc(name, help, labels, nil), kind, v, label...)
	if err != nil {
		return prometheus.NewInvalidMetric(prometheus.NewDesc(name, help, nil, nil), err)
	}
	return m
}

// promRange returns the powers of two that bound a unit's buckets in Prometheus. They are the same at every scrape: 1
// µs … 69 s, 64 B … 1 GB, 16 … 16 M. An observation equal to a bound is counted in the bucket above it.
func promRange(u Unit) (from, to int) {
	switch u {
	case Seconds:
		return 10, 36
	case Bytes:
		return 6, 30
	}
	return 4, 24
}

func promHistogram(base, help string, h *Histogram) prometheus.Metric {
	d := h.Distribution()
	from, to := promRange(h.unit)
	buckets := make(map[float64]uint64, to-from+1)
	for exp := from; exp <= to; exp++ {
		buckets[h.unit.scale(math.Ldexp(1, exp))] = d.below(exp)
	}
	if u := h.unit.String(); u != "" && !strings.HasSuffix(base, "_"+u) {
		base += "_" + u
	}
	return prometheus.MustNewConstHistogram(prometheus.NewDesc(base, help, nil, nil), d.Count, d.Sum, buckets)
}

// promName returns the dotted name in snake case: Database.DbCache.CurrentEntries becomes
// doublet_database_db_cache_current_entries, Server.Users.Active15Min becomes doublet_server_users_active15_min.
func promName(name string) string {
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	var b strings.Builder
	b.WriteString("doublet_")
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '.' {
			b.WriteByte('_')
			continue
		}
		if upper(c) && i > 0 && name[i-1] != '.' && name[i-1] != '_' {
			// A word starts at a capital after a small letter or digit. It also starts at a capital after capitals if a
			// small letter follows: SMTPSessions becomes smtp_sessions.
			next := i+1 < len(name) && 'a' <= name[i+1] && name[i+1] <= 'z'
			if !upper(name[i-1]) || next {
				b.WriteByte('_')
			}
		}
		if upper(c) {
			c |= 0x20
		}
		b.WriteByte(c)
	}
	return b.String()
}
