package mail

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/fields"
	"doublet/mail/junk"
	"doublet/mail/queue"
	"doublet/mail/rules"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// errNeedRuling means that a script wants messages to be sent, or the header changed. They must be composed before the
// update.
var errNeedRuling = errors.New("mail: the messages of a script are needed")

// letter is the message that is delivered, for scripts.
type letter struct {
	raw        []byte // with the fields of this hop
	returnPath int    // length of the field Return-Path
	from       smtp.Path
	unproven   bool
	invitation Invitation // nil for none
	// outside is set for mail from outside, which the junk filter classifies. words is that message, once it is needed.
	outside bool
	words   *junk.Message
	// remote is the address of the client that sent the message, if it is delivered in the session.
	remote netip.Addr
}

// ruling is the outcome of a recipient's script for one message. It remains valid while the scripts, and the marks that
// the script asked for, do not change.
type ruling struct {
	rules.Outcome
	modified note.ModSeq
	ready    bool              // composed
	changed  *mailbox.Composed // the message with its header changed, or nil
	out      []*outgoing       // redirected messages and notifications
	vacation *outgoing
	key      string // of the vacation notice, for firstNotice
	// trouble is the failure of the script; the message gets a mark. told is set when it was counted and logged.
	trouble string
	told    bool
}

// refuses reports whether the message is rejected.
func (r *ruling) refuses() bool { return r != nil && r.Rejected }

// answers reports whether the person's own vacation notice is left out, because the script answers or drops the
// message.
func (r *ruling) answers() bool {
	return r != nil && (r.Vacation != nil || r.Rejected || len(r.Filings)+len(r.Redirects) == 0)
}

// reply returns the reply that rejects the message.
func (r *ruling) reply() *smtp.Reply {
	text := strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return ' '
		}
		return c
	}, r.Reason)
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		text = "The recipient refuses the message"
	}
	return smtp.NewReply(550, 5, 7, 1, text[:min(len(text), 400)])
}

// filter runs the Sieve scripts of people over the messages that are delivered to them. The script runs within the
// update that delivers, on the member that delivers.
type filter struct {
	env      *env.Env
	dir      *directory.Directory
	mailbox  *mailbox.Service
	personal *personal
	cache    *scripts.Cache
	failed   func()
}

// rule sets the ruling of a delivery. It returns errNeedRuling if compose must be called before another attempt. Junk,
// mail of blocked senders and mail for mail-in databases have none.
func (s *filter) rule(w *store.Writer, c *mailbox.Composed, d *delivery, l *letter) error {
	if d.kind != directory.TargetPerson || d.junk || l == nil {
		return nil
	}
	set, err := s.cache.Load(&w.Reader, d.database)
	blocked := false
	if err == nil && set != nil {
		blocked, err = mailbox.Blocks(&w.Reader, d.database, c.Envelope.From)
	}
	if err != nil || set == nil || blocked {
		d.ruling = nil
		return err
	}
	world := set.World(&w.Reader, d.database, s.env.Clock.Now(), s.environment(d.address(), l.remote))
	if r := d.ruling; r == nil || r.modified != set.Modified || !r.current(world) {
		d.ruling = execute(set, d, l, world)
	}
	if !d.ruling.ready {
		return errNeedRuling
	}
	return nil
}

// environment returns the items of the test "environment" for a recipient. remote is the address of the client, if the
// message is delivered in its session.
func (s *filter) environment(address string, remote netip.Addr) map[string]string {
	items := map[string]string{"name": "Doublet", "location": "MDA", "phase": "during", "host": s.personal.hostname,
		"domain": domainOf(address)}
	if remote.IsValid() {
		items["remote-ip"] = remote.Unmap().WithZone("").String()
	}
	return items
}

// execute runs the active script of a set on a message.
func execute(set *scripts.Set, d *delivery, l *letter, world *rules.World) *ruling {
	r := &ruling{modified: set.Modified}
	if r.Outcome = (rules.Outcome{Filings: []rules.Filing{{}}, Err: set.Err}); set.Err == nil {
		m := &rules.Message{Raw: l.raw, To: d.address(), Score: d.score}
		if !l.from.IsNull() {
			m.From = l.from.String()
		}
		r.Outcome = rules.Run(set.Program, m, world)
	}
	if r.Err != nil {
		r.trouble = r.Err.Error()
	}
	r.ready = len(r.Redirects)+len(r.Notices) == 0 && r.Outcome.Vacation == nil && r.Header == nil
	return r
}

