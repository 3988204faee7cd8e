package main

import (
	"math"
	"strings"
	"testing"

	"doublet/bench/workload"
)

// productionLog is a working day of two people: Dovecot 2.3 and Postfix 3.7.
const productionLog = `2026-11-25T09:00:00+01:00 mail dovecot: imap(ann@x.example)<1><a>: Disconnected: Logged out ` +
	`in=3 out=8 deleted=6 expunged=8 trashed=0 hdr_count=160 hdr_bytes=9 body_count=40 body_bytes=833500
2026-11-25T09:00:00+01:00 mail dovecot: imap(bob@x.example)<1><b>: Disconnected: Logged out in=3 out=8 deleted=2 ` +
	`expunged=0 trashed=0 hdr_count=0 hdr_bytes=0 body_count=24 body_bytes=5
2026-11-25T09:01:00+01:00 mail postfix/smtpd[2]: AB12: client=x[::1], sasl_method=PLAIN, sasl_username=bob@x.example
2026-11-25T09:01:00+01:00 mail postfix/qmgr[3]: AB12: from=<bob@x.example>, size=5500, nrcpt=3 (queue active)
`

// TestPlanWorkload derives a workload that the benchmark reads, and that asks of a user what a person does.
func TestPlanWorkload(t *testing.T) {
	t.Parallel()
	path := written(t, t.TempDir(), "mail.log", productionLog)
	code, out, errs := command(t, "", "plan", "workload", path, "--name", "ours", "--mailbox", "500", "--hours", "4")
	if code != 0 {
		t.Fatalf("%d %s", code, errs)
	}
	if code, again, _ := command(t, productionLog, "plan", "workload", "-", "--name", "ours", "--mailbox", "500",
		"--hours", "4"); code != 0 || again != out {
		t.Errorf("from the standard input: %d %s", code, again)
	}
	w, err := workload.Parse("ours", []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	rates := w.PerHour(nil)
	for do, want := range map[string]float64{"read": 8, "scroll": 1, "delete": 1, "send": 0.125} {
		if got := rates[do]; math.Abs(got-want) > 0.03*want {
			t.Errorf("%s %g an hour, want %g", do, got, want)
		}
	}
	if w.Mailbox.Messages != 500 || len(w.Left("imap")) != 0 {
		t.Errorf("%+v, left out over IMAP: %q", w.Mailbox, w.Left("imap"))
	}
	big := written(t, t.TempDir(), "big.log", strings.Replace(productionLog, "=40", "=99999999", 1))
	for want, args := range map[string][]string{
		"no session of Dovecot":       {written(t, t.TempDir(), "other.log", "nothing\n")},
		"want 0.25 to 24":             {path, "--hours", "0"},
		"these logs make no workload": {big},
		"no such file":                {path + "x"},
	} {
		if code, out, errs := command(t, "", append([]string{"plan", "workload"}, args...)...); code != exitUsage ||
			!strings.Contains(errs, want) || out != "" {
			t.Errorf("%v: %d %s %s, want %s", args, code, out, errs, want)
		}
	}
}
