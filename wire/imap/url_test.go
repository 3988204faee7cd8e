package imap

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// urlCase pairs a URL with its parsed form; nil: it is rejected.
type urlCase struct {
	text string
	want *URL
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	item := func(s Section) FetchItem { return FetchItem{Kind: ItemBodySection, Peek: true, Section: s} }
	partial := item(Section{Part: []uint32{1, 2}, Text: TextMIME})
	partial.HasPartial, partial.Offset, partial.Size = true, 0, 1024
	rest := item(Section{})
	rest.HasPartial, rest.Offset, rest.Size = true, 5, 1<<32-1
	const rump = "imap://joe@example.com/INBOX/;uid=20/;section=1.2;expire=2006-01-02T15:04:05Z;urlauth=submit+fred"
	for _, c := range []urlCase{
		{"/Drafts;UIDVALIDITY=385759045/;UID=20/;section=HEADER",
			&URL{Mailbox: "Drafts", UIDValidity: 385759045, UID: 20, Item: item(Section{Text: TextHeader})}},
		{"/;UID=20", &URL{UID: 20, Item: item(Section{})}},
		{";uid=20/;section=", &URL{UID: 20, Item: item(Section{})}},
		{"/inbox/a%20b/%C3%A9/;UID=4/;PARTIAL=5", &URL{Mailbox: "INBOX/a b/é", UID: 4, Item: rest}},
		{"imap://a%40b;AUTH=*@Mail.example:143/x/;UID=4/;SECTION=1.2.MIME/;PARTIAL=0.1024",
			&URL{User: "a@b", Host: "mail.example:143", Mailbox: "x", UID: 4, Item: partial}},
		{"/x/;UID=4/;SECTION=HEADER.FIELDS%20(A%20B)", &URL{Mailbox: "x", UID: 4,
			Item: item(Section{Text: TextHeaderFields, Fields: []string{"A", "B"}})}},
		{rump, &URL{User: "joe", Host: "example.com", Mailbox: "INBOX", UID: 20,
			Item: item(Section{Part: []uint32{1, 2}}), Access: "submit", AccessUser: "fred",
			Expire: time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC)}},
		{rump + ":internal:91354a", &URL{User: "joe", Host: "example.com", Mailbox: "INBOX", UID: 20,
			Item: item(Section{Part: []uint32{1, 2}}), Access: "submit", AccessUser: "fred",
			Expire: time.Date(2006, 1, 2, 15, 4, 5, 0, time.UTC), Mechanism: "INTERNAL", Token: "91354a", Rump: rump}},
		{"imap://joe@example.com/INBOX/;uid=20;urlauth=anonymous", &URL{User: "joe", Host: "example.com",
			Mailbox: "INBOX", UID: 20, Item: item(Section{}), Access: "anonymous"}},
	} {
		got, err := ParseURL(c.text)
		if c.want.Rump == "" {
			c.want.Rump = c.text
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", c.text, err, got, c.want)
		}
	}
	for _, text := range []string{
		"", "/", "/INBOX", "INBOX/;UID=1", "/INBOX/;UID=0", "/INBOX/;UID=x", "/INBOX/;UID=1/;SECTION=x",
		"/INBOX/;UID=1/;SECTION=1]<0.1>", "/INBOX/;UID=1/;PARTIAL=x",
		"/INBOX/;UID=1/;PARTIAL=1.0", "/INBOX/;UID=1;EXPIRE=tomorrow", "/INBOX/;UID=1;EXPIRE=2006-01-02T15:04:05Z",
		"/INBOX/;UID=1;OTHER=1", "/INBOX/;UID=1/;UID=2",
		"/INBOX/;UID=1/;UIDVALIDITY=4", "imap://host", "imap:///INBOX/;UID=1", "imap://@host/INBOX/;UID=1",
		"http://host/INBOX/;UID=1", "/%zz/;UID=1", "/%00/;UID=1", "/a b/;UID=1",
		"/\xff/;UID=1", "/%ff/;UID=1", "/INBOX/;UID=1;URLAUTH=anonymous", "imap://a@b/I/;UID=1;URLAUTH=nobody",
		"imap://a@b/I/;UID=1;URLAUTH=user", "imap://a@b/I/;UID=1;URLAUTH=user+",
		"imap://a@b/I/;UID=1;URLAUTH=authuser+x", "imap://a@b/I/;UID=1;URLAUTH=authuser:internal",
		"imap://a@b/I/;UID=1;URLAUTH=authuser:internal:", "imap://a@b/I/;UID=1;URLAUTH=authuser::x",
		"/INBOX/;UID=1/;SECTION=" + strings.Repeat("1.", maxURL) + "1", "/INBOX/;UID=4294967296",
	} {
		if u, err := ParseURL(text); err == nil {
			t.Errorf("%.80q: %+v", text, u)
		}
	}
}

func TestURLVerbs(t *testing.T) {
	runVerbs(t, []verbCase{
		{`GENURLAUTH "imap://x/a/;uid=1;urlauth=anonymous" internal imap://x/b x-other`,
			&GenURLAuth{[]Rump{{"imap://x/a/;uid=1;urlauth=anonymous", "INTERNAL"}, {"imap://x/b", "X-OTHER"}}}},
		{`URLFETCH imap://a {2}` + "\r\nbc", &URLFetch{[]URLFetchItem{{URL: "imap://a"}, {URL: "bc"}}}},
		{`URLFETCH (a) (b binary bodypartstructure) (c BODY) d`, &URLFetch{[]URLFetchItem{{URL: "a", Extended: true},
			{URL: "b", Extended: true, Binary: true, BodyPartStructure: true}, {URL: "c", Extended: true, Body: true},
			{URL: "d"}}}},
		{"RESETKEY", &ResetKey{}}, {"RESETKEY ", &ResetKey{}}, {"RESETKEY inbox", &ResetKey{Mailbox: "INBOX"}},
		{"RESETKEY a internal x", &ResetKey{"a", []string{"INTERNAL", "X"}}},
	})
}

func TestBadURLVerbs(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"GENURLAUTH", "GENURLAUTH a", "GENURLAUTH a b c", "URLFETCH", "URLFETCH ()",
		"URLFETCH (a b)", "URLFETCH (a BODY BINARY)", `RESETKEY ""`, "RESETKEY a (b)"} {
		if cmd, err := ParseCommand("a "+text, &testLimits, false); err == nil {
			t.Errorf("%q: %+v", text, cmd.Args)
		}
	}
}

// FuzzURL checks that a URL's meaning does not depend on its token, and that the rump is a prefix.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"/Drafts;UIDVALIDITY=385759045/;UID=20/;section=HEADER.FIELDS%20(A)/;PARTIAL=1.2",
		";UID=1",
		"imap://joe;AUTH=x@example.com/INBOX/;uid=20/;section=1.2;expire=2006-01-02T15:04:05Z;" +
			"urlauth=submit+fred:internal:91354a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		u, err := ParseURL(s)
		if err != nil {
			return
		}
		if u.UID == 0 || !strings.HasPrefix(s, u.Rump) || (u.Token == "") != (u.Rump == s) {
			t.Fatalf("%q: %+v", s, u)
		}
		again, err := ParseURL(u.Rump)
		if err != nil {
			t.Fatalf("%q: its rump is no URL: %v", s, err)
		}
		again.Mechanism, again.Token = u.Mechanism, u.Token
		if !reflect.DeepEqual(again, u) {
			t.Fatalf("%q:\n%+v\n%+v", s, u, again)
		}
	})
}
