package groupware

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/calendar"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
)

// world is a store with a mail file and its owner.
type world struct {
	t     *testing.T
	fix   *env.Fixture
	s     *store.Store
	svc   *Service
	db    note.DatabaseID
	owner note.Who
	other note.Who
}

func newWorld(t *testing.T, quota uint64) *world {
	w := &world{t: t, fix: env.TestRealTime(t), owner: note.Who{Person: note.UNID{1}},
		other: note.Who{Person: note.UNID{2}}}
	w.open()
	t.Cleanup(func() {
		rep, err := check.Run(context.Background(), w.s, check.Options{Deep: true})
		w.must(err)
		for _, x := range rep.Findings {
			t.Error(x)
		}
		w.must(w.s.Close())
	})
	var err error
	w.db, err = mailbox.New(w.s, w.fix.Env, mailbox.Options{}).Make(context.Background(), w.owner.Person, "mail",
		quota, 0)
	w.must(err)
	w.must(w.file().Ensure(context.Background(), "Europe/Berlin"))
	return w
}

func (w *world) open() {
	var err error
	w.s, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		CacheSize: 1 << 20, LogSyncInterval: 20 * time.Microsecond, Indexes: Indexes()})
	w.must(err)
	w.svc = New(w.s, w.fix.Env, Options{})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) file() *File { return w.svc.File(w.owner, w.db) }

func event(uid, start, more string) []byte {
	return []byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:" + uid +
		"\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:" + start + "\r\nDURATION:PT1H\r\nSUMMARY:" + uid + "\r\n" +
		more + "END:VEVENT\r\nEND:VCALENDAR\r\n")
}

func card(uid, name string) []byte {
	return []byte("BEGIN:VCARD\r\nVERSION:3.0\r\nUID:" + uid + "\r\nFN:" + name + "\r\nEND:VCARD\r\n")
}

func (w *world) put(name string, text []byte) Entry {
	w.t.Helper()
	e, _, err := w.file().Put(context.Background(), Calendar, DefaultCalendar, name, text, Condition{})
	w.must(err)
	return e
}

func (w *world) changes(f *File, token string, limit int) (changed, removed []string, next string, err error) {
	c, err := f.Changes(context.Background(), Calendar, DefaultCalendar, token, limit)
	for _, e := range c.Changed {
		changed = append(changed, e.Name)
	}
	return changed, c.Removed, c.Token, err
}

func equal(t *testing.T, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Fatalf("got %s, want %s", g, w)
	}
}

