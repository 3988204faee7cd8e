package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/admin"
	"doublet/cmd/doublet/config"
	"doublet/env/logtail"
	"doublet/note"
	"doublet/replica/schedule"
	"doublet/stat/cpu"
	"doublet/store"
	"doublet/store/archive"
	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/task"
)

// openTasks starts the server tasks.
func (h *server) openTasks() error {
	plan, err := task.ParsePlan(h.cfg.Tasks.Run, h.cfg.Tasks.At)
	if err != nil {
		return &exitError{exitUsage, fmt.Errorf("settings of [tasks]: %w", err)}
	}
	s := h.system
	h.statistics()
	s.FindBackup()
	tasks := task.New(h.env, plan, s.Stats)
	h.closes("tasks", tasks.Stop)
	h.running.Tasks = tasks
	h.startMail(tasks)
	h.openSearch(tasks)
	h.running.Replicator = schedule.NewReplicator(s.Connections)
	tasks.Start(task.Task{Name: "Replica", Run: task.Plain(h.running.Replicator.Run)})
	tasks.Start(task.Task{Name: "Repair", When: task.Every(time.Minute), AtStart: true,
		Run: task.Plain(h.member.Repair)})
	tasks.Start(task.Task{Name: "Update", When: task.Every(30 * time.Second),
		Run: task.Plain(admin.NewUpdater(s.Store).Run)})
	h.startMaintenance(tasks)
	h.startEncryption(tasks)
	if h.cfg.Data.SegmentsArchive != "" {
		tasks.Start(task.Task{Name: "Segments", When: task.Every(time.Minute),
			Run: task.Plain(func(ctx context.Context) error {
				return errors.Join(s.Store.ShipSegments(ctx), s.Store.RemoveOldCopies(ctx))
			})})
	}
	if err := startArchive(h, tasks); err != nil {
		return err
	}
	tasks.Start(task.Task{Name: "Certificates", Run: task.Plain(func(ctx context.Context) error {
		select {
		case <-h.open: // an ACME authority connects to the doors
		case <-ctx.Done():
			return nil
		}
		return h.certs.Run(ctx)
	})})
	tasks.Start(task.Task{Name: "Memory", When: task.Every(15 * time.Second), Run: task.Plain(new(returner).Run)})
	tasks.Start(task.Task{Name: "Stats", When: task.Every(15 * time.Second), AtStart: true,
		Run: task.Plain(newPlatform(h).run)})
	tasks.Start(task.Task{Name: "CPU", When: task.Every(profileEvery / 2), Run: task.Plain(h.sampleCPU())})
	if err := startProbes(h, tasks); err != nil {
		return err
	}
	h.warnTasks(plan, tasks)
	h.settings.take(func(next *config.Config) (func(), error) {
		plan, err := task.ParsePlan(next.Tasks.Run, next.Tasks.At)
		return func() { h.replan(tasks, plan) }, err
	}, "tasks.run", "tasks.at")
	return nil
}

// startMail starts the tasks of mail and calendars.
func (h *server) startMail(tasks *task.Supervisor) {
	s := h.system
	tasks.Start(task.Task{Name: "Router", Run: task.Plain(s.Mail.Router.Run)})
	tasks.Start(task.Task{Name: "Outbox", Run: task.Plain(s.Mail.Scheduled.Run)})
	tasks.Start(task.Task{Name: "Snooze", When: task.Every(15 * time.Second), AtStart: true,
		Run: task.Plain(s.Mailbox.NewWaker().Run)})
	tasks.Start(task.Task{Name: "RnRMgr", When: task.Every(15 * time.Second), AtStart: true,
		Run: task.Plain(s.Scheduling.NewReserver().Run)})
	tasks.Start(task.Task{Name: "Reconcile", When: task.Every(15 * time.Second), AtStart: true,
		Run: task.Plain(s.Scheduling.NewReconciler(s.Store).Run)})
	tasks.Start(task.Task{Name: "Alarms", When: task.Every(15 * time.Second), AtStart: true,
		Run: task.Plain(s.Scheduling.NewAlarmer(s.Store).Run)})
	tasks.Start(task.Task{Name: "Feeds", When: task.Every(15 * time.Second), AtStart: true,
		Run: task.Plain(s.Sources.Run)})
	tasks.Start(task.Task{Name: "Sched", When: task.Every(15 * time.Minute), AtStart: true,
		Run: task.Plain(s.Scheduling.NewCensus(s.Stats).Run)})
	tasks.Start(task.Task{Name: "Groups", When: task.Every(5 * time.Minute), AtStart: true,
		Run: task.Plain(s.Directory.Groups.Follow)})
	h.startReports(tasks)
	if s.Junk != nil {
		tasks.Start(task.Task{Name: "Junk", Run: task.Plain(s.Junk.Run)})
	}
	tasks.Start(task.Task{Name: "Sessions", When: task.Every(time.Hour),
		Run: task.Plain(func(ctx context.Context) error {
			_, err := s.Sessions.Sweep(ctx)
			return err
		})})
}

