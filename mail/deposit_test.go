package mail

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/mail/fields"
	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/smtp"
)

func TestDepositOne(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Received = &Received{Helo: "far.example", IP: netip.MustParseAddr("192.0.2.7"), TLS: "TLSv1.3 with cipher X",
		Protocol: "ESMTPS"}
	w.deposit(sub)
	want := "Return-Path: <eve@far.example>\r\n" +
		"Received: from far.example ([192.0.2.7])\r\n\t(using TLSv1.3 with cipher X)\r\n" +
		"\tby mx.example.com with ESMTPS id " + sub.ID.String() + "\r\n" +
		"\tfor <alice@example.com>;\r\n\tMon, 5 Jan 2026 09:00:00 +0000\r\n" + plain
	if got := w.has(alice, 1)[0]; got != want {
		t.Errorf("stored:\n%s\nwant:\n%s", got, want)
	}
	w.queue(0)
	w.shows("Mail.Delivered = 1", "Mail.TotalRouted = 1", "Mail.Waiting = 0")
}

func TestDepositThreeIsOneMessage(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	people := []directory.Person{w.person("alice"), w.person("bob"), w.person("carol")}
	sub := w.from("eve@far.example", "alice@example.com", "bob@example.com", "carol+list@example.com",
		"alice+again@example.com")
	for _, err := range w.deposit(sub) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, p := range people {
		got := w.has(p, 1)[0]
		if !strings.HasSuffix(got, plain) || strings.Contains(got, "for <") {
			t.Errorf("%s got:\n%s", p.ShortName, got)
		}
	}
	if n := w.recipes(); n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
	w.shows("Mail.Delivered = 3", "Mail.TotalRouted = 1")
}

func TestDepositManyIsExpanded(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	var people []directory.Person
	var to []string
	for i := range 300 {
		p := w.person(fmt.Sprintf("p%d", i))
		people, to = append(people, p), append(to, p.InternetAddress)
	}
	w.deposit(w.from("eve@far.example", to...))
	if e := w.queue(1)[0]; len(e.Recipients) != 300 || e.Recipients[299].State != queue.Pending {
		t.Fatalf("entry: %d recipients, %+v", len(e.Recipients), e.Recipients[299])
	}
	w.shows("Mail.Waiting = 1", "Mail.WaitingRecipients = 300", "Mail.WaitingForDelivery = 300")
	if next := w.route(); !next.IsZero() {
		t.Errorf("router wants to come back at %s", next)
	}
	w.queue(0)
	for _, p := range people {
		w.has(p, 1)
	}
	if n := w.recipes(); n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
	w.shows("Mail.Delivered = 300", "Mail.Waiting = 0", "Mail.WaitingRecipients = 0")
}

func TestDepositTwiceIsOnce(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	sub := w.from("eve@far.example", "alice@example.com", "bob@example.com")
	w.deposit(sub)
	w.deposit(sub)
	w.has(alice, 1)
	w.has(bob, 1)
	// The file is full now, but the message was delivered before: no error, and no second copy.
	w.quota(alice, 10)
	if res := w.deposit(sub); res[0] != nil {
		t.Error(res[0])
	}
	w.has(alice, 1)
}

func TestQuota(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.quota(alice, 100)
	// A single recipient: rejected, and nothing is stored.
	results := make([]error, 1)
	_, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "alice@example.com"), results)
	if replyCode(err) != "452 4.2.2" {
		t.Errorf("alone: %v", err)
	}
	w.queue(0)
	// Together with bob: accepted, and alice's copy waits.
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	w.has(bob, 1)
	w.has(alice, 0)
	q := w.queue(1)[0].Recipients
	if len(q) != 1 || q[0].Address != "alice@example.com" || q[0].State != queue.Pending || q[0].Attempts != 1 ||
		!strings.HasPrefix(q[0].Reply, "452 4.2.2") {
		t.Fatalf("%+v", q)
	}
	if next := w.route(); !next.Equal(w.fix.Clock.Now().Add(w.opt2().RetryFirst)) {
		t.Errorf("next attempt at %s", next)
	}
	// There is room later.
	w.quota(alice, 0)
	w.fix.Time.Advance(w.opt2().RetryFirst)
	w.route()
	w.has(alice, 1)
	w.queue(0)
	if n := w.recipes(); n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
}

func (w *world) opt2() *Options { return w.Deposits.opt }