func TestEntries(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	f := w.file()
	a := w.put("a.ics", event("a", "20260105T090000Z", ""))
	got, err := f.Entry(ctx, Calendar, DefaultCalendar, "a.ics")
	w.must(err)
	equal(t, string(got.Text), string(event("a", "20260105T090000Z", "")))
	equal(t, got.ETag, a.ETag)
	equal(t, got.Size, len(got.Text))

	_, _, err = f.Put(ctx, Calendar, DefaultCalendar, "a.ics", event("a", "20260105T100000Z", ""), Condition{New: true})
	equal(t, errors.Is(err, ErrChanged), true)
	_, _, err = f.Put(ctx, Calendar, DefaultCalendar, "a.ics", event("a", "20260105T100000Z", ""),
		Condition{ETag: "1-0"})
	equal(t, errors.Is(err, ErrChanged), true)
	b, created, err := f.Put(ctx, Calendar, DefaultCalendar, "a.ics", event("a", "20260105T100000Z", ""),
		Condition{ETag: a.ETag})
	w.must(err)
	equal(t, created, false)
	equal(t, a.ETag == b.ETag, false)

	var conflict *UIDConflictError
	_, _, err = f.Put(ctx, Calendar, DefaultCalendar, "b.ics", event("a", "20260105T100000Z", ""), Condition{})
	equal(t, errors.As(err, &conflict), true)
	equal(t, conflict.Name, "a.ics")
	for text, want := range map[string]error{
		"":                                     ErrInvalid,
		string(card("x", "y")):                 ErrInvalid,
		strings.Repeat("x", 11<<20):            ErrTooLarge,
		"BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n": ErrInvalid,
		strings.ReplaceAll(string(event("t", "20260105T090000Z", "")), "VEVENT", "VTODO"): ErrComponent,
	} {
		_, _, err := f.Put(ctx, Calendar, DefaultCalendar, "c.ics", []byte(text), Condition{})
		if !errors.Is(err, want) {
			t.Errorf("%.40q: %v, want %v", text, err, want)
		}
	}
	_, _, err = f.Put(ctx, AddressBook, DefaultContacts, "p.vcf", card("p", "Petra"), Condition{})
	w.must(err)

	replaced, err := f.Move(ctx, Calendar, Place{DefaultCalendar, "a.ics"}, Place{DefaultCalendar, "z.ics"},
		Condition{},
		Condition{})
	w.must(err)
	equal(t, replaced, false)
	w.must(f.Remove(ctx, Calendar, DefaultCalendar, "z.ics", Condition{}))
	_, err = f.Entry(ctx, Calendar, DefaultCalendar, "z.ics")
	equal(t, errors.Is(err, ErrNoEntry), true)
	list, err := f.Removed(ctx)
	w.must(err)
	equal(t, len(list), 1) // not a.ics, which was moved
	w.must(f.Change(ctx, func(c *Changing) error { return c.Restore(list[0].UNID, Calendar, DefaultCalendar) }))
	got, err = f.Entry(ctx, Calendar, DefaultCalendar, "z.ics")
	w.must(err)
	equal(t, got.UID, "a")
}

// TestHold checks that a hold of the mail file keeps what is removed from calendars until it ends.
func TestHold(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	box := mailbox.New(w.s, w.fix.Env, mailbox.Options{})
	w.put("a.ics", event("a", "20260105T090000Z", ""))
	w.must(w.file().Remove(ctx, Calendar, DefaultCalendar, "a.ics", Condition{}))
	for _, on := range []bool{true, false} {
		w.must(box.Hold(ctx, w.db, on))
		n, err := w.svc.Purge(ctx, w.db, w.fix.Env.Clock.Now().Add(time.Hour))
		w.must(err)
		equal(t, n, map[bool]int{false: 1}[on])
		list, err := w.file().Removed(ctx)
		w.must(err)
		equal(t, len(list), 1-n)
	}
}

// TestLarge keeps the text of a large entry apart from its note, and counts it.
func TestLarge(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 200_000)
	text := event("a", "20260105T090000Z", "ATTACH;ENCODING=BASE64;VALUE=BINARY:"+strings.Repeat("QUJD", 25_000)+"\r\n")
	w.put("a.ics", text)
	got, err := w.file().Entry(ctx, Calendar, DefaultCalendar, "a.ics")
	w.must(err)
	equal(t, string(got.Text) == string(text), true)
	_, _, err = w.file().Put(ctx, Calendar, DefaultCalendar, "b.ics",
		[]byte(strings.Replace(string(text), "UID:a", "UID:b", 1)), Condition{})
	equal(t, errors.Is(err, mailbox.ErrOverQuota), true)
	w.put("a.ics", event("a", "20260105T090000Z", ""))
	w.put("b.ics", event("b", "20260105T090000Z", ""))
	w.must(w.s.Close())
	w.open()
	got, err = w.file().Entry(ctx, Calendar, DefaultCalendar, "b.ics")
	w.must(err)
	equal(t, got.UID, "b")
}

// TestHidden shows that mail does not see the collections.
func TestHidden(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	w.put("a.ics", event("a", "20260105T090000Z", ""))
	f := mailbox.New(w.s, w.fix.Env, mailbox.Options{}).File(w.owner, w.db)
	list, err := f.Folders(ctx)
	w.must(err)
	for _, x := range list {
		if strings.HasPrefix(x.Name, mailbox.Hidden) {
			t.Errorf("folder %q is listed", x.Name)
		}
	}
}

