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

// Replicator runs the connections of this server. It is Domino's Replica task.
type Replicator struct {
	s *System

	// every is the interval at which the connections are checked.
	every time.Duration

	mu   sync.Mutex
	runs map[note.UNID]*run
	wg   sync.WaitGroup
}

// run is the state of one connection.
type run struct {
	fields  directory.ConnectionFields
	running bool
	cancel  context.CancelFunc
	due     time.Time
	last    time.Time
	count   uint64
	// received and sent are numbers of notes over all runs.
	received, sent uint64
	err            string
}

// Limits of concurrent runs.
const (
	maxRuns       = 4
	maxContinuous = 32
)

// NewReplicator returns the task for a running system.
func NewReplicator(s *System) *Replicator {
	return &Replicator{s: s, every: 10 * time.Second, runs: map[note.UNID]*run{}}
}

// Run runs due connections until ctx ends.
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

// look starts due connections, and stops those that should no longer run.
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

// stop stops a running connection.
func (x *run) stop() {
	if x.running {
		x.cancel()
	}
}

// within reports whether a time lies in a part of the day. Equal limits mean the whole day.
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

// room reports whether another connection may run. The caller holds mu.
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

// start starts a run. The caller holds mu.
func (r *Replicator) start(ctx context.Context, x *run) {
	now := r.s.Env.Clock.Now()
	fields := x.fields
	ctx, x.cancel = context.WithCancel(ctx)
	x.running, x.last, x.due = true, now, now.Add(max(fields.Every, time.Minute))
	if !fields.Peer.IsZero() && fields.Every == 0 {
		x.due = now // retry at once with another server
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

// told stores the result of a run, and logs errors.
func (r *Replicator) told(ctx context.Context, x *run, fields *directory.ConnectionFields, list []https.Outcome,
	err error) {
	if ctx.Err() != nil {
		return // the run was stopped
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
		log.Warn("replication skipped notes: doublet replica history lists them", "notes", refused)
	default:
		if text := runText(done, nil); text != "" {
			log.Info("replicated", "what", text)
		}
	}
}

// status adds the state of a connection to a result.
func (r *Replicator) status(id note.UNID, to *Connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.runs[id]
	if x == nil {
		return
	}
	to.State, to.LastRun, to.Runs, to.Received, to.Sent, to.Error = "waiting", x.last.UTC().Truncate(time.Second),
		x.count, x.received, x.sent, x.err
	if to.NextRun = x.due.UTC().Truncate(time.Second); x.running {
		to.State, to.NextRun = "running", time.Time{}
	}
	if to.Disabled {
		to.State, to.NextRun = "disabled", time.Time{}
	}
}
