package main

import (
	"context"
	"time"

	"doublet/catalog"
	"doublet/mail/queue"
	"doublet/probe"
	"doublet/probe/check"
	"doublet/stat"
	"doublet/store/layout"
)

// readings makes the readings of probes. What is remembered from one reading to the next belongs to one probe each, and
// the monitor runs a probe once at a time.
type readings struct {
	*server
	trip *trip
	last map[string]*reading
}

// reading is the last value of a counter.
type reading struct {
	value float64
	known bool
}

func newReadings(h *server) *readings {
	r := &readings{server: h, trip: &trip{server: h, to: h.cfg.Probes.TestMail}, last: map[string]*reading{}}
	for _, name := range grown {
		r.last[name] = &reading{}
	}
	return r
}

// grown lists what readings.since is asked about, by probe and statistic. The map of readings does not change after the
// start, so that probes run at the same time without a lock.
var grown = []string{"CPU", "DeliverTime.count", "DeliverTime.sum", "SignInRate", "HTTP.count", "HTTP.errors",
	"HTTP.answers", "HTTP.sum", "JMAP.count", "JMAP.errors", "wall", "Archive.Gaps", "Journal.Failures",
	"Journal.NotJournaled"}

// since returns how much a counter has grown since the last reading; nothing at the first one.
func (r *readings) since(name string, value float64) float64 {
	x := r.last[name]
	grew := value - x.value
	if !x.known {
		grew = 0
	}
	x.value, x.known = value, true
	return max(0, grew)
}

// grew returns how much a statistic that is a counter has grown since the last reading.
func (r *readings) grew(name string) int { return int(r.since(name, r.value(name))) }

// value returns the present value of a statistic, 0 if it does not exist here.
func (r *readings) value(name string) float64 {
	for _, e := range r.system.Stats.Snapshot(name) {
		if e.Name == name {
			return e.Value
		}
	}
	return 0
}

// always makes a function without errors a reader.
func always[R any](fn func() R) func(context.Context) (R, error) {
	return func(context.Context) (R, error) { return fn(), nil }
}

// probes returns all probes, each with its reader.
func (r *readings) probes() []*probe.Probe {
	return []*probe.Probe{
		probe.Bind(&check.QueueLength, always(r.destinations)),
		probe.Bind(&check.QueueAge, r.oldest),
		probe.Bind(&check.NextHop, always(r.destinations)),
		probe.Bind(&check.DeadMail, always(func() int { return int(r.value("Mail.Dead")) })),
		probe.Bind(&check.DeliverTime, always(r.delivered)),
		probe.Bind(&check.TestMail, r.trip.read),
		probe.Bind(&check.JournalFailure, always(func() check.Journaling {
			return check.Journaling{Failures: r.grew("Journal.Failures"), Missed: r.grew("Journal.NotJournaled")}
		})),
		probe.Bind(&check.MailRules, func(ctx context.Context) ([]string, error) {
			return r.system.Mail.Rules.Unreadable(ctx)
		}),
		probe.Bind(&check.CPU, always(r.cpu)),
		probe.Bind(&check.Memory, always(r.memory)),
		probe.Bind(&check.DiskSpace, r.disks),
		probe.Bind(&check.DiskLatency, always(r.system.Store.FlushTime)),
		probe.Bind(&check.Descriptors, r.descriptors),
		probe.Bind(&check.Damage, always(func() check.Damaged {
			return check.Damaged{Files: r.system.Store.DamagedFiles(),
				Objects:  uint64(r.value("Database.DAOS.Objects.Damaged")),
				Segments: int(r.value("Database.DAOS.Copies.Unhealed"))}
		})),
		probe.Bind(&check.OutOfService, r.outOfService),
		probe.Bind(&check.Quota, r.catalogued),
		probe.Bind(&check.DatabaseSize, r.catalogued),
		probe.Bind(&check.CompactionDebt,
			always(func() uint64 { return uint64(r.value("Database.Compactions.Debt")) })),
		probe.Bind(&check.FullText, always(func() time.Duration {
			return time.Duration(r.value("FullText.Behind.Seconds") * float64(time.Second))
		})),
		probe.Bind(&check.Names, r.namesTwice),
		probe.Bind(&check.Members, r.members),
		probe.Bind(&check.Assistance, r.assistance),
		probe.Bind(&check.SignInRate, always(r.signIns)),
		probe.Bind(&check.SignInAttack, always(r.attacks)),
		probe.Bind(&check.Certificate, always(r.certificates)),
		probe.Bind(&check.SigningKey, r.signingKeys),
		probe.Bind(&check.OpenRelay, r.relays),
		probe.Bind(&check.BlockList, r.blocklists),
		probe.Bind(&check.WeakSetting, always(r.weakSettings)),
		probe.Bind(&check.Cluster, always(r.clusterTroubles)),
		probe.Bind(&check.Connection, r.connections),
		probe.Bind(&check.WebErrors, always(r.webErrors)),
		probe.Bind(&check.WebLatency, always(r.webLatency)),
		probe.Bind(&check.TaskCrash, always(r.taskCrashes())),
		probe.Bind(&check.TaskLate, always(r.tasks)),
		probe.Bind(&check.TaskLong, always(r.tasks)),
		probe.Bind(&check.BackupAge, always(r.backupAge)),
		probe.Bind(&check.BackupCheck, always(r.backupChecks())),
		probe.Bind(&check.ArchiveLag, always(r.archive())),
	}
}

