package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// keepRemoved is the time during which a removed database can be restored.
const keepRemoved = 30 * 24 * time.Hour

// keepEntries is the time during which a removed calendar entry or contact can be restored.
const keepEntries = 30 * 24 * time.Hour

// Purged is the result of Purge.
type Purged struct {
	People    int  `json:"people_and_groups"`
	Databases int  `json:"databases"`
	Journals  int  `json:"journals,omitempty"`
	Entries   int  `json:"calendar_entries_and_contacts"`
	Messages  int  `json:"deleted_messages"`
	Objects   int  `json:"objects_and_messages"`
	Rewritten Size `json:"rewritten"`

	// kept and keptBytes are the deleted messages that stay, for the statistics Mail.KeptDeleted.
	kept      int
	keptBytes uint64
}

// keepUploads is the time for which a blob uploaded over JMAP is kept without a message that uses it.
const keepUploads = 24 * time.Hour

// Text returns the result as text for people.
func (r Purged) Text() string {
	if r.kept, r.keptBytes = 0, 0; r == (Purged{}) {
		return "there was nothing to take away\n"
	}
	return fmt.Sprintf("took away %d removed people and groups, %d databases, %d journals, %d calendar entries and "+
		"contacts, %d deleted messages, %d objects and message texts; %s rewritten\n",
		r.People, r.Databases, r.Journals, r.Entries, r.Messages, r.Objects, r.Rewritten)
}

// purgeMailFile deletes old folders, uploads, deleted messages, and removed entries of calendars and address books.
// policies are the retention policies that are on: messages that they keep stay.
func (s *System) purgeMailFile(ctx context.Context, i *layout.Info, policies []directory.RetentionPolicy,
	out *Purged) error {
	db := i.ID
	if _, err := s.Mailbox.PurgeDeleted(ctx, db); err != nil {
		return err
	}
	if _, err := s.Mailbox.PurgeUploads(ctx, db, keepUploads); err != nil {
		return err
	}
	keep, err := keeping(ctx, s, i, policies)
	if err != nil {
		return err
	}
	n, err := s.Mailbox.PurgeRecoverable(ctx, db, keep)
	out.Messages += n
	if err != nil {
		return err
	}
	n, size, err := s.Mailbox.KeptDeleted(ctx, db)
	out.kept += n
	out.keptBytes += size
	if err != nil {
		return err
	}
	n, err = s.Groupware.Purge(ctx, db, s.Env.Clock.Now().Add(-keepEntries))
	out.Entries += n
	return err
}

// except returns err, or nil if it is one of these.
func except(err error, these ...error) error {
	if slices.ContainsFunc(these, func(e error) bool { return errors.Is(err, e) }) {
		return nil
	}
	return err
}

// Purge deletes removed people and databases that can no longer be restored, messages that were deleted longer ago than
// they are kept, folders whose deletion a crash interrupted, old expunges and stubs, unreferenced messages and objects,
// and the part of the feed that every reader has passed. Each step may be repeated. A step that fails does not stop the
// others.
func (s *System) Purge(ctx context.Context) (Purged, error) {
	var out Purged
	var errs []error
	step := func(name string, err error) bool {
		if err != nil {
			errs = append(errs, fmt.Errorf("purge: %s: %w", name, err))
		}
		return err == nil && ctx.Err() == nil
	}
	repeat := func(name string, some func() (int, error)) (total int) {
		for {
			n, err := some()
			total += n
			if !step(name, err) || n == 0 {
				return total
			}
		}
	}
	out.People = repeat("removed people", func() (int, error) { return s.Directory.Removals.Purge(ctx, note.System) })
	var err error
	out.Databases, err = PurgeDatabases(s.Store, s.Env.Clock.Now(), keepRemoved)
	step("removed databases", err)
	out.Journals, err = s.expireJournals(ctx)
	step("journals", err)
	policies, err := policiesOn(ctx, s, false)
	listed := step("retention policies", err) // without them, kept messages would be purged
	all, err := s.Store.Databases()
	step("databases", err)
	for _, i := range all {
		if ctx.Err() != nil {
			break
		}
		if i.Kind == mailbox.Kind && i.State == layout.InService && listed {
			err := s.purgeMailFile(ctx, &i, policies, &out)
			step("folders of database "+i.ID.String(), except(err, store.ErrNotHome)) // its home does this
		}
		err := s.Store.Maintain(ctx, i.ID)
		step("database "+i.ID.String(), except(err, store.ErrNotFound, store.ErrOutOfService, store.ErrNotHome))
	}
	if ctx.Err() == nil {
		s.Stats.Gauge("Mail.KeptDeleted.Messages",
			"deleted messages that can be restored, when Purge last ran").Set(int64(out.kept))
		s.Stats.Gauge("Mail.KeptDeleted.Bytes",
			"bytes of deleted messages that can be restored, when Purge last ran").Set(int64(out.keptBytes))
	}
	out.Objects = repeat("objects", func() (int, error) { return s.Store.Sweep(ctx, 10_000) })
	step("feed", s.Store.Trim())
	if ctx.Err() == nil {
		n, err := s.Store.Rewrite(ctx)
		out.Rewritten = Size(max(n, 0))
		step("segments", err)
	}
	return out, errors.Join(errors.Join(errs...), ctx.Err())
}