func TestQuotaOfDirectory(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice", func(s *directory.PersonSpec) { s.Quota = 100 })
	_, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "alice@example.com"), nil)
	if replyCode(err) != "452 4.2.2" {
		t.Error(err)
	}
	r := w.to("alice@example.com")[0]
	if err := w.Deposits.files.Room(bg, &r.Target, 101); !errors.Is(err, mailbox.ErrOverQuota) {
		t.Errorf("Room: %v", err)
	}
	if err := w.Deposits.files.Room(bg, &r.Target, 100); err != nil {
		t.Errorf("Room: %v", err)
	}
}

func TestLMTPAnswersEach(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	dave := w.person("dave", func(s *directory.PersonSpec) { s.SizeLimit = 20 })
	w.quota(bob, 10)
	w.ok(w.db.SetInfo(note.System, carol.MailDatabase,
		func(i *layout.Info) { i.State, i.Reason = layout.OutOfService, "test" }))
	sub := w.from("eve@far.example", "alice@example.com", "bob@example.com", "carol@example.com", "dave@example.com",
		"bob@example.com")
	sub.Answer = AnswerEach
	var got []string
	for _, err := range w.deposit(sub) {
		got = append(got, replyCode(err))
	}
	want := "<nil>, 452 4.2.2, 451 4.2.0, 552 5.2.3, 452 4.2.2"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("answers %s, want %s", s, want)
	}
	w.has(alice, 1)
	w.has(bob, 0)
	w.has(dave, 0)
	w.queue(0)
	w.ok(w.db.SetInfo(note.System, carol.MailDatabase, func(i *layout.Info) { i.State = layout.InService }))
	w.has(carol, 0)
}

func TestOutOfServiceIsRetried(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.ok(w.db.SetInfo(note.System, bob.MailDatabase, func(i *layout.Info) { i.State = layout.OutOfService }))
	w.deposit(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	w.has(alice, 1)
	w.queue(1)
	w.fix.Time.Advance(w.opt2().RetryFirst)
	next := w.route()
	if !next.Equal(w.fix.Clock.Now().Add(2 * w.opt2().RetryFirst)) {
		t.Errorf("second pause ends at %s", next)
	}
	w.ok(w.db.SetInfo(note.System, bob.MailDatabase, func(i *layout.Info) { i.State = layout.InService }))
	w.fix.Time.Advance(next.Sub(w.fix.Clock.Now()))
	w.route()
	w.has(bob, 1)
	w.queue(0)
}

func TestAllRefusedKeepsNothing(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice", func(s *directory.PersonSpec) { s.SizeLimit = 20 })
	_, err := w.Deposits.Deposit(bg, w.from("eve@far.example", "alice@example.com"), nil)
	if replyCode(err) != "552 5.2.3" {
		t.Error(err)
	}
	w.has(alice, 0)
	w.queue(0)
	w.shows("Mail.TotalRouted = 0")
}

func TestGroups(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob, carol := w.person("alice"), w.person("bob"), w.person("carol")
	in, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "inner",
		Members: []string{"bob@example.com", "fred@far.example", "fred@far.example"}})
	w.ok(err)
	out, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "outer",
		InternetAddress: "all@example.com", Members: []string{"alice@example.com", "inner", "carol@example.com"}})
	w.ok(err)
	_, err = w.people.Groups.Set(bg, note.System, in.ID, func(f *directory.GroupFields) error {
		f.Members = append(f.Members, out.ID.String()) // a cycle
		return nil
	})
	w.ok(err)
	_, err = w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "none",
		InternetAddress: "none@example.com"})
	w.ok(err)
	w.quota(carol, 10)
	for _, err := range w.deposit(w.from("eve@far.example", "bob@example.com", "all@example.com",
		"alice@example.com")) {
		if err != nil {
			t.Error(err)
		}
	}
	w.has(alice, 1)
	w.has(bob, 1)
	q := w.queue(1)[0].Recipients
	if len(q) != 2 || q[0].Address != "fred@far.example" || q[0].State != queue.Waiting ||
		q[1].Address != "all@example.com" || q[1].Name != carol.Name() {
		t.Errorf("%+v", q)
	}
	_, err = w.Deposits.Deposit(bg, w.from("eve@far.example", "none@example.com"), nil)
	if replyCode(err) != "550 5.2.4" {
		t.Errorf("group without members: %v", err)
	}
}

// TestGroupListsAddressThatBecameLocal checks a group member whose domain was remote when the group was created.
func TestGroupListsAddressThatBecameLocal(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "g", InternetAddress: "g@example.com",
		Members: []string{"dora@new.example", "nobody@new.example"}})
	w.ok(err)
	w.ok(w.people.Domains.Add(bg, note.System, "new.example"))
	dora := w.person("dora", func(s *directory.PersonSpec) { s.InternetAddress = "dora@new.example" })
	w.deposit(w.from("", "g@example.com"))
	w.has(dora, 1)
	w.route()
	if e := w.queue(1)[0]; !e.Dead || e.Recipients[0].Name != "nobody@new.example" {
		t.Errorf("%+v", e)
	}
}

