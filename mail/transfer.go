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

// Limits of sending.
const (
	maxRecipients = 100    // per transaction: every server accepts as many (RFC 5321 section 4.5.3.1.8)
	maxUnsettled  = 4096   // sent messages whose outcome is not yet written
	fairShare     = 20     // messages after which a lane ends if another destination has no lane
	perLane       = 4      // waiting messages per lane that justify another connection
	maxOwnHops    = 10     // Received fields of this server in a message, above which it is looping
	maxErrorText  = 1 << 9 // bytes of a server's reply that are stored
)

// lane is a connection to a destination, and the goroutine that sends over it.
type lane struct {
	s       *transfers
	d       *destination
	session *outbound.Session
	wake    chan struct{}
	quit    bool // guarded by board.mu
	taken   int  // entries taken so far
}

// sending starts lanes for destinations with due work, until ctx ends. It then waits until all lanes have ended and
// their outcomes are written.
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

// endLanes makes all lanes end, and waits for them.
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
			s.agenda.arrange(d) // for the next start of the router
		} else {
			s.agenda.forgetIdle(d)
		}
	}
	s.mu.Unlock()
}

// dispatch starts and wakes lanes for due work. It returns the time of the next work in Unix seconds; 0 means never.
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

// dropInvalid removes items from the head of a destination's work that were changed or finished meanwhile.
func (a *agenda) dropInvalid(d *destination) {
	for len(d.ready) > 0 && !a.valid(&d.ready[0]) {
		_, d.ready = pop(d.ready, readyBefore)
		a.items--
	}
}

