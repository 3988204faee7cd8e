package replica

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/note"
	"doublet/store"
)

// numbered lists a folder with its UIDs as clients see it; it must be equal at all replicas of a cluster.
func (x *server) numbered(db note.DatabaseID) []string {
	x.t.Helper()
	var out []string
	x.read(db, func(r *store.Reader) error {
		for _, f := range r.Folders() {
			out = append(out, fmt.Sprint("folder ", f.Name, " ", f.UIDValidity, " ", f.UIDNext, " ", f.Total,
				" ", f.Mod))
			x.must(r.Members(f.Note, 1, note.MaxUID, func(uid uint32, id note.ID) bool {
				n, err := r.Note(id)
				x.must(err)
				out = append(out, fmt.Sprint(f.Name, " ", uid, " ", n.UNID, " ", n.Mod))
				return true
			}))
		}
		return nil
	})
	slices.Sort(out)
	return out
}

// cluster is a home and its followers.
func clusterOf(t *testing.T, seed uint64, n int) []*server {
	t.Helper()
	home := newServer(t, fmt.Sprint("home", seed))
	home.make(testDB, store.Create{Title: "Mail", Kind: "mail"})
	home.must(home.update(testDB, func(w *store.Writer) error { _, err := w.CreateFolder("INBOX", ""); return err }))
	home.must(home.s.Share(context.Background(), testDB, 0))
	all := []*server{home}
	info, err := home.s.Info(testDB)
	home.must(err)
	for i := range n - 1 {
		x := newServer(t, fmt.Sprint("mate", i, seed))
		x.must(x.s.CreateReplica(note.System, info, uint8(i+1)))
		all = append(all, x)
	}
	return all
}

// TestCluster checks that followers over an unreliable line become equal to their home, numbers included.
func TestCluster(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			inCluster(t, seed)
		})
	}
}

func inCluster(t *testing.T, seed uint64) {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 77)), all: clusterOf(t, seed, 3)}
	home := w.all[0]
	ctx := context.Background()
	type way struct {
		from, to *server
		far      *Remote
		line     *lossy
		known    *Known
	}
	var ways []*way
	for _, a := range w.all {
		for _, b := range w.all {
			if a != b {
				far, line := b.far(note.System, w.rng, 0.06)
				x := &way{from: a, to: b, far: far, line: line}
				if seed%2 == 0 { // half of the runs use a Known, as the Cluster Replicators do
					x.known = &Known{}
				}
				ways = append(ways, x)
			}
		}
	}
	o := SendOptions{Most: 15_000, Objects: 150_000}
	send := func(x *way) (Result, error) {
		o.Known = x.known
		return Send(ctx, x.from.side(), x.far, testDB, o)
	}
	for range 120 {
		x := w.all[w.rng.IntN(3)]
		if x == home || w.rng.IntN(2) == 0 {
			w.step(home)
		} else {
			w.onFolder(x, func(name string) { x.deliver(testDB, name, letter(w.rng, 10+w.rng.IntN(70_000))) })
		}
		if _, err := send(ways[w.rng.IntN(len(ways))]); err != nil && !errors.Is(err, errLost) &&
			!errors.Is(err, ErrFormat) && !errors.Is(err, ErrBusy) && !errors.Is(err, store.ErrGap) &&
			!errors.Is(err, ErrMissing) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	for _, x := range ways {
		x.line.rate = 0
	}
	for range 4 {
		for _, x := range ways {
			if _, err := send(x); err != nil {
				t.Fatalf("seed %d: %s to %s at rest: %v", seed, x.from.name, x.to.name, err)
			}
		}
	}
	for _, x := range w.all[1:] {
		same(t, fmt.Sprint("seed ", seed), testDB, home, x)
		if a, b := home.numbered(testDB), x.numbered(testDB); !slices.Equal(a, b) {
			t.Fatalf("seed %d: numbers\n%v\n%v", seed, a, b)
		}
	}
	for _, x := range ways {
		if r, err := send(x); err != nil || r.Looked+r.Added+r.Updated+r.Deleted != 0 {
			t.Errorf("seed %d: %s to %s goes on at rest: %+v %v", seed, x.from.name, x.to.name, r, err)
		}
	}
	for _, x := range w.all {
		x.check()
	}
}

// TestClusterEcho checks that a delivery at a follower is sent to the home once and that its content is not sent back.
func TestClusterEcho(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, 99, 2)
	home, mate := all[0], all[1]
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(9, 9))
	toMate, back := mate.far(note.System, rng, 0)
	toHome, there := home.far(note.System, rng, 0)
	send := func(from *server, to Side) {
		t.Helper()
		_, err := Send(ctx, from.side(), to, testDB, SendOptions{})
		from.must(err)
	}
	send(home, toMate)
	mate.deliver(testDB, "INBOX", letter(rng, 20_000))
	there.bytes, back.bytes = 0, 0
	send(mate, toHome)
	if there.bytes < 20_000 {
		t.Fatalf("%d bytes took a letter of 20 KB there", there.bytes)
	}
	send(home, toMate)
	send(mate, toHome)
	if n := len(mate.places(testDB)["INBOX"]); n != 1 {
		t.Fatalf("%d messages at the follower", n)
	}
	t.Logf("%d bytes there, %d back", there.bytes, back.bytes)
	if back.bytes > 8000 {
		t.Errorf("the numbers of one message took %d bytes", back.bytes)
	}
}

