package reach

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"time"
)

const (
	// handshakeTime is the timeout of the TLS handshake.
	handshakeTime = 10 * time.Second
	// maxHeader is the maximum size of the header of a response, in bytes.
	maxHeader = 16 << 10
	// maxIdle is the maximum number of connections to one host that no request uses.
	maxIdle = 4
)

// HTTP are the options of an HTTP client.
type HTTP struct {
	// Timeout bounds a request with its response.
	Timeout time.Duration
	// Roots verifies the certificates of servers; if nil, the system's roots are used.
	Roots *x509.CertPool
	// Connections is the maximum number of connections to one host, of which maxIdle are kept for a minute. With 0,
	// each request has a connection of its own.
	Connections int
}

// Client returns an HTTP client for URLs that the Guard allows: the error of any other request wraps ErrAddress. It
// follows no redirects.
func (g *Guard) Client(o HTTP) *http.Client {
	return &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: checked{g, &http.Transport{
			DialContext: g.Dial, TLSClientConfig: &tls.Config{RootCAs: o.Roots, Time: g.env.Clock.Now},
			ForceAttemptHTTP2: true, TLSHandshakeTimeout: handshakeTime, MaxResponseHeaderBytes: maxHeader,
			DisableKeepAlives: o.Connections == 0, MaxConnsPerHost: o.Connections, MaxIdleConnsPerHost: maxIdle,
			MaxIdleConns: 100, IdleConnTimeout: time.Minute,
		}},
	}
}

// checked checks the URL of each request, also of redirects.
type checked struct {
	guard *Guard
	next  *http.Transport
}

func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.guard.Check(r.URL.String()); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	return c.next.RoundTrip(r)
}
