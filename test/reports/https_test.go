package reports

import (
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/reach"
	"doublet/mail/reports"
	"doublet/wire/tlsreport"
)

// TestTLSReportsByHTTPS checks that a TLS report is posted to a web server of the domain. A report that the server
// cannot take now is tried again, one that it rejects is not. Hosts that are not public get none.
func TestTLSReportsByHTTPS(t *testing.T) {
	t.Parallel()
	cert := selfSigned(t, "web.b.example", time.Now())
	status := http.StatusServiceUnavailable
	var got []*tlsreport.Report
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		kind := r.Header.Get("Content-Type")
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/tlsrpt" ||
			kind != "application/tlsrpt+gzip" {
			t.Errorf("%s %s %s: %v", r.Method, r.URL, r.Header, err)
			return
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Error(err)
		}
		report, err := tlsreport.Parse(text)
		if err != nil {
			t.Error(err)
		}
		got = append(got, report)
		rw.WriteHeader(status)
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	ok(t, err)
	w := open(t, 2, "mailto:postmaster@a.example", "https://web.b.example:"+port+"/v1/tlsrpt")
	a := w.houses[0]
	w.zone.Add("web.b.example. A 127.0.0.1\n")
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	ok(t, err)
	roots.AddCert(leaf)
	resolver := dns.New(a.fix.Env, dns.Options{Servers: []string{w.zone.Addr()}})
	sender := func(allowed ...netip.Prefix) {
		o := a.sending
		o.Roots, o.Reach = roots, reach.New(a.fix.Env, resolver, allowed)
		a.sender = reports.NewSender(a.fix.Env, a.book, o)
	}
	count := func() {
		a.write("ada@a.example", "ada@b.example", "ada@a.example")
		w.clock.until(1)
	}
	send := func() (int, error) {
		ok(t, a.book.Save())
		return a.sender.Send(bg, w.clock.Now().UTC().Format("2006-01-02"))
	}
	count()
	sender() // as in the program
	if n, err := send(); n != 0 || err == nil || len(got) != 0 {
		t.Errorf("a host that is not public: %d reports, %v", n, err)
	}
	sender(netip.MustParsePrefix("127.0.0.0/8"))
	if n, err := send(); n != 0 || err == nil || len(got) != 1 {
		t.Errorf("a server that cannot take it: %d reports, %v, %d posts", n, err, len(got))
	}
	status = http.StatusCreated
	if n, err := send(); n != 1 || err != nil || len(got) != 2 || got[1].ID != got[0].ID {
		t.Fatalf("%d reports, %v, %d posts", n, err, len(got))
	}
	r := got[1]
	sum := r.Policies[0].Summary
	if r.Organization != "a.example" || len(r.Policies) != 1 || sum.Successful+sum.Failed != 1 {
		t.Errorf("%+v", r)
	}
	if n, err := send(); n != 0 || err != nil || len(got) != 2 {
		t.Errorf("a report twice: %d, %v, %d posts", n, err, len(got))
	}
	count()
	status = http.StatusBadRequest
	if n, err := send(); n != 0 || err != nil || len(got) != 3 {
		t.Errorf("a rejected report: %d, %v, %d posts", n, err, len(got))
	}
	if _, err := send(); err != nil || len(got) != 3 {
		t.Errorf("a rejected report again: %v, %d posts", err, len(got))
	}
}