// startArchive starts the task that archives the transaction log.
func startArchive(h *server, tasks *task.Supervisor) error {
	a := &h.cfg.Archive
	if a.Target == "" {
		return nil
	}
	keys, err := blob.ParseKeys(h.cfg.Data.BackupRecipient, nil)
	if err != nil {
		return err
	}
	place, err := blob.Open(h.env, a.Target)
	if err != nil {
		return err
	}
	ship := archive.NewShipper(h.env, h.system.Store, place, archive.Options{
		Interval: a.Interval.Duration, Rate: int64(a.Rate), BaseEvery: a.BaseEvery.Duration, Stats: h.system.Stats,
		Keys: keys,
		Base: func(ctx context.Context) error {
			_, err := h.running.Command(ctx, "backup", []string{a.Target}, func(admin.Progress) {})
			return err
		},
	})
	tasks.Start(task.Task{Name: "Archive", Run: task.Plain(ship.Run)})
	return nil
}

// startMaintenance starts the tasks that run a verb: at night, or when an administrator loads them.
func (h *server) startMaintenance(tasks *task.Supervisor) {
	for _, t := range []struct {
		name, verb string
		words      []string
		when       task.Schedule
	}{
		{"Collect", "collect", nil, task.Aligned(15 * time.Minute)},
		{"Retention", "retention run", nil, task.Daily(0, 30)},
		{"Purge", "purge", nil, task.Daily(1, 30)},
		{"Catalog", "catalog", nil, task.Daily(1, 0)},
		{"UpdAll", "updall", nil, task.Daily(2, 0)},
		{"Compact", "compact", nil, task.Never},
		{"Fixup", "check", []string{"--repair"}, task.Never},
	} {
		tasks.Start(task.Task{Name: t.name, When: t.when, Run: verbTask(h.running.Command, t.verb, t.words...)})
	}
}

// startEncryption starts the task that encrypts files from before encryption was switched on, or with an older key, and
// the rest of databases that got a key of their own, or lost it, also while the server runs.
func (h *server) startEncryption(tasks *task.Supervisor) {
	tasks.Start(task.Task{Name: "Encryption", When: task.Every(5 * time.Minute), AtStart: true,
		Run: func(ctx context.Context, r *task.Run) error {
			failed := settleKeys(ctx, h.system.Store, r)
			if h.system.Encryption == nil || ctx.Err() != nil {
				return failed
			}
			p, err := h.system.Encryption.Rewrite(ctx, func(done int64) {
				r.Report(admin.Size(done).String() + " encrypted anew")
			})
			if p.Files > 0 || p.Wrapped > 0 {
				h.env.Log.Info("encrypted files with the present key", "files", p.Files, "bytes", p.Bytes,
					"left", p.Left)
			}
			return errors.Join(failed, err)
		}})
}

// settleKeys encrypts what databases hold from before they got a key of their own, and decrypts those that are to have
// none.
func settleKeys(ctx context.Context, s *store.Store, r *task.Run) error {
	list, err := unsettled(s)
	errs := []error{err}
	for _, id := range list {
		errs = append(errs, s.Settle(ctx, id, func(notes uint64) {
			r.Report(fmt.Sprintf("database %s: %d notes", id, notes))
		}))
	}
	return errors.Join(errs...)
}

