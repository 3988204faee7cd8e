package env

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrInjected is the error of a fault that was set without an error.
var ErrInjected = errors.New("injected fault")

// ErrNoSpace is the error of a full device.
var ErrNoSpace error = syscall.ENOSPC

// IsNoSpace reports whether err was caused by a full device.
func IsNoSpace(err error) bool { return errors.Is(err, ErrNoSpace) || vfs.IsNoSpaceError(err) }

// Op is an operation of the file system that Faults counts and can make fail.
type Op uint8

// The operations. OpCreate covers every opening for writing (Create, OpenReadWrite, ReuseForWrite). OpWrite covers
// Write and WriteAt. OpSync covers Sync, SyncData, and a SyncTo that syncs everything.
const (
	OpCreate Op = iota
	OpOpen
	OpRead
	OpWrite
	OpSync
	OpRemove
	OpRename
	opCount
)

var opNames = [opCount]string{"create", "open", "read", "write", "sync", "remove", "rename"}

func (o Op) String() string {
	if o < opCount {
		return opNames[o]
	}
	return "unknown"
}

// Counts holds the numbers of operations and bytes that went through a Faults. Failed operations are counted too.
type Counts struct {
	Ops          [opCount]int64
	BytesWritten int64
}

// Of returns the number of operations of one kind.
func (c Counts) Of(op Op) int64 { return c.Ops[op] }

// Faults is a file system for tests. It can fail, it can limit the space, and it counts operations.
type Faults struct {
	FS

	mu     sync.Mutex
	counts Counts
	rules  []rule
	// space is the number of bytes by which files may still grow; negative means no limit.
	space int64
	total int64
	// links holds the names made by Link. Removing one frees no space; removing the other name does.
	links map[string]bool
}

type rule struct {
	op     Op
	left   int // operations that still succeed
	sticky bool
	match  func(name string) bool
	err    error
}

// WithFaults wraps fs.
func WithFaults(fs FS) *Faults { return &Faults{FS: fs, space: -1, links: map[string]bool{}} }

// FailNth makes the n-th operation of that kind from now on fail once with err. The next one is n = 1. A nil err stands
// for ErrInjected.
func (f *Faults) FailNth(op Op, n int, err error) { f.add(rule{op: op, left: n - 1, err: err}) }

// FailFrom makes every operation from the n-th on fail, until Heal.
func (f *Faults) FailFrom(op Op, n int, err error) {
	f.add(rule{op: op, left: n - 1, sticky: true, err: err})
}

// FailFiles makes every operation of that kind fail on files whose name match accepts, until Heal.
func (f *Faults) FailFiles(op Op, match func(name string) bool, err error) {
	f.add(rule{op: op, sticky: true, match: match, err: err})
}

