package scheduling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/directory"
	"doublet/groupware"
	"doublet/mail"
	"doublet/mail/fields"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// Bounds of alarms: how late one is sent after the server was down, how far ahead a mail file is looked at, the mails of
// one mail file in one run, unless more are due in the same second, and the alarms in memory.
const (
	alarmLate  = 24 * time.Hour
	alarmAhead = 24 * time.Hour
	maxAlarms  = 100
	maxDue     = 5000
)

// Alarmer sends the mails of alarms (VALARM with ACTION:EMAIL) to the owners of calendars. Only the primary of a mail
// file sends them. The queue ID of each mail is derived from the alarm, so that one that was sent before a crash is not
// delivered again; the mail file records up to when all were sent.
type Alarmer struct {
	s      *Service
	follow *mailbox.Follower
	// next has the time of the next alarm of each mail file with such alarms, or that of the next look.
	next map[note.DatabaseID]time.Time
}

// NewAlarmer returns the Alarmer for the mail files of a store. It has one user, the task Alarms.
func (s *Service) NewAlarmer(st *store.Store) *Alarmer {
	return &Alarmer{s, mailbox.NewFollower(st), map[note.DatabaseID]time.Time{}}
}

// Run sends the alarms that are due. A mail file that fails does not stop the others.
func (a *Alarmer) Run(ctx context.Context) error {
	changed, gone, err := a.follow.Changed()
	if err != nil {
		return fmt.Errorf("alarms: %w", err)
	}
	for _, db := range gone {
		delete(a.next, db)
	}
	var errs []error
	for _, db := range changed {
		errs = append(errs, a.look(ctx, db))
	}
	now := a.s.env.Clock.Now()
	for db, at := range a.next {
		if at.After(now) || !a.s.groupware.Leads(db) || ctx.Err() != nil {
			continue
		}
		if err := a.ring(ctx, db, now); err != nil && !errors.Is(err, store.ErrNotHome) {
			errs = append(errs, fmt.Errorf("alarms of %s: %w", db, err))
			continue
		}
		errs = append(errs, a.look(ctx, db))
	}
	return errors.Join(errs...)
}

// since returns the time after which alarms of a mail file were not sent yet.
func (a *Alarmer) since(ctx context.Context, f *groupware.File) (time.Time, error) {
	at, err := f.AlarmedUntil(ctx)
	if oldest := a.s.env.Clock.Now().Add(-alarmLate); at.Before(oldest) {
		at = oldest
	}
	return at, err
}

// look finds the time of the next alarm of a mail file.
func (a *Alarmer) look(ctx context.Context, db note.DatabaseID) error {
	delete(a.next, db)
	f := a.s.groupware.File(note.System, db)
	from, err := a.since(ctx, f)
	if err == nil {
		again := a.s.env.Clock.Now().Add(alarmAhead)
		err = a.each(ctx, f, from, again, func(_ *groupware.Alarmed, r *calendar.Ring) error {
			if r.At.Before(again) {
				again = r.At
			}
			return nil
		}, func() { a.next[db] = again })
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrOutOfService) || errors.Is(err,
		store.ErrIncomplete) {
		return nil
	}
	return err
}

// each calls fn for the alarms of a mail file after from and until to, and some once if there are events with alarms.
// An alarm that was already past when its event was written is none.
func (a *Alarmer) each(ctx context.Context, f *groupware.File, from, to time.Time,
	fn func(*groupware.Alarmed, *calendar.Ring) error, some func()) error {
	var inner error
	any := false
	err := f.Alarmed(ctx, func(e *groupware.Alarmed) bool {
		any = true
		list, err := e.Object.Rings("EMAIL", from, to, e.Zone)
		if err != nil {
			return true // a rule that takes too long to expand has no alarms
		}
		for i := range list {
			if list[i].At.Before(e.Modified.Add(-time.Minute)) {
				continue
			}
			if inner = fn(e, &list[i]); inner != nil {
				return false
			}
		}
		return ctx.Err() == nil
	})
	if any && inner == nil {
		some()
	}
	return errors.Join(err, inner)
}

// ring sends the alarms of a mail file that are due.
func (a *Alarmer) ring(ctx context.Context, db note.DatabaseID, now time.Time) error {
	f := a.s.groupware.File(note.System, db)
	from, err := a.since(ctx, f)
	if err != nil {
		return err
	}
	owner, err := f.Owner(ctx)
	if err != nil || owner.IsZero() {
		return err
	}
	list, until, err := a.due(ctx, f, from, now)
	if err != nil || len(list) == 0 {
		return err
	}
	person, err := a.s.dir.Names.Person(ctx, owner)
	if errors.Is(err, directory.ErrNotFound) || err == nil && !person.Removed.IsZero() {
		return nil
	}
	if err != nil {
		return err
	}
	me := a.s.people.is(ctx, owner)
	for _, x := range list {
		c := x.event.Object.Parts[x.ring.Part]
		if strings.EqualFold(c.Text("STATUS"), "CANCELLED") || itip.Status(x.event.Object, me) == "DECLINED" {
			continue
		}
		if err := a.send(ctx, db, &person, x.event, &x.ring); err != nil {
			return err
		}
	}
	return f.Change(ctx, func(w *groupware.Changing) error { return w.SetAlarmedUntil(until) })
}

