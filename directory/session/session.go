// Package session keeps what people began with a sign-in and goes on after it: the sessions of browsers, the
// codes of a second factor that were used, and subscriptions to pushes. They stand in a database of their own,
// one note each, so that they survive a restart and replicate like everything else, and that a sign-in changes
// nothing in the directory.
//
// Of a session's token a keyed hash is stored, and the note's own id is made of the token: who reads the
// database can take over no session.
//
// In a cluster every member has a replica, so that who is signed in at one is at each. Nothing depends on the order in
// which changes reach a member: a session that was ended has a note that says so, which nobody edits and which outlives
// the session; uses are written down in coarse steps, so that two members that write one down write the same revision.
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
	// After names the ends of all sessions that it began after: see cuts.
	After string
}

// Service keeps sessions. Its methods may be called from any goroutine.
type Service struct {
	*base
	*guesses
	*subscriptions
	asked asked

	mu     sync.Mutex
	kept   map[note.UNID]kept
	enders []func([]note.UNID)

	begun, ended *stat.Counter
}

// base reads and changes the database of sessions; every part of the service has it.
type base struct {
	s     *store.Store
	env   *env.Env
	key   []byte
	opt   Options
	place place
	mates atomic.Pointer[Mates]

	// version grows with every change; a value that was read at an older version is outdated.
	version  atomic.Uint64
	watching sync.Mutex
	watchers []func()
}

// kept is a session in memory.
type kept struct {
	Session
	hash    [32]byte
	version uint64
	// lent says that a mate told of it, and its note has not come here yet.
	lent bool
}

// maxKept bounds the sessions in memory, of about 400 bytes.
const maxKept = 20_000

// Open opens the sessions of a store that was opened with Indexes. key is secret, and the same at every server
// of the domain.
func Open(s *store.Store, e *env.Env, key []byte, o Options) (*Service, error) {
	o.fill()
	b := &base{s: s, env: e, key: key, opt: o}
	x := &Service{base: b, guesses: &guesses{base: b}, subscriptions: &subscriptions{base: b}, kept: make(map[note.UNID]kept)}
	x.begun = o.Stats.Counter("Sessions.Begun", "sessions of browsers begun")
	x.ended = o.Stats.Counter("Sessions.Ended", "sessions of browsers ended, by people or with their time")
	if err := x.openPlace(); err != nil {
		return nil, err
	}
	return x, nil
}

// Close ends watching the database. The store stays open.
func (x *Service) Close() { x.place.unwatch() }

// Life is how long a session lasts at most.
func (x *Service) Life() time.Duration { return x.opt.Life }

// Version is another one after every change.
func (b *base) Version() uint64 { return b.version.Load() }

// OnChange has fn called after every change. fn must not block and must not call the store.
func (b *base) OnChange(fn func()) {
	b.watching.Lock()
	defer b.watching.Unlock()
	b.watchers = append(b.watchers, fn)
}

// OnEnd has fn called with sessions that are ended here, at once; of those that end elsewhere or with their time
// OnChange tells.
func (x *Service) OnEnd(fn func(ids []note.UNID)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.enders = append(x.enders, fn)
}

func (b *base) changed() {
	b.version.Add(1)
	b.watching.Lock()
	list := b.watchers
	b.watching.Unlock()
	for _, fn := range list {
		fn()
	}
}

// tokenBytes is the randomness of a token.
const tokenBytes = 32

// maxToken bounds what is looked at as a token, in bytes.
const maxToken = 64

func (b *base) mac(use, text string) []byte {
	m := hmac.New(sha256.New, b.key)
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
		err := x.makeRoom(w, s.Person)
		if err != nil {
			return err
		}
		if s.After, err = cuts(&w.Reader, s.Person); err != nil {
			return err
		}
		_, err = w.Create(store.New{UNID: s.ID, Content: note.Content{Items: s.items(x.mac("hash", token))}})
		return err
	})
	if err != nil {
		return "", Session{}, fmt.Errorf("session: begin: %w", err)
	}
	x.begun.Inc()
	return token, s, nil
}

func (b *base) now() time.Time { return b.env.Clock.Now().UTC().Truncate(time.Second) }

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
		err = x.endOne(w, ids[oldest])
		ids = append(ids[:oldest], ids[oldest+1:]...)
	}
	return err
}

// Find returns the session of a token, and writes down that it is used. from is the address that shows it, "" where that is
// not known: how often mates are asked for it is bounded. Errors: ErrNone.
func (x *Service) Find(ctx context.Context, token, from string) (Session, error) {
	if len(token) > maxToken {
		return Session{}, ErrNone
	}
	k, err := x.load(ctx, x.idOf(token), from)
	if err != nil {
		return Session{}, err
	}
	if !hmac.Equal(k.hash[:], x.mac("hash", token)) {
		return Session{}, ErrNone
	}
	now := x.step()
	if k.lent || !now.After(k.Used) {
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

// step is the time as uses are written down: all members write the same one within a sixteenth of Options.Idle.
func (x *Service) step() time.Time {
	return x.now().Truncate(max(time.Second, x.opt.Idle/touches))
}

// Get returns a session by its id. Errors: ErrNone.
func (x *Service) Get(ctx context.Context, id note.UNID) (Session, error) {
	k, err := x.load(ctx, id, "")
	return k.Session, err
}

func (x *Service) load(ctx context.Context, id note.UNID, from string) (kept, error) {
	x.adopt(ctx)
	version := x.version.Load()
	x.mu.Lock()
	k, ok := x.kept[id]
	x.mu.Unlock()
	if !ok || k.version != version {
		ended := false
		err := x.read(ctx, func(r *store.Reader) (err error) {
			k, ended, err = x.stored(r, id)
			return err
		})
		if err != nil {
			return k, fmt.Errorf("session: %w", err)
		}
		if k.Person.IsZero() && !ended {
			if k, err = x.ask(ctx, id, from); err != nil {
				return k, err
			}
		}
		k.version = version
		x.keep(id, k)
	}
	if k.Person.IsZero() || x.over(&k.Session) {
		return kept{}, ErrNone
	}
	return k, nil
}

// stored reads a session; the zero one is not here, or is ended.
func (x *Service) stored(r *store.Reader, id note.UNID) (k kept, ended bool, err error) {
	if ended, err = marked(r, id); ended || err != nil {
		return kept{}, ended, err
	}
	at, err := r.Find(id)
	if absent(err) {
		return kept{}, errors.Is(err, store.ErrGrave), nil
	}
	if err != nil {
		return kept{}, false, err
	}
	var hash []byte
	k.Session, hash, err = readSession(r, at)
	if absent(err) {
		return kept{}, true, nil // its stub waits until all members have heard of the deletion
	}
	if err != nil {
		return kept{}, false, err
	}
	if len(hash) == len(k.hash) {
		k.hash = [32]byte(hash)
	}
	if ended, err = endedWithAll(r, &k.Session); ended || err != nil {
		return kept{}, ended, err
	}
	return k, false, nil
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

// touch writes down that a session is used. What it writes follows from the session and the step of time alone.
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
		if !now.After(s.Used) {
			return nil // somebody has, just now
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
			ended, bad := over(r, &s)
			if bad != nil {
				return errors.Join(err, bad)
			}
			if !ended && !x.over(&s) {
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
