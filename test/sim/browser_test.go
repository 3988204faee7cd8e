package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"doublet/directory/session"
	"doublet/note"
	"doublet/test/long"
)

// surfing returns a world whose servers keep browser sessions.
func surfing(seed uint64, servers int) *world {
	w := alone(seed, servers)
	w.browsers = true
	return w
}

// shared waits until all servers have the cluster's database of sessions.
func (w *world) shared() {
	w.wait("the sessions are shared", 60, func() string {
		for _, s := range w.up() {
			if _, err := s.browsers.Find(w.ctx, "nobody's", ""); !errors.Is(err, session.ErrNone) {
				return err.Error()
			}
			if !s.browsers.Shared() || !s.node.Filled(session.SharedID) {
				return s.name + " has sessions of its own"
			}
		}
		return ""
	})
}

func (w *world) signIn(s *server, person byte) (string, session.Session) {
	token, x, err := s.browsers.Begin(w.ctx, session.Session{Person: note.UNID{person}, PasswordID: "p"})
	w.must(err, "sign in at "+s.name)
	return token, x
}

// good checks that a server accepts a token, or rejects it if want is false.
func (w *world) good(s *server, token string, want bool) {
	x, err := s.browsers.Find(w.ctx, token, "192.0.2.1")
	if err != nil && !errors.Is(err, session.ErrNone) {
		w.failf("a token at %s: %v", s.name, err)
	}
	if (err == nil) != want {
		w.failf("a token is good at %s: %v, should be %v", s.name, err == nil, want)
	}
	if err == nil && !s.browsers.CheckCSRF(token, w.servers[0].csrf(token)) {
		w.failf("the token for pages is another one at %s: %s", s.name, x.ID)
	}
}

func (s *server) csrf(token string) string {
	for _, o := range s.w.up() {
		return o.browsers.CSRF(token)
	}
	return ""
}

func (s *server) isolate(cut bool) {
	for _, o := range s.w.servers {
		if o == s {
			continue
		}
		if cut {
			s.w.net.Cut(s.id, o.id)
			s.w.net.Cut(o.id, s.id)
		} else {
			s.w.net.Heal(s.id, o.id)
			s.w.net.Heal(o.id, s.id)
		}
	}
}

// TestBrowserSessions checks that a person who signs in at one server is signed in at all at once, and stays so if that
// server dies. If the person signs out at one server while another is disconnected, the other one ends the session too
// when it is back, even if it has recorded a later use.
func TestBrowserSessions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 6)) {
		w := surfing(seed+1, 3)
		guarded(t, w, func() {
			a, b, c := w.servers[0], w.servers[1], w.servers[2]
			w.shared()
			token, x := w.signIn(a, 1)
			w.good(b, token, true) // before replication in the background
			w.good(c, token, true)
			w.wait("quiet", 60, w.different)
			w.good(c, token, true)

			// A session that is not here yet is requested from its server; it can be ended here.
			other, y := w.signIn(a, 1)
			w.must(b.browsers.End(w.ctx, note.UNID{1}, y.ID), "end")
			for _, s := range w.servers {
				if s != a { // a has not received the end of the session yet
					w.good(b, other, false)
				}
			}
			w.wait("quiet", 60, w.different)
			for _, s := range w.servers {
				w.good(s, other, false)
			}

			a.crash()
			w.wait("the others notice", 60, func() string {
				if b.node.Status().Homeless+c.node.Status().Homeless > 0 {
					return "a database has no home"
				}
				return ""
			})
			w.good(b, token, true)
			w.good(c, token, true)
			w.must(b.browsers.End(w.ctx, note.UNID{1}, x.ID), "end")
			w.faults.start(a)
			w.shared()
			w.wait("quiet", 60, w.different)
			w.good(a, token, false)

			// A session is used on one side of a split, more than an hour after its start, and ended on the other side.
			token, x = w.signIn(b, 2)
			all, _ := w.signIn(b, 3)
			keep, kept := w.signIn(b, 3)
			w.wait("quiet", 60, w.different)
			a.isolate(true)
			w.advance(browserIdle / 16)
			w.good(a, token, true)
			w.good(a, all, true)
			alone, _ := w.signIn(a, 3)
			w.advance(2 * time.Minute)
			w.must(b.browsers.End(w.ctx, note.UNID{2}, x.ID), "end")
			if n, err := b.browsers.EndAll(w.ctx, note.UNID{3}, kept.ID); n != 1 || err != nil {
				w.failf("%d ended, %v", n, err)
			}
			after, _ := w.signIn(b, 3)
			for range 3 {
				w.advance(browserIdle / 16)
				w.drive()
				w.good(a, token, true) // it has not received the end yet
				w.good(b, token, false)
			}
			a.isolate(false)
			w.shared()
			w.wait("quiet", 120, w.different)
			for _, s := range w.servers {
				w.good(s, token, false)
				w.good(s, all, false)
				w.good(s, keep, true)
				w.good(s, after, true)
				if skew := a.clock.Now().Sub(b.clock.Now()); skew < time.Minute && skew > -time.Minute {
					w.good(s, alone, false) // started before all sessions were ended
				}
			}
		})
	}
}

