package crypt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doublet/env"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// CopySuffix ends the name of a copy that will replace a file.
const CopySuffix = ".rekey"

// copyOf returns the path of a copy that will replace a file. The store ignores its name, and so does the engine, which
// reads all names that begin with "marker.".
func copyOf(path string) string {
	return filepath.Join(filepath.Dir(path), "rekey."+filepath.Base(path)+CopySuffix)
}

// Status describes the encryption of a data folder.
type Status struct {
	// Active is the id of the key of new files, or Plain.
	Active string
	// Keys are the ids in the key file, the newest first.
	Keys []string
	Uses []Use
}

// present returns the keys. Their list is never modified.
func (f *FS) present() Keys {
	f.names.RLock()
	defer f.names.RUnlock()
	return f.keys
}

// Status reads the headers of all files.
func (f *FS) Status() (s Status, err error) {
	keys := f.present()
	s.Active = keys.activeName()
	for _, k := range keys.list {
		s.Keys = append(s.Keys, k.id.String())
	}
	s.Uses, err = census(f.FS, &keys, f.o.Folders)
	return s, err
}

// Rotate makes a new key, writes it to the key file before the others, and encrypts new files with it from now on. It
// returns the id of the key. Older files keep their keys until Rewrite.
func (f *FS) Rotate() (ID, error) {
	f.rotating.Lock()
	defer f.rotating.Unlock()
	text, have, err := readKeyFile(f.FS, f.o.KeyFile)
	if err != nil {
		return ID{}, err
	}
	for _, k := range f.present().list {
		if have.find(k.id) == nil {
			return ID{}, fmt.Errorf("%s lacks key %s, which this server has: put it back, or restart the server",
				f.o.KeyFile, k.id)
		}
	}
	line, err := NewKey(f.env)
	if err != nil {
		return ID{}, err
	}
	// A leading "plain" would come behind the new key, where it is not allowed.
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(string(text))), func(l string) bool {
		return strings.TrimSpace(l) == Plain
	})
	next := []byte(line + strings.Join(lines, ""))
	keys, err := ParseKeys(next)
	if err != nil {
		return ID{}, err
	}
	if err := writeFile(f.FS, f.o.KeyFile, next); err != nil {
		return ID{}, fmt.Errorf("rotate: write the key file: %w", err)
	}
	// The mark is written here, so that a full disk fails this call and not the engine.
	if err := f.mark.add(f.FS, keys.activeName()); err != nil {
		return ID{}, err
	}
	keys.version = f.present().version + 1
	f.names.Lock()
	defer f.names.Unlock()
	f.keys = keys
	return keys.list[0].id, nil
}

// ErrRewriting means that files are being encrypted anew already.
var ErrRewriting = errors.New("files are being encrypted anew already")

// Pass is the result of Rewrite.
type Pass struct {
	// Files and Bytes count what was rewritten, Wrapped the files that are being written and whose key was wrapped
	// again.
	Files, Wrapped int
	Bytes          int64
	// Left is the number of files that could not be rewritten, because they cannot be read, or are being written and
	// must be decrypted.
	Left int
}

// Rewrite encrypts every file that has not the present key with it, or decrypts it if new files are not encrypted, at
// the rate of the options. Readers and writers go on meanwhile. A file that is being written keeps its contents and its
// key; the present server key wraps its key from then on. If ctx ends, Rewrite stops; what it has done stays done.
// A file that cannot be rewritten does not stop the others; the error joins all failures. progress may be nil; it is
// called with the bytes done so far. Rewrite fails with ErrRewriting if another one runs.
func (f *FS) Rewrite(ctx context.Context, progress func(done int64)) (p Pass, err error) {
	if !f.rewriting.TryLock() {
		return p, ErrRewriting
	}
	defer f.rewriting.Unlock()
	keys := f.present()
	if f.mark.only(keys.activeName()) {
		f.count.left.Store(0)
		return p, nil
	}
	c := &copying{f: f, ctx: ctx, begun: f.env.Clock.Now(), progress: progress}
	var failed error
	err = walk(f.FS, f.o.Folders, func(path string, size int64) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := c.renew(path, size, &p)
		if err == nil || ctx.Err() != nil || env.IsNoSpace(err) || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		failed = errors.Join(failed, err)
		p.Left++
		return nil
	})
	p.Bytes = c.done
	if err != nil {
		return p, errors.Join(failed, err)
	}
	return p, errors.Join(failed, f.settle())
}

// settle counts the files after a pass, and records the keys that they need.
func (f *FS) settle() error {
	keys := f.present()
	active := keys.activeName()
	uses, err := census(f.FS, &keys, f.o.Folders)
	if err != nil {
		return err
	}
	var left int64
	for _, u := range uses {
		if u.Key != active {
			left += u.Bytes
		}
	}
	f.count.left.Store(left)
	may := keysOf(uses)
	may[active] = true
	f.names.RLock()
	defer f.names.RUnlock()
	if f.keys.version != keys.version {
		return nil // the count lacks files with the newest key
	}
	return f.mark.set(f.FS, may)
}

// copying is one pass of Rewrite.
type copying struct {
	f        *FS
	ctx      context.Context
	begun    time.Time
	done     int64
	progress func(int64)
}

