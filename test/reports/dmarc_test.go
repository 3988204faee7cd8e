package reports

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/mail"
	"doublet/mail/reports"
	"doublet/wire/smtp"
)

// TestDMARCReportComes checks that a report in Google's form, signed and sent by another server, is read. A report that
// is not authenticated as its author's domain, or is about a foreign domain, is only delivered as mail.
func TestDMARCReportComes(t *testing.T) {
	t.Parallel()
	w := open(t, 2)
	a, b := w.houses[0], w.houses[1]
	text, err := os.ReadFile("../../wire/dmarcreport/testdata/google.xml")
	ok(t, err)
	yesterday := w.clock.Now().Add(-24 * time.Hour).Unix() // a report older than 60 days would be dropped at once
	text = bytes.Replace(text, []byte("1596412800"), []byte(strconv.FormatInt(yesterday, 10)), 1)
	text = bytes.Replace(text, []byte("1596499199"), []byte(strconv.FormatInt(yesterday+86399, 10)), 1)
	for _, c := range []struct{ about, author string }{{"b.example", "forged@none.example"},
		{"c.example", "noreply@a.example"}, {"b.example", "noreply@a.example"}} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write([]byte(strings.ReplaceAll(string(text), "example.org", c.about)))
		ok(t, err)
		ok(t, z.Close())
		sub := mail.Submission{
			From: path(t, "noreply@a.example"), Params: smtp.MailParams{Size: -1}, Answer: mail.AnswerNone,
			Recipients: []mail.Recipient{{To: path(t, "postmaster@b.example"), Outside: true}},
			Message: []byte("From: " + c.author + "\r\nTo: postmaster@b.example\r\nSubject: Report Domain: " + c.about +
				"\r\nMIME-Version: 1.0\r\n" +
				"Content-Type: application/gzip\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
				base64.StdEncoding.EncodeToString(packed.Bytes())[:76] +
				"\r\n" + base64.StdEncoding.EncodeToString(packed.Bytes())[76:] + "\r\n"),
		}
		_, err = a.mail.Deposits.Deposit(bg, &sub, nil)
		ok(t, err)
		a.flush()
	}
	list := b.received()
	if len(list) != 1 || list[0].From != "a.example" || list[0].Organization != "google.com" ||
		list[0].Domain != "b.example" ||
		len(list[0].DMARC) != 1 || list[0].DMARC[0].Count != 1 || list[0].DMARC[0].SPF != "pass" {
		t.Errorf("%+v", list)
	}
}

// TestDMARCReports: a server counts the messages of others in the name of a domain that asks for reports, authenticated
// and forged. It reports them after the end of the day, and the domain's server reads the report. The exchange of
// reports ends.
func TestDMARCReports(t *testing.T) {
	t.Parallel()
	w := open(t, 3)
	a, b, c := w.houses[0], w.houses[1], w.houses[2]
	a.write("ada@a.example", "ada@b.example", "ada@a.example")
	a.write("ada@a.example", "boss@b.example", "ada@a.example")
	c.write("ada@c.example", "ada@b.example", "Forger <ada@a.example>")
	if n := b.send(); n != 0 {
		t.Fatalf("%d reports of a day that is not over", n)
	}
	w.clock.until(1)
	if n := b.send(); n != 1 {
		t.Fatalf("%d reports", n)
	}
	if n := b.send(); n != 0 {
		t.Errorf("%d reports again", n)
	}
	var got *reports.Received
	for _, r := range a.received() {
		if r.Policy != nil {
			got = r
		}
	}
	if got == nil || got.From != "b.example" || got.Domain != "a.example" || got.Policy.Policy != "quarantine" ||
		got.Policy.DKIM != "r" ||
		got.Policy.Percent != 100 {
		t.Fatalf("%+v", got)
	}
	want := map[reports.Source]bool{
		{IP: "192.0.2.1", From: "a.example", Disposition: "none", DKIM: "pass", SPF: "pass", Count: 2}:       true,
		{IP: "192.0.2.3", From: "a.example", Disposition: "quarantine", DKIM: "fail", SPF: "fail", Count: 1}: true,
	}
	for _, s := range got.DMARC {
		if !want[s] {
			t.Errorf("%+v", s)
		}
		delete(want, s)
	}
	if len(want) > 0 {
		t.Errorf("not reported: %v", want)
	}
	w.settle()
}

// settle advances the clock by days without mail until nothing is left to report. It fails if that takes longer than
// the chain of reports: a message causes a DMARC report and a TLS report, the DMARC report causes a TLS report, and
// that causes none.
func (w *town) settle() {
	w.t.Helper()
	w.sendAll()
	w.clock.until(1)
	w.sendAll()
	for range 2 {
		w.clock.until(1)
		if n := w.sendAll(); n != 0 {
			w.t.Errorf("%d reports about reports", n)
		}
	}
}

// sendAll sends the reports of every server and returns their number.
func (w *town) sendAll() (n int) {
	for _, h := range w.houses {
		n += h.send()
	}
	return n
}

// TestDMARCReadersElsewhere checks that a reader at another organization gets reports only if that organization agrees,
// and that no reader gets a report larger than its limit.
func TestDMARCReadersElsewhere(t *testing.T) {
	t.Parallel()
	w := open(t, 2)
	a, b := w.houses[0], w.houses[1]
	w.zone.Add("d.example. TXT \"v=spf1 ip4:192.0.2.1 -all\"\n" +
		"_dmarc.d.example. TXT \"v=DMARC1; p=none; " +
		"rua=mailto:postmaster@a.example,mailto:x@stranger.example,mailto:small@d.example!10\"\n" +
		"d.example._report._dmarc.a.example. TXT \"v=DMARC1\"\n")
	a.write("ada@d.example", "ada@b.example", "ada@d.example")
	w.clock.until(1)
	if n := b.send(); n != 1 {
		t.Errorf("%d reports", n)
	}
}
