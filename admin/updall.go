package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/store/view"
)

// UpdAll are the arguments of updall.
type UpdAll struct {
	Database []string `json:"database" arg:"rest" help:"only these databases: ids, titles or owners"`
	Rebuild  bool     `json:"rebuild" help:"build every view anew beside the present one, then replace it"`
	FullText bool     `json:"fulltext" help:"build the full-text index anew as well"`
}

// Updated is the result of updall.
type Updated struct {
	Databases int      `json:"databases" show:"always"`
	Views     int      `json:"views" show:"always"`
	FullText  bool     `json:"fulltext_begun,omitempty"`
	Errors    []string `json:"errors,omitempty"`
}

// Bad reports whether a view failed, for the exit code.
func (r Updated) Bad() bool { return len(r.Errors) > 0 }

func updalls() []*Verb {
	return []*Verb{
		define("updall", "bring all views up to date, or build them and the full-text index anew", updAll, changes,
			yields,
			long("The task Update refreshes views after changes, and a view is refreshed when it is opened. The task "+
				"UpdAll runs this\nverb at night, for views that nobody opened since a restart. Mail files have no "+
				"such views: their lists are\npart of every write.")),
	}
}

func updAll(ctx context.Context, c *Call, a *UpdAll) (out Updated, err error) {
	if a.FullText && (c.running == nil || c.running.Search == nil) {
		return out, errNoSearch
	}
	list, err := chosen(c, a.Database)
	if err != nil {
		return out, err
	}
	for n, i := range list {
		c.Progress(Progress{Stage: "database", Done: uint64(n + 1), Text: fmt.Sprintf("of %d: %s", len(list), i.Title)})
		if mayHoldViews(&i) && i.State == layout.InService {
			if err := out.views(ctx, c, i, a.Rebuild); err != nil {
				return out, err
			}
			out.Databases++
		}
		if a.FullText && len(a.Database) > 0 {
			c.running.Search.Rebuild(i.ID)
		}
	}
	if a.FullText && len(a.Database) == 0 {
		c.running.Search.Rebuild(note.DatabaseID(0))
	}
	out.FullText = a.FullText
	return out, nil
}

// views refreshes or rebuilds the views of a database. A view that fails, or a damaged database, is recorded and does
// not stop the others.
func (r *Updated) views(ctx context.Context, c *Call, i layout.Info, rebuild bool) error {
	views := map[note.ID]bool{}
	err := c.Store.Read(ctx, note.System, i.ID, func(rd *store.Reader) error { return allViews(ctx, rd, views) })
	if errors.Is(err, store.ErrDamaged) {
		r.Errors = append(r.Errors, fmt.Sprintf("%s: %v", i.Title, err))
	} else if err := except(err, store.ErrNotFound, store.ErrOutOfService); err != nil {
		return fmt.Errorf("updall %s: %w", i.Title, err)
	}
	for _, id := range slices.Sorted(maps.Keys(views)) {
		v, err := view.Open(c.Store, i.ID, id)
		if err == nil && rebuild {
			err = v.Rebuild(ctx)
		} else if err == nil {
			err = v.Refresh(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			r.Views++
		case !errors.Is(err, view.ErrDefinition) && !errors.Is(err, store.ErrNotFound): // not a view, or gone
			r.Errors = append(r.Errors, fmt.Sprintf("%s, view %d: %v", i.Title, id, err))
		}
	}
	return nil
}