// TestBrowserCodes checks that a cluster accepts a second-factor code once, even if it is used at several servers at
// the same time.
func TestBrowserCodes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 6)) {
		w := surfing(seed+1, 3)
		guarded(t, w, func() {
			w.shared()
			w.wait("a home is known everywhere", 60, func() string {
				for _, s := range w.servers {
					if _, err := s.node.Opens.Where(w.ctx, session.SharedID); err != nil {
						return err.Error()
					}
				}
				return ""
			})
			for step := range int64(5) {
				step += w.now.Unix() / 30
				fresh := 0
				for _, i := range w.rng.Perm(len(w.servers)) { // no replication in between
					ok, err := w.servers[i].browsers.UseCode(w.ctx, note.UNID{1}, step)
					w.must(err, "use a code")
					if ok {
						fresh++
					}
				}
				if fresh != 1 {
					w.failf("a code was taken %d times", fresh)
				}
			}
		})
	}
}

// TestBrowserUpgrade upgrades servers that have local sessions one by one. Signed-in people stay signed in, and finally
// their sessions are accepted at every server.
func TestBrowserUpgrade(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 6)) {
		w := surfing(seed+1, 3)
		w.older = true
		guarded(t, w, func() {
			restart := func(s *server, older bool) {
				s.crash()
				s.older = older
				w.faults.start(s)
				w.wait("it serves again", 60, func() string {
					if !s.node.Status().Serving {
						return s.name
					}
					return ""
				})
				for range 50 {
					w.advance(100 * time.Millisecond)
					w.drive()
				}
			}
			tokens := []string{}
			for _, s := range w.servers {
				token, _ := w.signIn(s, byte(10+s.number))
				tokens = append(tokens, token)
			}
			for i, s := range w.servers {
				restart(s, false)
				w.good(s, tokens[i], true)
			}
			w.shared()
			w.wait("quiet", 120, w.different)
			for _, s := range w.servers {
				for _, token := range tokens {
					w.good(s, token, true)
				}
				if _, err := s.store.Info(session.ID); err == nil {
					w.failf("%s keeps sessions of its own", s.name)
				}
			}
			// One server is downgraded and upgraded again while the others continue.
			restart(w.servers[1], true)
			token, _ := w.signIn(w.servers[0], 20)
			restart(w.servers[1], false)
			w.shared()
			w.wait("quiet", 120, w.different)
			w.good(w.servers[1], token, true)
		})
	}
}

// browser is a session in a world with faults.
type browser struct {
	token  string
	of     session.Session
	begun  *server
	ended  bool // its end was acknowledged
	unsure bool // it may have been ended: the answer was lost, or all sessions of the person were ended
}

// surfers holds the sessions of such a world. cut is the latest time, by the clock of the server involved, at which all
// sessions of a person were ended.
type surfers struct {
	list []*browser
	cut  map[note.UNID]time.Time
}

// TestBrowserTrouble uses and ends sessions at random servers while servers crash and the network fails. Finally all
// replicas are equal, ended sessions are accepted nowhere, and all others everywhere.
func TestBrowserTrouble(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(3, 12)) {
		w := surfing(seed+1, 2+int(seed%3))
		guarded(t, w, func() { w.surf() })
	}
}

func (w *world) surf() {
	w.shared()
	x := &surfers{cut: map[note.UNID]time.Time{}}
	for w.tick < 700 {
		w.advance(100 * time.Millisecond)
		for _, s := range w.servers {
			if s.node == nil && w.tick >= s.until {
				w.faults.start(s)
			}
		}
		switch w.rng.IntN(60) {
		case 0:
			w.faults.crashOne()
		case 1:
			w.faults.cutSome()
		case 2, 3:
			w.faults.healAll()
		case 4:
			w.advance(20 * time.Minute)
		}
		if up := w.up(); len(up) > 0 {
			w.surfSome(pick(w, up), x)
		}
		w.drive()
	}
	w.settleDown()
	for _, b := range x.list {
		for _, s := range w.servers {
			if !b.unsure {
				w.good(s, b.token, !b.ended)
			}
		}
	}
	w.logf("%d sessions", len(x.list))
}

func (w *world) surfSome(s *server, all *surfers) {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	n := w.rng.IntN(20)
	if n < 4 || len(all.list) == 0 {
		token, x, err := s.browsers.Begin(ctx, session.Session{Person: note.UNID{byte(1 + w.rng.IntN(4))}})
		if err == nil {
			// A server whose clock is slow and that has not heard of the EndAll creates a session with a start time
			// before it.
			all.list = append(all.list, &browser{token: token, of: x, begun: s,
				unsure: x.Created.Before(all.cut[x.Person])})
		}
		return
	}
	b := pick(w, all.list)
	switch {
	case n < 16:
		_, err := s.browsers.Find(ctx, b.token, "192.0.2.1")
		if err == nil && b.ended && s == b.begun {
			w.failf("a session is back that was ended at %s", s.name)
		}
	case n < 19:
		err := s.browsers.End(ctx, b.of.Person, b.of.ID)
		switch {
		case err == nil:
			b.ended, b.begun = true, s
		case !errors.Is(err, session.ErrNone):
			b.unsure = true
		}
	default:
		_, err := s.browsers.EndAll(ctx, b.of.Person, b.of.ID)
		if now := s.clock.Now(); now.After(all.cut[b.of.Person]) {
			all.cut[b.of.Person] = now
		}
		for _, o := range all.list {
			switch {
			case o.of.Person != b.of.Person || o == b:
			case err == nil && o.begun == s:
				o.ended = true
			case !o.ended:
				o.unsure = true
			}
		}
	}
}
