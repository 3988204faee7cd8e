package mail

import (
	"fmt"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/mail/outbound/sink"
	"doublet/note"
)

func (w *world) pending(n int) []Post {
	w.t.Helper()
	list, err := w.Moderation.Pending(bg, note.UNID{})
	w.ok(err)
	if len(list) != n {
		w.t.Fatalf("%d messages wait for moderators, want %d: %+v", len(list), n, list)
	}
	return list
}

// TestForgedModerator checks that a moderator's address in From has no effect unless it is authenticated.
func TestForgedModerator(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.reader("alice"), w.person("bob")
	w.mailingList(func(f *directory.GroupFields) {
		f.List.Moderators, f.List.Post = []string{"bob", "eve@far.example"}, directory.PostModerators
	}, "alice")
	w.ok(w.post(nil)) // from eve, without any verification
	w.pending(1)
	// A local person resends a moderator's message, which does not authenticate its author.
	const bobs = "From: bob@example.com\r\nTo: chess@example.com\r\nSubject: x\r\n\r\nx\r\n"
	sub := w.from("bob@example.com", "alice@example.com")
	sub.Message = []byte(bobs)
	w.deposit(sub)
	who, err := w.people.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	w.ok(w.post(func(s *Submission) {
		s.From, s.Submitter = path("alice@example.com"), &Submitter{Who: who, Address: "alice@example.com"}
		s.Message = []byte("Resent-From: alice@example.com\r\n" + bobs)
	}))
	w.pending(2)
	w.route()
	w.has(alice, 1)
	w.ok(w.post(func(s *Submission) { s.Proven = true }))
	w.route()
	w.has(alice, 2)
	w.has(bob, 2) // two requests to the moderator
}

// TestForwardToList checks that mail cannot bypass a list's moderators by way of a person who forwards to the list, or
// of a member of another list.
func TestForwardToList(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	w.mailingList(nil, "alice")
	w.set(bob, func(f *directory.PersonFields) { f.Forward, f.ForwardOnly = []string{"chess@example.com"}, true })
	w.deposit(w.from("eve@far.example", "bob@example.com"))
	w.route()
	w.has(alice, 0)
	w.has(bob, 0)
	if p := w.pending(1)[0]; p.Author != "eve@far.example" {
		t.Errorf("%+v", p)
	}
	// If the list rejects the message, the person keeps it.
	sub := w.from("eve@far.example", "bob@example.com")
	sub.Message = []byte("Auto-Submitted: auto-replied\r\n" + plain)
	w.deposit(sub)
	w.route()
	w.has(bob, 1)
	// The owners' address is not an address of the members.
	w.set(carol, func(f *directory.PersonFields) {
		f.Forward, f.ForwardOnly = []string{"chess-owner@example.com"}, true
	})
	w.deposit(w.from("eve@far.example", "carol@example.com"))
	w.route()
	w.has(alice, 0)
	w.has(carol, 1)
	_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{
		Name: "Go", InternetAddress: "go@example.com", Members: []string{"bob"},
		List: directory.ListFields{On: true, Post: directory.PostAnyone},
	})
	w.ok(err)
	w.deposit(w.from("eve@far.example", "go@example.com"))
	w.route()
	w.has(alice, 0)
	w.has(bob, 2) // nothing else is accepted
}

// TestListHeldByFilter checks that a message that a filter held does not reach a list's members when it is released.
func TestListHeldByFilter(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.mailingList(func(f *directory.GroupFields) { f.List.Post = directory.PostAnyone }, "alice")
	w.ok(w.post(func(s *Submission) { s.Hold = "virus" }))
	if p := w.pending(1)[0]; p.Reason != "a filter holds it: virus" {
		t.Errorf("%+v", p)
	}
	w.route()
	w.has(alice, 0)
}

