// Package search is the full-text search over the databases of a server: headers, bodies and attachments of mail, and
// names in the directory. doc/search.md describes what can be found and how.
//
// The index lies beside the store. It follows the store's feed in the background, so mail never waits for it. Answers
// are exact nevertheless: where the index cannot decide, the search reads the texts.
package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/search/index"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// Consumer is the name of the index's cursor in the store. The store keeps the feed from that cursor on.
const Consumer = "search"

// Options are the settings of the search. Zero values mean the defaults.
type Options struct {
	// Dir is the folder that holds the index.
	Dir string
	// CacheSize, MemTableSize and DocsSize are memory limits of the index, in bytes; see index.Options.
	CacheSize, MemTableSize, DocsSize int64
	// Limits bounds the text that is read from a message.
	Limits text.Limits
	// NoAttachments disables reading the text of attachments that are slow to read (see text.Document.Later).
	NoAttachments bool
	// Share and RebuildShare limit the time that the index uses, in percent of one processor: Share for following the
	// feed (default 50), RebuildShare for reading older notes (default 25).
	Share, RebuildShare int
	// Tail is the number of the newest notes of a database that are left to the queries, which read their texts. When
	// there are more, they are indexed together. The default is 128.
	Tail int
	// Kinds maps the kinds of databases that are indexed to a function that makes the texts of notes without a message.
	// The function is nil if only messages are indexed.
	Kinds map[string]func(*note.Content) []text.Stretch
	// Parts returns the index of parts from a message's summary. If it is nil, messages are read whole.
	Parts func(summary []byte) (mime.Index, bool)
	Stats Stats
}

func (o *Options) fill() {
	if o.Share <= 0 || o.Share > 100 {
		o.Share = 50
	}
	if o.RebuildShare <= 0 || o.RebuildShare > 100 {
		o.RebuildShare = 25
	}
	if o.Tail <= 0 {
		o.Tail = 128
	}
}

// Service is the full-text search of a server.
type Service struct {
	env   *env.Env
	store *store.Store
	opt   Options
	log   *slog.Logger
	stat  counters

	idx atomic.Pointer[index.Index]
	// rebuilds lists the databases to rebuild; 0 stands for all.
	mu       sync.Mutex
	rebuilds []note.DatabaseID
	// changed lists databases that were created, removed or changed as a whole. changedAll is set if there were too
	// many to list.
	changed    []note.DatabaseID
	changedAll bool
	// asked holds the databases whose newest notes a query had to read.
	asked map[note.DatabaseID]bool
	kick  chan struct{}
	// pending is the number of databases that the worker is to read on, and of errands that it has begun.
	pending atomic.Int64
	// off is the number of databases whose full text is switched off, as of the last look of the worker.
	off atomic.Int64

	// passed is closed and replaced after each step of the workers.
	passed  chan struct{}
	lag     lagging
	extract chan struct{} // limits how many queries read attachments at the same time
	helpers chan struct{} // limits how many goroutines help queries, see Each
	bad     chan error    // the reason why the current index is to be discarded
}

// New returns the search service of a store. Nothing is indexed before Run.
func New(s *store.Store, e *env.Env, o Options) *Service {
	o.fill()
	svc := &Service{
		env: e, store: s, opt: o, log: e.Log, kick: make(chan struct{}, 1), passed: make(chan struct{}),
		extract: make(chan struct{}, 2), helpers: make(chan struct{}, min(runtime.GOMAXPROCS(0)-1, helpersMax)),
		asked: map[note.DatabaseID]bool{},
		bad:   make(chan error, 1),
	}
	if svc.log == nil {
		svc.log = slog.New(slog.DiscardHandler)
	}
	svc.stat.init(svc, o.Stats)
	s.WatchInfos(svc.changedInfo)
	return svc
}

// indexes reports whether a database is indexed, and returns the function that makes the texts of its notes, if its
// kind has one.
func (s *Service) indexes(i *layout.Info) (texts, bool) {
	kind, ok := s.opt.Kinds[i.Kind]
	return kind, ok && i.Indexed()
}

