package mail

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/outbound/sink"
	"doublet/mail/queue"
	"doublet/note"
)

// forger signs for far.example, and counts the signatures.
type forger struct{ made atomic.Int32 }

func (g *forger) Header(_ context.Context, domain string, message []byte) ([]byte, error) {
	if domain != "far.example" || !strings.HasSuffix(string(message), "world.\r\n") {
		return nil, errors.New("not ours")
	}
	h := fmt.Appendf(nil, "DKIM-Signature: n%d\r\n", g.made.Add(1))
	time.Sleep(time.Millisecond) // as RSA takes: the message's other deliveries ask for the signature meanwhile
	return h, nil
}

func TestSignedAndRound(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{Signer: &forger{}}, sink.Options{})
	sender := f.person("sender")
	sub := f.from("sender@example.com", "u@far.example")
	sub.Proven = true
	f.deposit(sub)
	sub = f.from("sender@example.com", "round@far.example")
	sub.Message = []byte(strings.Repeat("Received: from x by mx.example.com; Mon, 5 Jan 2026 08:00:00 +0000\r\n",
		11) + plain)
	f.deposit(sub)
	f.flush()
	if got := f.sink.Messages(); len(got) != 1 || !strings.HasPrefix(got[0].Data, "DKIM-Signature: n1\r\nReceived:") {
		t.Errorf("%+v", got)
	}
	parseReport(t, f.has(sender, 1)[0]).field(t, 1, "Status", "5.4.6")
}

// TestSignsOnce checks that a signature, the most expensive step for a message, is made only once for several
// destinations and retries. For an unreachable server it is not made at all.
func TestSignsOnce(t *testing.T) {
	t.Parallel()
	g := &forger{}
	f := openFar(t, Options{Signer: g}, sink.Options{Reply: once("DATA", "451 4.3.0 later")})
	f.zone.Set(farZone +
		"second.example. IN A 127.0.0.1\nthird.example. IN A 127.0.0.1\ndown.example. IN A 127.0.0.9\n")
	sub := f.from("eve@far.example", "u@far.example", "v@second.example", "w@third.example", "x@down.example")
	sub.Proven = true
	f.deposit(sub)
	f.flush()
	f.after(6 * time.Minute)
	if got := f.sink.Messages(); len(got) != 3 || g.made.Load() != 1 {
		t.Errorf("%d sent, %d signatures", len(got), g.made.Load())
	}
	for _, m := range f.sink.Messages() {
		if !strings.HasPrefix(m.Data, "DKIM-Signature: n1\r\n") {
			t.Errorf("%.60s", m.Data)
		}
	}
}

// TestKeptSignatures checks that messages without a signature take no place of one that is cached.
func TestKeptSignatures(t *testing.T) {
	t.Parallel()
	g := &forger{}
	f := openFar(t, Options{Signer: g}, sink.Options{})
	s := &signer{dir: f.people, env: f.fix.Env, opt: &Options{Signer: g}}
	sign := func(id note.UNID, unsigned bool) {
		c := &consignment{entry: &queue.Entry{ID: id, Unsigned: unsigned}}
		c.message.Data = []byte("From: eve@far.example\r\n\r\nHello, world.\r\n")
		s.sign(bg, c)
	}
	signed := note.UNID{1}
	sign(signed, false)
	for i := range keptSignatures {
		sign(note.UNID{2, byte(i), byte(i >> 8)}, true)
	}
	sign(signed, false)
	if g.made.Load() != 1 {
		t.Errorf("%d signatures", g.made.Load())
	}
}

// TestNotSignedForStrangers checks that a message from outside with a forged local author is not signed when a person
// or a list forwards it.
func TestNotSignedForStrangers(t *testing.T) {
	t.Parallel()
	g := &forger{}
	f := openFar(t, Options{Signer: g}, sink.Options{})
	alice := f.reader("alice")
	f.set(alice, func(p *directory.PersonFields) { p.Forward = []string{"a@far.example"} })
	_, err := f.people.Groups.Add(bg, note.System, directory.GroupFields{Name: "Team",
		InternetAddress: "team@example.com", Members: []string{"b@far.example"}})
	f.ok(err)
	f.mailingList(func(l *directory.GroupFields) { l.List.Post, l.List.Rewrite = directory.PostAnyone, "never" },
		"c@far.example")
	to := []string{"alice@example.com", "team@example.com", "chess@example.com"}
	f.deposit(f.from("eve@far.example", to...))
	f.flush()
	if got := f.sink.Messages(); len(got) != 3 || g.made.Load() != 0 {
		t.Errorf("%d sent, %d signatures", len(got), g.made.Load())
	}
	sub := f.from("eve@far.example", to...)
	sub.Proven = true
	f.deposit(sub)
	f.flush()
	if got := f.sink.Messages(); len(got) != 6 || g.made.Load() == 0 {
		t.Errorf("%d sent, %d signatures", len(got), g.made.Load())
	}
	// A person who resends a colleague's message does not authenticate its author.
	before := g.made.Load()
	sub = f.from("alice@example.com", "d@far.example")
	sub.Message = []byte("Resent-From: alice@example.com\r\n" + plain)
	who, err := f.people.Names.WhoOf(bg, alice.ID)
	f.ok(err)
	sub.Submitter = &Submitter{Who: who, Address: "alice@example.com"}
	f.deposit(sub)
	f.flush()
	if got := f.sink.Messages(); len(got) != 7 || g.made.Load() != before {
		t.Errorf("%d sent, %d signatures more", len(got), g.made.Load()-before)
	}
}
