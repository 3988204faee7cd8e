package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store/crypt"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrNoKey means that a database has no key of its own.
var ErrNoKey = errors.New("store: the database has no key of its own")

// errHeld means that no key can change, because the store is being repaired.
var errHeld = fmt.Errorf("%w: the store is being repaired, try again later", ErrOutOfService)

// keying is held while a database gets, loses or changes its key.
type keying struct {
	mu   sync.Mutex
	held atomic.Bool // see HoldKeys
	// turns counts how often each database began to be sealed, or unsealed, since the store was opened.
	turns map[note.DatabaseID]uint64
	// settled counts how often a database was encrypted since the store was opened.
	settled uint64
}

func (k *keying) turn(id note.DatabaseID) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.turns[id]
}

// turned counts a turn. The caller has begun a change.
func (k *keying) turned(id note.DatabaseID) {
	if k.turns == nil {
		k.turns = map[note.DatabaseID]uint64{}
	}
	k.turns[id]++
}

// begin begins a change of keys. The caller calls end.
func (k *keying) begin() error {
	k.mu.Lock()
	if !k.held.Load() {
		return nil
	}
	k.mu.Unlock()
	return errHeld
}

func (k *keying) end() { k.mu.Unlock() }

// HoldKeys keeps every database from getting, losing or changing its key until release is called: a repair would take
// rows that cannot be opened any more for damaged ones, and write descriptions with the keys of before. It fails if a
// repair holds them already.
func (cat *catalog) HoldKeys() (release func(), err error) {
	if err := cat.keying.begin(); err != nil {
		return nil, err
	}
	defer cat.keying.end()
	cat.keying.held.Store(true)
	return func() { cat.keying.held.Store(false) }, nil
}

// KeysHeld reports whether a repair holds the keys.
func (cat *catalog) KeysHeld() bool { return cat.keying.held.Load() }

// madeFor returns what binds the wrapped key of a database to it.
func madeFor(id note.DatabaseID) []byte {
	return binary.BigEndian.AppendUint64([]byte("doublet database key"), uint64(id))
}

// keyFiles returns the file system that has the key files.
func (cat *catalog) keyFiles() vfs.FS {
	if cat.opt.KeyFiles != nil {
		return cat.opt.KeyFiles
	}
	return cat.env.FS
}

// SetKey makes a key for a database, wrapped with the first key of a key file. From then on what is written is sealed;
// Settle seals the rest. A database that has a key keeps it, and only the wrapping changes.
func (cat *catalog) SetKey(id note.DatabaseID, file string) error {
	if err := cat.keying.begin(); err != nil {
		return err
	}
	defer cat.keying.end()
	info, err := cat.Info(id)
	if err != nil {
		return err
	}
	given, err := crypt.ReadKeyFile(cat.keyFiles(), file)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	k := cat.keys.of(id)
	switch {
	case info.Key != nil && k == nil:
		return ErrLocked
	case info.Key == nil:
		secret := make([]byte, secretSize)
		cat.env.Fill(secret)
		if k, err = newSealKey(id, secret); err != nil {
			return err
		}
	}
	sealing := info.Key != nil && !info.Key.Leaving
	next := &layout.DatabaseKey{File: file, Settled: sealing && info.Key.Settled}
	if next.Wrapped, err = given.Wrap(cat.env, k.secret, madeFor(id)); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := cat.raiseFormat(layout.FormatVersion); err != nil {
		return err
	}
	if !sealing {
		cat.keying.turned(id)
	}
	cat.keys.put(id, k)
	if err = cat.replaceKey(id, next); err != nil && info.Key == nil {
		cat.keys.put(id, nil)
	}
	return err
}

func (cat *catalog) replaceKey(id note.DatabaseID, k *layout.DatabaseKey) error {
	return cat.SetInfo(note.System, id, func(i *layout.Info) { i.Key = k })
}

// DropKey begins to take its key from a database. What is written is not sealed any more; Settle does the rest.
func (cat *catalog) DropKey(id note.DatabaseID) error {
	if err := cat.keying.begin(); err != nil {
		return err
	}
	defer cat.keying.end()
	info, err := cat.keyed(id)
	if err != nil {
		return err
	}
	if cat.keys.of(id) == nil {
		return ErrLocked
	}
	if !info.Key.Leaving {
		cat.keying.turned(id)
	}
	next := *info.Key
	next.Leaving, next.Settled = true, false
	return cat.replaceKey(id, &next)
}

// keyed returns the description of a database that has a key.
func (cat *catalog) keyed(id note.DatabaseID) (layout.Info, error) {
	info, err := cat.Info(id)
	if err == nil && info.Key == nil {
		err = ErrNoKey
	}
	return info, err
}

// Locked reports whether the key of a database is needed and not given.
func (cat *catalog) Locked(i *layout.Info) bool { return i.Key != nil && cat.keys.of(i.ID) == nil }

// LockDatabase forgets the key of a database and takes it out of service. Messages that are open stay readable until
// they are closed.
func (cat *catalog) LockDatabase(id note.DatabaseID) error {
	if err := cat.keying.begin(); err != nil {
		return err
	}
	defer cat.keying.end()
	if _, err := cat.keyed(id); err != nil {
		return err
	}
	err := cat.SetInfo(note.System, id, (*layout.Info).MarkLocked)
	if err == nil {
		cat.keys.put(id, nil)
	}
	return err
}

// UnlockDatabase opens a database with a key file; without one, with the file that it was opened with last.
func (cat *catalog) UnlockDatabase(id note.DatabaseID, file string) error {
	if err := cat.keying.begin(); err != nil {
		return err
	}
	defer cat.keying.end()
	info, err := cat.keyed(id)
	if err != nil {
		return err
	}
	if file == "" {
		file = info.Key.File
	}
	k, err := cat.readKey(&info, file)
	if err != nil {
		return err
	}
	cat.keys.put(id, k)
	return cat.SetInfo(note.System, id, func(i *layout.Info) {
		next := *i.Key
		next.File, i.Key = file, &next
		i.MarkUnlocked()
	})
}

func (cat *catalog) readKey(i *layout.Info, file string) (*sealKey, error) {
	given, err := crypt.ReadKeyFile(cat.keyFiles(), file)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	secret, err := given.Unwrap(i.Key.Wrapped, madeFor(i.ID))
	if err != nil {
		return nil, fmt.Errorf("store: key file %s: %w", file, err)
	}
	return newSealKey(i.ID, secret)
}

// openKeys opens the databases with keys of their own whose key files are there. It takes the others out of service.
func (s *Store) openKeys() error {
	var list []*layout.Info
	if err := s.Infos(func(i *layout.Info) {
		if i.Key != nil {
			list = append(list, i)
		}
	}); err != nil {
		return err
	}
	for _, i := range list {
		k, err := s.readKey(i, i.Key.File)
		was := *i
		if err != nil {
			s.log.Warn("database is locked", "database", i.ID.String(), "title", i.Title, "err", err)
			i.MarkLocked()
		} else {
			s.keys.put(i.ID, k)
			i.MarkUnlocked()
		}
		if i.State == was.State {
			continue
		}
		change := (*layout.Info).MarkUnlocked
		if err != nil {
			change = (*layout.Info).MarkLocked
		}
		if err := s.SetInfo(note.System, i.ID, change); err != nil {
			if failed := s.alive(); failed != nil {
				return failed
			}
			// A database that cannot be opened does not serve, and check repairs it.
			s.log.Error("the state of a database with a key of its own stays", "database", i.ID.String(), "err", err)
		}
	}
	return nil
}
