package lite

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/note"
)

func TestFeedsPage(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putEvent("alice", "one", "SUMMARY:Breakfast", "DTSTART:20260310T080000Z", "DURATION:PT1H")
	b := w.signed("alice")
	b.get(pathCalendar)
	b.follow("Links and feeds")
	b.want(200, "Make this link")
	b.send("Make this link", nil, "do", "full")
	b.want(200, "Saved", "End this link")
	link := regexp.MustCompile(`href="http://localhost(/feeds/[^"]+)"`).FindStringSubmatch(b.page)
	if link == nil {
		t.Fatal(b.page)
	}
	publisher := w.lite.opt.Feeds
	f, err := publisher.Open(bg, strings.TrimPrefix(link[1], feed.Path))
	w.ok(err)
	if text, err := f.Text(bg); err != nil || !strings.Contains(string(text), "Breakfast") {
		t.Error(string(text), err)
	}
	b.send("End this link", nil, "do", "nofull")
	b.lacks("End this link")
	if _, err := publisher.Open(bg, strings.TrimPrefix(link[1], feed.Path)); err == nil {
		t.Error("the link lives on")
	}
	b.send("address", nil, "address", "http://inner.example/", "do", "subscribe")
	b.want(400, "public Internet", "http://inner.example/")
	b.send("address", nil, "address", "webcal://far.example/x.ics", "do", "subscribe")
	b.want(200, "The server reads the feed soon", "https://far.example/x.ics", "not yet")
	b.send("Read again", nil, "do", "again")
	b.want(200, "Saved")
	b.send("Read again", nil, "do", "delete")
	b.want(200)
	b.lacks("far.example")
	_, values := b.form("full")
	b.post(pathFeeds, url.Values{"csrf": values["csrf"], "c": values["c"], "do": {"delete"}}, nil)
	b.want(400) // it shows no feed
	// Readers of a calendar see and make no links.
	w.ok(w.calendarOf("alice").Change(bg, func(c *groupware.Changing) error {
		return c.Share(groupware.Calendar, groupware.DefaultCalendar,
			map[note.UNID]note.Rights{w.people["bob"].ID: note.Lookup | note.Read})
	}))
	db := w.people["alice"].MailDatabase.String()
	bob := w.signed("bob")
	bob.get(pathFeeds + "?b=" + db)
	bob.want(200)
	bob.lacks("Make this link", "Subscribe to a feed")
	_, own := bob.form("sign-out")
	bob.post(pathFeeds, url.Values{"csrf": own["csrf"], "b": {db}, "c": values["c"], "do": {"full"}}, nil)
	bob.want(403)
	bob.get(pathFeeds)
	_, own = bob.form("sign-out")
	bob.post(pathFeeds, url.Values{"csrf": own["csrf"], "b": {db}, "address": {"https://far.example/"},
		"do": {"subscribe"}}, nil)
	bob.want(403)
}
