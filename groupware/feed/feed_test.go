package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/calendar"
	"doublet/client/reach"
	"doublet/client/webcal"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"
)

var bg = context.Background()

// web answers for other servers: texts by URL, or errors.
type web struct {
	texts map[string]string
	fails error
	asked atomic.Int64 // feeds are read side by side
}

func (w *web) URL(text string) (string, error) {
	if !strings.HasPrefix(text, "https://") {
		return "", reach.ErrAddress
	}
	return text, nil
}

func (w *web) Get(_ context.Context, url, etag, _ string) (*webcal.Answer, error) {
	w.asked.Add(1)
	if w.fails != nil {
		return nil, w.fails
	}
	text := w.texts[url]
	if tag := fmt.Sprint(len(text)); tag == etag {
		return &webcal.Answer{Unchanged: true, ETag: etag}, nil
	} else {
		return &webcal.Answer{Text: []byte(text), ETag: tag}, nil
	}
}

type world struct {
	t    *testing.T
	fix  *env.Fixture
	s    *store.Store
	dir  *directory.Directory
	svc  *groupware.Service
	pub  *Publisher
	sub  *Subscriber
	web  *web
	who  note.Who
	db   note.DatabaseID
	info directory.Person
}

func newWorld(t *testing.T, quota uint64) *world {
	w := &world{t: t, fix: env.Test(t), web: &web{texts: map[string]string{}}}
	var err error
	w.s, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		CacheSize: 1 << 20, LogSyncInterval: 20 * time.Microsecond,
		Indexes: slices.Concat(directory.Indexes(), groupware.Indexes())})
	w.must(err)
	w.dir, err = directory.Open(w.s, w.fix.Env, password.New(w.fix.Env, 1, 10),
		directory.Options{Domain: "example.com"})
	w.must(err)
	t.Cleanup(func() {
		rep, err := check.Run(bg, w.s, check.Options{Deep: true})
		w.must(err)
		for _, x := range rep.Findings {
			t.Error(x)
		}
		w.dir.Close()
		w.must(w.s.Close())
	})
	spec := directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{"Ada"}, ShortName: "ada"}}
	p, err := w.dir.People.Add(bg, note.System, spec)
	w.must(err)
	w.info = p
	w.who, err = w.dir.Names.WhoOf(bg, p.ID)
	w.must(err)
	w.db, err = mailbox.New(w.s, w.fix.Env, mailbox.Options{}).Make(bg, p.ID, "mail", quota, 0)
	w.must(err)
	w.svc = groupware.New(w.s, w.fix.Env, groupware.Options{})
	w.pub = NewPublisher(w.fix.Env, w.svc, w.dir, "https://mail.example/")
	w.sub = NewSubscriber(w.fix.Env, w.s, w.svc, w.web)
	w.must(w.file().Ensure(bg, "Europe/Berlin"))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) file() *groupware.File { return w.svc.File(w.who, w.db) }

func (w *world) put(uid string, lines ...string) {
	w.t.Helper()
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n" + vevent(uid, lines...) + "END:VCALENDAR\r\n"
	_, _, err := w.file().Put(bg, groupware.Calendar, groupware.DefaultCalendar, uid+".ics", []byte(text),
		groupware.Condition{})
	w.must(err)
}

func vevent(uid string, lines ...string) string {
	return "BEGIN:VEVENT\r\nUID:" + uid + "\r\nDTSTAMP:20260101T000000Z\r\n" + strings.Join(lines, "\r\n") +
		"\r\nEND:VEVENT\r\n"
}

func (w *world) set(x Choice) {
	w.t.Helper()
	w.must(w.file().Change(bg, func(c *groupware.Changing) error { return w.pub.Set(c, groupware.DefaultCalendar, x) }))
}

func (w *world) links() Links {
	w.t.Helper()
	c, err := w.file().Collection(bg, groupware.Calendar, groupware.DefaultCalendar)
	w.must(err)
	return w.pub.Links(w.db, &c)
}

// read returns the text of a link, and fails if there is no feed.
func (w *world) read(link string) (text, etag string) {
	w.t.Helper()
	f, err := w.pub.Open(bg, strings.TrimPrefix(link, "https://mail.example"+Path))
	w.must(err)
	b, err := f.Text(bg)
	w.must(err)
	return strings.ReplaceAll(string(b), "\r\n ", ""), f.ETag()
}

