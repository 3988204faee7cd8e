package mail

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/env"
	"doublet/mail/trace"
	"doublet/wire/smtp"
)

// logged returns a world whose log the test can read.
func logged(t *testing.T, o Options) (*world, func() []string) {
	t.Helper()
	fix := env.Test(t)
	var out bytes.Buffer
	fix.Log = slog.New(slog.NewTextHandler(&out, nil))
	w := openOn(t, fix, o)
	return w, func() (lines []string) {
		for l := range strings.Lines(out.String()) {
			if strings.Contains(l, `msg="mail: message"`) || strings.Contains(l, `msg="mail: delivery"`) {
				lines = append(lines, strings.TrimSpace(l))
			}
		}
		out.Reset()
		return lines
	}
}

// TestJournal checks that each message has a log line when it arrives, and one for each outcome of its delivery, with
// its queue ID.
func TestJournal(t *testing.T) {
	t.Parallel()
	w, lines := logged(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.quota(bob, 1)
	has := func(what, line string, words ...string) {
		t.Helper()
		for _, word := range words {
			if !strings.Contains(line, " "+word) {
				t.Errorf("%s: no %q in\n%s", what, word, line)
			}
		}
	}
	one := func(what string) string {
		t.Helper()
		got := lines()
		if len(got) != 1 {
			t.Fatalf("%s: %d lines: %q", what, len(got), got)
		}
		return got[0]
	}
	sub := w.from("eve@far.example", "alice@example.com")
	sub.Results, sub.Junk = "spf=pass dkim=none dmarc=none", true
	w.deposit(sub)
	has("junk", one("junk"), "id="+sub.ID.String(), "from=eve@far.example", "to=alice@example.com", "recipients=1",
		"size=", "protocol=ESMTP",
		`verdict="spf=pass dkim=none dmarc=none junk"`, "outcome=delivered", "delivered=1", "queued=0", "took=")

	sub = w.from("eve@far.example", "alice@example.com", "bob@example.com", "x@else.example")
	w.deposit(sub)
	has("two of three", one("two of three"), "to=alice@example.com,bob@example.com,x@else.example", "recipients=3",
		"verdict=unchecked", "outcome=delivered,queued", "delivered=1", "queued=2")

	sub = w.from("eve@far.example", "bob@example.com")
	if _, err := w.Deposits.Deposit(bg, sub, nil); err == nil {
		t.Fatal("a full mail file takes mail")
	}
	has("full", one("full"), "outcome=deferred", "refused=1", `reply="452 4.2.2`)

	who, err := w.people.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	sub = w.from("alice@example.com", "bob@example.com")
	sub.Submitter = &Submitter{Who: who, Address: "alice@example.com"}
	if _, err := w.Deposits.Deposit(bg, sub, nil); !ForbiddenFrom(err) {
		t.Fatal(err)
	}
	has("forged", one("forged"), `verdict="authenticated alice@example.com"`, "outcome=refused",
		`reply="mail: header: 550 5.7.1`)

	// No foreign text can create log lines or very long lines.
	sub = w.from("eve@far.example", "alice@example.com")
	sub.From, sub.Results = smtp.Path{Local: "a\nmsg=\"mail: message\" id=x", Domain: strings.Repeat("x", 5000)},
		"spf=\nlevel=ERROR"
	w.deposit(sub)
	if line := one("hostile"); len(line) > 2000 {
		t.Errorf("%d bytes", len(line))
	}

	w.set(bob, func(f *directory.PersonFields) { f.Quota = 0 })
	w.quota(bob, 1<<30)
	w.fix.Time.Advance(w.opt.RetryMax + 1<<42)
	w.route()
	got := lines()
	if len(got) == 0 {
		t.Fatal("no line of a delivery from mail.box")
	}
	has("later", got[0], "to=bob@example.com", "outcome=", "after=")

	w.opt.Quiet = true
	w.Deposits.log.off = true
	w.deposit(w.from("eve@far.example", "alice@example.com"))
	if got := lines(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

// TestJournalBounds checks that an update with very many recipients has few log lines, however they differ.
func TestJournalBounds(t *testing.T) {
	t.Parallel()
	w, lines := logged(t, Options{KeepTrace: -1})
	hops := make([]trace.Hop, 10_000)
	for i := range hops {
		hops[i] = trace.Hop{Event: trace.HopBounced, To: fmt.Sprint(i, "@far.example"), Reply: fmt.Sprint("550 ", i/2)}
	}
	w.Trace.Add(hops...)
	got := lines()
	if len(got) != trace.LogLines+1 {
		t.Fatalf("%d lines", len(got))
	}
	for _, word := range []string{"recipients=9960", "outcome=more"} {
		if !strings.Contains(got[trace.LogLines], word) {
			t.Errorf("no %s in %s", word, got[trace.LogLines])
		}
	}
	if !strings.Contains(got[0], "to=0@far.example,1@far.example recipients=2 outcome=bounced") {
		t.Error(got[0])
	}
}
