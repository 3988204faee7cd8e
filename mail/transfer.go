package mail

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Bounds of what goes out at once.
const (
	maxRecipients = 100    // of one transaction: what every server takes (RFC 5321 section 4.5.3.1.8)
	maxUnsettled  = 4096   // messages sent whose entries are not yet changed
	fairShare     = 20     // messages after which a lane ends if another destination has none
	perLane       = 4      // messages that wait before another connection is worth its cost
	maxOwnHops    = 10     // Received fields of this server's own before a message is going round
	maxErrorText  = 1 << 9 // of a server's reply that is kept
)

// lane is a connection to a destination, and the goroutine that sends over it.
type lane struct {
	s       *transfers
	d       *destination
	session *outbound.Session
	wake    chan struct{}
	quit    bool // guarded by Service.mu
	taken   int  // entries, so far
}

// sending starts lanes as destinations have something due, until ctx ends; then it waits until all
// have ended and what they sent is settled.
func (s *transfers) sending(ctx context.Context, catchUp func(context.Context) (bool, error)) {
	for ctx.Err() == nil {
		more, err := catchUp(ctx)
		if errors.Is(err, store.ErrClosed) {
			break
		}
		if err != nil && ctx.Err() == nil {
			s.env.Log.Error("mail: router", "err", err)
		}
		next := s.dispatch(ctx)
		if more {
			continue
		}
		stop := func() bool { return true }
		if next != 0 {
			stop = s.env.Clock.AfterFunc(time.Unix(int64(next), 0).Sub(s.env.Clock.Now()), func() { nudge(s.wakeOut) })
		}
		select {
		case <-ctx.Done():
		case <-s.wakeOut:
		}
		stop()
	}
	s.endLanes()
}

// endLanes has all lanes end, and waits for them.
func (s *transfers) endLanes() {
	s.mu.Lock()
	for _, l := range slices.Clone(s.idle) {
		s.rouse(l, true)
	}
	for s.lanes > 0 || s.unsettled > 0 {
		s.moved.Wait()
	}
	list := s.agenda.runnable
	s.agenda.runnable = nil
	for _, d := range list {
		if d.listed = false; d.size() > 0 {
			s.agenda.arrange(d) // for the router that is started next
		} else {
			s.agenda.forgetIdle(d)
		}
	}
	s.mu.Unlock()
}

// dispatch starts and wakes lanes for what is due, and says when something is due again, 0 for
// never.
func (s *transfers) dispatch(ctx context.Context) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.env.Clock.Now()
	for {
		next := s.agenda.fire(seconds(now))
		list := s.agenda.runnable
		if len(list) == 0 {
			return next
		}
		s.agenda.runnable = nil
		for _, d := range list {
			d.listed = false
			s.serve(ctx, d, now)
		}
	}
}

// serve gives a destination the lanes that it needs now.
func (s *transfers) serve(ctx context.Context, d *destination, now time.Time) {
	sec := seconds(now)
	d.ripen(sec)
	for len(d.ready) > 0 && s.agenda.gens[d.ready[0].entry()] != d.ready[0].gen {
		_, d.ready = pop(d.ready, readyBefore)
		s.agenda.items--
	}
	switch {
	case d.name == heldName || s.opt.Mailer == nil || ctx.Err() != nil:
		return
	case len(d.ready) == 0 && len(d.later) > 0:
		s.agenda.wakeAt(d, d.later[0].due)
		return
	case len(d.ready) == 0:
		if d.lanes == 0 && d.busy == 0 && now.Before(d.retryAt) {
			s.agenda.wakeAt(d, ceil(d.retryAt)) // to be forgotten
		} else if d.lanes == 0 && d.busy == 0 {
			d.reached()
			s.agenda.forgetIdle(d)
		}
		return
	case now.Before(d.retryAt) && d.open == 0:
		s.agenda.wakeAt(d, ceil(d.retryAt))
		return
	}
	for i := 0; i < len(d.ready) && len(d.waiting) > 0; i++ {
		s.rouse(d.waiting[len(d.waiting)-1], false)
	}
	most := s.opt.PerDestination
	if d.limit > 0 {
		most = min(most, d.limit)
	}
	if d.open == 0 {
		most = 1 // one finds out whether anybody is there, after failures and at the first time
	}
	for d.lanes < most && (d.lanes == 0 || len(d.ready) > perLane*d.lanes) {
		if s.lanes >= s.opt.Connections {
			s.starve(d)
			return
		}
		s.lanes++
		d.lanes++
		l := &lane{s: s, d: d, wake: make(chan struct{}, 1)}
		s.env.Go("mail to "+d.name, func() { l.run(ctx) })
	}
}

