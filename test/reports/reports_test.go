package reports

import (
	"testing"
	"time"

	"doublet/client/mtasts"
	"doublet/wire/tlsreport"
)

// TestTLSReports: a server counts its sessions with another one whose certificate does not meet its policy in testing
// mode. It reports them after the end of the day, and the other server reads the report. The exchange of reports ends.
func TestTLSReports(t *testing.T) {
	t.Parallel()
	w := open(t, 2)
	a, b := w.houses[0], w.houses[1]
	a.policy.Policy = &mtasts.Policy{Mode: mtasts.Testing, MX: []string{"mx.b.example"}, MaxAge: time.Hour}
	a.write("ada@a.example", "ada@b.example", "ada@a.example")
	if n := a.send(); n != 0 {
		t.Fatalf("%d reports of a day that is not over", n)
	}
	w.clock.until(1)
	if n := a.send(); n != 1 {
		t.Fatalf("%d reports", n)
	}
	if n := a.send(); n != 0 {
		t.Errorf("%d reports again", n)
	}
	list := b.received()
	if len(list) != 1 {
		t.Fatalf("%d reports came", len(list))
	}
	r := list[0]
	if r.From != "a.example" || r.Organization != "a.example" || r.Domain != "b.example" || len(r.TLS) != 1 ||
		r.End.Sub(r.Begin) != 24*time.Hour-time.Second {
		t.Fatalf("%+v", r)
	}
	p := r.TLS[0]
	if p.Policy.Type != tlsreport.STS || p.Policy.Domain != "b.example" ||
		p.Summary != (tlsreport.Summary{Failed: 1}) || len(p.Details) != 1 ||
		p.Details[0].Type != tlsreport.CertificateNotTrusted || p.Details[0].MX != "mx.b.example" ||
		p.Details[0].Sessions != 1 {
		t.Errorf("%+v", p)
	}
	w.settle()
}
