package mail

import (
	"errors"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/smtp"
)

func (w *world) set(p directory.Person, fn func(*directory.PersonFields)) {
	w.t.Helper()
	_, err := w.people.People.Set(bg, note.System, p.ID, func(f *directory.PersonFields) error { fn(f); return nil })
	w.ok(err)
}

// in returns the messages of a folder.
func (w *world) in(p directory.Person, folder string) int {
	w.t.Helper()
	f, err := w.files.File(note.System, p.MailDatabase).Folder(bg, folder)
	w.ok(err)
	return int(f.Total)
}

// raw returns the stored message of an entry in mail.box.
func (w *world) raw(e queue.Entry) string {
	w.t.Helper()
	b, err := w.Queue.Message(bg, w.Queue.Boxes.KeyOf(&e), 0)
	w.ok(err)
	return string(b)
}

func TestJunk(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Junk, sub.Fields = true, []byte("Authentication-Results: mx.example.com; dmarc=fail\r\n")
	w.deposit(sub)
	if w.in(alice, "Junk") != 1 {
		t.Error("nothing in Junk")
	}
	w.has(alice, 0)
	// The folder with the special use, whatever its name; if there is none, one is created.
	f := w.files.File(note.System, alice.MailDatabase)
	w.ok(f.Rename(bg, "Junk", "Pourriel"))
	sub = w.from("eve@far.example", "alice@example.com")
	sub.Junk = true
	w.deposit(sub)
	if w.in(alice, "Pourriel") != 2 {
		t.Error("the renamed folder is passed over")
	}
	w.ok(f.Delete(bg, "Pourriel"))
	sub = w.from("eve@far.example", "alice@example.com")
	sub.Junk = true
	w.deposit(sub)
	if w.in(alice, "Junk") != 1 {
		t.Error("no new Junk")
	}
	// A message that waited in mail.box is still junk.
	w.quota(alice, 1)
	sub = w.from("eve@far.example", "alice@example.com", "postmaster@elsewhere.example")
	sub.Junk = true
	w.deposit(sub)
	w.quota(alice, 0)
	w.fix.Time.Advance(time.Hour)
	w.route()
	if w.in(alice, "Junk") != 2 {
		t.Errorf("%d in Junk after a retry", w.in(alice, "Junk"))
	}
}

func TestHeldByFilter(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Hold = "virus"
	w.deposit(sub)
	w.route()
	w.has(alice, 0)
	e := w.queue(1)[0]
	if !e.Held || e.Reason != "virus" {
		t.Errorf("%+v", e)
	}
	w.ok(w.Moderation.Release(bg, e.ID))
	w.route()
	w.has(alice, 1)
}