// starve has a destination wait until a connection of another one ends: one that is idle does now.
func (s *transfers) starve(d *destination) {
	if d.lanes > 0 {
		return
	}
	if !d.starved {
		d.starved = true
		s.starved = append(s.starved, d)
	}
	if len(s.idle) > 0 {
		s.rouse(s.idle[0], true)
	}
}

// rouse wakes a lane that has no work, to look for some or to end.
func (s *transfers) rouse(l *lane, quit bool) {
	s.unlist(l)
	l.quit = l.quit || quit
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (s *transfers) unlist(l *lane) {
	is := func(o *lane) bool { return o == l }
	l.d.waiting = slices.DeleteFunc(l.d.waiting, is)
	s.idle = slices.DeleteFunc(s.idle, is)
}

// run sends what is due, one message after the other.
func (l *lane) run(ctx context.Context) {
	defer l.end()
	for {
		k, ok := l.next(ctx)
		if !ok || !l.send(ctx, k) {
			return
		}
	}
}

func (l *lane) end() {
	l.close(true)
	s := l.s
	s.mu.Lock()
	s.lanes--
	l.d.lanes--
	if len(s.starved) > 0 { // before its own, which would take the place again
		s.starved[0].starved = false
		s.agenda.first(s.starved[0])
		s.starved = s.starved[1:]
	}
	s.agenda.arrange(l.d)
	s.moved.Broadcast()
	s.mu.Unlock()
	nudge(s.wakeOut)
}

// close ends the session.
func (l *lane) close(politely bool) {
	if l.session == nil {
		return
	}
	if politely {
		l.session.Quit()
	} else {
		l.session.Close()
	}
	l.session = nil
	l.s.mu.Lock()
	l.d.open--
	l.s.mu.Unlock()
}

// next takes the next entry; without any, an open session waits for one for a while.
func (l *lane) next(ctx context.Context) (queue.Key, bool) {
	s := l.s
	timedOut := false
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.outcomes.unwritten() >= maxUnsettled && ctx.Err() == nil {
			s.moved.Wait()
		}
		if ctx.Err() != nil || l.quit || len(s.starved) > 0 && l.taken >= fairShare {
			return 0, false
		}
		now := s.env.Clock.Now()
		if l.session != nil || !now.Before(l.d.retryAt) {
			if k, ok := s.agenda.take(l.d, now); ok {
				s.inFlight++
				l.taken++
				return k, true
			}
		}
		if l.session == nil || timedOut || len(s.starved) > 0 {
			return 0, false
		}
		l.d.waiting, s.idle = append(l.d.waiting, l), append(s.idle, l)
		s.agenda.arrange(l.d)
		s.moved.Broadcast()
		s.mu.Unlock()
		nudge(s.wakeOut) // for the timer of what is due later
		select {
		case <-l.wake:
		case <-s.env.Clock.After(s.opt.IdleTimeout):
			timedOut = true
		case <-ctx.Done():
		}
		s.mu.Lock()
		s.unlist(l)
	}
}

// consignment is an entry on its way: the recipients at one destination, and the message.
type consignment struct {
	entry   *queue.Entry
	target  outbound.Target
	index   []int // of the recipients, in entry.Recipients
	message outbound.Message
	again   bool // more is due, or somewhere else
	round   bool // it passes here again and again
	signed  bool // or found to be none of ours to sign
	// fitted says that the text is another one than is stored: 7-bit, for a server that takes no other.
	fitted bool
}

