package calconn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/cluster"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/scheduling"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

var bg = context.Background()

// world is a server with the mail files of Anna and Bert, which answers, and a cluster in which it is the member {3}.
type world struct {
	t      testing.TB
	fix    *env.Fixture
	dir    *directory.Directory
	group  *groupware.Service
	desk   *Desk
	people map[string]directory.Person

	mu      sync.Mutex
	where   note.UNID         // the primary of all mail files
	holders []note.UNID       // of all mail files
	silent  *time.Time        // the last answer of the primary of all mail files, nil if it answers
	asked   []note.UNID       // the members that were asked
	answers map[note.UNID]any // func([]byte) ([]byte, error) by member; a member without one is silent
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t), people: map[string]directory.Person{}}
	tree := stat.New(w.fix.Clock)
	s, err := store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, FloorPercent: -1, Ballast: -1, Stats: tree,
		CacheSize: 8 << 20, MemTableSize: 4 << 20, Indexes: append(directory.Indexes(), groupware.Indexes()...)})
	w.ok(err)
	w.dir, err = directory.Open(s, w.fix.Env, password.New(w.fix.Env, 1, 10), directory.Options{Domain: "example.com"})
	w.ok(err)
	w.group = groupware.New(s, w.fix.Env, groupware.Options{})
	files := mailbox.New(s, w.fix.Env, mailbox.Options{})
	for _, name := range []string{"anna", "bert"} {
		db, err := files.Make(bg, note.UNID{}, name, 0, 0)
		w.ok(err)
		p, err := w.dir.People.Add(bg, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
			FullName: []string{name}, ShortName: name, MailDatabase: db}})
		w.ok(err)
		w.ok(s.SetInfo(note.System, db, func(i *layout.Info) {
			i.Owner = p.ID
			i.ACL = i.ACL.With(note.Entry{ID: p.ID, Level: note.Manager})
		}))
		w.people[name] = p
		w.ok(w.file(name).Ensure(bg, ""))
	}
	w.desk = NewDesk(w.dir, scheduling.New(w.fix.Env, w.dir, w.group, nil, scheduling.Options{Stats: tree,
		Elsewhere: w.connector()}), tree)
	w.answers = map[note.UNID]any{{3}: w.here}
	t.Cleanup(func() {
		w.dir.Close()
		w.ok(s.Close())
	})
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) file(name string) *groupware.File {
	w.t.Helper()
	who, err := w.dir.Names.WhoOf(bg, w.people[name].ID)
	w.ok(err)
	return w.group.File(who, w.people[name].MailDatabase)
}

// put puts an event of an hour into a person's calendar.
func (w *world) put(name string, at time.Time) {
	w.t.Helper()
	const form = "20060102T150405Z"
	_, _, err := w.file(name).Put(bg, groupware.Calendar, groupware.DefaultCalendar, at.Format(form), []byte(
		"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:"+at.Format(form)+
			"\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:"+at.Format(form)+"\r\nDTEND:"+at.Add(time.Hour).Format(form)+
			"\r\nSUMMARY:Secret\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"), groupware.Condition{})
	w.ok(err)
}

// here answers as this server does.
func (w *world) here(body []byte) ([]byte, error) { return w.desk.Answer(bg, body) }

// Where and Holders implement Node.
func (w *world) Where(context.Context, note.DatabaseID) (cluster.Place, error) {
	if w.where.IsZero() {
		return cluster.Place{}, cluster.ErrNoHome
	}
	return cluster.Place{Server: w.where, Name: "primary"}, nil
}

func (w *world) Holders(note.DatabaseID) []note.UNID { return w.holders }

// Silent implements Node.
func (w *world) Silent(note.DatabaseID) (time.Time, bool) {
	if w.silent == nil {
		return time.Time{}, false
	}
	return *w.silent, true
}

// mates is the bus of the server that asks.
type mates struct {
	bus.Bus
	w *world
}

func (m mates) Request(_ context.Context, to bus.ServerID, verbAsked string, body []byte) ([]byte, error) {
	m.w.mu.Lock()
	m.w.asked = append(m.w.asked, to)
	fn, _ := m.w.answers[to].(func([]byte) ([]byte, error))
	m.w.mu.Unlock()
	if fn == nil || verbAsked != verb {
		return nil, bus.ErrNoAnswer
	}
	return fn(body)
}

// connector returns that of a server which has no mail file.
func (w *world) connector() *Connector {
	return New(w.fix.Env, w.dir, Options{Cluster: func() (Node, bus.Bus) { return w, mates{w: w} },
		Own: func() *pki.Own { return nil }, Stats: stat.New(w.fix.Clock)})
}

// busy asks for the busy times of people in January 2026, as Anna.
func (w *world) busy(names ...string) string {
	w.t.Helper()
	var list []scheduling.Calendars
	for _, name := range names {
		list = append(list, scheduling.Calendars{File: w.people[name].MailDatabase})
	}
	var out []string
	for _, b := range w.connector().Busy(bg, w.people["anna"].ID, list, january, january.AddDate(0, 1, 0)) {
		var x []string
		for _, p := range b.Periods {
			x = append(x, p.From.Format("2.15:04")+"-"+p.To.Format("15:04"))
		}
		switch {
		case errors.Is(b.Err, store.ErrDenied):
			x = append(x, "denied")
		case errors.Is(b.Err, scheduling.ErrAway):
			x = append(x, "away")
		case b.Err != nil:
			w.t.Fatal(b.Err)
		}
		if b.Replica != nil {
			x = append(x, b.Replica.String())
		}
		out = append(out, strings.Join(x, " "))
	}
	return strings.Join(out, "; ")
}

