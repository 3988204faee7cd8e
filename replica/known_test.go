package replica

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// asked is a Carrier that counts requests and can lose answers.
type asked struct {
	Carrier
	verbs map[string]int
	// lose is the verb whose next answer is lost.
	lose string
}

func (a *asked) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	a.verbs[verb]++
	answer, err := a.Carrier.Call(ctx, verb, body)
	if verb == a.lose {
		a.lose = ""
		return nil, errLost
	}
	return answer, err
}

func (a *asked) took(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := slices.Sorted(maps.Keys(a.verbs)); !slices.Equal(got, want) {
		t.Errorf("%s asked %v, want %v", what, a.verbs, want)
	}
	for v, n := range a.verbs {
		if n != 1 && len(want) > 0 {
			t.Errorf("%s asked %d times %s", what, n, v)
		}
	}
	clear(a.verbs)
}

// known is one direction between two servers, with a Known.
type known struct {
	from *server
	line *asked
	far  *Remote
	Known
}

func knownWay(from, to *server) *known {
	l := &asked{Carrier: Served{Side: to.side()}, verbs: map[string]int{}}
	return &known{from: from, line: l, far: NewRemote(l)}
}

func (k *known) send() (Result, error) {
	return Send(context.Background(), k.from.side(), k.far, testDB, SendOptions{Known: &k.Known})
}

func (k *known) must() Result {
	k.from.t.Helper()
	r, err := k.send()
	k.from.must(err)
	return r
}

// TestKnown checks that a Send with a Known takes one request for a change, in either direction, and none without
// changes.
func TestKnown(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, 31, 2)
	home, mate := all[0], all[1]
	rng := rand.New(rand.NewPCG(3, 1))
	down, up := knownWay(home, mate), knownWay(mate, home)
	down.must()
	up.must()
	home.deliver(testDB, "INBOX", letter(rng, 3000))
	mate.deliver(testDB, "INBOX", letter(rng, 3000))
	for range 4 {
		up.must()
		down.must()
	}
	clear(up.line.verbs)
	clear(down.line.verbs)
	down.must()
	down.line.took(t, "nothing down")
	up.must()
	up.line.took(t, "nothing up")

	home.deliver(testDB, "INBOX", letter(rng, 3000))
	if r := down.must(); r.Added != 1 {
		t.Errorf("%+v", r)
	}
	down.line.took(t, "a delivery at the home", verbApplyLedger)
	mate.deliver(testDB, "INBOX", letter(rng, 3000))
	if r := up.must(); r.Added != 1 {
		t.Errorf("%+v", r)
	}
	up.line.took(t, "a delivery at the follower", verbApply)
	down.must()
	down.line.took(t, "its numbers", verbApplyLedger)
	same(t, "at rest", testDB, home, mate)
	if a, b := home.numbered(testDB), mate.numbered(testDB); !slices.Equal(a, b) {
		t.Errorf("numbers\n%v\n%v", a, b)
	}
	// A change to a note that the other side already had: the target is asked, because the content need not travel.
	mate.must(mate.update(testDB, func(w *store.Writer) error {
		var last note.ID
		err := w.Notes(1, func(id note.ID, n *layout.Note) bool {
			if n.Class != note.Folder {
				last = id
			}
			return true
		})
		return errors.Join(err, w.SetKeyword(last, "$Forwarded", true))
	}))
	up.must()
	if up.line.verbs[verbWants] != 1 || up.line.verbs[verbHello] != 0 {
		t.Errorf("a flag at the follower asked %v", up.line.verbs)
	}
	// The home is told now and then how far it has come; it needs that if the follower loses its record.
	clear(up.line.verbs)
	for range markKnown {
		mate.deliver(testDB, "INBOX", letter(rng, 100))
		up.must()
	}
	if n := up.line.verbs[verbMark]; n != 1 {
		t.Errorf("%d marks in %d sends", n, markKnown)
	}
}

