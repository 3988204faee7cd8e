package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/admin"
	"doublet/cluster"
)

// title returns the full name of person i, which is also the title of his mail file.
func title(i int) string { return fmt.Sprintf("Bench mail%d", i+1) }

// people creates the users: at the first server of a cluster, or each at his own server without one.
func (b *Builder) people(ctx context.Context, l *Lab, o Options) error {
	const workers = 4
	var (
		mu    sync.Mutex
		next  int
		first error
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		if next++; next%50 == 0 {
			b.Progress(false, "lab: people: %d of %d", next, l.People)
		}
		return next - 1, next <= l.People && first == nil
	}
	users := l.Users()
	one := func(i int) error {
		s := l.Servers[0]
		if !l.Clustered {
			s = l.Servers[users[i].Server]
		}
		u := &users[i]
		_, err := ask[admin.User](ctx, s, "user add",
			admin.UserAdd{Name: title(i), Short: u.Name, Address: u.Address, Password: u.Password})
		if err == nil && o.Acknowledge != "" {
			_, err = ask[admin.Database](ctx, s, "db set",
				admin.DatabaseSet{Name: u.Name, Acknowledge: &o.Acknowledge})
		}
		return err
	}
	var all sync.WaitGroup
	for range workers {
		all.Add(1)
		b.Env.Go("lab people", func() {
			defer all.Done()
			for i, ok := take(); ok; i, ok = take() {
				if err := one(i); err != nil {
					mu.Lock()
					first = errors.Join(first, err)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	return first
}

// placeLimit is the time limit for the placement of mail files, and for the servers to process everything that waits;
// lookEvery the interval of the checks.
const (
	placeLimit = 5 * time.Minute
	lookEvery  = 100 * time.Millisecond
)

// place moves every mail file to its servers and its home, and waits until all replicas are complete.
func (l *Lab) place(ctx context.Context, progress func(bool, string, ...any)) error {
	if !l.Clustered {
		return nil
	}
	why := ""
	for until := l.env.Clock.Now().Add(placeLimit); l.env.Clock.Now().Before(until); l.env.Clock.Sleep(lookEvery) {
		left, err := l.placeSome(ctx)
		if err == nil && left == 0 {
			return l.Settle(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if why = fmt.Sprintf("%d mail files are not in their places", left); err != nil {
			why = err.Error()
		}
		progress(false, "lab: %s yet", why)
	}
	return fmt.Errorf("lab: after %v %s", placeLimit, why)
}

// placeSome does the next step for each mail file and counts those that are not placed yet.
func (l *Lab) placeSome(ctx context.Context) (left int, err error) {
	list, err := l.databases(ctx)
	if err != nil {
		return 0, err
	}
	for i := range l.People {
		db, ok := list[title(i)]
		if !ok {
			left++
			continue
		}
		done, err := l.placeOne(ctx, &db, l.config.replicas(i))
		if err != nil {
			return left, err
		}
		if !done {
			left++
		}
	}
	return left, nil
}

// databases returns the mail files by title. It asks every server, because a server knows only the homes of databases
// that it holds.
func (l *Lab) databases(ctx context.Context) (map[string]cluster.DatabaseView, error) {
	out := map[string]cluster.DatabaseView{}
	for i, s := range l.Servers {
		for after := ""; ; {
			page, err := ask[admin.ClusterDatabases](ctx, s, "show cluster databases",
				admin.ClusterPage{After: after, Limit: 10_000})
			if err != nil {
				return nil, err
			}
			for _, d := range page.Databases {
				if d.Kind == "mail" && !d.Deleted && (i == 0 || d.Home != "") {
					out[d.Title] = d
				}
			}
			if after = page.Next; after == "" {
				break
			}
		}
	}
	return out, nil
}

// names returns the names of servers, which are given by their numbers.
func (l *Lab) names(servers []int) []string {
	names := make([]string, len(servers))
	for i, w := range servers {
		names[i] = l.Servers[w].Name
	}
	return names
}

// deleteReplica deletes a misplaced replica. The cluster then creates one on the only server that is left, the right
// one.
func deleteReplica(ctx context.Context, home *Server, db, server string) error {
	_, err := ask[admin.Done](ctx, home, "cluster replica",
		admin.ClusterReplica{Database: db, Server: server, State: "deleting"})
	return err
}

// placeOne does the next step in the placement of a database.
func (l *Lab) placeOne(ctx context.Context, db *cluster.DatabaseView, want []int) (done bool, err error) {
	names := l.names(want)
	have := map[string]cluster.ReplicaState{}
	for _, r := range db.Replicas {
		have[r.Server] = r.State
	}
	home, err := l.server(db.Home)
	if err != nil {
		return false, nil // no server leads it at the moment
	}
	done = true
	for name, state := range have {
		if slices.Contains(names, name) {
			continue
		}
		done = false
		if state == cluster.Deleting || len(have) > len(names) && db.Home == name {
			continue
		}
		if err := deleteReplica(ctx, home, db.ID, name); err != nil {
			return false, later(err)
		}
	}
	for _, name := range names {
		done = done && have[name] == cluster.Serving
	}
	if done && (db.Home != names[0] || db.Replicas[0].Server != names[0]) {
		done = false
		_, err = ask[admin.Done](ctx, home, "cluster move", admin.ClusterMove{Database: db.ID, Server: names[0]})
	}
	return done, later(err)
}

// later drops errors that a server reports: the step cannot be taken yet and is retried.
func later(err error) error {
	var remote *admin.RemoteError
	if errors.As(err, &remote) {
		return nil
	}
	return err
}

// Settle waits until no message waits for delivery. In a cluster every running server must also serve, reach all other
// running ones, know a home for each database that it holds and have no changes waiting for them. This state must last
// for quietFor, because servers that were separated can reach each other before they detect that both led a database.
func (l *Lab) Settle(ctx context.Context) error {
	_, err := l.settled(ctx)
	return err
}

// settled does the work of Settle and returns the time at which the lab settled.
func (l *Lab) settled(ctx context.Context) (since time.Time, err error) {
	why := ""
	for until := l.env.Clock.Now().Add(placeLimit); l.env.Clock.Now().Before(until); l.env.Clock.Sleep(lookEvery) {
		switch why = l.unsettled(ctx); {
		case why != "":
			since = time.Time{}
		case since.IsZero():
			since = l.env.Clock.Now()
		}
		if why == "" && (!l.Clustered || l.env.Clock.Now().Sub(since) >= quietFor) {
			return since, nil
		}
		if ctx.Err() != nil {
			return since, ctx.Err()
		}
	}
	return since, fmt.Errorf("lab: after %v %s", placeLimit, why)
}

// quietFor is the time for which a cluster must be settled. It covers several probes, by which servers exchange their
// states.
const quietFor = 2 * time.Second

// mailWaiting is the name of the statistic that counts messages in mail.box, the queue of the router.
const mailWaiting = "Mail.Waiting"

func (l *Lab) unsettled(ctx context.Context) string {
	live := l.Live()
	for _, s := range live {
		if own, err := s.Statistics(ctx); err != nil || own[mailWaiting] > 0 {
			return fmt.Sprintf("%s has %.0f messages waiting (%v)", s.Name, own[mailWaiting], err)
		}
		if !l.Clustered {
			continue
		}
		st, err := s.Status(ctx)
		if err != nil {
			return err.Error()
		}
		alive := 0
		for _, m := range st.Members {
			if m.Alive && m.Serving {
				alive++
			}
		}
		switch {
		case !st.Serving:
			return s.Name + " does not serve"
		case alive < len(live):
			return fmt.Sprintf("%s hears %d of %d servers", s.Name, alive, len(live))
		case st.Homeless > 0:
			return fmt.Sprintf("%s knows no home of %d databases", s.Name, st.Homeless)
		case st.Waiting > 0:
			return fmt.Sprintf("%d databases wait on %s", st.Waiting, s.Name)
		}
	}
	if len(live) == 0 {
		return "no server runs"
	}
	return ""
}
