package drive

import (
	"context"
	"slices"
	"testing"

	"doublet/bench/ledger"
	"doublet/bench/workload"
)

// TestLedgerOfWhatWasDone checks that an OK to a command about a UID that is gone acknowledges nothing, and that the
// server must keep every effect that it reported.
func TestLedgerOfWhatWasDone(t *testing.T) {
	t.Parallel()
	const id = "m@far.example"
	for _, c := range []struct {
		name    string
		do      workload.Verb
		says    script
		broken  bool // found breaks what was acknowledged
		flagged bool
	}{
		{"deleted", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)",
			"S * 1 FETCH (UID 10 FLAGS (\\Deleted))", "S $T OK", "C UID EXPUNGE 10", "S * 1 EXPUNGE", "S $T OK"},
			true, false},
		{"nothing marked", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)", "S $T OK", "C UID EXPUNGE 10",
			"S * 1 EXPUNGE", "S $T OK"}, false, false},
		{"another marked", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)",
			"S * 1 FETCH (UID 9 FLAGS (\\Deleted))", "S $T OK", "C UID EXPUNGE 10", "S * 1 EXPUNGE", "S $T OK"},
			false, false},
		{"nothing expunged", workload.Delete, script{"C UID STORE 10 +FLAGS (\\Deleted)",
			"S * 1 FETCH (UID 10 FLAGS (\\Deleted))", "S $T OK", "C UID EXPUNGE 10", "S $T OK"}, false, false},
		{"moved", workload.Move, script{"C UID MOVE 10 Archive", "S * 1 EXPUNGE", "S $T OK"}, true, false},
		{"nothing moved", workload.Move, script{"C UID MOVE 10 Archive", "S $T OK"}, false, false},
		{"flagged", workload.Update, script{"C UID STORE 10 +FLAGS (\\Flagged)",
			"S * 1 FETCH (UID 10 FLAGS (\\Flagged))", "S $T OK"}, true, false},
		{"flagged, and it is", workload.Update, script{"C UID STORE 10 +FLAGS (\\Flagged)",
			"S * 1 FETCH (UID 10 FLAGS (\\Flagged))", "S $T OK"}, false, true},
		{"nothing flagged", workload.Update, script{"C UID STORE 10 +FLAGS (\\Flagged)", "S $T OK"}, false, false},
	} {
		w, _ := against(t, after(greeting, c.says))
		w.Ledger = ledger.New()
		s := open(t, w)
		s.open, s.exists, s.top, s.known, s.ids = true, 1, 1, []uint32{10}, map[uint32]string{10: id}
		if _, err := act(s, c.do); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.do == workload.Delete && slices.Contains(s.known, 10) {
			t.Errorf("%s: it is still known", c.name)
		}
		w.Ledger.Added(s.u.Address, id, nil)
		v := w.Ledger.Check("x",
			map[string][]ledger.Message{s.u.Address: {{Folder: ledger.Inbox, ID: id, Flagged: c.flagged}}})
		if (v.Lost+v.Doubled+v.Resurrected > 0) != c.broken {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// TestLedgerOverJMAP checks that the server must keep every effect that it has acknowledged over JMAP, and none that it
// refused.
func TestLedgerOverJMAP(t *testing.T) {
	t.Parallel()
	const refused = `"notUpdated":{"e1":{"type":"forbidden"}},"notDestroyed":{"e1":{"type":"forbidden"}}`
	in := func(folder, id string, flagged bool) []ledger.Message {
		return []ledger.Message{{Folder: folder, ID: id, Flagged: flagged}}
	}
	for _, c := range []struct {
		name   string
		do     workload.Verb
		says   string // of the answer to Email/set; "" for success
		found  []ledger.Message
		broken bool
	}{
		{"flag lost", workload.Update, "", in(ledger.Inbox, "a", false), true},
		{"flagged", workload.Update, "", in(ledger.Inbox, "a", true), false},
		{"flag refused", workload.Update, refused, in(ledger.Inbox, "a", false), false},
		{"not moved", workload.Move, "", in(ledger.Inbox, "a", false), true},
		{"moved", workload.Move, "", in(ledger.Archive, "a", false), false},
		{"resurrected", workload.Delete, "", in(ledger.Inbox, "a", false), true},
		{"deleted", workload.Delete, "", nil, false},
		{"deletion refused", workload.Delete, refused, in(ledger.Inbox, "a", false), false},
		{"added mail lost", workload.Add, "", in(ledger.Inbox, "a", false), true},
	} {
		p, w := playJMAP(t)
		w.Ledger = ledger.New()
		p.says("Email/query", `["Email/query",{"ids":["e1"],"total":1},"c0"],["Email/get",{"state":"1","list":[`+
			`{"id":"e1","messageId":["a@bench.example"]}]},"c1"]`)
		s := p.open(t, w)
		if _, err := act(s, workload.Open); err != nil {
			t.Fatal(err)
		}
		w.Ledger.Added(s.u.Address, "a", nil)
		if c.says != "" {
			p.says("Email/set", `["Email/set",{`+c.says+`},"c0"]`)
		}
		if _, err := act(s, c.do); (err != nil) != (c.says != "") {
			t.Errorf("%s: %v", c.name, err)
		}
		v := w.Ledger.Check("x", map[string][]ledger.Message{s.u.Address: c.found})
		if (v.Lost+v.Doubled+v.Resurrected > 0) != c.broken {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

// TestLedgerOfSendingOverJMAP checks that mail whose submission was acknowledged must arrive, and that refused mail
// need not.
func TestLedgerOfSendingOverJMAP(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		p, w := playJMAP(t)
		w.Ledger = ledger.New()
		if refused {
			p.says("Email/import", `["Email/import",{"created":{"m":{"id":"e9"}}},"c0"],["EmailSubmission/set",`+
				`{"notCreated":{"s":{"type":"forbiddenToSend"}}},"c1"]`)
		}
		if _, err := act(p.open(t, w), workload.Send); (err != nil) != refused {
			t.Errorf("refused %t: %v", refused, err)
		}
		v := w.Ledger.Check("x", map[string][]ledger.Message{"u1@example.com": nil, "u2@example.com": nil})
		if (v.Lost > 0) == refused {
			t.Errorf("refused %t: %+v", refused, v)
		}
	}
}

// TestEmails checks the mail that a ledger reads over JMAP: the folders that people use, mail of the benchmark alone,
// and an Email once that comes on two pages.
func TestEmails(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	const second = `{"id":"e2","messageId":["b@bench.example"],"mailboxIds":{"ar":true},"keywords":{}}`
	p.then("Email/query", `["Email/query",{"ids":["e1","e2","e3","e4"]},"c0"],["Email/get",{"list":[{"id":"e1",`+
		`"messageId":["a@bench.example"],"mailboxIds":{"in":true},"keywords":{"$flagged":true}},`+second+
		`,{"id":"e3","messageId":["c@far"],"mailboxIds":{"in":true}},{"id":"e4","messageId":["d@bench.example"],`+
		`"mailboxIds":{"dr":true}}]},"c1"]`,
		`["Email/query",{"ids":["e2"]},"c0"],["Email/get",{"list":[`+second+`]},"c1"]`,
		`["Email/query",{"ids":[]},"c0"],["Email/get",{"list":[]},"c1"]`)
	got, err := w.Emails(context.Background(), &w.Users[0])
	want := []ledger.Message{{Folder: ledger.Inbox, ID: "a", Flagged: true}, {Folder: ledger.Archive, ID: "b"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestEmptyReadOnly checks that emptying a mailbox leaves a folder that the server keeps read-only.
func TestEmptyReadOnly(t *testing.T) {
	t.Parallel()
	w, _ := against(t, script{"S * OK [CAPABILITY IMAP4rev1] hello", "C LOGIN ", "S $T OK [CAPABILITY IMAP4rev1] in",
		"C SELECT ", "S * 2 EXISTS", "S $T OK [READ-ONLY] selected"})
	c, done, err := w.Reader(context.Background(), &w.Users[0])
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if n, err := empty(c, "Recoverable Items"); n != 0 || err != nil {
		t.Errorf("%d removed: %v", n, err)
	}
}