func TestMailIn(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	db, err := w.files.Make(bg, note.UNID{}, "sales", 0, 0)
	w.ok(err)
	_, err = w.people.MailIns.Add(bg, note.System, directory.MailInFields{Name: "Sales",
		InternetAddress: "sales@example.com", Database: db})
	w.ok(err)
	w.deposit(w.from("eve@far.example", "sales@example.com"))
	if n := len(w.inbox(db)); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestStrangersWait(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	sub := w.from("alice@example.com", "alice@example.com", "eve@far.example")
	sub.Params = smtp.MailParams{EnvID: "env 1", Ret: smtp.RetHeaders}
	sub.Recipients[1].Params = smtp.RcptParams{Notify: smtp.NotifyFailure, ORcpt: "rfc822;eve@far.example"}
	w.deposit(sub)
	w.has(alice, 1)
	if next := w.route(); !next.IsZero() {
		t.Errorf("router wants to come back at %s", next)
	}
	w.fix.Time.Advance(100 * 24 * 3600e9)
	w.route()
	e := w.queue(1)[0]
	q := e.Recipients[0]
	if e.ID != sub.ID || e.From.String() != "alice@example.com" || e.EnvID != "env 1" || e.Ret != smtp.RetHeaders ||
		q.Address != "eve@far.example" || q.State != queue.Waiting || q.Notify != smtp.NotifyFailure ||
		q.ORcpt != "rfc822;eve@far.example" {
		t.Errorf("%+v", e)
	}
	raw, err := w.Queue.Message(bg, w.Queue.Boxes.KeyOf(&e), 0)
	w.ok(err)
	if !strings.HasPrefix(string(raw[e.ReturnPath:]), "Received: ") || !strings.HasSuffix(string(raw), plain) {
		t.Errorf("message to send on:\n%s", raw[e.ReturnPath:])
	}
	w.shows("Mail.Waiting = 1", "Mail.WaitingRecipients = 1", "Mail.WaitingForDelivery = 0")
}

func TestHeadroom(t *testing.T) {
	t.Parallel()
	buf := make([]byte, 1000)
	head, message := buf[:100:900], buf[100:900]
	copy(message, "message")
	got := fields.PutBefore([]byte("head:"), head, message)
	if &got[0] != &buf[95] || string(got[:12]) != "head:message" {
		t.Errorf("copied, or wrong: %q", got[:12])
	}
	for _, h := range [][]byte{nil, make([]byte, 100, 1000), buf[:3], buf[50:100:900][:20]} {
		got := fields.PutBefore([]byte("head:"), h, message)
		if &got[0] == &buf[95] || string(got[:12]) != "head:message" || len(got) != 805 {
			t.Errorf("head of %d bytes: %q", len(h), got[:12])
		}
	}
}

// inboxMaker creates mail files with only an INBOX.
type inboxMaker struct{ w *world }

func (m inboxMaker) Elsewhere(note.DatabaseID) bool { return false }

func (m inboxMaker) MakeMailFile(ctx context.Context, f directory.MailFile) error {
	id := f.ID
	if _, err := m.w.db.CreateDatabase(note.System, store.Create{ID: id, Kind: mailbox.Kind, Title: f.Title,
		Owner: f.Owner}); err != nil {
		return err
	}
	return m.w.db.Update(ctx, note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
		w, err := tx.Database(id)
		if err == nil {
			_, err = w.CreateFolder(mailbox.Inbox, "")
		}
		return err
	})
}

func (inboxMaker) RemoveMailFile(context.Context, note.DatabaseID) error { return nil }

// TestMakesMissingMailFile checks that mail for a person without a mail file, as after a bulk import, creates the file
// and is delivered at once.
func TestMakesMissingMailFile(t *testing.T) {
	w := open(t, Options{})
	w.stop()
	w.makes = inboxMaker{w}
	w.start()
	res, err := w.people.People.Import(context.Background(), note.System, []directory.PersonSpec{{
		PersonFields: directory.PersonFields{FullName: []string{"Dora Late"}, ShortName: "dora"},
	}}, directory.ImportOptions{NoMailFiles: true})
	w.ok(err)
	if res.Added != 1 {
		t.Fatalf("%+v", res)
	}
	for _, err := range w.deposit(w.from("x@elsewhere.example", "dora@example.com")) {
		w.ok(err)
	}
	p, err := w.people.Names.PersonNamed(context.Background(), "dora")
	w.ok(err)
	w.has(p, 1)
	w.queue(0)
}
