package lite

import (
	"context"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/client/oneclick"
	"doublet/client/reach"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store/layout"
)

// snoozed returns the snoozed messages of a mail file and those with a reminder.
func (w *world) snoozed(name string) (list []mailbox.Snoozed) {
	w.t.Helper()
	w.ok(w.file(name).Read(bg, func(d *mailbox.Reading) (err error) {
		list, err = d.Snoozed()
		return err
	}))
	return list
}

// wordsOf returns the keywords of a message, and the names of its folders.
func (w *world) wordsOf(name, id string) (words, folders []string) {
	w.t.Helper()
	u, err := note.ParseUNID(id)
	w.ok(err)
	f := w.file(name)
	all, err := f.Folders(bg)
	w.ok(err)
	w.ok(f.Read(bg, func(d *mailbox.Reading) error {
		m, err := d.EmailOf(u)
		if err != nil {
			return err
		}
		words = slices.Collect(m.Keywords)
		for in := range m.Folders {
			for i := range all {
				if all[i].UNID == in {
					folders = append(folders, all[i].Name)
				}
			}
		}
		return nil
	}))
	return words, folders
}

// zoned chooses a time zone, in which the form's times are read.
func (b *browser) zoned(zone string) {
	b.w.t.Helper()
	b.get(pathSettings)
	b.send(`value="speech"`, nil, "lang", "en", "zone", zone, "do", "speech")
	b.want(200, "Saved")
}

func TestSnooze(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	id := w.put("alice", "INBOX", simple("Later please", "x"))
	w.put("alice", "INBOX", simple("Stays", "x"))
	b := w.signed("alice")
	b.zoned("Asia/Tokyo")
	b.get(Path)
	b.follow("Later please")
	b.want(200, "Snooze until", "Tomorrow, 08:00", "Next week")
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	w.ok(err)
	now := w.fix.Clock.Now().In(tokyo)
	at := func(tm time.Time) string { return tm.Format(localLayout) }
	for _, bad := range []string{"x", at(now.Add(-time.Minute)), at(now.AddDate(11, 0, 0)), "2026-13-40T99:00"} {
		b.send("snooze", nil, "at", bad, "do", "snooze")
		b.want(422, "Choose a time in the future.")
		b.get(pathRead + "?m=" + id)
	}
	if len(w.snoozed("alice")) != 0 {
		t.Error("a bad time changed something")
	}
	b.send("snooze", nil, "do", "snooze")
	b.want(200, "Snoozed until ", "Stays")
	b.lacks("<bdi>Later please")
	list := w.snoozed("alice")
	if len(list) != 1 || list[0].Reminder || list[0].Until.Before(now) ||
		!strings.Contains(b.page, list[0].Until.In(tokyo).Format("15:04 MST")) {
		t.Errorf("%+v", list)
	}

	// It can be taken back at once; and a time that was typed counts, in the user's zone.
	b.send(`value="undo"`, nil, "do", "undo")
	b.want(200, "<bdi>Later please")
	b.get(pathRead + "?m=" + id)
	b.lacks("comes back to the inbox")
	day := now.AddDate(0, 0, 3)
	typed := time.Date(day.Year(), day.Month(), day.Day(), 6, 30, 0, 0, tokyo)
	b.send("snooze", nil, "at", at(typed), "do", "snooze")
	b.want(200, "Snoozed until ", "06:30 JST")
	if list = w.snoozed("alice"); len(list) != 1 || !list[0].Until.Equal(typed) {
		t.Errorf("%+v, want %v", list, typed)
	}
	b.follow("Snoozed")
	b.want(200, "<bdi>Later please", "06:30 JST")
	b.follow("Later please")
	b.want(200, "This message comes back to the inbox on ", "06:30 JST")
	b.send("wake", nil, "do", "wake")
	b.want(200, "The message is in the inbox again.")
	if _, in := w.wordsOf("alice", id); !slices.Equal(in, []string{"INBOX"}) || len(w.snoozed("alice")) != 0 {
		t.Errorf("%q", in)
	}
}

func TestRemind(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	id := w.put("alice", "Sent", simple("Who answers", "x"))
	b := w.signed("alice")
	b.zoned("Europe/Berlin")
	b.get(pathRead + "?m=" + id)
	for _, bad := range []string{"", "0", "-4", "400", "x"} {
		b.send("remind", nil, "days", bad, "do", "remind")
		b.want(422, "Choose a time in the future.")
		b.get(pathRead + "?m=" + id)
	}
	b.send("remind", nil, "days", "7", "do", "remind")
	b.want(200, "You get a reminder on ", "08:00 CE", "<h1><bdi>Who answers")
	list := w.snoozed("alice")
	berlin, err := time.LoadLocation("Europe/Berlin")
	w.ok(err)
	now := w.fix.Clock.Now().In(berlin)
	want := time.Date(now.Year(), now.Month(), now.Day()+7, 8, 0, 0, 0, berlin)
	if len(list) != 1 || !list[0].Reminder || !list[0].Until.Equal(want) {
		t.Errorf("%+v, want %v", list, want)
	}
	b.send("unremind", nil, "do", "unremind")
	b.want(200, "The reminder is removed.")
	b.lacks("No reminder</button>")
	if len(w.snoozed("alice")) != 0 {
		t.Error("the reminder is still there")
	}
}

