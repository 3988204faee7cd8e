// Package session stores the state that continues after a sign-in: the sessions of browsers, the used codes of second
// factors, the last uses of passkeys, and subscriptions to pushes. Each is one note in a database of its own. So they
// survive a restart and replicate like other data, and a sign-in does not change the directory.
//
// The database holds only a keyed hash of a session's token, and the note's id is derived from the token with the same
// key. A reader of the database cannot take over a session.
//
// In a cluster every member has a replica, so a person who signs in at one member is signed in at all. Nothing depends
// on the order in which changes reach a member. A session that was ended has a mark, a note that nobody edits and that
// outlives the session. Uses are recorded in coarse time steps, so that two members that record the same use write the
// same revision.
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

// ErrNone reports that a session does not exist: it never did, was ended, or has expired.
var ErrNone = errors.New("session: no session")

// Options are the settings. A zero value selects the default, in parentheses.
type Options struct {
	// Idle is the time after which an unused session expires (14 days). Life is the maximum life of a session (90
	// days).
	Idle, Life time.Duration
	// PerPerson is the maximum number of sessions of one person (50). A further one ends the session that was not used
	// for the longest time.
	PerPerson int
	// Subscriptions is the maximum number of push subscriptions of one person (50).
	Subscriptions int
	// Mates are the other members of the cluster, which are asked for sessions that have not been replicated here yet.
	// It is nil outside a cluster.
	Mates Mates
	Stats *stat.Tree
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

// touches is the number of time steps within Idle at which a session's use is recorded. A session expires at most a
// sixteenth of Idle too early.
const touches = 16

// Session is the session of a browser.
type Session struct {
	ID     note.UNID
	Person note.UNID
	// PasswordID identifies the password (directory.Person) with which the session began.
	PasswordID string
	// Passkey is the ID of the passkey (directory.Passkey) with which the session began, "" for a password.
	Passkey string
	// Issuer is the URL of the OpenID Connect issuer that signed the person in, "" for a password or a passkey.
	Issuer string
	// AuthTime is the time when the issuer authenticated the person, as it says; zero if it does not say, or without an
	// issuer.
	AuthTime time.Time
	// Second reports that the session began with a second factor. Keep reports that the browser keeps its cookie when
	// it is closed.
	Second, Keep bool
	// Created is the time when the session began. Used is the time of its last use, to within a sixteenth of
	// Options.Idle.
	Created, Used time.Time
	// Ends is the time when the session expires if it is not used again.
	Ends time.Time
	// Address and Agent identify the browser that began the session.
	Address, Agent string
	// After lists the notes that ended all sessions before this one began, see cuts.
	After string
}

// Proved returns the time when the person last proved who they are. A session of an issuer may begin long after that,
// because the issuer has sessions of its own; the time is zero, the distant past, if the issuer does not say.
func (s *Session) Proved() time.Time {
	if s.Issuer != "" {
		return s.AuthTime
	}
	return s.Created
}

// Service stores sessions. Its methods are safe for concurrent use.
type Service struct {
	*base
	*guesses
	*subscriptions
	*passkeys
	asked asked

	mu     sync.Mutex
	kept   map[note.UNID]kept
	enders []func([]note.UNID)

	begun, ended *stat.Counter
}

// base reads and changes the database of sessions. Every part of the service embeds it.
type base struct {
	s     *store.Store
	env   *env.Env
	key   []byte
	opt   Options
	place place

	// version increases with every change. A value read at an older version is outdated.
	version  atomic.Uint64
	watching sync.Mutex
	watchers []func()
}

// kept is a cached session.
type kept struct {
	Session
	hash    [32]byte
	version uint64
	// lent reports that the session came from a mate, because its note is not replicated to this server yet.
	lent bool
}

// maxKept is the maximum number of cached sessions, of about 400 bytes each.
const maxKept = 20_000

// Open opens the sessions of a store that was opened with Indexes. key is secret, and must be the same at every server
// of the domain.
func Open(s *store.Store, e *env.Env, key []byte, o Options) (*Service, error) {
	o.fill()
	b := &base{s: s, env: e, key: key, opt: o}
	x := &Service{base: b, guesses: &guesses{base: b}, subscriptions: &subscriptions{base: b},
		passkeys: &passkeys{base: b}, kept: make(map[note.UNID]kept)}
	x.begun = o.Stats.Counter("Sessions.Begun", "sessions of browsers begun")
	x.ended = o.Stats.Counter("Sessions.Ended", "sessions of browsers ended, by people or with their time")
	if err := x.openPlace(); err != nil {
		return nil, err
	}
	return x, nil
}

// Close stops watching the database. It does not close the store.
func (x *Service) Close() { x.place.unwatch() }

// Life returns the maximum life of a session.
func (x *Service) Life() time.Duration { return x.opt.Life }

// Version returns a number that differs after every change.
func (b *base) Version() uint64 { return b.version.Load() }

// OnChange registers fn to be called after every change. fn must not block and must not call the store.
func (b *base) OnChange(fn func()) {
	b.watching.Lock()
	defer b.watching.Unlock()
	b.watchers = append(b.watchers, fn)
}

// OnEnd registers fn to be called at once with sessions that are ended on this server. Sessions that are ended
// elsewhere or expire are reported by OnChange only.
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

// tokenBytes is the number of random bytes in a token.
const tokenBytes = 32

// maxToken is the maximum length of a text that is accepted as a token, in bytes.
const maxToken = 64

func (b *base) mac(use, text string) []byte {
	m := hmac.New(sha256.New, b.key)
	m.Write([]byte(use))
	m.Write([]byte{0})
	m.Write([]byte(text))
	return m.Sum(nil)
}

// idOf returns the id of a token's session.
func (x *Service) idOf(token string) note.UNID { return note.UNID(x.mac("id", token)[:16]) }

// CSRF returns the secret that a session's pages send with every change. A page of another site cannot know it.
func (x *Service) CSRF(token string) string {
	return base64.RawURLEncoding.EncodeToString(x.mac("csrf", token)[:24])
}

// CheckCSRF compares csrf with a session's secret in constant time.
func (x *Service) CheckCSRF(token, csrf string) bool {
	return hmac.Equal([]byte(x.CSRF(token)), []byte(csrf))
}

// Begin begins a session and returns its token, which is not stored. The caller sets Person, PasswordID, Passkey,
// Issuer, AuthTime, Second, Keep, Address and Agent.
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

// bound sets the time when the session expires.
func (x *Service) bound(s *Session) {
	s.Ends = s.Used.Add(x.opt.Idle)
	if last := s.Created.Add(x.opt.Life); last.Before(s.Ends) {
		s.Ends = last
	}
}

// makeRoom ends a person's least recently used sessions until there is room for one more.
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

// Find returns the session of a token, and records its use. from is the client's address, "" if unknown. It limits how
// often mates are asked for the token. Errors: ErrNone.
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
		// A full disk must not sign people out.
		x.env.Log.Warn("cannot store the use of a session", "error", err)
		return k.Session, nil
	}
	return s, err
}

// step returns the time at which a use is recorded. All members record the same time within a sixteenth of
// Options.Idle.
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

// stored reads a session. It returns the zero value if the session is not stored here or was ended.
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
		return kept{}, true, nil // the stub stays until all members know of the deletion
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

// keep caches a session. It does not cache failures, so that guessed tokens do not displace other sessions.
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

// over reports whether a session has expired, by its own expiry or by the current settings.
func (x *Service) over(s *Session) bool {
	t := *s
	x.bound(&t)
	now := x.env.Clock.Now()
	return !now.Before(t.Ends) || !now.Before(s.Ends)
}

// touch records that a session is used. The result depends only on the session and the time step.
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
			return nil // another update has just recorded it
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

// absent reports whether an error means that a note does not exist or was deleted.
func absent(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave)
}

// List returns at most limit of a person's sessions that have not ended or expired, the most recently used first. The
// zero UNID means everybody.
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
