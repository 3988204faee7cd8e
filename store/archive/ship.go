package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"doublet/env"
	"doublet/stat"
	"doublet/store"
	"doublet/store/blob"
)

// Options are the settings of a Shipper. Zero values mean the defaults.
type Options struct {
	// Interval is the time between two turns (3 s).
	Interval time.Duration
	// Rate bounds the bytes sent per second; 0 means no bound.
	Rate int64
	// Base makes a backup of the store in the target. The shipper calls it in a goroutine of its own when a timeline
	// has no backup, and BaseEvery after the last one (24 h; negative: never).
	Base      func(ctx context.Context) error
	BaseEvery time.Duration
	// Keys encrypt the steps.
	Keys  blob.Keys
	Stats *stat.Tree
}

// idleEvery is the time after which a turn without changes tells the archive so.
const idleEvery = 10 * time.Second

// retryBase is the least time between two attempts to take a backup.
const retryBase = time.Minute

// patience bounds the time in which the target takes one step.
const patience = 2 * time.Minute

var errStalled = errors.New("archive: the target has not taken a step for two minutes")

// keyBytes is the length of the header of a segment.
const keyBytes = 64

// stateName is the file of the data folder with the state of the archive.
const stateName = "ARCHIVE"

// state holds the place of the server in its archive. It is written before each step is sent.
type state struct {
	Timeline    string `json:"timeline"`
	Incarnation uint64 `json:"incarnation"`
	Breaks      uint64 `json:"breaks"`
	// Based is the time of the last backup of this timeline.
	Based time.Time `json:"based,omitzero"`
	place
	// Sending is the step that was being sent when the state was written.
	Sending *sending `json:"sending,omitempty"`
}

// place is a place in a timeline.
type place struct {
	Step     uint64                `json:"step"` // the last step before it
	Log      store.LogPosition     `json:"log"`
	Segments store.SegmentPosition `json:"segments"`
	Through  int64                 `json:"through"`
}

// sending is a step on its way: the place after it, and the checksum of its blob.
type sending struct {
	place
	SHA256 string `json:"sha256"`
	blob   []byte
}

// Shipper sends the log of a store to an archive.
type Shipper struct {
	env   *env.Env
	store *store.Store
	blobs blob.Store
	o     Options
	stat  counters
	bases sync.WaitGroup

	mu sync.Mutex // guards st.Based and the fields below
	st state
	// told is the time that the archive was last told of, kept the size of the log that waits.
	told  int64
	kept  int64
	near  bool
	asked bool      // a backup is under way
	tried time.Time // when the last backup began
}

// NewShipper returns the shipper of a store that was opened with KeepLog.
func NewShipper(e *env.Env, s *store.Store, blobs blob.Store, o Options) *Shipper {
	if o.Interval <= 0 {
		o.Interval = 3 * time.Second
	}
	if o.BaseEvery == 0 {
		o.BaseEvery = 24 * time.Hour
	}
	sh := &Shipper{env: e, store: s, blobs: blobs, o: o}
	sh.stat.init(sh, o.Stats)
	return sh
}

