package cluster

import (
	"strings"

	"doublet/stat"
)

// statistics holds the counters of the cluster, under Domino's names where they exist.
type statistics struct {
	tree  *stat.Tree
	queue *queueStats

	probes, probeErrors, lost                       *stat.Counter
	takeOvers, handOvers, stepDowns, made, repaired *stat.Counter
	unrepaired                                      *stat.Counter
	opens, failover, failoverBad                    *stat.Counter
	balanced, unbalanced, closed, returned          *stat.Counter
	acknowledged, ackDegraded, ackRefused           *stat.Counter
	ackTime                                         *stat.Histogram
}

func newStatistics(t *stat.Tree) *statistics {
	s := &statistics{tree: t, queue: newQueueStats(t, "Replica.Cluster", "", nil)}
	for _, c := range []struct {
		to         **stat.Counter
		name, help string
	}{
		{&s.probes, "Server.Cluster.ProbeCount", "probes sent to mates"},
		{&s.probeErrors, "Server.Cluster.ProbeError", "probes without an answer"},
		{&s.lost, "Server.Cluster.MatesLost", "times that a mate fell silent"},
		{&s.takeOvers, "Server.Cluster.TakeOvers", "databases whose primary died and that were taken over here"},
		{&s.handOvers, "Server.Cluster.HandOvers", "databases handed over to a mate"},
		{&s.stepDowns, "Server.Cluster.StepDowns", "databases that two servers led and that were given up here"},
		{&s.made, "Server.Cluster.ReplicasMade", "replicas made here"},
		{&s.repaired, "Server.Cluster.Repaired",
			"databases and objects that were missing or damaged and came from a mate"},
		{&s.unrepaired, "Server.Cluster.Repaired.Failed",
			"objects that were missing or damaged and that no mate had"},
		{&s.opens, "Server.Cluster.OpenRequest", "opens of databases"},
		{&s.failover, "Server.Cluster.OpenRedirects.Failover.Successful",
			"opens served by another server than the database's first"},
		{&s.failoverBad, "Server.Cluster.OpenRedirects.Failover.Unsuccessful",
			"opens that no server could serve"},
		{&s.balanced, "Server.Cluster.OpenRedirects.LoadBalance.Successful",
			"opens that moved their database because this server was busy"},
		{&s.unbalanced, "Server.Cluster.OpenRedirects.LoadBalance.Unsuccessful",
			"opens served here though this server was busy"},
		{&s.closed, "Server.Cluster.OpenRequest.DatabaseOutOfService",
			"opens that moved because the replica or the server was closed to users"},
		{&s.returned, "Server.Cluster.OpenRedirects.Return",
			"opens that moved their database back to its first server"},
		{&s.acknowledged, "Server.Cluster.Acknowledged",
			"commits that a mate has confirmed before they were acknowledged"},
		{&s.ackDegraded, "Server.Cluster.Acknowledged.Degraded",
			"commits acknowledged though no mate had confirmed them"},
		{&s.ackRefused, "Server.Cluster.Acknowledged.Refused",
			"commits refused or left open because no mate answered"},
	} {
		*c.to = t.Counter(c.name, c.help)
	}
	s.ackTime = t.Histogram("Server.Cluster.Acknowledged.Time", "time until a mate had confirmed", stat.Seconds)
	return s
}

// gauges registers the statistics that are computed from the parts.
func (s *statistics) gauges(c *core, e *events) {
	load := c.opt.Load
	s.tree.GaugeFunc("Server.AvailabilityIndex", "availability of the server, 0 to 100",
		func() float64 { return float64(load.Index()) })
	s.tree.GaugeFunc("Server.ExpansionFactor", "present time of operations, divided by their best", load.Expansion)
	gauge := func(name, help string, f func() int) {
		s.tree.GaugeFunc(name, help, func() float64 { return float64(f()) })
	}
	gauge("Server.AvailabilityThreshold", "index below which the server counts as busy",
		func() int { return c.members.view().members[c.self].Threshold })
	gauge("Server.Cluster.Members", "servers of the cluster", func() int { return len(c.members.view().members) })
	gauge("Server.Cluster.MembersAlive", "servers of the cluster that answer, including this one", func() int {
		alive := 1
		for _, p := range c.members.view().peers {
			if p.alive {
				alive++
			}
		}
		return alive
	})
	gauge("Server.Cluster.Events.Open", "open events of the cluster", func() int { return e.count("") })
	for _, k := range eventKinds {
		gauge("Server.Cluster.Events."+kindWord(k), "open events of this kind: "+string(k),
			func() int { return e.count(k) })
	}
	count := func(fn func(*held) bool) func() int {
		return func() int {
			_, some := c.holdings.count(fn)
			return some
		}
	}
	gauge("Server.Cluster.Databases", "databases with a replica here", count(func(*held) bool { return true }))
	gauge("Server.Cluster.DatabasesLed", "databases whose primary is here",
		count(func(h *held) bool { return h.leads }))
	gauge("Server.Cluster.DatabasesWithoutHome",
		"databases with a replica here that have no primary", count((*held).homeless))
}

// mate registers the statistics of the queue to one mate.
func (s *statistics) mate(m *Member) *queueStats {
	name := word(m.Name)
	if name == "" {
		name = m.ID.String()
	}
	return newQueueStats(s.tree, "Replica.Cluster.Mate."+name, " on "+m.Name, s.queue)
}

// word converts the name of a server into a component of a statistic's name.
func word(name string) string {
	name = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '_'
	}, name)
	return strings.Trim(name, "_")
}

func (s *statistics) sample() { s.queue.sample() }

// kindWord converts a kind of event into a component of a statistic's name, for example NoRoom.
func kindWord(k EventKind) string {
	var b strings.Builder
	for _, w := range strings.Fields(string(k)) {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}

// redirected counts a database that moved at an open.
func (s *statistics) redirected(reason why) {
	switch reason {
	case balanced:
		s.balanced.Inc()
	case closed:
		s.closed.Inc()
	case returned:
		s.returned.Inc()
	}
}
