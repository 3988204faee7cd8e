package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// ErrLogGap means that a part of the transaction log no longer exists, or cannot be read.
var ErrLogGap = errors.New("store: the transaction log has a gap")

// LogPosition is a position in the transaction log: every record that begins before Offset in a file lies before it.
type LogPosition struct {
	File   uint64 `json:"file"`
	Offset int64  `json:"offset"`
}

// LogPart is a part of the transaction log. All of it is durable.
type LogPart struct {
	// Batches holds the encoded batches, in order. Apply of Replay takes them.
	Batches [][]byte
	// Last is the latest time of a batch in this part. It is zero if none has a time.
	Last time.Time
	// To is the end of the part. More means that the limit ended the part before the end of the log.
	To   LogPosition
	More bool
}

// KeptName is the folder, in the folder of the log, of files that the engine has no use for any more and that are not
// archived yet.
// It is where the engine's ArchiveCleaner moves files.
const KeptName = "archive"

// timeMark begins the log data that holds the time of a batch: nanoseconds since 1970, 8 bytes.
const timeMark = 't'

// transactionLog reads the engine's log for an archive. With Options.KeepLog a file of the log stays until Archived,
// and so does a segment.
type transactionLog struct {
	*core
	*disk

	mu sync.Mutex
	// shipped is the position in the object segments before which everything is archived.
	shipped SegmentPosition
}

// SegmentPosition is a position in the object segments. They are written one after another.
type SegmentPosition struct {
	Segment uint64 `json:"segment"`
	Offset  int64  `json:"offset"`
}

// keepingFS is the file system of an engine whose log is archived. The engine's ArchiveCleaner moves every file that it
// has no use for any more to the folder KeptName. Of these only the log stays, up to bound bytes.
type keepingFS struct {
	vfs.FS
	bound int64
}

// Unwrap implements vfs.FS.
func (k keepingFS) Unwrap() vfs.FS { return k.FS }

// Rename implements vfs.FS.
func (k keepingFS) Rename(from, to string) error {
	if _, _, ok := wal.ParseLogFilename(k.PathBase(to)); !ok && k.PathBase(k.PathDir(to)) == KeptName {
		return k.Remove(from)
	}
	if k.PathBase(k.PathDir(to)) != KeptName {
		return k.FS.Rename(from, to)
	}
	// The new name is durable before the old one goes. A crash leaves both, and the next start repeats this.
	if err := k.Link(from, to); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(k.FS, k.PathDir(to)); err != nil {
		return err
	}
	return errors.Join(k.Remove(from), k.bounded(k.PathDir(to)))
}

// bounded removes the oldest files of the log beyond the bound. The archive finds that they are missing.
func (k keepingFS) bounded(dir string) error {
	files, total, err := keptLog(k.FS, dir)
	for ; err == nil && total > k.bound && len(files) > 0; files = files[1:] {
		err = k.Remove(k.PathJoin(dir, files[0].name))
		total -= files[0].size
	}
	return err
}

// keptFile is a file of the log that the engine has no use for any more.
type keptFile struct {
	name   string
	number wal.NumWAL
	size   int64
}

