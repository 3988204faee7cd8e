package admin

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"doublet/cluster"
	"doublet/note"
	"doublet/store"
)

// ClusterPage are the arguments of show cluster databases.
type ClusterPage struct {
	After string `json:"after" help:"id of the database behind which the list begins"`
	Limit int    `json:"limit" help:"how many at most (100)"`
}

// ClusterDatabases is a page of the Cluster Database Directory.
type ClusterDatabases struct {
	Databases []cluster.DatabaseView `json:"databases"`
	// Next is the id after which the next page begins, "" at the end.
	Next string `json:"next,omitempty"`
}

// ClusterMove are the arguments of cluster move.
type ClusterMove struct {
	Database string `json:"database" arg:"required" help:"id of the database, or the name of its person"`
	Server   string `json:"server" arg:"required" help:"the server that is to be its home"`
}

// ClusterReplica are the arguments of cluster replica.
type ClusterReplica struct {
	Database string `json:"database" arg:"required" help:"id of the database, or the name of its person"`
	Server   string `json:"server" arg:"required" help:"the server whose replica it is about"`
	State    string `json:"state" arg:"required" help:"serving, out or deleting (removed once others have everything)"`
}

// replicaStates holds the states of a replica by their words.
var replicaStates = map[string]cluster.ReplicaState{"serving": cluster.Serving, "out": cluster.Out,
	"deleting": cluster.Deleting}

// ClusterSet are the arguments of cluster set. A nil or empty field leaves the value unchanged.
type ClusterSet struct {
	Server     string `json:"server" arg:"required" help:"name of the member"`
	Threshold  *int   `json:"threshold" help:"availability index below which opens go to other members; 0: never"`
	MaxUsers   *int   `json:"max_users" help:"users that it takes at most; 0: any number"`
	Restricted *bool  `json:"restricted" help:"it takes no opens"`
	Gateway    *bool  `json:"gateway" help:"it holds the two directories and nothing else"`
	Capacity   *int   `json:"capacity" help:"capacity in percent of an ordinary member; 0: 100"`
	Site       string `json:"site" help:"site; replicas of a database go to different sites; -: none"`
}

// ClusterServer are the arguments of cluster leave and cluster remove.
type ClusterServer struct {
	Server string `json:"server" arg:"required" help:"name of the member"`
}

func clusterShows() []*Verb {
	return []*Verb{
		onServer("show cluster", "members of the cluster, how they are, and what waits to be replicated",
			func(_ context.Context, c *ServerCall, _ *struct{}) (cluster.Status, error) {
				n, err := c.node()
				if err != nil {
					return cluster.Status{}, err
				}
				return n.Status(), nil
			}),
		onServer("show cluster databases", "databases of the cluster, their homes and replicas",
			func(ctx context.Context, c *ServerCall, a *ClusterPage) (ClusterDatabases, error) {
				n, err := c.node()
				if err != nil {
					return ClusterDatabases{}, err
				}
				var after note.DatabaseID
				if a.After != "" {
					if after, err = note.ParseDatabaseID(a.After); err != nil {
						return ClusterDatabases{}, fmt.Errorf("%w: --after %s: %w", ErrUsage, a.After, err)
					}
				}
				limit := a.Limit
				if limit <= 0 {
					limit = 100
				}
				list, next := n.Databases(ctx, after, min(limit, 10_000))
				out := ClusterDatabases{Databases: list}
				if next != 0 {
					out.Next = next.String()
				}
				return out, nil
			}),
		onServer("cluster move", "make a member the home of a database, together with its open sessions",
			func(ctx context.Context, c *ServerCall, a *ClusterMove) (Done, error) {
				n, err := c.node()
				if err != nil {
					return Done{}, err
				}
				db, to, err := c.databaseAndMember(ctx, a.Database, a.Server)
				if err != nil {
					return Done{}, err
				}
				if err := n.Placement.Move(ctx, db, to.ID); err != nil {
					return Done{}, err
				}
				return Done{"the home of " + a.Database + " is " + to.Name + ""}, nil
			}, changes),
		onServer("cluster replica", "take a member's replica of a database out of service, back into it, or away",
			func(ctx context.Context, c *ServerCall, a *ClusterReplica) (Done, error) {
				state, known := replicaStates[a.State]
				if !known {
					return Done{}, fmt.Errorf("%w: a replica is serving, out or deleting, not %q", ErrUsage, a.State)
				}
				n, err := c.node()
				if err != nil {
					return Done{}, err
				}
				db, at, err := c.databaseAndMember(ctx, a.Database, a.Server)
				if err != nil {
					return Done{}, err
				}
				if err := n.Placement.SetReplica(ctx, db, at.ID, state); err != nil {
					return Done{}, err
				}
				return Done{"the replica of " + a.Database + " on " + at.Name + " is " + string(state)}, nil
			}, changes),
		onServer("cluster set", "how much a member takes upon itself", setMember, changes),
	}
}