// gone checks that a link leads nowhere.
func (w *world) gone(link string) {
	w.t.Helper()
	if _, err := w.pub.Open(bg, strings.TrimPrefix(link, "https://mail.example"+Path)); !errors.Is(err, ErrNoFeed) {
		w.t.Errorf("%s: %v", link, err)
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	yes, no := true, false
	w.put("open", "DTSTART;TZID=Europe/Berlin:20260110T100000", "DURATION:PT1H", "SUMMARY:Breakfast",
		"ATTENDEE;SCHEDULE-STATUS=1.2;PARTSTAT=ACCEPTED:mailto:b@example.com", "BEGIN:VALARM", "ACTION:DISPLAY",
		"TRIGGER:-PT5M", "DESCRIPTION:x", "END:VALARM")
	w.put("mine", "CLASS:PRIVATE", "DTSTART:20260110T120000Z", "DURATION:PT1H", "SUMMARY:Doctor", "LOCATION:Clinic")
	w.put("free", "TRANSP:TRANSPARENT", "DTSTART:20260110T140000Z", "DURATION:PT1H", "SUMMARY:Holiday")
	w.put("old", "DTSTART:20200110T140000Z", "DURATION:PT1H", "SUMMARY:Long ago")
	if l := w.links(); l != (Links{}) {
		t.Fatal(l)
	}
	w.set(Choice{Full: &yes, Busy: &yes})
	l := w.links()
	if l.Full == l.Busy || !strings.HasPrefix(l.Full, "https://mail.example/feeds/") {
		t.Fatal(l)
	}
	full, etag := w.read(l.Full)
	for _, want := range []string{"Breakfast", "PARTSTAT=ACCEPTED", "SUMMARY:Holiday", "SUMMARY:Busy", "METHOD:PUBLISH",
		"NAME:Calendar", "REFRESH-INTERVAL;VALUE=DURATION:PT1H"} {
		if !strings.Contains(full, want) {
			t.Errorf("no %s in %s", want, full)
		}
	}
	busy, _ := w.read(l.Busy)
	for text, bad := range map[string][]string{full: {"Doctor", "Clinic", "VALARM", "SCHEDULE-STATUS", "Long ago"},
		busy: {"Breakfast", "Doctor", "Holiday", "UID:open", "mailto", "Long ago"}} {
		for _, x := range bad {
			if strings.Contains(text, x) {
				t.Errorf("%s in %s", x, text)
			}
		}
	}
	if n := strings.Count(busy, "BEGIN:VEVENT"); n != 2 {
		t.Error(n, busy)
	}
	// The entity tag follows the calendar, and each link has its own.
	if _, again := w.read(l.Full); again != etag {
		t.Error("ETag changes by itself")
	}
	w.put("open", "DTSTART:20260110T110000Z", "DURATION:PT1H", "SUMMARY:Brunch")
	if text, again := w.read(l.Full); again == etag || !strings.Contains(text, "Brunch") {
		t.Error("ETag stays")
	}
	// Others neither see nor make links. A link of one kind is none of the other, and a forged one is none at all.
	other := w.svc.File(note.Who{Person: note.UNID{7}}, w.db)
	if err := other.Change(bg, func(c *groupware.Changing) error {
		return w.pub.Set(c, groupware.DefaultCalendar, Choice{Full: &no})
	}); err == nil {
		t.Error("somebody else revokes a link")
	}
	c, err := w.file().Collection(bg, groupware.Calendar, groupware.DefaultCalendar)
	w.must(err)
	c.Rights = note.Lookup | note.Read
	if l := w.pub.Links(w.db, &c); l != (Links{}) {
		t.Error("readers see the links", l)
	}
	for _, bad := range []string{"", "x", ".ics", l.Full[:len(l.Full)-5] + "A.ics", l.Full[:len(l.Full)-4],
		l.Full[:30] + "zzz" + l.Full[33:], l.Full[:61] + l.Busy[61:], strings.Repeat("A", 10_000) + ".ics"} {
		w.gone(bad)
	}
	// A link that was revoked does not come back with a new one.
	w.set(Choice{Full: &no})
	w.gone(l.Full)
	w.read(l.Busy)
	w.set(Choice{Full: &yes})
	w.gone(l.Full)
	next := w.links()
	if w.read(next.Full); next.Busy != l.Busy {
		t.Error("the other link changed")
	}
	w.must(w.file().Change(bg, func(c *groupware.Changing) error {
		return c.Delete(groupware.Calendar, groupware.DefaultCalendar)
	}))
	w.gone(next.Full)
}

// TestRemovedOwner checks that the links of a person who was removed end.
func TestRemovedOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	yes := true
	w.set(Choice{Busy: &yes})
	link := w.links().Busy
	w.read(link)
	w.must(w.dir.People.Remove(bg, note.System, w.info.ID))
	w.gone(link)
}

