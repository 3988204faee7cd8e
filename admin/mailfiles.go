package admin

import (
	"context"
	"errors"
	"fmt"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// MailFiles creates people's mail files under the ids that the directory assigned.
type MailFiles struct {
	Store *store.Store
	// Directory holds the quotas of people. A person who is just being added is not in it yet: the caller then sets the
	// quota of the file.
	Directory *directory.Directory
	// Mates are the other servers of a cluster; nil outside a cluster.
	Mates interface{ Elsewhere(note.DatabaseID) bool }
}

// Elsewhere implements directory.MailFiles.
func (m MailFiles) Elsewhere(id note.DatabaseID) bool {
	if _, err := m.Store.Info(id); !errors.Is(err, store.ErrNotFound) {
		return false
	}
	return m.Mates != nil && m.Mates.Elsewhere(id)
}

// MakeMailFile implements directory.MailFiles. It completes a file that a crash left incomplete.
func (m MailFiles) MakeMailFile(ctx context.Context, id note.DatabaseID, owner note.UNID, title string) error {
	var quota, warning uint64
	if m.Directory != nil {
		switch p, err := m.Directory.Names.Person(ctx, owner); {
		case err == nil:
			quota, warning = p.Quota, p.Warning
		case !errors.Is(err, directory.ErrNotFound):
			return fmt.Errorf("make mail file: %w", err)
		}
	}
	_, err := m.Store.CreateDatabase(note.System, store.Create{
		ID: id, Title: title, Kind: mailbox.Kind, Owner: owner, Quota: quota, Warning: warning,
		ACL: note.ACL{Default: note.NoAccess}.With(note.Entry{ID: owner, Level: note.Manager}),
	})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("make mail file: %w", err)
	}
	return m.Store.Update(ctx, note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
		w, err := tx.Database(id)
		if err != nil {
			return err
		}
		for _, f := range mailbox.Standard {
			if _, err := w.FolderNamed(f.Name); err == nil {
				continue
			}
			folder, err := w.CreateFolder(f.Name, f.SpecialUse)
			if err == nil {
				err = w.Subscribe(folder, owner, true)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// RemoveMailFile implements directory.MailFiles.
func (m MailFiles) RemoveMailFile(_ context.Context, id note.DatabaseID) error {
	if err := m.Store.RemoveDatabase(note.System, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("remove mail file: %w", err)
	}
	return nil
}