// TestAccess shows to each person the entries that the access list grants, and no private ones.
func TestAccess(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	w.put("open.ics", event("open", "20260105T090000Z", ""))
	w.put("secret.ics", event("secret", "20260105T110000Z", "CLASS:CONFIDENTIAL\r\n"))
	theirs := w.svc.File(w.other, w.db)
	_, err := theirs.Entry(ctx, Calendar, DefaultCalendar, "open.ics")
	equal(t, errors.Is(err, ErrNoCollection), true)
	list, err := theirs.Collections(ctx, Calendar)
	w.must(err)
	equal(t, len(list), 0)

	acl := note.ACL{Default: note.NoAccess}.With(note.Entry{ID: w.owner.Person, Level: note.Manager}).
		With(note.Entry{ID: w.other.Person, Level: note.Reader})
	w.must(w.file().Change(ctx, func(c *Changing) error { return c.SetACL(Calendar, DefaultCalendar, &acl) }))
	var names []string
	w.must(theirs.Entries(ctx, Calendar, DefaultCalendar, Select{}, func(e *Entry) bool {
		names = append(names, e.Name)
		return true
	}))
	equal(t, names, []string{"open.ics"})
	_, err = theirs.Entry(ctx, Calendar, DefaultCalendar, "secret.ics")
	equal(t, errors.Is(err, ErrNoEntry), true)
	changed, _, _, err := w.changes(theirs, "", 0)
	w.must(err)
	equal(t, changed, []string{"open.ics"})
	names = nil
	w.must(theirs.Between(ctx, DefaultCalendar, Range{}, false, func(e *Entry) bool {
		names = append(names, e.Name)
		return true
	}))
	equal(t, names, []string{"open.ics"})
	_, _, err = theirs.Put(ctx, Calendar, DefaultCalendar, "x.ics", event("x", "20260105T090000Z", ""), Condition{})
	equal(t, errors.Is(err, store.ErrDenied), true)
	equal(t, errors.Is(theirs.Remove(ctx, Calendar, DefaultCalendar, "open.ics", Condition{}), store.ErrDenied), true)
	equal(t, errors.Is(theirs.Change(ctx, func(c *Changing) error {
		return c.Create(Calendar, "new", Properties{})
	}), store.ErrDenied), true)
}

// TestPrivateName refuses to others the name and the UID of an entry that they may not see.
func TestPrivateName(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	before := w.put("secret.ics", event("secret", "20260105T110000Z", "CLASS:PRIVATE\r\n"))
	acl := note.ACL{Default: note.NoAccess}.With(note.Entry{ID: w.owner.Person, Level: note.Manager}).
		With(note.Entry{ID: w.other.Person, Level: note.Editor})
	w.must(w.file().Change(ctx, func(c *Changing) error { return c.SetACL(Calendar, DefaultCalendar, &acl) }))
	theirs := w.svc.File(w.other, w.db)
	for _, uid := range []string{"other", "secret"} {
		for _, name := range []string{"secret.ics", "other.ics"} {
			if uid == "other" && name == "other.ics" {
				continue
			}
			_, _, err := theirs.Put(ctx, Calendar, DefaultCalendar, name, event(uid, "20260105T090000Z", ""),
				Condition{})
			if !errors.Is(err, store.ErrDenied) {
				t.Errorf("%s in %s: %v", uid, name, err)
			}
		}
	}
	got, err := w.file().Entry(ctx, Calendar, DefaultCalendar, "secret.ics")
	w.must(err)
	equal(t, got.ETag, before.ETag)
}

// TestMoveFreesRoom shows that a moved entry counts once towards the quota.
func TestMoveFreesRoom(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	f := w.file()
	w.must(f.Change(ctx, func(c *Changing) error { return c.Create(Calendar, "other", Properties{}) }))
	w.put("a.ics", event("a", "20260105T090000Z", "DESCRIPTION:"+strings.Repeat("x", 20_000)+"\r\n"))
	size := func() (n uint64) {
		w.must(f.read(ctx, func(d *reading) error { n = d.r.Counters().Size; return nil }))
		return n
	}
	before := size()
	_, err := f.Move(ctx, Calendar, Place{DefaultCalendar, "a.ics"}, Place{"other", "a.ics"}, Condition{}, Condition{})
	w.must(err)
	if after := size(); after > before+1000 {
		t.Errorf("%d bytes before, %d after", before, after)
	}
}