// keptLog lists the kept files of the log in ascending order, and their bytes.
func keptLog(files vfs.FS, dir string) (out []keptFile, total int64, err error) {
	names, err := files.List(dir)
	if err != nil && !isNotExist(err) {
		return nil, 0, fmt.Errorf("store: list the kept log: %w", err)
	}
	for _, name := range names {
		n, _, ok := wal.ParseLogFilename(name)
		info, err := files.Stat(files.PathJoin(dir, name))
		if ok && err == nil { // else it was removed meanwhile
			out, total = append(out, keptFile{name, n, info.Size()}), total+info.Size()
		}
	}
	slices.SortFunc(out, func(a, b keptFile) int { return cmp.Compare(a.number, b.number) })
	return out, total, nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// prepareLog makes the files of the log durable before the engine reads them, so that what it recovers from them cannot
// be lost from them afterwards. Without KeepLog it removes the files that an earlier start kept.
func (s *Store) prepareLog() error {
	dir := s.places().Log
	kept := s.env.FS.PathJoin(dir, KeptName)
	if s.opt.KeepLog == 0 {
		return s.env.FS.RemoveAll(kept)
	}
	if err := s.env.FS.MkdirAll(kept, 0o700); err != nil {
		return err
	}
	if err := syncDirs(s.env.FS, dir); err != nil {
		return err
	}
	names, err := s.env.FS.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, _, ok := wal.ParseLogFilename(name); !ok {
			continue
		}
		f, err := s.env.FS.Open(s.env.FS.PathJoin(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// timed adds the present time to a batch that will be acknowledged, if the log is archived. The time is taken before
// the batch is in the log. So every batch before an acknowledged one in the log has a time before its acknowledgement.
func (c *core) timed(b *pebble.Batch) {
	if c.opt.KeepLog == 0 {
		return
	}
	v := binary.BigEndian.AppendUint64([]byte{timeMark}, uint64(c.env.Clock.Now().UnixNano()))
	_ = b.LogData(v, nil) // fails only in a batch that was committed already
}

// TimeOfBatch returns the time of an encoded batch, or the zero time if it has none.
func TimeOfBatch(b []byte) (time.Time, error) {
	if len(b) < batchrepr.HeaderLen {
		return time.Time{}, fmt.Errorf("%w: a batch of %d bytes", ErrDamaged, len(b))
	}
	r := batchrepr.Read(b)
	for len(r) > 0 {
		kind, key, _, ok, err := r.Next()
		if err != nil || !ok {
			return time.Time{}, fmt.Errorf("%w: batch: %w", ErrDamaged, errors.Join(err, errTorn(ok)))
		}
		if kind == pebble.InternalKeyKindLogData && len(key) == 9 && key[0] == timeMark {
			return time.Unix(0, int64(binary.BigEndian.Uint64(key[1:]))), nil
		}
	}
	return time.Time{}, nil
}

// MarkOfBatch returns the mark of a moment (Capture) that an encoded batch sets, or 0 if it sets none.
func MarkOfBatch(b []byte) (uint64, error) {
	if len(b) < batchrepr.HeaderLen {
		return 0, fmt.Errorf("%w: a batch of %d bytes", ErrDamaged, len(b))
	}
	for r := batchrepr.Read(b); len(r) > 0; {
		kind, key, v, ok, err := r.Next()
		if err != nil || !ok {
			return 0, fmt.Errorf("%w: batch: %w", ErrDamaged, errors.Join(err, errTorn(ok)))
		}
		if kind == pebble.InternalKeyKindSet && string(key) == string(layout.MetaKey(metaMark)) && len(v) == 8 {
			return binary.BigEndian.Uint64(v), nil
		}
	}
	return 0, nil
}

func errTorn(ok bool) error {
	if ok {
		return nil
	}
	return io.ErrUnexpectedEOF
}

// logs returns the files of the log in ascending order.
func (l *transactionLog) logs() (out []wal.LogicalLog, err error) {
	// A file may move from the first folder to the second between the two lists, never back.
	for _, dir := range []string{l.places().Log, l.keptDir()} {
		list, err := wal.Scan(wal.Dir{FS: l.env.FS, Dirname: dir})
		if err != nil && !isNotExist(err) {
			return nil, fmt.Errorf("store: list the log: %w", err)
		}
		for _, log := range list {
			out = slices.DeleteFunc(out, func(o wal.LogicalLog) bool { return o.Num == log.Num })
			out = append(out, log)
		}
	}
	slices.SortFunc(out, func(a, b wal.LogicalLog) int { return cmp.Compare(a.Num, b.Num) })
	return out, nil
}

func (l *transactionLog) keptDir() string { return l.env.FS.PathJoin(l.places().Log, KeptName) }

// NewestLog returns the start of the newest file of the log. Everything that is written from now on is after it.
func (l *transactionLog) NewestLog() (LogPosition, error) {
	list, err := l.logs()
	if err != nil || len(list) == 0 {
		return LogPosition{}, errors.Join(err, ErrLogGap)
	}
	return LogPosition{File: uint64(list[len(list)-1].Num)}, nil
}

// ReadLog returns the log after a position, about limit bytes of it at most. If the part has not More, it contains
// everything that was acknowledged before the call. It returns ErrLogGap if the log does not have the position.
func (l *transactionLog) ReadLog(from LogPosition, limit int) (p LogPart, err error) {
	if err := l.dbs.enter(); err != nil {
		return p, err
	}
	defer l.dbs.leave()
	// What was acknowledged early may be in memory only.
	if err := l.hz.wait(l.hz.taken()); err != nil {
		return p, err
	}
	list, err := l.logs()
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(list, func(log wal.LogicalLog) bool { return uint64(log.Num) == from.File })
	if i < 0 {
		return p, fmt.Errorf("%w: file %d does not exist", ErrLogGap, from.File)
	}
	p.To = from
	for ; i < len(list) && !p.More; i++ {
		if n := uint64(list[i].Num); n != p.To.File {
			p.To = LogPosition{File: n}
		}
		err := l.readLogFile(list[i], &p, &limit)
		if last := i == len(list)-1; err != nil && (!last || !errors.Is(err, ErrLogGap)) {
			return p, err // the newest file is written to: a record that is not whole yet is read next time
		}
	}
	if len(p.Batches) > 0 {
		// What was read may not be flushed yet.
		if err := l.eng.LogData(nil, pebble.Sync); err != nil {
			return p, l.die(err)
		}
	}
	return p, nil
}

// readLogFile reads a file of the log behind p.To. The file is read from its start, because an end that a crash left
// can be told from damage only with the positions in its records. It is about as large as a memtable. Records without
// changes are skipped.
func (l *transactionLog) readLogFile(log wal.LogicalLog, p *LogPart, limit *int) error {
	r := log.OpenForRead()
	defer func() { _ = r.Close() }()
	for {
		rec, at, err := r.NextRecord()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF):
			return nil // the end, also one that a crash left
		case isNotExist(err): // it moved after it was listed
			list, err := wal.Scan(wal.Dir{FS: l.env.FS, Dirname: l.keptDir()})
			moved, ok := list.Get(log.Num)
			if err != nil || !ok {
				return errors.Join(fmt.Errorf("%w: file %s does not exist", ErrLogGap, log.Num), err)
			}
			return l.readLogFile(moved, p, limit)
		case err != nil:
			return fmt.Errorf("%w: file %s: %w", ErrLogGap, log.Num, err)
		case at.Physical < p.To.Offset:
			continue
		case *limit <= 0:
			p.More = true
			return nil
		}
		b, err := io.ReadAll(rec)
		if err == nil {
			err = p.add(b)
		}
		if err != nil {
			return fmt.Errorf("%w: file %s: %w", ErrLogGap, log.Num, err)
		}
		p.To.Offset = at.Physical + 1
		*limit -= len(b)
	}
}

// add adds a batch.
func (p *LogPart) add(b []byte) error {
	t, err := TimeOfBatch(b)
	if t.After(p.Last) {
		p.Last = t
	}
	p.Batches = append(p.Batches, b)
	return err
}

// Archived permits the store to remove files of the log before a position, and segments that lie before another one.
func (l *transactionLog) Archived(log LogPosition, segments SegmentPosition) error {
	l.mu.Lock()
	l.shipped = segments
	l.mu.Unlock()
	files, _, err := keptLog(l.env.FS, l.keptDir())
	for _, f := range files {
		if uint64(f.number) >= log.File {
			break
		}
		if rm := l.env.FS.Remove(l.env.FS.PathJoin(l.keptDir(), f.name)); rm != nil && !isNotExist(rm) {
			err = errors.Join(err, fmt.Errorf("store: remove archived log: %w", rm))
		}
	}
	return err
}

// KeptLog returns the bytes of the log that stay only until Archived, and their bound.
func (l *transactionLog) KeptLog() (total, bound int64, err error) {
	_, total, err = keptLog(l.env.FS, l.keptDir())
	return total, l.opt.KeepLog, err
}

// LogBreaks counts the changes of the store that the log does not contain: ranges that were cut out. An archive of the
// log begins anew after each.
func (l *transactionLog) LogBreaks() (uint64, error) { return l.metaUint(metaBreaks) }

// awaited reports whether a segment has to stay for the archive: because not all of it is archived, or because it is
// the last one, whose number would be assigned again after a restart.
func (l *transactionLog) awaited(seg object.SegmentInfo) bool {
	if l.opt.KeepLog == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shipped.Segment < seg.ID || l.shipped.Segment == seg.ID && l.shipped.Offset < seg.Size {
		return true
	}
	list := l.obj.Durable()
	return len(list) == 0 || list[len(list)-1].ID <= seg.ID
}