// A message that a filter held is delivered normally after its release, once.
func TestReleaseSendsOn(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob, carol, dora := w.person("alice"), w.person("bob"), w.person("carol"), w.person("dora")
	w.set(alice, func(f *directory.PersonFields) {
		f.Forward, f.ForwardOnly = []string{"a@else.example", "bob@example.com", "chess@example.com"}, true
	})
	w.set(carol, func(f *directory.PersonFields) { f.Vacation = directory.Vacation{On: true, Text: "away"} })
	w.mailingList(nil, "dora", "eve@far.example")
	hold := func(change func(*Submission), to ...string) note.UNID {
		t.Helper()
		sub := w.from("eve@far.example", to...)
		sub.Hold = "virus"
		sub.Message = []byte(strings.Replace(plain, "To: ", "To: carol@example.com, ", 1))
		change(sub)
		w.deposit(sub)
		w.route()
		return sub.ID
	}
	id := hold(func(s *Submission) { s.Recipients[2].Params.Notify = smtp.NotifySuccess }, "alice@example.com",
		"carol@example.com", "bob@example.com", "x@else.example")
	for _, p := range []directory.Person{alice, bob, carol, dora} {
		w.has(p, 0)
	}
	w.queue(1)
	w.ok(w.Moderation.Release(bg, id))
	w.has(alice, 0)
	w.has(bob, 1)
	w.has(carol, 1)
	w.has(dora, 0)
	to := map[string]queue.Entry{}
	for _, e := range w.queue(4) { // the message, its forwarded copy, the vacation notice, and the post to the list
		to[e.Recipients[0].Address] = e
	}
	own := to["x@else.example"]
	if own.ID != id || own.Held || own.Reason != "" || len(own.Recipients) != 2 ||
		own.Recipients[1].State != queue.Delivered {
		t.Errorf("%+v", own)
	}
	if e := to["a@else.example"]; !strings.HasPrefix(e.From.Local, "SRS0=") ||
		!strings.Contains(w.raw(e), "Delivered-To: alice@example.com\r\n") {
		t.Errorf("%+v", e)
	}
	if e := to["eve@far.example"]; !strings.Contains(w.raw(e), "Auto-Submitted: auto-replied\r\n") {
		t.Errorf("%+v", e)
	}
	if e := to["chess@example.com"]; !moderated(&e) || e.Reason != "a filter holds it: virus" {
		t.Errorf("%+v", e)
	}
	// If an administrator holds and releases it again, nothing is done twice.
	w.ok(w.Hold(bg, id))
	w.ok(w.Moderation.Release(bg, id))
	w.queue(4)
	w.has(bob, 1)
	// An entry with only local recipients is removed. Junk is not forwarded, and causes no vacation notice.
	id = hold(func(s *Submission) { s.Junk = true }, "alice@example.com", "carol@example.com")
	w.ok(w.Moderation.Release(bg, id))
	if w.in(alice, "Junk") != 1 || w.in(carol, "Junk") != 1 {
		t.Error("junk went elsewhere")
	}
	w.queue(5) // including the report to eve that bob has the first message
	// Over quota: it stays in mail.box for the router. The router reports recipients that were removed.
	w.quota(bob, 1)
	id = hold(func(*Submission) {}, "bob@example.com", "dora@example.com")
	w.ok(w.people.People.Remove(bg, note.System, dora.ID))
	w.ok(w.Moderation.Release(bg, id))
	e, err := w.Queue.Decide(bg, id)
	w.ok(err)
	if len(e.Recipients) != 2 || e.Held || e.Reason != "" {
		t.Errorf("%+v", e)
	}
	w.quota(bob, 0)
	w.fix.Time.Advance(24 * time.Hour)
	w.route()
	w.has(bob, 2)
	if err := w.Moderation.Release(bg, note.UNID{1}); !errors.Is(err, queue.ErrNotQueued) {
		t.Error(err)
	}
}

// Mail for postmaster and abuse arrives over any quota. It goes to the administrator if no one else has the address.
func TestAlwaysArrives(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("off", func(s *directory.PersonSpec) { s.Roles, s.Disabled = []string{directory.RoleAdmin}, true })
	boss := w.person("boss", func(s *directory.PersonSpec) { s.Roles, s.SizeLimit = []string{directory.RoleAdmin}, 10 })
	w.quota(boss, 1)
	for _, a := range []string{"postmaster@example.com", "Abuse@example.com", "PostMaster"} {
		if res := w.deposit(w.from("eve@far.example", a)); res[0] != nil {
			t.Errorf("%s: %v", a, res[0])
		}
	}
	w.has(boss, 3)
	if _, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "boss@example.com"),
		nil); replyCode(err) != "552 5.2.3" {
		t.Error(err)
	}
}

func TestUnprovenGetsNoReport(t *testing.T) {
	t.Parallel()
	w := open(t, Options{KeepOverQuota: time.Hour})
	alice, bob := w.person("alice"), w.person("bob")
	w.quota(bob, 1)
	sub := w.from("victim@far.example", "alice@example.com", "bob@example.com")
	sub.Unproven = true
	sub.Recipients[0].Params.Notify = smtp.NotifySuccess
	w.deposit(sub)
	w.has(alice, 1)
	for range 5 {
		w.fix.Time.Advance(2 * time.Hour)
		w.route()
	}
	w.queue(0) // no report to the forged sender, and no dead message
	// The same with an authenticated sender, who gets a report.
	w.deposit(w.from("victim@far.example", "alice@example.com", "bob@example.com"))
	for range 5 {
		w.fix.Time.Advance(2 * time.Hour)
		w.route()
	}
	if e := w.queue(1)[0]; !e.From.IsNull() || e.Recipients[0].Address != "victim@far.example" {
		t.Errorf("%+v", e)
	}
}