func (f *Faults) add(r rule) {
	if r.err == nil {
		r.err = ErrInjected
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// Heal removes every fault. The limit of space stays.
func (f *Faults) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// SetSpace sets the number of free bytes; a negative number removes the limit. Growing a file takes space, and removing
// or replacing it frees the space. A write that does not fit entirely is written in part and fails with ErrNoSpace.
func (f *Faults) SetSpace(free int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.space = free
	f.total = max(f.total, free)
}

// Counts returns the counts so far.
func (f *Faults) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// hit counts the operation, and returns the error with which it must fail, if any.
func (f *Faults) hit(op Op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Ops[op]++
	for i := range f.rules {
		r := &f.rules[i]
		if r.op != op || r.match != nil && !r.match(name) {
			continue
		}
		if r.left > 0 {
			r.left--
			continue
		}
		err := &os.PathError{Op: op.String(), Path: name, Err: r.err}
		if !r.sticky {
			f.rules = append(f.rules[:i], f.rules[i+1:]...)
		}
		return err
	}
	return nil
}

// take reserves up to n bytes of space and returns the number of bytes reserved.
func (f *Faults) take(n int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.space < 0 || n <= 0 {
		return n
	}
	n = min(n, f.space)
	f.space -= n
	return n
}

func (f *Faults) give(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.space >= 0 {
		f.space += n
	}
}

func (f *Faults) wrote(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.BytesWritten += int64(n)
}

func (f *Faults) sizeOf(name string) int64 {
	if info, err := f.FS.Stat(name); err == nil && !info.IsDir() {
		return info.Size()
	}
	return 0
}

// Unwrap implements FS.
func (f *Faults) Unwrap() FS { return f.FS }

// GetDiskUsage implements FS. If the space is limited, it returns what is left.
func (f *Faults) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	f.mu.Lock()
	free, total := f.space, f.total
	f.mu.Unlock()
	if free < 0 {
		return f.FS.GetDiskUsage(path)
	}
	total = max(total, free)
	return vfs.DiskUsage{AvailBytes: uint64(free), TotalBytes: uint64(total), UsedBytes: uint64(total - free)}, nil
}

func (f *Faults) wrap(file File, name string, err error) (File, error) {
	if err != nil {
		return nil, err
	}
	w := &faultFile{File: file, fs: f, name: name}
	if info, err := file.Stat(); err == nil && !info.IsDir() {
		w.size = info.Size()
	}
	return w, nil
}

// Create implements FS.
func (f *Faults) Create(name string, c vfs.DiskWriteCategory) (File, error) {
	if err := f.hit(OpCreate, name); err != nil {
		return nil, err
	}
	old := f.sizeOf(name)
	file, err := f.FS.Create(name, c)
	if err == nil {
		f.give(old)
	}
	return f.wrap(file, name, err)
}

// OpenReadWrite implements FS.
func (f *Faults) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (File, error) {
	if err := f.hit(OpCreate, name); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenReadWrite(name, c, o...)
	return f.wrap(file, name, err)
}

// ReuseForWrite implements FS.
func (f *Faults) ReuseForWrite(old, new string, c vfs.DiskWriteCategory) (File, error) {
	if err := f.hit(OpCreate, new); err != nil {
		return nil, err
	}
	file, err := f.FS.ReuseForWrite(old, new, c)
	return f.wrap(file, new, err)
}

// Open implements FS.
func (f *Faults) Open(name string, o ...vfs.OpenOption) (File, error) {
	if err := f.hit(OpOpen, name); err != nil {
		return nil, err
	}
	file, err := f.FS.Open(name, o...)
	return f.wrap(file, name, err)
}

// OpenDir implements FS.
func (f *Faults) OpenDir(name string) (File, error) {
	if err := f.hit(OpOpen, name); err != nil {
		return nil, err
	}
	file, err := f.FS.OpenDir(name)
	return f.wrap(file, name, err)
}

// Remove implements FS.
func (f *Faults) Remove(name string) error {
	if err := f.hit(OpRemove, name); err != nil {
		return err
	}
	size := f.sizeOf(name)
	err := f.FS.Remove(name)
	if err == nil && !f.unlink(name) {
		f.give(size)
	}
	return err
}

// Link implements FS.
func (f *Faults) Link(old, new string) error {
	err := f.FS.Link(old, new)
	if err == nil {
		f.mu.Lock()
		f.links[new] = true
		f.mu.Unlock()
	}
	return err
}

func (f *Faults) unlink(name string) (wasLink bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wasLink = f.links[name]
	delete(f.links, name)
	return wasLink
}

// RemoveAll implements FS.
func (f *Faults) RemoveAll(name string) error {
	if err := f.hit(OpRemove, name); err != nil {
		return err
	}
	size := f.treeSize(name)
	err := f.FS.RemoveAll(name)
	if err == nil {
		f.give(size)
	}
	return err
}

func (f *Faults) treeSize(name string) int64 {
	info, err := f.FS.Stat(name)
	if err != nil {
		return 0
	}
	if !info.IsDir() {
		return info.Size()
	}
	children, err := f.FS.List(name)
	if err != nil {
		return 0
	}
	var n int64
	for _, c := range children {
		n += f.treeSize(f.FS.PathJoin(name, c))
	}
	return n
}

// Rename implements FS.
func (f *Faults) Rename(old, new string) error {
	if err := f.hit(OpRename, old); err != nil {
		return err
	}
	replaced := f.sizeOf(new)
	err := f.FS.Rename(old, new)
	if err == nil {
		f.give(replaced)
	}
	return err
}

// faultFile tracks its write position and size, to know which writes make the file longer. Writes of one file are
// sequential (see vfs.File).
type faultFile struct {
	File
	fs        *Faults
	name      string
	pos, size int64
}

func (f *faultFile) Read(p []byte) (int, error) {
	if err := f.fs.hit(OpRead, f.name); err != nil {
		return 0, err
	}
	n, err := f.File.Read(p)
	f.pos += int64(n)
	return n, err
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.fs.hit(OpRead, f.name); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *faultFile) Write(p []byte) (int, error) {
	n, err := f.write(p, f.pos, f.File.Write)
	f.pos += int64(n)
	return n, err
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	return f.write(p, off, func(p []byte) (int, error) { return f.File.WriteAt(p, off) })
}

func (f *faultFile) write(p []byte, at int64, to func([]byte) (int, error)) (int, error) {
	if err := f.fs.hit(OpWrite, f.name); err != nil {
		return 0, err
	}
	grow := max(0, at+int64(len(p))-f.size)
	missing := grow - f.fs.take(grow)
	fits := max(0, int64(len(p))-missing)
	n, err := 0, error(nil)
	if fits > 0 || len(p) == 0 {
		n, err = to(p[:fits])
	}
	// Return the reserved space that was not used.
	used := max(0, at+int64(n)-f.size)
	if n > 0 {
		f.size = max(f.size, at+int64(n))
	} else {
		used = 0
	}
	f.fs.give(grow - missing - used)
	f.fs.wrote(n)
	if err == nil && missing > 0 {
		err = &fs.PathError{Op: "write", Path: f.name, Err: ErrNoSpace}
	}
	return n, err
}

func (f *faultFile) Sync() error {
	if err := f.fs.hit(OpSync, f.name); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultFile) SyncData() error {
	if err := f.fs.hit(OpSync, f.name); err != nil {
		return err
	}
	return f.File.SyncData()
}

func (f *faultFile) SyncTo(length int64) (bool, error) {
	whole, err := f.File.SyncTo(length)
	if whole {
		if err := f.fs.hit(OpSync, f.name); err != nil {
			return false, err
		}
	}
	return whole, err
}