// destinations returns what waits in the router's index.
func (r *readings) destinations() (out []check.Destination) {
	for _, d := range r.system.Mail.Router.Destinations() {
		out = append(out, check.Destination{Name: d.Destination, Waiting: d.Due + d.Waiting + d.Sending,
			Failures: d.Failures, Host: d.Host, Reply: d.Reply})
	}
	return out
}

// oldestRead bounds the messages of mail.box that oldest reads.
const oldestRead = 500

// oldest returns the age of the oldest message for each destination, of the first messages of mail.box.
func (r *readings) oldest(ctx context.Context) (out []check.Oldest, err error) {
	now, n := r.env.Clock.Now(), 0
	seen := map[string]bool{}
	err = r.system.Mail.Queue.Each(ctx, func(e *queue.Entry) bool {
		n++
		for i := range e.Recipients {
			q := &e.Recipients[i]
			if e.Held || e.Dead || q.Done() {
				continue
			}
			if to := domainOf(q.Address); !seen[to] {
				seen[to] = true
				out = append(out, check.Oldest{Destination: to, Age: now.Sub(e.Created)})
			}
		}
		return n < oldestRead
	})
	return out, err
}

// delivered returns the deliveries since the last reading.
func (r *readings) delivered() check.Delivered {
	d := r.system.Stats.Histogram("Mail.DeliverTime", "time from taking a message to its commit",
		stat.Seconds).Distribution()
	n, sum := r.since("DeliverTime.count", float64(d.Count)), r.since("DeliverTime.sum", d.Sum)
	if n == 0 {
		return check.Delivered{}
	}
	return check.Delivered{Count: uint64(n), Mean: time.Duration(sum / n * float64(time.Second))}
}

// outOfService returns the databases that are out of service.
func (r *readings) outOfService(context.Context) (out []check.DatabaseFact, err error) {
	list, err := r.system.Store.Databases()
	for i := range list {
		if d := &list[i]; d.State == layout.OutOfService {
			out = append(out, check.DatabaseFact{Title: d.Title, ID: d.ID.String(), Out: true})
		}
	}
	return out, err
}

// catalogued returns the databases as the catalog has them. The task Catalog updates it at night.
func (r *readings) catalogued(ctx context.Context) (out []check.DatabaseFact, err error) {
	err = r.system.Catalog.Each(ctx, func(e *catalog.Entry) bool {
		if e.Quota > 0 || e.Size > 1<<30 { // the others concern no probe
			out = append(out, check.DatabaseFact{Title: e.Title, ID: e.ID.String(), Size: e.Size, Quota: e.Quota})
		}
		return true
	})
	return out, err
}

// webErrors returns the requests since the last reading, with those that failed.
func (r *readings) webErrors() []check.Requests {
	return []check.Requests{
		{Of: "http and https", Count: uint64(r.since("HTTP.count", r.value("HTTP.Requests"))),
			Errors: uint64(r.since("HTTP.errors", r.value("HTTP.Errors")))},
		{Of: "JMAP", Count: uint64(r.since("JMAP.count", r.value("JMAP.Requests"))),
			Errors: uint64(r.since("JMAP.errors", r.value("JMAP.Panics")))},
	}
}

// webLatency returns the mean time of the requests since the last reading.
func (r *readings) webLatency() []check.Requests {
	d := r.system.Stats.Histogram("HTTP.ResponseTime", "time from a request to the head of its answer",
		stat.Seconds).Distribution()
	n, sum := r.since("HTTP.answers", float64(d.Count)), r.since("HTTP.sum", d.Sum)
	if n == 0 {
		return nil
	}
	return []check.Requests{{Of: "http and https", Count: uint64(n),
		Mean: time.Duration(sum / n * float64(time.Second))}}
}
