package object

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"doublet/env"
)

// TestCrash appends and syncs at random, and crashes at random so that any part of the unsynced data is lost. It then
// continues with what is left.
func TestCrash(t *testing.T) {
	t.Parallel()
	rng := seeded()
	for round := range 25 {
		fs := vfs.NewCrashableMem()
		synced := map[Digest]blob{}
		for range 4 {
			s := open(t, fs, Options{SegmentSize: 300 << 10})
			for range rng.IntN(12) {
				b := put(t, s, append(content(rng), byte(rng.Uint32())))
				var err error
				switch rng.IntN(4) {
				case 0:
					err = s.Sync(b.loc)
				case 1:
					err = s.Seal()
				default:
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				synced[b.d] = b
			}
			fs = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 30, 70}[rng.IntN(3)], RNG: rng})
		}
		s := open(t, fs, Options{})
		index := map[Digest]Location{}
		for _, g := range s.Segments() {
			for d, l := range scanAll(t, s, g.ID, ScanOptions{}) {
				index[d] = l
				if err := s.Verify(l, d); err != nil {
					t.Fatalf("round %d: scan gave a bad record: %v", round, err)
				}
			}
		}
		for d, b := range synced {
			check(t, s, b)
			if _, ok := index[d]; !ok {
				t.Fatalf("round %d: a durable record is missing from the scan", round)
			}
		}
		check(t, s, put(t, s, []byte("afterwards")))
	}
}

// TestScanMakesDurable checks that records in a rebuilt index survive the next power cut, even if before the scan the
// process ended and no caller had waited for the device.
func TestScanMakesDurable(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	b := put(t, open(t, fs, Options{}), []byte("never synced"))
	s := open(t, fs, Options{}) // the process ended, the system did not
	if got := scanAll(t, s, b.loc.Segment, ScanOptions{}); got[b.d] != b.loc {
		t.Fatalf("scan: %v", got)
	}
	check(t, open(t, fs.CrashClone(vfs.CrashCloneCfg{}), Options{}), b)
}

func TestEveryFlippedByte(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	rng := seeded()
	s := open(t, fs, Options{})
	blobs := []blob{
		put(t, s, noise(rng, 300)), put(t, s, text(rng, 2000)), put(t, s, nil),
		put(t, s, noise(rng, 90)), put(t, s, text(rng, 900)),
	}
	_ = s.Close()
	data, err := fs.UnsafeGetFileDataBuffer("objects/000000000001.seg")
	if err != nil {
		t.Fatal(err)
	}
	s = open(t, fs, Options{})
	for at := range data {
		for _, mask := range []byte{1, 0xff} {
			data[at] ^= mask
			reported := 0
			o := ScanOptions{Damaged: func(r DamagedRange) {
				reported++
				if int64(at) < r.From || int64(at) >= r.To {
					t.Fatalf("byte %d flipped, reported %+v", at, r)
				}
			}}
			found := scanAll(t, s, 1, o)
			for i, b := range blobs {
				hit := int64(at) >= int64(b.loc.Offset) && int64(at) < b.loc.End()
				got, err := s.Read(b.loc, b.d, nil)
				if hit && !errors.Is(err, ErrDamaged) {
					t.Fatalf("byte %d: blob %d is damaged, read says %v", at, i, err)
				}
				if !hit && (err != nil || !bytes.Equal(got, b.content)) {
					t.Fatalf("byte %d: blob %d is whole, read says %v", at, i, err)
				}
				if l, ok := found[b.d]; ok == hit || (ok && l != b.loc) {
					t.Fatalf("byte %d: blob %d: scan found %v at %+v", at, i, ok, l)
				}
			}
			if reported != 1 {
				t.Fatalf("byte %d: %d ranges reported", at, reported)
			}
			data[at] ^= mask
		}
	}
}