// unsettled returns the databases of which not all is encrypted as their keys say.
func unsettled(s *store.Store) (list []note.DatabaseID, err error) {
	err = s.Infos(func(i *layout.Info) {
		if i.Key != nil && !i.Key.Settled && i.State == layout.InService {
			list = append(list, i.ID)
		}
	})
	return list, err
}

// commander runs a verb with words as they stand on a command line: admin.Running.Command.
type commander func(ctx context.Context, verb string, words []string, progress func(admin.Progress)) (admin.Output,
	error)

// verbTask returns the run of a task that runs a verb with words and the task's arguments. A verb that reports a
// problem fails the run, as it does on the command line; show tasks shows its report.
func verbTask(command commander, verb string, words ...string) func(context.Context, *task.Run) error {
	return func(ctx context.Context, r *task.Run) error {
		report := func(p admin.Progress) { r.Report(p.String()) }
		out, err := command(ctx, verb, slices.Concat(words, r.Args), report)
		if err != nil {
			return err
		}
		r.Report(strings.TrimSpace(out.Output))
		if out.Failed {
			return fmt.Errorf("%s reports a problem", verb)
		}
		return nil
	}
}

// profileFor is the length of the profiles that divide the processor time among the tasks, profileEvery the mean time
// between two. They begin at random, so that no task always or never runs meanwhile because it has the same rhythm.
const profileFor, profileEvery = time.Second, time.Minute

// sampleCPU returns the run of the task CPU.
func (h *server) sampleCPU() func(context.Context) error {
	meter := cpu.New(h.system.Stats)
	return func(ctx context.Context) error {
		wait := func(d time.Duration) {
			select {
			case <-h.env.Clock.After(d):
			case <-ctx.Done():
			}
		}
		if wait(time.Duration(h.env.Uint64() % uint64(profileEvery))); ctx.Err() != nil {
			return ctx.Err()
		}
		return meter.Sample(func() { wait(profileFor) })
	}
}

// warnTasks logs the names in the plan that no task has. They change nothing.
func (h *server) warnTasks(plan task.Plan, tasks *task.Supervisor) {
	var names []string
	for _, t := range tasks.Status() {
		names = append(names, t.Name)
	}
	if unknown := plan.Unknown(names); len(unknown) > 0 {
		h.env.Log.Warn("configuration: [tasks] names tasks that do not exist here", "tasks", unknown)
	}
}

// replan applies a changed plan to the tasks. A task that does not end in time ends later.
func (h *server) replan(tasks *task.Supervisor, plan task.Plan) {
	ctx, cancel := context.WithTimeout(h.ctx, grace)
	defer cancel()
	if err := tasks.Replan(ctx, plan); err != nil {
		h.env.Log.Warn("tasks stop slowly", "error", err)
	}
	h.warnTasks(plan, tasks)
}

// statistics adds the figures of the server as a whole to the tree.
func (h *server) statistics() {
	s := h.system
	s.Stats.Text("Server.Name", "the server's name", func() string { return s.Name })
	s.Stats.Text("Server.Version.Doublet", "the program's version", func() string { return s.Version })
	s.Stats.Text("Server.Time.Start", "when the server started",
		func() string { return s.Started.UTC().Format(time.RFC3339) })
	s.Stats.Text("Server.ElapsedTime", "how long the server has been running", func() string {
		return h.env.Clock.Now().Sub(s.Started).Round(time.Second).String()
	})
	s.Stats.GaugeFunc("Server.ElapsedSeconds", "how long the server has been running, seconds", func() float64 {
		return h.env.Clock.Now().Sub(s.Started).Seconds()
	})
	if tail := logtail.Of(h.env.Log); tail != nil {
		s.Stats.CounterFunc("Server.Log.Lines", "lines written to the log (log.level, log.messages)",
			func() float64 { return float64(tail.Written()) })
	}
	s.Stats.Active("Server.Users", "users")
	s.Stats.Rate("Server.Trans", "transactions")
}
