package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/admin"
	"doublet/bench/drive"
	"doublet/bench/ledger"
	"doublet/bench/meter"
	"doublet/bench/record"
	benchrun "doublet/bench/run"
	"doublet/bench/workload"
	"doublet/cmd/doublet/lab"
	"doublet/env"
)

// fleet adapts the servers of a lab for a run. Each person works at his own server, or at the next one if that does not
// answer.
type fleet struct {
	*lab.Lab
	dir    string
	env    *env.Env
	worlds []*drive.World // one per server
	faults []fault
	ledger *ledger.Ledger // nil if no ledger is kept
	users  []drive.User   // the users of the step
}

// fault is the kill or the start of a server, at a time after the measurement has begun.
type fault struct {
	server *lab.Server
	at     time.Duration
	start  bool // start the server; else kill it
}

// enterLab makes a run use the servers of a lab.
func (o *benchOptions) enterLab(l *lab.Lab, dir string) error {
	f := &fleet{Lab: l, dir: dir}
	for _, group := range []struct {
		flag  string
		list  []string
		start bool
	}{{"--kill", o.kill, false}, {"--restart", o.restart, true}} {
		for _, text := range group.list {
			name, after, _ := strings.Cut(text, "@")
			at, err := time.ParseDuration(after)
			s, serr := l.Server(name)
			if err != nil || serr != nil || at < 0 || at >= o.window {
				return &exitError{exitUsage,
					fmt.Errorf("%s %s: SERVER@TIME, a server of the lab (%s) and a time within the window of %v",
						group.flag, text, l.Names(), o.window)}
			}
			f.faults = append(f.faults, fault{s, at, group.start})
		}
	}
	slices.SortStableFunc(f.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	if o.ledger || len(o.kill) > 0 {
		f.ledger = ledger.New()
	}
	o.fleet, o.name = f, "doublet, "+l.Name
	return nil
}

// enter sets up a job for the lab: it returns the users and creates a world for each server.
func (f *fleet) enter(j *benchJob, most int) ([]drive.User, error) {
	users := f.Users()
	switch {
	case most > len(users):
		return nil, &exitError{exitUsage,
			fmt.Errorf("%d active people requested, the lab has %d (doublet bench lab --people)", most, len(users))}
	case len(j.agents) > 0:
		return nil, &exitError{exitUsage, errors.New("agents do not know the servers of a lab: leave --agent out")}
	case f.ledger != nil && j.protocol != workload.IMAP:
		return nil, &exitError{exitUsage, fmt.Errorf("ledger needs IMAP, not %s: use --over imap", j.protocol)}
	}
	f.env = j.env
	for i, s := range f.Servers {
		w := j.worldAt(j.env, j.w, users, s.Doors)
		w.Label += fmt.Sprintf(".s%d", i+1)
		w.Abroad, w.Ledger = f.Abroad, f.ledger
		f.worlds = append(f.worlds, w)
	}
	j.world = f.worlds[0]
	return users, nil
}

// plan adapts the plan of a run to several servers.
func (f *fleet) plan(p *benchrun.Plan) {
	protocol := p.Protocol
	p.Open = func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
		return f.open(ctx, protocol, u)
	}
	p.Failover = f.Clustered
	if len(f.faults) > 0 {
		p.During = f.during
	}
	fill := p.Fresh
	p.Fresh = func(ctx context.Context, users []drive.User) error {
		if fill != nil {
			if err := fill(ctx, users); err != nil {
				return err
			}
		}
		if err := errors.Join(f.Settle(ctx, f.env, settleLimit), f.SlowDown(ctx, f.env)); err != nil ||
			f.ledger == nil {
			return err
		}
		f.users = users
		files, err := f.read(ctx, nil)
		for person, list := range files {
			f.ledger.Inventory(person, list)
		}
		return err
	}
	if f.ledger != nil {
		p.After = f.verify
	}
}

// settleLimit is the time limit for the servers to process everything that waits.
const settleLimit = 5 * time.Minute

// open signs a person in at his own server, or at the next one that accepts him.
func (f *fleet) open(ctx context.Context, protocol string,
	u *drive.User) (s drive.Session, t drive.Traffic, err error) {
	for k := range f.worlds {
		w := f.worlds[(u.Server+k)%len(f.worlds)]
		var e error
		if s, t, e = w.Open(ctx, protocol, u); e == nil {
			return s, t, nil
		}
		err = cmp.Or(err, e)
		if !f.Clustered || ctx.Err() != nil {
			break
		}
	}
	return nil, t, err
}

