package measure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/bench"
	"doublet/bench/agent"
	"doublet/bench/content"
	"doublet/bench/drive"
	"doublet/bench/live"
	"doublet/bench/meter"
	"doublet/bench/record"
	"doublet/bench/result"
	"doublet/bench/run"
	"doublet/bench/watch"
	"doublet/bench/workload"
	"doublet/wire/jmap"
)

// Run drives the people at a site in steps, and returns the result. If search is not nil, it selects the steps after
// the first.
func (j *Job) Run(ctx context.Context, site Site, steps []int, search *Search) (*result.Result, error) {
	limits, err := result.ParseThresholds(j.FailIf)
	if err != nil {
		return nil, err
	}
	most := slices.Max(steps)
	if search != nil {
		most = search.Most
	}
	if err := j.check(most); err != nil {
		return nil, err
	}
	if text := limits.Ledger(); text != "" && !site.Audits() {
		return nil, bench.Usage("--fail-if %s needs --ledger: without one nobody looks for lost mail", text)
	}
	if j.users, j.worlds, err = site.Enter(ctx, j, most); err != nil {
		return nil, err
	}
	w, err := site.Watch(j)
	if err != nil {
		return nil, err
	}
	plan := j.plan(j.order(steps))
	site.Adapt(plan)
	if search != nil {
		plan.Next = search.next
	}
	path, err := j.record(ctx, plan, w)
	if err != nil {
		return nil, err
	}
	out, err := result.Read(path, limits)
	if err == nil && search != nil {
		out.Most = search.most()
	}
	return out, err
}

// plan returns the plan of a run at one server.
func (j *Job) plan(steps []int) *run.Plan {
	plan := &run.Plan{
		Env: j.Env, Workload: j.Workload, Protocol: j.Protocol, Seed: j.Seed, Speed: j.Speed, Set: j.set,
		Users: j.users, Steps: steps, MaxFailed: j.MaxFailed,
		LoginRate: j.LoginRate, Interval: j.Interval, Window: j.Window, MaxSettle: j.Settle, Cores: runtime.NumCPU(),
		Progress: j.Console.Run(),
		Open: func(ctx context.Context, u *drive.User) (drive.Session, drive.Traffic, error) {
			return j.worlds[0].Open(ctx, j.Protocol, u)
		},
	}
	if plan.Interval == 0 {
		plan.Interval = min(max(j.Window/12, time.Second), 10*time.Second)
	}
	if !j.Keep && j.messages() > 0 {
		plan.Fresh = j.fill
	}
	return plan
}

// record runs the plan and returns the path of the run file, which is durable then. If nothing was measured, it leaves
// no file.
func (j *Job) record(ctx context.Context, plan *run.Plan, w *watch.Watch) (path string, err error) {
	now := j.Env.Clock.Now()
	path, file, err := create(j.Out, j.Workload.Name, now)
	if err != nil {
		return "", err
	}
	h := j.header(filepath.Base(path), now)
	w.Prepare(&h, plan)
	var end func()
	if err = j.survey(ctx, &h); err == nil {
		end, err = j.equip(ctx, &h, plan)
	}
	if err != nil {
		return "", errors.Join(err, file.Close(), os.Remove(path))
	}
	defer end()
	out := record.NewWriter(file, h)
	stop := w.Begin(plan, out)
	err = plan.Run(ctx, out)
	stop()
	if cerr := errors.Join(file.Sync(), file.Close()); err == nil {
		err = cerr
	}
	if err != nil {
		err = fmt.Errorf("%w (measurements are in %s)", err, path)
	}
	return path, err
}

// create creates the run file.
func create(dir, name string, now time.Time) (string, *os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, name+"-"+now.UTC().Format("20060102-150405")+".run")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return path, f, err
}

// header returns the header of the run file, with a mark for each difference from a run whose figures may be quoted.
func (j *Job) header(id string, now time.Time) record.Header {
	w := j.Workload
	h := record.Header{
		ID: id, Label: j.Label, Started: now, Build: j.Build, Seed: j.Seed, Speed: j.Speed,
		InitScale: j.InitScale, Agents: 1,
		Workload: record.Workload{
			Name: w.Name, Hash: w.Hash(), Protocol: j.Protocol, Own: w.Protocol, Left: w.Left(j.Protocol),
			Loop: record.Duration((w.Loop.Min + w.Loop.Max) / 2), Actions: w.PerHour(j.set),
			Limit: record.Duration(w.Limit), Unknown: w.Unknown,
		},
		Settings: j.settings(), Messages: sizes(w),
		Target: record.Target{Name: j.Target, Doors: j.worlds[0].Target.Doors, StartTLS: j.StartTLS,
			Partitions: j.Partitions, Guests: j.Guests, Quota: j.Quota},
		Driver: meter.Host(""),
	}
	mark := func(when bool, format string, args ...any) {
		if when {
			h.Marks = append(h.Marks, fmt.Sprintf(format, args...))
		}
	}
	mark(j.Window < time.Hour, "window of %v", j.Window)
	mark(j.Speed != 1, "%g times the speed", j.Speed)
	mark(j.InitScale != 1 && w.Mailbox.Messages > 0, "mailboxes filled to %g %%", j.InitScale*100)
	mark(j.Guests > 0, "control groups with a quota of processors stand in for guests: %d with %g each", j.Guests,
		j.Quota)
	mark(j.Cold, "every browser began with nothing of the client")
	mark(j.Keep, "mailboxes not made fresh")
	mark(!j.Keep && j.messages() > 0 && !j.worlds[0].Resets(),
		"filled over %s without an IMAP door: INBOX cut back and topped up, flags and other folders left", j.FillOver)
	cycle := w.Cycle(j.set, j.Speed)
	mark(j.Window < cycle, "the window is shorter than a round of the workload (%v)", cycle.Round(time.Second))
	mark(w.Unknown != "", "%s", w.Unknown)
	mark(len(h.Workload.Left) > 0, "left out: %s", strings.Join(h.Workload.Left, ", "))
	for _, name := range slices.Sorted(maps.Keys(j.set)) {
		mark(true, "%s = %d", name, j.set[name])
	}
	return h
}

