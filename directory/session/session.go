// Package session keeps what people began with a sign-in and goes on after it: the sessions of browsers, the
// codes of a second factor that were used, and subscriptions to pushes. They stand in a database of their own,
// one note each, so that they survive a restart and replicate like everything else, and that a sign-in changes
// nothing in the directory.
//
// Of a session's token a keyed hash is stored, and the note's own id is made of the token: who reads the
// database can take over no session.
package session

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
)

// ID is the database, the same in every domain. It is made when the first session begins.
const ID note.DatabaseID = 0x000000000000D1B6

// ErrNone says that there is no such session: it never was, was ended, or is over.
var ErrNone = errors.New("session: there is none")

// Options are the settings. Zero values take the defaults.
type Options struct {
	// Idle ends a session that was not used for so long (14 days), Life any (90 days).
	Idle, Life time.Duration
	// PerPerson is how many sessions one person has at most (50); a further one ends the one that was used
	// longest ago.
	PerPerson int
	// Subscriptions is how many pushes one person has subscribed to at most (50).
	Subscriptions int
	Stats         *stat.Tree
}

func (o *Options) fill() {
	if o.Idle <= 0 {
		o.Idle = 14 * 24 * time.Hour
	}
	if o.Life <= 0 {
		o.Life = 90 * 24 * time.Hour
	}
	if o.PerPerson <= 0 {
		o.PerPerson = 50
	}
	if o.Subscriptions <= 0 {
		o.Subscriptions = 50
	}
}

// touches is how often within Idle the use of a session is written down, so that it ends too early by a
// sixteenth at most.
const touches = 16

// Session is the session of a browser.
type Session struct {
	ID     note.UNID
	Person note.UNID
	// PasswordID is that of the password (directory.Person) that the session was begun with.
	PasswordID string
	// Second says that it was begun with a second factor, Keep that the browser keeps its cookie when it is
	// closed.
	Second, Keep bool
	// Created is when it began, Used when it was used, give or take a sixteenth of Options.Idle.
	Created, Used time.Time
	// Ends is when it is over if nobody uses it any more.
	Ends time.Time
	// Address and Agent are those of the browser that began it.
	Address, Agent string
}

// Service keeps sessions. Its methods may be called from any goroutine.
type Service struct {
	s   *store.Store
	env *env.Env
	key []byte
	opt Options

	// version grows with every change; what was read before it is out of date.
	version atomic.Uint64
	there   atomic.Bool // the database is made

	mu       sync.Mutex
	stop     func() // ends watching the database
	kept     map[note.UNID]kept
	watchers []func()
	enders   []func([]note.UNID)

	begun, ended *stat.Counter
}

// kept is a session in memory.
type kept struct {
	Session
	hash    [32]byte
	version uint64
}

// maxKept bounds the sessions in memory, of about 400 bytes.
const maxKept = 20_000

// Open opens the sessions of a store that was opened with Indexes. key is secret, and the same at every server
// of the domain.
func Open(s *store.Store, e *env.Env, key []byte, o Options) (*Service, error) {
	o.fill()
	x := &Service{s: s, env: e, key: key, opt: o, kept: make(map[note.UNID]kept)}
	x.begun = o.Stats.Counter("Sessions.Begun", "sessions of browsers begun")
	x.ended = o.Stats.Counter("Sessions.Ended", "sessions of browsers ended, by people or with their time")
	_, err := s.Info(ID)
	if errors.Is(err, store.ErrNotFound) {
		return x, nil
	}
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	return x, x.watch()
}

// Close ends watching the database. The store stays open.
func (x *Service) Close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stop != nil {
		x.stop()
	}
}

// Life is how long a session lasts at most.
func (x *Service) Life() time.Duration { return x.opt.Life }

// Version is another one after every change.
func (x *Service) Version() uint64 { return x.version.Load() }

// OnChange has fn called after every change. fn must not block and must not call the store.
func (x *Service) OnChange(fn func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watchers = append(x.watchers, fn)
}

// OnEnd has fn called with sessions that are ended here, at once; of those that end elsewhere or with their time
// OnChange tells.
func (x *Service) OnEnd(fn func(ids []note.UNID)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.enders = append(x.enders, fn)
}

func (x *Service) endedHere(ids []note.UNID) {
	x.mu.Lock()
	list := x.enders
	x.mu.Unlock()
	for _, fn := range list {
		fn(ids)
	}
}

func (x *Service) changed() {
	x.version.Add(1)
	x.mu.Lock()
	list := x.watchers
	x.mu.Unlock()
	for _, fn := range list {
		fn()
	}
}

