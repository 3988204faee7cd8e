package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"doublet/env"
	"doublet/store/layout"
)

// ErrRestoring says that a restore into the data folder was interrupted.
var ErrRestoring = errors.New("store: a restore into this data folder was interrupted: run doublet restore again")

// The names in a data folder beside those of databases' files.
const (
	// RestoringName is there while a restore puts its files in place.
	RestoringName = "RESTORING"
	// madeName says that the data folder has a store, wherever its parts are.
	madeName = "STORE"
)

// Places are the folders of a store, each of which may be on a device of its own.
type Places struct{ Data, Index, Segments, Log string }

// PlacesOf says where the parts of the store in dir are. Log is the index unless it has a folder of
// its own.
func PlacesOf(fs interface{ PathJoin(...string) string }, dir string, o Options) Places {
	p := Places{Data: dir, Index: o.IndexDir, Segments: o.SegmentsDir, Log: o.LogDir}
	if p.Index == "" {
		p.Index = fs.PathJoin(dir, "notes")
	}
	if p.Segments == "" {
		p.Segments = fs.PathJoin(dir, "objects")
	}
	if p.Log == "" {
		p.Log = p.Index
	}
	return p
}

// Places says where the parts of the store are.
func (s *Store) Places() Places { return s.places() }

// OwnFile says whether a name in the folders of the index and the segments is one that the store gives.
func OwnFile(name string) bool {
	switch name {
	case "LOCK", "CURRENT", checkpointName, salvageName:
		return true
	}
	for _, p := range []string{"MANIFEST-", "OPTIONS-", "CURRENT.", "marker.", "temporary."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	for _, s := range []string{".sst", ".blob", ".log", ".dbtmp", ".seg"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

func (s *Store) places() Places { return PlacesOf(s.env.FS, s.dir, s.opt) }

func (s *Store) indexDir() string { return s.places().Index }

func (s *Store) segmentsDir() string { return s.places().Segments }

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (s *Store) there(path string) (bool, error) {
	_, err := s.env.FS.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// restored refuses a data folder in which a restore was interrupted.
func (s *Store) restored() error {
	if s.opt.Restoring {
		return nil
	}
	halfway, err := s.there(s.env.FS.PathJoin(s.dir, RestoringName))
	if err == nil && halfway {
		err = ErrRestoring
	}
	return err
}

// ownIndex refuses to make a new store where the data folder has one: its index was moved, or the
// setting that says where it is was lost.
func (s *Store) ownIndex(isNew bool) error {
	if made, err := s.there(s.madePath()); err != nil || !made || !isNew {
		return err
	}
	return fmt.Errorf("%w: %s has a store, but its index is not in %s: see the setting data.index_dir", ErrDamaged, s.dir, s.indexDir())
}

func (s *Store) madePath() string { return s.env.FS.PathJoin(s.dir, madeName) }

// Made says whether the data folder dir has a store, wherever its parts are.
func Made(fs env.FS, dir string) (bool, error) {
	_, err := fs.Stat(fs.PathJoin(dir, madeName))
	if isNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// own notes that the data folder has a store.
func (s *Store) own() error {
	path := s.madePath()
	if made, err := s.there(path); err != nil || made {
		return err
	}
	if err := writeAll(s.env.FS, path, []byte("A store of doublet. Where its parts are, the settings say.\n")); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDirs(s.env.FS, s.dir)
}

// ownSegments refuses an index that names objects where their folder is not there at all.
func (s *Store) ownSegments() error {
	ok, err := s.there(s.segmentsDir())
	if err != nil || ok {
		return err
	}
	none, err := s.empty(layout.Key(layout.SpaceObject))
	if err == nil && !none {
		err = fmt.Errorf("%w: the index names objects, but %s is not there: see the setting data.segments_dir", ErrDamaged, s.segmentsDir())
	}
	return err
}
