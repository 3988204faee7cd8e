package measure

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"doublet/bench"
	"doublet/bench/drive"
	"doublet/bench/fill"
	"doublet/bench/meter"
	"doublet/bench/progress"
	"doublet/bench/run"
	"doublet/bench/watch"
	"doublet/bench/workload"
	"doublet/env"
)

// Job is a workload with its settings and, once it has entered a site, its people.
type Job struct {
	*Options
	Env      *env.Env
	Console  progress.Console
	Workload *workload.Workload
	Protocol string

	text   []byte // of the workload's file
	set    map[string]int
	users  []drive.User
	worlds []*drive.World // one for each server of the site
}

// Site is the place where the people of a job work: one server, or several.
type Site interface {
	// Enter returns the people for a job with at most most active people, and a world for each server. It creates the
	// people who do not exist yet, where it can.
	Enter(ctx context.Context, j *Job, most int) ([]drive.User, []*drive.World, error)
	// Adapt adapts the plan of a run to the site.
	Adapt(p *run.Plan)
	// Audits reports whether a ledger is kept and compared with the mail after each step.
	Audits() bool
	// Watch returns the watch over the servers.
	Watch(j *Job) (*watch.Watch, error)
}

// New reads the workload with the given name, built-in or a file, for a job.
func New(e *env.Env, console progress.Console, o *Options, name string) (j *Job, err error) {
	j = &Job{Options: o, Env: e, Console: console}
	if j.Workload, j.text, err = workload.Load(name); err != nil {
		return nil, err
	}
	if j.set, err = j.Workload.ParseSet(o.Set); err != nil {
		return nil, err
	}
	j.Protocol = j.Workload.Protocol
	if o.Over != "" {
		j.Protocol = o.Over
		if full, ok := spoken[o.Over]; ok {
			j.Protocol = full
		}
	}
	return j, nil
}

// spoken maps short names of protocols on the command line to their full names.
var spoken = map[string]string{"web": workload.WebFull, "lite": workload.WebLite}

// check checks that the job can run with most people.
func (j *Job) check(most int) error {
	if j.Speed <= 0 || j.Speed > 10_000 || j.Window < time.Second || j.LoginRate <= 0 {
		return bench.Usage(
			"--speed must be above 0 and at most 10,000, --window a second or more, --login-rate above 0")
	}
	if len(j.Workload.Left(j.Protocol)) == len(j.Workload.PerHour(j.set)) {
		return bench.Usage("%s cannot run over %s (see doublet bench show %s)", j.Workload.Name, j.Protocol,
			j.Workload.Name)
	}
	if len(j.Agents) > 0 {
		most = 0 // the agents hold the connections and check their own limits
	}
	return room(most * drive.Connections(j.Protocol))
}

// room checks, before any connection is made, that this machine can hold the connections of the users.
func room(connections int) error {
	l, ok := meter.Limits()
	if !ok {
		return nil
	}
	// A user sometimes opens one more connection, to send.
	const spare = 200
	need := connections + connections/10 + spare
	if l.Files > 0 && need > l.Files {
		return bench.Usage("%d connections need about %d open files, the limit is %d: raise it (ulimit -n %d) or add "+
			"agents", connections, need, l.Files, need)
	}
	if l.Ports > 0 && need > l.Ports {
		return bench.Usage(
			"%d connections need %d ports, machine has %d: widen net.ipv4.ip_local_port_range or add agents",
			connections, need, l.Ports)
	}
	return nil
}

// World returns the state that the sessions at one server share.
func (j *Job) World(users []drive.User, doors map[string]string) *drive.World {
	return &drive.World{
		Env: j.Env, Workload: j.Workload, Seed: j.Seed, Speed: j.Speed, Users: users, FillOver: j.FillOver,
		Cold: j.Cold, Plans: j.plans(), Label: fmt.Sprintf("run%d", j.Env.Clock.Now().Unix()),
		Target: drive.Target{
			Doors: doors, StartTLS: j.StartTLS, Timeout: j.Timeout,
			TLS: &tls.Config{InsecureSkipVerify: j.Insecure}, //nolint:gosec // asked for; it is not what is measured
		},
	}
}

// plans reports whether the users work in calendars over JMAP.
func (j *Job) plans() bool {
	hour := j.Workload.PerHour(j.set)
	return workload.Carries(j.Protocol, workload.Calendar) &&
		hour[string(workload.Calendar)]+hour[string(workload.Appointment)]+hour[string(workload.Invite)] > 0
}

// sends reports whether the users send mail.
func (j *Job) sends() bool {
	hour := j.Workload.PerHour(j.set)
	return hour[string(workload.Send)]+hour[string(workload.Reply)] > 0
}

// messages returns the number of messages that a mailbox is filled with.
func (j *Job) messages() int { return int(float64(j.Workload.Mailbox.Messages)*j.InitScale + 0.5) }

// fill deletes and refills the mailboxes of users, each at the user's own server.
func (j *Job) fill(ctx context.Context, users []drive.User) error {
	if !slices.Contains([]string{workload.IMAP, workload.JMAP, workload.LMTP}, j.FillOver) {
		return bench.Usage("--fill-over %s: imap, jmap or lmtp", j.FillOver)
	}
	for i, w := range j.worlds {
		var mine []drive.User
		for _, u := range users {
			if u.Server == i {
				mine = append(mine, u)
			}
		}
		if len(mine) > 0 {
			if err := j.fillAt(ctx, w, mine); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillAt fills the mailboxes of users at one server.
func (j *Job) fillAt(ctx context.Context, w *drive.World, users []drive.User) error {
	begun := j.Env.Clock.Now()
	total, err := fill.Fill(ctx, w, users, fill.Options{Messages: j.messages(), Workers: j.Workers,
		Progress: func(p fill.Progress) {
			if p.Done%20 == 0 || p.Done == p.Of {
				j.Console.Note(false, "mailboxes: %d of %d, %d messages, %.0f MB", p.Done, p.Of, p.Total.Added,
					float64(p.Total.Bytes)/1e6)
			}
		}})
	took := j.Env.Clock.Now().Sub(begun)
	j.Console.Note(true, "mailboxes: %d messages added, %d removed, %.0f MB in %v", total.Added, total.Removed,
		float64(total.Bytes)/1e6, took.Round(100*time.Millisecond))
	return err
}

// Init enters a site and fills the mailboxes of the first n people, and does nothing else.
func (j *Job) Init(ctx context.Context, site Site, n int) (err error) {
	if j.users, j.worlds, err = site.Enter(ctx, j, n); err != nil {
		return err
	}
	return j.fill(ctx, j.users[:n])
}
