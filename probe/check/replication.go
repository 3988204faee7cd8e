package check

import (
	"strings"
	"time"

	"doublet/probe"
)

// Trouble is a problem that this server's node in the cluster sees now. Kind is a cluster.EventKind.
type Trouble struct{ Kind, Server, Cause string }

// clusterSeverity holds the severities and remedies of the problems of a cluster, by kind.
var clusterSeverity = map[string]struct {
	severity probe.Severity
	remedy   string
}{
	"silent": {probe.Failure, "Start the member, or repair the network between them. Its databases are served by the " +
		"others. `cluster remove` gives it up for good."},
	"lag":   {probe.WarningHigh, "The cause names the bottleneck: disk, network, or one large database."},
	"clock": {probe.WarningHigh, "Run a time service (chrony, systemd-timesyncd) on both machines."},
	"twin": {probe.Fatal, "A data folder was copied. Stop one of the two servers at once, and let it join anew with " +
		"a data folder of its own."},
	"set aside": {probe.WarningHigh, "Read the reason; bring both servers to the same release and limits."},
	"no room":   {probe.Failure, "Make room on the disk of that server."},
	"no home":   {probe.Failure, "Start the members that hold these databases, or restore them from a backup."},
	"damaged":   {probe.Failure, "Damaged replicas are replaced from a mate. Examine the disk."},
	"set back":  {probe.WarningHigh, "Wait until the primaries begin new terms; all members have to be there."},
	"degraded":  {probe.WarningLow, "Start the other members: until then a change is on one disk alone."},
}

// Cluster reports what is wrong in the cluster.
var Cluster = probe.Check[[]Trouble]{
	Kind: probe.Kind{Type: probe.Replication, Name: "Cluster",
		What: "members of the cluster: silent, lagging, wrong clock, twin certificate, notes set aside, full disk, " +
			"databases without a primary, damaged or set back replicas, changes that no mate has confirmed",
		Cause:  "See each event.",
		Remedy: "See each event, and doc/cluster.md.",
		Every:  probe.Tick, Clear: 30 * time.Second},
	Find: func(list []Trouble, _ probe.Limits) (out []probe.Finding) {
		for _, t := range list {
			k, known := clusterSeverity[t.Kind]
			if !known {
				k.severity = probe.WarningHigh
			}
			out = append(out, probe.Finding{Target: strings.TrimSpace(t.Kind + " " + t.Server), Severity: k.severity,
				Cause: t.Cause, Remedy: k.remedy})
		}
		return out
	},
}

// Link is a connection document: scheduled replication with another server.
type Link struct {
	Name  string
	Error string // of the last run
	// Age is the time since the last run, Every the interval of runs. Every is 0 for a continuous connection.
	Age, Every time.Duration
}

// Connection reports scheduled replication that fails or does not run: the directory and mail files here grow old.
var Connection = probe.Check[[]Link]{
	Kind: probe.Kind{Type: probe.Replication, Name: "Connection",
		What: "scheduled replication with other servers: the last run failed, or lies further back than its interval " +
			"and the limit",
		Cause:  "The other server cannot be reached, refuses the sign-in, or has a new certificate.",
		Remedy: "`connection run NAME` shows the error at once.",
		Every:  5 * time.Minute, Hold: 10 * time.Minute, Clear: time.Minute,
		Limits: []probe.Limit{low(time.Hour.Seconds(), probe.Time), high(day.Seconds(), probe.Time)}},
	Find: func(list []Link, l probe.Limits) (out []probe.Finding) {
		for _, c := range list {
			s, bad := l.Older(c.Age - c.Every)
			text := "the last run of " + c.Name + " was " + age(c.Age) + " ago"
			if c.Error != "" {
				s, bad, text = max(s, probe.WarningLow), true, text+" and failed: "+c.Error
			}
			out = append(out, one(s, bad, c.Name, text)...)
		}
		return out
	},
}