// survey compares what a JMAP server offers with what the workload needs. It refuses a run without JMAP Mail, and one
// of people who send mail without JMAP Submission, and marks a run without JMAP Calendars or an event stream. A server
// that does not answer shows that later.
func (j *Job) survey(ctx context.Context, h *record.Header) error {
	if j.Protocol != workload.JMAP || len(j.users) == 0 {
		return nil
	}
	c, err := j.worlds[0].Capabilities(ctx, &j.users[0])
	switch {
	case err != nil:
		return nil //nolint:nilerr // the people find it, and their errors count
	case !c.Mail:
		return bench.Usage("the server has no JMAP Mail (%s) for %s: use --over imap", jmap.Mail, j.users[0].Name)
	case !c.Submission && j.sends():
		return bench.Usage("the server has no JMAP Submission (%s), and %s sends mail: use --over imap",
			jmap.SubmissionURN, j.Workload.Name)
	}
	if !c.Calendars && j.plans() {
		h.Marks = append(h.Marks, "the server has no JMAP Calendars: invitations and answers are mail (iMIP), "+
			"appointments and the calendar are left out")
	}
	if !c.Events && j.Workload.PerHour(j.set)[string(workload.Idle)] > 0 {
		h.Marks = append(h.Marks, "the server has no event stream: those who wait for mail hear of none")
	}
	return nil
}

// sizes returns the sizes of the messages of a workload.
func sizes(w *workload.Workload) (out []record.MessageSize) {
	for _, name := range slices.Sorted(maps.Keys(w.Sizes)) {
		for _, s := range w.Sizes[name] {
			whole, compressed := content.Size(int64(s.Body), int64(s.Attachment))
			out = append(out, record.MessageSize{Profile: name, Percent: s.Percent, Body: int64(s.Body),
				Attachment: int64(s.Attachment), Whole: whole, Compressed: compressed})
		}
	}
	return out
}

// markShared marks a run whose driver takes processors from the server.
func markShared(h *record.Header) {
	if h.Shared() {
		h.Marks = append(h.Marks, "driver and server share processors")
	}
}

// settings returns the settings that a run must share with those that it is compared with, and that no other field of
// the header holds.
func (j *Job) settings() map[string]string {
	out := map[string]string{
		"window": j.Window.String(), "time-out": j.Timeout.String(),
		"sign-ins a minute":     strconv.FormatFloat(j.LoginRate, 'g', -1, 64),
		"share that may fail":   strconv.FormatFloat(j.MaxFailed, 'g', -1, 64),
		"verified certificates": strconv.FormatBool(!j.Insecure),
	}
	if j.messages() > 0 {
		out["how mailboxes were filled"] = j.FillOver
	}
	return out
}

// equip hires the agents and opens the live page, if there are any. end closes the page.
func (j *Job) equip(ctx context.Context, h *record.Header, plan *run.Plan) (end func(), err error) {
	if err := j.hire(ctx, h, plan); err != nil {
		return nil, err
	}
	markShared(h)
	if j.Live == "" {
		return func() {}, nil
	}
	return j.show(*h, plan)
}

// hire sends the job to the agents.
func (j *Job) hire(ctx context.Context, h *record.Header, plan *run.Plan) error {
	world := j.worlds[0]
	for i, address := range j.Agents {
		c, facts, err := agent.Hire(ctx, j.Env, address, j.Secret, &agent.Job{
			Name: j.Workload.Name, Workload: string(j.text), Protocol: j.Protocol, Seed: j.Seed, Speed: j.Speed,
			Set: j.set, Label: fmt.Sprintf("%s.a%d", world.Label, i+1),
			Doors: world.Target.Doors, StartTLS: j.StartTLS, Insecure: j.Insecure, Timeout: j.Timeout, Cold: j.Cold,
			Users: j.users,
		})
		if err != nil {
			return err
		}
		if facts.Build != j.Build {
			h.Marks = append(h.Marks, fmt.Sprintf("agent %s is version %s", address, facts.Build))
		}
		plan.Crews = append(plan.Crews, c)
		h.Drivers = append(h.Drivers, facts.Host)
		h.Agents = i + 1
	}
	return nil
}

// show serves the live page of the run until end is called.
func (j *Job) show(h record.Header, plan *run.Plan) (end func(), err error) {
	l, err := j.Env.Listen("tcp", j.Live)
	if err != nil {
		return nil, err
	}
	page := live.New(h)
	told := plan.Progress
	plan.Progress = func(p run.Progress) {
		page.Add(j.Env.Clock.Now(), p)
		told(p)
	}
	srv := page.Server()
	j.Env.Go("bench live page", func() { _ = srv.Serve(l) })
	fmt.Fprintf(j.Console.Out, "live page: http://%s/\n", l.Addr())
	return func() { _ = srv.Close() }, nil
}