// TestAgendas bounds the agendas in memory, and counts each as long as it is kept.
func TestAgendas(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	w.svc = New(w.s, w.fix.Env, Options{AgendaMemory: 3 * timedSize})
	svc := mailbox.New(w.s, w.fix.Env, mailbox.Options{})
	for i := range byte(6) {
		who := note.Who{Person: note.UNID{10 + i}}
		db, err := svc.Make(ctx, who.Person, "mail", 0, 0)
		w.must(err)
		f := w.svc.File(who, db)
		w.must(f.Ensure(ctx, ""))
		_, _, err = f.Put(ctx, Calendar, DefaultCalendar, "a.ics", event("a", "20260105T090000Z", ""), Condition{})
		w.must(err)
		n := 0
		w.must(f.Between(ctx, DefaultCalendar, Range{}, false, func(*Entry) bool { n++; return true }))
		equal(t, n, 1)
	}
	x := &w.svc.agendas
	sum := int64(0)
	for _, a := range x.by {
		sum += a.used
	}
	if sum != x.used || x.used > x.most {
		t.Errorf("%d bytes counted, %d kept, at most %d", x.used, sum, x.most)
	}
	// One that is dropped while it is read is not counted again.
	x.weigh(w.db, &agenda{}, 5*timedSize)
	equal(t, x.used, sum)
}

// TestBusy merges the busy times of a mail file, private ones too, for those who may see them.
func TestBusy(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	at := func(day, hour int) time.Time { return time.Date(2026, 1, day, hour, 0, 0, 0, time.UTC) }
	w.put("a.ics", event("a", "20260105T090000Z", "RRULE:FREQ=DAILY;COUNT=3\r\n"))
	w.put("b.ics", event("b", "20260106T100000Z", "CLASS:PRIVATE\r\n"))
	w.put("c.ics", event("c", "20260107T093000Z", "STATUS:TENTATIVE\r\n"))
	w.put("d.ics", event("d", "20260107T150000Z", "TRANSP:TRANSPARENT\r\n"))
	w.put("e.ics", event("e", "20260108T080000", "")) // on the clocks of Berlin
	theirs := w.svc.File(w.other, w.db)
	list, err := theirs.Busy(ctx, "", at(5, 0), at(9, 0))
	w.must(err)
	var got []string
	for _, p := range list {
		got = append(got, fmt.Sprintf("%s-%s %d", p.From.Format("02T15:04"), p.To.Format("15:04"), p.Busy))
	}
	equal(t, got, []string{"05T09:00-10:00 2", "06T09:00-11:00 2", "07T09:00-10:00 2", "07T10:00-10:30 1",
		"08T07:00-08:00 2"})
	w.must(w.file().Change(ctx, func(c *Changing) error {
		return c.SetProperties(Calendar, DefaultCalendar, Properties{BusyFor: NobodySees})
	}))
	if list, err = theirs.Busy(ctx, "", at(5, 0), at(9, 0)); !errors.Is(err, store.ErrDenied) || len(list) != 0 {
		t.Fatal(list, err)
	}
	if list, err = w.file().Busy(ctx, "", at(5, 0), at(9, 0)); err != nil || len(list) != 5 {
		t.Fatal(list, err)
	}
	list, err = w.svc.File(note.Who{}, w.db).Busy(ctx, "", at(5, 0), at(9, 0))
	if !errors.Is(err, store.ErrDenied) || len(list) != 0 {
		t.Fatal("nobody sees", list, err)
	}
}

