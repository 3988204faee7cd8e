package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"doublet/bench/drive"
	"doublet/bench/ledger"
	"doublet/bench/record"
)

// audit compares the mail files of a fleet with what its servers have acknowledged.
type audit struct {
	fleet  *Fleet
	ledger *ledger.Ledger
	users  []drive.User // the users of the step
}

// begin records the mail files of the users of a step.
func (a *audit) begin(ctx context.Context, users []drive.User) error {
	a.users = users
	files, err := a.read(ctx, nil)
	for person, list := range files {
		a.ledger.Inventory(person, list)
	}
	return err
}

// missing returns an error for each server that does not run, unless a fault killed it and none restarted it.
func (a *audit) missing() (err error) {
	killed := map[*Server]bool{}
	for _, x := range a.fleet.faults {
		killed[x.server] = !x.start
	}
	for i := range a.fleet.List {
		if s := &a.fleet.List[i]; !killed[s] && !s.Running() {
			err = errors.Join(err, fmt.Errorf("%s is down, so its mail cannot be compared with the ledger (%s)",
				s.Name, s.Log()))
		}
	}
	return err
}

// verify waits until the live servers have nothing waiting, and compares the mail files of each with the ledger.
func (a *audit) verify(ctx context.Context, out *record.Writer) error {
	if err := a.missing(); err != nil {
		return err
	}
	if err := a.fleet.Settle(ctx); err != nil {
		return err
	}
	if !a.fleet.Clustered { // each server has its own users; no other server holds their mail
		files, err := a.read(ctx, nil)
		if err == nil {
			out.Verdict(a.ledger.Check("all servers", files))
		}
		return err
	}
	for i := range a.fleet.List {
		s := &a.fleet.List[i]
		if !s.Running() {
			continue
		}
		files, err := a.read(ctx, s)
		if err != nil {
			return err
		}
		out.Verdict(a.ledger.Check(s.Name, files))
	}
	return nil
}

// read lists the mail files of all users by address: at one server, or each at his own if at is nil.
func (a *audit) read(ctx context.Context, at *Server) (map[string][]ledger.Message, error) {
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
		if next >= len(a.users) || first != nil || ctx.Err() != nil {
			return nil
		}
		next++
		return &a.users[next-1]
	}
	for range workers {
		all.Add(1)
		a.fleet.env.Go("bench ledger", func() {
			defer all.Done()
			for u := take(); u != nil; u = take() {
				s := at
				if s == nil {
					s = &a.fleet.List[u.Server]
				}
				list, err := ledger.Read(a.fleet.env, s.Doors["imap"], u.Name, u.Password)
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