func (x *Service) watch() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stop == nil {
		stop, err := x.s.Watch(ID, x.changed)
		if err != nil {
			return fmt.Errorf("session: watch: %w", err)
		}
		x.stop = stop
	}
	x.there.Store(true)
	return nil
}

// make makes the database.
func (x *Service) make() error {
	if x.there.Load() {
		return nil
	}
	_, err := x.s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Sessions", Kind: Kind})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("session: create: %w", err)
	}
	return x.watch()
}

// read calls fn with the database as it is now, unless there is none.
func (x *Service) read(ctx context.Context, fn func(*store.Reader) error) error {
	if !x.there.Load() {
		return nil
	}
	return x.s.Read(ctx, note.System, ID, fn)
}

func (x *Service) update(ctx context.Context, fn func(*store.Writer) error) error {
	if err := x.make(); err != nil {
		return err
	}
	err := x.s.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		return fn(w)
	})
	if err == nil {
		// The watchers may be told by another update that is still on its way.
		x.version.Add(1)
	}
	return err
}

// tokenBytes is the randomness of a token.
const tokenBytes = 32

// maxToken bounds what is looked at as a token, in bytes.
const maxToken = 64

func (x *Service) mac(use, text string) []byte {
	m := hmac.New(sha256.New, x.key)
	m.Write([]byte(use))
	m.Write([]byte{0})
	m.Write([]byte(text))
	return m.Sum(nil)
}

// idOf is the id of a token's session.
func (x *Service) idOf(token string) note.UNID { return note.UNID(x.mac("id", token)[:16]) }

// CSRF is what a page of a session sends with everything that changes something, and no page of another site
// can know.
func (x *Service) CSRF(token string) string {
	return base64.RawURLEncoding.EncodeToString(x.mac("csrf", token)[:24])
}

// CheckCSRF compares in constant time.
func (x *Service) CheckCSRF(token, csrf string) bool {
	return hmac.Equal([]byte(x.CSRF(token)), []byte(csrf))
}

// Begin begins a session of which Person, PasswordID, Second, Keep, Address and Agent are given, and returns its
// token: it is not stored.
func (x *Service) Begin(ctx context.Context, s Session) (string, Session, error) {
	var raw [tokenBytes]byte
	x.env.Fill(raw[:])
	token := base64.RawURLEncoding.EncodeToString(raw[:])
	s.ID = x.idOf(token)
	s.Created = x.now()
	s.Used = s.Created
	x.bound(&s)
	err := x.update(ctx, func(w *store.Writer) error {
		if err := x.makeRoom(w, s.Person); err != nil {
			return err
		}
		_, err := w.Create(store.New{UNID: s.ID, Content: note.Content{Items: s.items(x.mac("hash", token))}})
		return err
	})
	if err != nil {
		return "", Session{}, fmt.Errorf("session: begin: %w", err)
	}
	x.begun.Inc()
	return token, s, nil
}

func (x *Service) now() time.Time { return x.env.Clock.Now().UTC().Truncate(time.Second) }

// bound says when the session is over.
func (x *Service) bound(s *Session) {
	s.Ends = s.Used.Add(x.opt.Idle)
	if last := s.Created.Add(x.opt.Life); last.Before(s.Ends) {
		s.Ends = last
	}
}

// makeRoom ends the session of a person that was used longest ago, where they have as many as they may.
func (x *Service) makeRoom(w *store.Writer, person note.UNID) error {
	ids, err := w.Lookup(indexSessions, personKey(person))
	for err == nil && len(ids) >= x.opt.PerPerson {
		oldest, at := 0, time.Time{}
		for i, id := range ids {
			s, _, bad := readSession(&w.Reader, id)
			if bad != nil {
				return bad
			}
			if i == 0 || s.Used.Before(at) {
				oldest, at = i, s.Used
			}
		}
		err = w.Destroy(ids[oldest])
		ids = append(ids[:oldest], ids[oldest+1:]...)
	}
	return err
}

// Find returns the session of a token, and writes down that it is used. Errors: ErrNone.
func (x *Service) Find(ctx context.Context, token string) (Session, error) {
	if len(token) > maxToken {
		return Session{}, ErrNone
	}
	k, err := x.load(ctx, x.idOf(token))
	if err != nil {
		return Session{}, err
	}
	if !hmac.Equal(k.hash[:], x.mac("hash", token)) {
		return Session{}, ErrNone
	}
	now := x.now()
	if now.Sub(k.Used) < x.opt.Idle/touches {
		return k.Session, nil
	}
	s, err := x.touch(ctx, k.ID, now)
	if err != nil && !errors.Is(err, ErrNone) {
		// Who is signed in stays so on a disk that is full.
		x.env.Log.Warn("the use of a session is not written down", "error", err)
		return k.Session, nil
	}
	return s, err
}