// TestBusyExceptions checks that an exception without busy time stays out of the busy times of its series.
func TestBusyExceptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	yes := true
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\n" + vevent("s", "DTSTART:20260105T100000Z", "DURATION:PT1H",
		"RRULE:FREQ=DAILY;COUNT=3", "SUMMARY:Secret") + vevent("s", "RECURRENCE-ID:20260106T100000Z",
		"DTSTART:20260106T100000Z", "DURATION:PT1H", "STATUS:CANCELLED", "SUMMARY:Secret") + "END:VCALENDAR\r\n"
	_, _, err := w.file().Put(bg, groupware.Calendar, groupware.DefaultCalendar, "s.ics", []byte(text),
		groupware.Condition{})
	w.must(err)
	w.set(Choice{Busy: &yes})
	got, _ := w.read(w.links().Busy)
	if strings.Contains(got, "Secret") || !strings.Contains(got, "RECURRENCE-ID:20260106T100000Z") ||
		!strings.Contains(got, "TRANSP:TRANSPARENT") {
		t.Error(got)
	}
}

func (w *world) subscribe(url string) string {
	w.t.Helper()
	name := ""
	w.must(w.file().Change(bg, func(c *groupware.Changing) (err error) {
		name, err = w.sub.Subscribe(c, url, "")
		return err
	}))
	return name
}

func (w *world) run(after time.Duration) {
	w.t.Helper()
	w.fix.Time.Advance(after)
	w.must(w.sub.Run(bg))
}

