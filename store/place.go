package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"doublet/env"
	"doublet/store/crypt"
	"doublet/store/layout"
)

// ErrRestoring means that a restore into the data folder was interrupted.
var ErrRestoring = errors.New("store: a restore into this data folder was interrupted: run doublet restore again")

// Names in a data folder other than those of the databases' files.
const (
	// RestoringName exists while a restore puts its files in place.
	RestoringName = "RESTORING"
	// madeName marks a data folder that has a store, wherever the store's parts are.
	madeName = "STORE"
)

// Places holds the folders of a store. Each may be on a device of its own.
type Places struct{ Data, Index, Segments, Log string }

// PlacesOf returns the folders of the store in dir. Log is the index folder unless the log has a folder of its own.
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

// disk knows the folders of the store: its own, the engine's, and that of the object segments.
type disk struct {
	*core
	dir string
}

// Places returns the folders of the store.
func (d *disk) Places() Places { return d.places() }

// OwnFile reports whether the store uses a name in the folders of the index and the segments.
func OwnFile(name string) bool {
	switch name {
	case "LOCK", "CURRENT", CheckpointName, salvageName, KeptName:
		return true
	}
	for _, p := range []string{"MANIFEST-", "OPTIONS-", "CURRENT.", "marker.", "temporary."} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	for _, s := range []string{".sst", ".blob", ".log", ".dbtmp", ".seg", ".seg.fetch", crypt.CopySuffix} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

func (d *disk) places() Places { return PlacesOf(d.env.FS, d.dir, d.opt) }

func (d *disk) indexDir() string { return d.places().Index }

func (d *disk) segmentsDir() string { return d.places().Segments }

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

func (d *disk) there(path string) (bool, error) {
	_, err := d.env.FS.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// restored refuses a data folder in which a restore was interrupted.
func (d *disk) restored() error {
	if d.opt.Restoring {
		return nil
	}
	halfway, err := d.there(d.env.FS.PathJoin(d.dir, RestoringName))
	if err == nil && halfway {
		err = ErrRestoring
	}
	return err
}

// ownIndex refuses to create a new store if the data folder has one. In that case the index was moved, or the setting
// of its folder was lost.
func (d *disk) ownIndex(isNew bool) error {
	if made, err := d.there(d.madePath()); err != nil || !made || !isNew {
		return err
	}
	return fmt.Errorf("%w: %s has a store, but its index is not in %s: see the setting data.index_dir", ErrDamaged,
		d.dir, d.indexDir())
}

func (d *disk) madePath() string { return d.env.FS.PathJoin(d.dir, madeName) }

// Made reports whether the data folder dir has a store, wherever the store's parts are.
func Made(fs env.FS, dir string) (bool, error) {
	_, err := fs.Stat(fs.PathJoin(dir, madeName))
	if isNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// own marks the data folder as having a store.
func (d *disk) own() error {
	path := d.madePath()
	if made, err := d.there(path); err != nil || made {
		return err
	}
	if err := writeAll(d.env.FS, path,
		[]byte("A store of doublet. Where its parts are, the settings say.\n")); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDirs(d.env.FS, d.dir)
}

// ownSegments refuses an index that references objects if the folder of the segments does not exist.
func (d *disk) ownSegments() error {
	ok, err := d.there(d.segmentsDir())
	if err != nil || ok {
		return err
	}
	none, err := d.empty(layout.Key(layout.SpaceObject))
	if err == nil && !none {
		err = fmt.Errorf("%w: the index names objects, but %s is not there: see the setting data.segments_dir",
			ErrDamaged, d.segmentsDir())
	}
	return err
}
