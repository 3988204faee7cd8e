// Package fill initialises the mailboxes of simulated people. It fills in parallel, yields the same mailboxes for the
// same seed, and can resume, since each mailbox shows how many messages it has.
package fill

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"doublet/bench/drive"
)

// Options control Fill.
type Options struct {
	// Messages is the number of messages in each mailbox.
	Messages int
	// Workers is the number of mailboxes to fill at the same time (default 8).
	Workers int
	// Progress is called after each mailbox; it may be nil.
	Progress func(Progress)
}

// Progress is the state of a Fill: Done of Of mailboxes.
type Progress struct {
	Done, Of int
	Total    drive.Filled
}

// maxFailures is the number of failures that ends Fill: a server that refuses so many mailboxes refuses them all.
const maxFailures = 20

// Fill fills the mailboxes of users. It stops early when ctx ends, or when too many mailboxes fail; its error contains
// the first failure.
func Fill(ctx context.Context, w *drive.World, users []drive.User, o Options) (drive.Filled, error) {
	if o.Workers <= 0 {
		o.Workers = 8
	}
	var mu sync.Mutex
	var state Progress
	state.Of = len(users)
	var failed []error
	next := 0
	take := func() *drive.User {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(users) || len(failed) >= maxFailures || ctx.Err() != nil {
			return nil
		}
		next++
		return &users[next-1]
	}
	finished := func(u *drive.User, f drive.Filled, err error) {
		mu.Lock()
		defer mu.Unlock()
		state.Done++
		state.Total.Added += f.Added
		state.Total.Removed += f.Removed
		state.Total.Bytes += f.Bytes
		if err != nil {
			failed = append(failed, fmt.Errorf("mailbox of %s: %w", u.Name, err))
		}
		if o.Progress != nil {
			o.Progress(state)
		}
	}
	var workers sync.WaitGroup
	for range min(o.Workers, max(1, len(users))) {
		workers.Add(1)
		w.Env.Go("bench fill", func() {
			defer workers.Done()
			for u := take(); u != nil; u = take() {
				f, err := w.Fill(ctx, u, o.Messages)
				finished(u, f, err)
			}
		})
	}
	workers.Wait()
	switch {
	case len(failed) > 0:
		return state.Total, fmt.Errorf("fill: %d of %d mailboxes failed, the first: %w", len(failed),
			len(users), failed[0])
	case ctx.Err() != nil:
		return state.Total, errors.New("fill: stopped; run it again to continue")
	}
	return state.Total, nil
}
