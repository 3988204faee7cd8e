// Package cluster computes what a cluster costs by role, as document 004 does, and diagnoses servers from their
// statistics: each finding has its evidence and a remedy.
package cluster

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Statistics are the statistics of a server by name.
type Statistics struct {
	Server string
	Values map[string]float64
}

// maxStatistics bounds the statistics that are kept of a file.
const maxStatistics = 100000

// ReadStatistics reads statistics: lines "Name = value" as show stat prints them, "name value" as Prometheus has them,
// or an object of JSON. Lines whose value is no number are left out.
func ReadStatistics(r io.Reader, server string) (*Statistics, error) {
	in := bufio.NewReader(r)
	s := &Statistics{Server: server, Values: map[string]float64{}}
	if head, err := in.Peek(1); err == nil && head[0] == '{' {
		return s, s.object(in)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		if !ok || strings.Contains(name, "{") {
			at := strings.LastIndexAny(text, " \t")
			if at < 0 {
				continue
			}
			name, value = strings.TrimSuffix(strings.TrimSpace(text[:at]), ":"), text[at+1:]
		}
		v, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(value), ",", ""), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if len(s.Values) >= maxStatistics {
			return nil, fmt.Errorf("%s: more than %d statistics", server, maxStatistics)
		}
		s.Values[strings.TrimSpace(name)] = v
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", server, err)
	}
	if len(s.Values) == 0 {
		return nil, fmt.Errorf(
			"%s: no statistics: want lines such as \"Server.Users = 617\" (doublet show stat)",
			server,
		)
	}
	return s, nil
}

func (s *Statistics) object(r io.Reader) error {
	var all map[string]any
	if err := json.NewDecoder(io.LimitReader(r, 64<<20)).Decode(&all); err != nil {
		return fmt.Errorf("%s: %w", s.Server, err)
	}
	for name, v := range all {
		if x, ok := v.(float64); ok {
			s.Values[name] = x
		}
	}
	return nil
}

// value finds a statistic by its name, without regard to case, or by its end after a dot.
func (s *Statistics) value(name string) (v float64, full string, ok bool) {
	for _, have := range slices.Sorted(maps.Keys(s.Values)) {
		if strings.EqualFold(have, name) {
			return s.Values[have], have, true
		}
	}
	return 0, "", false
}

// ending returns the statistics whose names end so, such as those of each disk.
func (s *Statistics) ending(end string) (names []string) {
	for _, have := range slices.Sorted(maps.Keys(s.Values)) {
		if strings.HasSuffix(strings.ToLower(have), strings.ToLower(end)) {
			names = append(names, have)
		}
	}
	return names
}

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

// rule looks at the statistics of one server. It returns evidence, or nothing.
type rule struct {
	kind, remedy string
	look         func(s *Statistics, disks int) []string
}

// rules are the diagnosis of document 004. The limits are the document's where it has any: a disk queue below the
// number of disks less one, 10 to 30 ms a transfer, a cache of 1.5 times its maximum.
var rules = []rule{
	{
		DiskSaturated,
		"spread the data over more disks, mirrored instead of RAID 5; move log and transaction log to disks of " +
			"their own",
		diskSaturated,
	},
	{
		CacheFull,
		"raise the entries of the database cache (NSF_DBCACHE_MAXENTRIES), or move databases to a mate",
		cacheFull,
	},
	{PoolFull, "give the buffer pool more memory (NSF_BUFFER_POOL_SIZE_MB), or the machine", poolFull},
	{
		QueueGrows,
		"add a Cluster Replicator if processors and disks are not full; else relieve the mate that is slow",
		queueGrows,
	},
	{Failing, "look at the log of the mate: it is unreachable, full, or too slow", failing},
	{Storm, "limit sessions (SERVER_MAXSESSIONS), shorten their time-out, restart servers out of hours", storm},
	{
		BusyIndex,
		"users are redirected when they open a database: balance databases, or lower SERVER_AVAILABILITY_THRESHOLD",
		busyIndex,
	},
}

func diskSaturated(s *Statistics, disks int) (out []string) {
	for _, name := range append(s.ending(".PctUtil"), s.ending("disk_busy_pct")...) {
		if v := s.Values[name]; v >= 95 {
			out = append(out, fmt.Sprintf("%s = %g: at most 80 in the mean", name, v))
		}
	}
	for _, name := range s.ending(".AvgQueueLen") {
		if v := s.Values[name]; v > float64(max(1, disks-1)) {
			out = append(out, fmt.Sprintf("%s = %g: at most %d for %d disks", name, v, max(1, disks-1), max(1, disks)))
		}
	}
	for _, end := range []string{".AvgMsPerTransfer", "disk_response_ms"} {
		for _, name := range s.ending(end) {
			if v := s.Values[name]; v > 30 {
				out = append(out, fmt.Sprintf("%s = %g ms: 10 to 30 is sound", name, v))
			}
		}
	}
	return out
}