// due is an alarm that is to be sent.
type due struct {
	event *groupware.Alarmed
	ring  calendar.Ring
}

// due returns the alarms of a mail file after from and until now, maxAlarms and those at the time of the last one, and
// the time up to which they are all. They are sent after the reading, because a deposit changes the mail file.
func (a *Alarmer) due(ctx context.Context, f *groupware.File, from, now time.Time) (list []due, until time.Time,
	err error) {
	err = a.each(ctx, f, from, now, func(e *groupware.Alarmed, r *calendar.Ring) error {
		if len(list) < maxDue {
			list = append(list, due{e, *r})
		}
		return nil
	}, func() {})
	until = now
	slices.SortStableFunc(list, func(x, y due) int { return x.ring.At.Compare(y.ring.At) })
	if n := maxAlarms; len(list) > n {
		for until = list[n-1].ring.At; n < len(list) && list[n].ring.At.Equal(until); {
			n++ // the next run begins after until
		}
		list = list[:n]
	}
	return list, until, err
}

// send sends one alarm to the owner of the calendar. Addresses in the alarm get none: an event could send mail to
// everybody.
//
// Implements: RFC 5545 §3.6.6 ACTION:EMAIL
func (a *Alarmer) send(ctx context.Context, db note.DatabaseID, p *directory.Person, e *groupware.Alarmed,
	r *calendar.Ring) error {
	to, err := smtp.ParsePath(p.InternetAddress)
	if err != nil {
		return nil //nolint:nilerr // a person without an address gets none
	}
	target, err := a.s.dir.Names.Resolve(ctx, p.InternetAddress)
	if errors.Is(err, directory.ErrNotLocal) || errors.Is(err, directory.ErrNoSuchRecipient) {
		return nil
	}
	if err != nil {
		return err
	}
	id := note.DeriveUNID([]byte("alarm "+db.String()), e.UNID[:], []byte(r.Alarm+" "+r.At.UTC().Format(time.RFC3339)))
	sub := &mail.Submission{ID: id, Message: a.compose(p, e, r, id), Answer: mail.AnswerNone,
		Recipients: []mail.Recipient{{To: to, Target: target, Params: smtp.RcptParams{Notify: smtp.NotifyNever}}}}
	if _, err := a.s.mail.Deposits.Deposit(ctx, sub, nil); err != nil {
		return err
	}
	a.s.stats.alarms.Inc()
	return nil
}

// compose returns the mail of an alarm.
func (a *Alarmer) compose(p *directory.Person, e *groupware.Alarmed, r *calendar.Ring, id note.UNID) []byte {
	c := e.Object.Parts[r.Part]
	title := cmp.Or(strings.Join(strings.Fields(c.Text("SUMMARY")), " "), "(no title)")
	if len(title) > 200 {
		title = strings.ToValidUTF8(title[:200], "")
	}
	text := title + "\r\n" + whenOf(e, r) + "\r\n"
	for _, name := range []string{"LOCATION", "DESCRIPTION"} {
		if s := strings.TrimSpace(c.Text(name)); s != "" {
			text += "\r\n" + s[:min(len(s), 10_000)] + "\r\n"
		}
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	domain := p.InternetAddress[strings.LastIndexByte(p.InternetAddress, '@')+1:]
	b := []byte("From: Calendar <postmaster@" + domain + ">\r\nTo: <" + p.InternetAddress + ">\r\nSubject: " +
		fields.Encode("Reminder: "+title) + "\r\nDate: " + a.s.env.Clock.Now().UTC().Format(fields.DateFormat) +
		"\r\nMessage-ID: <" + id.String() + "@" + a.s.opt.Hostname + ">\r\nAuto-Submitted: auto-generated\r\n" +
		"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	return mime.AppendBase64Lines(b, []byte(strings.ToValidUTF8(text, "\ufffd")), 76, true)
}

// whenOf prints the time of an occurrence on the clocks of its own time zone, or of the calendar if it has none: then
// the occurrence was computed there.
func whenOf(e *groupware.Alarmed, r *calendar.Ring) string {
	m, _ := e.Object.Parts[r.Part].Get("DTSTART").Moment()
	zone := e.Zone
	if m.Zone != "" {
		zone = cmp.Or(e.Object.Whole.Zone(m.Zone), ical.UTC)
	}
	wall := zone.Wall(r.Start)
	if m.Day {
		return wall.Format("Monday, 2 January 2006")
	}
	return wall.Format("Monday, 2 January 2006, 15:04") + " (" + strings.TrimPrefix(cmp.Or(zone.Name, m.Zone), "Etc/") + ")"
}
