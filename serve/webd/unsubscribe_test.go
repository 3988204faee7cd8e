package webd

import (
	"context"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
)

// A GET of the link changes nothing. Only POST ends the membership, and a second one does no harm.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	var err error
	s.Mailbox = mailbox.New(s.Store, s.Env, mailbox.Options{})
	if s.Mail, err = mail.Open(s.Store, s.Env, s.Directory, s.Mailbox,
		mail.Options{URL: "https://mail.example.com"}); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	g, err := s.Directory.Groups.Add(ctx, note.System, directory.GroupFields{
		Name: "Chess <b>", InternetAddress: "chess@example.com",
		Members: []string{"zoe@far.example", "eve@far.example"}, List: directory.ListFields{On: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	link, err := url.Parse(s.Mail.Lists.UnsubscribeLink(g.ID, "zoe@far.example"))
	if err != nil || link.Host != "mail.example.com" {
		t.Fatal(link, err)
	}
	members := func() []string {
		g, err := s.Directory.Groups.Get(ctx, g.ID)
		if err != nil {
			t.Fatal(err)
		}
		return g.Members
	}
	page := get(w, link.RequestURI())
	ownStyle(t, page)
	if text := page.Body.String(); page.Code != 200 || !strings.Contains(text, `<form method="post">`) ||
		!strings.Contains(text, "Chess &lt;b&gt;") ||
		!strings.Contains(page.Header().Get("Content-Security-Policy"), "form-action 'self'") || len(members()) != 2 {
		t.Errorf("%d %s", page.Code, text)
	}
	post := func(uri string) *httptest.ResponseRecorder {
		r := httptest.NewRecorder()
		req := httptest.NewRequest("POST", uri, strings.NewReader("List-Unsubscribe=One-Click"))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w.ServeHTTP(r, req)
		return r
	}
	q := link.Query()
	q.Set("a", "ZXZlQGZhci5leGFtcGxl")
	for _, bad := range []string{"/list/unsubscribe", "/list/unsubscribe?" + q.Encode(),
		"/list/unsubscribe?l=x&a=%00&s=zz"} {
		if r := post(bad); r.Code != 403 || len(members()) != 2 {
			t.Errorf("%s: %d", bad, r.Code)
		}
	}
	if r := post(link.RequestURI()); r.Code != 200 || !slices.Equal(members(), []string{"eve@far.example"}) {
		t.Errorf("%d %v", r.Code, members())
	}
	if r := post(link.RequestURI()); r.Code != 200 || !strings.Contains(r.Body.String(), "nothing left") {
		t.Errorf("again: %d %s", r.Code, r.Body)
	}
}