func TestBccNeverLeaves(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	message := "Bcc: bob@example.com\r\nFrom: alice@example.com\r\nBCC:\r\n carol@example.com,\r\n x@y.example\r\n" +
		"Subject: s\r\nResent-Bcc: z@y.example\r\n\r\nBcc: stays\r\n"
	for _, room := range []int{0, 2048} {
		sub := w.from("alice@example.com", "bob@example.com")
		buf := append(make([]byte, room), message...)
		sub.Head, sub.Message = buf[:room:len(buf)], buf[room:]
		sub.Submitter = &Submitter{Who: note.Who{Person: alice.ID}, Address: "alice@example.com"}
		w.deposit(sub)
	}
	for _, m := range w.has(bob, 2) {
		if strings.Contains(strings.ToLower(m), "bcc:\r") || strings.Contains(m, "carol") ||
			strings.Contains(m, "y.example") ||
			!strings.HasSuffix(m, "\r\nFrom: alice@example.com\r\nSubject: s\r\n\r\nBcc: stays\r\n") {
			t.Errorf("%q", m)
		}
	}
}

func TestSendOnBehalf(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	carol := w.person("carol",
		func(s *directory.PersonSpec) { s.SendAs, s.OnBehalf = []string{"bob"}, []string{"alice@example.com"} })
	_ = carol
	send := func(p directory.Person, header string) (string, error) {
		sub := w.from(p.InternetAddress, "carol@example.com")
		sub.Message = []byte(header + "\r\n\r\nx\r\n")
		who, err := w.people.Names.WhoOf(bg, p.ID)
		w.ok(err)
		sub.Submitter = &Submitter{Who: who, Address: p.InternetAddress}
		if _, err := w.Deposits.Deposit(bg, sub, nil); err != nil {
			return "", err
		}
		all := w.inbox(carol.MailDatabase)
		return all[len(all)-1], nil
	}
	if m, err := send(bob, "From: carol@example.com"); err != nil || strings.Contains(m, "Sender:") {
		t.Error(m, err)
	}
	if m, err := send(alice, "From: carol@example.com"); err != nil ||
		!strings.Contains(m, "\r\nSender: <alice@example.com>\r\n") {
		t.Error(m, err)
	}
	if _, err := send(alice, "From: carol@example.com\r\nSender: carol@example.com"); replyCode(err) != "550 5.7.1" {
		t.Error(err)
	}
	if _, err := send(alice, "From: bob@example.com"); replyCode(err) != "550 5.7.1" {
		t.Error(err)
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	w.set(alice, func(f *directory.PersonFields) {
		f.Forward, f.ForwardOnly = []string{"a@else.example", "bob@example.com"}, true
	})
	w.set(bob, func(f *directory.PersonFields) { f.Forward = []string{"alice@example.com", "carol@example.com"} })
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 0)
	w.has(bob, 1) // bob keeps a copy and forwards to carol; the message does not go back to alice
	w.has(carol, 1)
	e := w.queue(1)[0]
	if len(e.Recipients) != 1 || e.Recipients[0].Address != "a@else.example" ||
		e.Recipients[0].State != queue.Waiting ||
		!strings.HasPrefix(e.From.Local, "SRS0=") || e.From.Domain != "example.com" {
		t.Fatalf("%+v", e)
	}
	raw := w.raw(e)
	if !strings.HasPrefix(raw, "Return-Path: <"+e.From.String()+">\r\nDelivered-To: alice@example.com\r\nReceived: ") ||
		!strings.HasSuffix(raw, plain) {
		t.Errorf("%q", raw)
	}
	// A report reaches the original sender, for three weeks. A forged address is rejected.
	if p, ok := w.Deposits.srs.ReverseSRS(e.From.String()); !ok || p.String() != "eve@far.example" {
		t.Error(p, ok)
	}
	if p, ok := w.Deposits.srs.ReverseSRS(strings.ToLower(e.From.String())); !ok || p.String() != "eve@far.example" {
		t.Error(p, ok)
	}
	if _, ok := w.Deposits.srs.ReverseSRS(strings.Replace(e.From.String(), "far.example", "bad.example", 1)); ok {
		t.Error("a forged one is taken")
	}
	w.fix.Time.Advance(30 * 24 * time.Hour)
	if _, ok := w.Deposits.srs.ReverseSRS(e.From.String()); ok {
		t.Error("an old one is taken")
	}
	// A message that comes back stays. Junk is not forwarded.
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Message = []byte("Delivered-To: Alice@example.com\r\n" + plain)
	w.deposit(sub)
	sub = w.from("eve@far.example", "alice@example.com")
	sub.Junk = true
	w.deposit(sub)
	w.has(alice, 1)
	if w.in(alice, "Junk") != 1 {
		t.Error("junk was sent on")
	}
	w.queue(1)
}

