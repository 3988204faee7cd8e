// Package fleet lets simulated people work at several servers of this machine, kills and starts servers meanwhile, and
// compares their mail with what they have acknowledged.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/bench"
	"doublet/bench/drive"
	"doublet/bench/ledger"
	"doublet/bench/measure"
	"doublet/bench/meter"
	"doublet/bench/run"
	"doublet/bench/watch"
	"doublet/bench/workload"
	"doublet/env"
)

// Servers are several servers of this machine, and the people who have mail files there.
type Servers struct {
	List  []Server
	Users []drive.User
	// Clustered means that every server serves everybody. Otherwise each serves its own people.
	Clustered bool
	// Abroad means that people write only to people of other servers.
	Abroad bool
	// Dir is a folder on the disk that the servers write to.
	Dir string
	// Settle waits until the servers have processed everything that waits; Ready does so before a step is measured.
	Settle, Ready func(context.Context) error
}

// Server is one of several servers.
type Server struct {
	Name  string
	Doors map[string]string
	Process
}

// Process controls the process of a server.
type Process interface {
	// Start runs the server and returns when its doors are open.
	Start(ctx context.Context) error
	// Kill ends it at once (SIGKILL).
	Kill() error
	// Running reports whether it runs.
	Running() bool
	// PIDFile is the path of the file with its process ID, Log that of its log.
	PIDFile() string
	Log() string
	// Statistics returns its own statistics.
	Statistics(ctx context.Context) (map[string]float64, error)
}

// Options are the events of a run.
type Options struct {
	// Kill and Restart name servers to kill and to start, and when after the measurement has begun: SERVER@TIME.
	Kill, Restart []string
	// Ledger records what is acknowledged, and compares it with the mail files at the end. Kill implies it.
	Ledger bool
	// Window is the time for which a step is measured.
	Window time.Duration
}

// Fleet is a site of several servers. Each person works at his own server, or at the next one if that does not answer.
type Fleet struct {
	Servers
	env    *env.Env
	worlds []*drive.World // one per server
	faults []fault
	ledger *audit // nil if no ledger is kept
}

// fault is the kill or the start of a server, at a time after the measurement has begun.
type fault struct {
	server *Server
	at     time.Duration
	start  bool // start the server; else kill it
}

// New returns the site of several servers.
func New(e *env.Env, s Servers, o Options) (*Fleet, error) {
	f := &Fleet{Servers: s, env: e}
	for _, group := range []struct {
		flag  string
		list  []string
		start bool
	}{{"--kill", o.Kill, false}, {"--restart", o.Restart, true}} {
		for _, text := range group.list {
			name, after, _ := strings.Cut(text, "@")
			at, err := time.ParseDuration(after)
			i := slices.IndexFunc(f.List, func(s Server) bool { return s.Name == name })
			if err != nil || i < 0 || at < 0 || at >= o.Window {
				return nil, bench.Usage(
					"%s %s: SERVER@TIME, a server of the lab (%s) and a time within the window of %v",
					group.flag, text, f.names(), o.Window)
			}
			f.faults = append(f.faults, fault{&f.List[i], at, group.start})
		}
	}
	slices.SortStableFunc(f.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	if o.Ledger || len(o.Kill) > 0 {
		f.ledger = &audit{fleet: f, ledger: ledger.New()}
	}
	return f, nil
}

// names returns the names of the servers, separated by commas.
func (f *Fleet) names() string {
	var out []string
	for i := range f.List {
		out = append(out, f.List[i].Name)
	}
	return strings.Join(out, ", ")
}

// Enter implements [measure.Site]. It creates a world for each server; the people exist.
func (f *Fleet) Enter(_ context.Context, j *measure.Job, most int) ([]drive.User, []*drive.World, error) {
	switch {
	case most > len(f.Users):
		return nil, nil, bench.Usage("%d active people requested, the lab has %d (doublet bench lab --people)", most,
			len(f.Users))
	case len(j.Agents) > 0:
		return nil, nil, bench.Usage("agents do not know the servers of a lab: leave --agent out")
	case f.ledger != nil && j.Protocol != workload.IMAP:
		return nil, nil, bench.Usage("ledger needs IMAP, not %s: use --over imap", j.Protocol)
	}
	for i := range f.List {
		w := j.World(f.Users, f.List[i].Doors)
		w.Label += fmt.Sprintf(".s%d", i+1)
		w.Abroad = f.Abroad
		if f.ledger != nil {
			w.Ledger = f.ledger.ledger
		}
		f.worlds = append(f.worlds, w)
	}
	return f.Users, f.worlds, nil
}

// Audits implements [measure.Site].
func (f *Fleet) Audits() bool { return f.ledger != nil }

// Adapt implements [measure.Site]: it adapts the plan of a run to several servers.
func (f *Fleet) Adapt(p *run.Plan) {
	protocol := p.Protocol
	p.Open = func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
		return f.open(ctx, protocol, u)
	}
	p.Failover = f.Clustered
	if len(f.faults) > 0 {
		p.During = f.during
		p.MaxFailed = 1 // the failures are the subject of the run
	}
	fill := p.Fresh
	p.Fresh = func(ctx context.Context, users []drive.User) error {
		if fill != nil {
			if err := fill(ctx, users); err != nil {
				return err
			}
		}
		if err := f.Ready(ctx); err != nil || f.ledger == nil {
			return err
		}
		return f.ledger.begin(ctx, users)
	}
	if f.ledger != nil {
		p.After = f.ledger.verify
	}
}

// open signs a person in at his own server, or at the next one that accepts him.
func (f *Fleet) open(ctx context.Context, protocol string,
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

// Watch implements [measure.Site]. It meters each server.
func (f *Fleet) Watch(*measure.Job) (*watch.Watch, error) {
	var groups []meter.Group
	var own []watch.Statistics
	for i := range f.List {
		s := &f.List[i]
		groups = append(groups, meter.Group{Name: s.Name, PIDFile: s.PIDFile()})
		own = append(own, watch.Statistics{Server: s.Name, Read: s.Statistics})
	}
	w, err := watch.New(f.env, groups, f.Dir, own...)
	if errors.Is(err, meter.ErrUnsupported) {
		err = nil
	}
	return w, err
}

// during carries out the faults in order.
func (f *Fleet) during(ctx context.Context, tell func(mark, text string)) {
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
				tell("", err.Error())
				continue
			}
			tell(s.Name+" killed", s.Name+" was killed (SIGKILL)")
			continue
		}
		tell(s.Name+" started", s.Name+" is started again")
		started := f.env.Clock.Now()
		// The start continues after the end of the measurement, because verify needs the server's mail too.
		if err := s.Start(context.WithoutCancel(ctx)); err != nil {
			tell("", err.Error())
			continue
		}
		tell("", fmt.Sprintf("%s has its doors open after %v", s.Name,
			f.env.Clock.Now().Sub(started).Round(10*time.Millisecond)))
	}
}
