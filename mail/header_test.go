package mail

import (
	"strings"
	"testing"

	"doublet/directory"
)

func TestSubmissionHeader(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice := w.person("alice", func(s *directory.PersonSpec) { s.MailAddress = []string{"al@example.com"} })
	w.person("bob")
	who, err := w.people.WhoOf(bg, alice.ID)
	w.ok(err)
	const rest = "Date: x\r\nMessage-ID: <2@a>\r\n\r\nbody\r\n"
	for _, c := range []struct{ name, message, want, refused string }{
		{"complete", "From: alice@example.com\r\n" + rest, "", ""},
		{"alias and name", "From: \"Al\" <AL@example.com>\r\n" + rest, "", ""},
		{"detail", "From: alice+x@example.com\r\n" + rest, "", ""},
		{"nothing but From", "From: alice@example.com\r\n\r\nbody\r\n", "Date: Mon, 5 Jan 2026 09:00:00 +0000\r\nMessage-ID: <ID@mx.example.com>\r\n", ""},
		{"no From", rest, "From: <alice@example.com>\r\n", ""},
		{"two of From", "From: alice@example.com, al@example.com\r\n" + rest, "Sender: <alice@example.com>\r\n", ""},
		{"two of From and Sender", "From: alice@example.com, al@example.com\r\nSender: al@example.com\r\n" + rest, "", ""},
		{"somebody else", "From: bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"somebody else beside", "From: alice@example.com, bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"second From field", "From: alice@example.com\r\nFrom: bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"stranger", "From: eve@far.example\r\n" + rest, "", "550 5.7.1"},
		{"Sender of somebody else", "From: alice@example.com\r\nSender: bob@example.com\r\n" + rest, "", "550 5.7.1"},
		{"sent again", "Resent-From: alice@example.com\r\nFrom: eve@far.example\r\n" + rest, "", ""},
		{"From without an address that can be read", "From: <<bob@example.com>>\r\n" + rest, "", "550 5.7.1"},
		{"From of an empty group", "From: bob:;\r\n" + rest, "", "550 5.7.1"},
		{"empty From", "From: <>\r\n" + rest, "", "550 5.7.1"},
		{"Sender without an address", "From: alice@example.com\r\nSender: <<bob@example.com>>\r\n" + rest, "", "550 5.7.1"},
		{"no header at all", " From: bob@example.com\r\n" + rest,
			"From: <alice@example.com>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\nMessage-ID: <ID@mx.example.com>\r\n\r\n", ""},
		{"sent again by nobody", "Resent-From: <<x>>\r\nFrom: eve@far.example\r\n" + rest, "", "550 5.7.1"},
		{"sent again what somebody had sent again", "Resent-From: alice@example.com\r\nResent-Date: x\r\nReceived: from x\r\nResent-Sender: s@far.example\r\nResent-From: bob@example.com\r\nFrom: eve@far.example\r\n" + rest, "", ""},
		{"sent again by somebody else, behind another field", "Resent-To: x@far.example\r\nReceived: from x\r\nResent-From: bob@example.com\r\nFrom: alice@example.com\r\n" + rest, "", "550 5.7.1"},
		{"sent again by somebody else", "Resent-From: bob@example.com\r\nFrom: alice@example.com\r\n" + rest, "", "550 5.7.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.inbox(alice.MailDatabase))
			sub := w.from("alice@example.com", "alice@example.com")
			sub.Message = []byte(c.message)
			sub.Submitter = &Submitter{Who: who, Address: "alice@example.com"}
			_, err := w.Deposit(bg, sub, nil)
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
		{"host.example", "host.example"}, {"[IPv6:2001:db8::1]", "[IPv6:2001:db8::1]"}, {"a(b", "unknown"}, {"a\r\nX: y", "unknown"}, {"", "unknown"},
	} {
		sub := &Submission{Received: &Received{Helo: c.helo, Protocol: "SMTP"}}
		if got := string(w.appendReceived(nil, sub)); !strings.HasPrefix(got, "Received: from "+c.want+"\r\n\tby ") {
			t.Errorf("%q: %s", c.helo, got)
		}
	}
}