func TestSRSWraps(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	first := w.Deposits.srs.rewriteSender(path("SRS0=HHH=TT=orig.example=user@one.example"), "example.com")
	if back, ok := w.Deposits.srs.ReverseSRS(first.String()); !ok ||
		back.String() != "SRS0=HHH=TT=orig.example=user@one.example" {
		t.Error(first, back, ok)
	}
	again := w.Deposits.srs.rewriteSender(path("SRS1=XXX=one.example==HHH=TT=orig.example=user@two.example"),
		"example.com")
	if back, ok := w.Deposits.srs.ReverseSRS(again.String()); !ok ||
		back.String() != "SRS0=HHH=TT=orig.example=user@one.example" {
		t.Error(again, back, ok)
	}
	if p := w.Deposits.srs.rewriteSender(smtp.Path{}, "example.com"); !p.IsNull() {
		t.Error(p)
	}
	for _, bad := range []string{"SRS0@example.com", "SRS0=@example.com", "SRS9=x=y@example.com",
		"SRS0=a=b=c=d@example.com", "x", ""} {
		if p, ok := w.Deposits.srs.ReverseSRS(bad); ok {
			t.Error(bad, p)
		}
	}
}

func TestVacation(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	w.set(alice, func(f *directory.PersonFields) {
		f.Vacation = directory.Vacation{On: true, Text: "Bin weg.\nGrüße", Days: 3,
			Until: w.fix.Clock.Now().Add(20 * 24 * time.Hour)}
	})
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	e := w.queue(1)[0]
	raw := w.raw(e)
	for _, want := range []string{
		"Return-Path: <>\r\n", "From: \"alice Example\" <alice@example.com>\r\n", "To: <eve@far.example>\r\n",
		"Subject: Auto: hello\r\n",
		"In-Reply-To: <1@far.example>\r\n", "Auto-Submitted: auto-replied\r\n", "\r\n\r\nBin weg.\r\nGrüße\r\n",
	} {
		if !strings.Contains(raw, want) {
			t.Errorf("no %q in\n%s", want, raw)
		}
	}
	if !e.From.IsNull() || e.Recipients[0].Address != "eve@far.example" {
		t.Errorf("%+v", e)
	}
	// One notice per sender in three days.
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.deposit(w.from("EVE@far.example", "alice@example.com"))
	w.queue(1)
	w.deposit(w.from("adam@far.example", "alice@example.com"))
	w.queue(2)
	w.fix.Time.Advance(3 * 24 * time.Hour)
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.queue(3)
	// Never in these cases.
	for name, change := range map[string]func(*Submission){
		"null sender": func(s *Submission) { s.From = smtp.Path{} },
		"auto":        func(s *Submission) { s.Message = []byte("Auto-Submitted: auto-generated\r\n" + plain) },
		"list":        func(s *Submission) { s.Message = []byte("List-Id: <x.y>\r\n" + plain) },
		"bulk":        func(s *Submission) { s.Message = []byte("Precedence: bulk\r\n" + plain) },
		"noreply":     func(s *Submission) { s.From = path("no-reply@far.example") },
		"owner":       func(s *Submission) { s.From = path("owner-list@far.example") },
		"not named":   func(s *Submission) { s.Message = []byte(strings.Replace(plain, "alice@", "undisclosed@", 1)) },
		"herself":     func(s *Submission) { s.From = path("alice@example.com") },
		"junk":        func(s *Submission) { s.Junk = true },
		"unproven":    func(s *Submission) { s.Unproven = true },
	} {
		sub := w.from(strings.ReplaceAll(name, " ", "")+"@new.example", "alice@example.com")
		change(sub)
		w.deposit(sub)
		if n := len(w.queueAll()); n != 3 {
			t.Errorf("%s: %d in mail.box", name, n)
		}
	}
	w.fix.Time.Advance(30 * 24 * time.Hour)
	w.deposit(w.from("late@far.example", "alice@example.com"))
	if n := len(w.queueAll()); n != 3 {
		t.Errorf("past the end: %d in mail.box", n)
	}
}