// Get returns a session by its id. Errors: ErrNone.
func (x *Service) Get(ctx context.Context, id note.UNID) (Session, error) {
	k, err := x.load(ctx, id)
	return k.Session, err
}

func (x *Service) load(ctx context.Context, id note.UNID) (kept, error) {
	version := x.version.Load()
	x.mu.Lock()
	k, ok := x.kept[id]
	x.mu.Unlock()
	if !ok || k.version != version {
		k = kept{version: version}
		err := x.read(ctx, func(r *store.Reader) error {
			at, err := r.Find(id)
			if err == nil {
				var hash []byte
				if k.Session, hash, err = readSession(r, at); len(hash) == len(k.hash) {
					k.hash = [32]byte(hash)
				}
			}
			return err
		})
		if err != nil && !absent(err) {
			return k, fmt.Errorf("session: %w", err)
		}
		x.keep(id, k)
	}
	if k.Person.IsZero() || x.over(&k.Session) {
		return kept{}, ErrNone
	}
	return k, nil
}

// keep remembers a session. Those of tokens that are none are not kept, or guessing would drive out the others.
func (x *Service) keep(id note.UNID, k kept) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if k.Person.IsZero() {
		delete(x.kept, id)
		return
	}
	for other := range x.kept {
		if len(x.kept) < maxKept {
			break
		}
		delete(x.kept, other)
	}
	x.kept[id] = k
}

// over says whether a session's time is over, by what the settings say now.
func (x *Service) over(s *Session) bool {
	t := *s
	x.bound(&t)
	now := x.env.Clock.Now()
	return !now.Before(t.Ends) || !now.Before(s.Ends)
}

// touch writes down that a session is used.
func (x *Service) touch(ctx context.Context, id note.UNID, now time.Time) (s Session, err error) {
	err = x.update(ctx, func(w *store.Writer) error {
		at, err := w.Find(id)
		if err != nil {
			return err
		}
		var hash []byte
		if s, hash, err = readSession(&w.Reader, at); err != nil || s.Person.IsZero() || x.over(&s) {
			return errorOr(err, ErrNone)
		}
		s.Used = now
		x.bound(&s)
		return revise(w, at, s.items(hash))
	})
	if absent(err) {
		err = ErrNone
	}
	return s, err
}

func errorOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// absent says that a note is not there any more, or never was.
func absent(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave)
}

// List returns a person's sessions that are not over, the last used first; of the zero UNID, those of
// everybody, at most limit.
func (x *Service) List(ctx context.Context, person note.UNID, limit int) ([]Session, error) {
	var out []Session
	err := x.read(ctx, func(r *store.Reader) error {
		ids, err := list(r, indexSessions, person)
		for _, id := range ids {
			s, _, bad := readSession(r, id)
			if bad != nil {
				return errors.Join(err, bad)
			}
			if !x.over(&s) {
				out = append(out, s)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("session: list: %w", err)
	}
	sortByUse(out)
	return out[:min(len(out), limit)], nil
}

// End ends a session of a person; the zero UNID is anybody. Errors: ErrNone.
func (x *Service) End(ctx context.Context, person, id note.UNID) error {
	n, err := x.end(ctx, person, func(s *Session) bool { return s.ID == id })
	if err == nil && n == 0 {
		err = ErrNone
	}
	return err
}

// EndAll ends the sessions of a person but one, which may be the zero UNID, and says how many those were.
func (x *Service) EndAll(ctx context.Context, person, but note.UNID) (int, error) {
	return x.end(ctx, person, func(s *Session) bool { return s.ID != but })
}

func (x *Service) end(ctx context.Context, person note.UNID, which func(*Session) bool) (int, error) {
	if !x.there.Load() {
		return 0, nil
	}
	var gone []note.UNID
	err := x.update(ctx, func(w *store.Writer) error {
		gone = nil
		ids, err := list(&w.Reader, indexSessions, person)
		for _, id := range ids {
			s, _, bad := readSession(&w.Reader, id)
			if bad == nil && which(&s) {
				gone = append(gone, s.ID)
				bad = w.Destroy(id)
			}
			if bad != nil {
				return errors.Join(err, bad)
			}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("session: end: %w", err)
	}
	x.ended.Add(uint64(len(gone)))
	if len(gone) > 0 {
		x.endedHere(gone)
	}
	return len(gone), nil
}
