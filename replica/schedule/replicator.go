package schedule

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"reflect"
	"sync"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/replica/https"
)

// Replicator runs the connections of this server. It is Domino's Replica task.
type Replicator struct {
	c *Connections

	mu   sync.Mutex // guards runs and their state
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

// NewReplicator returns the task that runs the connections.
func NewReplicator(c *Connections) *Replicator {
	return &Replicator{c: c, runs: map[note.UNID]*run{}}
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
		case <-r.c.env.Clock.After(r.c.o.Every):
		case <-ctx.Done():
			return nil
		}
	}
}

// look starts due connections, and stops those that should no longer run.
func (r *Replicator) look(ctx context.Context) error {
	list, err := r.c.directory.Connections.List(ctx, note.System)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	now := r.c.env.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	there := map[note.UNID]bool{}
	for i := range list {
		c := &list[i]
		if !r.c.runsHere(ctx, c) {
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
	now := r.c.env.Clock.Now()
	fields := x.fields
	ctx, x.cancel = context.WithCancel(ctx)
	x.running, x.last, x.due = true, now, now.Add(max(fields.Every, time.Minute))
	if !fields.Peer.IsZero() && fields.Every == 0 {
		x.due = now // retry at once with another server
	}
	r.wg.Add(1)
	r.c.env.Go("connection "+fields.Name, func() {
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
	job, err := r.c.Job(ctx, fields, turn)
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
	errs := []error{err}
	refused := 0
	r.mu.Lock()
	x.count++
	if fields.Every == 0 {
		x.last = r.c.env.Clock.Now()
	}
	for i := range list {
		x.received += uint64(list[i].Received())
		x.sent += uint64(list[i].Sent())
		refused += len(list[i].Refused())
		errs = append(errs, list[i].Err)
	}
	failed := errors.Join(errs...)
	if x.err = ""; failed != nil {
		x.err = failed.Error()
	}
	r.mu.Unlock()
	host := fields.URL
	if u, err := url.Parse(fields.URL); err == nil {
		host = cmp.Or(u.Host, host)
	}
	log := r.c.env.Log.With("connection", fields.Name, "server", host)
	switch {
	case failed != nil:
		log.Warn("replication failed", "error", failed)
	case refused > 0:
		log.Warn("replication skipped notes: doublet replica history lists them", "notes", refused)
	default:
		if text := https.Summary(list, nil); text != "" {
			log.Info("replicated", "what", text)
		}
	}
}

// Status is the state of a connection on this server since the start. Its zero value belongs to a connection that does
// not run here.
type Status struct {
	// State is running, waiting or disabled.
	State            string
	LastRun, NextRun time.Time
	Runs             uint64
	// Received and Sent are the numbers of notes in all runs. Error is that of the last run.
	Received, Sent uint64
	Error          string
}

// Status returns the state of a connection.
func (r *Replicator) Status(c *directory.Connection) Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.runs[c.ID]
	if x == nil {
		return Status{}
	}
	out := Status{State: "waiting", LastRun: x.last.UTC().Truncate(time.Second),
		NextRun: x.due.UTC().Truncate(time.Second), Runs: x.count, Received: x.received, Sent: x.sent, Error: x.err}
	if x.running {
		out.State, out.NextRun = "running", time.Time{}
	}
	if c.Disabled {
		out.State, out.NextRun = "disabled", time.Time{}
	}
	return out
}
