package push

import (
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doublet/client/reach"
	"doublet/directory/session"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/webpush"
)

// WebOptions holds the settings of push through push services. Zero values take the defaults, which are in parentheses.
type WebOptions struct {
	// Subscriptions stores the subscriptions. If nil, push services are not used.
	Subscriptions *session.Service
	// Account returns the account of a person without a connection. It returns signin.ErrDisabled if it was disabled.
	Account func(ctx context.Context, person note.UNID) (signin.Account, error)
	// Leads reports whether this server is the primary of a mail file (its home). Several servers may know a
	// subscription; the primary of its mail file sends the pushes. If nil, this server always is.
	Leads func(mailFile note.DatabaseID) bool
	// Key identifies the server to push services (VAPID); nil disables that. Contact is a mailto: or https: URL of the
	// administrators, or "".
	Key     *ecdsa.PrivateKey
	Contact string
	DNS     reach.Resolver
	// Private lists networks outside the public Internet to which pushes may be sent.
	Private []netip.Prefix
	// Life is the longest time that a subscription lasts unless it is extended (30 days). It is at least 48 hours (RFC
	// 8620 section 7.2).
	Life time.Duration
	// Every is the least time between two pushes to one device (1 s).
	Every time.Duration
	// Roots verifies the certificates of push services. If nil, the system's roots are used.
	Roots *x509.CertPool
}

const (
	leastLife = 48 * time.Hour
	// sending is the number of pushes in progress at once.
	sending = 64
	// tick is the interval of checks that no event triggers: expiry, changes by other servers, the position in the
	// feed.
	tick = 30 * time.Second
	// firstRetry is the delay before the second attempt. It doubles with each attempt, up to lastRetry.
	firstRetry, lastRetry = 5 * time.Second, time.Hour
	// patience is the number of consecutive failures that end a subscription, which take about two days.
	patience = 60
	// verifications is the most attempts to push a verification code.
	verifications = 8
	// refusals is the number of consecutive final error responses that end a subscription.
	refusals = 5
)

// web sends pushes through push services.
type web struct {
	p     *Service
	opt   WebOptions
	guard *reach.Guard
	http  *http.Client
	vapid tokens
	slots chan struct{}

	mu      sync.Mutex
	devices map[note.UNID]*device
	made    map[note.UNID]tally // by person: subscriptions made lately
	version uint64              // version of the session store that devices were read at
	edits   atomic.Uint64       // number of changes to the store by this server
	told    store.Cursor        // last position that was persisted

	sent, failed, ended *stat.Counter
}

// device is a subscription in use.
type device struct {
	*subscriber
	w    *web
	sub  session.Subscription
	keys *webpush.Keys // nil: pushes are not encrypted beyond TLS

	mu       sync.Mutex
	busy     bool // a goroutine is sending
	waiting  bool // a timer is set; nothing is sent before it fires
	again    bool // something changed while busy or waiting
	failures int
	refusals int
	verify   bool // the verification code must be pushed
	// away is set while another server, the primary of mailFile, pushes to the device.
	away     bool
	mailFile note.DatabaseID
	// missed lists databases that changed without a push to the device. If missedAll is set, any database may have.
	missed    map[note.DatabaseID]bool
	missedAll bool
}

func newWeb(p *Service, o WebOptions) *web {
	if o.Life <= 0 {
		o.Life = 30 * 24 * time.Hour
	}
	o.Life = max(o.Life, leastLife)
	if o.Leads == nil {
		o.Leads = func(note.DatabaseID) bool { return true }
	}
	if o.Every <= 0 {
		o.Every = time.Second
	}
	w := &web{p: p, opt: o, guard: reach.New(p.env, o.DNS, o.Private), slots: make(chan struct{}, sending),
		devices: make(map[note.UNID]*device), made: make(map[note.UNID]tally)}
	w.http = w.guard.Client(reach.HTTP{Timeout: postTime, Roots: o.Roots, Connections: sending})
	w.vapid.kept = make(map[string]token)
	t := p.opt.Stats
	w.sent = t.Counter("JMAP.Push.Web.Sent", "pushes that a push service has taken")
	w.failed = t.Counter("JMAP.Push.Web.Failed", "pushes that failed and are sent again, or given up")
	w.ended = t.Counter("JMAP.Push.Web.Ended", "subscriptions ended since nobody is there any more")
	t.GaugeFunc("JMAP.Push.Web.Subscriptions", "subscriptions to pushes through push services", func() float64 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return float64(len(w.devices))
	})
	return w
}

