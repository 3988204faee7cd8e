package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/catalog"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// CatalogEntry is a database in the result of show catalog.
type CatalogEntry struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Kind  string `json:"kind"`
	Owner string `json:"owner,omitempty"`
	State string `json:"state"`
	// Notes is the number of notes; Size the bytes of messages, which count for the quota; Disk estimates the bytes of
	// its rows on disk.
	Notes   uint64    `json:"notes" show:"always"`
	Size    Size      `json:"size" show:"always"`
	Disk    Size      `json:"disk" show:"always"`
	Quota   Limit     `json:"quota,omitempty" show:"always"`
	Servers []string  `json:"servers,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Used    time.Time `json:"last_used,omitzero"`
}

// CatalogShow are the arguments of show catalog.
type CatalogShow struct {
	Pattern string `json:"pattern" arg:"optional" help:"part of a title, owner, kind, server or id"`
	Kind    string `json:"kind" help:"only those of a kind, such as mail"`
	Unused  int    `json:"unused" help:"only those without a change for so many days"`
	Limit   int    `json:"limit" help:"at most so many (1,000,000 where none is given)"`
}

func catalogs() []*Verb {
	return []*Verb{
		define("show catalog", "the databases: where they are, size, quota, owner, last use", showCatalog,
			long("The task Catalog writes it at night. The last use is the time of the run that first saw the latest "+
				"change.")),
		define("catalog", "bring the catalog of databases up to date", updateCatalog, changes, yields),
	}
}

func showCatalog(ctx context.Context, c *Call, a *CatalogShow) ([]CatalogEntry, error) {
	out := []CatalogEntry{}
	limit, now := atMost(a.Limit, everything), c.Env.Clock.Now()
	err := c.Catalog.Each(ctx, func(e *catalog.Entry) bool {
		used := e.Used
		if used.IsZero() {
			used = e.Created
		}
		if e.Fits(a.Pattern) && (a.Kind == "" || strings.EqualFold(e.Kind, a.Kind)) &&
			(a.Unused <= 0 || now.Sub(used) >= time.Duration(a.Unused)*24*time.Hour) {
			out = append(out, CatalogEntry{
				ID: e.ID.String(), Title: e.Title, Kind: e.Kind, Owner: e.Owner, State: e.State, Notes: e.Notes,
				Size: Size(e.Size), Disk: Size(e.Rows), Quota: Limit(e.Quota), Servers: e.Servers, Created: e.Created,
				Used: e.Used,
			})
		}
		return len(out) < limit
	})
	slices.SortFunc(out, func(x, y CatalogEntry) int {
		return strings.Compare(strings.ToLower(x.Title)+x.ID, strings.ToLower(y.Title)+y.ID)
	})
	return out, err
}

func updateCatalog(ctx context.Context, c *Call, _ *struct{}) (Done, error) {
	list, err := c.Store.Databases()
	if err != nil {
		return Done{}, err
	}
	servers, err := replicasOf(ctx, c)
	if err != nil {
		return Done{}, err
	}
	entries, damaged := make([]catalog.Entry, 0, len(list)), 0
	for n, i := range list {
		c.Progress(Progress{Stage: "database", Done: uint64(n + 1), Text: fmt.Sprintf("of %d", len(list))})
		e, err := catalogued(ctx, c, i)
		switch {
		case errors.Is(err, store.ErrNotFound):
			continue
		case errors.Is(err, store.ErrDamaged):
			c.Env.Log.Error("catalog: cannot read a database", "database", i.ID.String(), "err", err)
			e.Damaged = true
			damaged++
		case err != nil:
			return Done{}, fmt.Errorf("catalog: database %s: %w", i.ID, err)
		}
		if e.Servers = servers[e.ID.String()]; len(e.Servers) == 0 {
			e.Servers = []string{c.Name}
		}
		entries = append(entries, e)
	}
	written, removed, err := c.Catalog.Update(ctx, entries)
	text := fmt.Sprintf("%d databases: %d entries written, %d removed", len(entries), written, removed)
	if damaged > 0 {
		text += fmt.Sprintf(", %d damaged and left as they were", damaged)
	}
	return Done{text}, err
}

// catalogued describes a database. The counts of one that is out of service are not read.
func catalogued(ctx context.Context, c *Call, i layout.Info) (catalog.Entry, error) {
	e := catalog.Entry{
		ID: i.ID, Title: i.Title, Kind: i.Kind, State: i.State.String(), Quota: i.Quota,
		Created: time.Unix(i.Created, 0).UTC(),
	}
	if !i.Owner.IsZero() {
		e.Owner = c.nameOf(ctx, i.Owner)
	}
	rows, err := c.Store.DiskUsage(i.ID)
	if err != nil {
		return e, err
	}
	e.Rows = rows
	err = c.Store.Read(ctx, note.System, i.ID, func(r *store.Reader) error {
		n := r.Counters()
		e.Notes, e.Size, e.Sequence = n.Notes, n.Size, n.Seq
		return nil
	})
	return e, except(err, store.ErrOutOfService)
}

// replicasOf returns the servers of the cluster with a replica of each database, by its ID; none without a cluster.
func replicasOf(ctx context.Context, c *Call) (map[string][]string, error) {
	out := map[string][]string{}
	node := c.Member.Node()
	if node == nil {
		return out, nil
	}
	for after := note.DatabaseID(0); ctx.Err() == nil; {
		list, next := node.Databases(ctx, after, 1000)
		for _, d := range list {
			for _, r := range d.Replicas {
				out[d.ID] = append(out[d.ID], r.Server)
			}
		}
		if after = next; next == 0 {
			break
		}
	}
	return out, ctx.Err()
}
