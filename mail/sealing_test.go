package mail

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/mail/outbound/sink"
	"doublet/mail/sign"
	"doublet/note"
	"doublet/wire/dkim"
)

const results = "Authentication-Results: mx.example.com;\r\n\tspf=pass smtp.mailfrom=far.example;\r\n" +
	"\tdkim=none; dmarc=pass header.from=far.example\r\n"

// seals returns a far whose domain has keys and seals.
func seals(t *testing.T) *far {
	t.Helper()
	f := openFar(t, Options{}, sink.Options{})
	s := sign.New(f.fix.Env, f.people, nil)
	f.opt.Signer, f.opt.Sealer = s, s.Sealer()
	f.Router.opt.Signer, f.Router.opt.Sealer = f.opt.Signer, f.opt.Sealer
	_, err := sign.Add(bg, f.people, note.System, "example.com", sign.RSA, "day", directory.KeyActive, f.clock.Now())
	f.ok(err)
	return f
}

// stranger returns a message from outside that was verified.
func (f *far) stranger(to ...string) *Submission {
	sub := f.from("eve@far.example", to...)
	sub.Fields, sub.Checked, sub.Proven, sub.Checker = []byte(results), true, true, "mx.example.com"
	return sub
}

// chain verifies the ARC chain of a sent message, and returns its length.
func (f *far) chain(raw string) int {
	f.t.Helper()
	m := dkim.New([]byte(raw))
	c := m.Chain()
	if c.Err == nil && c.Len() == 0 {
		return 0
	}
	keys, err := f.people.DKIMKeys.Of(bg, note.System, "example.com")
	f.ok(err)
	_, text, err := sign.Record(&keys[0])
	f.ok(err)
	k, err := dkim.ParseKey([]string{text})
	f.ok(err)
	f.ok(c.Err)
	err = m.Verify(c.Message(), k, f.clock.Now())
	if err == nil {
		err = c.VerifySeal(c.Len(), k)
	}
	if err != nil || c.Seal(c.Len()).Domain != "example.com" ||
		!strings.Contains(c.Results(1), "dmarc=pass header.from=far.example") {
		f.t.Errorf("%v:\n%s", err, raw)
	}
	return c.Len()
}

// TestSealed checks that a message from outside has a valid ARC set on every way out: a person's forward, a group, a
// list's copies, a post that a moderator approves, and one that a filter held. Messages by local people, by the server
// itself, and unverified ones have none.
func TestSealed(t *testing.T) {
	t.Parallel()
	f := seals(t)
	alice := f.person("alice")
	f.set(alice, func(p *directory.PersonFields) { p.Forward = []string{"a@far.example"} })
	_, err := f.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Team",
		InternetAddress: "team@example.com", Members: []string{"b@far.example"}})
	f.ok(err)
	f.mailingList(func(l *directory.GroupFields) { l.List.Post, l.List.Tag = directory.PostAnyone, "chess" },
		"c@far.example")
	_, err = f.people.Groups.Add(bg, note.System, directory.GroupFields{
		Name: "Quiet", InternetAddress: "quiet@example.com", Members: []string{"d@far.example"},
		List: directory.ListFields{On: true, Post: directory.PostModerators, Moderators: []string{"b@far.example"}},
	})
	f.ok(err)
	seen := 0
	sets := func() (out []int) {
		f.flush()
		all := f.sink.Messages()
		for _, m := range all[seen:] {
			out = append(out, f.chain(m.Data))
		}
		seen = len(all)
		return out
	}
	check := func(what string, want ...int) {
		t.Helper()
		if got := sets(); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: ARC sets %v, want %v", what, got, want)
		}
	}
	for _, to := range []string{"alice@example.com", "team@example.com", "chess@example.com"} {
		f.deposit(f.stranger(to))
		check(to, 1)
	}
	f.deposit(f.stranger("quiet@example.com"))
	check("the notice to a moderator", 0)
	held, err := f.Moderation.Pending(bg, note.UNID{})
	f.ok(err)
	f.ok(f.Moderation.Approve(bg, held[0].ID))
	check("approved", 1)
	sub := f.stranger("team@example.com")
	sub.Hold = "filter"
	f.deposit(sub)
	f.ok(f.Moderation.Release(bg, sub.ID))
	check("released", 1)
	sub = f.stranger("alice@example.com")
	sub.From.Local, sub.From.Domain = "", ""
	f.deposit(sub)
	check("null sender", 1)

	f.deposit(f.from("eve@far.example", "team@example.com"))
	check("not checked", 0)
	sub = f.from("alice@example.com", "u@far.example")
	who, err := f.people.Names.WhoOf(bg, alice.ID)
	f.ok(err)
	sub.Message = []byte("From: alice@example.com\r\nSubject: x\r\n\r\nHello.\r\n")
	sub.Submitter, sub.Checker = &Submitter{Who: who, Address: "alice@example.com"}, "mx.example.com"
	f.deposit(sub)
	check("written here", 0)
}

// TestSealedChain checks existing chains. One that passed is continued; one that failed gets a final set that says so.
// A chain without results, because a local filter added it after the verification, stays unchanged.
func TestSealedChain(t *testing.T) {
	t.Parallel()
	f := seals(t)
	_, err := f.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Team",
		InternetAddress: "team@example.com", Members: []string{"b@far.example"}})
	f.ok(err)
	first, err := f.opt.Sealer.Seal(context.Background(), "example.com", "mx.example.com", nil, []byte(results+plain))
	f.ok(err)
	for arc, want := range map[string]string{"arc=pass (i=1)": "cv=pass;", "arc=fail": "cv=fail;", "x=y": "cv=none;"} {
		sub := f.stranger("team@example.com")
		sub.Message = append(first[:len(first):len(first)], plain...)
		sub.Fields = []byte(strings.Replace(results, "dkim=none", arc, 1))
		f.deposit(sub)
		f.flush()
		all := f.sink.Messages()
		got := all[len(all)-1].Data
		_, newest, _ := strings.Cut(got, "ARC-Seal: ")
		if newest, _, _ = strings.Cut(newest, "\r\n"); !strings.HasSuffix(newest, want) {
			t.Errorf("%s: %s", arc, newest)
		}
		if want == "cv=pass;" && f.chain(got) != 2 {
			t.Error("the chain is not longer")
		}
	}
}

// TestTransitChecked checks that the transit parameter says that the message was verified. The header names the server
// that did it.
func TestTransitChecked(t *testing.T) {
	t.Parallel()
	for _, checked := range []bool{true, false} {
		one := Transit{ID: note.UNID{1}, Junk: true, Unsigned: true, Unproven: true, Checked: checked}
		got, ok := ParseTransit(one.String())
		if !ok || got != one || len(one.String()) > 64 {
			t.Errorf("%s: %+v", one.String(), got)
		}
		want := map[bool]string{true: "mx.example.com"}[checked]
		if id := got.Checker([]byte("Received: from x by y; z\r\n" + results + plain)); id != want {
			t.Errorf("checker %q, want %q", id, want)
		}
	}
	if id := (&Transit{Checked: true}).Checker([]byte(plain)); id != "" {
		t.Errorf("checker %q of a message without results", id)
	}
}