// Start begins to push through push services. It first sends what subscribers have missed while the server was down.
func (p *Service) Start(ctx context.Context) error {
	w := p.web
	if w.opt.Subscriptions == nil {
		return nil
	}
	at := w.opt.Subscriptions.Now()
	if _, err := w.sync(ctx); err != nil {
		return err
	}
	list := w.list() // subscriptions added after this have missed nothing
	p.open.Add(1)
	p.env.Go("web push", func() {
		defer p.open.Done()
		w.catchUp(at, list)
		w.tend()
	})
	return nil
}

// catchUp pushes what devices have missed. Each device first records the current states, so that later changes wake it.
// The changes in the feed up to then are those that it missed.
func (w *web) catchUp(at store.Cursor, list []*device) {
	for _, d := range list {
		if w.p.ctx.Err() != nil {
			return
		}
		w.baseline(d)
	}
	if len(list) > 0 {
		changed, all, err := w.opt.Subscriptions.Missed()
		if err != nil {
			w.p.env.Log.Warn("push: cannot read missed changes, notifying everybody", "error", err)
			all = true
		}
		for _, d := range list {
			d.mu.Lock()
			d.missed, d.missedAll = changed, all
			d.mu.Unlock()
			w.kick(d)
		}
	}
	w.mark(at)
}

// baseline records the current states as known to a device, unless the device is already being served.
func (w *web) baseline(d *device) {
	d.mu.Lock()
	mine := d.sub.Verified && !d.busy && !d.waiting
	d.busy = d.busy || mine
	d.mu.Unlock()
	if !mine {
		return
	}
	if _, err := w.lookAt(w.p.work, d); refused(err) {
		w.unsubscribe(d, "its credential is over")
	} else if err != nil {
		w.p.trouble(d.subscriber, err)
	}
	w.rest(d)
}

// tend runs the periodic checks until the server stops.
func (w *web) tend() {
	for w.p.ctx.Err() == nil {
		w.p.pause(tick)
		at := w.opt.Subscriptions.Now()
		if v := w.opt.Subscriptions.Version(); v != w.synced() {
			fresh, err := w.sync(w.p.ctx)
			if err != nil && w.p.ctx.Err() == nil {
				w.p.env.Log.Warn("push: cannot read subscriptions", "error", err)
			}
			for _, d := range fresh {
				w.kick(d) // added by another server: push the current states
			}
		}
		now := w.p.env.Clock.Now()
		for _, d := range w.list() {
			switch {
			case !now.Before(d.ends()):
				w.drop(d.sub.ID)
			case w.returned(d):
				w.kick(d)
			}
		}
		w.mark(at)
	}
}

func (w *web) synced() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.version
}

// mark persists that all devices have received the changes before a position in the feed. It does not wait for a device
// that has failed more than three times.
func (w *web) mark(at store.Cursor) {
	for _, d := range w.list() {
		d.mu.Lock()
		waits := d.sub.Verified && (d.busy || d.waiting) && d.failures <= 3
		d.mu.Unlock()
		if waits {
			return
		}
	}
	w.mu.Lock()
	same := at == w.told
	w.told = at
	w.mu.Unlock()
	if same {
		return
	}
	if err := w.opt.Subscriptions.Told(at); err != nil && w.p.ctx.Err() == nil {
		w.p.env.Log.Warn("push: cannot store the position in the feed", "error", err)
	}
}