func TestPin(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	id := w.put("alice", "INBOX", simple("Old and dear", "x"))
	w.put("alice", "INBOX", simple("New", "x"))
	b := w.signed("alice")
	above := func(first, second string) {
		t.Helper()
		if i, k := strings.Index(b.page, "<bdi>"+first+"<"), strings.Index(b.page, "<bdi>"+second+"<"); i < 0 || i > k {
			t.Errorf("%s is not above %s\n%s", first, second, b.page)
		}
	}
	above("New", "Old and dear")
	b.follow("Old and dear")
	b.send("pin", nil, "do", "pin")
	b.want(200, "Unpin")
	b.get(Path)
	b.want(200, "Pinned")
	above("Old and dear", "New")
	b.get(pathRead + "?m=" + id)
	b.send("unpin", nil, "do", "unpin")
	b.get(Path)
	b.lacks("Pinned")
	above("New", "Old and dear")
}

func TestMute(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	one := w.put("alice", "INBOX", simple("Noise", "One"))
	two := w.put("alice", "INBOX", "From: Bob <bob@example.com>\nTo: alice@example.com\nSubject: Re: Noise\n"+
		"In-Reply-To: <Noise@far.example>\nReferences: <Noise@far.example>\nMessage-ID: <2@x>\n\nTwo\n")
	other := w.put("alice", "INBOX", simple("Music", "x"))
	b := w.signed("alice")
	b.follow("Re: Noise")
	b.send("mute", nil, "do", "mute")
	b.want(200, "Conversation muted", "<bdi>Music")
	b.lacks("Noise")
	for _, id := range []string{one, two} {
		words, in := w.wordsOf("alice", id)
		if !slices.Contains(words, mailbox.MutedKeyword) || !slices.Equal(in, []string{"Archive"}) {
			t.Errorf("%q %q", words, in)
		}
	}
	if words, _ := w.wordsOf("alice", other); slices.Contains(words, mailbox.MutedKeyword) {
		t.Error("another conversation is muted")
	}
	b.get(pathRead + "?m=" + one)
	b.want(200, "This conversation is muted")
	b.send("unmute", nil, "do", "unmute")
	b.want(200, "Conversation no longer muted.")
	b.lacks("This conversation is muted")
	if words, _ := w.wordsOf("alice", two); slices.Contains(words, mailbox.MutedKeyword) {
		t.Errorf("%q", words)
	}
}

func (w *world) blocked(name string) (list []string) {
	w.t.Helper()
	w.ok(w.file(name).Read(bg, func(d *mailbox.Reading) (err error) {
		list, err = d.BlockedSenders()
		return err
	}))
	return list
}

func TestBlock(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	id := w.put("alice", "INBOX", simple("Buy", "x"))
	w.put("alice", "INBOX", "From: Alice <alice@example.com>\nTo: alice@example.com\nSubject: Myself\n\nx\n")
	w.put("alice", "INBOX", "From: a@x.example, b@x.example\nTo: alice@example.com\nSubject: Both\n\nx\n")
	b := w.signed("alice")
	for _, subject := range []string{"Myself", "Both"} { // nobody to block
		b.get(Path)
		b.follow(subject)
		b.lacks(`value="block"`)
		b.send("mute", nil, "do", "block")
		b.want(400)
	}
	b.get(pathRead + "?m=" + id)
	b.send("block", nil, "do", "block")
	b.want(200, "Mail from eve@far.example goes to Junk from now on.", "Unblock eve@far.example")
	w.delivered("alice", simple("Buy more", "x"))
	b.get(Path)
	b.lacks("Buy more")
	b.get(pathSettings)
	b.want(200, "<bdi>eve@far.example</bdi>")
	for _, bad := range []string{"", "eve", "@", "<eve@x>"} {
		b.send(`name="sender"`, nil, "sender", bad, "do", "block")
		b.want(422, "is neither an address nor @ and a domain.")
	}
	b.send(`name="sender"`, nil, "sender", "@Spam.example ", "do", "block")
	b.want(200, "<bdi>@spam.example</bdi>")
	b.send(`name="sender"`, nil, "do", "unblock:eve@far.example")
	if got := w.blocked("alice"); !slices.Equal(got, []string{"@spam.example"}) {
		t.Errorf("%q", got)
	}
	b.send(`name="sender"`, nil, "sender", "@spam.example", "do", "unblock")
	b.want(200, "No sender is blocked.")
	w.delivered("alice", simple("Buy again", "x"))
	b.get(Path)
	b.want(200, "Buy again")

	// A page stays small, however many there are.
	many := make([]string, mailbox.MaxBlocked)
	for i := range many {
		many[i] = strings.Repeat("y", 200) + string(rune('a'+i%26)) + string(rune('a'+i/26)) + "@far.example"
	}
	_, err := w.file("alice").Change(bg, 1, func(c *mailbox.Changing, _ int) error { return c.SetBlockedSenders(many) })
	w.ok(err)
	b.get(pathSettings)
	b.want(200, "… and 982 more")
	b.get(pathRead + "?m=" + id)
	b.send("block", nil, "do", "block")
	b.want(409, "There is no room for more")
}

