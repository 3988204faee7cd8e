package admin

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/replica/https"
)

// Replicator runs the connections of this server: Domino's Replica task.
type Replicator struct {
	s *System

	// every is how often the connections are looked at.
	every time.Duration

	mu   sync.Mutex
	runs map[note.UNID]*run
	wg   sync.WaitGroup
}

// run is one connection and how it goes.
type run struct {
	fields  directory.ConnectionFields
	running bool
	cancel  context.CancelFunc
	due     time.Time
	last    time.Time
	count   uint64
	// received and sent are notes, over all runs.
	received, sent uint64
	err            string
}

// Bounds of what runs at one time.
const (
	maxRuns       = 4
	maxContinuous = 32
)

// NewReplicator makes the task over a running system.
func NewReplicator(s *System) *Replicator {
	return &Replicator{s: s, every: 10 * time.Second, runs: map[note.UNID]*run{}}
}

// Run runs connections that are due until ctx ends.
func (r *Replicator) Run(ctx context.Context) error {
	defer r.wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		if err := r.look(ctx); err != nil {
			return err
		}
		select {
		case <-r.s.Env.Clock.After(r.every):
		case <-ctx.Done():
			return nil
		}
	}
}

// look starts what is due, and ends what is to run no longer.
func (r *Replicator) look(ctx context.Context) error {
	list, err := r.s.Directory.Connections.List(ctx, note.System)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	now := r.s.Env.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	there := map[note.UNID]bool{}
	for i := range list {
		c := &list[i]
		if !r.s.runsHere(ctx, c) {
			continue
		}
		there[c.ID] = true
		x := r.runs[c.ID]
		if x == nil {
			x = &run{fields: c.ConnectionFields, due: now}
			r.runs[c.ID] = x
		}
		if !reflect.DeepEqual(x.fields, c.ConnectionFields) {
			x.fields, x.due = c.ConnectionFields, now
			x.stop()
		}
		switch {
		case c.Disabled || !within(now, c.From, c.Until):
			x.stop()
		case !x.running && !now.Before(x.due) && r.room(c.Every == 0):
			r.start(ctx, x)
		}
	}
	for id, x := range r.runs {
		if !there[id] {
			if x.stop(); !x.running {
				delete(r.runs, id)
			}
		}
	}
	return nil
}

// stop ends a continuous run, or one that nobody wants any more.
func (x *run) stop() {
	if x.running {
		x.cancel()
	}
}

// within says whether a moment lies in a part of the day; a part from 0 to 0 is all of it.
func within(now time.Time, from, until int) bool {
	m := now.Hour()*60 + now.Minute()
	switch {
	case from == until:
		return true
	case from < until:
		return m >= from && m < until
	}
	return m >= from || m < until
}

// room says whether one more may run. The lock is held.
func (r *Replicator) room(continuous bool) bool {
	n, most := 0, maxRuns
	if continuous {
		most = maxContinuous
	}
	for _, x := range r.runs {
		if x.running && (x.fields.Every == 0) == continuous {
			n++
		}
	}
	return n < most
}

// start begins a run. The lock is held.
func (r *Replicator) start(ctx context.Context, x *run) {
	now := r.s.Env.Clock.Now()
	fields := x.fields
	ctx, x.cancel = context.WithCancel(ctx)
	x.running, x.last, x.due = true, now, now.Add(max(fields.Every, time.Minute))
	if !fields.Peer.IsZero() && fields.Every == 0 {
		x.due = now // another server may do
	}
	r.wg.Add(1)
	r.s.Env.Go("connection "+fields.Name, func() {
		defer r.wg.Done()
		r.once(ctx, x, &fields)
		r.mu.Lock()
		x.cancel()
		x.running = false
		r.mu.Unlock()
	})
}

func (r *Replicator) once(ctx context.Context, x *run, fields *directory.ConnectionFields) {
	r.mu.Lock()
	turn := x.count
	r.mu.Unlock()
	job, err := r.s.job(ctx, fields, turn)
	if err != nil {
		r.told(ctx, x, fields, nil, err)
		return
	}
	defer job.Client.Close()
	if fields.Every > 0 {
		_, list, err := job.Run(ctx)
		r.told(ctx, x, fields, list, err)
		return
	}
	err = job.Watch(ctx, func(list []https.Outcome, err error) { r.told(ctx, x, fields, list, err) })
	if err != nil && ctx.Err() == nil {
		r.told(ctx, x, fields, nil, err)
	}
}

// told keeps what a run came to, and says in the log what went wrong.
func (r *Replicator) told(ctx context.Context, x *run, fields *directory.ConnectionFields, list []https.Outcome, err error) {
	if ctx.Err() != nil {
		return // it was told to stop
	}
	done := replicated(&https.Account{}, list)
	errs := []error{err}
	refused := 0
	r.mu.Lock()
	x.count++
	if fields.Every == 0 {
		x.last = r.s.Env.Clock.Now()
	}
	for i, d := range done.Databases {
		x.received += uint64(d.Received)
		x.sent += uint64(d.Sent)
		refused += len(d.Refused)
		errs = append(errs, list[i].Err)
	}
	failed := errors.Join(errs...)
	if x.err = ""; failed != nil {
		x.err = failed.Error()
	}
	r.mu.Unlock()
	log := r.s.Env.Log.With("connection", fields.Name, "server", hostOf(fields.URL))
	switch {
	case failed != nil:
		log.Warn("replication failed", "error", failed)
	case refused > 0:
		log.Warn("replication set notes aside: doublet replica history names them", "notes", refused)
	default:
		if text := runText(done, nil); text != "" {
			log.Info("replicated", "what", text)
		}
	}
}

// status fills in how a connection goes.
func (r *Replicator) status(id note.UNID, to *Connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.runs[id]
	if x == nil {
		return
	}
	to.State, to.LastRun, to.Runs, to.Received, to.Sent, to.Error = "waiting", x.last.UTC().Truncate(time.Second), x.count, x.received, x.sent, x.err
	if to.NextRun = x.due.UTC().Truncate(time.Second); x.running {
		to.State, to.NextRun = "running", time.Time{}
	}
	if to.Disabled {
		to.State, to.NextRun = "disabled", time.Time{}
	}
}
