// Package cluster computes what a cluster costs by role, as document 004 does, and diagnoses servers from their
// statistics: each finding has its evidence and a remedy.
package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Finding is a diagnosis.
type Finding struct {
	Server   string   `json:"server"`
	Kind     string   `json:"kind"`
	Evidence []string `json:"evidence"`
	Remedy   string   `json:"remedy"`
}

// The kinds of findings.
const (
	DiskSaturated = "disk saturated"
	CacheFull     = "database cache at its limit"
	PoolFull      = "buffer pool at its limit"
	QueueGrows    = "replication queue grows"
	Failing       = "replication fails"
	Unbalanced    = "unbalanced mate"
	Storm         = "peaks of transactions"
	BusyIndex     = "availability index below its threshold"
)

// rule looks at the statistics of one server. It returns evidence, or nothing; looked is false if the statistics that
// it wants are not there, so that it finds nothing because it sees nothing.
type rule struct {
	kind, remedy string
	wants        string
	look         func(s *view, disks int) (evidence []string, looked bool)
}

// rules are the diagnosis of document 004. The limits are the document's where it has any: a disk queue below the
// number of disks less one, 10 to 30 ms a transfer, a cache of 1.5 times its maximum.
var rules = []rule{
	{DiskSaturated, "spread the data over more disks, mirrored instead of RAID 5; move log and transaction log to " +
		"disks of their own", "Platform.LogicalDisk.N.PctUtil, .AvgQueueLen or .AvgMsPerTransfer", diskSaturated},
	{CacheFull, "raise the entries of the database cache (NSF_DBCACHE_MAXENTRIES), or move databases to a mate",
		"Database.DbCache.OvercrowdingRejections, or .HighWaterMark and .MaxEntries", cacheFull},
	{PoolFull, "give the buffer pool more memory (NSF_BUFFER_POOL_SIZE_MB), or the machine",
		"Database.BufferPool.Maximum with .Peak, or with .Used and .PercentReadsInBuffer", poolFull},
	{QueueGrows, "add a Cluster Replicator if processors and disks are not full; else relieve the mate that is slow",
		"Replica.Cluster.SecondsOnQueue.Avg or .WorkQueueDepth.Avg", queueGrows},
	{Failing, "look at the log of the mate: it is unreachable, full, or too slow",
		"Replica.Cluster.Failed and .Successful, or Replica.Failed and .Successful", failing},
	{Storm, "limit sessions (SERVER_MAXSESSIONS), shorten their time-out, restart servers out of hours",
		"Server.Trans.PerMinute and .Peak", storm},
	{BusyIndex, "users are redirected when they open a database: balance databases, or lower " +
		"SERVER_AVAILABILITY_THRESHOLD", "Server.AvailabilityIndex and Server.AvailabilityThreshold", busyIndex},
}

func diskSaturated(s *view, disks int) (out []string, looked bool) {
	limit := float64(max(1, disks-1))
	for _, x := range []struct {
		end, sound string
		most       float64
	}{
		{".PctUtil", "at most 80 in the mean", 95}, {"disk_busy_pct", "at most 80 in the mean", 95},
		{".AvgQueueLen", fmt.Sprintf("at most %g for %d disks", limit, max(1, disks)), limit},
		{".AvgMsPerTransfer", "10 to 30 ms is sound", 30}, {"disk_response_ms", "10 to 30 ms is sound", 30},
	} {
		for _, name := range s.ending(x.end) {
			looked = true
			if v := s.Values[name]; v > x.most || x.most == 95 && v == 95 {
				out = append(out, fmt.Sprintf("%s = %g: %s", name, v, x.sound))
			}
		}
	}
	return out, looked
}

func cacheFull(s *view, _ int) (out []string, looked bool) {
	rejected, name, ok := s.value("Database.DbCache.OvercrowdingRejections")
	if ok && rejected > 0 {
		out = append(out, fmt.Sprintf("%s = %g: databases did not fit", name, rejected))
	}
	high, name, has := s.value("Database.DbCache.HighWaterMark")
	limit, _, limited := s.value("Database.DbCache.MaxEntries")
	has = has && limited
	if has && limit > 0 && high >= math.Floor(limit*1.5) {
		out = append(out, fmt.Sprintf("%s = %g: the hard limit is 1.5 times MaxEntries (%g)", name, high, limit))
	}
	return out, ok || has
}

// poolFull looks at the peak of the pool, as Domino has it. A pool that is full all the time, as a cache of blocks is,
// is too small if reads do not find their block there: fewer than readsInBuffer percent.
func poolFull(s *view, _ int) (out []string, looked bool) {
	const readsInBuffer = 90
	limit, _, limited := s.value("Database.BufferPool.Maximum")
	peak, name, ok := s.value("Database.BufferPool.Peak")
	if limited && ok && limit > 0 {
		if peak >= limit*0.95 {
			out = append(out, fmt.Sprintf("%s = %g is %.0f %% of Maximum", name, peak, peak/limit*100))
		}
		return out, true
	}
	used, _, has := s.value("Database.BufferPool.Used")
	found, name, measured := s.value("Database.BufferPool.PercentReadsInBuffer")
	if !limited || !has || !measured {
		return nil, false
	}
	if used >= limit*0.95 && found < readsInBuffer {
		out = append(out, fmt.Sprintf("%s = %g with a full pool: %d or more is sound", name, found, readsInBuffer))
	}
	return out, true
}

// The limits of the replication queue: a database that waits a minute in the mean, or one that always waits.
const (
	queueSeconds = 60
	queueDepth   = 1
)

