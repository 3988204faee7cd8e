package mail

import (
	"strings"
	"testing"

	"doublet/bus"
	"doublet/directory"
	"doublet/mail/outbound"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/wire/smtp"
)

// domain adds a second server to the domain of this server. It cannot be reached.
func (w *world) domain(t *testing.T) (here, there note.UNID) {
	t.Helper()
	here, there = note.UNID{1}, note.UNID{2}
	for id, name := range map[note.UNID]string{here: "one.example", there: "two.example"} {
		_, err := w.people.Servers.Enter(bg, note.System, id, directory.ServerFields{Name: name,
			Key: bus.Key(append(id[:], id[:]...)), Doors: []string{"smtp " + name + ":25"}})
		w.ok(err)
	}
	w.people.Servers.UseServer(here)
	w.ok(w.people.Servers.FoundDomain(bg, note.System, here))
	return here, there
}

func (w *world) away(short string, server note.UNID) directory.Person {
	w.t.Helper()
	p, err := w.people.People.Add(bg, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
		FullName: []string{short + " Example"}, ShortName: short, MailServer: server,
	}})
	w.ok(err)
	return p
}

// TestAway checks that mail for a person at another place waits for a server of that place. The person may be a
// recipient, a member of a group, or the target of a local person's forwarding; the message waits only once per person.
// When the person moves here, it is delivered here, and vice versa.
func TestAway(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	_, there := w.domain(t)
	bob := w.away("bob", there)
	alice := w.person("alice", func(s *directory.PersonSpec) { s.Forward = []string{"bob@example.com"} })
	_, err := w.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "both",
		InternetAddress: "both@example.com", Members: []string{"alice", "bob"}})
	w.ok(err)
	w.ok(w.Deposits.files.Room(bg, &directory.Target{MailServer: there, Database: bob.MailDatabase}, 1))

	w.deposit(w.from("eve@far.example", "bob@example.com", "both@example.com"))
	list := w.queue(1) // alice's forwarding target already has the message
	if len(list[0].Recipients) != 1 {
		t.Fatalf("%+v", list[0].Recipients)
	}
	q := list[0].Recipients[0]
	if q.State != queue.Waiting || q.Target != bob.ID || q.Address != "bob@example.com" {
		t.Errorf("%+v", q)
	}
	w.has(alice, 1)
	name, target, err := w.Router.routes.destinationFor(bg, outbound.Usual, &q,
		&smtp.Path{Local: "bob", Domain: "example.com"})
	if err != nil || name != "domain server two.example" || target.Place != "two.example" || len(target.Peers) != 1 ||
		target.Peers[0].Address != "two.example:25" {
		t.Errorf("%s %+v %v", name, target, err)
	}
	w.route()
	w.queue(1)

	// A message to alice alone is forwarded as its own message, with a Delivered-To field.
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	list = w.queue(2)
	k, ok := list[1], false
	for _, e := range list {
		if e.From.Local != "eve" {
			k, ok = e, true
		}
	}
	if !ok || len(k.Recipients) != 1 || k.Recipients[0].Target != bob.ID {
		t.Fatalf("%+v", list)
	}
	raw, err := w.Queue.Message(bg, w.Queue.Boxes.KeyOf(&k), 0)
	if err != nil || !strings.Contains(string(raw), "Delivered-To: alice@example.com") {
		t.Errorf("%v: %s", err, raw)
	}

	// bob moves here: his waiting messages are delivered, not sent.
	_, err = w.people.People.Set(bg, note.System, bob.ID,
		func(f *directory.PersonFields) error { f.MailServer = w.people.Servers.Self(); return nil })
	w.ok(err)
	db, err := w.files.Make(bg, bob.ID, "bob", 0, 0)
	w.ok(err)
	_, err = w.people.People.Set(bg, note.System, bob.ID,
		func(f *directory.PersonFields) error { f.MailDatabase = db; return nil })
	w.ok(err)
	if bob, err = w.people.Names.Person(bg, bob.ID); err != nil {
		t.Fatal(err)
	}
	w.Router.readAnew()
	w.route()
	w.queue(0)
	w.has(bob, 2)

	// bob moves away again, while a message waits for local delivery to him.
	w.ok(w.Hold(bg, w.depositHeld("bob@example.com")))
	_, err = w.people.People.Set(bg, note.System, bob.ID,
		func(f *directory.PersonFields) error { f.MailServer = there; return nil })
	w.ok(err)
	e := w.queue(1)[0]
	w.ok(w.Queue.Change(bg, e.ID, func(e *queue.Entry) { e.Held = false; e.Recipients[0].State = queue.Pending }))
	w.route()
	if q := w.queue(1)[0].Recipients[0]; q.State != queue.Waiting || q.Attempts != 0 {
		t.Errorf("%+v", q)
	}
}