// subjects returns the subjects of a calendar, sorted, and its collection.
func (w *world) subjects(name string) (string, groupware.Collection) {
	w.t.Helper()
	var list []string
	w.must(w.file().Entries(bg, groupware.Calendar, name, groupware.Select{Text: true}, func(e *groupware.Entry) bool {
		list = append(list, e.Subject)
		if strings.Contains(string(e.Text), "ATTENDEE") || strings.Contains(string(e.Text), "VALARM") {
			w.t.Errorf("%s", e.Text)
		}
		return true
	}))
	slices.Sort(list)
	c, err := w.file().Collection(bg, groupware.Calendar, name)
	w.must(err)
	return strings.Join(list, ","), c
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	const url = "https://far.example/x.ics"
	feed := func(events ...string) {
		w.web.texts[url] = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nX-WR-CALNAME:Matches\r\nMETHOD:PUBLISH\r\n" +
			"REFRESH-INTERVAL:PT2H\r\n" + strings.Join(events, "") + "END:VCALENDAR\r\n"
	}
	at := func(day int) string { return fmt.Sprintf("DTSTART:202601%02dT100000Z", day) }
	feed(vevent("a", at(6), "SUMMARY:A", "ATTENDEE:mailto:ada@example.com", "ORGANIZER:mailto:x@far.example",
		"BEGIN:VALARM", "ACTION:DISPLAY", "TRIGGER:-PT5M", "END:VALARM"), vevent("b", at(7), "SUMMARY:B"),
		vevent("broken", "SUMMARY:no start"))
	name := w.subscribe(url)
	if got, c := w.subjects(name); got != "" || c.Title != "far.example" || !c.Source.Done.IsZero() {
		t.Fatal(got, c)
	}
	w.run(0)
	got, c := w.subjects(name)
	if got != "A,B" || c.Title != "Matches" || c.Source.Error != "1 events of the feed are malformed" ||
		c.Source.Next.Sub(c.Source.Tried) != 2*time.Hour {
		t.Fatalf("%q %+v", got, c)
	}
	// Not before its time; an answer without change writes no entry.
	token := c.Token
	w.run(time.Hour)
	if w.web.asked.Load() != 1 {
		t.Error("asked too early")
	}
	w.run(time.Hour + time.Second)
	if _, c := w.subjects(name); w.web.asked.Load() != 2 || c.Token != token ||
		c.Source.Next.Sub(c.Source.Tried) != 2*time.Hour {
		t.Errorf("%d %+v", w.web.asked.Load(), c.Source)
	}
	// Changed, gone and new events.
	feed(vevent("b", at(8), "SUMMARY:B moved"), vevent("c", at(9), "SUMMARY:C"))
	w.run(3 * time.Hour)
	if got, c := w.subjects(name); got != "B moved,C" || c.Source.Error != "" {
		t.Fatalf("%q %+v", got, c.Source)
	}
	if list, err := w.file().Removed(bg); err != nil || len(list) > 0 {
		t.Error("events of feeds can be restored", list, err)
	}
	// Failures are told, keep what is there, and make the pauses longer.
	for _, bad := range []struct {
		err  error
		text string
		want string
	}{{err: &webcal.Refused{Status: 404}, want: "server answers 404 Not Found"},
		{text: "<html>", want: "address returns no calendar"}, {text: "",
			want: "address returns no calendar"}} {
		w.web.fails, w.web.texts[url] = bad.err, bad.text
		w.run(25 * time.Hour)
		if got, c := w.subjects(name); got != "B moved,C" || !strings.Contains(c.Source.Error, bad.want) {
			t.Fatalf("%q %+v", got, c.Source)
		}
	}
	_, c = w.subjects(name)
	if d := c.Source.Next.Sub(c.Source.Tried); c.Source.Fails != 3 || d != 4*time.Hour {
		t.Error(c.Source.Fails, d)
	}
	// The owner asks for it again.
	w.web.fails = nil
	feed(vevent("d", at(10), "SUMMARY:D"))
	w.must(w.file().Change(bg, func(x *groupware.Changing) error { return x.ReadAgain(name) }))
	w.run(2 * time.Minute)
	if got, c := w.subjects(name); got != "D" || c.Source.Fails != 0 {
		t.Fatalf("%q %+v", got, c.Source)
	}
	// Nobody writes there, and it is no calendar for new events, and free time does not count it.
	_, _, err := w.file().Put(bg, groupware.Calendar, name, "x.ics", []byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n"+
		vevent("x", at(1))+"END:VCALENDAR\r\n"), groupware.Condition{})
	if !errors.Is(err, store.ErrDenied) {
		t.Error("the owner writes", err)
	}
	w.must(w.file().Change(bg, func(x *groupware.Changing) error {
		return x.Delete(groupware.Calendar, groupware.DefaultCalendar)
	}))
	if to, err := w.file().DefaultFor(bg, calendar.Event); err == nil && to == name {
		t.Error("new events go into the feed")
	}
	if busy, err := w.file().Busy(bg, "", w.fix.Clock.Now(), w.fix.Clock.Now().AddDate(1, 0, 0)); err == nil &&
		len(busy) > 0 {
		t.Error(busy)
	}
	// It can be deleted, and then nothing is asked for any more.
	w.must(w.file().Change(bg, func(x *groupware.Changing) error { return x.Delete(groupware.Calendar, name) }))
	asked := w.web.asked.Load()
	if w.run(48 * time.Hour); w.web.asked.Load() != asked {
		t.Error("asks for a feed that was deleted")
	}
}

// TestSecretSource checks that readers of a calendar do not learn the address of its feed, nor an error that repeats
// it.
func TestSecretSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	const url = "https://user:pass@far.example:8443/secret.ics?key=secret"
	name := w.subscribe(url)
	w.web.fails = fmt.Errorf("no answer from %s", url)
	w.run(0)
	reader := note.UNID{7}
	w.must(w.file().Change(bg, func(c *groupware.Changing) error {
		return c.Share(groupware.Calendar, name, map[note.UNID]note.Rights{reader: note.Lookup | note.Read})
	}))
	if _, c := w.subjects(name); c.Source.URL != url || !strings.Contains(c.Source.Error, url) {
		t.Errorf("the owner sees %+v", c.Source)
	}
	list, err := w.svc.File(note.Who{Person: reader}, w.db).Collections(bg, groupware.Calendar)
	w.must(err)
	if len(list) != 1 || list[0].Source.URL != "https://far.example:8443/" || list[0].Source.Error != "" ||
		list[0].Source.ETag != "" || list[0].Source.Tried.IsZero() {
		t.Errorf("a reader sees %+v", list)
	}
}