// TestClusterGrave checks a mate with a pending change to a note that its home has deleted for good. The mate drops the
// change, and the home gets nothing to number.
func TestClusterGrave(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, 97, 3)
	home, mate, late := all[0], all[1], all[2]
	rng := rand.New(rand.NewPCG(9, 9))
	send := func(from, to *server) {
		t.Helper()
		_, err := Send(context.Background(), from.side(), to.side(), testDB, SendOptions{})
		from.must(err)
	}
	send(home, mate)
	send(home, late)
	mate.deliver(testDB, "INBOX", letter(rng, 2000))
	send(mate, late)
	send(mate, home)
	u, err := note.ParseUNID(home.places(testDB)["INBOX"][0])
	home.must(err)
	home.destroy(testDB, u)
	home.must(home.svc.Forget(context.Background(), testDB, late.replica()))
	home.must(home.update(testDB, func(w *store.Writer) error { return w.Peers.Set(late.replica(), 1<<40) }))
	home.must(home.update(testDB, func(w *store.Writer) error { return w.Peers.Set(mate.replica(), 1<<40) }))
	home.must(home.s.Maintain(context.Background(), testDB))
	home.read(testDB, func(r *store.Reader) error {
		if _, err := r.Find(u); !errors.Is(err, store.ErrGrave) {
			t.Fatalf("the home has it yet: %v", err)
		}
		return nil
	})
	pending := func() (p bool) {
		late.read(testDB, func(r *store.Reader) error { p = r.Position().Pending; return nil })
		return p
	}
	if !pending() {
		t.Fatal("the late mate waits for nothing")
	}
	send(late, home)
	if pending() {
		t.Error("the late mate waits yet")
	}
	send(home, late)
	send(home, mate)
	same(t, "buried", testDB, home, late)
	same(t, "buried", testDB, home, mate)
	late.check()
}

// TestClusterPending checks that a mate that waits for its home to number a change does not count as having the home's
// deletions.
func TestClusterPending(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, 96, 2)
	home, mate := all[0], all[1]
	rng := rand.New(rand.NewPCG(9, 9))
	send := func(from, to *server) {
		t.Helper()
		_, err := Send(context.Background(), from.side(), to.side(), testDB, SendOptions{})
		from.must(err)
	}
	given := func() uint64 {
		t.Helper()
		list, err := home.svc.History(context.Background())
		home.must(err)
		for _, x := range list {
			if x.Replica == mate.replica() {
				return x.Given
			}
		}
		return 0
	}
	send(home, mate)
	before := given()
	home.deliver(testDB, "INBOX", letter(rng, 2000))
	mate.deliver(testDB, "INBOX", letter(rng, 2000))
	send(home, mate)
	if got := given(); got != before {
		t.Errorf("it waits, and has passed %d, before %d", got, before)
	}
	send(mate, home)
	send(home, mate)
	if got := given(); got <= before {
		t.Errorf("it waits for nothing, and has passed %d, before %d", got, before)
	}
}

// TestClusterPoison checks that a bad note of the ledger is set aside while the others are numbered, and that it is
// applied once it is good.
func TestClusterPoison(t *testing.T) {
	t.Parallel()
	all := clusterOf(t, 98, 2)
	home, mate := all[0], all[1]
	rng := rand.New(rand.NewPCG(9, 9))
	for range 6 {
		home.deliver(testDB, "INBOX", letter(rng, 50_000))
	}
	p := &badLedger{Side: home.side()}
	r, err := Send(context.Background(), p, mate.side(), testDB, SendOptions{})
	home.must(err)
	if len(r.Refused) != 1 || len(mate.places(testDB)["INBOX"]) != 5 {
		t.Fatalf("%+v %v", r, mate.places(testDB))
	}
	p.healed = true
	if r, err = Send(context.Background(), p, mate.side(), testDB, SendOptions{}); err != nil || len(r.Refused) != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	same(t, "mended", testDB, home, mate)
	if a, b := home.numbered(testDB), mate.numbered(testDB); !slices.Equal(a, b) {
		t.Fatalf("numbers\n%v\n%v", a, b)
	}
	mate.check()
}

// badLedger corrupts the recipe of one message.
type badLedger struct {
	Side
	healed bool
	bad    note.UNID
}

func (p *badLedger) Ledger(ctx context.Context, db note.DatabaseID, since store.Position, again []note.UNID,
	most int64) (*LedgerPage, error) {
	page, err := p.Side.Ledger(ctx, db, since, again, most)
	if err != nil || p.healed {
		return page, err
	}
	for _, list := range [][]store.Numbered{page.Notes, page.Again} {
		for i := range list {
			if len(list[i].Message) == 0 {
				continue
			}
			if p.bad.IsZero() {
				p.bad = list[i].UNID
			}
			if list[i].UNID == p.bad {
				list[i].Message = slices.Clone(list[i].Message)
				list[i].Message[len(list[i].Message)-4] ^= 1
			}
		}
	}
	return page, nil
}
