package admin

import (
	"strings"
	"testing"
	"time"

	"doublet/mail/keep"
	"doublet/mail/reports"
	"doublet/wire/tlsreport"
)

// withReports adds a log of received reports, and a sender without anything to report.
func withReports(t *testing.T, s *Running) {
	t.Helper()
	m, err := keep.Open(s.Store, s.Env, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.Received, err = reports.OpenLog(s.Env, m); err != nil {
		t.Fatal(err)
	}
	book, err := reports.OpenBook(s.Env, m, s.Stats)
	if err != nil {
		t.Fatal(err)
	}
	s.Reports = reports.NewSender(s.Env, book, reports.Options{Directory: s.Directory, Post: s.Mail.Deposits,
		Stats: s.Stats})
}

// TestReportTLS checks that the sessions in all reports of a sender are added up, failures by kind and host. Failures
// without details appear as a rest.
func TestReportTLS(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	now := s.Env.Clock.Now()
	for i, age := range []time.Duration{0, 24 * time.Hour, 40 * 24 * time.Hour} {
		r := reports.Received{Organization: "Far Inc.", ID: string('a' + rune(i)), Domain: "example.com",
			Begin: now.Add(-age), End: now.Add(-age)}
		r.TLS = []tlsreport.Result{{
			Policy: tlsreport.Policy{Type: tlsreport.STS}, Summary: tlsreport.Summary{Successful: 5, Failed: 3},
			Details: []tlsreport.Failure{{Type: tlsreport.CertificateExpired, MX: "mx.example.com", Sessions: 2}},
		}}
		if i == 1 {
			r.From = "far.example"
		}
		if err := s.Received.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	show := func(args string) string {
		var b strings.Builder
		for _, x := range mustRun[[]TLSTotal](t, s, "report tls", args) {
			b.WriteString(x.Sender + " " + x.Failure + " " + x.MX + " " + string('0'+rune(x.Sessions)) + "\n")
		}
		return b.String()
	}
	rows := func(sender string, n ...string) string {
		return sender + "   " + n[0] + "\n" + sender + " certificate-expired mx.example.com " + n[1] + "\n" + sender +
			" not told  " + n[2] + "\n"
	}
	if got, want := show(""), rows("Far Inc. (unverified)", "5", "2", "1")+rows("far.example", "5", "2",
		"1"); got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	// ten reports
	if got := show(`{"days":60,"domain":"Example.COM"}`); !strings.HasPrefix(got, "Far Inc. (unverified)   :\n") {
		t.Errorf("%s", got)
	}
	if got := show(`{"domain":"other.example"}`); got != "" {
		t.Errorf("%s", got)
	}
	if got := show(`{"days":0}`); got != show(`{"days":30}`) {
		t.Errorf("0 days are not 30: %s", got)
	}
	for _, days := range []string{"-1", "61"} {
		_, err := attempt[[]TLSTotal](t, s, "report tls", `{"days":`+days+`}`)
		if err == nil || !strings.Contains(err.Error(), "days "+days+": must be 1 to 60, or 0 for the last 30") {
			t.Errorf("%s days: %v", days, err)
		}
	}
	// The records to publish contain the address for reports.
	s.Publish.Reports = "reports"
	text := mustRun[DNSRecords](t, s, "dns show", `{}`).Text()
	for _, want := range []string{`"v=TLSRPTv1; rua=mailto:reports@`, `"v=DMARC1; p=quarantine; rua=mailto:reports@`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

// TestReportDMARC checks that messages of a source with the same results are added up over a sender's reports, the
// largest first.
func TestReportDMARC(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	now := s.Env.Clock.Now()
	for _, id := range []string{"a", "b"} {
		err := s.Received.Add(&reports.Received{
			Organization: "Far Inc.", From: "far.example", ID: id, Domain: "example.com", Begin: now, End: now,
			DMARC: []reports.Source{
				{IP: "192.0.2.1", From: "example.com", Disposition: "none", DKIM: "pass", SPF: "pass", Count: 2},
				{IP: "192.0.2.9", From: "example.com", Disposition: "reject", DKIM: "fail", SPF: "fail", Count: 7},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got := mustRun[[]DMARCTotal](t, s, "report dmarc", `{"domain":"example.com"}`)
	if len(got) != 2 || got[0].Messages != 14 || got[0].Source != "192.0.2.9" || got[0].Disposition != "reject" ||
		got[1].Messages != 4 ||
		got[1].DKIM != "pass" || got[1].Sender != "far.example" {
		t.Errorf("%+v", got)
	}
}
