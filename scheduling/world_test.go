package scheduling

import (
	"context"
	"strings"
	"testing"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/groupware"
	"doublet/mail"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/smtp"
)

var bg = context.Background()

// world is a server with people, their calendars and mail.
type world struct {
	t      testing.TB
	fix    *env.Fixture
	store  *store.Store
	dir    *directory.Directory
	files  *mailbox.Service
	group  *groupware.Service
	mail   *mail.Service
	sched  *Service
	tree   *stat.Tree
	people map[string]directory.Person
}

func newWorld(t testing.TB, names ...string) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t), people: map[string]directory.Person{}}
	w.tree = stat.New(w.fix.Clock)
	var err error
	w.store, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, FloorPercent: -1, Ballast: -1,
		Stats: w.tree, CacheSize: 8 << 20, MemTableSize: 4 << 20,
		Indexes: append(append(directory.Indexes(), trace.Indexes()...), groupware.Indexes()...)})
	w.ok(err)
	w.dir, err = directory.Open(w.store, w.fix.Env, password.New(w.fix.Env, 1, 10),
		directory.Options{Domain: "example.com"})
	w.ok(err)
	w.files = mailbox.New(w.store, w.fix.Env, mailbox.Options{})
	w.group = groupware.New(w.store, w.fix.Env, groupware.Options{})
	w.mail, err = mail.Open(w.store, w.fix.Env, w.dir, w.files, mail.Options{Hostname: "mx.example.com", Stats: w.tree,
		Mates: mates{}, Calendars: NewInbox(w.dir, w.group, w.tree)})
	w.ok(err)
	w.sched = New(w.fix.Env, w.dir, w.group, w.mail, Options{Hostname: "mx.example.com", Stats: w.tree})
	for _, name := range names {
		w.person(name)
	}
	t.Cleanup(func() {
		w.dir.Close()
		w.ok(w.store.Close())
	})
	return w
}

// mates are the other members of a cluster, of which none answers.
type mates struct{}

func (mates) Elsewhere(note.DatabaseID) bool { return false }

func (mates) Deliver(context.Context, *mail.Handed, []byte) error { return store.ErrNotHome }

func (mates) Recall(context.Context, note.UNID) mail.Recalled { return mail.RecalledNone }

func (mates) Delivered(context.Context, note.DatabaseID, note.UNID, []byte) (bool, error) {
	return false, nil
}

func (w *world) person(name string) {
	w.t.Helper()
	db, err := w.files.Make(bg, note.UNID{}, name, 0, 0)
	w.ok(err)
	p, err := w.dir.People.Add(bg, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
		FullName: []string{name + " Example"}, ShortName: name, MailDatabase: db}})
	w.ok(err)
	w.ok(w.store.SetInfo(note.System, db, func(i *layout.Info) {
		i.Owner = p.ID
		i.ACL = i.ACL.With(note.Entry{ID: p.ID, Level: note.Manager})
	}))
	w.people[name] = p
	w.ok(w.file(name).Ensure(bg, ""))
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) who(name string) note.Who {
	w.t.Helper()
	who, err := w.dir.Names.WhoOf(bg, w.people[name].ID)
	w.ok(err)
	return who
}

func (w *world) file(name string) *groupware.File {
	return w.group.File(w.who(name), w.people[name].MailDatabase)
}

func (w *world) target(name, entry string) *Target {
	return &Target{File: w.file(name), Owner: w.people[name].ID,
		Place: groupware.Place{Collection: groupware.DefaultCalendar, Name: entry}}
}

// meeting prints an event of alice with attendees: names here, or addresses, with parameters before a colon.
func meeting(uid, more string, attendees ...string) string {
	s := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:" + uid +
		"\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260105T090000Z\r\nDTEND:20260105T100000Z\r\nSUMMARY:Meeting\r\n" +
		"ORGANIZER:mailto:alice@example.com\r\n"
	for _, a := range attendees {
		param, name, ok := strings.Cut(a, ":")
		if !ok {
			param, name = "", a
		}
		if !strings.Contains(name, "@") {
			name += "@example.com"
		}
		s += "ATTENDEE" + param + ":mailto:" + name + "\r\n"
	}
	return s + strings.ReplaceAll(more, "\n", "\r\n") + "END:VEVENT\r\nEND:VCALENDAR\r\n"
}

