package store

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// space watches the free space of the devices. Below the floor the store accepts nothing that needs space; deleting
// still works. Pebble ends the process when it cannot write its log, so that must never happen. If free space falls
// below half of the floor, space deletes a ballast file, to leave room for compactions.
type space struct {
	disk *disk
	mu   sync.Mutex
	next time.Time
	low  atomic.Bool
	// ballast means that the ballast file is in place.
	ballast bool
	refused atomic.Int64
	// dirs holds the folders of the store. Each may be on a device of its own.
	dirs []string
}

// spaceEvery is the time between two checks of the free space.
const spaceEvery = time.Second

func (p *space) init(d *disk) {
	p.disk = d
	at := d.places()
	for _, dir := range []string{at.Data, at.Index, at.Segments, at.Log} {
		if !slices.Contains(p.dirs, dir) {
			p.dirs = append(p.dirs, dir)
		}
	}
	p.look()
}

// floorCounts bounds the bytes of a device of which the floor is a share. The floor is for memtables and compactions,
// which need no more on a large device than on a small one.
const floorCounts = 100 << 30

// FloorOf returns the free space, in bytes, that a device of total bytes has to keep.
func (c *core) FloorOf(total uint64) uint64 {
	return max(uint64(c.opt.FloorBytes), min(total, floorCounts)/100*uint64(c.opt.FloorPercent))
}

// admit returns ErrNoSpace while there is too little room.
func (p *space) admit() error {
	if !p.watched() {
		return nil
	}
	now := p.disk.env.Clock.Now()
	p.mu.Lock()
	due := now.After(p.next)
	if due {
		p.next = now.Add(spaceEvery)
	}
	p.mu.Unlock()
	if due {
		p.look()
	}
	if p.low.Load() {
		p.refused.Add(1)
		return ErrNoSpace
	}
	return nil
}

// watched reports whether there is a floor.
func (p *space) watched() bool { return p.disk.opt.FloorBytes > 0 || p.disk.opt.FloorPercent > 0 }

// free returns the bytes free and the floor, of the device that is nearer to its floor.
func (p *space) free() (avail, floor uint64, ok bool) {
	for _, dir := range p.dirs {
		u, err := p.disk.env.FS.GetDiskUsage(dir)
		if err != nil {
			continue // the folder may not exist yet, or the file system (in memory) reports no usage
		}
		f := p.disk.FloorOf(u.TotalBytes)
		if !ok || int64(u.AvailBytes-f) < int64(avail-floor) {
			avail, floor, ok = u.AvailBytes, f, true
		}
	}
	return avail, floor, ok
}

// forSegments reports whether n more bytes in the folder of the segments leave its device above the floor.
func (p *space) forSegments(n int64) bool {
	u, err := p.disk.env.FS.GetDiskUsage(p.disk.segmentsDir())
	return err != nil || u.AvailBytes >= p.disk.FloorOf(u.TotalBytes)+uint64(n)
}

// forRewrite reports whether the live bytes of a segment may be appended again. Those of a segment that was evicted, or
// is more than half live, have to fit above the floor. The file of any other gives back more than they take.
func (p *space) forRewrite(seg object.SegmentInfo, live int64) bool {
	return live == 0 || !seg.Away && live*2 < seg.Size || p.forSegments(live)
}

func (p *space) look() {
	if !p.watched() {
		return
	}
	avail, floor, ok := p.free()
	if !ok {
		return
	}
	low := avail < floor
	if was := p.low.Swap(low); was != low {
		p.disk.log.Warn("free space", "refusing_writes", low, "free_bytes", avail, "floor_bytes", floor)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case avail < floor/2:
		p.drop()
	case avail > floor+2*uint64(max(p.disk.opt.Ballast, 0)) && !p.ballast:
		if err := p.load(); err != nil {
			p.disk.log.Warn("ballast", "err", err)
		}
	}
}

func (p *space) path() string { return p.disk.env.FS.PathJoin(p.disk.dir, "ballast") }

func (p *space) drop() {
	if err := p.disk.env.FS.Remove(p.path()); err == nil {
		p.disk.log.Error("disk almost full: deleted the ballast file", "bytes", p.disk.opt.Ballast)
	}
	p.ballast = false
}

// load creates the ballast file, with real blocks and no holes.
func (p *space) load() error {
	if p.disk.opt.Ballast < 0 {
		return nil
	}
	if i, err := p.disk.env.FS.Stat(p.path()); err == nil && i.Size() == p.disk.opt.Ballast {
		p.ballast = true
		return nil
	}
	f, err := p.disk.env.FS.Create(p.path(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("store: ballast: %w", err)
	}
	if err := f.Preallocate(0, p.disk.opt.Ballast); err != nil {
		return closeWith(f, err)
	}
	_, err = io.Copy(onlyWriter{f}, io.LimitReader(zeros{}, p.disk.opt.Ballast))
	p.ballast = err == nil
	return closeWith(f, err)
}

type onlyWriter struct{ f env.File }

func (w onlyWriter) Write(b []byte) (int, error) { return w.f.Write(b) }

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func closeWith(f env.File, err error) error {
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// HasSpace reports whether there is room to add to the store. If not, such changes fail with ErrNoSpace.
func (s *Store) HasSpace() bool {
	if !s.space.watched() {
		return true
	}
	avail, floor, ok := s.space.free()
	return !ok || avail >= floor
}