// fill deletes and refills the mailboxes of the users, each at his own server.
func (f *fleet) fill(ctx context.Context, a *app, o *benchOptions, users []drive.User) error {
	for i, w := range f.worlds {
		var mine []drive.User
		for _, u := range users {
			if u.Server == i {
				mine = append(mine, u)
			}
		}
		if len(mine) > 0 {
			if err := a.fillMailboxes(ctx, w, mine, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// watch sets up a meter for each server.
func (f *fleet) watch(w *watch) error {
	w.self, w.cores = driverMeter(w.world.Env)
	var groups []meter.Group
	for _, s := range f.Servers {
		groups = append(groups, meter.Group{Name: s.Name, PIDFile: s.PIDFile()})
		w.own = append(w.own, ownStatistics{s.Name, statisticsAt(w.world.Env, filepath.Join(s.Data, admin.SocketName))})
	}
	m, err := meter.New(groups)
	if errors.Is(err, meter.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := filepath.Abs(f.dir)
	host := meter.Host(dir)
	w.source, w.host = m.Sample, &host
	return err
}

// during carries out the faults in order.
func (f *fleet) during(ctx context.Context, tell func(string)) {
	begun := f.env.Clock.Now()
	for _, x := range f.faults {
		select {
		case <-ctx.Done():
			return
		case <-f.env.Clock.After(x.at - f.env.Clock.Now().Sub(begun)):
		}
		s := x.server
		if !x.start {
			if err := s.Kill(); err != nil {
				tell(err.Error())
				continue
			}
			tell(s.Name + " was killed (SIGKILL)")
			continue
		}
		tell(s.Name + " is started again")
		started := f.env.Clock.Now()
		// The start continues after the end of the measurement, because verify needs the server's mail too.
		if err := s.Start(context.WithoutCancel(ctx), f.env, f.Program); err != nil {
			tell(err.Error())
			continue
		}
		tell(fmt.Sprintf("%s has its doors open after %v", s.Name,
			f.env.Clock.Now().Sub(started).Round(10*time.Millisecond)))
	}
}

// missing returns an error for each server that does not run, unless a fault killed it and none restarted it.
func (f *fleet) missing() error {
	killed := map[*lab.Server]bool{}
	for _, x := range f.faults {
		killed[x.server] = !x.start
	}
	live := f.Live()
	var err error
	for _, s := range f.Servers {
		if !killed[s] && !slices.Contains(live, s) {
			err = errors.Join(err, fmt.Errorf("%s is down, so its mail cannot be compared with the ledger (%s)",
				s.Name, s.Log()))
		}
	}
	return err
}

// verify waits until the live servers have nothing waiting, and compares the mail files of each with the ledger.
func (f *fleet) verify(ctx context.Context, out *record.Writer) error {
	if err := f.missing(); err != nil {
		return err
	}
	if err := f.Settle(ctx, f.env, settleLimit); err != nil {
		return err
	}
	if !f.Clustered { // each server has its own users; no other server holds their mail
		files, err := f.read(ctx, nil)
		if err == nil {
			out.Verdict(f.ledger.Check("all servers", files))
		}
		return err
	}
	for _, s := range f.Live() {
		files, err := f.read(ctx, s)
		if err != nil {
			return err
		}
		out.Verdict(f.ledger.Check(s.Name, files))
	}
	return nil
}

// read lists the mail files of all users by address: at one server, or each at his own if at is nil.
func (f *fleet) read(ctx context.Context, at *lab.Server) (map[string][]ledger.Message, error) {
	const workers = 8
	var (
		mu    sync.Mutex
		next  int
		first error
		all   sync.WaitGroup
	)
	out := make(map[string][]ledger.Message)
	take := func() *drive.User {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(f.users) || first != nil || ctx.Err() != nil {
			return nil
		}
		next++
		return &f.users[next-1]
	}
	for range workers {
		all.Add(1)
		f.env.Go("bench ledger", func() {
			defer all.Done()
			for u := take(); u != nil; u = take() {
				s := at
				if s == nil {
					s = f.Servers[u.Server]
				}
				list, err := ledger.Read(f.env, s.Doors["imap"], u.Name, u.Password)
				mu.Lock()
				out[u.Address] = list
				if err != nil && first == nil {
					first = fmt.Errorf("%s: %w", s.Name, err)
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return out, errors.Join(first, ctx.Err())
}