func queueGrows(s *view, _ int) (out []string, looked bool) {
	waits, name, ok := s.value("Replica.Cluster.SecondsOnQueue.Avg")
	if ok && waits > queueSeconds {
		out = append(out, fmt.Sprintf("%s = %g s: mates are %.0f minutes behind", name, waits, waits/60))
	}
	depth, name, has := s.value("Replica.Cluster.WorkQueueDepth.Avg")
	if has && depth > queueDepth {
		out = append(out, fmt.Sprintf("%s = %g databases wait: steadily above 0", name, depth))
	}
	return out, ok || has
}

func failing(s *view, _ int) (out []string, looked bool) {
	for _, base := range []string{"Replica.Cluster.", "Replica."} {
		failed, name, ok := s.value(base + "Failed")
		fine, _, has := s.value(base + "Successful")
		if !ok || !has {
			continue
		}
		looked = true
		if failed+fine >= 20 && failed > 0.05*(failed+fine) && out == nil {
			out = []string{fmt.Sprintf("%s = %g: %.0f %% of the replications", name, failed, failed/(failed+fine)*100)}
		}
	}
	return out, looked
}

func storm(s *view, _ int) (out []string, looked bool) {
	peak, name, ok := s.value("Server.Trans.PerMinute.Peak")
	usual, _, has := s.value("Server.Trans.PerMinute")
	if ok && has && usual >= 100 && peak > 10*usual {
		out = []string{fmt.Sprintf("%s = %g: %.0f times the mean", name, peak, peak/usual)}
	}
	return out, ok && has
}

func busyIndex(s *view, _ int) (out []string, looked bool) {
	index, name, ok := s.value("Server.AvailabilityIndex")
	threshold, _, has := s.value("Server.AvailabilityThreshold")
	if ok && has && threshold > 0 && index < threshold {
		out = []string{fmt.Sprintf("%s = %g: the threshold is %g", name, index, threshold)}
	}
	return out, ok && has
}

// Unchecked is a fault that nobody looked for, because the statistics that show it are not there.
type Unchecked struct {
	Server string `json:"server"`
	Kind   string `json:"kind"`
	Wants  string `json:"wants"`
}

// Diagnosis holds the findings of the rules, and the faults that they could not look for.
type Diagnosis struct {
	Findings   []Finding   `json:"findings"`
	NotChecked []Unchecked `json:"not_checked,omitempty"`
}

// ErrStatistics means that a server has no statistics that a rule knows.
var ErrStatistics = errors.New("no rule knows these statistics")

// Diagnose looks for faults in the statistics of the servers of a cluster. disks is the number of disks of a server's
// data, 0 for one. It returns ErrStatistics if no rule can look at a server.
func Diagnose(servers []*Statistics, disks int) (*Diagnosis, error) {
	out := &Diagnosis{Findings: []Finding{}}
	var views []*view
	for _, s := range servers {
		v := viewOf(s)
		views = append(views, v)
		blind := 0
		for _, r := range rules {
			evidence, looked := r.look(v, disks)
			switch {
			case !looked:
				blind++
				out.NotChecked = append(out.NotChecked, Unchecked{s.Server, r.kind, r.wants})
			case len(evidence) > 0:
				out.Findings = append(out.Findings, Finding{s.Server, r.kind, evidence, r.remedy})
			}
		}
		if blind == len(rules) && !v.hasAny(loads...) {
			return nil, fmt.Errorf("%w: the %d of %s: want those of doublet show stat, /metrics or Domino's show "+
				"stat, such as %s", ErrStatistics, len(s.Values), s.Server, rules[1].wants)
		}
	}
	if len(views) > 1 {
		f, looked := unbalanced(views)
		out.Findings = append(out.Findings, f...)
		if !looked {
			out.NotChecked = append(out.NotChecked, Unchecked{"all servers", Unbalanced, strings.Join(loads, " or ") +
				" of two servers"})
		}
	}
	return out, nil
}

// loads are the statistics by which the load of servers is compared: the first that two of them have decides.
var loads = []string{"Server.Trans.PerMinute", "Server.Users", "Mail.TotalRouted"}

// unbalanced compares the load of the servers.
func unbalanced(servers []*view) (out []Finding, looked bool) {
	for _, name := range loads {
		var sum, most float64
		var busiest *view
		n := 0
		for _, s := range servers {
			if v, _, ok := s.value(name); ok {
				n++
				sum += v
				if busiest == nil || v > most {
					busiest, most = s, v
				}
			}
		}
		looked = looked || n > 1
		if n < 2 || most < 20 {
			continue
		}
		if others := (sum - most) / float64(n-1); most > 1.5*others {
			evidence := fmt.Sprintf("%s = %g, the others have %g in the mean", name, most, math.Round(others))
			return []Finding{{busiest.Server, Unbalanced, []string{evidence},
				"move the busiest databases to a mate: by activity, not by number"}}, true
		}
	}
	return nil, looked
}

// Text returns the findings, and what was not looked for, as text.
func (d *Diagnosis) Text() string {
	var b strings.Builder
	if len(d.Findings) == 0 {
		b.WriteString("nothing found\n")
	}
	sorted := slices.Clone(d.Findings)
	slices.SortStableFunc(sorted, func(a, b Finding) int { return cmp.Compare(a.Server, b.Server) })
	for _, x := range sorted {
		fmt.Fprintf(&b, "%s: %s\n", x.Server, x.Kind)
		for _, e := range x.Evidence {
			fmt.Fprintf(&b, "    %s\n", e)
		}
		fmt.Fprintf(&b, "    do: %s\n", x.Remedy)
	}
	for _, x := range d.NotChecked {
		fmt.Fprintf(&b, "not checked at %s: %s: wants %s\n", x.Server, x.Kind, x.Wants)
	}
	return b.String()
}
