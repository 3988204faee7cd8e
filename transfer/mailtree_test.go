package transfer

import (
	"context"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

const (
	one = "From ada@example.com Thu Jan  1 10:00:00 2026\nFrom: ada@example.com\nSubject: one\nStatus: RO\n" +
		"X-Status: F\n\nbody\n>From here\n\n"
	two = "From bo@example.com Fri Jan  2 10:00:00 2026\nFrom: bo@example.com\nSubject: two\n\nmore\n"
)

func TestImportedFlags(t *testing.T) {
	t.Parallel()
	s := newService(t)
	writeFile(t, s, "in.mbox", one+two)
	writeFile(t, s, "Maildir/cur/1767261600.M1.host:2,FS", "Subject: kept\n\nx\n")
	writeFile(t, s, "Maildir/.Sent.Old/new/1767261601.M2.host", "Subject: sent\n\nx\n")
	writeFile(t, s, "Maildir/.Sent.Old/cur/.keep", "")
	ctx := context.Background()
	p := add(t, s, "Ada", "ada")
	must[Result](t)(s.job().Mbox(ctx, &Mbox{Path: "in.mbox", User: "Ada"}))
	must[Result](t)(s.job().Maildir(ctx, &Maildir{Path: "Maildir", User: "Ada"}))
	who := must[note.Who](t)(s.directory.Names.WhoOf(ctx, p.ID))
	type row struct{ flags, date, body string }
	read := func(folder string) (rows []row) {
		view, _, err := s.mailbox.File(who, p.MailDatabase).Open(ctx, folder, true)
		if err != nil {
			t.Fatal(err)
		}
		err = view.Fetch(ctx, mailbox.Set{{Start: 1, Stop: 0}}, true, mailbox.FetchOptions{},
			func(m *mailbox.Message) (bool, error) {
				body, err := m.Body()
				if err != nil {
					return false, err
				}
				raw, err := body.AppendRange(nil, 0, body.Size())
				rows = append(rows, row{string(m.Flags().AppendIMAP(nil)), m.Date().Format(time.DateTime), string(raw)})
				return false, err
			}, func() error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	inbox := read("INBOX")
	want := []row{
		{`\Seen \Flagged`, "2026-01-01 10:00:00",
			crlf("From: ada@example.com\nSubject: one\nStatus: RO\nX-Status: F\n\nbody\n>From here\n")},
		{"", "2026-01-02 10:00:00", crlf("From: bo@example.com\nSubject: two\n\nmore\n")},
		{`\Seen \Flagged`, "2026-01-01 10:00:00", crlf("Subject: kept\n\nx\n")},
	}
	for i := range want {
		if i >= len(inbox) || inbox[i] != want[i] {
			t.Errorf("message %d: got %+q, want %+q", i, inbox[min(i, len(inbox)-1)], want[i])
		}
	}
	if old := read("Sent/Old"); len(old) != 1 || old[0].flags != "" {
		t.Errorf("Sent/Old: %+v", old)
	}
}