// TestSync compares a client that synchronizes with the collection, over random changes, removals, moves, restarts,
// limits and purges.
func TestSync(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(12) {
		w := newWorld(t, 0)
		f := w.file()
		rng := rand.New(rand.NewPCG(seed, 1))
		known, token := map[string]string{}, ""
		have := map[string]string{}
		for i := range 120 {
			name := fmt.Sprintf("%c.ics", 'a'+rng.IntN(8))
			switch rng.IntN(8) {
			case 0, 1, 2, 3: // a UID is not used again: the entry that has it may have another name now
				e := w.put(name, event(fmt.Sprint(name, i), "20260105T090000Z", ""))
				have[name] = e.ETag
			case 4:
				if err := f.Remove(ctx, Calendar, DefaultCalendar, name, Condition{}); err == nil {
					delete(have, name)
				} else if have[name] != "" {
					t.Fatal(err)
				}
			case 5:
				to := fmt.Sprintf("%c.ics", 'a'+rng.IntN(8))
				if to == name || have[name] == "" {
					continue
				}
				_, err := f.Move(ctx, Calendar, Place{DefaultCalendar, name}, Place{DefaultCalendar, to}, Condition{},
					Condition{})
				w.must(err)
				e, err := f.Entry(ctx, Calendar, DefaultCalendar, to)
				w.must(err)
				delete(have, name)
				have[to] = e.ETag
			case 6:
				if rng.IntN(6) == 0 {
					_, err := w.svc.Purge(ctx, w.db, w.fix.Env.Clock.Now().Add(time.Hour))
					w.must(err)
				} else if rng.IntN(3) == 0 {
					w.must(w.s.Close())
					w.open()
					f = w.file()
				}
			case 7:
				limit := rng.IntN(3)
				c, err := f.Changes(ctx, Calendar, DefaultCalendar, token, limit)
				if errors.Is(err, ErrForgotten) {
					clear(known)
					c, err = f.Changes(ctx, Calendar, DefaultCalendar, "", 0)
				}
				w.must(err)
				for _, e := range c.Changed {
					known[e.Name] = e.ETag
				}
				for _, name := range c.Removed {
					delete(known, name)
				}
				if token = c.Token; !c.More {
					equal(t, known, have)
				}
			}
		}
		var agenda []string
		w.must(f.Between(ctx, DefaultCalendar, Range{}, false, func(e *Entry) bool {
			agenda = append(agenda, e.Name)
			return true
		}))
		slices.Sort(agenda)
		equal(t, len(agenda), len(have))
	}
}

func TestCollections(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 0)
	f := w.file()
	p := Properties{Title: "Team", Color: "#ff0000", Order: 3, TimeZone: "Asia/Tokyo",
		Components: []string{calendar.Event}, Extra: map[string]string{"{urn:x}y": "<z/>"}}
	w.must(f.Change(ctx, func(c *Changing) error { return c.Create(Calendar, "team", p) }))
	c, err := f.Collection(ctx, Calendar, "team")
	w.must(err)
	equal(t, c.Properties, p)
	err = f.Change(ctx, func(c *Changing) error { return c.Create(Calendar, "team", p) })
	equal(t, errors.Is(err, ErrExists), true)
	for _, name := range []string{"", "a/b", "..", "a\x00b", strings.Repeat("x", 300)} {
		err := f.Change(ctx, func(c *Changing) error { return c.Create(Calendar, name, p) })
		equal(t, errors.Is(err, ErrBadName), true)
	}
	_, _, err = f.Put(ctx, Calendar, "team", "a.ics", event("a", "20260105T090000Z", ""), Condition{})
	w.must(err)
	first, err := f.Changes(ctx, Calendar, "team", "", 0)
	w.must(err)
	w.must(f.Change(ctx, func(c *Changing) error { return c.Delete(Calendar, "team") }))
	_, err = f.Collection(ctx, Calendar, "team")
	equal(t, errors.Is(err, ErrNoCollection), true)
	w.must(f.Change(ctx, func(c *Changing) error { return c.Create(Calendar, "team", p) }))
	_, err = f.Changes(ctx, Calendar, "team", first.Token, 0)
	equal(t, errors.Is(err, ErrForgotten), true)
}
