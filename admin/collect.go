package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// keepRemoved is how long a removed database can be brought back.
const keepRemoved = 30 * 24 * time.Hour

// Collected says what a Collect took away.
type Collected struct {
	People    int  `json:"people_and_groups"`
	Databases int  `json:"databases"`
	Objects   int  `json:"objects_and_messages"`
	Rewritten Size `json:"rewritten"`
}

// keepUploads is how long a blob that was uploaded over JMAP waits for a message that uses it.
const keepUploads = 24 * time.Hour

// Text is the report for people.
func (r Collected) Text() string {
	if r == (Collected{}) {
		return "there was nothing to take away\n"
	}
	return fmt.Sprintf("took away %d removed people and groups, %d databases, %d objects and messages; %s rewritten\n",
		r.People, r.Databases, r.Objects, r.Rewritten)
}

// Collect takes away what nobody needs any more: removed people and databases whose time to be
// brought back is over, folders whose deletion a crash interrupted, old expunges and stubs, unreferenced messages and objects, the feed behind
// its slowest reader. Each step is harmless when repeated; one that fails does not stop the others.
func (s *System) Collect(ctx context.Context) (Collected, error) {
	var out Collected
	var errs []error
	step := func(name string, err error) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("collect: %s: %w", name, err))
		}
		return err == nil && ctx.Err() == nil
	}
	for {
		n, err := s.Directory.Removals.Purge(ctx, note.System)
		out.People += n
		if !step("removed people", err) || n == 0 {
			break
		}
	}
	var err error
	out.Databases, err = PurgeDatabases(s.Store, s.Env.Clock.Now(), keepRemoved)
	step("removed databases", err)
	all, err := s.Store.Databases()
	step("databases", err)
	for _, i := range all {
		if ctx.Err() != nil {
			break
		}
		if i.Kind == mailbox.Kind && i.State == layout.InService {
			_, err := s.Mailbox.PurgeDeleted(ctx, i.ID)
			if err == nil {
				_, err = s.Mailbox.PurgeUploads(ctx, i.ID, keepUploads)
			}
			if !errors.Is(err, store.ErrNotHome) { // its home does it
				step("folders of database "+i.ID.String(), err)
			}
		}
		if err := s.Store.Maintain(ctx, i.ID); !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrOutOfService) && !errors.Is(err, store.ErrNotHome) {
			step("database "+i.ID.String(), err)
		}
	}
	for {
		n, err := s.Store.Sweep(ctx, 10_000)
		out.Objects += n
		if !step("objects", err) || n == 0 {
			break
		}
	}
	step("feed", s.Store.Trim())
	if ctx.Err() == nil {
		n, err := s.Store.Rewrite(ctx)
		out.Rewritten = Size(max(n, 0))
		step("segments", err)
	}
	return out, errors.Join(errors.Join(errs...), ctx.Err())
}
