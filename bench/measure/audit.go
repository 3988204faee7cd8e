package measure

import (
	"context"
	"time"

	"doublet/bench"
	"doublet/bench/drive"
	"doublet/bench/ledger"
	"doublet/bench/record"
	"doublet/bench/run"
	"doublet/bench/workload"
)

// audit compares the mail at any server with what it has acknowledged, over JMAP the calendars too, and in the full
// client these alone.
type audit struct {
	world  *drive.World
	ledger *ledger.Ledger
	users  []drive.User // the users of the step
	name   string       // of the server
	// list reads the mail or the calendar of a user.
	list func(context.Context, *drive.User) ([]ledger.Message, error)
}

func newAudit(j *Job, w *drive.World) (*audit, error) {
	list := w.Mail
	switch {
	case j.Protocol == workload.JMAP:
		list = w.Emails
	case j.Protocol == workload.WebFull:
		if !j.plans() {
			return nil, bench.Usage("over %s a ledger holds invitations and answers alone, and %s has none: use "+
				"--over imap", j.Protocol, j.Workload.Name)
		}
		list = w.Events
	case j.Protocol != workload.IMAP:
		return nil, bench.Usage("ledger needs IMAP, JMAP or the full client, not %s: use --over imap", j.Protocol)
	case !w.Target.HasIMAP():
		return nil, bench.Usage("ledger reads mail over IMAP: name the door, --imap or --imaps")
	}
	if len(j.Agents) > 0 {
		return nil, bench.Usage("agents keep no ledger: leave --agent out")
	}
	a := &audit{world: w, ledger: ledger.New(), name: j.Target, list: list}
	w.Ledger = a.ledger
	return a, nil
}

func (a *audit) adapt(p *run.Plan) {
	fill := p.Fresh
	p.Fresh = func(ctx context.Context, users []drive.User) error {
		if fill != nil {
			if err := fill(ctx, users); err != nil {
				return err
			}
		}
		return a.begin(ctx, users)
	}
	p.After = a.verify
}

// begin records the mail of the users of a step.
func (a *audit) begin(ctx context.Context, users []drive.User) error {
	a.users = users
	a.ledger.Begin()
	files, err := a.read(ctx)
	for person, list := range files {
		a.ledger.Inventory(person, list)
	}
	return err
}

// Mail that was acknowledged may be on its way: a server has arrival for it, and its mail is read again after pause.
const (
	arrival = 2 * time.Minute
	pause   = 2 * time.Second
)

// verify compares the mail with the ledger, until nothing is lost or arrival has passed.
func (a *audit) verify(ctx context.Context, step record.Step, out *record.Writer) error {
	clock := a.world.Env.Clock
	for begun := clock.Now(); ; {
		files, err := a.read(ctx)
		if err != nil {
			return err
		}
		v := a.ledger.Check(a.name, files)
		if v.Lost == 0 || clock.Now().Sub(begun) >= arrival {
			out.Verdict(v.Of(step))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-clock.After(pause):
		}
	}
}

// read lists the mail, or the events, of the users by address.
func (a *audit) read(ctx context.Context) (map[string][]ledger.Message, error) {
	lists, err := ledger.ReadAll(ctx, a.world.Env, len(a.users), func(i int) ([]ledger.Message, error) {
		return a.list(ctx, &a.users[i])
	})
	out := make(map[string][]ledger.Message)
	for i, list := range lists {
		out[a.users[i].Address] = list
	}
	return out, err
}
