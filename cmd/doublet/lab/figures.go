package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/admin"
	"doublet/bench/content"
	"doublet/bench/drive"
	"doublet/bench/meter"
	"doublet/bench/record"
	"doublet/client/imap"
	"doublet/client/smtp"
	"doublet/env"
	wire "doublet/wire/imap"
	wiresmtp "doublet/wire/smtp"
)

// Figures are the measured figures of a cluster with two active servers; a figure that was not requested is nil. Times
// are in milliseconds unless the name has another unit.
type Figures struct {
	Idle        *Idle        `json:"idle,omitempty"`
	Lag         *Lag         `json:"lag,omitempty"`
	Acknowledge *Acknowledge `json:"acknowledge,omitempty"`
	Takeover    *Takeover    `json:"takeover,omitempty"`
	Catchup     *Catchup     `json:"catchup,omitempty"`
}

// Idle is the memory and processor time of idle servers: of one alone, and of each of two in a cluster.
type Idle struct {
	AloneMB    float64 `json:"alone_mb"`
	ClusterMB  float64 `json:"cluster_mb"`
	BusMB      float64 `json:"bus_mb"` // the difference: the cost of the cluster
	AloneCPU   float64 `json:"alone_cpu_percent"`
	ClusterCPU float64 `json:"cluster_cpu_percent"`
}

// Lag is the time between two moments: one server acknowledges a message, and a session at the other server, the home
// of the mail file, is notified of it.
type Lag struct {
	Rate       float64 `json:"deliveries_per_second"`
	Wanted     float64 `json:"wanted_per_second"`
	Deliveries int64   `json:"deliveries"`
	Unseen     int     `json:"unseen"`
	P50        float64 `json:"lag_p50"`
	P99        float64 `json:"lag_p99"`
	Max        float64 `json:"lag_max"`
	DeliverP50 float64 `json:"deliver_p50"`
	DeliverP99 float64 `json:"deliver_p99"`
	// Queue is the average time that databases waited in the server's work queue.
	Queue float64 `json:"queue_average"`
}

// Acknowledge compares the time of a delivery in the acknowledgement modes local and cluster.
type Acknowledge struct {
	LocalP50   float64 `json:"local_p50"`
	LocalP99   float64 `json:"local_p99"`
	ClusterP50 float64 `json:"cluster_p50"`
	ClusterP99 float64 `json:"cluster_p99"`
	AddsP50    float64 `json:"adds_p50"`
	// Degraded counts the deliveries that were acknowledged although no mate (other member of the cluster) had
	// confirmed them.
	Degraded float64 `json:"degraded"`
}

// Takeover is the time from the SIGKILL of a home until users have their INBOX open at the other server.
type Takeover struct {
	People int     `json:"people"`
	First  float64 `json:"first"`
	P50    float64 `json:"p50"`
	Max    float64 `json:"max"`
}

// Catchup is the time that a server needs to catch up after it was down.
type Catchup struct {
	Notes     int     `json:"notes"`
	Doors     float64 `json:"doors_open_after_s"`
	Whole     float64 `json:"whole_after_s"` // since the process started
	PerSecond float64 `json:"notes_per_second"`
}

func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// bystander is a lab of two active servers with the users of one of them.
type bystander struct {
	*Lab
	env    *env.Env
	here   *Server // receives the deliveries
	away   *Server // the home of the users
	people []drive.User
}

func (l *Lab) bystander(e *env.Env) (*bystander, error) {
	if !l.Clustered || len(l.Servers) != 2 {
		return nil, fmt.Errorf("lab: these figures are of two servers in a cluster, and this is %s", l.Name)
	}
	b := &bystander{Lab: l, env: e, here: l.Servers[0], away: l.Servers[1]}
	for _, u := range l.Users() {
		if u.Server == 1 {
			b.people = append(b.people, u)
		}
	}
	return b, nil
}

