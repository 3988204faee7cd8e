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
func (m MailFiles) MakeMailFile(ctx context.Context, f directory.MailFile) error {
	_, err := m.Store.CreateDatabase(note.System, store.Create{
		ID: f.ID, Title: f.Title, Kind: mailbox.Kind, Owner: f.Owner, Quota: f.Quota, Warning: f.Warning,
		ACL: note.ACL{Default: note.NoAccess}.With(note.Entry{ID: f.Owner, Level: note.Manager}),
	})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("make mail file: %w", err)
	}
	return m.Store.Update(ctx, note.System, []note.DatabaseID{f.ID}, func(tx *store.Tx) error {
		w, err := tx.Database(f.ID)
		if err != nil {
			return err
		}
		return mailbox.CreateStandard(w, f.Owner)
	})
}

// RemoveMailFile implements directory.MailFiles.
func (m MailFiles) RemoveMailFile(_ context.Context, id note.DatabaseID) error {
	if err := m.Store.RemoveDatabase(note.System, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("remove mail file: %w", err)
	}
	return nil
}