// index returns the index that answers queries, or nil if there is none.
func (s *Service) index() *index.Index {
	if s == nil {
		return nil
	}
	return s.idx.Load()
}

// guard runs fn, which uses the index, such that a dead index does not block the caller.
func (s *Service) guard(ctx context.Context, x *index.Index, fn func(context.Context) error) error {
	var err error
	if e := x.Guard(ctx, func(ctx context.Context) { err = fn(ctx) }); e != nil {
		return e
	}
	return err
}

// lease lends a reader to a function that Guard may leave behind when the engine has failed.
type lease struct {
	// mu is held by the function, except in calls into the index, which may block forever.
	mu    sync.Mutex
	ended bool // the reader is no longer lent
}

// errEnded ends a function whose reader is no longer lent.
var errEnded = errors.New("search: the index has failed, and the search goes on without it")

// index calls fn, which uses the index and not the reader. It returns an error if the reader is no longer lent
// afterwards: the caller must return without using it.
func (l *lease) index(fn func() error) (err error) {
	l.mu.Unlock()
	defer func() {
		if l.mu.Lock(); l.ended {
			err = errors.Join(err, errEnded)
		}
	}()
	return fn()
}

// end returns when the function does not use the reader, and will not use it again.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// lend is guard for a function that uses a reader of the caller: it does not return before the function has stopped to
// use it. fn calls the index through the lease, and must not change variables of the caller unless it holds the lease.
func (s *Service) lend(ctx context.Context, x *index.Index, fn func(context.Context, *lease) error) error {
	var l lease
	err := s.guard(ctx, x, func(ctx context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended {
			return errEnded
		}
		return fn(ctx, &l)
	})
	if err != nil {
		l.end()
	}
	return err
}

// failed records that the index could not answer. If the index is damaged, failed makes Run discard it.
func (s *Service) failed(x *index.Index, err error) {
	if errors.Is(err, index.ErrClosed) {
		return
	}
	s.stat.failed.Inc()
	s.log.Error("search: index does not respond", "err", err)
	if errors.Is(err, index.ErrDamaged) && s.idx.CompareAndSwap(x, nil) {
		select {
		case s.bad <- err:
		default:
		}
	}
}

// wake makes Run look for work.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Limits returns the limits for reading texts. Those of a nil Service are the defaults.
func (s *Service) Limits() text.Limits {
	if s == nil {
		return text.Limits{}
	}
	return s.opt.Limits
}

// making returns a number that identifies the settings that determine the words in the index. When it changes, the
// index is built again.
func (s *Service) making() uint64 {
	l := s.opt.Limits
	v := uint64(0)
	for _, n := range []int{l.Part, l.Message, l.Attachment, l.MIME.Depth, l.MIME.HeaderBytes} {
		v = v*1_000_003 + uint64(n)
	}
	if s.opt.NoAttachments {
		v++
	}
	return v
}

// Run maintains the index until ctx ends. If the index cannot be read, Run builds a new one.
func (s *Service) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		x, err := s.open()
		if err != nil {
			return err
		}
		select {
		case <-s.bad: // of an earlier index
		default:
		}
		s.idx.Store(x)
		err = s.work(ctx, x)
		s.idx.CompareAndSwap(x, nil)
		if x.Err() == nil {
			err = errors.Join(err, x.Close())
		}
		if !errors.Is(err, index.ErrDamaged) {
			if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, index.ErrClosed) ||
				errors.Is(err, store.ErrClosed)) {
				return nil
			}
			return err
		}
		s.log.Error("search: index is damaged, rebuilding it", "err", err)
		s.stat.remade.Inc()
		if err := s.renew(); err != nil {
			return err
		}
	}
	return nil
}

