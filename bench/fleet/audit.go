package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	a.ledger.Begin()
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
func (a *audit) verify(ctx context.Context, step record.Step, out *record.Writer) error {
	if err := a.missing(); err != nil {
		return err
	}
	if err := a.fleet.Settle(ctx); err != nil {
		return err
	}
	if !a.fleet.Clustered { // each server has its own users; no other server holds their mail
		files, err := a.read(ctx, nil)
		if err == nil {
			out.Verdict(a.ledger.Check("all servers", files).Of(step))
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
		out.Verdict(a.ledger.Check(s.Name, files).Of(step))
	}
	return nil
}

// read lists the mail files of all users by address: at one server, or each at his own if at is nil.
func (a *audit) read(ctx context.Context, at *Server) (map[string][]ledger.Message, error) {
	lists, err := ledger.ReadAll(ctx, a.fleet.env, len(a.users), func(i int) ([]ledger.Message, error) {
		u := &a.users[i]
		k := u.Server
		if at != nil {
			k = slices.IndexFunc(a.fleet.List, func(s Server) bool { return s.Name == at.Name })
		}
		list, err := a.fleet.worlds[k].Mail(ctx, u)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.fleet.List[k].Name, err)
		}
		return list, nil
	})
	out := make(map[string][]ledger.Message)
	for i, list := range lists {
		out[a.users[i].Address] = list
	}
	return out, err
}
