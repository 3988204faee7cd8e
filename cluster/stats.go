package cluster

import (
	"strings"

	"doublet/stat"
)

// statistics are the cluster's, under Domino's names where Domino has one.
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

func (s *statistics) init(n *Node, t *stat.Tree) {
	s.tree = t
	s.queue = newQueueStats(t, "Replica.Cluster", "", nil)
	count := func(to **stat.Counter, name, help string) { *to = t.Counter(name, help) }
	count(&s.probes, "Server.Cluster.ProbeCount", "probes sent to mates")
	count(&s.probeErrors, "Server.Cluster.ProbeError", "probes without an answer")
	count(&s.lost, "Server.Cluster.MatesLost", "times that a mate fell silent")
	count(&s.takeOvers, "Server.Cluster.TakeOvers", "databases whose home died and that were taken over here")
	count(&s.handOvers, "Server.Cluster.HandOvers", "databases handed over to a mate")
	count(&s.stepDowns, "Server.Cluster.StepDowns", "databases that two led and that were given up here")
	count(&s.made, "Server.Cluster.ReplicasMade", "replicas made here")
	count(&s.repaired, "Server.Cluster.Repaired", "databases and objects that were missing or damaged and came from a mate")
	count(&s.unrepaired, "Server.Cluster.Repaired.Failed", "objects that were missing or damaged, and that no mate gave")
	count(&s.opens, "Server.Cluster.OpenRequest", "opens of databases")
	count(&s.failover, "Server.Cluster.OpenRedirects.Failover.Successful", "opens served by another server than the database's first")
	count(&s.failoverBad, "Server.Cluster.OpenRedirects.Failover.Unsuccessful", "opens that no server could serve")
	count(&s.balanced, "Server.Cluster.OpenRedirects.LoadBalance.Successful", "opens that moved their database because this server was busy")
	count(&s.unbalanced, "Server.Cluster.OpenRedirects.LoadBalance.Unsuccessful", "opens served here though this server was busy")
	count(&s.closed, "Server.Cluster.OpenRequest.DatabaseOutOfService", "opens that moved because the replica or the server was closed to users")
	count(&s.returned, "Server.Cluster.OpenRedirects.Return", "opens that moved their database back to its first server")
	count(&s.acknowledged, "Server.Cluster.Acknowledged", "commits that a mate has confirmed before they were acknowledged")
	count(&s.ackDegraded, "Server.Cluster.Acknowledged.Degraded", "commits acknowledged though no mate had confirmed them")
	count(&s.ackRefused, "Server.Cluster.Acknowledged.Refused", "commits refused or left open because no mate answered")
	s.ackTime = t.Histogram("Server.Cluster.Acknowledged.Time", "time until a mate had confirmed", stat.Seconds)
	t.GaugeFunc("Server.AvailabilityIndex", "availability of the server, 0 to 100", func() float64 { return float64(n.opt.Load.Index()) })
	t.GaugeFunc("Server.ExpansionFactor", "time of operations now against their best", n.opt.Load.Expansion)
	gauge := func(name, help string, f func() int) {
		t.GaugeFunc(name, help, func() float64 {
			n.mu.Lock()
			defer n.mu.Unlock()
			return float64(f())
		})
	}
	gauge("Server.AvailabilityThreshold", "index below which the server counts as busy", func() int { return n.members[n.self].Threshold })
	gauge("Server.Cluster.Members", "servers of the cluster", func() int { return len(n.members) })
	gauge("Server.Cluster.MembersAlive", "servers of the cluster that answer, this one among them", func() int {
		alive := 1
		for _, p := range n.peers {
			if p.alive {
				alive++
			}
		}
		return alive
	})
	gauge("Server.Cluster.Events.Open", "events of the cluster that are not over", func() int { return len(n.events.open) })
	for _, k := range eventKinds {
		gauge("Server.Cluster.Events."+kindWord(k), "events of this kind that are not over: "+string(k), func() int {
			open := 0
			for key := range n.events.open {
				if key.kind == k {
					open++
				}
			}
			return open
		})
	}
	gauge("Server.Cluster.Databases", "databases with a replica here", func() int { return len(n.held) })
	gauge("Server.Cluster.DatabasesLed", "databases whose home is here", func() int {
		led := 0
		for _, h := range n.held {
			if h.leads {
				led++
			}
		}
		return led
	})
	gauge("Server.Cluster.DatabasesWithoutHome", "databases with a replica here that nobody leads", func() int {
		lost := 0
		for _, h := range n.held {
			if !h.leads && !h.lost.IsZero() {
				lost++
			}
		}
		return lost
	})
}

// mate is the queue of one mate, and its probe time.
func (s *statistics) mate(m *Member) *queueStats {
	name := word(m.Name)
	if name == "" {
		name = m.ID.String()
	}
	return newQueueStats(s.tree, "Replica.Cluster.Mate."+name, " on "+m.Name, s.queue)
}

// word makes a server's name one word of a statistic's name.
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

// kindWord is a kind of event as a word of a statistic's name: NoRoom.
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