// folders returns the numbers of the index folders, ascending. The highest one is the current index.
func (s *Service) folders() ([]uint64, error) {
	if err := s.env.FS.MkdirAll(s.opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("search: make %s: %w", s.opt.Dir, err)
	}
	names, err := s.env.FS.List(s.opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	var out []uint64
	for _, n := range names {
		if v, err := strconv.ParseUint(n, 10, 32); err == nil && v > 0 {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (s *Service) folder(n uint64) string {
	return s.env.FS.PathJoin(s.opt.Dir, strconv.FormatUint(n, 10))
}

// open opens the current index. If that is damaged or of another version, open creates a new one.
func (s *Service) open() (*index.Index, error) {
	list, err := s.folders()
	if err != nil {
		return nil, err
	}
	n := uint64(1)
	if len(list) > 0 {
		n = list[len(list)-1]
	}
	for range 3 {
		x, err := index.Open(s.env, s.folder(n), index.Options{
			CacheSize: s.opt.CacheSize, MemTableSize: s.opt.MemTableSize, DocsSize: s.opt.DocsSize, Make: s.making(),
		})
		if err == nil {
			err = x.Clean()
			if err == nil {
				s.sweep(n)
				return x, nil
			}
			err = errors.Join(err, x.Close())
		}
		switch {
		case errors.Is(err, index.ErrFormat):
			s.log.Info("search: index has another version or other settings, rebuilding it")
		case errors.Is(err, index.ErrDamaged):
			s.log.Error("search: index is damaged, rebuilding it", "err", err)
			s.stat.remade.Inc()
		default:
			return nil, fmt.Errorf("search: open the index: %w", err)
		}
		n++
	}
	return nil, fmt.Errorf("search: open a new index: %w", index.ErrDamaged)
}

// renew creates the folder for the next index, so that the current one is not opened again.
func (s *Service) renew() error {
	list, err := s.folders()
	if err != nil {
		return err
	}
	n := uint64(1)
	if len(list) > 0 {
		n = list[len(list)-1] + 1
	}
	return s.env.FS.MkdirAll(s.folder(n), 0o700)
}

// sweep removes the folders of all indexes but one.
func (s *Service) sweep(keep uint64) {
	list, err := s.folders()
	for _, n := range list {
		if n != keep && err == nil {
			if err := s.env.FS.RemoveAll(s.folder(n)); err != nil {
				s.log.Warn("search: cannot remove an old index", "folder", s.folder(n), "err", err)
			}
		}
	}
}

// work maintains an index. One goroutine reads the feed and the databases not built yet, one reads attachments, and one
// merges segments.
func (s *Service) work(ctx context.Context, x *index.Index) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := newWorker(s, x)
	jobs := map[string]func(context.Context) error{
		"search feed": w.feed, "search attachments": w.attachments.run, "search merge": w.merges.run,
	}
	done := make(chan error, len(jobs))
	for name, fn := range jobs {
		s.env.Go(name, func() {
			err := fn(ctx)
			if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, index.ErrClosed)) {
				err = nil
			}
			done <- err
		})
	}
	var err error
	for left := len(jobs); left > 0; {
		select {
		case e := <-done:
			left--
			err = errors.Join(err, e)
			cancel()
		case e := <-s.bad:
			err = errors.Join(err, e)
			cancel()
		case <-x.Dead():
			return x.Err() // goroutines inside the engine stay blocked forever
		}
	}
	return err
}

// Rebuild starts a new build of a database, which replaces the current one when it is complete; 0 stands for all
// databases.
func (s *Service) Rebuild(db note.DatabaseID) {
	s.mu.Lock()
	s.rebuilds = append(s.rebuilds, db)
	if len(s.rebuilds) > 10_000 {
		s.rebuilds = []note.DatabaseID{0}
	}
	s.mu.Unlock()
	s.wake()
}

// takeRebuilds empties the list of the databases to rebuild and returns it. Until the worker has counted what is
// pending, they count as such.
func (s *Service) takeRebuilds() []note.DatabaseID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.rebuilds
	s.rebuilds = nil
	s.pending.Add(int64(len(out)))
	return out
}