// put adds a device, or updates it from the store.
func (w *web) put(sub session.Subscription) (d *device, made bool) {
	w.mu.Lock()
	if d = w.devices[sub.ID]; d == nil {
		made = true
		d = &device{w: w, sub: sub, subscriber: &subscriber{p: w.p, caller: Caller{Credential: sub.Credential}}}
		d.caller.Who.Person = sub.Person
		d.stale.Store(true)
		if keys, err := webpush.ParseKeys(sub.P256dh, sub.Auth); err == nil {
			d.keys = &keys
		}
		d.wakeWith(func() { w.kick(d) })
		w.devices[sub.ID] = d
	}
	w.mu.Unlock()
	d.mu.Lock()
	fresh := sub.Verified && !d.sub.Verified
	// Verification is permanent, and sub may have been read before it.
	d.sub.Verified = d.sub.Verified || sub.Verified
	d.sub.Ends, d.sub.Types, d.sub.AllTypes = sub.Ends, sub.Types, sub.AllTypes
	d.mu.Unlock()
	d.setFilter(filter{all: sub.AllTypes, names: sub.Types})
	if fresh {
		w.baseline(d)
	}
	return d, made
}

// drop removes a device.
func (w *web) drop(id note.UNID) {
	w.mu.Lock()
	d := w.devices[id]
	delete(w.devices, id)
	w.mu.Unlock()
	if d != nil {
		d.end()
	}
}

func (w *web) list() []*device {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]*device, 0, len(w.devices))
	for _, d := range w.devices {
		out = append(out, d)
	}
	return out
}

// subscribers returns the subscribers of all devices.
func (w *web) subscribers() []*subscriber {
	list := w.list()
	out := make([]*subscriber, 0, len(list))
	for _, d := range list {
		out = append(out, d.subscriber)
	}
	return out
}

func (d *device) ends() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sub.Ends
}

func (d *device) verified() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sub.Verified
}

// kick starts sending to a device, unless that is in progress or delayed.
func (w *web) kick(d *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy || d.waiting {
		d.again = true
		return
	}
	d.busy = w.start(d)
}

// start starts a goroutine for a device. If the server stops, it returns false; the feed then triggers the push after a
// restart.
func (w *web) start(d *device) bool {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	if w.p.closing {
		return false
	}
	w.p.open.Add(1)
	w.p.env.Go("web push", func() {
		defer w.p.open.Done()
		w.run(d)
	})
	return true
}

// rest marks a device as idle. If something changed since the last look, it starts again.
func (w *web) rest(d *device) {
	moved := d.moved()
	d.mu.Lock()
	defer d.mu.Unlock()
	again := d.again || d.verify || moved
	d.again, d.waiting = false, false
	d.busy = again && w.start(d)
}

// run pushes once. The flag d.busy guarantees that only one goroutine runs it.
func (w *web) run(d *device) {
	select {
	case w.slots <- struct{}{}:
	case <-w.p.ctx.Done():
		return
	}
	wait := w.tell(d)
	<-w.slots
	switch {
	case d.over.Load():
		d.close()
	case wait > 0:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.busy, d.waiting = false, true
		w.p.env.Clock.AfterFunc(wait, func() { w.rest(d) })
	default:
		w.rest(d)
	}
}

// tell sends what is due, and returns the time to wait before the next push. 0 means until the next change.
func (w *web) tell(d *device) time.Duration {
	if d.over.Load() || w.p.ctx.Err() != nil {
		return 0
	}
	ctx := w.p.work
	d.mu.Lock()
	sub, verify := d.sub, d.verify
	d.mu.Unlock()
	if verify {
		return w.outcome(d, w.post(ctx, d, verification(&sub)), func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.verify = false
		})
	}
	if !sub.Verified {
		if d.stale.Swap(false) && refused(d.good(ctx)) {
			w.unsubscribe(d, "its credential is over")
		}
		return 0
	}
	list, err := w.lookAt(ctx, d)
	if refused(err) {
		w.unsubscribe(d, "its credential is over")
		return 0
	}
	if err != nil {
		w.p.trouble(d.subscriber, err)
		return retry
	}
	if len(list) == 0 {
		return 0
	}
	for part := range slices.Chunk(list, 8) { // so that each push fits into one message
		if err = w.post(ctx, d, append(appendChange(nil, part), '}')); err != nil {
			break
		}
	}
	if err != nil {
		// The next attempt sends these accounts' states in full.
		for _, a := range d.accounts {
			if slices.ContainsFunc(list, func(c change) bool { return c.account == a.ID }) {
				a.states = nil
				a.moved.Store(true)
			}
		}
	}
	return w.outcome(d, err, func() {})
}

