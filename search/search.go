// Package search is full text over the databases of a server: headers, bodies and attachments of mail, names
// in the directory. doc/search.md says what can be found and how.
//
// An index that lies beside the store is kept from the store's feed, in the background: mail never waits for
// it. Whoever asks gets an answer that is exact all the same: what the index does not know, or is not sure of, is
// looked up in the texts themselves.
package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// Consumer is the name under which the index's cursor stands in the store, so that the feed is kept for it.
const Consumer = "search"

// Options are the settings of the room. Zero values take the defaults.
type Options struct {
	// Dir is the folder of the index.
	Dir string
	// CacheSize, MemTableSize and DocsSize are memory of the index: see index.Options.
	CacheSize, MemTableSize, DocsSize int64
	// Limits bound what is read of a message.
	Limits text.Limits
	// NoAttachments leaves out the text of attachments that takes work to get at.
	NoAttachments bool
	// Share and RebuildShare are how much of one processor the index takes, in percent: to keep up (50), and to
	// read what was there before it (25).
	Share, RebuildShare int
	// Kinds are the kinds of database that are indexed, each with what makes texts of notes that hold no message; nil
	// where only messages are read.
	Kinds map[string]func(*note.Content) []text.Stretch
	// Parts finds the index of parts in the summary of a message; nil: messages are read whole.
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
}

// Service is the full-text search of a server.
type Service struct {
	env   *env.Env
	store *store.Store
	opt   Options
	log   *slog.Logger
	stat  counters

	idx atomic.Pointer[index.Index]
	// rebuilds are databases that are to be built anew; 0 stands for all.
	mu       sync.Mutex
	rebuilds []note.DatabaseID
	// changed are databases that were made, removed or changed as a whole; changedAll: more than are remembered.
	changed    []note.DatabaseID
	changedAll bool
	kick       chan struct{}

	// passed is closed and made anew whenever the feed was read up to its end.
	passed  chan struct{}
	lag     lagging
	extract chan struct{} // who reads attachments for a query holds a place in it
	bad     chan error    // why the index at work is to be given up
}

// New returns the service over a store. Run keeps its index; until then nothing is indexed.
func New(s *store.Store, e *env.Env, o Options) *Service {
	o.fill()
	svc := &Service{
		env: e, store: s, opt: o, log: e.Log, kick: make(chan struct{}, 1), passed: make(chan struct{}), extract: make(chan struct{}, 2),
		bad: make(chan error, 1),
	}
	if svc.log == nil {
		svc.log = slog.New(slog.DiscardHandler)
	}
	svc.stat.init(svc, o.Stats)
	s.WatchInfos(svc.changedInfo)
	return svc
}

// index is the one that answers; nil where there is none.
func (s *Service) index() *index.Index {
	if s == nil {
		return nil
	}
	return s.idx.Load()
}

// guard runs fn, which uses the index, so that an index that dies takes nobody along.
func (s *Service) guard(ctx context.Context, x *index.Index, fn func(context.Context) error) error {
	var err error
	if e := x.Guard(ctx, func(ctx context.Context) { err = fn(ctx) }); e != nil {
		return e
	}
	return err
}

// failed takes note that the index could not answer. One that is damaged is given up by Run.
func (s *Service) failed(x *index.Index, err error) {
	if errors.Is(err, index.ErrClosed) {
		return
	}
	s.stat.failed.Inc()
	s.log.Error("search: the index does not answer", "err", err)
	if errors.Is(err, index.ErrDamaged) && s.idx.CompareAndSwap(x, nil) {
		select {
		case s.bad <- err:
		default:
		}
	}
}

// wake lets Run look what there is to do.
func (s *Service) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// Limits are those that texts are read with.
func (s *Service) Limits() text.Limits { return s.opt.Limits }

// making says what the words of the index are made with: what changes them makes it another.
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

// Run keeps the index until ctx ends. An index that cannot be read is made anew.
func (s *Service) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		x, err := s.open()
		if err != nil {
			return err
		}
		select {
		case <-s.bad: // of the one before
		default:
		}
		s.idx.Store(x)
		err = s.work(ctx, x)
		s.idx.CompareAndSwap(x, nil)
		if x.Err() == nil {
			err = errors.Join(err, x.Close())
		}
		if !errors.Is(err, index.ErrDamaged) {
			if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, index.ErrClosed) || errors.Is(err, store.ErrClosed)) {
				return nil
			}
			return err
		}
		s.log.Error("search: the index is damaged and is made anew", "err", err)
		s.stat.remade.Inc()
		if err := s.renew(); err != nil {
			return err
		}
	}
	return nil
}

