package mail

import (
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/wire/smtp"
)

func TestSubmissionHeader(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice", func(s *directory.PersonSpec) { s.MailAddress = []string{"al@example.com"} })
	w.person("bob")
	who, err := w.people.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	const rest = "Date: x\r\nMessage-ID: <2@a>\r\n\r\nbody\r\n"
	for _, c := range []struct{ name, message, want, refused string }{
		{"complete", "From: alice@example.com\r\n" + rest, "", ""},
		{"alias and name", "From: \"Al\" <AL@example.com>\r\n" + rest, "", ""},
		{"detail", "From: alice+x@example.com\r\n" + rest, "", ""},
		{"nothing but From", "From: alice@example.com\r\n\r\nbody\r\n",
			"Date: Mon, 5 Jan 2026 09:00:00 +0000\r\nMessage-ID: <ID@mx.example.com>\r\n", ""},
		{"no From", rest, "From: <alice@example.com>\r\n", ""},
		{"two of From", "From: alice@example.com, al@example.com\r\n" + rest, "Sender: <alice@example.com>\r\n", ""},
		{"two of From and Sender", "From: alice@example.com, al@example.com\r\nSender: al@example.com\r\n" +
			rest, "", ""},
		{"somebody else", "From: bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"somebody else beside", "From: alice@example.com, bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"second From field", "From: alice@example.com\r\nFrom: bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"stranger", "From: eve@far.example\r\n" + rest, "", "550 5.7.1"},
		{"Sender of somebody else", "From: alice@example.com\r\nSender: bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"sent again, not delivered", "Resent-From: alice@example.com\r\nFrom: eve@far.example\r\n" + rest, "",
			"550 5.7.1"},
		{"sent again, not delivered, as a colleague", "Resent-From: alice@example.com\r\nFrom: bob@example.com\r\n" +
			rest, "", "550 5.7.1"},
		{"sent again, of one's own", "Resent-From: alice@example.com\r\nFrom: al@example.com\r\n" + rest, "", ""},
		{"sent again, Sender of somebody else",
			"Resent-From: alice@example.com\r\nFrom: al@example.com\r\nSender: bob@example.com\r\n" + rest, "",
			"550 5.7.1"},
		{"sent again, From without an address", "Resent-From: alice@example.com\r\nFrom: bob:;\r\n" + rest, "",
			"550 5.7.1"},
		{"an address that is its own name", "From: alice@example.com <alice@example.com>\r\n" + rest, "", ""},
		{"an address as the name of another", "From: alice@example.com <bob@example.com>\r\n" + rest, "", "550 5.7.1"},
		{"somebody else as the name of an address", "From: bob@example.com <alice@example.com>\r\n" + rest, "",
			"550 5.7.1"},
		{"two addresses in brackets", "From: <alice@example.com> <bob@example.com>\r\n" + rest, "", "550 5.7.1"},
		{"From with a blank before the colon", "From: alice@example.com\r\nFrom : bob@example.com\r\n" + rest, "",
			"550 5.7.1"},
		{"Sender with two addresses", "From: alice@example.com\r\nSender: alice@example.com <bob@example.com>\r\n" +
			rest, "", "550 5.7.1"},
		{"somebody else within a group", "From: team: alice@example.com, bob@example.com;\r\n" + rest, "", "550 5.7.1"},
		{"an address in a comment", "From: alice@example.com (bob@example.com)\r\n" + rest, "", ""},
		{"an encoded address", "From: =?utf-8?q?bob?=@example.com\r\n" + rest, "", "550 5.7.1"},
		{"From without an address that can be read", "From: <<bob@example.com>>\r\n" + rest, "", "550 5.7.1"},
		{"From of an empty group", "From: bob:;\r\n" + rest, "", "550 5.7.1"},
		{"empty From", "From: <>\r\n" + rest, "", "550 5.7.1"},
		{"Sender without an address", "From: alice@example.com\r\nSender: <<bob@example.com>>\r\n" + rest, "",
			"550 5.7.1"},
		{"no header at all", " From: bob@example.com\r\n" + rest,
			"From: <alice@example.com>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\nMessage-ID: <ID@mx.example.com>\r\n" +
				"\r\n", ""},
		{"sent again by nobody", "Resent-From: <<x>>\r\nFrom: eve@far.example\r\n" + rest, "", "550 5.7.1"},
		{"sent again what somebody had not sent again",
			"Resent-From: alice@example.com\r\nResent-Date: x\r\nReceived: from x\r\nResent-Sender: s@far.example\r\n" +
				"Resent-From: bob@example.com\r\nFrom: al@example.com\r\n" + rest, "", "550 5.7.1"},
		{"sent again by somebody else, behind another field",
			"Resent-To: x@far.example\r\nReceived: from x\r\nResent-From: bob@example.com\r\n" +
				"From: alice@example.com\r\n" + rest, "", "550 5.7.1"},
		{"sent again by somebody else", "Resent-From: bob@example.com\r\nFrom: alice@example.com\r\n" + rest, "",
			"550 5.7.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.inbox(alice.MailDatabase))
			sub := w.from("alice@example.com", "alice@example.com")
			sub.Message = []byte(c.message)
			sub.Submitter = &Submitter{Who: who, Address: "alice@example.com"}
			_, err := w.Deposits.Deposit(bg, sub, nil)
			got := w.inbox(alice.MailDatabase)
			if c.refused != "" {
				if replyCode(err) != c.refused || len(got) != before {
					t.Fatalf("%v, %d messages", err, len(got)-before)
				}
				return
			}
			w.ok(err)
			_, added, _ := strings.Cut(got[before], "+0000\r\n")
			added = strings.TrimSuffix(added, c.message)
			if want := strings.Replace(c.want, "ID@", sub.ID.String()+"@", 1); added != want {
				t.Errorf("added %q, want %q", added, want)
			}
		})
	}
}