func (w *world) put(name, entry, text string) Written {
	w.t.Helper()
	e, err := w.sched.Put(bg, w.target(name, entry), []byte(text))
	w.ok(err)
	return e
}

// object returns the event of a person with a UID, nil for none, and its entry.
func (w *world) object(name, uid string) (*calendar.Object, groupware.Placed) {
	w.t.Helper()
	list, err := w.file(name).ByUID(bg, uid)
	w.ok(err)
	if len(list) == 0 {
		return nil, groupware.Placed{}
	}
	if len(list) > 1 {
		w.t.Fatalf("%s has %s %d times", name, uid, len(list))
	}
	o, err := calendar.ReadObject(list[0].Text)
	w.ok(err)
	return o, list[0]
}

// status returns the answer of an attendee as a person sees it.
func (w *world) status(name, uid, attendee string) string {
	w.t.Helper()
	o, _ := w.object(name, uid)
	if o == nil {
		return "nothing"
	}
	return itip.Status(o, w.sched.people.is(bg, w.people[attendee].ID))
}

func (w *world) is(got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("got %q, want %q", got, want)
	}
}

// answer lets an attendee set their status, as a calendar program does.
func (w *world) answer(name, uid, status string) {
	w.t.Helper()
	_, e := w.object(name, uid)
	t := w.target(name, e.Place.Name)
	t.Condition.ETag = e.ETag
	_, err := w.sched.Put(bg, t, []byte(withStatus(string(e.Text), name, status)))
	w.ok(err)
}

// withStatus sets PARTSTAT of the attendee name.
func withStatus(text, name, status string) string {
	text = strings.ReplaceAll(text, "\r\n ", "")
	lines := strings.Split(text, "\r\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "ATTENDEE") && strings.Contains(l, ":mailto:"+name+"@") {
			lines[i] = "ATTENDEE;PARTSTAT=" + status + ":mailto:" + name + "@example.com"
		}
	}
	return strings.Join(lines, "\r\n")
}

// queued returns the mails in mail.box.
func (w *world) queued() (list []string) {
	w.t.Helper()
	entries, _, err := w.mail.Queue.List(bg, 0, "")
	w.ok(err)
	for i := range entries {
		raw, err := w.mail.Queue.Message(bg, w.mail.Queue.Boxes.KeyOf(&entries[i]), 0)
		w.ok(err)
		list = append(list, string(raw))
	}
	return list
}

// arrive delivers a mail. proven says that its author is verified.
func (w *world) arrive(from, to, method, text string, proven bool) {
	w.t.Helper()
	path, err := smtp.ParsePath(from)
	w.ok(err)
	rcpt, err := smtp.ParsePath(to)
	w.ok(err)
	target, err := w.dir.Names.Resolve(bg, to)
	w.ok(err)
	raw := "From: <" + from + ">\r\nTo: <" + to + ">\r\nSubject: x\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: text/calendar; charset=utf-8; method=" + method + "\r\n\r\n" +
		strings.Replace(text, "VERSION:2.0", "VERSION:2.0\r\nMETHOD:"+method, 1)
	results := make([]error, 1)
	_, err = w.mail.Deposits.Deposit(bg, &mail.Submission{From: path, Recipients: []mail.Recipient{{To: rcpt,
		Target: target}}, Message: []byte(raw), Proven: proven, Checked: true,
		Received: &mail.Received{Helo: "far.example", Protocol: "ESMTP"}}, results)
	w.ok(err)
	w.ok(results[0])
}

func (w *world) tick() { w.fix.Time.Advance(10 * time.Second) }

// lead makes this server the home of a database.
func (w *world) lead(db note.DatabaseID) {
	w.t.Helper()
	w.ok(w.store.Lead(bg, db, store.LeadOptions{}))
}