// TestFeedAccess checks that the access list of the mail file goes on to hold for the calendar of a feed, and that no
// list lets anybody write there.
func TestFeedAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	const url = "https://far.example/"
	feed := func(uid, summary string) {
		w.web.texts[url] = "BEGIN:VCALENDAR\r\n" + vevent(uid, "DTSTART:20260105T100000Z", summary) +
			"END:VCALENDAR\r\n"
	}
	feed("u", "SUMMARY:A")
	delegate := note.Who{Person: note.UNID{7}}
	as := w.svc.File(delegate, w.db)
	allow := func(level note.Level) {
		w.must(w.s.SetInfo(note.System, w.db, func(i *layout.Info) {
			i.ACL = i.ACL.With(note.Entry{ID: delegate.Person, Level: level})
		}))
	}
	allow(note.Manager)
	name := w.subscribe(url)
	w.run(0)
	text := []byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\n" + vevent("x", "DTSTART:20260105T100000Z") + "END:VCALENDAR\r\n")
	sealed := func(f *groupware.File) {
		t.Helper()
		c, err := f.Collection(bg, groupware.Calendar, name)
		if err != nil || c.Rights&note.Read == 0 || c.Rights&(note.Insert|note.Write|note.Expunge) != 0 {
			t.Errorf("rights %b, %v", c.Rights, err)
		}
		_, _, err = f.Put(bg, groupware.Calendar, name, "x.ics", text, groupware.Condition{})
		if !errors.Is(err, store.ErrDenied) {
			t.Errorf("Put: %v", err)
		}
		w.must(f.Entries(bg, groupware.Calendar, name, groupware.Select{}, func(e *groupware.Entry) bool {
			err = f.Remove(bg, groupware.Calendar, name, e.Name, groupware.Condition{})
			return false
		}))
		if !errors.Is(err, store.ErrDenied) {
			t.Errorf("Remove: %v", err)
		}
	}
	sealed(w.file())
	sealed(as)
	allow(note.NoAccess)
	if _, err := as.Collection(bg, groupware.Calendar, name); !errors.Is(err, groupware.ErrNoCollection) {
		t.Errorf("somebody who left the access list of the mail file still sees the feed: %v", err)
	}
	w.must(w.file().Change(bg, func(c *groupware.Changing) error {
		return c.Share(groupware.Calendar, name, map[note.UNID]note.Rights{delegate.Person: note.Lookup | note.Read |
			note.Insert | note.Write | note.Expunge})
	}))
	sealed(as)
	feed("u2", "SUMMARY:B2")
	w.run(2 * time.Hour)
	if got, _ := w.subjects(name); got != "B2" {
		t.Errorf("the server does not write: %q", got)
	}
}

func TestSubscribeBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 400_000)
	err := w.file().Change(bg, func(c *groupware.Changing) error {
		_, err := w.sub.Subscribe(c, "http://inner.example/", "")
		return err
	})
	if !errors.Is(err, reach.ErrAddress) {
		t.Error(err)
	}
	other := w.svc.File(note.Who{Person: note.UNID{7}}, w.db)
	if err := other.Change(bg, func(c *groupware.Changing) error {
		_, err := w.sub.Subscribe(c, "https://far.example/", "")
		return err
	}); !errors.Is(err, store.ErrDenied) {
		t.Error("somebody else subscribes", err)
	}
	var many strings.Builder
	many.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range 10_001 {
		many.WriteString(vevent(fmt.Sprint("u", i), "DTSTART:20260105T100000Z"))
	}
	w.web.texts["https://many.example/"] = many.String() + "END:VCALENDAR\r\n"
	w.web.texts["https://big.example/"] = "BEGIN:VCALENDAR\r\n" + vevent("u", "DTSTART:20260105T100000Z",
		"DESCRIPTION:"+strings.Repeat("x", 500_000)) + "END:VCALENDAR\r\n"
	a, b := w.subscribe("https://many.example/"), w.subscribe("https://big.example/")
	w.run(0)
	if _, c := w.subjects(a); !strings.Contains(c.Source.Error, "over 10000 events") || c.Total != 0 {
		t.Error(c.Source)
	}
	if _, c := w.subjects(b); c.Source.Error == "" || c.Total != 0 {
		t.Error("over quota", c.Source)
	}
	for range groupware.MaxSources - 2 {
		w.subscribe("https://far.example/")
	}
	err = w.file().Change(bg, func(c *groupware.Changing) error {
		_, err := w.sub.Subscribe(c, "https://far.example/", "")
		return err
	})
	if !errors.Is(err, groupware.ErrFull) {
		t.Error(err)
	}
}