func TestMissingAndShortFile(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{})
	b := put(t, s, noise(seeded(), 50<<10))
	_ = s.Close()
	data, _ := fs.UnsafeGetFileDataBuffer("objects/000000000001.seg")
	for _, cut := range []int{len(data) - 1, len(data) - 40<<10, segmentHeader + 20} {
		short := vfs.NewMem()
		_ = short.MkdirAll("objects", 0o700)
		f, _ := short.Create("objects/000000000001.seg", "x")
		_, _ = f.Write(bytes.Clone(data[:cut]))
		_ = f.Close()
		s := open(t, short, Options{})
		if _, err := s.Read(b.loc, b.d, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", cut, err)
		}
		tail := false
		if got := scanAll(t, s, 1, ScanOptions{Damaged: func(r DamagedRange) { tail = r.Tail }}); len(got) != 0 ||
			!tail {
			t.Errorf("cut at %d: scan gives %v, tail %v", cut, got, tail)
		}
	}
	s = open(t, fs, Options{})
	_ = fs.Remove("objects/000000000001.seg")
	if _, err := s.Read(b.loc, b.d, nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("file missing: %v", err)
	}
	if err := s.Scan(1, ScanOptions{}, nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("scan of a missing file: %v", err)
	}
	if names, _ := fs.List("objects"); len(names) != 0 {
		t.Errorf("a scan made files: %v", names)
	}
}

// forge returns a record of segment 1 that claims digest d for other content.
func forge(d Digest, body []byte) []byte {
	r := make([]byte, headLen(uint32(len(body))))
	putEntry(r[recordHeader:], entry{stored: uint32(len(body)), raw: true, sum: sum(body)})
	h := header{size: uint32(len(body)), stored: uint32(len(r) + len(body)), digest: d, table: sum(r[recordHeader:])}
	h.put(r, 1)
	return append(r, body...)
}

func TestForgedRecordIsNotFound(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	s := open(t, fs, Options{NoCompression: true})
	victim := Sum([]byte("the contract"))
	evil := put(t, s, append(forge(victim, []byte("another contract")), forge(victim, make([]byte, 5000))[:200]...))
	after := put(t, s, []byte("innocent"))
	_ = s.Close()
	data, _ := fs.UnsafeGetFileDataBuffer("objects/000000000001.seg")
	data[evil.loc.Offset+20] ^= 1
	s = open(t, fs, Options{})
	for _, c := range []Check{CheckSums, CheckHeaders, CheckDigests} {
		got := scanAll(t, s, 1, ScanOptions{Check: c})
		if _, ok := got[victim]; ok || len(got) != 1 || got[after.d] != after.loc {
			t.Errorf("check %d: scan gives %v", c, got)
		}
	}
}

// faultFS fails writes after a number of bytes, half written. It fails flushes on request.
type faultFS struct {
	env.FS
	mu    sync.Mutex
	room  int // bytes left; below 0: no limit
	syncs atomic.Bool
}

func (f *faultFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (env.File, error) {
	file, err := f.FS.OpenReadWrite(name, c, o...)
	if err != nil {
		return nil, err
	}
	return &faultFile{file, f}, nil
}

type faultFile struct {
	env.File
	fs *faultFS
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	n := len(p)
	if f.fs.room >= 0 {
		n = min(n, f.fs.room)
		f.fs.room -= n
	}
	f.fs.mu.Unlock()
	if _, err := f.File.WriteAt(p[:n], off); err != nil || n == len(p) {
		return n, err
	}
	return n, syscall.ENOSPC
}

func (f *faultFile) SyncData() error {
	if f.fs.syncs.Load() {
		return syscall.EIO
	}
	return f.File.SyncData()
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	rng := seeded()
	mem := vfs.NewMem()
	fs := &faultFS{FS: mem, room: -1}
	s := open(t, fs, Options{SegmentSize: 400 << 10})
	var good []blob
	for range 60 {
		fs.mu.Lock()
		fs.room = rng.IntN(120 << 10)
		fs.mu.Unlock()
		for {
			c := append(content(rng), byte(len(good)))
			d := Sum(c)
			loc, err := s.Append(d, c)
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			good = append(good, blob{d, loc, c})
		}
	}
	fs.room = -1
	good = append(good, put(t, s, []byte("there is room again")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, mem, Options{})
	index := map[Digest]Location{}
	for _, g := range s.Segments() {
		for d, l := range scanAll(t, s, g.ID, ScanOptions{}) {
			index[d] = l
		}
	}
	for _, b := range good {
		check(t, s, b)
		if _, ok := index[b.d]; !ok {
			t.Fatal("a record is missing from the scan")
		}
	}
	if len(index) > len(good) {
		t.Errorf("scan found %d records of %d", len(index), len(good))
	}
}

func TestFlushErrorIsFinal(t *testing.T) {
	t.Parallel()
	fs := &faultFS{FS: vfs.NewMem(), room: -1}
	s := open(t, fs, Options{})
	first := put(t, s, []byte("durable"))
	if err := s.Sync(first.loc); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	fs.syncs.Store(true)
	var late []blob
	for i := range 8 {
		late = append(late, put(t, s, []byte{byte(i)}))
	}
	for _, b := range late {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := s.Sync(b.loc); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
				t.Errorf("sync: %v", err)
			}
			if _, err := s.Append(b.d, b.content); !errors.Is(err, ErrFailed) {
				t.Errorf("append after a failed flush: %v", err)
			}
		}()
	}
	wg.Wait()
	fs.syncs.Store(false)
	if err := s.SyncAll(); !errors.Is(err, ErrFailed) {
		t.Errorf("the failure was forgotten: %v", err)
	}
	if err := s.Sync(first.loc); err != nil {
		t.Errorf("what was durable before: %v", err)
	}
	check(t, s, first)
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Errorf("close: %v", err)
	}
}

