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

// Bounds of alarms: how late one is sent after the server was down, how far ahead a mail file is looked at, the mails
// of one mail file in one run, unless more are due in the same second, and the alarms of one second.
const (
	alarmLate  = 24 * time.Hour
	alarmAhead = 24 * time.Hour
	maxAlarms  = 100
	maxDue     = 1000
)

// Alarmer sends the mails of alarms (VALARM with ACTION:EMAIL) to the owners of calendars. Only the primary of a mail
// file sends them. The queue ID of each mail is derived from the alarm, so that one that was sent before a crash is not
// delivered again; the mail file records up to when all were sent.
type Alarmer struct {
	s     *Service
	times *mailbox.Timetable
	files map[note.DatabaseID]outlook // of the mail files with such alarms, since the last look
}

// outlook is the outcome of the last look at a mail file.
type outlook struct {
	calendars groupware.Moments
	next      time.Time // of the next alarm, or of the next look
}

// NewAlarmer returns the Alarmer for the mail files of a store. It has one user, the task Alarms.
func (s *Service) NewAlarmer(st *store.Store) *Alarmer {
	return &Alarmer{s, mailbox.NewTimetable(s.env, st), map[note.DatabaseID]outlook{}}
}

// Run sends the alarms that are due. A mail file that fails does not stop the others.
func (a *Alarmer) Run(ctx context.Context) error { return a.times.Run(ctx, a.look, a.ringAll) }