// deliveries sends each messages of 1 KB to every user, on one connection per user, one after the other. rate is the
// total number of messages a second; 0 is as fast as possible. It calls acked after each acknowledgement.
func (b *bystander) deliveries(ctx context.Context, rate float64, each int,
	acked func(person int, began, at time.Time)) error {
	var all sync.WaitGroup
	errs := make(chan error, len(b.people))
	begin := b.env.Clock.Now()
	for i := range b.people {
		all.Add(1)
		b.env.Go("lab deliveries", func() {
			defer all.Done()
			errs <- b.deliver(ctx, i, each, func(k int) time.Time {
				if rate <= 0 {
					return begin
				}
				return begin.Add(time.Duration((float64(k*len(b.people)+i) / rate) * float64(time.Second)))
			}, acked)
		})
	}
	all.Wait()
	close(errs)
	var err error
	for e := range errs {
		err = errors.Join(err, e)
	}
	return err
}

func (b *bystander) deliver(ctx context.Context, person, each int, when func(k int) time.Time,
	acked func(person int, began, at time.Time)) error {
	u := &b.people[person]
	to, err := wiresmtp.ParsePath(u.Address)
	if err != nil {
		return err
	}
	c, err := smtp.Dial(b.env, "tcp", b.here.Doors["smtp"], smtp.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Hello("bench.example"); err != nil {
		return err
	}
	m := content.Message{From: u.Address, To: []string{u.Address}, Subject: "Message", Date: b.env.Clock.Now(),
		Body: 1000}
	var text []byte
	for k := range each {
		if d := when(k).Sub(b.env.Clock.Now()); d > 0 {
			select {
			case <-ctx.Done():
			case <-b.env.Clock.After(d):
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.ID, m.Seed = fmt.Sprintf("figure.%d.%d.%d", b.env.Uint64()>>20, person, k), b.env.Uint64()
		text = m.Append(text[:0])
		began := b.env.Clock.Now()
		res, err := c.Deliver(&smtp.Outgoing{From: to, To: []wiresmtp.Path{to}, Message: text})
		if err != nil {
			return err
		}
		if !res.Accepted(0) {
			return fmt.Errorf("lab: %s refused a message for %s", b.here.Name, u.Name)
		}
		acked(person, began, b.env.Clock.Now())
	}
	return nil
}

// inbox opens a person's INBOX at a server.
func (b *bystander) inbox(s *Server, u *drive.User) (*imap.Client, uint32, error) {
	c, err := imap.Dial(b.env.Dial, s.Doors["imap"], imap.Options{Timeout: time.Minute, Clock: b.env.Clock})
	if err != nil {
		return nil, 0, err
	}
	err = c.Login(u.Name, u.Password)
	var sel *imap.Selected
	if err == nil {
		sel, err = c.Select(&wire.Select{Mailbox: "INBOX"}, false)
	}
	if err != nil {
		return nil, 0, errors.Join(err, c.Close())
	}
	return c, sel.Exists, nil
}

// seen holds the times at which a person's messages were acknowledged, and at which his session was notified of them.
type seen struct{ acked, told []time.Time }

// lagLimit is the time that Lag waits for the last notifications.
const lagLimit = 30 * time.Second

// Lag delivers messages at one server and watches the mailboxes at the other.
func (l *Lab) Lag(ctx context.Context, e *env.Env, rate float64, length time.Duration) (*Lag, error) {
	b, err := l.bystander(e)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	list := make([]seen, len(b.people))
	var watchers sync.WaitGroup
	var sessions []*imap.Client
	defer func() {
		for _, c := range sessions {
			_ = c.Close()
		}
		watchers.Wait()
	}()
	for i := range b.people {
		c, before, err := b.inbox(b.away, &b.people[i])
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, c)
		watchers.Add(1)
		e.Go("lab watcher", func() {
			defer watchers.Done()
			_ = c.Idle(func(r *wire.Response) bool {
				now := e.Clock.Now()
				mu.Lock()
				defer mu.Unlock()
				for r.Name == "EXISTS" && before < r.Number {
					before++
					list[i].told = append(list[i].told, now)
				}
				return true
			})
		})
	}
	each := max(1, int(rate*length.Seconds())/len(b.people))
	var took record.Histogram
	begin := e.Clock.Now()
	err = b.deliveries(ctx, rate, each, func(p int, began, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		list[p].acked = append(list[p].acked, at)
		took.Add(at.Sub(began))
	})
	if err != nil {
		return nil, err
	}
	length = e.Clock.Now().Sub(begin)
	unseen := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for i := range list {
			n += len(list[i].acked) - len(list[i].told)
		}
		return n
	}
	for until := e.Clock.Now().Add(lagLimit); unseen() > 0 && e.Clock.Now().Before(until); {
		e.Clock.Sleep(10 * time.Millisecond)
	}
	out := &Lag{Wanted: rate, Unseen: unseen(), DeliverP50: milli(took.Percentile(50)),
		DeliverP99: milli(took.Percentile(99))}
	var lag record.Histogram
	mu.Lock()
	defer mu.Unlock()
	for i := range list {
		for k := range min(len(list[i].acked), len(list[i].told)) {
			lag.Add(max(0, list[i].told[k].Sub(list[i].acked[k])))
		}
	}
	out.Deliveries = took.Count()
	out.Rate = float64(out.Deliveries) / length.Seconds()
	out.P50, out.P99, out.Max = milli(lag.Percentile(50)), milli(lag.Percentile(99)), milli(lag.Max())
	out.Queue = b.here.statistic(ctx, e, "Replica.Cluster.SecondsOnQueue.Avg") * 1000
	return out, nil
}

// Acknowledge delivers messages in the mode local and then in the mode cluster.
func (l *Lab) Acknowledge(ctx context.Context, e *env.Env, rate float64, length time.Duration) (*Acknowledge, error) {
	b, err := l.bystander(e)
	if err != nil {
		return nil, err
	}
	measure := func(mode string) (h record.Histogram, err error) {
		for i := range b.people {
			if _, err := ask[admin.Database](ctx, e, b.away, "db set",
				admin.DatabaseSet{Name: b.people[i].Name, Acknowledge: &mode}); err != nil {
				return h, err
			}
		}
		if err := l.Settle(ctx, e, placeLimit); err != nil {
			return h, err
		}
		var mu sync.Mutex
		err = b.deliveries(ctx, rate, max(1, int(rate*length.Seconds())/len(b.people)),
			func(_ int, began, at time.Time) {
				mu.Lock()
				defer mu.Unlock()
				h.Add(at.Sub(began))
			})
		return h, err
	}
	local, err := measure("local")
	if err != nil {
		return nil, err
	}
	before := b.here.statistic(ctx, e, degraded)
	mate, err := measure("cluster")
	if err != nil {
		return nil, err
	}
	out := &Acknowledge{
		LocalP50: milli(local.Percentile(50)), LocalP99: milli(local.Percentile(99)),
		ClusterP50: milli(mate.Percentile(50)), ClusterP99: milli(mate.Percentile(99)),
		Degraded: b.here.statistic(ctx, e, degraded) - before,
	}
	out.AddsP50 = out.ClusterP50 - out.LocalP50
	mode := "local"
	for i := range b.people {
		if _, err := ask[admin.Database](ctx, e, b.away, "db set",
			admin.DatabaseSet{Name: b.people[i].Name, Acknowledge: &mode}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const degraded = "Server.Cluster.Acknowledged.Degraded"

// takeoverLimit is the time for which users try to sign in.
const takeoverLimit = time.Minute

// Takeover kills the home of the users, signs them in at the other server as soon as it accepts them, and restarts the
// home.
func (l *Lab) Takeover(ctx context.Context, e *env.Env) (*Takeover, error) {
	b, err := l.bystander(e)
	if err != nil {
		return nil, err
	}
	if err := b.away.Kill(); err != nil {
		return nil, err
	}
	killed := e.Clock.Now()
	var mu sync.Mutex
	var took []time.Duration
	var last error
	var all sync.WaitGroup
	for i := range b.people {
		all.Add(1)
		e.Go("lab takeover", func() {
			defer all.Done()
			for e.Clock.Now().Sub(killed) < takeoverLimit && ctx.Err() == nil {
				c, _, err := b.inbox(b.here, &b.people[i])
				mu.Lock()
				if last = err; err == nil {
					took = append(took, e.Clock.Now().Sub(killed))
				}
				mu.Unlock()
				if err == nil {
					_ = c.Close()
					return
				}
				e.Clock.Sleep(50 * time.Millisecond)
			}
		})
	}
	all.Wait()
	err = errors.Join(ctx.Err(), b.away.Start(context.WithoutCancel(ctx), e, l.Program), l.Settle(ctx, e, placeLimit))
	if err == nil && len(took) < len(b.people) {
		err = fmt.Errorf("lab: %d of %d people were not let in within %v: %w", len(b.people)-len(took), len(b.people),
			takeoverLimit, last)
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(took)
	return &Takeover{People: len(took), First: milli(took[0]), P50: milli(took[len(took)/2]),
		Max: milli(took[len(took)-1])}, nil
}

// Catchup kills a server, delivers about so many notes at the other, and restarts the first.
func (l *Lab) Catchup(ctx context.Context, e *env.Env, notes int) (*Catchup, error) {
	b, err := l.bystander(e)
	if err != nil {
		return nil, err
	}
	if err := b.away.Kill(); err != nil {
		return nil, err
	}
	each := max(1, notes/len(b.people))
	delivered := b.deliveries(ctx, 0, each, func(int, time.Time, time.Time) {})
	begun := e.Clock.Now()
	if err := errors.Join(delivered, b.away.Start(context.WithoutCancel(ctx), e, l.Program)); err != nil {
		return nil, err
	}
	doors := e.Clock.Now()
	whole, err := l.settled(ctx, e, placeLimit)
	if err != nil {
		return nil, err
	}
	out := &Catchup{Notes: each * len(b.people), Doors: doors.Sub(begun).Seconds(), Whole: whole.Sub(begun).Seconds()}
	out.PerSecond = float64(out.Notes) / out.Whole
	return out, nil
}

// Rest restarts the servers, leaves them idle for length, and returns their average memory (PSS, MB) and processor time
// (percent of a core).
func (l *Lab) Rest(ctx context.Context, e *env.Env, length time.Duration) (memory, cpu float64, err error) {
	if err := l.Stop(e); err != nil {
		return 0, 0, err
	}
	for _, s := range l.Servers {
		if err := s.Start(ctx, e, l.Program); err != nil {
			return 0, 0, err
		}
	}
	if err := l.Settle(ctx, e, placeLimit); err != nil {
		return 0, 0, err
	}
	var groups []meter.Group
	for _, s := range l.Servers {
		groups = append(groups, meter.Group{Name: s.Name, PIDFile: s.PIDFile()})
	}
	m, err := meter.New(groups)
	if err == nil {
		_, err = m.Sample(e.Clock.Now())
	}
	if err != nil {
		return 0, 0, err
	}
	select {
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	case <-e.Clock.After(length):
	}
	list, err := m.Sample(e.Clock.Now())
	for _, r := range list {
		if slices.ContainsFunc(l.Servers, func(s *Server) bool { return s.Name == r.Group }) {
			memory += r.Values["pss"] / 1e6 / float64(len(l.Servers))
			cpu += r.Values["cpu"] * 100 / float64(len(l.Servers))
		}
	}
	return memory, cpu, err
}

// statistic returns one statistic of a server, 0 if the server does not answer.
func (s *Server) statistic(ctx context.Context, e *env.Env, name string) float64 {
	list, err := s.statistics(ctx, e)
	if err != nil {
		return 0
	}
	return list[name]
}

// FigureNames returns the names of the figures in the order of measurement.
func FigureNames() []string { return []string{"idle", "lag", "acknowledge", "takeover", "catchup"} }
