package crypt

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// MarkName is the file of the data folder that lists the keys which its files may need. A start without one of them is
// refused before anything is opened.
const MarkName = "ENCRYPTION"

const markHead = "# Files of this data folder may be encrypted with these keys (doublet encryption). Do not remove.\n"

// mark knows the keys that files may need: their ids, and Plain for files that are not encrypted. A key is in the file
// before the first file is encrypted with it.
type mark struct {
	dir string
	mu  sync.Mutex
	// may is nil if the file does not exist.
	may map[string]bool
	// written means that the file has what may has.
	written bool
}

// readMark reads the mark of a data folder. It returns nil if there is none.
func readMark(files vfs.FS, dir string) (map[string]bool, error) {
	f, err := files.Open(files.PathJoin(dir, MarkName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("encryption: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("encryption: %w", err)
	}
	may := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			may[line] = true
		}
	}
	return may, nil
}

// add records durably that a file may have a name's key.
func (m *mark) add(files vfs.FS, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written && m.may[name] {
		return nil
	}
	next := maps.Clone(m.may)
	if next == nil {
		next = map[string]bool{}
	}
	next[name] = true
	return m.write(files, next)
}

// set records durably that files have these keys alone.
func (m *mark) set(files vfs.FS, next map[string]bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.written && maps.Equal(m.may, next) {
		return nil
	}
	return m.write(files, next)
}

// only reports whether all files have one key.
func (m *mark) only(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.written && len(m.may) == 1 && m.may[name]
}

func (m *mark) write(files vfs.FS, next map[string]bool) error {
	var b bytes.Buffer
	b.WriteString(markHead)
	for _, name := range slices.Sorted(maps.Keys(next)) {
		b.WriteString(name + "\n")
	}
	if err := files.MkdirAll(m.dir, 0o700); err != nil {
		return fmt.Errorf("encryption: %w", err)
	}
	if err := writeFile(files, files.PathJoin(m.dir, MarkName), b.Bytes()); err != nil {
		return fmt.Errorf("encryption: %w", err)
	}
	m.may, m.written = next, true
	return nil
}

// writeFile replaces a file atomically and durably.
func writeFile(files vfs.FS, path string, content []byte) error {
	to, err := files.Create(path+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = to.Write(content)
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	if err := files.Rename(path+".new", path); err != nil {
		return err
	}
	return syncDir(files, files.PathDir(path))
}

func syncDir(files vfs.FS, dir string) error {
	d, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openMark reads the mark, and fails with ErrNoKey if a file needs a key that is missing.
func (f *FS) openMark() error {
	f.mark.dir = f.o.Dir
	may, err := readMark(f.FS, f.o.Dir)
	if err != nil {
		return err
	}
	f.mark.may, f.mark.written = may, may != nil
	if may != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(may)), f.lacks) {
		return nil
	}
	uses, err := census(f.FS, &f.keys, f.o.Folders)
	if err != nil {
		return err
	}
	for _, u := range uses {
		if f.lacks(u.Key) {
			return fmt.Errorf("%w %s: %s needs it, and %s does not have it", ErrNoKey, u.Key, u.Example, f.o.KeyFile)
		}
	}
	f.mark.may, f.mark.written = keysOf(uses), false
	return nil
}

// lacks reports whether a name is that of a key that the key file does not have.
func (f *FS) lacks(name string) bool {
	has := func(k *Key) bool { return k.id.String() == name }
	return name != Plain && name != Damaged && !slices.ContainsFunc(f.keys.list, has)
}

// CheckPlain returns ErrNoKey if a data folder has encrypted files, for a server without a key file.
func CheckPlain(files vfs.FS, dir string) error {
	may, err := readMark(files, dir)
	delete(may, Plain)
	if err != nil || len(may) == 0 {
		return err
	}
	return fmt.Errorf("%w %s: files of %s are encrypted: see the setting data.encryption_key_file", ErrNoKey,
		strings.Join(slices.Sorted(maps.Keys(may)), ", "), dir)
}

// Use is the share of files with one key.
type Use struct {
	// Key is the id of the key, Plain or Damaged.
	Key   string
	Files int
	// Bytes is the content of the files.
	Bytes int64
	// Example is the path of one of the files.
	Example string
}

func keysOf(uses []Use) map[string]bool {
	may := map[string]bool{}
	for _, u := range uses {
		may[u.Key] = true
	}
	delete(may, Damaged)
	return may
}

// census counts the files in folders, and the folders in them, by their keys, in ascending order of keys.
func census(files vfs.FS, keys *Keys, folders []string) ([]Use, error) {
	by := map[string]*Use{}
	err := walk(files, folders, func(path string, size int64) error {
		name, size, err := keyOf(files, keys, path, size)
		if name == "" || err != nil {
			return err
		}
		if by[name] == nil {
			by[name] = &Use{Key: name, Example: path}
		}
		by[name].Files++
		by[name].Bytes += size
		return nil
	})
	var out []Use
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[name])
	}
	return out, err
}

// keyOf returns the id of a file's key, Plain or Damaged, and the size of its content. name is empty if the file has no
// content or does not exist any more.
func keyOf(files vfs.FS, keys *Keys, path string, size int64) (name string, content int64, err error) {
	in, _, err := env.OpenRegular(files, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	s, torn, err := readHeader(in, size, keys)
	err = errors.Join(err, in.Close())
	missing := (*noKey)(nil)
	switch {
	case errors.As(err, &missing):
		return missing.id.String(), size - HeaderSize, nil
	case errors.Is(err, ErrHeader):
		return Damaged, size - HeaderSize, nil
	case err != nil:
		return "", 0, fmt.Errorf("%s: %w", path, err)
	case torn:
		return "", 0, nil
	case s != nil:
		return s.id.String(), size - HeaderSize, nil
	}
	return Plain, size, nil
}

// walk calls fn with the files in folders, and in the folders in them, that are not empty. It does not open lock files,
// which are empty, because closing one would release its lock.
func walk(files vfs.FS, folders []string, fn func(path string, size int64) error) error {
	seen := map[string]bool{}
	var visit func(dir string) error
	visit = func(dir string) error {
		if seen[dir] {
			return nil
		}
		seen[dir] = true
		names, err := files.List(dir)
		if err != nil {
			return except(err, fs.ErrNotExist)
		}
		slices.Sort(names)
		for _, name := range names {
			path := filepath.Join(dir, name)
			info, err := files.Stat(path)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				return err
			case info.IsDir():
				err = visit(path)
			case info.Mode().IsRegular() && info.Size() > 0:
				err = fn(path, info.Size())
			}
			if err = except(err, fs.ErrNotExist); err != nil {
				return err
			}
		}
		return nil
	}
	for _, dir := range folders {
		if err := visit(filepath.Clean(dir)); err != nil {
			return fmt.Errorf("encryption: %w", err)
		}
	}
	return nil
}

func except(err, allowed error) error {
	if errors.Is(err, allowed) {
		return nil
	}
	return err
}