// serve starts and wakes the lanes that a destination needs now.
func (s *transfers) serve(ctx context.Context, d *destination, now time.Time) {
	sec := seconds(now)
	d.ripen(sec)
	s.agenda.dropInvalid(d)
	switch {
	case d.name == heldName || s.opt.Mailer == nil || ctx.Err() != nil:
		return
	case len(d.ready) == 0:
		s.rest(d, now)
		return
	case now.Before(d.retryAt) && d.open == 0:
		s.agenda.wakeAt(d, ceil(d.retryAt))
		return
	}
	for i := 0; i < len(d.ready) && len(d.waiting) > 0; i++ {
		s.rouse(d.waiting[len(d.waiting)-1], false)
	}
	most := s.most(d)
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

// rest schedules the next dispatch of a destination without due work, or removes the destination.
func (s *transfers) rest(d *destination, now time.Time) {
	switch {
	case len(d.later) > 0:
		s.agenda.wakeAt(d, d.later[0].due)
	case d.lanes > 0 || d.busy > 0:
	case now.Before(d.retryAt):
		s.agenda.wakeAt(d, ceil(d.retryAt)) // to be removed then
	default:
		d.reached()
		s.agenda.forgetIdle(d)
	}
}

// most returns the number of connections that a destination may have now.
func (s *transfers) most(d *destination) int {
	switch {
	case d.open == 0:
		return 1 // it tests whether the server answers, at first and after failures
	case d.limit > 0:
		return min(s.opt.PerDestination, d.limit)
	}
	return s.opt.PerDestination
}

// starve makes a destination wait for the end of another destination's connection. It ends an idle connection if there
// is one.
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

// rouse wakes an idle lane, to look for work or to end.
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

// run sends the due messages one after the other.
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
	if len(s.starved) > 0 { // before its own destination, which would take the place again
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

// sated reports whether the lane has had its share while other destinations wait for a connection.
func (l *lane) sated() bool { return len(l.s.starved) > 0 && l.taken >= fairShare }

// take removes the next entry from the agenda and returns it. Without a session, there is none before the destination
// may be tried again.
func (l *lane) take() (queue.Key, bool) {
	now := l.s.env.Clock.Now()
	if l.session == nil && now.Before(l.d.retryAt) {
		return 0, false
	}
	k, ok := l.s.agenda.take(l.d, now)
	if ok {
		l.s.inFlight++
		l.taken++
	}
	return k, ok
}

// next returns the next entry. If there is none, a lane with a session waits for one for a while.
func (l *lane) next(ctx context.Context) (queue.Key, bool) {
	s := l.s
	timedOut := false
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		for s.outcomes.unwritten() >= maxUnsettled && ctx.Err() == nil {
			s.moved.Wait()
		}
		if ctx.Err() != nil || l.quit || l.sated() {
			return 0, false
		}
		if k, ok := l.take(); ok {
			return k, true
		}
		if l.session == nil || timedOut || len(s.starved) > 0 {
			return 0, false
		}
		l.d.waiting, s.idle = append(l.d.waiting, l), append(s.idle, l)
		s.agenda.arrange(l.d)
		s.moved.Broadcast()
		s.mu.Unlock()
		nudge(s.wakeOut) // dispatch sets the timer for later work
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

// consignment is an entry being sent: its message, and its recipients at one destination.
type consignment struct {
	entry   *queue.Entry
	target  outbound.Target
	index   []int // indexes of the recipients in entry.Recipients
	message outbound.Message
	again   bool // more recipients are due here or elsewhere
	round   bool // the message is looping
	signed  bool // signed, or not to be signed
	// fitted is set if the message was re-encoded to 7 bits for a server without 8BITMIME.
	fitted bool
}

// send sends one entry, and reports whether the lane goes on.
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
	return l.transmit(ctx, k, c)
}

// transmit sends a consignment over the lane's session, or over a new one if the server has closed it. It reports
// whether the lane goes on.
func (l *lane) transmit(ctx context.Context, k queue.Key, c *consignment) bool {
	s := l.s
	start := s.env.Clock.Now()
	for range 2 {
		if l.session == nil && !l.connect(ctx, k, c) {
			return false
		}
		if l.session == nil { // the destination accepts no mail at all
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
			l.close(false) // the server closed it while it was idle
			continue
		}
		return l.sentOver(k, c, &res, start)
	}
	s.postpone(k, l.d, 0)
	return ctx.Err() == nil
}

// sentOver queues the outcomes of a message that was sent over a session.
func (l *lane) sentOver(k queue.Key, c *consignment, res *outbound.Result, start time.Time) bool {
	s := l.s
	host := l.session.Host
	f := &settlement{key: k, dest: l.d, again: c.again, took: s.env.Clock.Now().Sub(start),
		size: uint64(len(c.message.Data))}
	taken := false
	for i, at := range c.index {
		r := res.Replies[i]
		if r == nil {
			continue
		}
		taken = taken || r.Positive()
		o := outcome{address: c.entry.Recipients[at].Address, target: c.entry.Recipients[at].Target, reply: r,
			remote: host, secure: l.session.Secure, relayed: res.Relayed}
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

// connect opens a session. If it returns false, the lane ends. If it returns true without a session, the message is
// settled.
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
		// The server accepts no more connections than are open.
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

// failed returns the settlement of a failure that applies to all recipients.
func (c *consignment) failed(k queue.Key, d *destination, fail *outbound.Failure) *settlement {
	f := &settlement{key: k, dest: d, again: c.again}
	for _, at := range c.index {
		f.outcomes = append(f.outcomes, outcome{
			address: c.entry.Recipients[at].Address, target: c.entry.Recipients[at].Target, reply: fail.Reply,
			remote: fail.Host, permanent: fail.Permanent, unreached: !fail.Permanent,
		})
	}
	return f
}

// goesRound reports whether a message has passed this server too often.
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

// consign reads an entry for sending to a destination. It returns nil if nothing is due there.
func (s *transfers) consign(ctx context.Context, k queue.Key, dest string) (*consignment, error) {
	c := &consignment{}
	var stored *store.Stored
	err := s.store.Read(ctx, note.System, s.queue.Boxes.Of(k).ID, func(r *store.Reader) error {
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
		// The message stays within the domain: keep its sender, and do not sign it.
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

// dueAddress returns the address of a recipient to send to now. A malformed address is never due.
func dueAddress(q *queue.Recipient, now time.Time) (to smtp.Path, due bool) {
	if q.State != queue.Waiting || q.Next.After(now) {
		return to, false
	}
	to, err := smtp.ParsePath(q.Address)
	return to, err == nil
}

// pick selects the recipients that are due at a destination.
func (s *transfers) pick(ctx context.Context, c *consignment, dest string) error {
	now := s.env.Clock.Now()
	last, lastName := "", ""
	for i := range c.entry.Recipients {
		q := &c.entry.Recipients[i]
		to, due := dueAddress(q, now)
		if !due {
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
				last = "" // other people of the same mail domain may have another destination
			}
		}
		if lastName != dest || len(c.index) == maxRecipients {
			// It has another destination with its own appointment, or it has to wait for the next transaction.
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
	// If no recipient has this destination, the route has changed: read the entry again.
	c.again = c.again || len(c.index) == 0
	return nil
}

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// short returns a reply as stored in mail.box.
func short(r *smtp.Reply) string {
	text := r.Error()
	return fields.OneLine(text[:min(len(text), maxErrorText)])
}

// transfers sends mail to other servers, over lanes.
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