// TestAsideOfOthers checks that nothing of another person's mail file is put aside or blocked.
func TestAsideOfOthers(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	id := w.put("bob", "INBOX", simple("Of Bob", "x"))
	w.ok(w.store.SetInfo(note.System, w.people["bob"].MailDatabase, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: w.people["alice"].ID, Level: note.Editor})
	}))
	b := w.signed("alice")
	b.get(pathRead + "?b=" + w.people["bob"].MailDatabase.String() + "&m=" + id)
	b.want(200, "<h1><bdi>Of Bob", `value="pin"`)
	b.lacks(`value="snooze"`, `value="mute"`, `value="block"`)
	action, values := b.form(`value="pin"`)
	for _, do := range []string{"snooze", "remind", "wake", "unremind", "mute", "unmute", "block", "unblock", "leave"} {
		with := url.Values{}
		for k, v := range values {
			with[k] = v
		}
		with.Set("do", do)
		with.Set("days", "4")
		with.Set("at", w.fix.Clock.Now().AddDate(0, 0, 2).Format(localLayout))
		b.post(action, with, nil)
		b.want(400)
	}
	if len(w.snoozed("bob")) != 0 || len(w.blocked("bob")) != 0 || len(w.blocked("alice")) != 0 {
		t.Error("something changed")
	}
}

// noHosts resolves no host name.
type noHosts struct{}

func (noHosts) Addresses(context.Context, string) ([]netip.Addr, bool, error) { return nil, false, nil }

// TestLeaveList leaves lists by one request, where the message proves that its sender offers it.
func TestLeaveList(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	list := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, r.Method+" "+r.URL.Path+" "+string(body)+r.Header.Get("Cookie"))
		mu.Unlock()
		if r.URL.Path == "/gone" {
			w.WriteHeader(http.StatusGone)
		}
	}))
	t.Cleanup(list.Close)
	roots := x509.NewCertPool()
	roots.AddCert(list.Certificate())
	w := open(t, 0)
	real := env.Real(slog.New(slog.DiscardHandler))
	w.lite.opt.Lists = oneclick.New(reach.New(real, noHosts{},
		[]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), roots)
	w.lite.opt.Hostname = "mx.example.com"
	news := func(subject, result, urls string) string {
		return "Authentication-Results: mx.example.com; dkim=" + result + " header.d=list.example header.s=s1\n" +
			"DKIM-Signature: v=1; a=rsa-sha256; d=list.example; s=s1; c=relaxed/relaxed;\n" +
			" h=From:List-Unsubscribe:List-Unsubscribe-Post;\n" +
			" bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=YWJj\n" +
			"From: news@list.example\nSubject: " + subject + "\nList-Unsubscribe: " + urls + "\n" +
			"List-Unsubscribe-Post: List-Unsubscribe=One-Click\n\nNews\n"
	}
	host := strings.TrimPrefix(list.URL, "https://")
	good := w.put("alice", "INBOX", news("Good", "pass", "<mailto:off@list.example?subject=x>, <"+list.URL+"/left>"))
	gone := w.put("alice", "INBOX", news("Gone", "pass", "<"+list.URL+"/gone>"))
	fake := w.put("alice", "INBOX", news("Fake", "fail", "<"+list.URL+"/fake>, <mailto:off@list.example?subject=x>"))
	odd := w.put("alice", "INBOX", news("Odd", "fail", "<javascript:alert(1)>, <http://plain.example/>, <https://"))
	page := w.put("alice", "INBOX", news("Page", "fail", "<https://list.example/off?x=1&y=2>"))
	b := w.signed("alice")
	b.get(pathRead + "?m=" + good)
	b.want(200, "Leave this list ("+host+")", "gets a request that takes you off the list")
	b.send("leave", nil, "do", "leave")
	b.want(200, "You left the list. "+host+" accepted it.", "<h1><bdi>Good")
	b.get(pathRead + "?m=" + gone)
	b.send("leave", nil, "do", "leave")
	b.want(502, "The list was not left: its server did not accept the request.")
	b.get(pathRead + "?m=" + fake)
	b.lacks(`value="leave"`)
	b.want(200, `href="/lite/compose?mailto=mailto%3Aoff%40list.example%3Fsubject%3Dx">Leave this list`)
	b.send("mute", nil, "do", "leave")
	b.want(422, "the message does not prove that its sender offers it")
	b.get(pathRead + "?m=" + odd)
	b.lacks("Leave this list", "javascript:", "plain.example")
	b.get(pathRead + "?m=" + page)
	b.want(200, `<a href="https://list.example/off?x=1&amp;y=2" rel="noopener noreferrer">Leave this list`)
	mu.Lock()
	defer mu.Unlock()
	want := []string{"POST /left List-Unsubscribe=One-Click", "POST /gone List-Unsubscribe=One-Click"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
