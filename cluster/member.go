package cluster

import (
	"context"
	"fmt"
	"slices"

	"doublet/bus"
	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// MemberState is the state of a server in its cluster.
type MemberState string

// States of a member.
const (
	// Active members hold replicas and serve.
	Active MemberState = "active"
	// Leaving members hand over their replicas. They get no new ones, and lead a database only if no other member can.
	Leaving MemberState = "leaving"
	// Removed servers are no longer members; the members reject them.
	Removed MemberState = directory.StateRemoved
)

// Member is a server of the cluster, as described by its server document in the directory.
type Member struct {
	bus.Member
	Cluster string
	State   MemberState
	// Threshold is the availability index below which the server counts as busy; 0: never.
	Threshold int
	// MaxUsers is the maximum number of users; 0: unlimited.
	MaxUsers int
	// Restricted members accept no opens.
	Restricted bool
	// Gateway members hold only the two directories.
	Gateway bool
	// Capacity is the share of databases in percent of an ordinary member; 0: 100.
	Capacity int
	// Site is the location. The replicas of a database are placed at different sites if possible.
	Site string
}

// MaxCapacity is the maximum capacity, in percent of an ordinary member.
const MaxCapacity = 10_000

func (m *Member) capacity() int {
	if m.Capacity <= 0 {
		return 100
	}
	return min(m.Capacity, MaxCapacity)
}

// Items of a server document that belong to the cluster. The directory keeps items that it does not know.
const (
	itemCluster    = directory.ItemCluster
	itemState      = directory.ItemState
	itemKey        = directory.ItemKey
	itemRoute      = "ClusterRoute"
	itemDirect     = "ClusterAddress"
	itemThreshold  = "AvailabilityThreshold"
	itemMaxUsers   = "MaxUsers"
	itemRestricted = "Restricted"
	itemGateway    = "Gateway"
	itemCapacity   = "Capacity"
	itemSite       = "Site"
)

func (m *Member) write(items note.Items) note.Items {
	set := func(name string, v note.Value, on bool) {
		if !on {
			v = nil
		}
		items = items.With(name, v)
	}
	set(itemCluster, note.Text(m.Cluster), m.Cluster != "")
	set(itemState, note.Text(string(m.State)), m.State != "")
	set(itemKey, note.Text(m.Key.String()), m.Key != bus.Key{})
	set(itemRoute, note.Text(m.Route), m.Route != "")
	set(itemDirect, note.Text(m.Direct), m.Direct != "")
	set(itemThreshold, note.Int(int64(m.Threshold)), m.Threshold != 0)
	set(itemMaxUsers, note.Int(int64(m.MaxUsers)), m.MaxUsers != 0)
	set(itemRestricted, note.Bool(true), m.Restricted)
	set(itemGateway, note.Bool(true), m.Gateway)
	set(itemCapacity, note.Int(int64(m.Capacity)), m.Capacity != 0)
	set(itemSite, note.Text(m.Site), m.Site != "")
	return items
}

// readMember reads a server document; ok is false for a server that is in no cluster.
func readMember(id note.UNID, name string, items note.Items) (m Member, ok bool) {
	m = Member{
		Member: bus.Member{ID: id, Name: name, Route: items.Get(itemRoute).AsText(),
			Direct: items.Get(itemDirect).AsText()},
		Cluster: items.Get(itemCluster).AsText(), State: MemberState(items.Get(itemState).AsText()),
		Threshold:  int(min(100, max(0, items.Get(itemThreshold).AsInt()))),
		MaxUsers:   int(max(0, items.Get(itemMaxUsers).AsInt())),
		Restricted: items.Get(itemRestricted).AsBool(), Gateway: items.Get(itemGateway).AsBool(),
		Capacity: int(min(MaxCapacity, max(0, items.Get(itemCapacity).AsInt()))), Site: items.Get(itemSite).AsText(),
	}
	// A malformed key matches no certificate: this server is rejected, and the others are not affected.
	m.Key, _ = bus.ParseKey(items.Get(itemKey).AsText())
	return m, m.Cluster != "" && m.State != "" && m.State != Removed
}

// Members returns the members of a cluster from the server documents, in order of id.
func Members(ctx context.Context, s *store.Store, cluster string) (list []Member, err error) {
	err = s.Read(ctx, note.System, directory.ID, func(r *store.Reader) (err error) {
		list, err = membersIn(r, cluster)
		return err
	})
	return list, err
}

func membersIn(r *store.Reader, cluster string) (list []Member, err error) {
	err = directory.ServerDocuments(r, func(id note.UNID, name string, items note.Items) {
		if m, ok := readMember(id, name, items); ok && m.Cluster == cluster {
			list = append(list, m)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: members: %w", err)
	}
	slices.SortFunc(list, func(a, b Member) int { return a.ID.Compare(b.ID) })
	return list, nil
}

// SetMember changes the membership data in a server document, which must exist. fn must return quickly: it runs under
// the lock of the directory.
func SetMember(ctx context.Context, s *store.Store, who note.Who, id note.UNID, fn func(*Member) error) error {
	if err := directory.RequireAdmin(who); err != nil {
		return err
	}
	actor := note.Who{System: true, Person: who.Person}
	return s.Update(ctx, actor, []note.DatabaseID{directory.ID}, func(tx *store.Tx) error {
		w, err := tx.Database(directory.ID)
		if err != nil {
			return err
		}
		n, err := w.Find(id)
		if err != nil {
			return fmt.Errorf("server %s: %w", id, err)
		}
		c, err := w.Content(n)
		if err != nil {
			return err
		}
		m, _ := readMember(id, "", c.Content.Items)
		if err := fn(&m); err != nil {
			return err
		}
		next := c.Content
		next.Items = m.write(c.Content.Items)
		return w.Rewrite(n, next)
	})
}