// renew encrypts one file with the present key.
func (c *copying) renew(path string, size int64, p *Pass) error {
	f, keys := c.f, c.f.present()
	if strings.HasSuffix(path, CopySuffix) { // of a pass that was interrupted
		return f.FS.Remove(path)
	}
	name, _, err := keyOf(f.FS, &keys, path, size)
	if err != nil || name == "" || name == keys.activeName() || f.transient(path) {
		return err
	}
	if name == Damaged {
		p.Left++
		return nil
	}
	if !f.claim(path) {
		wrapped, err := f.wrap(path)
		if wrapped {
			p.Wrapped++
		} else if err == nil {
			p.Left++
		}
		return err
	}
	if err := f.room(path, size); err != nil {
		return err
	}
	if err := c.copy(path); err != nil {
		return errors.Join(fmt.Errorf("encrypt %s: %w", path, err),
			except(f.FS.Remove(copyOf(path)), fs.ErrNotExist))
	}
	done, err := f.replace(path)
	if done {
		p.Files++
	}
	return err
}

// leastRoom is the free space, in bytes, that a pass of Rewrite leaves to the engine.
const leastRoom = 1 << 30

// room returns env.ErrNoSpace if a copy of a file would leave less than leastRoom free.
func (f *FS) room(path string, size int64) error {
	u, err := f.FS.GetDiskUsage(filepath.Dir(path))
	if err == nil && u.AvailBytes < leastRoom+uint64(size) {
		return fmt.Errorf("encrypt %s: %w: %d bytes are free", path, env.ErrNoSpace, u.AvailBytes)
	}
	return nil // some file systems report no usage
}

// transient reports whether a file is in a folder that is removed soon.
func (f *FS) transient(path string) bool {
	return slices.ContainsFunc(f.o.Transient, func(dir string) bool { return under(path, dir) })
}

// claim notes that a file is being copied. It returns false if the file is being written.
func (f *FS) claim(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.open[path]; n != nil && n.writers > 0 {
		return false
	}
	f.copied = path
	return true
}

// copy writes the content of a file, with a new key, to a copy beside it, durably.
func (c *copying) copy(path string) (err error) {
	f := c.f
	from, err := f.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := f.Create(copyOf(path), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	file := vfs.NewSyncingFile(to, vfs.SyncingFileOptions{BytesPerSync: 1 << 20})
	defer func() { err = errors.Join(err, file.Close()) }()
	buf := make([]byte, chunkSize)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := file.Write(buf[:n]); err != nil {
				return err
			}
			c.done += int64(n)
			f.count.rewritten.Add(uint64(n))
			if err := c.pause(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return file.Sync()
		}
		if err != nil {
			return err
		}
	}
}

// pause reports progress and keeps to the rate.
func (c *copying) pause() error {
	if c.progress != nil {
		c.progress(c.done)
	}
	if c.f.o.Rate <= 0 {
		return c.ctx.Err()
	}
	due := c.begun.Add(time.Duration(float64(c.done) / float64(c.f.o.Rate) * float64(time.Second)))
	wait := due.Sub(c.f.env.Clock.Now())
	if wait <= 0 {
		return c.ctx.Err()
	}
	select {
	case <-c.f.env.Clock.After(wait):
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// replace puts the copy in the place of a file, also for those that have the file open. done is false if the file was
// removed, replaced or opened for writing meanwhile.
func (f *FS) replace(path string) (done bool, err error) {
	f.names.Lock()
	defer f.names.Unlock()
	f.mu.Lock()
	same := f.copied == path
	f.copied = ""
	n := f.open[path]
	var readers []*file
	if n != nil {
		same = same && n.writers == 0
		readers = slices.Collect(maps.Keys(n.handles))
	}
	f.mu.Unlock()
	if !same {
		return false, except(f.FS.Remove(copyOf(path)), fs.ErrNotExist)
	}
	if err := f.FS.Rename(copyOf(path), path); err != nil {
		return false, err
	}
	if err := syncDir(f.FS, filepath.Dir(path)); err != nil {
		return true, err
	}
	for _, h := range readers {
		if err := h.reopen(path); err != nil {
			return true, err // its reader keeps the old file, which has the same content
		}
	}
	return true, nil
}

// reopen makes a handle read the file that has replaced its own.
func (h *file) reopen(path string) error {
	in, err := h.fs.FS.Open(path, h.how...)
	if err != nil {
		return err
	}
	s, torn, err := h.fs.read(in, path)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return in.Close()
	}
	old := h.inner
	h.inner, h.s, h.torn = in, s, torn
	return old.Close()
}

// wrap wraps the key of a file that is being written with the present server key. The two copies of the header are
// written one after another, so that one is whole after a crash.
func (f *FS) wrap(path string) (done bool, err error) {
	f.names.Lock()
	defer f.names.Unlock()
	k := f.keys.active()
	if _, err := f.FS.Stat(path); err != nil { // else OpenReadWrite would make it again
		return false, err
	}
	in, err := f.FS.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	s, _, err := f.read(in, path)
	if err != nil || s == nil || k == nil {
		return false, err
	}
	header := s.header(f.env, k)
	for _, at := range []int64{secondCopy, 0} {
		if _, err := in.WriteAt(header[at:][:copySize], at); err != nil {
			return false, err
		}
		if err := in.Sync(); err != nil {
			return false, err
		}
	}
	return true, nil
}