func (w *world) queueAll() []queue.Entry {
	w.t.Helper()
	list, _, err := w.Queue.List(bg, 0, "")
	w.ok(err)
	return list
}

func TestQuotaWarning(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice", func(s *directory.PersonSpec) { s.Warning, s.Quota = 1200, 100_000 })
	w.deposit(w.from("eve@far.example", "alice@example.com")) // about 400 bytes each
	w.route()
	w.has(alice, 1)
	for range 4 {
		w.deposit(w.from("eve@far.example", "alice@example.com"))
	}
	w.route()
	all := w.has(alice, 6)
	n := 0
	for _, m := range all {
		if strings.Contains(m, "Subject: Your mail file is nearly full") {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d warnings", n)
	}
	w.queue(0)
	// Below the threshold, and above it again.
	f := w.files.File(note.System, alice.MailDatabase)
	v, _, err := f.Open(bg, mailbox.Inbox, false)
	w.ok(err)
	uids, err := v.UIDs(bg)
	w.ok(err)
	w.ok(v.Settle(bg, nil, uids))
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.route()
	w.has(alice, 1)
	for range 4 {
		w.deposit(w.from("eve@far.example", "alice@example.com"))
	}
	w.route()
	if got := strings.Count(strings.Join(w.has(alice, 6), ""), "Subject: Your mail file is nearly full"); got != 1 {
		t.Errorf("%d warnings after it was smaller", got)
	}
}

// TestForwardInCircle checks that a message stays with somebody when people who keep no copy forward to each other, or
// to a group without members.
func TestForwardInCircle(t *testing.T) {
	t.Parallel()
	for length := 2; length <= 3; length++ {
		w := open(t, Options{})
		names := []string{"alice", "bob", "carol"}[:length]
		var people []directory.Person
		for _, name := range names {
			people = append(people, w.person(name))
		}
		for i, p := range people {
			w.set(p, func(f *directory.PersonFields) {
				f.Forward, f.ForwardOnly = []string{names[(i+1)%length] + "@example.com"}, true
			})
		}
		w.deposit(w.from("eve@far.example", "alice@example.com"))
		w.route()
		kept := 0
		for _, p := range people {
			kept += len(w.inbox(p.MailDatabase))
		}
		if kept != 1 {
			t.Errorf("%d people in a circle keep %d copies, want 1", length, kept)
		}
	}
	w := open(t, Options{})
	alice := w.person("alice")
	_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Empty",
		InternetAddress: "empty@example.com"})
	w.ok(err)
	w.set(alice, func(f *directory.PersonFields) { f.Forward, f.ForwardOnly = []string{"empty@example.com"}, true })
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	w.has(alice, 1)
}