// lookAt calls look for a device. It first reads the account of the person if it is not known yet.
func (w *web) lookAt(ctx context.Context, d *device) ([]change, error) {
	if d.caller.Name == "" {
		account, err := w.opt.Account(ctx, d.sub.Person)
		if err != nil {
			return nil, err
		}
		d.caller.Account = account
	}
	here := w.opt.Leads(d.caller.Database)
	d.mu.Lock()
	missed, all := d.missed, d.missedAll || d.away // what another server pushed meanwhile is not known here
	if d.away && here {
		d.stale.Store(true) // changes were not followed meanwhile
	}
	d.missed, d.missedAll, d.away, d.mailFile = nil, false, !here, d.caller.Database
	d.mu.Unlock()
	if !here {
		return nil, w.leave(ctx, d)
	}
	for _, a := range d.accounts {
		if all || missed[a.Database] {
			a.states = nil
			a.moved.Store(true)
		}
	}
	return d.look(ctx)
}

// leave records that another server pushes to a device. It still checks the credential, and returns an error if it is
// not valid.
func (w *web) leave(ctx context.Context, d *device) error {
	var err error
	if d.stale.Swap(false) {
		if err = d.good(ctx); err != nil && !refused(err) {
			d.stale.Store(true)
		}
	}
	for _, a := range d.accounts {
		a.moved.Store(false)
	}
	return err
}

// returned reports whether this server has become the primary for a device that was left to another server.
func (w *web) returned(d *device) bool {
	d.mu.Lock()
	away, file := d.away, d.mailFile
	d.mu.Unlock()
	return away && w.opt.Leads(file)
}

// outcome handles the result of an attempt and returns the time to wait before the next one.
func (w *web) outcome(d *device, err error, done func()) time.Duration {
	if err == nil {
		d.mu.Lock()
		d.failures, d.refusals = 0, 0
		d.mu.Unlock()
		done()
		w.sent.Inc()
		return w.opt.Every
	}
	w.failed.Inc()
	var no *answer
	answered := errors.As(err, &no)
	d.mu.Lock()
	d.failures++
	if answered && no.final() {
		d.refusals++
	} else {
		d.refusals = 0
	}
	failures, refused := d.failures, d.refusals
	d.mu.Unlock()
	w.p.env.Log.Debug("push failed", "subscription", d.sub.ID.String(), "error", err)
	switch {
	case answered && no.gone():
		w.unsubscribe(d, "the push service does not know it any more")
		return 0
	case errors.Is(err, reach.ErrAddress), refused >= refusals, failures >= patience, failures >= verifications &&
		!d.verified():
		w.unsubscribe(d, "the push service takes nothing: "+err.Error())
		return 0
	}
	wait := min(lastRetry, firstRetry<<min(failures-1, 20))
	if answered {
		wait = max(wait, min(no.after, 24*time.Hour))
	}
	return wait
}

// unsubscribe ends a subscription permanently.
func (w *web) unsubscribe(d *device, why string) {
	w.ended.Inc()
	w.p.env.Log.Info("push subscription ended", "subscription", d.sub.ID.String(), "why", why)
	err := w.opt.Subscriptions.Unsubscribe(context.WithoutCancel(w.p.work), d.sub.ID)
	if err != nil && !errors.Is(err, session.ErrNone) {
		w.p.env.Log.Warn("push: cannot end a subscription", "error", err)
	}
	w.edits.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.devices, d.sub.ID)
	d.over.Store(true)
}