func (w *world) depositHeld(to string) note.UNID {
	w.t.Helper()
	sub := w.from("eve@far.example", to)
	sub.Hold = "by a filter"
	w.deposit(sub)
	return sub.ID
}

// TestConsignTransit checks that a message to another place keeps its sender, is not signed, and has the same transit
// parameter each time.
func TestConsignTransit(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	_, there := w.domain(t)
	bob, ann := w.away("bob", there), w.away("ann", there)
	sub := w.from("eve@far.example", "bob@example.com", "ann@example.com", "x@other.example")
	sub.Recipients[2].Outside = true
	sub.Junk = true
	w.deposit(sub)
	e := w.queue(1)[0]
	c, err := w.Router.transfers.consign(bg, w.Queue.Boxes.KeyOf(&e), "domain server two.example")
	if err != nil || c == nil || len(c.index) != 2 {
		t.Fatalf("%+v, %v", c, err)
	}
	again, err := w.Router.transfers.consign(bg, w.Queue.Boxes.KeyOf(&e), "domain server two.example")
	if err != nil || again.message.Transit != c.message.Transit {
		t.Error("another word for the same recipients")
	}
	tr, ok := ParseTransit(c.message.Transit)
	if !ok || tr.ID == e.ID || !tr.Junk || !tr.Unsigned || tr.Unproven {
		t.Errorf("%+v of %s", tr, c.message.Transit)
	}
	if c.message.From.String() != "eve@far.example" || !c.signed {
		t.Errorf("%+v", c.message.From)
	}
	for i, p := range []directory.Person{bob, ann} {
		if got := c.message.To[i].Params.Transit; got != "p-"+p.ID.String() {
			t.Errorf("recipient %d is %s", i, got)
		}
	}
	other, err := w.Router.transfers.consign(bg, w.Queue.Boxes.KeyOf(&e), "other.example")
	if err != nil || len(other.index) != 1 || other.message.Transit != "" || other.message.To[0].Params.Transit != "" ||
		other.message.From.Local == "eve" {
		t.Errorf("what leaves the domain: %+v, %v", other.message, err)
	}
	// Outcomes are assigned by person, and the pause after a failure within the domain is short.
	s := &settlement{}
	w.Router.outcomes.apply(&e, &outcome{address: "ann@example.com", target: ann.ID, reply: replyElsewhere}, s)
	if q := e.Recipients[1]; q.Next.Sub(w.fix.Clock.Now()) > matesPause || q.Attempts != 1 ||
		e.Recipients[0].Attempts != 0 {
		t.Errorf("%+v", e.Recipients)
	}
}

// TestIncoming checks that a recipient that a server of the domain names is accepted, or rejected temporarily if the
// reason may go away.
func TestIncoming(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	here, there := w.domain(t)
	w.person("alice")
	alice, err := w.people.Names.PersonNamed(bg, "alice")
	w.ok(err)
	bob := w.away("bob", there)
	db, err := w.files.Make(bg, note.UNID{}, "box", 0, 0)
	w.ok(err)
	box, err := w.people.MailIns.Add(bg, note.System, directory.MailInFields{Name: "Box",
		InternetAddress: "box@example.com", Database: db, MailServer: here})
	w.ok(err)
	for _, c := range []struct {
		word string
		want string
		id   note.UNID
	}{
		{"p-" + alice.ID.String(), "", alice.ID}, {"m-" + box.ID.String(), "", box.ID},
		{"p-" + bob.ID.String(), "4.4.6", note.UNID{}},
		{"m-" + alice.ID.String(), "4.4.6", note.UNID{}}, {"p-" + note.UNID{7}.String(), "4.4.6", note.UNID{}},
		{"p-", "5.5.4", note.UNID{}}, {"x", "5.5.4", note.UNID{}},
	} {
		r, err := w.Deposits.Incoming(bg, smtp.Path{Local: "any", Domain: "example.com"},
			smtp.RcptParams{Transit: c.word}, 0)
		got := ""
		if reply, ok := err.(*smtp.Reply); ok {
			got = reply.Enhanced.String()
		} else {
			w.ok(err)
		}
		if got != c.want || got == "" && r.Target.ID != c.id {
			t.Errorf("%s: %s %+v", c.word, got, r.Target)
		}
	}
}

func TestTransitText(t *testing.T) {
	t.Parallel()
	for _, want := range []Transit{{ID: note.UNID{1}}, {ID: note.UNID{2}, Junk: true},
		{ID: note.UNID{3}, Junk: true, Unsigned: true, Unproven: true}} {
		if got, ok := ParseTransit(want.String() + ".later"); !ok || got != want {
			t.Errorf("%s reads %+v", want, got)
		}
	}
	for _, bad := range []string{"", "junk", note.UNID{}.String(), ".junk"} {
		if got, ok := ParseTransit(bad); ok {
			t.Errorf("%q reads %+v", bad, got)
		}
	}
}