// send sends one entry, and says whether the lane goes on.
func (l *lane) send(ctx context.Context, k queue.Key) bool {
	s := l.s
	c, err := s.consign(ctx, k, l.d.name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		s.sent(k, l.d, true, false)
		return true
	case err != nil:
		if ctx.Err() == nil {
			s.env.Log.Error("mail: entry of mail.box", "note", uint64(k.Note()), "err", err)
		}
		s.postpone(k, l.d, troublePause)
		return !errors.Is(err, store.ErrClosed)
	case c == nil:
		s.sent(k, l.d, false, false)
		return true
	case len(c.index) == 0:
		s.sent(k, l.d, false, c.again)
		return true
	}
	if c.round {
		s.outcomes.conclude(c.failed(k, l.d, &outbound.Failure{Reply: replyRound, Permanent: true}))
		return true
	}
	start := s.env.Clock.Now()
	for range 2 {
		if l.session == nil && !l.connect(ctx, k, c) {
			return false
		}
		if l.session == nil { // the destination takes no mail at all
			return true
		}
		if l.session.Fit(&c.message) {
			c.fitted, c.signed = true, false
		}
		if !c.signed {
			s.signer.sign(ctx, c)
		}
		fresh := l.session.Sent == 0
		res := l.session.Send(&c.message)
		if ctx.Err() != nil && res.Broken {
			break
		}
		if res.Broken && res.Early && !fresh {
			l.close(false) // it had ended while idle
			continue
		}
		return l.sentOver(k, c, &res, start)
	}
	s.postpone(k, l.d, 0)
	return ctx.Err() == nil
}

// sentOver settles what a session made of a message.
func (l *lane) sentOver(k queue.Key, c *consignment, res *outbound.Result, start time.Time) bool {
	s := l.s
	host := l.session.Host
	f := &settlement{key: k, dest: l.d, again: c.again, took: s.env.Clock.Now().Sub(start), size: uint64(len(c.message.Data))}
	taken := false
	for i, at := range c.index {
		r := res.Replies[i]
		if r == nil {
			continue
		}
		taken = taken || r.Positive()
		o := outcome{address: c.entry.Recipients[at].Address, target: c.entry.Recipients[at].Target, reply: r, remote: host, secure: l.session.Secure, relayed: res.Relayed}
		if res.Own {
			o.remote = ""
		}
		f.outcomes = append(f.outcomes, o)
	}
	s.mu.Lock()
	if !res.Broken {
		l.d.strikes = 0
	} else if l.d.strikes++; taken {
		l.d.strikes = 0
	} else if l.d.strikes >= maxStrikes {
		l.d.strikes = 0
		l.d.failed(s.env.Clock.Now().Add(s.opt.pause(l.d.failures, c.target.Place != "")), short(res.Replies[0]), host)
	}
	s.mu.Unlock()
	s.outcomes.conclude(f)
	if res.Broken {
		l.close(false)
	} else if l.session.Sent >= s.opt.PerConnection {
		l.close(true)
	}
	return true
}

// connect makes a session. false ends the lane; without a session and true, the message is settled.
func (l *lane) connect(ctx context.Context, k queue.Key, c *consignment) bool {
	s := l.s
	session, fail := s.opt.Mailer.Connect(ctx, &c.target)
	s.mu.Lock()
	switch {
	case fail == nil:
		l.session = session
		l.d.open++
		if l.d.failures > 0 {
			l.d.reached()
		}
		s.agenda.arrange(l.d)
	case ctx.Err() != nil:
	case !fail.Permanent && l.d.open > 0:
		// It bears no more connections than it has.
		l.d.limit = l.d.open
	case !fail.Permanent:
		l.d.failed(s.env.Clock.Now().Add(s.opt.pause(l.d.failures, c.target.Place != "")), short(fail.Reply), fail.Host)
		l.d.limit = 0
	}
	limited := fail != nil && !fail.Permanent && l.d.open > 0
	s.mu.Unlock()
	switch {
	case fail == nil:
		nudge(s.wakeOut)
		return true
	case ctx.Err() != nil, limited:
		s.postpone(k, l.d, 0)
		return false
	}
	s.outcomes.conclude(c.failed(k, l.d, fail))
	return fail.Permanent
}

// failed is what a failure comes to for all recipients.
func (c *consignment) failed(k queue.Key, d *destination, fail *outbound.Failure) *settlement {
	f := &settlement{key: k, dest: d, again: c.again}
	for _, at := range c.index {
		f.outcomes = append(f.outcomes, outcome{
			address: c.entry.Recipients[at].Address, target: c.entry.Recipients[at].Target, reply: fail.Reply, remote: fail.Host, permanent: fail.Permanent, unreached: !fail.Permanent,
		})
	}
	return f
}