// current reports whether the marks that the script asked for are as they were.
func (r *ruling) current(w *rules.World) bool {
	for mark, seen := range r.Seen {
		if w.Seen(mark) != seen {
			return false
		}
	}
	return true
}

// kept files the message where it goes without a script, because an action cannot be carried out.
func (r *ruling) kept(trouble string) {
	r.trouble = trouble
	r.keep()
}

// keep files the message where it goes without a script.
func (r *ruling) keep() {
	if !slices.ContainsFunc(r.Filings, func(f rules.Filing) bool { return f.Folder == "" }) {
		r.Filings = append(r.Filings, rules.Filing{})
	}
}

// compose prepares the messages that the script of a delivery wants. b gets them.
func (s *filter) compose(ctx context.Context, b *batch, d *delivery, l *letter) error {
	r := d.ruling
	if r == nil || r.ready {
		return nil
	}
	p, err := s.dir.Names.Person(ctx, d.id)
	if err != nil {
		return fmt.Errorf("script: %w", err)
	}
	raw := l.raw
	if r.Header != nil {
		raw = slices.Concat(r.Header, raw[mime.HeaderEnd(raw):])
		c, err := s.mailbox.Compose(ctx, raw, d.database)
		if err != nil {
			return fmt.Errorf("script: %w", err)
		}
		r.changed, b.changed = c, append(b.changed, c)
	}
	h := fields.ReadFacts(raw)
	if err := s.redirects(ctx, b, d, &p, h, l, raw[min(l.returnPath, len(raw)):]); err != nil {
		return err
	}
	if err := s.notices(ctx, b, d, &p, h); err != nil {
		return err
	}
	if err := s.vacation(ctx, b, d, &p, h, l); err != nil {
		return err
	}
	r.ready = true
	return nil
}

// maxRedirected is the number of fields Delivered-To of a message that is not redirected once more: scripts of several
// people that each redirect to several others would send a message along every path.
const maxRedirected = 5

// redirects composes the redirected messages. The field Delivered-To of a message that comes back ends a loop: it is
// kept then.
func (s *filter) redirects(ctx context.Context, b *batch, d *delivery, p *directory.Person, h *fields.Facts, l *letter,
	rest []byte) error {
	if len(d.ruling.Redirects) == 0 {
		return nil
	}
	if slices.ContainsFunc(append(p.Addresses(), d.address()),
		func(a string) bool { return slices.Contains(h.DeliveredTo, strings.ToLower(a)) }) {
		d.ruling.kept("redirect: the message was redirected before and came back")
		return nil
	}
	if len(h.DeliveredTo) >= maxRedirected {
		d.ruling.kept("redirect: the message was redirected or forwarded too often")
		return nil
	}
	for _, a := range d.ruling.Redirects {
		rows, err := s.personal.follow.address(ctx, a, 0)
		if err != nil {
			return err
		}
		own := len(rows)
		rows = slices.DeleteFunc(rows, func(q queue.Recipient) bool { return q.Target == d.id })
		switch {
		case own == 0:
			d.ruling.kept(fmt.Sprintf("redirect: %.80q does not exist, or is a mailing list", a))
			continue
		case len(rows) < own: // to oneself
			d.ruling.keep()
		}
		if len(rows) == 0 {
			continue
		}
		if l.unproven {
			for i := range rows {
				rows[i].Notify = smtp.NotifyNever
			}
		}
		o, err := s.personal.sendCopy(ctx, b, &sentCopy{what: "redirect " + p.ID.String() + " " + strings.ToLower(a),
			from: l.from, domain: domainOf(d.address()), address: d.address(), rows: rows}, rest)
		if err != nil {
			return err
		}
		o.asks = true
		d.ruling.out = append(d.ruling.out, o)
	}
	return nil
}