// Status is the status of the index.
type Status struct {
	// Running reports whether there is an index.
	Running bool
	// Behind is the number of changes in the store that the index has not read. Since is the time for which it has been
	// behind.
	Behind uint64
	Since  time.Duration
	// Databases is the number of databases indexed. Building is the number of those whose build is not complete, or
	// that are being rebuilt. Off is the number of databases whose full text is switched off.
	Databases, Building, Off int
	// Waiting is the number of messages whose attachments are not read yet.
	Waiting int
	index.Totals
	// Size is the size of the index on disk, in bytes.
	Size uint64
}

// Status returns the status of the index. It reads the states of all databases.
func (s *Service) Status(ctx context.Context) (st Status, err error) {
	x := s.index()
	if x == nil {
		return st, nil
	}
	st.Running, st.Off = true, int(s.off.Load())
	st.Behind, st.Since = s.Lag()
	err = s.guard(ctx, x, func(ctx context.Context) error {
		st.Size = x.Size()
		err := x.Lates(func(note.DatabaseID, uint32, note.ID) bool {
			st.Waiting++
			return true
		})
		return errors.Join(err, x.States(func(_ note.DatabaseID, d *index.State) bool {
			if d.Active == nil {
				return true
			}
			st.Databases++
			if !d.Active.Done || d.Next != nil {
				st.Building++
			}
			st.Totals.Add(&d.Active.Totals)
			return ctx.Err() == nil
		}))
	})
	return st, err
}

// Lag returns the number of changes in the store that the index has not read, and the time for which it has been
// behind.
func (s *Service) Lag() (behind uint64, since time.Duration) { return s.lag.now(s) }

// lagging tracks the lag of the index.
type lagging struct {
	mu sync.Mutex
	// seq is the sequence up to which the feed was read. at is the time since when the store is ahead of it, or zero.
	seq uint64
	at  time.Time
}

func (l *lagging) now(s *Service) (uint64, time.Duration) {
	horizon := s.store.Horizon()
	l.mu.Lock()
	defer l.mu.Unlock()
	if horizon <= l.seq {
		return 0, 0
	}
	if l.at.IsZero() {
		return horizon - l.seq, 0
	}
	return horizon - l.seq, s.env.Clock.Now().Sub(l.at)
}

// moved records that the store has new changes.
func (l *lagging) moved(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		l.at = now
	}
}

// read records that the feed was read up to seq. end is set if that was the end of the feed when reading began.
func (l *lagging) read(seq uint64, end bool, begun time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq = seq
	if end {
		l.at = time.Time{}
	} else if l.at.IsZero() {
		l.at = begun
	}
}

// Catch waits until the index has followed all changes that are durable now, also those of descriptions, all databases
// are built, and all attachments are read.
func (s *Service) Catch(ctx context.Context) error {
	goal := s.store.Horizon()
	s.wake()
	for {
		s.mu.Lock()
		passed := s.passed
		pending := len(s.rebuilds) + len(s.changed) + int(s.pending.Load())
		s.mu.Unlock()
		s.lag.mu.Lock()
		seq := s.lag.seq
		s.lag.mu.Unlock()
		if st, err := s.Status(ctx); err != nil && ctx.Err() != nil {
			return err
		} else if err == nil && pending == 0 && st.Running && seq >= goal && st.Building == 0 && st.Waiting == 0 {
			return nil
		}
		select {
		case <-passed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// step wakes the callers of Catch.
func (s *Service) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.passed)
	s.passed = make(chan struct{})
}

// message returns the content of a note's message, up to text.MaxMessage bytes. The caller must not change it.
func message(r *store.Reader, row *layout.Note) ([]byte, error) {
	st, err := r.Message(row)
	if err != nil {
		return nil, err
	}
	if raw, ok := st.Whole(); ok {
		return raw, nil
	}
	return st.AppendRange(make([]byte, 0, min(st.Size(), text.MaxMessage)), 0, text.MaxMessage)
}
