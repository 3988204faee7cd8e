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
	"doublet/bench/record"
	"doublet/client/imap"
	"doublet/client/smtp"
	wire "doublet/wire/imap"
	wiresmtp "doublet/wire/smtp"
)

func milli(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// bystander is a lab of two active servers with the users of one of them.
type bystander struct {
	*Lab
	here   *Server // receives the deliveries
	away   *Server // the home of the users
	people []drive.User
}

func newBystander(l *Lab) *bystander {
	b := &bystander{Lab: l, here: l.Servers[0], away: l.Servers[1]}
	for _, u := range l.Users() {
		if u.Server == 1 {
			b.people = append(b.people, u)
		}
	}
	return b
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

// lagLimit is the time that lag waits for the last notifications.
const lagLimit = 30 * time.Second

// lag delivers messages at one server and watches the mailboxes at the other.
func (b *bystander) lag(ctx context.Context, rate float64, length time.Duration) (*Lag, error) {
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
		b.env.Go("lab watcher", func() {
			defer watchers.Done()
			_ = c.Idle(func(r *wire.Response) bool {
				now := b.env.Clock.Now()
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
	begin := b.env.Clock.Now()
	err := b.deliveries(ctx, rate, each, func(p int, began, at time.Time) {
		mu.Lock()
		defer mu.Unlock()
		list[p].acked = append(list[p].acked, at)
		took.Add(at.Sub(began))
	})
	if err != nil {
		return nil, err
	}
	length = b.env.Clock.Now().Sub(begin)
	unseen := func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for i := range list {
			n += len(list[i].acked) - len(list[i].told)
		}
		return n
	}
	for until := b.env.Clock.Now().Add(lagLimit); unseen() > 0 && b.env.Clock.Now().Before(until); {
		b.env.Clock.Sleep(10 * time.Millisecond)
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
	out.Queue = b.here.statistic(ctx, "Replica.Cluster.SecondsOnQueue.Avg") * 1000
	return out, nil
}

// acknowledge delivers messages in the mode local and then in the mode cluster.
func (b *bystander) acknowledge(ctx context.Context, rate float64, length time.Duration) (*Acknowledge, error) {
	measure := func(mode string) (h record.Histogram, err error) {
		if err := b.setMode(ctx, mode); err != nil {
			return h, err
		}
		if err := b.Settle(ctx); err != nil {
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
	before := b.here.statistic(ctx, degraded)
	mate, err := measure("cluster")
	if err != nil {
		return nil, err
	}
	out := &Acknowledge{
		LocalP50: milli(local.Percentile(50)), LocalP99: milli(local.Percentile(99)),
		ClusterP50: milli(mate.Percentile(50)), ClusterP99: milli(mate.Percentile(99)),
		Degraded: b.here.statistic(ctx, degraded) - before,
	}
	out.AddsP50 = out.ClusterP50 - out.LocalP50
	return out, b.setMode(ctx, "local")
}

// setMode sets the acknowledgement mode of the users' mail files.
func (b *bystander) setMode(ctx context.Context, mode string) error {
	for i := range b.people {
		if _, err := ask[admin.Database](ctx, b.away, "db set",
			admin.DatabaseSet{Name: b.people[i].Name, Acknowledge: &mode}); err != nil {
			return err
		}
	}
	return nil
}

const degraded = "Server.Cluster.Acknowledged.Degraded"

// takeoverLimit is the time for which users try to sign in.
const takeoverLimit = time.Minute

// takeover kills the home of the users, signs them in at the other server as soon as it accepts them, and restarts the
// home.
func (b *bystander) takeover(ctx context.Context) (*Takeover, error) {
	if err := b.away.Kill(); err != nil {
		return nil, err
	}
	killed := b.env.Clock.Now()
	var mu sync.Mutex
	var took []time.Duration
	var last error
	var all sync.WaitGroup
	for i := range b.people {
		all.Add(1)
		b.env.Go("lab takeover", func() {
			defer all.Done()
			for b.env.Clock.Now().Sub(killed) < takeoverLimit && ctx.Err() == nil {
				c, _, err := b.inbox(b.here, &b.people[i])
				mu.Lock()
				if last = err; err == nil {
					took = append(took, b.env.Clock.Now().Sub(killed))
				}
				mu.Unlock()
				if err == nil {
					_ = c.Close()
					return
				}
				b.env.Clock.Sleep(50 * time.Millisecond)
			}
		})
	}
	all.Wait()
	err := errors.Join(ctx.Err(), b.away.Start(context.WithoutCancel(ctx)), b.Settle(ctx))
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

// catchup kills a server, delivers about so many notes at the other, and restarts the first.
func (b *bystander) catchup(ctx context.Context, notes int) (*Catchup, error) {
	if err := b.away.Kill(); err != nil {
		return nil, err
	}
	each := max(1, notes/len(b.people))
	delivered := b.deliveries(ctx, 0, each, func(int, time.Time, time.Time) {})
	begun := b.env.Clock.Now()
	if err := errors.Join(delivered, b.away.Start(context.WithoutCancel(ctx))); err != nil {
		return nil, err
	}
	doors := b.env.Clock.Now()
	whole, err := b.settled(ctx)
	if err != nil {
		return nil, err
	}
	out := &Catchup{Notes: each * len(b.people), Doors: doors.Sub(begun).Seconds(), Whole: whole.Sub(begun).Seconds()}
	out.PerSecond = float64(out.Notes) / out.Whole
	return out, nil
}