// TestLargeZones checks that a time zone which many events name takes no more memory than the bounds, and that an event
// which is too large for a calendar does not stop the others.
func TestLargeZones(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	of := func(zone string, events ...string) string {
		return "BEGIN:VCALENDAR\r\nBEGIN:VTIMEZONE\r\nTZID:Big\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\n" +
			"TZOFFSETFROM:+0100\r\nTZOFFSETTO:+0100\r\n" + zone + "END:STANDARD\r\nEND:VTIMEZONE\r\n" +
			strings.Join(events, "") + "END:VCALENDAR\r\n"
	}
	long := func(n int) string { return "X-LONG:" + strings.Repeat("x", n) + "\r\n" }
	const start, small = "DTSTART;TZID=Big:20260105T100000", "DTSTART:20260106T100000Z"
	many := make([]string, 9)
	for i := range many {
		many[i] = vevent(fmt.Sprint("u", i), start)
	}
	for name, c := range map[string]struct{ feed, subjects, err string }{
		"total": {of(long(5<<20), many...), "", "over 40 MB with their time zones"},
		"entry": {of(long(5_400_000), vevent("a", start, strings.TrimSpace(long(4_900_000)), "SUMMARY:A"),
			vevent("b", small, "SUMMARY:B"), vevent("c", start, "SUMMARY:C")), "B,C", "1 events of the feed are"},
		"lines": {of(strings.Repeat("X-A:1\r\n", 99_982), vevent("a", start, "SUMMARY:A", "LOCATION:x"),
			vevent("b", small, "SUMMARY:B")), "B", "1 events of the feed are"},
		"all lines": {of(strings.Repeat("X-A:1\r\n", 99_982), vevent("a", start, "SUMMARY:A")), "A", ""},
	} {
		url := "https://" + strings.ReplaceAll(name, " ", "-") + ".example/"
		w.web.texts[url] = c.feed
		shown := w.subscribe(url)
		w.run(0)
		if got, x := w.subjects(shown); got != c.subjects || c.err == "" && x.Source.Error != "" ||
			!strings.Contains(x.Source.Error, c.err) {
			t.Errorf("%s: %q, %q", name, got, x.Source.Error)
		}
	}
}

// TestManyInstances reads an event with as many components as a feed has room for: it is too large for a calendar, and
// the others are read. Of two components for an instance the later one stays.
func TestManyInstances(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range limits.Lines/4 - 10 {
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:u\r\nRECURRENCE-ID:%d\r\nEND:VEVENT\r\n", i)
	}
	for _, place := range []string{"1", "2"} {
		b.WriteString(vevent("v", "DTSTART:20260105T100000Z", "LOCATION:"+place))
	}
	x, err := read([]byte(b.String()+"END:VCALENDAR\r\n"), note.UNID{1})
	if err != nil || len(x.events) != 1 || x.broken != 1 {
		t.Fatal(x, err)
	}
	for _, text := range x.events {
		if !strings.Contains(string(text), "LOCATION:2") || strings.Contains(string(text), "LOCATION:1") {
			t.Errorf("%s", text)
		}
	}
}

// TestRestart checks that a new Subscriber goes on where another one was.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.web.texts["https://far.example/"] = "BEGIN:VCALENDAR\r\n" + vevent("u", "DTSTART:20260105T100000Z") +
		"END:VCALENDAR\r\n"
	w.subscribe("https://far.example/")
	w.run(0)
	w.sub = NewSubscriber(w.fix.Env, w.s, w.svc, w.web)
	if w.run(time.Minute); w.web.asked.Load() != 1 {
		t.Error(w.web.asked.Load())
	}
	if w.run(time.Hour); w.web.asked.Load() != 2 {
		t.Error(w.web.asked.Load())
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("BEGIN:VCALENDAR\r\nX-PUBLISHED-TTL:PT1H\r\n" + vevent("a", "DTSTART:20260105T100000Z") +
		vevent("a", "RECURRENCE-ID:20260105T100000Z", "DTSTART:20260105T110000Z") + "END:VCALENDAR\r\n"))
	f.Add([]byte("BEGIN:VCALENDAR\nBEGIN:VTIMEZONE\nTZID:X\nEND:VTIMEZONE\nBEGIN:VEVENT\n" +
		"DTSTART;TZID=X:20260105T100000\n" +
		"END:VEVENT\nEND:VCALENDAR\nBEGIN:VCALENDAR\nEND:VCALENDAR\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		x, err := read(text, note.UNID{1})
		if err != nil {
			return
		}
		again, err := read(text, note.UNID{1})
		if err != nil || len(again.events) != len(x.events) {
			t.Fatal("read differently", err)
		}
		for name, text := range x.events {
			if _, err := calendar.ReadObject(text); err != nil {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
		}
	})
}
