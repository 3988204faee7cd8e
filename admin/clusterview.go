package admin

import (
	"context"
	"fmt"
	"strings"

	"doublet/bus/pki"
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
	// Next is the id behind which the next page begins, "" at the end.
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
	State    string `json:"state" arg:"required" help:"serving, out (of service) or deleting (pending delete: removed when others have all of it)"`
}

// replicaStates are the states of a replica by the words for them.
var replicaStates = map[string]cluster.ReplicaState{"serving": cluster.Serving, "out": cluster.Out, "deleting": cluster.Deleting}

// ClusterSet are the arguments of cluster set. What is not given stays.
type ClusterSet struct {
	Server     string `json:"server" arg:"required" help:"name of the member"`
	Threshold  *int   `json:"threshold" help:"availability index below which opens go to other members; 0: never"`
	MaxUsers   *int   `json:"max_users" help:"users that it takes at most; 0: any number"`
	Restricted *bool  `json:"restricted" help:"it takes no opens"`
	Gateway    *bool  `json:"gateway" help:"it holds the two directories and nothing else"`
}

// ClusterServer are the arguments of cluster leave and cluster remove.
type ClusterServer struct {
	Server string `json:"server" arg:"required" help:"name of the member"`
}

func clusterShows() []*Verb {
	return []*Verb{
		define("show cluster", "members of the cluster, how they are, and what waits to be replicated", func(_ context.Context, c *Call, _ *struct{}) (cluster.Status, error) {
			n, err := c.clusterNode()
			if err != nil {
				return cluster.Status{}, err
			}
			return n.Status(), nil
		}),
		define("show cluster databases", "databases of the cluster, their homes and replicas", func(ctx context.Context, c *Call, a *ClusterPage) (ClusterDatabases, error) {
			n, err := c.clusterNode()
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
		define("cluster move", "make a member the home of a database", func(ctx context.Context, c *Call, a *ClusterMove) (Done, error) {
			n, err := c.clusterNode()
			if err != nil {
				return Done{}, err
			}
			db, to, err := c.databaseAndMember(ctx, a.Database, a.Server)
			if err != nil {
				return Done{}, err
			}
			if err := n.Move(ctx, db, to.ID); err != nil {
				return Done{}, err
			}
			return Done{"the home of " + a.Database + " is " + to.Name + ", from its next open on"}, nil
		}, changes),
		define("cluster replica", "take a member's replica of a database out of service, back into it, or away", func(ctx context.Context, c *Call, a *ClusterReplica) (Done, error) {
			state, known := replicaStates[a.State]
			if !known {
				return Done{}, fmt.Errorf("%w: a replica is serving, out or deleting, not %q", ErrUsage, a.State)
			}
			n, err := c.clusterNode()
			if err != nil {
				return Done{}, err
			}
			db, at, err := c.databaseAndMember(ctx, a.Database, a.Server)
			if err != nil {
				return Done{}, err
			}
			if err := n.SetReplica(ctx, db, at.ID, state); err != nil {
				return Done{}, err
			}
			return Done{"the replica of " + a.Database + " on " + at.Name + " is " + string(state)}, nil
		}, changes),
		define("cluster set", "how much a member takes upon itself", setMember, changes),
		define("cluster leave", "let a member give all that it holds to others, before it is removed", func(ctx context.Context, c *Call, a *ClusterServer) (Done, error) {
			return c.memberState(ctx, a.Server, cluster.Leaving)
		}, changes),
		define("cluster remove", "remove a member that has left, or whose machine is lost for good", func(ctx context.Context, c *Call, a *ClusterServer) (Done, error) {
			return c.memberState(ctx, a.Server, cluster.Removed)
		}, changes),
	}
}

// clusterNode is this server's part in its cluster.
func (s *System) clusterNode() (*cluster.Node, error) {
	if s.Node == nil {
		if s.Stop == nil {
			return nil, fmt.Errorf("%w: what its cluster does is known while it runs", ErrStopped)
		}
		return nil, fmt.Errorf("%w: found one with doublet cluster init", pki.ErrNone)
	}
	return s.Node, nil
}

// memberNamed finds a member by name or id.
func (c *Call) memberNamed(ctx context.Context, name string) (cluster.Member, error) {
	n, err := c.clusterNode()
	if err != nil {
		return cluster.Member{}, err
	}
	list, err := cluster.Members(ctx, c.Store, c.Directory, n.Status().Cluster)
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

func (c *Call) databaseAndMember(ctx context.Context, database, server string) (note.DatabaseID, cluster.Member, error) {
	m, err := c.memberNamed(ctx, server)
	if err != nil {
		return 0, m, err
	}
	if db, err := note.ParseDatabaseID(database); err == nil {
		return db, m, nil
	}
	t, err := c.Directory.Lookup(ctx, database)
	if err != nil {
		return 0, m, fmt.Errorf("database %q: %w", database, err)
	}
	p, err := c.Directory.Person(ctx, t.ID)
	return p.MailDatabase, m, err
}

func setMember(ctx context.Context, c *Call, a *ClusterSet) (Done, error) {
	m, err := c.memberNamed(ctx, a.Server)
	if err != nil {
		return Done{}, err
	}
	if a.Threshold != nil && (*a.Threshold < 0 || *a.Threshold > 100) || a.MaxUsers != nil && *a.MaxUsers < 0 {
		return Done{}, fmt.Errorf("%w: the threshold is 0 to 100, users are not negative", ErrUsage)
	}
	err = cluster.SetMember(ctx, c.Store, c.Who, m.ID, func(x *cluster.Member) error {
		for _, f := range []struct {
			to, from *int
		}{{&x.Threshold, a.Threshold}, {&x.MaxUsers, a.MaxUsers}} {
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
		return nil
	})
	return Done{"member " + m.Name + " is changed"}, err
}

// memberState lets a member leave, or removes it: one that lives must have given everything away.
func (c *Call) memberState(ctx context.Context, name string, state cluster.MemberState) (Done, error) {
	m, err := c.memberNamed(ctx, name)
	if err != nil {
		return Done{}, err
	}
	if state == cluster.Removed {
		for _, v := range c.Node.Status().Members {
			if v.Name == m.Name && v.Alive && !c.Node.Left(m.ID) {
				return Done{}, fmt.Errorf("%w: %s lives and holds databases: doublet cluster leave %s first, and wait until show cluster says that it has none", ErrUsage, m.Name, m.Name)
			}
		}
	}
	err = cluster.SetMember(ctx, c.Store, c.Who, m.ID, func(x *cluster.Member) error {
		x.State = state
		return nil
	})
	return Done{"member " + m.Name + " is " + string(state)}, err
}