// goesRound says that a message has passed this server too often.
//
// Implements: RFC 5321 §6.3 Loop detection by own Received fields
func (s *transfers) goesRound(data []byte) bool {
	n := 0
	by := []byte("by " + s.opt.Hostname)
	for f := range mime.Fields(data[:mime.HeaderEnd(data)]) {
		if f.Is("Received") && bytes.Contains(f.Value, by) {
			n++
		}
	}
	return n > maxOwnHops
}

// consign reads an entry for being sent to a destination: nil if nothing of it is due there.
func (s *transfers) consign(ctx context.Context, k queue.Key, dest string) (*consignment, error) {
	c := &consignment{}
	var stored *store.Stored
	err := s.store.Read(ctx, note.System, s.queue.Of(k).ID, func(r *store.Reader) error {
		e, err := queue.Load(r, k.Note())
		if err != nil {
			return err
		}
		c.entry = e
		if e.Held || e.Dead {
			return nil
		}
		if err := s.pick(ctx, c, dest); err != nil || len(c.index) == 0 {
			return err
		}
		row, err := r.Note(k.Note())
		if err != nil {
			return err
		}
		stored, err = r.Message(row)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(c.index) == 0 {
		if c.again {
			return c, nil
		}
		return nil, nil
	}
	raw, err := stored.AppendRange(make([]byte, 0, stored.Size()), 0, stored.Size())
	if err != nil {
		return nil, err
	}
	e := c.entry
	if c.target.Place != "" {
		// It stays in the domain: under its sender, and unsigned.
		c.message.From, c.message.Transit, c.signed = e.From, transitOf(c).String(), true
	} else if c.message.From, err = s.srs.leavesAs(ctx, e.From); err != nil {
		return nil, err
	}
	c.message.EnvID, c.message.Ret, c.message.UTF8 = e.EnvID, e.Ret, e.UTF8
	c.message.RequireTLS = e.TLS == outbound.Required
	c.message.Priority, c.message.HasPriority = e.Priority, e.HasPriority
	c.message.Data = raw[min(e.ReturnPath, len(raw)):]
	c.round = s.goesRound(c.message.Data)
	return c, nil
}

// pick chooses the recipients that are due at a destination.
func (s *transfers) pick(ctx context.Context, c *consignment, dest string) error {
	now := s.env.Clock.Now()
	last, lastName := "", ""
	for i := range c.entry.Recipients {
		q := &c.entry.Recipients[i]
		if q.State != queue.Waiting || q.Next.After(now) {
			continue
		}
		to, err := smtp.ParsePath(q.Address)
		if err != nil {
			continue
		}
		if to.Domain != last || last == "" || !q.Target.IsZero() {
			name, target, err := s.routes.destinationFor(ctx, c.entry.TLS, q, &to)
			if err != nil {
				return err
			}
			if last, lastName = to.Domain, name; name == dest {
				c.target = target
			}
			if !q.Target.IsZero() {
				last = "" // others of the Internet domain may be elsewhere
			}
		}
		if lastName != dest || len(c.index) == maxRecipients {
			// Of another destination, which has an appointment of its own, or for the next time.
			c.again = c.again || lastName == dest
			continue
		}
		c.index = append(c.index, i)
		r := outbound.Recipient{To: to, Params: smtp.RcptParams{Notify: q.Notify, ORcpt: q.ORcpt}}
		if c.target.Place != "" {
			r.Params.Transit = transitTo(q)
		}
		c.message.To = append(c.message.To, r)
	}
	// What is nowhere here was given another route since: it is looked at again.
	c.again = c.again || len(c.index) == 0
	return nil
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// short is a reply as mail.box keeps it.
func short(r *smtp.Reply) string {
	text := r.Error()
	return fields.OneLine(text[:min(len(text), maxErrorText)])
}

// transfers sends what waits for other servers, over lanes.
type transfers struct {
	*board
	store    *store.Store
	env      *env.Env
	queue    *queue.Queue
	opt      *Options
	routes   *routes
	outcomes *outcomes
	signer   *signer
	srs      *SRS
}
