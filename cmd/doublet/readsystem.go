package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"doublet/note"
	"doublet/probe"
	"doublet/probe/check"
	"doublet/store"
	"doublet/task"
	"doublet/wire/smtp"
)

// cpu returns the share of all processors since the last reading, in percent.
func (r *readings) cpu() float64 {
	wall := r.since("wall", float64(r.env.Clock.Now().UnixMilli())/1000)
	used := r.since("CPU", r.value("Platform.Process.CPU.Seconds"))
	if wall <= 0 {
		return 0
	}
	return 100 * used / wall / float64(runtime.NumCPU())
}

// memory returns the memory that the runtime holds, and its limit. Without a limit, nothing is to be reported.
func (r *readings) memory() check.MemoryUse {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return check.MemoryUse{}
	}
	used := readMetric("/memory/classes/total:bytes") - readMetric("/memory/classes/heap/released:bytes")
	return check.MemoryUse{Used: used, Limit: uint64(limit)}
}

// disks returns the devices of the store and of backups.
func (r *readings) disks(context.Context) (out []check.Disk, err error) {
	at := r.system.Store.Places()
	seen := map[string]bool{"": true}
	for _, dir := range []string{at.Data, at.Log, at.Index, at.Segments, r.cfg.Data.BackupDir} {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		u, bad := r.env.FS.GetDiskUsage(dir)
		if bad != nil {
			if dir != r.cfg.Data.BackupDir { // it may not exist before the first backup
				err = errors.Join(err, bad)
			}
			continue
		}
		d := check.Disk{Folder: dir, Free: u.AvailBytes, Total: u.AvailBytes + u.UsedBytes}
		if slices.ContainsFunc(out, func(x check.Disk) bool { return sameDevice(&x, &d) }) {
			continue
		}
		d.Stopped = dir == at.Data && !r.system.Store.HasSpace()
		out = append(out, d)
	}
	return out, err
}

// sameDevice reports whether two folders seem to be on one device, so that it raises one event. Free space may have
// changed between the two readings.
func sameDevice(a, b *check.Disk) bool {
	const moved = 64 << 20
	return max(a.Free, b.Free)-min(a.Free, b.Free) < moved && max(a.Total, b.Total)-min(a.Total, b.Total) < moved
}

// descriptors returns the open files of the process. Systems without /proc have no reading.
func (r *readings) descriptors(context.Context) (check.Files, error) {
	open, err := r.env.FS.List("/proc/self/fd")
	if err != nil {
		return check.Files{}, nil //nolint:nilerr // not Linux
	}
	f, err := r.env.FS.Open("/proc/self/limits")
	if err != nil {
		return check.Files{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	return check.Files{Open: uint64(len(open)), Limit: fileLimit(text)}, err
}

// fileLimit returns the soft limit of open files in the text of /proc/self/limits, 0 if there is none.
func fileLimit(text []byte) uint64 {
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("Max open files")); ok {
			if words := bytes.Fields(rest); len(words) > 0 {
				n, _ := strconv.ParseUint(string(words[0]), 10, 64) // unlimited: 0
				return n
			}
		}
	}
	return 0
}

// tasks returns the state of the server tasks. A task that is stopped was quit by somebody.
func (r *readings) tasks() (out []check.Task) {
	now := r.env.Clock.Now()
	for _, t := range r.running.Tasks.Status() {
		x := check.Task{Name: t.Name, Waiting: t.State == task.StatePaused, Error: t.Error, Crashes: t.Crashes,
			Again: t.Continuous && t.State == task.StateRunning}
		switch {
		case t.State == task.StateStopped:
			continue
		case t.State == task.StateRunning && !t.Continuous:
			x.Running = now.Sub(t.LastRun)
		case t.State != task.StateRunning && !t.NextRun.IsZero():
			x.Late = max(0, now.Sub(t.NextRun))
		}
		out = append(out, x)
	}
	return out
}

// crashPeriod is the time for which a crash of a task is reported.
const crashPeriod = 10 * time.Minute

// taskCrashes returns a reader of the tasks with their crashes in the last crashPeriod.
func (r *readings) taskCrashes() func() []check.Task {
	type crash struct {
		count uint64
		until time.Time
	}
	seen := map[string]crash{}
	return func() []check.Task {
		now, list := r.env.Clock.Now(), r.tasks()
		for i := range list {
			t := &list[i]
			c := seen[t.Name]
			if t.Crashes > c.count {
				c = crash{t.Crashes, now.Add(crashPeriod)}
			}
			if seen[t.Name] = c; !now.Before(c.until) {
				t.Crashes = 0
			}
		}
		return list
	}
}