// clusterKeeps returns the verbs that maintain a cluster.
func clusterKeeps() []*Verb {
	return []*Verb{
		onServer("cluster replicas", "how many replicas a database has",
			func(ctx context.Context, c *ServerCall, a *ClusterReplicas) (Done, error) {
				n, err := c.node()
				if err != nil {
					return Done{}, err
				}
				number, err := strconv.Atoi(a.Number)
				if err != nil || number < 0 || number > note.Slots {
					return Done{},
						fmt.Errorf("%w: %q: replicas must be 1 to %d, or 0 for the number in cluster.replicas",
							ErrUsage, a.Number, note.Slots)
				}
				db, err := c.databaseNamed(ctx, a.Database)
				if err == nil {
					err = n.Placement.SetReplicas(ctx, db, number)
				}
				return Done{"the replicas of " + a.Database + " are made, or go, one after the other"}, err
			}, changes),
		onServer("cluster balance", "suggest, or make, moves of databases that let members be used evenly",
			func(ctx context.Context, c *ServerCall, a *ClusterBalance) (Balance, error) {
				n, err := c.node()
				if err != nil {
					return Balance{}, err
				}
				b, err := n.Placement.Balance(ctx, a.Apply)
				return Balance(b), err
			}, changes, long(balanceHelp)),
		onServer("cluster leave", "let a member give all that it holds to others, before it is removed",
			func(ctx context.Context, c *ServerCall, a *ClusterServer) (Done, error) {
				return c.memberState(ctx, a.Server, cluster.Leaving)
			}, changes),
		onServer("cluster remove", "remove a member; what it holds goes to others first", removeMember, changes, yields,
			long(removeHelp)),
	}
}

// memberNamed finds a member by name or id.
func (c *ServerCall) memberNamed(ctx context.Context, name string) (cluster.Member, error) {
	n, err := c.node()
	if err != nil {
		return cluster.Member{}, err
	}
	list, err := cluster.Members(ctx, c.Store, n.Status().Cluster)
	for _, m := range list {
		if strings.EqualFold(m.Name, name) || m.ID.String() == name {
			return m, err
		}
	}
	if err == nil {
		err = fmt.Errorf("member %q: %w", name, store.ErrNotFound)
	}
	return cluster.Member{}, err
}

func (c *ServerCall) databaseAndMember(ctx context.Context, database,
	server string) (note.DatabaseID, cluster.Member, error) {
	m, err := c.memberNamed(ctx, server)
	if err != nil {
		return 0, m, err
	}
	db, err := c.databaseNamed(ctx, database)
	return db, m, err
}

// databaseNamed finds a database by its id, or by the name of its person.
func (c *ServerCall) databaseNamed(ctx context.Context, database string) (note.DatabaseID, error) {
	if db, err := note.ParseDatabaseID(database); err == nil {
		return db, nil
	}
	t, err := c.Directory.Names.Lookup(ctx, database)
	if err != nil {
		return 0, fmt.Errorf("database %q: %w", database, err)
	}
	p, err := c.Directory.Names.Person(ctx, t.ID)
	return p.MailDatabase, err
}

func (a *ClusterSet) check() error {
	if a.Threshold != nil && (*a.Threshold < 0 || *a.Threshold > 100) || a.MaxUsers != nil && *a.MaxUsers < 0 {
		return fmt.Errorf("%w: the threshold is 0 to 100, users are not negative", ErrUsage)
	}
	if a.Capacity != nil && (*a.Capacity < 0 || *a.Capacity > cluster.MaxCapacity) || len(a.Site) > 100 {
		return fmt.Errorf("%w: the capacity is 0 to %d, a site has 100 bytes at most", ErrUsage, cluster.MaxCapacity)
	}
	return nil
}

func setMember(ctx context.Context, c *ServerCall, a *ClusterSet) (Done, error) {
	m, err := c.memberNamed(ctx, a.Server)
	if err != nil {
		return Done{}, err
	}
	if err := a.check(); err != nil {
		return Done{}, err
	}
	err = cluster.SetMember(ctx, c.Store, c.Who, m.ID, func(x *cluster.Member) error {
		for _, f := range []struct {
			to, from *int
		}{{&x.Threshold, a.Threshold}, {&x.MaxUsers, a.MaxUsers}, {&x.Capacity, a.Capacity}} {
			if f.from != nil {
				*f.to = *f.from
			}
		}
		if a.Restricted != nil {
			x.Restricted = *a.Restricted
		}
		if a.Gateway != nil {
			x.Gateway = *a.Gateway
		}
		if a.Site != "" {
			x.Site = strings.TrimPrefix(a.Site, "-")
		}
		return nil
	})
	return Done{"member " + m.Name + " is changed"}, err
}