var january = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// TestBusy checks that members of the cluster are asked in their order until one with the mail file answers, and that
// the access list of a calendar holds for the person who asks.
func TestBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("bert", january.Add(33*time.Hour))
	w.put("anna", january.Add(12*time.Hour))
	is := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	is(w.busy("bert"), "away")
	w.where, w.holders = note.UNID{3}, []note.UNID{{2}, {3}}
	is(w.busy("bert", "anna"), "2.09:00-10:00; 1.12:00-13:00")
	is(fmt.Sprint(len(w.asked)), "1") // one request for both

	w.where, w.asked = note.UNID{}, nil
	is(w.busy("bert"), "2.09:00-10:00")
	if len(w.asked) != 2 || w.asked[0] != (note.UNID{2}) {
		t.Errorf("asked were %v", w.asked)
	}
	for name, bad := range map[string]string{"no JSON": "{", "too few answers": "[]", "away": `[{"away":true}]`} {
		w.answers[note.UNID{2}] = func([]byte) ([]byte, error) { return []byte(bad), nil }
		if got := w.busy("bert"); got != "2.09:00-10:00" {
			t.Errorf("%s of the first member: %s", name, got)
		}
	}
	// A member that tells more than it was asked for changes nothing outside of that time.
	w.answers[note.UNID{2}] = func([]byte) ([]byte, error) {
		return json.Marshal([]answer{{Busy: []period{{0, 60, 2}, {january.Unix() + 60, -60, 2},
			{january.Unix(), 3600, 1}}}})
	}
	is(w.busy("bert"), "1.00:00-01:00")

	delete(w.answers, note.UNID{2})
	w.ok(w.file("bert").Change(bg, func(c *groupware.Changing) error {
		return c.SetProperties(groupware.Calendar, groupware.DefaultCalendar,
			groupware.Properties{BusyFor: groupware.NobodySees})
	}))
	is(w.busy("bert", "anna"), "denied; 1.12:00-13:00")
	w.holders = []note.UNID{{4}, {5}, {6}, {3}} // a person does not wait for a fourth
	is(w.busy("anna"), "away")
}

// TestReplica checks that an answer from a replica of another server tells that the server of the primary is away.
func TestReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("bert", january.Add(33*time.Hour))
	w.holders = []note.UNID{{3}}
	last := january.Add(14*time.Hour + 3*time.Minute)
	for want, since := range map[string]*time.Time{
		"2.09:00-10:00": nil,
		"2.09:00-10:00 As of 2026-01-01T14:03:00Z; the server of this calendar is away.": &last,
		"2.09:00-10:00 The server of this calendar does not answer.":                     {},
	} {
		w.silent = since
		if got := w.busy("bert"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	w.silent = &last
	w.ok(w.file("bert").Change(bg, func(c *groupware.Changing) error {
		return c.SetProperties(groupware.Calendar, groupware.DefaultCalendar,
			groupware.Properties{BusyFor: groupware.NobodySees})
	}))
	if got := w.busy("bert"); got != "denied" {
		t.Errorf("got %q", got)
	}
}

// TestAnswer checks that questions that cannot be read, or ask for too much, are refused, and that a person who was
// removed sees nothing.
func TestAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("bert", january.Add(33*time.Hour))
	good := question{Asker: w.people["anna"].ID.String(), Files: []string{w.people["bert"].MailDatabase.String()},
		From: january, To: january.AddDate(0, 1, 0)}
	ask := func(change func(*question)) (string, error) {
		q := good
		change(&q)
		body, err := json.Marshal(q)
		w.ok(err)
		out, err := w.desk.Answer(bg, body)
		return string(out), err
	}
	if got, err := ask(func(*question) {}); err != nil || got != `[{"busy":[[1767344400,3600,2]]}]` {
		t.Errorf("%s %v", got, err)
	}
	for name, change := range map[string]func(*question){
		"no asker":        func(q *question) { q.Asker = "" },
		"no database":     func(q *question) { q.Files = []string{"x"} },
		"too many":        func(q *question) { q.Files = make([]string, maxCalendars+1) },
		"too long":        func(q *question) { q.To = q.From.Add(maxRange + 1) },
		"ends before":     func(q *question) { q.To = q.From },
		"without a start": func(q *question) { q.From = time.Time{} },
	} {
		if got, err := ask(change); !errors.Is(err, replica.ErrFormat) {
			t.Errorf("%s: %s %v", name, got, err)
		}
	}
	if got, err := ask(func(q *question) { q.Files = []string{note.DatabaseID(99).String()} }); err != nil ||
		got != `[{"away":true}]` {
		t.Errorf("no mail file: %s %v", got, err)
	}
	if got, err := ask(func(q *question) { q.Asker = note.UNID{77}.String() }); err != nil ||
		got != `[{"denied":true}]` {
		t.Errorf("a stranger: %s %v", got, err)
	}
}

// FuzzAnswer checks that a question of any form gets an answer or a refusal.
func FuzzAnswer(f *testing.F) {
	w := newWorld(f)
	body, err := json.Marshal(question{Asker: w.people["anna"].ID.String(),
		Files: []string{w.people["bert"].MailDatabase.String()}, From: january, To: january.AddDate(0, 1, 0)})
	w.ok(err)
	f.Add(body)
	f.Add([]byte(`{"asker":"0","files":["0",""],"from":"2026-01-01T00:00:00Z","to":"9999-12-31T23:59:59Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := w.desk.Answer(bg, body)
		var list []answer
		if err == nil && json.Unmarshal(out, &list) != nil {
			t.Errorf("%q gets %q", body, out)
		}
	})
}
