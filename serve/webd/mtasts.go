package webd

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// mtaSTS serves the policy that mail for a local domain must go to these hosts over TLS with a valid certificate. It
// responds only over https, and only on the host mta-sts of the domain.
//
// Implements: RFC 8461 §3.3 MTA-STS policy, as its publisher
func (w *Server) mtaSTS(out http.ResponseWriter, r *http.Request) {
	host, domain := w.host(r)
	if r.TLS == nil || host != "mta-sts."+domain || w.opts.MTASTS == "" || w.opts.MTASTS == "off" {
		http.NotFound(out, r)
		return
	}
	var b strings.Builder
	b.WriteString("version: STSv1\r\nmode: " + w.opts.MTASTS + "\r\n")
	mx := w.opts.MX
	if len(mx) == 0 {
		mx = []string{w.system.Name}
	}
	for _, host := range mx {
		b.WriteString("mx: " + host + "\r\n")
	}
	fmt.Fprintf(&b, "max_age: %d\r\n", int64(w.opts.MTASTSAge/time.Second))
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = out.Write([]byte(b.String()))
}
