// Package sim simulates a cluster of servers in one thread: real stores, directories, replication and cluster nodes, a
// bus in memory, file systems in memory that lose unflushed data in a crash, and a clock for each server. The seed
// determines messages, clocks, crashes, network faults and restarts. Background work of the storage engine is not
// deterministic, but it does not affect results. At the end of a run, when all faults are repaired and the cluster is
// idle, all replicas must be equal and every acknowledged change must be there.
package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"doublet/bus"
	"doublet/bus/memory"
	"doublet/cluster"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
)

// Config holds the parameters of a run. The seed determines parameters that are zero.
type Config struct {
	Seed uint64
	// Servers is the number of servers, 2 to 7.
	Servers int
	// Ticks is the length of the phase with faults, in steps of 100 ms.
	Ticks int
	// Calm disables faults. NoFolders disables changes of folders.
	Calm, NoFolders bool
}

// failure is the panic value that ends a failed run.
type failure struct{ text string }

// world is the state of one run.
type world struct {
	Config
	ctx  context.Context
	rng  *rand.Rand
	net  *memory.Network
	now  time.Time
	tick int
	log  []string

	servers []*server
	clients []*client
	boxes   []*box
	users   *users
	faults  *faults
	shown   map[shown]string // the EmailId that each UID was seen with
	quiet   bool
	// browsers makes every server keep browser sessions.
	browsers bool
	// offices makes every server run mail, calendars and scheduling.
	offices  bool
	older    bool                 // the servers start with the previous version of the program
	metered  func(memory.Message) // called for each message sent
	stood    map[string]string    // the last state logged by watch, by replica
	differed note.DatabaseID      // the database whose replicas differed in the last comparison
	stats    Result
}

type percent int

// Result holds the counts of a run.
type Result struct {
	Servers, Databases, Delivered, Degraded, Flags, Moves, Expunges, Edits, Syncs                    int
	Crashes, Cuts, DiskLosses, FullDisks, Restores, TakeOvers, HandOvers, StepDowns, Joined, Removed int
	// Quiet is the time from the end of the faults until all replicas were equal.
	Quiet time.Duration
}

func newWorld(c Config) *world {
	w := &world{Config: c, ctx: context.Background(), rng: rand.New(rand.NewPCG(c.Seed, 0x51)), now: env.TestStart,
		shown: map[shown]string{}}
	w.users, w.faults = &users{world: w, byEmail: map[string]*mail{}}, &faults{world: w}
	return w
}

// Run runs one seed. The error describes the first broken promise, and log the events before it.
func Run(c Config) (res Result, log []string, err error) {
	w := newWorld(c)
	defer func() {
		r := recover()
		res, log = w.stats, w.log
		w.end(r != nil)
		if r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = errors.New(f.text)
		}
	}()
	w.run()
	return w.stats, w.log, nil
}

// end stops all servers. After a failure a server may be in an undefined state, so panics are ignored then.
func (w *world) end(failed bool) {
	for _, s := range w.servers {
		func() {
			defer func() {
				if r := recover(); r != nil && !failed {
					panic(r)
				}
			}()
			s.stop()
		}()
	}
}

// maxLog is the maximum number of log lines kept.
const maxLog = 4000

func (w *world) logf(format string, args ...any) {
	if len(w.log) >= maxLog {
		w.log = w.log[maxLog/4:]
	}
	w.log = append(w.log, fmt.Sprintf("%8.1f  ", w.now.Sub(env.TestStart).Seconds())+fmt.Sprintf(format, args...))
}

// failf ends the run with a failure.
func (w *world) failf(format string, args ...any) {
	w.explain()
	w.logf("FAILED: "+format, args...)
	panic(failure{fmt.Sprintf(format, args...)})
}

func (w *world) must(err error, what string) {
	if err != nil {
		w.failf("%s: %v", what, err)
	}
}

func (w *world) chance(p percent) bool { return w.rng.IntN(100) < int(p) }

func pick[T any](w *world, list []T) T { return list[w.rng.IntN(len(list))] }

// between returns a random number from lo to hi.
func (w *world) between(lo, hi int) int { return lo + w.rng.IntN(hi-lo+1) }

func (w *world) run() {
	if w.Servers == 0 {
		w.Servers = []int{2, 2, 3, 3, 3, 4, 5, 7}[w.rng.IntN(8)]
	}
	if w.Ticks == 0 {
		w.Ticks = w.between(200, 1500)
	}
	w.stats.Servers = w.Servers
	w.net = memory.New(&env.Env{Clock: worldClock{w}}, w.faults.fate)
	w.form()
	w.users.furnish()
	w.logf("%d servers, %d databases, %d clients, %d ticks", len(w.servers), len(w.boxes), len(w.clients), w.Ticks)
	for range w.Ticks {
		w.advance(100 * time.Millisecond)
		if !w.Calm {
			w.faults.trouble()
		}
		w.users.work()
		w.drive()
	}
	w.settleDown()
	w.verify()
}

// worldClock is the clock of the network. It shows the world's time and never fires timers.
type worldClock struct{ w *world }

func (c worldClock) Now() time.Time                       { return c.w.now }
func (c worldClock) After(time.Duration) <-chan time.Time { return make(chan time.Time) }
func (c worldClock) AfterFunc(time.Duration, func()) (stop func() bool) {
	return func() bool { return true }
}
func (c worldClock) Sleep(time.Duration) {}