func (a *Alarmer) ringAll(ctx context.Context, due []note.DatabaseID, now time.Time) error {
	var errs []error
	for _, db := range due {
		if ctx.Err() != nil {
			break
		}
		delete(a.files, db)
		if err := a.ring(ctx, db, now); err != nil && !errors.Is(err, store.ErrNotHome) {
			errs = append(errs, fmt.Errorf("alarms of %s: %w", db, err))
		}
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

// look returns the time of the next alarm of a mail file. It reads the events only if the calendars are not those of
// the last look: most changes are mail. A mail file that another server leads is due as soon as this one leads it.
func (a *Alarmer) look(ctx context.Context, db note.DatabaseID) (time.Time, bool, error) {
	f := a.s.groupware.File(note.System, db)
	x, known := a.files[db]
	delete(a.files, db)
	some, err := f.HasAlarms(ctx)
	if err != nil || !some || !a.s.groupware.Leads(db) {
		return time.Time{}, some, err
	}
	now, err := f.Moments(ctx, groupware.Calendar)
	if err != nil {
		return time.Time{}, false, err
	}
	if !known || now != x.calendars {
		x.calendars = now // before the events: what changes meanwhile is looked at again
		if x.next, err = a.next(ctx, f); err != nil {
			return time.Time{}, false, err
		}
	}
	a.files[db] = x
	return x.next, true, nil
}

// next returns the time of the next alarm of a mail file, or of the next look.
func (a *Alarmer) next(ctx context.Context, f *groupware.File) (time.Time, error) {
	from, err := a.since(ctx, f)
	if err != nil {
		return time.Time{}, err
	}
	next := a.s.env.Clock.Now().Add(alarmAhead)
	err = a.each(ctx, f, from, next, func(_ *groupware.Alarmed, r *calendar.Ring) {
		if r.At.Before(next) {
			next = r.At
		}
	})
	return next, err
}

// each calls fn for the alarms of a mail file after from and until to. An alarm that was already past when its event
// was written is none.
func (a *Alarmer) each(ctx context.Context, f *groupware.File, from, to time.Time,
	fn func(*groupware.Alarmed, *calendar.Ring)) error {
	err := f.Alarmed(ctx, func(e *groupware.Alarmed) bool {
		list, err := e.Object.Rings("EMAIL", from, to, e.Zone)
		if err != nil {
			return true // a rule that takes too long to expand has no alarms
		}
		for i := range list {
			if !list[i].At.Before(e.Modified.Add(-time.Minute)) {
				fn(e, &list[i])
			}
		}
		return ctx.Err() == nil
	})
	return errors.Join(err, ctx.Err())
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
	list, until, err := a.due(ctx, f, a.s.people.is(ctx, owner), from, now)
	if err != nil || len(list) == 0 {
		return err
	}
	person, err := a.s.dir.Names.Person(ctx, owner)
	if errors.Is(err, directory.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].silent || !person.Removed.IsZero() {
			continue
		}
		if err := a.send(ctx, &person, &list[i]); err != nil {
			return err
		}
	}
	return f.Change(ctx, func(w *groupware.Changing) error { return w.SetAlarmedUntil(until) })
}

// due is an alarm that is to be sent. It has the texts of its mail alone, because an event may have megabytes.
type due struct {
	at          time.Time
	id          note.UNID // of the mail
	title, text string
	silent      bool // no mail: the event or task is over, or its owner has declined
}

// due returns the alarms of a mail file after from and until now, maxAlarms and those at the time of the last one, and
// the time up to which they are all. me reports whether an address is the owner's. They are sent after the reading,
// because a deposit changes the mail file.
func (a *Alarmer) due(ctx context.Context, f *groupware.File, me func(string) bool, from, now time.Time) (list []due,
	until time.Time, err error) {
	err = a.each(ctx, f, from, now, func(e *groupware.Alarmed, r *calendar.Ring) {
		x := dueOf(f.Database(), e, r)
		x.silent = x.silent || itip.Status(e.Object, me) == "DECLINED"
		if list = append(list, x); len(list) > maxDue {
			list = earliest(list)
			list = list[:min(len(list), maxDue)]
		}
	})
	if until = now; len(list) >= maxAlarms {
		list = earliest(list)
		until = list[len(list)-1].at
	}
	return list, until, err
}

// earliest returns the first maxAlarms of a list by time, and those at the time of the last one: the next run begins
// after it.
func earliest(list []due) []due {
	slices.SortStableFunc(list, func(x, y due) int { return x.at.Compare(y.at) })
	n := min(len(list), maxAlarms)
	for n < len(list) && list[n].at.Equal(list[n-1].at) {
		n++
	}
	return list[:n]
}

// dueOf returns an alarm of an event or a task with the text for its mail.
func dueOf(db note.DatabaseID, e *groupware.Alarmed, r *calendar.Ring) due {
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
	id := note.DeriveUNID([]byte("alarm "+db.String()), e.UNID[:], []byte(r.Alarm+" "+r.At.UTC().Format(time.RFC3339)))
	return due{r.At, id, strings.Clone(title), strings.ToValidUTF8(text, "\ufffd"), isOver(c)}
}

// isOver reports whether nobody needs to be reminded of an event or a task: it was cancelled, or is done.
func isOver(c *ical.Component) bool {
	status := strings.TrimSpace(c.Text("STATUS"))
	return strings.EqualFold(status, "CANCELLED") || c.Name == calendar.Task && strings.EqualFold(status, "COMPLETED")
}

// send sends one alarm to the owner of the calendar. Addresses in the alarm get none: an event could send mail to
// everybody.
//
// Implements: RFC 5545 §3.6.6 ACTION:EMAIL
func (a *Alarmer) send(ctx context.Context, p *directory.Person, x *due) error {
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
	sub := &mail.Submission{ID: x.id, Message: a.compose(p, x), Answer: mail.AnswerNone,
		Recipients: []mail.Recipient{{To: to, Target: target, Params: smtp.RcptParams{Notify: smtp.NotifyNever}}}}
	if _, err := a.s.mail.Deposits.Deposit(ctx, sub, nil); err != nil {
		return err
	}
	a.s.stats.alarms.Inc()
	return nil
}

// compose returns the mail of an alarm.
func (a *Alarmer) compose(p *directory.Person, x *due) []byte {
	domain := p.InternetAddress[strings.LastIndexByte(p.InternetAddress, '@')+1:]
	b := []byte("From: Calendar <postmaster@" + domain + ">\r\nTo: <" + p.InternetAddress + ">\r\nSubject: " +
		fields.Encode("Reminder: "+x.title) + "\r\nDate: " + a.s.env.Clock.Now().UTC().Format(fields.DateFormat) +
		"\r\nMessage-ID: <" + x.id.String() + "@" + a.s.opt.Hostname + ">\r\nAuto-Submitted: auto-generated\r\n" +
		"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n")
	return mime.AppendBase64Lines(b, []byte(x.text), 76, true)
}

// whenOf prints the start of an occurrence, of a task the time at which it is due, on the clocks of its own time zone,
// or of the calendar if it has none: then the occurrence was computed there.
func whenOf(e *groupware.Alarmed, r *calendar.Ring) string {
	c, at := e.Object.Parts[r.Part], r.Start
	m, _ := c.Get("DTSTART").Moment()
	if limit, ok := c.Get("DUE").Moment(); ok {
		m, at = limit, r.End
	}
	zone := e.Zone
	if m.Zone != "" {
		zone = cmp.Or(e.Object.Whole.Zone(m.Zone), ical.UTC)
	}
	wall := zone.Wall(at)
	if m.Day {
		return wall.Format("Monday, 2 January 2006")
	}
	name := strings.TrimPrefix(cmp.Or(zone.Name, m.Zone), "Etc/")
	return wall.Format("Monday, 2 January 2006, 15:04") + " (" + name + ")"
}
