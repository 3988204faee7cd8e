package mail

import (
	"doublet/mail/queue"
	"net/url"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/smtp"
)

func (w *world) mailingList(change func(*directory.GroupFields), members ...string) directory.Group {
	w.t.Helper()
	f := directory.GroupFields{Name: "Chess Club", InternetAddress: "chess@example.com", Members: members,
		List: directory.ListFields{On: true}}
	if change != nil {
		change(&f)
	}
	g, err := w.people.Groups.Add(bg, note.System, f)
	w.ok(err)
	return g
}

const toList = "Received: from x by y; Mon, 5 Jan 2026 08:00:00 +0000\r\n" +
	"From: Eve =?utf-8?Q?M=C3=BCller?= <eve@far.example>\r\nTo: chess@example.com\r\n" +
	"Subject: =?utf-8?Q?Z=C3=BCge?=\r\nMessage-ID: <1@far.example>\r\nList-Post: <mailto:evil@far.example>\r\n" +
	"Disposition-Notification-To: eve@far.example\r\n\r\nHello.\r\n"

func (w *world) post(change func(*Submission)) error {
	w.t.Helper()
	sub := w.from("eve@far.example", "chess@example.com")
	sub.Message = []byte(toList)
	if change != nil {
		change(sub)
	}
	_, err := w.Deposits.Deposit(bg, sub, nil)
	return err
}

// header returns the header of a message, unfolded.
func header(m string) string {
	h, _, _ := strings.Cut(m, "\r\n\r\n")
	return strings.NewReplacer("\r\n\t", " ", "\r\n ", " ").Replace(h) + "\r\n"
}

func TestListCopies(t *testing.T) {
	t.Parallel()
	w := open(t, Options{URL: "https://mail.example.com/"})
	alice, bob := w.person("alice"), w.person("bob")
	w.set(bob, func(f *directory.PersonFields) { f.Forward, f.ForwardOnly = []string{"bob@else.example"}, true })
	g := w.mailingList(func(f *directory.GroupFields) { f.List.Tag = "chess" }, "alice", "bob", "eve@far.example",
		"zoe@far.example")
	w.ok(w.post(nil))
	w.route()
	m := w.has(alice, 1)[0]
	h := header(m)
	for _, want := range []string{
		"Return-Path: <chess-bounces@example.com>\r\n", "From: Eve =?utf-8?Q?M=C3=BCller?= <eve@far.example>\r\n",
		"\r\nSubject: [chess] =?utf-8?Q?Z=C3=BCge?=\r\n",
		"List-Id: \"Chess Club\" <chess.example.com>\r\n", "List-Post: <mailto:chess@example.com>\r\n",
		"List-Help: <mailto:chess-help@example.com>\r\n",
		"List-Unsubscribe: <mailto:chess-unsubscribe@example.com>\r\n", "Precedence: list\r\n",
		"Message-ID: <1@far.example>\r\n", "Received: from far.example",
	} {
		if !strings.Contains(h, want) {
			t.Errorf("no %q in\n%s", want, h)
		}
	}
	if strings.Contains(h, "Disposition-") || strings.Contains(h, "evil") || strings.Contains(h, "Unsubscribe-Post") ||
		!strings.HasSuffix(m, "\r\n\r\nHello.\r\n") {
		t.Errorf("%s", m)
	}
	w.has(bob, 0)
	// Remote members get individual copies with their own links.
	to := map[string]queue.Entry{}
	for _, e := range w.queue(3) {
		to[e.Recipients[0].Address] = e
	}
	zoe := header(w.raw(to["zoe@far.example"]))
	if !strings.HasPrefix(zoe, "Return-Path: <chess-bounces+zoe=far.example@example.com>\r\n") ||
		!strings.Contains(zoe, "List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n") {
		t.Errorf("%s", zoe)
	}
	if b := header(w.raw(to["bob@else.example"])); strings.Contains(b, "https://") {
		t.Errorf("a link for who is no member by that address:\n%s", b)
	}
	_, link, _ := strings.Cut(zoe, "List-Unsubscribe: <https://mail.example.com/list/unsubscribe?")
	link, _, _ = strings.Cut(link, ">")
	v, err := url.ParseQuery(link)
	w.ok(err)
	if got, address, err := w.Lists.Membership(bg, v); err != nil || got.ID != g.ID || address != "zoe@far.example" {
		t.Error(got.Name, address, err)
	}
	v.Set("a", "ZXZlQGZhci5leGFtcGxl") // eve's
	if _, _, err := w.Lists.Unsubscribe(bg, v); err != ErrBadLink {
		t.Error("another's link:", err)
	}
	v, _ = url.ParseQuery(link)
	if _, _, err := w.Lists.Unsubscribe(bg, v); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Lists.Unsubscribe(bg, v); err != ErrNotMember {
		t.Error(err)
	}
	if got, err := w.people.Groups.Get(bg, g.ID); err != nil || len(got.Members) != 3 {
		t.Error(got.Members, err)
	}
}