// folders are those of indexes, by number; the highest is the one that counts.
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

// open opens the latest index, or a new one where that is of another version or damaged.
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
			s.log.Info("search: the index is of another version or of other settings and is made anew")
		case errors.Is(err, index.ErrDamaged):
			s.log.Error("search: the index is damaged and is made anew", "err", err)
			s.stat.remade.Inc()
		default:
			return nil, fmt.Errorf("search: open the index: %w", err)
		}
		n++
	}
	return nil, fmt.Errorf("search: open a new index: %w", index.ErrDamaged)
}

// renew makes the folder of the next index, so that the one before is not opened again.
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

// sweep removes the folders of older indexes.
func (s *Service) sweep(keep uint64) {
	list, err := s.folders()
	for _, n := range list {
		if n != keep && err == nil {
			if err := s.env.FS.RemoveAll(s.folder(n)); err != nil {
				s.log.Warn("search: remove an old index", "folder", s.folder(n), "err", err)
			}
		}
	}
}

// work keeps an index: one goroutine reads the feed and the databases that are not built yet, one reads
// attachments, one merges segments.
func (s *Service) work(ctx context.Context, x *index.Index) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &worker{s: s, x: x, words: newAnalyser(), kinds: map[note.DatabaseID]bool{}, more: make(chan struct{}, 1), late: make(chan struct{}, 1)}
	jobs := map[string]func(context.Context) error{"search feed": w.feed, "search attachments": w.attachments, "search merge": w.merge}
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
			return x.Err() // whoever is in it stays there
		}
	}
	return err
}

// Rebuild has a database built anew beside what answers now, which it then replaces; 0 stands for all.
func (s *Service) Rebuild(db note.DatabaseID) {
	s.mu.Lock()
	s.rebuilds = append(s.rebuilds, db)
	if len(s.rebuilds) > 10_000 {
		s.rebuilds = []note.DatabaseID{0}
	}
	s.mu.Unlock()
	s.wake()
}

func (s *Service) takeRebuilds() []note.DatabaseID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.rebuilds
	s.rebuilds = nil
	return out
}

// Status says where the index stands.
type Status struct {
	// Running says that there is an index.
	Running bool
	// Behind is how many changes of the store it has not seen, Since for how long it has been behind.
	Behind uint64
	Since  time.Duration
	// Databases are indexed, Building of them not whole yet, or built anew.
	Databases, Building int
	// Waiting are messages whose attachments are still to be read.
	Waiting int
	index.Totals
	// Size is what the index takes on disk, in bytes.
	Size uint64
}

// Status reads where the index stands. It goes through the states of all databases.
func (s *Service) Status(ctx context.Context) (st Status, err error) {
	x := s.index()
	if x == nil {
		return st, nil
	}
	st.Running = true
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

// Lag says how many changes of the store the index has not seen, and for how long it has been behind.
func (s *Service) Lag() (behind uint64, since time.Duration) { return s.lag.now(s) }

// lagging is how far the index is behind.
type lagging struct {
	mu sync.Mutex
	// seq is how far the feed was read; at is when the store had come further than that, zero while it had not.
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

// moved takes note that the store has come further.
func (l *lagging) moved(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at.IsZero() {
		l.at = now
	}
}

// read takes note of how far the feed was read, and whether that was its end when it was begun to be read.
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

// Catch waits until the index has seen what is durable now, all databases are built, and all attachments are read.
func (s *Service) Catch(ctx context.Context) error {
	goal := s.store.Horizon()
	for {
		s.mu.Lock()
		passed := s.passed
		pending := len(s.rebuilds)
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

// step tells those in Catch that something was done.
func (s *Service) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.passed)
	s.passed = make(chan struct{})
}

// message reads the bytes of a note's message, as far as they are looked at.
func message(r *store.Reader, row *layout.Note) ([]byte, error) {
	st, err := r.Message(row)
	if err != nil {
		return nil, err
	}
	return st.AppendRange(make([]byte, 0, min(st.Size(), text.MaxMessage)), 0, text.MaxMessage)
}