// TestJunkStaysHere checks that this server does not send junk to the remote members of a group.
func TestJunkStaysHere(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	for name, members := range map[string][]string{"team": {"alice", "zoe@far.example"}, "far": {"zoe@far.example"}} {
		_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: name,
			InternetAddress: name + "@example.com", Members: members})
		w.ok(err)
	}
	w.mailingList(func(f *directory.GroupFields) { f.List.Owners = []string{"zoe@far.example"} }, "alice")
	sub := w.from("eve@bad.example", "team@example.com")
	sub.Junk = true
	w.deposit(sub)
	w.route()
	if n := w.in(alice, "Junk"); n != 1 {
		t.Errorf("%d in Junk", n)
	}
	for _, to := range []string{"far@example.com", "chess-owner@example.com"} {
		sub = w.from("eve@bad.example", to)
		sub.Junk = true
		if _, err := w.Deposits.Deposit(bg, sub, nil); replyCode(err) != "550 5.7.1" {
			t.Errorf("%s: %v", to, err)
		}
	}
	w.queue(0)
}

// TestStrangersLeaveAsOurs checks that mail from outside to remote group members is sent with a local sender, so that
// it passes SPF.
func TestStrangersLeaveAsOurs(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{})
	_, err := f.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Team",
		InternetAddress: "team@example.com", Members: []string{"b@far.example"}})
	f.ok(err)
	f.deposit(f.from("eve@bad.example", "team@example.com"))
	f.flush()
	got := f.sink.Messages()
	if len(got) != 1 {
		t.Fatal(len(got))
	}
	from, _, _ := strings.Cut(strings.TrimPrefix(got[0].From, "<"), ">")
	if back, ok := f.Deposits.srs.ReverseSRS(from); !ok || back.String() != "eve@bad.example" {
		t.Errorf("%s leads back to %s", from, back)
	}
}

// TestRewriteKeepsReplyTo checks that the author's Reply-To field stays if the list replaces From.
func TestRewriteKeepsReplyTo(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.mailingList(func(f *directory.GroupFields) { f.List.Rewrite, f.List.Post = "always", directory.PostAnyone },
		"alice")
	w.ok(w.post(func(s *Submission) { s.Message = []byte("Reply-To: answers@far.example\r\n" + toList) }))
	w.route()
	h := header(w.has(alice, 1)[0])
	if !strings.Contains(h, "\r\nReply-To: answers@far.example\r\n") || strings.Count(h, "Reply-To:") != 1 {
		t.Errorf("%s", h)
	}
}

// TestVacationReferences checks that a notice does not return a References field of any length.
func TestVacationReferences(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.set(alice, func(f *directory.PersonFields) { f.Vacation = directory.Vacation{On: true, Text: "Away."} })
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Message = []byte("References: " + strings.Repeat("<a@b>\r\n ", 10_000) + "<c@d>\r\n" + plain)
	w.deposit(sub)
	if m := w.raw(w.queue(1)[0]); len(m) > 2000 || !strings.Contains(m, "References: <1@far.example>") {
		t.Errorf("%d bytes: %.300s", len(m), m)
	}
}

// TestForwardsAreBounded checks that a large message to many people who forward their mail is composed only once more,
// not once for each of them.
func TestForwardsAreBounded(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	var to []string
	for i := range 40 {
		p := w.person(fmt.Sprintf("p%d", i))
		w.set(p, func(f *directory.PersonFields) { f.Forward = []string{fmt.Sprintf("x%d@far.example", i/2)} })
		to = append(to, p.InternetAddress)
	}
	sub := w.from("eve@far.example", to...)
	sub.Message = []byte(plain + strings.Repeat(strings.Repeat("x", 74)+"\r\n", 1<<20/76))
	w.deposit(sub)
	e := w.queue(1)[0]
	if m := w.raw(e); len(e.Recipients) != 20 || strings.Contains(m[:2000], "Delivered-To") ||
		!strings.HasPrefix(e.From.Local, "SRS0=") {
		t.Errorf("%d recipients, %.200s", len(e.Recipients), m)
	}
}