// advance advances all clocks by d. The clocks differ by seconds or by an hour, and all run at the same speed.
func (w *world) advance(d time.Duration) {
	w.tick++
	w.now = w.now.Add(d)
	for _, s := range w.servers {
		s.clock.Advance(d)
	}
}

// fate decides what happens to a message.
func (f *faults) fate(m memory.Message) memory.Fate {
	if f.metered != nil {
		f.metered(m)
	}
	if f.quiet {
		return memory.Deliver
	}
	switch {
	case f.chance(f.loss):
		return memory.Lose
	case m.Kind == memory.Request && f.chance(f.loss/4):
		return memory.Twice
	case m.Kind == memory.Request && f.chance(f.loss/4):
		return memory.Delay
	}
	return memory.Deliver
}

// up lists the running servers.
func (w *world) up() []*server {
	var out []*server
	for _, s := range w.servers {
		if s.node != nil {
			out = append(out, s)
		}
	}
	return out
}

// drive runs the steps of all nodes in a random order.
func (w *world) drive() {
	list := w.up()
	w.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, s := range list {
		if s.node == nil || s.slow && w.chance(70) {
			continue
		}
		if (w.tick+s.number)%5 == 0 || w.chance(5) {
			s.node.Probe(w.ctx)
		}
		s.decide()
		s.replicate()
		s.openDirectory()
		s.clerk()
		w.watch()
	}
	if n := w.net.Delayed(); n > 0 && w.chance(20) {
		w.net.Release(w.rng.IntN(n))
	}
}

// form creates the servers and forms a cluster of them.
func (w *world) form() {
	for i := range w.Servers {
		w.servers = append(w.servers, w.newServer(i))
	}
	first := w.servers[0]
	w.must(first.boot(), "start the first server")
	w.must(cluster.Found(first.store), "found the cluster")
	for _, s := range w.servers {
		doc, err := first.dir.Servers.Add(w.ctx, note.System,
			directory.ServerFields{Name: s.name, Host: s.name + ".example.com"})
		w.must(err, "server document")
		s.id = doc.ID
		w.must(cluster.SetMember(w.ctx, first.store, note.System, s.id, func(m *cluster.Member) error {
			m.Cluster, m.State, m.Direct = clusterName, cluster.Active, s.name+":7222"
			return nil
		}), "member")
	}
	first.stop()
	for _, s := range w.servers {
		w.must(s.boot(), "start "+s.name)
	}
	w.wait("the cluster forms", 120, func() string {
		for _, s := range w.servers {
			if s.dir == nil {
				return s.name + " has no directory"
			}
			if !s.node.Status().Serving {
				return s.name + " does not serve"
			}
		}
		return ""
	})
}

// wait drives the cluster until wrong returns "", and fails the run after the given number of simulated seconds.
func (w *world) wait(what string, seconds int, wrong func() string) {
	last := ""
	for range seconds * 5 {
		w.advance(200 * time.Millisecond)
		w.drive()
		if last = wrong(); last == "" {
			return
		}
	}
	w.failf("%s: not after %d s: %s", what, seconds, last)
}

// explain logs the state of all servers.
func (w *world) explain() {
	for _, s := range w.servers {
		if s.node == nil {
			w.logf("%s is down", s.name)
			continue
		}
		st := s.node.Status()
		w.logf("%s: serving %v, %d databases, %d led, %d homeless, %d waiting", s.name, st.Serving, st.Databases,
			st.Led, st.Homeless, st.Waiting)
		for _, m := range st.Members {
			if !m.Self {
				w.logf("  %s sees %s: alive %v, serving %v, waiting %d %s", s.name, m.Name, m.Alive, m.Serving,
					m.Waiting, m.Error)
			}
		}
		for _, line := range s.node.Explain() {
			w.logf("  %s %s", s.name, line)
		}
	}
}

const clusterName = "sim"

// members lists all servers for use as seeds.
func (w *world) members() []cluster.Member {
	var out []cluster.Member
	for _, s := range w.servers {
		if !s.id.IsZero() {
			out = append(out, cluster.Member{Member: bus.Member{ID: s.id, Name: s.name}, Cluster: clusterName,
				State: cluster.Active})
		}
	}
	return out
}

// logHandler writes the log of a server to the log of the run.
type logHandler struct {
	s     *server
	attrs []slog.Attr
}

func (h *logHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "cluster: ") && !(h.s.w.offices && strings.HasPrefix(r.Message, "mail: ")) {
		return nil // other packages may log from their own goroutines
	}
	var b strings.Builder
	add := func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.s.w.logf("%s: %s%s", h.s.name, strings.TrimPrefix(r.Message, "cluster: "), h.s.w.names(b.String()))
	return nil
}

func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logHandler{h.s, slices.Concat(h.attrs, attrs)}
}

func (h *logHandler) WithGroup(string) slog.Handler { return h }

// names replaces ids of servers and databases by their names.
func (w *world) names(text string) string {
	for _, s := range w.servers {
		if !s.id.IsZero() {
			text = strings.ReplaceAll(text, s.id.String(), s.name)
		}
	}
	for _, b := range w.boxes {
		text = strings.ReplaceAll(text, b.id.String(), b.title)
	}
	return text
}