// Run sends the log until ctx ends. It waits for a backup that is under way.
func (s *Shipper) Run(ctx context.Context) error {
	defer s.bases.Wait()
	for failed := false; ; {
		err := s.Turn(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, store.ErrClosed) {
			return err
		}
		if err != nil && !failed {
			s.env.Log.Error("archive: cannot archive the log, will retry", "error", err)
		}
		if err == nil && failed {
			s.env.Log.Info("archive: caught up")
		}
		if failed = err != nil; !failed { // a target that is away gets no backup
			s.base(ctx)
		}
		select {
		case <-s.env.Clock.After(s.o.Interval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// base starts a backup if one is due.
func (s *Shipper) base(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.env.Clock.Now()
	if s.asked || s.o.Base == nil || s.st.Timeline == "" || !s.due() || now.Sub(s.tried) < retryBase {
		return
	}
	s.asked, s.tried = true, now
	s.bases.Add(1)
	s.env.Go("archive base", func() {
		defer s.bases.Done()
		if err := s.Base(ctx); err != nil && ctx.Err() == nil {
			s.env.Log.Error("archive: cannot take a backup, will retry", "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = false
	})
}

// due reports whether a backup is due. The caller holds mu.
func (s *Shipper) due() bool {
	return s.st.Based.IsZero() || s.o.BaseEvery > 0 && s.env.Clock.Now().Sub(s.st.Based) >= s.o.BaseEvery
}

// Base makes a backup in the target.
func (s *Shipper) Base(ctx context.Context) error {
	s.mu.Lock()
	timeline := s.st.Timeline
	s.mu.Unlock()
	if err := s.o.Base(ctx); err != nil {
		s.stat.failed.Inc()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.st.Timeline == timeline {
		s.st.Based = s.env.Clock.Now().UTC() // the next step makes it durable
	}
	s.stat.bases.Inc()
	return nil
}

// Turn sends what the archive lacks. After an error, the next turn continues.
func (s *Shipper) Turn(ctx context.Context) error {
	err := s.ready(ctx)
	for more := true; err == nil && more; {
		more, err = s.advance(ctx)
	}
	if errors.Is(err, store.ErrLogGap) {
		return s.gap("the log cannot be read", err)
	}
	if err != nil {
		s.stat.failed.Inc()
	}
	return errors.Join(err, s.bound())
}

// bound looks at the log that waits for the target. Near its bound it warns, and begins a new timeline if the store has
// removed what comes next.
func (s *Shipper) bound() error {
	kept, most, err := s.store.KeptLog()
	if err != nil {
		return err
	}
	near := kept > most/5*4
	s.mu.Lock()
	s.kept = kept
	warn := near && !s.near
	s.near = near
	s.mu.Unlock()
	if !near || s.st.Timeline == "" {
		return nil
	}
	if warn {
		s.env.Log.Warn("archive: the log that waits for the target is near its bound; beyond it the archive gets a gap",
			"bytes", kept, "bound", most)
	}
	if _, err := s.store.ReadLog(s.st.Log, 0); errors.Is(err, store.ErrLogGap) {
		return s.gap("more of the log waited for the target than the bound", err)
	}
	return nil
}

// gap begins a new timeline because the present one cannot be continued.
func (s *Shipper) gap(why string, cause error) error {
	s.stat.gaps.Inc()
	s.env.Log.Error("archive: gap: moments from here to the next backup cannot be restored", "reason", why,
		"error", cause, "after", time.Unix(0, s.st.Through).UTC())
	return s.begin()
}

// ready reads the state, begins a timeline if there is none that goes on, and ends the step that was on its way.
func (s *Shipper) ready(ctx context.Context) error {
	breaks, err := s.store.LogBreaks()
	if err != nil {
		return err
	}
	if s.st.Timeline == "" {
		st, err := readState(s.env, s.store.Places().Data)
		if err != nil {
			return err
		}
		if st.Timeline == "" {
			return s.begin()
		}
		if err := s.resume(ctx, st); err != nil {
			return err
		}
	}
	switch {
	case s.st.Incarnation != s.store.Incarnation():
		s.env.Log.Info("archive: the store was restored: a new timeline begins")
		return s.begin()
	case s.st.Breaks != breaks:
		return s.gap("damage was cut out of the store", nil)
	case s.st.Sending != nil:
		return s.send(ctx)
	}
	return nil
}

// resume continues from the state of an earlier process. A step that was being sent may have arrived. If another one
// with its number did, or later ones, the data folder has returned to an older state, and a new timeline begins.
func (s *Shipper) resume(ctx context.Context, st state) error {
	list, err := s.blobs.List(ctx, folder+"/"+st.Timeline+"/")
	if err != nil {
		return err
	}
	for _, b := range list {
		number, through, ok := parseStepName(b.Name[len(folder)+len(st.Timeline)+2:])
		if !ok || number <= st.Step {
			continue
		}
		if st.Sending == nil || number != st.Sending.Step || through != st.Sending.Through {
			s.env.Log.Warn("archive: data folder was restored to an older state: a new timeline begins")
			return s.begin()
		}
		content, err := s.blobs.Get(ctx, b.Name, maxStep)
		if err != nil && !errors.Is(err, blob.ErrDamaged) {
			return err
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) == st.Sending.SHA256 {
			st.place = st.Sending.place
		}
		// Otherwise it arrived in part, and is written again. The log still has it.
	}
	st.Sending = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.st = st
	return nil
}

// begin begins a timeline at the newest file of the log.
func (s *Shipper) begin() error {
	var id [6]byte
	s.env.Fill(id[:])
	breaks, err := s.store.LogBreaks()
	if err != nil {
		return err
	}
	st := state{Incarnation: s.store.Incarnation(), Breaks: breaks}
	now := s.env.Clock.Now()
	st.Timeline = fmt.Sprintf("%013d-%s", now.UnixMilli(), hex.EncodeToString(id[:]))
	// What is in the segments now is in the first backup.
	if list := s.store.Objects().Durable(); len(list) > 0 {
		last := list[len(list)-1]
		st.Segments = store.SegmentPosition{Segment: last.ID, Offset: last.Size}
	}
	if st.Log, err = s.store.NewestLog(); err != nil {
		return err
	}
	if err := writeState(s.env, s.store.Places().Data, &st); err != nil {
		return err
	}
	s.mu.Lock()
	s.st, s.told = st, 0
	s.mu.Unlock()
	return s.store.Archived(st.Log, st.Segments)
}

// advance reads a part of the log and sends it, after the parts of the segments that it names.
func (s *Shipper) advance(ctx context.Context) (more bool, err error) {
	through := nanos(s.env.Clock.Now())
	p, err := s.store.ReadLog(s.st.Log, part)
	if err != nil {
		return false, err
	}
	if p.More {
		// What was acknowledged before the time of a change of this part precedes that change in the log.
		through = s.st.Through
		if !p.Last.IsZero() {
			through = max(through, nanos(p.Last))
		}
	}
	if err := s.segments(ctx); err != nil {
		return false, err
	}
	if len(p.Batches) == 0 {
		s.mu.Lock()
		s.st.Log, s.st.Through = p.To, max(s.st.Through, through)
		s.mu.Unlock()
		return false, errors.Join(s.store.Archived(s.st.Log, s.st.Segments), s.idle(ctx))
	}
	next := s.st.place
	next.Log, next.Through = p.To, max(through, s.st.Through)
	if err := s.ship(ctx, &step{batches: p.Batches}, next); err != nil {
		return false, err
	}
	return p.More, s.store.Archived(s.st.Log, s.st.Segments)
}

// idle records in the archive from time to time that nothing came after the last step.
func (s *Shipper) idle(ctx context.Context) error {
	if s.st.Through-s.told < int64(idleEvery) {
		return nil
	}
	b, err := json.Marshal(idle{s.st.Step, s.st.Through})
	if err == nil {
		err = s.blobs.Put(ctx, folder+"/"+s.st.Timeline+"/"+throughName, b)
	}
	if err == nil {
		s.told = s.st.Through
	}
	return err
}

// segments sends what was added to object segments and is durable.
func (s *Shipper) segments(ctx context.Context) error {
	for _, g := range s.store.Objects().Durable() {
		at := s.st.Segments
		if g.ID < at.Segment {
			continue
		}
		if g.ID > at.Segment {
			at = store.SegmentPosition{Segment: g.ID}
		}
		for at.Offset < g.Size {
			b := make([]byte, min(part, g.Size-at.Offset))
			key, err := s.readSegment(g.ID, at.Offset, b)
			if err != nil {
				return err
			}
			next := s.st.place
			next.Segments = store.SegmentPosition{Segment: g.ID, Offset: at.Offset + int64(len(b))}
			if err := s.ship(ctx, &step{Segment: g.ID, Key: key, From: at.Offset, content: b}, next); err != nil {
				return err
			}
			at = next.Segments
		}
	}
	return nil
}

// readSegment reads a part of a segment, and returns the segment's key.
func (s *Shipper) readSegment(id uint64, from int64, b []byte) (string, error) {
	f, err := s.store.Objects().OpenSegment(id)
	if err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	defer f.Close()
	if _, err := f.ReadAt(b, from); err != nil {
		return "", fmt.Errorf("archive: read segment %d: %w", id, err)
	}
	return SegmentKey(f)
}

// SegmentKey identifies a segment by its header, which holds random bytes.
func SegmentKey(f io.ReaderAt) (string, error) {
	var head [keyBytes]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return "", fmt.Errorf("archive: read the header of a segment: %w", err)
	}
	sum := sha256.Sum256(head[:])
	return hex.EncodeToString(sum[:8]), nil
}

// ship sends a step that leads to a place.
func (s *Shipper) ship(ctx context.Context, p *step, next place) error {
	next.Step = s.st.Step + 1
	p.Timeline, p.Number, p.Through = s.st.Timeline, next.Step, next.Through
	b, err := p.encode()
	if err == nil {
		b, err = s.o.Keys.Seal(b)
	}
	if err != nil {
		return fmt.Errorf("archive: step: %w", err)
	}
	sum := sha256.Sum256(b)
	s.mu.Lock()
	st := s.st
	s.mu.Unlock()
	st.Sending = &sending{place: next, SHA256: hex.EncodeToString(sum[:]), blob: b}
	if err := writeState(s.env, s.store.Places().Data, &st); err != nil {
		return err
	}
	s.mu.Lock()
	s.st.Sending = st.Sending
	s.mu.Unlock()
	return s.send(ctx)
}

// send sends the step that is on its way. It may have arrived before, so it is sent with the same content.
func (s *Shipper) send(ctx context.Context) error {
	n := s.st.Sending
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := s.env.Clock.AfterFunc(patience, func() { cancel(errStalled) })
	err := s.blobs.Put(limited, stepName(s.st.Timeline, n.Step, n.Through), n.blob)
	stop()
	if err != nil {
		return errors.Join(err, context.Cause(limited))
	}
	s.mu.Lock()
	s.st.place, s.st.Sending = n.place, nil
	s.told = n.Through
	s.mu.Unlock()
	s.stat.steps.Inc()
	s.stat.bytes.Add(uint64(len(n.blob)))
	if s.o.Rate <= 0 {
		return nil
	}
	select {
	case <-s.env.Clock.After(time.Duration(float64(len(n.blob)) / float64(s.o.Rate) * float64(time.Second))):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readState reads the state in a data folder. It is zero if there is none, or none that can be used.
func readState(e *env.Env, data string) (st state, err error) {
	f, size, err := env.OpenRegular(e.FS, e.FS.PathJoin(data, stateName))
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err != nil {
		return st, fmt.Errorf("archive: read state: %w", err)
	}
	defer f.Close()
	b := make([]byte, min(size, 64<<10))
	if _, err := io.ReadFull(f, b); err != nil {
		return st, fmt.Errorf("archive: read state: %w", err)
	}
	if err := json.Unmarshal(b, &st); err != nil {
		e.Log.Warn("archive: cannot read the state, a new timeline begins", "error", err)
		return state{}, nil
	}
	return st, nil
}

func writeState(e *env.Env, data string, st *state) error {
	b, err := json.Marshal(st)
	if err == nil {
		err = blob.Folder(e.FS, data).Put(context.Background(), stateName, b)
	}
	if err != nil {
		return fmt.Errorf("archive: write state: %w", err)
	}
	return nil
}

// Next returns the place in the archive of a backup that begins now: the first step that may hold what it lacks. It is
// nil if the store with an incarnation is not archived.
func Next(e *env.Env, data string, incarnation uint64) (*Point, error) {
	st, err := readState(e, data)
	if err != nil || st.Timeline == "" || st.Incarnation != incarnation {
		return nil, err
	}
	return &Point{Timeline: st.Timeline, Step: st.Step + 1}, nil
}

// counters are the statistics of a shipper.
type counters struct{ steps, bytes, failed, gaps, bases *stat.Counter }

func (c *counters) init(s *Shipper, t *stat.Tree) {
	if t == nil {
		t = stat.New(s.env.Clock)
	}
	*c = counters{
		steps:  t.Counter("Archive.Steps", "parts of the log and of object segments sent to the archive"),
		bytes:  t.Counter("Archive.Bytes", "bytes sent to the archive"),
		failed: t.Counter("Archive.Failed", "attempts to send to the archive, or to take a backup for it, that failed"),
		gaps:   t.Counter("Archive.Gaps", "times that the archive got a gap"),
		bases:  t.Counter("Archive.Bases", "backups taken for the archive"),
	}
	read := func(f func() float64) func() float64 {
		return func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return f()
		}
	}
	t.GaugeFunc("Archive.Kept.Bytes", "bytes of the log that wait for the archive",
		read(func() float64 { return float64(s.kept) }))
	t.GaugeFunc("Archive.Kept.Maximum", "bytes of the log that may wait before the archive gets a gap",
		func() float64 {
			_, bound, _ := s.store.KeptLog()
			return float64(bound)
		})
	t.GaugeFunc("Archive.Through", "time up to which everything is archived, seconds since 1970; 0 is never",
		read(func() float64 { return float64(s.st.Through / int64(time.Second)) }))
	t.GaugeFunc("Archive.LastBase", "when the last backup of this timeline was taken, seconds since 1970; 0 is never",
		read(func() float64 { return float64(max(s.st.Based.Unix(), 0)) }))
}