func TestListRewrite(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		policy, rewrite, replyTo string
		from, reply              string
	}{
		{"none", "", "", "From: Eve =?utf-8?Q?M=C3=BCller?= <eve@far.example>", ""},
		{"reject", "", "", "From: =?utf-8?B?RXZlIE3DvGxsZXIgdmlhIENoZXNzIENsdWI=?= <chess@example.com>",
			"Reply-To: <eve@far.example>"},
		{"quarantine", "", "list", "From: =?utf-8?B?RXZlIE3DvGxsZXIgdmlhIENoZXNzIENsdWI=?= <chess@example.com>",
			"Reply-To: <chess@example.com>"},
		{"reject", "never", "", "From: Eve =?utf-8?Q?M=C3=BCller?= <eve@far.example>", ""},
		{"", "always", "", "From: =?utf-8?B?RXZlIE3DvGxsZXIgdmlhIENoZXNzIENsdWI=?= <chess@example.com>",
			"Reply-To: <eve@far.example>"},
	} {
		w := open(t, Options{})
		alice := w.person("alice")
		w.mailingList(func(f *directory.GroupFields) { f.List.Rewrite, f.List.ReplyTo = x.rewrite, x.replyTo }, "alice",
			"eve@far.example")
		w.ok(w.post(func(s *Submission) { s.AuthorPolicy = x.policy }))
		w.route()
		h := header(w.has(alice, 1)[0])
		if strings.Count(h, "\r\nFrom:")+strings.Count(h[:5], "From:") != 1 || !strings.Contains(h, x.from+"\r\n") ||
			x.reply == "" && strings.Contains(h, "Reply-To") || !strings.Contains(h, x.reply) {
			t.Errorf("%+v:\n%s", x, h)
		}
	}
}

func TestListLoops(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.mailingList(func(f *directory.GroupFields) { f.List.Post = directory.PostAnyone }, "alice")
	for _, x := range []struct {
		want   string
		change func(*Submission)
	}{
		{"554 5.4.6", func(s *Submission) { s.Message = []byte("List-Id: Chess <CHESS.example.com>\r\n" + toList) }},
		{"550 5.7.1", func(s *Submission) { s.From = smtp.Path{} }},
		{"550 5.7.1", func(s *Submission) {
			s.Message = []byte("Auto-Submitted: auto-replied (vacation)\r\n" + toList)
		}},
	} {
		if err := w.post(x.change); replyCode(err) != x.want {
			t.Errorf("%v, want %s", err, x.want)
		}
	}
	w.route()
	w.has(alice, 0)
	w.queue(0)
	// A person and a list with this person as a member, as recipients of one message: the list's copy is a separate
	// message.
	sub := w.from("eve@far.example", "chess@example.com", "alice@example.com", "CHESS@example.com")
	w.deposit(sub)
	w.route()
	w.has(alice, 2)
}