// notices composes notifications. There are none about automatic messages.
//
// Implements: RFC 5436 §2.7 loops of notifications
func (s *filter) notices(ctx context.Context, b *batch, d *delivery, p *directory.Person, h *fields.Facts) error {
	if h.Auto != "" {
		return nil
	}
	for i := range d.ruling.Notices {
		n := &d.ruling.Notices[i]
		for _, to := range n.To {
			rows, err := s.personal.follow.address(ctx, to, smtp.NotifyNever)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				continue
			}
			what := fmt.Sprintf("notify %s %d %s", p.ID, i, to)
			m := notice{from: s.sender(p, d, n.From), fromName: p.Name(), to: to, subject: n.Subject, text: n.Text,
				auto: "auto-notified", id: note.DeriveUNID(b.entry.ID[:], []byte(what)), more: n.Fields}
			if word := map[string]string{"1": "high", "3": "low"}[n.Importance]; word != "" {
				m.more = append(slices.Clone(m.more), [2]string{"Importance", word})
			}
			o, err := s.personal.follow.send(ctx, b, what, s.personal.follow.compose(&m), len(nullReturnPath), nullPath,
				rows)
			if err != nil {
				return err
			}
			o.asks = true
			d.ruling.out = append(d.ruling.out, o)
		}
	}
	return nil
}

// sender returns the sender of an automatic message: an address that the script names, if it is one of the person's.
func (s *filter) sender(p *directory.Person, d *delivery, wanted string) string {
	if a, err := mime.ParseMailbox(wanted); err == nil {
		wanted = a.Mailbox + "@" + a.Host
	}
	for _, a := range append(p.Addresses(), d.address()) {
		if strings.EqualFold(a, wanted) {
			return a
		}
	}
	if p.InternetAddress != "" {
		return p.InternetAddress
	}
	return d.address()
}

// vacation composes the automatic reply. The update decides whether this sender gets it now.
//
// Implements: RFC 5230 §4.5 address parameter and limiting replies to personal messages
func (s *filter) vacation(ctx context.Context, b *batch, d *delivery, p *directory.Person, h *fields.Facts,
	l *letter) error {
	v := d.ruling.Outcome.Vacation
	if v == nil || l.unproven ||
		!answerable(h, l.from, slices.Concat(p.Addresses(), []string{d.address()}, v.Addresses)) {
		return nil
	}
	rows, err := s.personal.follow.address(ctx, l.from.String(), 0)
	if err != nil || len(rows) == 0 {
		return err
	}
	q := *p
	q.Vacation.Subject, q.Vacation.Text = v.Subject, v.Text
	n := vacationNotice(&q, d.address(), h)
	n.from, n.to, n.entity = s.sender(p, d, v.From), l.from.String(), v.MIME
	n.id = note.DeriveUNID(b.entry.ID[:], []byte("sieve vacation "+p.ID.String()))
	o, err := s.personal.follow.send(ctx, b, "sieve vacation "+p.ID.String(), s.personal.follow.compose(&n),
		len(nullReturnPath), nullPath, rows)
	if err != nil {
		return err
	}
	o.asks = true
	handle := note.DeriveUNID([]byte("vacation handle"), []byte(v.Handle))
	d.ruling.vacation, d.ruling.key = o, strings.ToLower(l.from.String())+" "+handle.String()[:16]
	return nil
}

// settled does what else belongs to a delivery that a script ruled: it records marks and failures, and sends messages.
func (s *filter) settled(w *store.Writer, d *delivery) error {
	r := d.ruling
	if r == nil {
		return nil
	}
	for _, o := range r.out {
		o.due = true
	}
	if r.vacation != nil {
		var err error
		if r.vacation.due, err = s.personal.firstNotice(w, d.database, r.key, r.Outcome.Vacation.Interval); err != nil {
			return err
		}
	}
	now := s.env.Clock.Now()
	if len(r.Marks) > 0 {
		if err := s.personal.profile(w, d.database, scripts.DuplicateProfile, func(items note.Items) note.Items {
			return scripts.WithMarks(items, now, r.Marks)
		}); err != nil {
			return err
		}
	}
	if r.trouble == "" {
		return nil
	}
	if !r.told { // the update may run again
		r.told = true
		s.failed()
		s.env.Log.Warn("mail: script failed, the message is kept", "database", d.database.String(), "recipient", d.name,
			"err", fields.Logged(r.trouble))
	}
	return s.personal.profile(w, d.database, scripts.TroubleProfile, func(items note.Items) note.Items {
		return scripts.WithTrouble(items, now, r.trouble)
	})
}
