package feedd

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/stat"
	"doublet/store"
)

func TestFeeds(t *testing.T) {
	t.Parallel()
	bg, fix := context.Background(), env.Test(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		CacheSize: 1 << 20, LogSyncInterval: 20 * time.Microsecond,
		Indexes: slices.Concat(directory.Indexes(), groupware.Indexes())})
	must(err)
	dir, err := directory.Open(s, fix.Env, password.New(fix.Env, 1, 10), directory.Options{Domain: "example.com"})
	must(err)
	t.Cleanup(func() { dir.Close(); must(s.Close()) })
	p, err := dir.People.Add(bg, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
		FullName: []string{"Ada"}, ShortName: "ada"}})
	must(err)
	db, err := mailbox.New(s, fix.Env, mailbox.Options{}).Make(bg, p.ID, "mail", 0, 0)
	must(err)
	svc := groupware.New(s, fix.Env, groupware.Options{})
	f := svc.File(note.Who{Person: p.ID}, db)
	must(f.Ensure(bg, ""))
	_, _, err = f.Put(bg, groupware.Calendar, groupware.DefaultCalendar, "a.ics", []byte("BEGIN:VCALENDAR\r\n"+
		"VERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:a\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260105T100000Z\r\n"+
		"SUMMARY:Tea\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"), groupware.Condition{})
	must(err)
	pub, yes, no := feed.NewPublisher(fix.Env, svc, dir, ""), true, false
	set := func(on *bool) {
		t.Helper()
		must(f.Change(bg, func(c *groupware.Changing) error {
			return pub.Set(c, groupware.DefaultCalendar, feed.Choice{Full: on})
		}))
	}
	set(&yes)
	c, err := f.Collection(bg, groupware.Calendar, groupware.DefaultCalendar)
	must(err)
	link := pub.Links(db, &c).Full
	memory := listen.NewBudget(256 << 20)
	door := New(fix.Env, pub, Options{Memory: memory, Stats: stat.New(fix.Clock)})
	ask := func(method, path, etag string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		return w
	}
	w := ask("GET", link, "")
	etag := w.Header().Get("ETag")
	if w.Code != 200 || !strings.Contains(w.Body.String(), "SUMMARY:Tea") || etag == "" ||
		w.Header().Get("Content-Type") != "text/calendar; charset=utf-8" || w.Header().Get("X-Robots-Tag") == "" {
		t.Fatal(w.Code, w.Header(), w.Body)
	}
	for _, x := range []struct {
		method, path, etag string
		want               int
	}{{"GET", link, etag, 304}, {"GET", link, `"x", W/` + etag, 304}, {"GET", link, "*", 304}, {"GET", link, `"x"`,
		200},
		{"HEAD", link, "", 200}, {"POST", link, "", 405}, {"PROPFIND", link, "", 405}, {"GET", feed.Path, "", 404},
		{"GET", link + "x", "", 404}, {"GET", feed.Path + "..%2f..%2fx.ics", "", 404}} {
		if w := ask(x.method, x.path, x.etag); w.Code != x.want || w.Code != 200 && strings.Contains(w.Body.String(),
			"Tea") {
			t.Errorf("%s %s: %d %s", x.method, x.path, w.Code, w.Body)
		}
	}
	if w := ask("HEAD", link, ""); w.Body.Len() > 0 {
		t.Error("HEAD has a body")
	}
	// Without memory the request is refused, and may be tried again.
	full := New(fix.Env, pub, Options{Memory: listen.NewBudget(1 << 20), Stats: stat.New(fix.Clock)})
	out := httptest.NewRecorder()
	full.ServeHTTP(out, httptest.NewRequest("GET", link, nil))
	if out.Code != 503 || out.Header().Get("Retry-After") == "" || out.Header().Get("ETag") != "" {
		t.Error(out.Code, out.Header())
	}
	missing := ask("GET", link[:len(link)-6]+"AA.ics", "").Body.String()
	set(&no)
	if w := ask("GET", link, etag); w.Code != 404 || w.Body.String() != missing {
		t.Error(w.Code, w.Body)
	}
	if memory.Used() != 0 {
		t.Error(memory.Used())
	}
}
