package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"doublet/bench/workload"
)

// sitePeer is a web server with fixed answers: one for each method and path, "303 to" for a redirection. fields holds
// the last submitted form of each, by the same name.
type sitePeer struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]string
	asked   []string
	fields  map[string]map[string]string
}

func playSite(t *testing.T, answers map[string]string) (*sitePeer, *World) {
	t.Helper()
	p := &sitePeer{answers: answers, fields: map[string]map[string]string{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Server.Close)
	w, _ := against(t)
	w.Env.Dial = net.DialTimeout
	w.Target.Doors = map[string]string{"jmap": strings.TrimPrefix(p.URL, "http://")}
	return p, w
}

func (p *sitePeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.Method + " " + r.URL.Path
	got := map[string]string{}
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		for m := multipart.NewReader(r.Body, params["boundary"]); ; {
			part, err := m.NextPart()
			if err != nil {
				break
			}
			b, _ := io.ReadAll(part)
			got[part.FormName()] = string(b)
		}
	} else if r.ParseForm() == nil {
		for k, v := range r.PostForm {
			got[k] = strings.Join(v, " ")
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked, p.fields[name] = append(p.asked, r.Method+" "+r.URL.RequestURI()), got
	answer, ok := p.answers[name]
	switch to, moved := strings.CutPrefix(answer, "303 "); {
	case moved:
		http.SetCookie(w, &http.Cookie{Name: "doublet", Value: "c", Path: "/"})
		http.Redirect(w, r, to, http.StatusSeeOther)
	case !ok:
		http.NotFound(w, r)
	case strings.HasSuffix(r.URL.Path, ".css"):
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		_, _ = io.WriteString(w, answer)
	case r.URL.Path != liteSignIn && r.Header.Get("Cookie") != "doublet=c":
		http.Redirect(w, r, liteSignIn, http.StatusSeeOther)
	default:
		_, _ = io.WriteString(w, answer)
	}
}

func (p *sitePeer) says(name, answer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[name] = answer
}

func (p *sitePeer) got(name, field string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fields[name][field]
}

func litePage(content string) string {
	return `<!doctype html><html><head><link rel="stylesheet" href="/lite/style.css?1"></head><body><main ` +
		`id="content">` + content +
		`</main><nav><ul><li><a href="/lite/?f=in">Inbox</a></li></ul></nav></body></html>`
}

const (
	liteActs = `<input type="hidden" name="csrf" value="t"><button name="do" value="delete">D</button>
	<button name="do" value="flag">F</button>
 <select name="to"><option value="ju">Junk</option><option value="ar">Archive</option></select>
 <button name="do" value="move">M</button></form>`
	liteTwo = `<form method="post" action="/lite/act"><ul class="rows"><li class="unread">
	<input type="checkbox" name="m" value="m2"><a href="/lite/read?m=m2">two</a></li>
 <li><input type="checkbox" name="m" value="m1"><a href="/lite/read?m=m1">one</a></li></ul>
 <div class="pages"><a href="/lite/?p=2">next ›</a></div>` + liteActs
	liteOne = `<form method="post" action="/lite/act"><ul class="rows"><li><input type="checkbox" name="m" ` +
		`value="m2"><a href="/lite/read?m=m2">two</a></li></ul>` + liteActs
	liteMessage = `<article class="mail"><p class="bar"><a class="primary" href="/lite/compose?re=m2">Reply</a></p>
	<div class="body">words</div>
 <form method="post" action="/lite/act"><input type="hidden" name="m" value="m2">` + liteActs + `</article>`
	liteDone = `<div class="said">done</div>`
	liteForm = `<form method="post" action="/lite/compose" enctype="multipart/form-data">
	<input type="hidden" name="csrf" value="t"><button name="do" value="send">S</button>
 <input name="to" value=""><input name="subject"><input name="find"><button name="do" value="find">F</button>
 <textarea name="text">
> quoted</textarea><input type="file" name="upload"></form>`
	liteWho = `<form method="post" action="/lite/sign-in"><input type="hidden" name="to" value="/lite/"><input ` +
		`name="user"><input name="password" type="password"><input type="checkbox" name="keep"><button>` +
		`in</button></form>`
)

func liteSite() map[string]string {
	return map[string]string{
		"GET " + liteSignIn: litePage(liteWho), "POST " + liteSignIn: "303 /lite/", "GET /lite/": litePage(liteTwo),
		"GET /lite/read": litePage(liteMessage),
		"POST /lite/act": "303 /lite/?said=done", "GET /lite/compose": litePage(liteForm),
		"POST /lite/compose": "303 /lite/?said=messageSent", "GET /lite/style.css": "x { src: url(\"/a.woff2\") }",
		"GET /a.woff2": "font",
	}
}

// TestLiteSession checks the pages of a user in the lite mode, and the content of the forms.
func TestLiteSession(t *testing.T) {
	t.Parallel()
	p, w := playSite(t, liteSite())
	opened, traffic, err := w.Open(context.Background(), workload.WebLite, &w.Users[0])
	if err != nil || traffic.Sent == 0 || traffic.Received == 0 {
		t.Fatal(err, traffic)
	}
	s := opened.(*liteSession)
	defer s.Close()
	if p.got("POST "+liteSignIn, "user") != "u0" || p.got("POST "+liteSignIn, "to") != "/lite/" ||
		s.inbox != "/lite/?f=in" || !slices.Equal(s.known, []string{"m1", "m2"}) ||
		!slices.Equal(s.unread, []string{"m2"}) {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct {
		do    workload.Verb
		list  string // content of the list from here on
		asked string
	}{
		{workload.Open, liteTwo, "GET /lite/?f=in"}, {workload.Scroll, liteTwo, "GET /lite/?p=2"},
		{workload.Read, liteTwo, "GET /lite/read?m=m2"},
		{workload.Reply, liteDone + liteTwo,
			"GET /lite/compose?re=m2, POST /lite/compose, GET /lite/?said=messageSent"},
		{workload.Send, liteDone + liteTwo, "GET /lite/compose, POST /lite/compose, GET /lite/?said=messageSent"},
		{workload.Add, liteDone + liteTwo, "GET /lite/compose, POST /lite/compose, GET /lite/?said=messageSent"},
		{workload.Read, liteTwo, "GET /lite/read?m=m"}, {workload.Update, liteDone + liteTwo,
			"POST /lite/act, GET /lite/?said=done"}, {workload.Move, liteDone + liteOne,
			"POST /lite/act, GET /lite/?said=done"},
		{workload.Poll, liteOne, "GET /lite/?f=in"}, {workload.Delete, liteDone,
			"POST /lite/act, GET /lite/?said=done"}, {workload.Login, liteTwo,
			"GET " + liteSignIn + "?to=%2Flite%2F, POST /lite/sign-in, GET /lite/"},
	} {
		p.says("GET /lite/", litePage(c.list))
		p.asked = nil
		got, err := act(s, c.do)
		if asked := strings.Join(p.asked, ", "); err != nil || got.Sent == 0 || got.Received == 0 ||
			!strings.HasPrefix(asked, c.asked) {
			t.Errorf("%s: %v %+v, asked %s", c.do, err, got, asked)
		}
		switch c.do {
		case workload.Reply:
			if p.got("POST /lite/compose", "do") != "send" || p.got("POST /lite/compose", "csrf") != "t" ||
				p.got("POST /lite/compose", "to") != "u1@example.com, u2@example.com" ||
				!strings.HasPrefix(p.got("POST /lite/compose", "subject"), "Re: ") ||
				len(p.got("POST /lite/compose", "text")) != 100 {
				t.Errorf("%s", p.fields)
			}
		case workload.Move:
			if p.got("POST /lite/act", "do") != "move" || p.got("POST /lite/act", "to") != "ar" ||
				p.got("POST /lite/act", "m") == "" {
				t.Errorf("%s", p.fields)
			}
		}
	}
	w.Users[1].Known = "Bench u1"
	p.says("POST /lite/compose", litePage(`<ul class="found"><li>Bench u1 &lt;u1@example.com&gt;</li></ul>`+liteForm))
	if _, err := act(s, workload.Lookup); err != nil || p.got("POST /lite/compose", "find") != "Bench u1" ||
		p.got("POST /lite/compose", "do") != "find" {
		t.Error(err, p.fields)
	}
	// The other users of this driver find the sheet in the cache; a cold one does not.
	for cold, want := range map[bool]int{false: 0, true: 1} {
		p.says("GET /lite/", litePage(liteTwo))
		p.asked, w.Cold = nil, cold
		other, _, err := w.Open(context.Background(), workload.WebLite, &w.Users[1])
		if err != nil {
			t.Fatal(err)
		}
		_ = other.Close()
		if n := strings.Count(strings.Join(p.asked, "\n"), "style.css"); n != want {
			t.Errorf("cold %v: the sheet is asked for %d times", cold, n)
		}
	}
}

// TestWhatLiteServersDo checks that an unexpected page is an error and not an action, and that a user who was signed
// out signs in again.
func TestWhatLiteServersDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do         workload.Verb
		name, says string
		kind       string
		over       bool
	}{
		{workload.Open, "GET /lite/", litePage(strings.Repeat("x ", 16_000)), "a page over 30 KB", false},
		{workload.Reply, "GET /lite/compose",
			litePage(strings.Replace(liteForm, "quoted", strings.Repeat("quoted ", 10_000), 1)), "", false},
		{workload.Open, "GET /lite/", "303 /lite/sign-in", "signed out: ", true},
		{workload.Open, "GET /lite/", "<html>hello", "broken protocol", true},
		{workload.Open, "GET /lite/", litePage(`<div class="said bad">no way</div>`), "200 no way", false},
		{workload.Open, "GET /lite/", litePage(`<ul class="rows"><li>nothing</li></ul>`), "broken protocol", true},
		{workload.Read, "GET /lite/read", litePage(`<article class="mail"><div class="body"> </div></article>`),
			"a message without its text", false},
		{workload.Read, "GET /lite/read", litePage(`<h1>Doublet</h1>`), "a message without its text", false},
		{workload.Read, "GET /lite/read", "303 http://elsewhere.example/", "connection lost", true},
		{workload.Delete, "GET /lite/", litePage(liteDone + liteTwo), "what was taken away is listed still", false},
		{workload.Update, "POST /lite/act", "303 /lite/", "it does not say what it did", false},
		{workload.Send, "POST /lite/compose", litePage(liteForm), "a message that is not said to be sent", false},
		{workload.Send, "POST /lite/compose", "303 /lite/?said=draftSaved",
			"a message that is not said to be sent", false},
		{workload.Lookup, "POST /lite/compose", litePage(liteForm), "a look-up without an answer", false},
	} {
		p, w := playSite(t, liteSite())
		s, _, err := w.Open(context.Background(), workload.WebLite, &w.Users[0])
		if err != nil {
			t.Fatal(err)
		}
		p.says(c.name, c.says)
		if c.kind == "" {
			p.says("GET /lite/", litePage(liteDone+liteTwo))
		}
		if c.do == workload.Reply {
			_, _ = act(s, workload.Read)
		}
		_, err = act(s, c.do)
		var refused *Refusal
		if kind := Kind(err); kind != c.kind && !(c.kind == "signed out: " && strings.HasPrefix(kind, "signed out")) {
			t.Errorf("%s: %q, want %q: %v", c.do, kind, c.kind, err)
		} else if err != nil && errors.As(err, &refused) == c.over {
			t.Errorf("%s, %s: whether the session goes on: %v", c.do, c.kind, err)
		}
		_ = s.Close()
	}
	p, w := playSite(t, liteSite())
	p.says("POST "+liteSignIn, litePage(`<div class="said bad">wrong</div>`+liteWho))
	if _, _, err := w.Open(context.Background(), workload.WebLite, &w.Users[0]); !strings.Contains(fmt.Sprint(err),
		"signed out: wrong") {
		t.Error(err)
	}
}

// liteDay is a page of the calendar, with an invitation that waits.
const (
	liteDay = `<p class="bar"><a class="button" href="/lite/event?e=v1">an event</a> <a class="button primary" ` +
		`href="/lite/event?new=1">New</a></p>`
	liteWaits = `<form method="post" action="/lite/event"><input type="hidden" name="csrf" value="t">` +
		`<input type="hidden" name="e" value="v1"><input type="hidden" name="back" value="calendar">` +
		`<button name="do" value="accepted">A</button><button name="do" value="declined">D</button></form>`
	liteEventForm = `<form method="post" action="/lite/event"><input name="title"><input type="date" name="first">` +
		`<input type="time" name="from"><input type="date" name="last"><input type="time" name="to">` +
		`<textarea name="people"></textarea><textarea name="text"></textarea>` +
		`<button name="do" value="save">S</button></form>`
)

// TestLiteCalendar checks the forms of the calendar in the lite mode, and that an effect that the pages do not show is
// an error. Without a calendar there is nothing to do.
func TestLiteCalendar(t *testing.T) {
	t.Parallel()
	site := liteSite()
	site["GET /lite/calendar"] = litePage(liteDone + liteDay + liteWaits)
	site["GET /lite/event"] = litePage(liteEventForm)
	site["POST /lite/event"] = "303 /lite/calendar?said=done"
	p, w := playSite(t, site)
	opened, _, err := w.Open(context.Background(), workload.WebLite, &w.Users[0])
	if err != nil {
		t.Fatal(err)
	}
	s := opened.(*liteSession)
	if _, err := act(s, workload.Calendar); !errors.Is(err, ErrNothing) {
		t.Errorf("no page leads to a calendar: %v", err)
	}
	p.says("GET /lite/", strings.Replace(litePage(liteTwo), "</nav>", `<a href="/lite/calendar">Calendar</a></nav>`, 1))
	p.says("GET /lite/calendar", strings.Replace(p.answers["GET /lite/calendar"], "</nav>",
		`<a href="/lite/calendar">Calendar</a></nav>`, 1))
	for _, do := range []workload.Verb{workload.Open, workload.Calendar, workload.Appointment, workload.Invite} {
		if _, err := act(s, do); err != nil {
			t.Fatalf("%s: %v", do, err)
		}
		if do == workload.Appointment && p.got("POST /lite/event", "people") != "" {
			t.Error("an appointment with people")
		}
	}
	for field, want := range map[string]string{"do": "save", "title": "Meeting ", "people": "u1@example.com",
		"first": "20", "from": ":00", "to": ":00", "text": " "} {
		if got := p.got("POST /lite/event", field); !strings.Contains(got, want) {
			t.Errorf("%s: %q", field, got)
		}
	}
	if _, err := act(s, workload.RSVP); Kind(err) != "an invitation that was answered waits still" {
		t.Error(err)
	}
	if p.got("POST /lite/event", "do") != "accepted" || p.got("POST /lite/event", "e") != "v1" {
		t.Errorf("%v", p.fields["POST /lite/event"])
	}
	p.says("GET /lite/calendar", strings.Replace(p.answers["GET /lite/calendar"], liteDone+liteDay+liteWaits,
		liteDone+liteDay, 1))
	if _, err := act(s, workload.Calendar); err != nil {
		t.Error(err)
	}
	if _, err := act(s, workload.RSVP); !errors.Is(err, ErrNothing) {
		t.Errorf("nothing waits: %v", err)
	}
	p.says("POST /lite/event", "303 /lite/calendar")
	p.says("GET /lite/calendar", strings.Replace(p.answers["GET /lite/calendar"], liteDone, "", 1))
	if _, err := act(s, workload.Invite); Kind(err) != "the calendar does not say what it did" {
		t.Error(err)
	}
	if _, err := act(s, workload.Read); err != nil {
		t.Errorf("back to the mail: %v", err)
	}
}
