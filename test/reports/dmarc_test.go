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
	"doublet/wire/smtp"
)

// TestDMARCReportComes: a report in the form of Google's, sent by another server under its signature, is read; one that is not
// proven to be from its author's domain and one about a domain of others are mail and no more.
func TestDMARCReportComes(t *testing.T) {
	t.Parallel()
	w := open(t, 2)
	a, b := w.houses[0], w.houses[1]
	text, err := os.ReadFile("../../wire/dmarcreport/testdata/google.xml")
	ok(t, err)
	yesterday := w.clock.Now().Add(-24 * time.Hour).Unix() // older than 60 days it would be dropped at once
	text = bytes.Replace(text, []byte("1596412800"), []byte(strconv.FormatInt(yesterday, 10)), 1)
	text = bytes.Replace(text, []byte("1596499199"), []byte(strconv.FormatInt(yesterday+86399, 10)), 1)
	for _, c := range []struct{ about, author string }{{"b.example", "forged@none.example"}, {"c.example", "noreply@a.example"}, {"b.example", "noreply@a.example"}} {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write([]byte(strings.ReplaceAll(string(text), "example.org", c.about)))
		ok(t, err)
		ok(t, z.Close())
		sub := mail.Submission{
			From: path(t, "noreply@a.example"), Params: smtp.MailParams{Size: -1}, Answer: mail.AnswerNone,
			Recipients: []mail.Recipient{{To: path(t, "postmaster@b.example"), Outside: true}},
			Message: []byte("From: " + c.author + "\r\nTo: postmaster@b.example\r\nSubject: Report Domain: " + c.about + "\r\nMIME-Version: 1.0\r\n" +
				"Content-Type: application/gzip\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString(packed.Bytes())[:76] +
				"\r\n" + base64.StdEncoding.EncodeToString(packed.Bytes())[76:] + "\r\n"),
		}
		_, err = a.mail.Deposits.Deposit(bg, &sub, nil)
		ok(t, err)
		a.flush()
	}
	list := b.received()
	if len(list) != 1 || list[0].From != "a.example" || list[0].Organization != "google.com" || list[0].Domain != "b.example" ||
		len(list[0].DMARC) != 1 || list[0].DMARC[0].Count != 1 || list[0].DMARC[0].SPF != "pass" {
		t.Errorf("%+v", list)
	}
}