// backupAge returns the age of the last good backup. Without one, it is the time since the database of events was made:
// the store is as old, or was brought to this release then.
func (r *readings) backupAge() check.Backups {
	now := r.env.Clock.Now()
	if last := r.value("Backup.LastSuccess"); last > 0 {
		return check.Backups{Age: now.Sub(time.Unix(int64(last), 0))}
	}
	info, err := r.system.Store.Info(probe.ID)
	if err != nil {
		return check.Backups{}
	}
	return check.Backups{Never: true, Age: now.Sub(time.Unix(info.Created, 0))}
}

// backupChecks returns a reader of the backups that failed since the last good one.
func (r *readings) backupChecks() func() check.Backups {
	var last, failed, damaged float64
	return func() check.Backups {
		f, d := r.value("Backup.Failed"), r.value("Backup.Damaged")
		if good := r.value("Backup.LastSuccess"); good != last {
			if last != 0 || good == 0 {
				failed, damaged = f, d
			}
			last = good
		}
		return check.Backups{Failed: int(f - failed), Damaged: int(d - damaged)}
	}
}

// archive returns a reader of the state of the archive. Where nothing was archived yet, it is behind since the first
// reading.
func (r *readings) archive() func() check.Archive {
	var first time.Time
	return func() check.Archive {
		most := r.value("Archive.Kept.Maximum")
		if most == 0 {
			return check.Archive{}
		}
		now, through := r.env.Clock.Now(), r.value("Archive.Through")
		since := time.Unix(int64(through), 0)
		if through == 0 {
			if first.IsZero() {
				first = now
			}
			since = first
		}
		return check.Archive{Behind: now.Sub(since), Kept: uint64(r.value("Archive.Kept.Bytes")), Most: uint64(most),
			Gaps: r.grew("Archive.Gaps")}
	}
}

// tripEvery is the time between two test mails.
const tripEvery = 15 * time.Minute

// trip sends test mails to a mail file here, one at a time, and removes what has arrived.
type trip struct {
	*server
	to   string // empty: none
	id   note.UNID
	sent time.Time
	last check.Trip
}

// read looks after the test mail that is under way, and sends one when it is time.
func (t *trip) read(ctx context.Context) ([]check.Trip, error) {
	if t.to == "" {
		return nil, nil
	}
	now := t.env.Clock.Now()
	if t.id != (note.UNID{}) {
		at, found, err := t.system.Mail.Trace.Delivered(ctx, t.id, t.to)
		switch {
		case err != nil:
			return nil, err
		case !found && now.Sub(t.sent) < 24*time.Hour:
			return []check.Trip{{To: t.to, Took: now.Sub(t.sent)}}, nil
		}
		t.last = check.Trip{To: t.to, Took: max(0, at.Sub(t.sent)), Arrived: found}
		if err := t.remove(ctx); err != nil {
			return nil, err
		}
		t.id = note.UNID{}
	}
	if !t.sent.IsZero() && now.Sub(t.sent) < tripEvery {
		return []check.Trip{t.last}, nil
	}
	var id note.UNID
	t.env.Fill(id[:])
	t.sent, t.last = now, check.Trip{To: t.to}
	err := notices{t.server}.mail(ctx, id, t.to, "Test mail of "+t.cfg.Server.Name,
		"The server sends this message to itself to measure how mail flows, and removes it.\n")
	if err != nil {
		t.last.Refused = err.Error()
		return []check.Trip{t.last}, nil
	}
	t.id = id
	return []check.Trip{t.last}, nil
}

// remove removes the test mail that has arrived.
func (t *trip) remove(ctx context.Context) error {
	target, err := t.system.Directory.Names.Resolve(ctx, t.to)
	if err != nil {
		return err
	}
	err = t.system.Store.Update(ctx, note.System, []note.DatabaseID{target.Database}, func(tx *store.Tx) error {
		w, err := tx.Database(target.Database)
		if err != nil {
			return err
		}
		n, err := w.Find(note.DeriveUNID(t.id[:], target.ID[:]))
		if err != nil {
			return err
		}
		return w.Destroy(n)
	})
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return nil // a rule or a person was faster
	}
	return err
}

// relayTo is an address in a domain that nobody has (RFC 2606 section 2).
var relayTo = smtp.Path{Local: "relay-test", Domain: "relay-test.invalid"}

// relays asks the rule of the door smtp about a stranger who sends to another domain. Nothing is sent.
func (r *readings) relays(ctx context.Context) ([]check.Relay, error) {
	takes, err := r.strangersRelay(ctx, relayTo)
	var refused *smtp.Reply
	if errors.As(err, &refused) {
		takes, err = false, nil
	}
	return []check.Relay{{Door: "smtp", Address: relayTo.String(), Takes: takes}}, err
}

// domainOf returns the domain of an address.
func domainOf(address string) string {
	p, err := smtp.ParsePath(address)
	if err != nil {
		return address
	}
	return p.Domain
}