func TestModeration(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.mailingList(func(f *directory.GroupFields) {
		f.List.Moderators, f.List.Owners = []string{"bob"}, []string{"alice"}
	}, "alice", "zoe@far.example")
	hold := func(change func(*Submission)) Post {
		t.Helper()
		w.ok(w.post(change))
		w.route()
		list, err := w.Moderation.Pending(bg, note.UNID{})
		w.ok(err)
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		w.has(alice, 0)
		return list[0]
	}
	p := hold(nil)
	if p.Reason != "its author is no member" || p.Author != "eve@far.example" || p.Subject != "Züge" ||
		p.List != "Chess Club" {
		t.Errorf("%+v", p)
	}
	if m := w.has(bob, 1)[0]; !strings.Contains(m, "doublet list approve "+p.ID.String()) ||
		!strings.Contains(m, "Auto-Submitted: auto-generated") {
		t.Errorf("%s", m)
	}
	// Releasing a held message does not replace the moderators' approval.
	if err := w.Moderation.Release(bg, p.ID); err != ErrModerated {
		t.Error(err)
	}
	w.ok(w.Moderation.Reject(bg, p.ID, "Off topic."))
	if m := w.raw(w.queue(1)[0]); !strings.Contains(m, "To: <eve@far.example>") || !strings.Contains(m, "Off topic.") {
		t.Errorf("%s", m)
	}
	w.ok(w.Drop(bg, w.queueAll()[0].ID))
	// After approval the message is sent, once.
	p = hold(nil)
	w.ok(w.Moderation.Approve(bg, p.ID))
	if err := w.Moderation.Approve(bg, p.ID); err == nil {
		t.Error("approved twice")
	}
	w.route()
	w.has(alice, 1)
	if e := w.queue(1)[0]; e.Recipients[0].Address != "zoe@far.example" ||
		e.From.String() != "chess-bounces@example.com" {
		t.Errorf("%+v", e)
	}
	w.ok(w.Drop(bg, w.queueAll()[0].ID))
	// Other reasons for moderation.
	for want, change := range map[string]func(*Submission){
		"it looks like junk": func(s *Submission) { s.Junk = true },
		"a program sent it": func(s *Submission) {
			s.Message = []byte("Auto-Submitted: auto-generated\r\n" + toList)
		},
		"its sender may be forged": func(s *Submission) {
			s.Message = []byte(strings.Replace(toList, "eve@", "zoe@", 1))
			s.Unproven = true
		},
		"its author is not proven": func(s *Submission) {
			s.Message = []byte(strings.Replace(toList, "eve@", "zoe@", 1))
			s.Checked = true
		},
		"its author is no member": func(s *Submission) {
			s.Message = []byte(strings.Replace(toList, "eve@far", "alice@", 1))
		},
	} {
		w.ok(w.post(change))
		list, err := w.Moderation.Pending(bg, note.UNID{})
		w.ok(err)
		if len(list) != 1 || list[0].Reason != want {
			t.Errorf("%s: %+v", want, list)
		} else {
			w.ok(w.Moderation.Reject(bg, list[0].ID, ""))
		}
	}
	// Members and moderators may post at once; local ones must be authenticated.
	for _, change := range []func(*Submission){
		func(s *Submission) { s.Message = []byte(strings.Replace(toList, "eve@", "zoe@", 1)) },
		func(s *Submission) {
			s.Message, s.Checked, s.Proven = []byte(strings.Replace(toList, "eve@", "zoe@", 1)), true, true
		},
		func(s *Submission) {
			s.Message, s.Proven = []byte(strings.Replace(toList, "eve@far.example", "alice@example.com", 1)), true
		},
		func(s *Submission) {
			s.Message, s.Submitter = []byte(strings.Replace(toList, "eve@far.example", "bob@example.com", 1)),
				&Submitter{Who: note.Who{Person: bob.ID}, Address: "bob@example.com"}
		},
	} {
		w.ok(w.post(change))
		if list, err := w.Moderation.Pending(bg, note.UNID{}); err != nil || len(list) != 0 {
			t.Errorf("held: %+v %v", list, err)
		}
	}
}

// Delivery problems of a list's mail are reported to its owners. Others cannot learn the members.
func TestListAddresses(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob",
		func(s *directory.PersonSpec) { s.Roles = []string{directory.RoleAdmin} })
	g := w.mailingList(func(f *directory.GroupFields) { f.List.Owners = []string{"alice"} }, "alice", "zoe@far.example")
	w.deposit(w.from("", "chess-bounces+zoe=far.example@example.com"))
	w.deposit(w.from("eve@far.example", "Chess-Owner@example.com"))
	w.has(alice, 2)
	_, err := w.people.Groups.Set(bg, note.System, g.ID,
		func(f *directory.GroupFields) error { f.List.Owners = nil; return nil })
	w.ok(err)
	w.deposit(w.from("eve@far.example", "chess-owner@example.com"))
	w.has(bob, 1)
	if _, err := w.people.Names.Resolve(bg, "chess-nonsense@example.com"); err == nil {
		t.Error("a word that means nothing is an address")
	}
	// Unsubscribing by mail requires a confirmation.
	ask := func(author, to string) error {
		sub := w.from(author, to)
		sub.Message = []byte(strings.Replace(toList, "eve@far.example", author, 1))
		_, err := w.Deposits.Deposit(bg, sub, nil)
		return err
	}
	w.ok(ask("eve@far.example", "chess-unsubscribe@example.com"))
	w.queue(0)
	w.ok(ask("zoe@far.example", "chess-unsubscribe@example.com"))
	m := header(w.raw(w.queue(1)[0]))
	_, confirm, _ := strings.Cut(m, "From: \"Chess Club\" <")
	confirm, _, _ = strings.Cut(confirm, ">")
	if err := ask("eve@far.example", confirm); replyCode(err) != "550 5.1.1" {
		t.Error("somebody else's confirmation:", err)
	}
	w.fix.Time.Advance(6 * 24 * time.Hour)
	w.ok(ask("zoe@far.example", confirm))
	if got, err := w.people.Groups.Get(bg, g.ID); err != nil || len(got.Members) != 1 {
		t.Error(got.Members, err)
	}
	w.fix.Time.Advance(6 * 24 * time.Hour)
	if err := ask("zoe@far.example", confirm); replyCode(err) != "550 5.1.1" {
		t.Error("a late confirmation:", err)
	}
}