func TestSyncOfWhatWasNeverAppended(t *testing.T) {
	t.Parallel()
	s := open(t, vfs.NewMem(), Options{})
	b := put(t, s, []byte("x"))
	b.loc.Offset += 100
	if err := s.Sync(b.loc); err == nil {
		t.Error("accepted")
	}
}

// FuzzScan scans arbitrary bytes. Every record that it reports must match its digest.
func FuzzScan(f *testing.F) {
	f.Add([]byte("x"))
	f.Add(forge(Sum([]byte("abc")), []byte("abc")))
	f.Add(append([]byte("junk"), forge(Sum([]byte("abc")), []byte("abd"))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := vfs.NewMem()
		_ = fs.MkdirAll("objects", 0o700)
		file, _ := fs.Create("objects/000000000001.seg", "x")
		_, _ = file.Write(append(bytes.Repeat([]byte{0}, segmentHeader), b...))
		_ = file.Close()
		s := open(t, fs, Options{})
		if len(s.Segments()) == 0 {
			return
		}
		for d, l := range scanAll(t, s, 1, ScanOptions{Check: CheckDigests}) {
			got, err := s.Read(l, d, nil)
			if err != nil || Sum(got) != d {
				t.Fatalf("scan gave %+v: %v", l, err)
			}
		}
	})
}

func benchAppend(b *testing.B, c []byte) {
	e := testEnv(vfs.Default)
	s, err := Open(e, b.TempDir(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(c)))
	b.SetParallelism(32)
	b.ReportAllocs()
	var seed atomic.Uint64
	b.RunParallel(func(pb *testing.PB) {
		rng := rand.New(rand.NewPCG(5, seed.Add(1)))
		for pb.Next() {
			var d Digest
			d[0] = byte(rng.Uint32())
			loc, err := s.Append(d, c)
			if err == nil {
				err = s.Sync(loc)
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
	st := s.Stats()
	b.ReportMetric(float64(st.Appends)/float64(st.Syncs), "appends/sync")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkAppendSyncNoise64K(b *testing.B) { benchAppend(b, noise(seeded(), 64<<10)) }
func BenchmarkAppendSyncText64K(b *testing.B)  { benchAppend(b, text(seeded(), 64<<10)) }

func BenchmarkRead64K(b *testing.B) {
	for name, c := range map[string][]byte{"noise": noise(seeded(), 64<<10), "text": text(seeded(), 64<<10)} {
		b.Run(name, func(b *testing.B) {
			s, err := Open(testEnv(vfs.Default), b.TempDir(), Options{})
			if err != nil {
				b.Fatal(err)
			}
			x := put(b, s, c)
			b.SetBytes(int64(len(c)))
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				if buf, err = s.Read(x.loc, x.d, buf[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
