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

// keepRemoved is the time during which a removed database can be restored.
const keepRemoved = 30 * 24 * time.Hour

// keepEntries is the time during which a removed calendar entry or contact can be restored.
const keepEntries = 30 * 24 * time.Hour

// Collected is the result of Collect.
type Collected struct {
	People    int  `json:"people_and_groups"`
	Databases int  `json:"databases"`
	Entries   int  `json:"calendar_entries_and_contacts"`
	Objects   int  `json:"objects_and_messages"`
	Rewritten Size `json:"rewritten"`
}

// keepUploads is the time for which a blob uploaded over JMAP is kept without a message that uses it.
const keepUploads = 24 * time.Hour

// Text returns the result as text for people.
func (r Collected) Text() string {
	if r == (Collected{}) {
		return "there was nothing to take away\n"
	}
	return fmt.Sprintf("took away %d removed people and groups, %d databases, %d calendar entries and "+
		"contacts, %d objects and messages; %s rewritten\n",
		r.People, r.Databases, r.Entries, r.Objects, r.Rewritten)
}

// Collect deletes removed people and databases that can no longer be restored, folders whose deletion a crash
// interrupted, old expunges and stubs, unreferenced messages and objects, and the part of the feed that every reader
// has passed. Each step may be repeated. A step that fails does not stop the others.
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
			if err == nil {
				var n int
				n, err = s.Groupware.Purge(ctx, i.ID, s.Env.Clock.Now().Add(-keepEntries))
				out.Entries += n
			}
			if !errors.Is(err, store.ErrNotHome) { // its home does this
				step("folders of database "+i.ID.String(), err)
			}
		}
		if err := s.Store.Maintain(ctx, i.ID); !errors.Is(err, store.ErrNotFound) &&
			!errors.Is(err, store.ErrOutOfService) && !errors.Is(err, store.ErrNotHome) {
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