func cacheFull(s *Statistics, _ int) (out []string) {
	if v, name, ok := s.value("Database.DbCache.OvercrowdingRejections"); ok && v > 0 {
		out = append(out, fmt.Sprintf("%s = %g: databases did not fit", name, v))
	}
	high, name, ok := s.value("Database.DbCache.HighWaterMark")
	if limit, _, has := s.value("Database.DbCache.MaxEntries"); ok && has && limit > 0 &&
		high >= math.Floor(limit*1.5) {
		out = append(out, fmt.Sprintf("%s = %g: the hard limit is 1.5 times MaxEntries (%g)", name, high, limit))
	}
	return out
}

func poolFull(s *Statistics, _ int) []string {
	peak, name, ok := s.value("Database.BufferPool.Peak")
	if limit, _, has := s.value("Database.BufferPool.Maximum"); ok && has && limit > 0 && peak >= limit*0.95 {
		return []string{fmt.Sprintf("%s = %g is %.0f %% of Maximum", name, peak, peak/limit*100)}
	}
	return nil
}

// The limits of the replication queue: a database that waits a minute in the mean, or one that always waits.
const (
	queueSeconds = 60
	queueDepth   = 1
)

func queueGrows(s *Statistics, _ int) (out []string) {
	if v, name, ok := s.value("Replica.Cluster.SecondsOnQueue.Avg"); ok && v > queueSeconds {
		out = append(out, fmt.Sprintf("%s = %g s: mates are %.0f minutes behind", name, v, v/60))
	}
	if v, name, ok := s.value("Replica.Cluster.WorkQueueDepth.Avg"); ok && v > queueDepth {
		out = append(out, fmt.Sprintf("%s = %g databases wait: steadily above 0", name, v))
	}
	return out
}

func failing(s *Statistics, _ int) []string {
	for _, base := range []string{"Replica.Cluster.", "Replica."} {
		failed, name, ok := s.value(base + "Failed")
		fine, _, has := s.value(base + "Successful")
		if ok && has && failed+fine >= 20 && failed > 0.05*(failed+fine) {
			return []string{fmt.Sprintf("%s = %g: %.0f %% of the replications", name, failed, failed/(failed+fine)*100)}
		}
	}
	return nil
}

func storm(s *Statistics, _ int) []string {
	peak, name, ok := s.value("Server.Trans.PerMinute.Peak")
	if usual, _, has := s.value("Server.Trans.PerMinute"); ok && has && usual >= 100 && peak > 10*usual {
		return []string{fmt.Sprintf("%s = %g: %.0f times the mean", name, peak, peak/usual)}
	}
	return nil
}

func busyIndex(s *Statistics, _ int) []string {
	index, name, ok := s.value("Server.AvailabilityIndex")
	if threshold, _, has := s.value("Server.AvailabilityThreshold"); ok && has && threshold > 0 && index < threshold {
		return []string{fmt.Sprintf("%s = %g: the threshold is %g", name, index, threshold)}
	}
	return nil
}

// Diagnose looks for faults in the statistics of the servers of a cluster. disks is the number of disks of a server's
// data, 0 for one.
func Diagnose(servers []*Statistics, disks int) Findings {
	out := Findings{}
	for _, s := range servers {
		for _, r := range rules {
			if evidence := r.look(s, disks); len(evidence) > 0 {
				out = append(out, Finding{s.Server, r.kind, evidence, r.remedy})
			}
		}
	}
	return append(out, unbalanced(servers)...)
}

// unbalanced compares the load of the servers.
func unbalanced(servers []*Statistics) (out []Finding) {
	for _, name := range []string{"Server.Trans.PerMinute", "Server.Users", "Mail.TotalRouted"} {
		var sum, most float64
		var busiest *Statistics
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
		if n < 2 || most < 20 {
			continue
		}
		if others := (sum - most) / float64(n-1); most > 1.5*others {
			out = append(
				out,
				Finding{busiest.Server, Unbalanced, []string{fmt.Sprintf(
					"%s = %g, the others have %g in the mean",
					name,
					most,
					math.Round(others),
				)}, "move the busiest databases to a mate: by activity, not by number"},
			)
			return out
		}
	}
	return out
}

// Findings are the findings of a diagnosis.
type Findings []Finding

// Text returns the findings as text.
func (f Findings) Text() string {
	if len(f) == 0 {
		return "nothing found\n"
	}
	var b strings.Builder
	sorted := slices.Clone(f)
	slices.SortStableFunc(sorted, func(a, b Finding) int { return cmp.Compare(a.Server, b.Server) })
	for _, x := range sorted {
		fmt.Fprintf(&b, "%s: %s\n", x.Server, x.Kind)
		for _, e := range x.Evidence {
			fmt.Fprintf(&b, "    %s\n", e)
		}
		fmt.Fprintf(&b, "    do: %s\n", x.Remedy)
	}
	return b.String()
}