func TestReceivedIsSafe(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	for _, c := range []struct{ helo, want string }{
		{"host.example", "host.example"}, {"[IPv6:2001:db8::1]", "[IPv6:2001:db8::1]"}, {"a(b", "unknown"},
		{"a\r\nX: y", "unknown"}, {"", "unknown"},
	} {
		sub := &Submission{Received: &Received{Helo: c.helo, Protocol: "SMTP"}}
		if got := string(w.Deposits.appendReceived(nil, sub)); !strings.HasPrefix(got,
			"Received: from "+c.want+"\r\n\tby ") {
			t.Errorf("%q: %s", c.helo, got)
		}
	}
}

// TestPrivateFields checks that the private fields of a submission are removed, whoever added them.
func TestPrivateFields(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	who, err := w.people.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	const rest = "From: alice@example.com\r\nDate: x\r\nMessage-ID: <2@a>\r\nSubject: s\r\n"
	for i, c := range []struct{ fields, left string }{
		{"Bcc: x@far.example,\r\n y@far.example\r\n", ""},
		{"Return-Path: <x@far.example>\r\nresent-bcc: x@far.example\r\n", ""},
		{"Doublet-Merge-Table:\r\n QQ==\r\n QQ==\r\n", ""},
		{"Authentication-Results: mx.example.com; dmarc=pass header.from=bank.example\r\n", ""},
		{"authentication-results :\r\n (of) MX.example.com. 1; dmarc=pass\r\n", ""},
		{"Authentication-Results: ; dmarc=pass\r\n", ""},
		{"Authentication-Results: other.example; dmarc=pass\r\n",
			"Authentication-Results: other.example; dmarc=pass\r\n"},
		{"Received-SPF: pass (mx.example.com: domain of x designates)\r\nReceived-SPF: pass (o.example: x)\r\n",
			"Received-SPF: pass (o.example: x)\r\n"},
		{"ARC-Seal: i=1; cv=none\r\nARC-Message-Signature: i=1\r\n" +
			"ARC-Authentication-Results: i=1; mx.example.com; dmarc=pass\r\n", ""},
		{"ARC-Seal: i=1; cv=none\r\nARC-Authentication-Results: i=1; o.example; dmarc=pass\r\n",
			"ARC-Seal: i=1; cv=none\r\nARC-Authentication-Results: i=1; o.example; dmarc=pass\r\n"},
	} {
		sub := w.from("alice@example.com", "alice@example.com")
		sub.Message, sub.Submitter = []byte(c.fields+rest+"\r\nbody\r\n"), &Submitter{Who: who,
			Address: "alice@example.com"}
		w.deposit(sub)
		_, got, _ := strings.Cut(w.has(alice, i+1)[i], "+0000\r\n")
		if want := c.left + rest + "\r\nbody\r\n"; got != want {
			t.Errorf("%q left %q", c.fields, got)
		}
	}
}

// TestSendLineEnds checks that no bare line end of a stored message gets into a transaction.
func TestSendLineEnds(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice")
	who, err := w.people.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	for i, message := range []string{"From: alice@example.com\nSubject: s\n\nbody\n.\nMAIL FROM:<x@example.com>\n",
		"From: alice@example.com\r\nSubject: s\r\n\r\nbody\r.\rMAIL FROM:<x@example.com>\r\n"} {
		sub := &Submission{From: path("alice@example.com"), Message: []byte(message),
			Submitter: &Submitter{Who: who, Address: "alice@example.com"}}
		_, err := w.Send(bg, sub, []Addressee{{To: path("alice@example.com")}}, time.Time{})
		w.ok(err)
		got := w.has(alice, i+1)[i]
		if bare, _ := smtp.CheckLines([]byte(got)); bare || !strings.HasSuffix(got,
			"\r\n\r\nbody\r\n.\r\nMAIL FROM:<x@example.com>\r\n") {
			t.Errorf("%q", got)
		}
	}
}