// TestKnownWrongly checks that outdated entries in a Known lose and duplicate nothing.
func TestKnownWrongly(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]func(t *testing.T, all []*server, down, up *known){
		"an answer was lost": func(t *testing.T, all []*server, down, up *known) {
			down.line.lose, up.line.lose = verbApplyLedger, verbApply
			for _, w := range []*known{down, up} {
				if _, err := w.send(); !errors.Is(err, errLost) {
					t.Error(err)
				}
				clear(w.line.verbs)
			}
			up.must()
			if up.line.verbs[verbHello] == 0 {
				t.Error("after a lost answer the target was not asked")
			}
		},
		"another brought the page": func(t *testing.T, all []*server, down, up *known) {
			other := knownWay(all[0], all[1])
			other.must()
			all[0].deliver(testDB, "INBOX", letter(rand.New(rand.NewPCG(1, 1)), 100))
			clear(down.line.verbs)
			down.must()
			if down.line.verbs[verbHello] == 0 {
				t.Errorf("a page that did not fit: %v", down.line.verbs)
			}
		},
		"the target stands elsewhere": func(t *testing.T, all []*server, down, up *known) {
			down.g.Position.Last -= 3 // as if the target had fewer changes
			up.g.Seen.Seq = 0
		},
		"the target was set back": func(t *testing.T, all []*server, down, up *known) {
			down.g.Position.Last = down.g.Position.Last + 1<<20
			down.must()
			down.Forget()
		},
		"the home has changed": func(t *testing.T, all []*server, down, up *known) {
			ctx := context.Background()
			up.must()
			down.must()
			all[0].must(all[0].s.Follow(ctx, testDB))
			down.must()
			g, err := all[0].side().Hello(ctx, testDB, Peer{})
			all[0].must(err)
			all[1].must(all[1].s.Lead(ctx, testDB, store.LeadOptions{HandOver: &g.Position}))
			all[1].deliver(testDB, "INBOX", letter(rand.New(rand.NewPCG(1, 2)), 100))
			all[0].deliver(testDB, "INBOX", letter(rand.New(rand.NewPCG(1, 3)), 100))
		},
		"both lead": func(t *testing.T, all []*server, down, up *known) {
			ctx := context.Background()
			all[1].must(all[1].s.Lead(ctx, testDB, store.LeadOptions{}))
			all[1].deliver(testDB, "INBOX", letter(rand.New(rand.NewPCG(1, 4)), 100))
			for _, w := range []*known{down, up} {
				if _, err := w.send(); !errors.Is(err, ErrSplit) && !errors.Is(err, store.ErrParted) {
					t.Errorf("%v", err)
				}
			}
			g, err := all[1].side().Hello(ctx, testDB, Peer{})
			all[0].must(err)
			all[0].must(all[0].s.StepDown(ctx, testDB, g.Position))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := clusterOf(t, 33, 2)
			home, mate := all[0], all[1]
			rng := rand.New(rand.NewPCG(3, 1))
			down, up := knownWay(home, mate), knownWay(mate, home)
			down.must()
			for range 3 {
				home.deliver(testDB, "INBOX", letter(rng, 3000))
				mate.deliver(testDB, "INBOX", letter(rng, 3000))
				up.must()
				down.must()
			}
			home.deliver(testDB, "INBOX", letter(rng, 50_000))
			mate.deliver(testDB, "INBOX", letter(rng, 50_000))
			happens(t, all, down, up)
			for range 3 {
				up.must()
				down.must()
			}
			same(t, name, testDB, home, mate)
			if a, b := home.numbered(testDB), mate.numbered(testDB); !slices.Equal(a, b) {
				t.Errorf("numbers\n%v\n%v", a, b)
			}
			home.check()
			mate.check()
		})
	}
}

// TestKnownAside checks that a Known keeps nothing for a target that has set a note aside: the target is asked, and the
// note retried.
func TestKnownAside(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, 35, 2)
	home, mate := all[0], all[1]
	rng := rand.New(rand.NewPCG(3, 1))
	k := knownWay(home, mate)
	k.must()
	k.must()
	home.deliver(testDB, "INBOX", letter(rng, 50_000))
	home.deliver(testDB, "INBOX", letter(rng, 50_000))
	r, err := Send(context.Background(), &badLedger{Side: home.side()}, k.far, testDB, SendOptions{Known: &k.Known})
	if err != nil || len(r.Refused) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	if n := len(mate.places(testDB)["INBOX"]); n != 1 {
		t.Errorf("%d messages came with a bad one", n)
	}
	clear(k.line.verbs)
	k.must()
	if k.line.verbs[verbHello] == 0 {
		t.Errorf("the target was not asked: %v", k.line.verbs)
	}
	if n := len(mate.places(testDB)["INBOX"]); n != 2 {
		t.Errorf("%d messages at last", n)
	}
}
