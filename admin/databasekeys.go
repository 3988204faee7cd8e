package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"doublet/mailbox"
	"doublet/store"
	"doublet/store/crypt"
	"doublet/store/layout"
)

// DatabaseEncrypt are the arguments of db encrypt.
type DatabaseEncrypt struct {
	Name string `json:"name" arg:"required" help:"id or title, or its owner's name"`
	Key  string `json:"key" file:"true" help:"key file, made with doublet encryption key"`
	Off  bool   `json:"off" help:"take its key from the database, and decrypt it"`
}

// DatabaseUnlock are the arguments of db unlock.
type DatabaseUnlock struct {
	Name string `json:"name" arg:"required" help:"id or title, or its owner's name"`
	Key  string `json:"key" file:"true" help:"key file; without it, the one that it was opened with last"`
}

func databaseKeys() []*Verb {
	return []*Verb{
		define("db encrypt", "give a mail file a key of its own, or another key file", databaseEncrypt, changes,
			machine, yields, long("FILE holds the key: doublet encryption key FILE makes one. The server opens the "+
				"mail file while it can read\nFILE, and locks it at a start without FILE. Without FILE nobody can "+
				"read the mail any more. What was there\nbefore is encrypted at once, while people go on working; "+
				"another run or the next start continues one\nthat is interrupted. "+
				"Old files still hold it in plain until doublet compact has run.")),
		define("db lock", "forget the key of a mail file, and take it out of service until db unlock", databaseLock,
			changes, machine),
		define("db unlock", "open a mail file that has a key of its own", databaseUnlock, changes, machine),
	}
}

// The states of the key of a database, in Database.Encryption.
const (
	keySealed  = "own key"
	keySealing = "own key; not all is encrypted yet"
	keyLeaving = "own key; being decrypted"
	keyLocked  = "own key, not given"
)

// databaseKeyOf describes the key of a database; all is empty if there is none.
func databaseKeyOf(c *Call, i *layout.Info) (state, file, id string) {
	if i.Key == nil {
		return "", "", ""
	}
	switch {
	case c.Store.Locked(i):
		state = keyLocked
	case i.Key.Leaving:
		state = keyLeaving
	case !i.Key.Settled:
		state = keySealing
	default:
		state = keySealed
	}
	if by, ok := crypt.WrappedBy(i.Key.Wrapped); ok {
		id = by.String()
	}
	return state, i.Key.File, id
}

func databaseEncrypt(ctx context.Context, c *Call, a *DatabaseEncrypt) (Database, error) {
	i, err := c.database(a.Name)
	if err != nil {
		return Database{}, err
	}
	switch {
	case i.Kind != mailbox.Kind:
		return Database{}, fmt.Errorf("%w: %s is no mail file: only mail files can have a key of their own", ErrUsage,
			i.Title)
	case a.Off == (a.Key != ""):
		return Database{}, fmt.Errorf("%w: give --key FILE, or --off", ErrUsage)
	case a.Off:
		err = c.Store.DropKey(i.ID)
	default:
		if err = absolute(a.Key); err == nil {
			err = c.Store.SetKey(i.ID, a.Key)
		}
	}
	if err == nil {
		err = c.Store.Settle(ctx, i.ID, func(notes uint64) {
			c.Progress(Progress{Stage: "notes", Done: notes, Text: i.Title})
		})
	}
	if err != nil {
		return Database{}, keyError(err)
	}
	return databaseShow(ctx, c, &Named{i.ID.String()})
}

// absolute returns an error for a path that depends on the folder that the server was started in.
func absolute(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%w: key file %s: give the whole path", ErrUsage, path)
	}
	return nil
}

// keyError makes the errors of keys such that the caller can act on.
func keyError(err error) error {
	for _, by := range []error{store.ErrNoKey, store.ErrLocked, crypt.ErrNoKey} {
		if errors.Is(err, by) {
			return fmt.Errorf("%w: %w", ErrUsage, err)
		}
	}
	return err
}

func databaseLock(ctx context.Context, c *Call, a *Named) (Database, error) {
	i, err := c.database(a.Name)
	if err == nil {
		err = c.Store.LockDatabase(i.ID)
	}
	if err != nil {
		return Database{}, keyError(err)
	}
	return databaseShow(ctx, c, &Named{i.ID.String()})
}

func databaseUnlock(ctx context.Context, c *Call, a *DatabaseUnlock) (Database, error) {
	i, err := c.database(a.Name)
	if err == nil && a.Key != "" {
		err = absolute(a.Key)
	}
	if err == nil {
		err = c.Store.UnlockDatabase(i.ID, a.Key)
	}
	if err != nil {
		return Database{}, keyError(err)
	}
	return databaseShow(ctx, c, &Named{i.ID.String()})
}
