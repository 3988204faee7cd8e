package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/env"
	"doublet/store"
	"doublet/store/layout"
)

// Compact are the arguments of compact.
type Compact struct {
	Database []string `json:"database" arg:"rest" help:"only these databases: ids, titles or owners"`
	Share    int      `json:"share" help:"at most so much of the time, percent (50); 100 does not wait"`
}

// Compacted is the result of compact. Before and After estimate the rows of the databases on disk.
type Compacted struct {
	Databases int  `json:"databases" show:"always"`
	Before    Size `json:"before" show:"always"`
	After     Size `json:"after" show:"always"`
	// Objects is the space that objects without references took. It is not counted if databases are named, because
	// databases share objects.
	Objects Size `json:"objects" show:"always"`
	Saved   Size `json:"saved" show:"always"`
}

// Text returns the result as text for people.
func (r Compacted) Text() string {
	return fmt.Sprintf("compacted %d databases: %s before, %s after; objects without references took %s; saved %s\n",
		r.Databases, r.Before, r.After, r.Objects, r.Saved)
}

func compacts() []*Verb {
	return []*Verb{
		define("compact", "free the space on disk of what was deleted and replaced, while the server runs", compact,
			changes, yields,
			long("Rewrites notes, indexes and views. Without databases it compacts all of them, one after another, "+
				"and removes\nobjects without references too. Between two databases it pauses, so that it takes no "+
				"more than its share\nof the time. The task Compact does the same: doublet task load compact.")),
	}
}

// chosen returns the databases with these names, all of them without names.
func chosen(c *Call, names []string) ([]layout.Info, error) {
	if len(names) == 0 {
		return c.Store.Databases()
	}
	list := make([]layout.Info, 0, len(names))
	for _, name := range names {
		i, err := c.database(name)
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// compact compacts databases. A damaged one does not stop the others and is an error in the end. Any other error, such
// as a full disk, would meet the others too and ends the run.
func compact(ctx context.Context, c *Call, a *Compact) (out Compacted, err error) {
	share := a.Share
	if share == 0 {
		share = 50
	}
	if share < 1 || share > 100 {
		return out, fmt.Errorf("%w: share %d is not within 1 to 100", ErrUsage, share)
	}
	list, err := chosen(c, a.Database)
	if err != nil {
		return out, err
	}
	var damaged []error
	for n, i := range list {
		c.Progress(Progress{Stage: "database", Done: uint64(n + 1), Text: fmt.Sprintf("of %d: %s", len(list), i.Title)})
		begun := c.Env.Clock.Now()
		if err := out.database(ctx, c, i); errors.Is(err, store.ErrDamaged) {
			damaged = append(damaged, err)
		} else if err != nil {
			return out, err
		}
		if err := pause(ctx, c.Env, begun, share); err != nil {
			return out, err
		}
	}
	if len(a.Database) == 0 {
		if err := out.objects(ctx, c); err != nil {
			return out, err
		}
		if err := store.Erase(ctx, c.Store, func(stage string, done uint64) {
			c.Progress(Progress{Stage: "erase " + stage, Done: done})
		}); err != nil {
			return out, fmt.Errorf("compact: %w", err)
		}
	}
	out.Saved = out.Before - min(out.After, out.Before) + out.Objects
	return out, errors.Join(damaged...)
}

// pause waits until the time since begun is no more than a share of all, in percent.
func pause(ctx context.Context, e *env.Env, begun time.Time, share int) error {
	wait := e.Clock.Now().Sub(begun) * time.Duration(100-share) / time.Duration(share)
	if wait <= 0 {
		return ctx.Err()
	}
	select {
	case <-e.Clock.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// database compacts one database. One that is gone, or that another server leads, is passed over or only rewritten.
func (r *Compacted) database(ctx context.Context, c *Call, i layout.Info) error {
	err := c.Store.Maintain(ctx, i.ID)
	if err := except(err, store.ErrNotFound, store.ErrOutOfService, store.ErrNotHome); err != nil {
		return fmt.Errorf("compact %s: %w", i.Title, err)
	}
	before, after, err := c.Store.Compact(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("compact %s: %w", i.Title, err)
	}
	r.Databases++
	r.Before, r.After = r.Before+Size(before), r.After+Size(after)
	return nil
}

// objects removes messages and objects without references, and rewrites segments that hold few others.
func (r *Compacted) objects(ctx context.Context, c *Call) error {
	c.Progress(Progress{Stage: "objects"})
	for {
		n, err := c.Store.Sweep(ctx, 10_000)
		if err != nil {
			return fmt.Errorf("compact: sweep: %w", err)
		}
		if n == 0 {
			break
		}
	}
	n, err := c.Store.Rewrite(ctx)
	r.Objects = Size(max(n, 0))
	if err != nil {
		return fmt.Errorf("compact: segments: %w", err)
	}
	return nil
}
