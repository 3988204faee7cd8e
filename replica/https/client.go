package https

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/replica"
)

// ClientOptions holds the address of a server and the credentials.
type ClientOptions struct {
	// URL is the server's base URL, such as https://mail.example.com. http is allowed only to this machine.
	URL string
	// User and Secret are the credentials. If User is empty, Secret is a bearer token.
	User, Secret string
	// Fingerprint is the SHA-256 of the server's certificate in hex, for a certificate that no known authority has
	// signed.
	Fingerprint string
	// TLS, if set, replaces the other TLS settings. Servers of a domain use it to authenticate each other.
	TLS *tls.Config
	// Dial, if set, opens connections in place of env. It may refuse an address that the URL resolves to.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the trusted authorities; nil: those of the system.
	Roots *x509.CertPool
	// Silence is the maximum time without data from the server (2 min).
	Silence time.Duration
}

// Client is a Carrier to a server over HTTPS.
type Client struct {
	env  *env.Env
	opt  ClientOptions
	base *url.URL
	http *http.Client
}

var _ replica.Carrier = (*Client)(nil)

// maxAccount is the maximum size of an Account in bytes.
const maxAccount = 16 << 20

// NewClient returns a client. It does not connect yet.
func NewClient(e *env.Env, o ClientOptions) (*Client, error) {
	text := o.URL
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("replica: source: %w", err)
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("replica: source %q is not the URL of a server", o.URL)
	case u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())):
		return nil, fmt.Errorf("replica: source %q: use https", o.URL)
	}
	print := strings.ToLower(strings.ReplaceAll(o.Fingerprint, ":", ""))
	if b, err := hex.DecodeString(print); err != nil || len(b) != 0 && len(b) != sha256.Size {
		return nil, fmt.Errorf("replica: source %q: a fingerprint is the SHA-256 of the certificate, 64 hex digits",
			o.URL)
	}
	if o.Silence <= 0 {
		o.Silence = 2 * time.Minute
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + Path
	c := &Client{env: e, opt: o, base: u}
	cfg := &tls.Config{RootCAs: o.Roots, Time: e.Clock.Now, MinVersion: tls.VersionTLS12}
	if print != "" {
		cfg.InsecureSkipVerify = true // VerifyConnection checks the certificate instead
		cfg.VerifyConnection = func(s tls.ConnectionState) error { return pinned(s, print) }
	}
	if o.TLS != nil {
		cfg = o.TLS
	}
	c.http = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: c.dial, TLSClientConfig: cfg, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 30 * time.Second,
			ResponseHeaderTimeout: o.Silence, MaxIdleConns: 4, IdleConnTimeout: time.Minute,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return c, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// pinned compares the server's certificate with the fingerprint.
func pinned(s tls.ConnectionState, want string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("server presents no certificate")
	}
	sum := sha256.Sum256(s.PeerCertificates[0].Raw)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("server presents certificate %s, not %s", got, want)
	}
	return nil
}

func (c *Client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial := c.opt.Dial
	if dial == nil {
		dial = func(_ context.Context, network, address string) (net.Conn, error) {
			return c.env.Dial(network, address, 30*time.Second)
		}
	}
	conn, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &quiet{Conn: conn, c: c}, nil
}

// quiet closes a connection on which no data moves.
type quiet struct {
	net.Conn
	c *Client
}

func (q *quiet) Read(p []byte) (int, error) {
	_ = q.SetReadDeadline(q.c.env.Clock.Now().Add(q.c.opt.Silence))
	return q.Conn.Read(p)
}

func (q *quiet) Write(p []byte) (int, error) {
	_ = q.SetWriteDeadline(q.c.env.Clock.Now().Add(q.c.opt.Silence))
	return q.Conn.Write(p)
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Host returns the server's name for display.
func (c *Client) Host() string { return c.base.Host }

// Side returns the Side of the server's replicas.
func (c *Client) Side() *replica.Remote { return replica.NewRemote(c) }

// send sends a request. If the response has an error status, it returns an error.
func (c *Client) send(ctx context.Context, method, path, query string, body io.Reader,
	size int64) (*http.Response, error) {
	u := *c.base
	u.Path += path
	u.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if size >= 0 {
		req.ContentLength = size
	}
	req.Header.Set("Content-Type", contentType)
	switch {
	case c.opt.User != "":
		req.SetBasicAuth(c.opt.User, c.opt.Secret)
	case c.opt.Secret != "":
		req.Header.Set("Authorization", "Bearer "+c.opt.Secret)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("replica: %s: %w", c.base.Host, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
	kind := resp.Header.Get(headerKind)
	switch {
	case kind != "":
		return nil, &replica.RemoteError{Kind: kind, Text: string(text)}
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("replica: %s: %w (%s)", c.base.Host, ErrSignIn, resp.Status)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("replica: %s: nothing found at %s: the server is no Doublet, or too old", c.base.Host,
			c.base.Path)
	}
	return nil, fmt.Errorf("replica: %s: %s", c.base.Host, resp.Status)
}

// whole reads a response of at most most bytes.
func whole(resp *http.Response, most int64) ([]byte, error) {
	defer resp.Body.Close()
	if resp.ContentLength > most {
		return nil, replica.ErrTooLarge
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("replica: answer: %w", err)
	case int64(len(b)) > most:
		return nil, replica.ErrTooLarge
	}
	return b, nil
}

// Call implements replica.Carrier.
func (c *Client) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodPost, pathCall+verb, "", bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, err
	}
	return whole(resp, maxBody)
}

// Get implements replica.Carrier.
func (c *Client) Get(ctx context.Context, verb string, head []byte) (io.ReadCloser, error) {
	resp, err := c.send(ctx, http.MethodPost, pathGet+verb, "", bytes.NewReader(head), int64(len(head)))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// Put implements replica.Carrier.
func (c *Client) Put(ctx context.Context, verb string, head []byte, body io.Reader) error {
	resp, err := c.send(ctx, http.MethodPost, pathPut+verb, "head="+base64.RawURLEncoding.EncodeToString(head), body,
		-1)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Account asks the server for the caller's account and databases.
func (c *Client) Account(ctx context.Context) (Account, error) {
	var out Account
	resp, err := c.send(ctx, http.MethodGet, "", "", nil, -1)
	if err != nil {
		return out, err
	}
	b, err := whole(resp, maxAccount)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fmt.Errorf("replica: %s: %w", c.base.Host, err)
	}
	return out, nil
}

// Admit asks the server to let this one, with the key of ClientOptions.TLS, join its domain. Question and answer are
// JSON.
func (c *Client) Admit(ctx context.Context, question []byte) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodPost, pathAdmit, "", bytes.NewReader(question), int64(len(question)))
	if err != nil {
		return nil, err
	}
	return whole(resp, 1<<20)
}

// Busy asks a server of the same domain about free time. Question and answer are JSON of serve/calconn.
func (c *Client) Busy(ctx context.Context, question []byte) ([]byte, error) {
	resp, err := c.send(ctx, http.MethodPost, pathBusy, "", bytes.NewReader(question), int64(len(question)))
	if err != nil {
		return nil, err
	}
	return whole(resp, 1<<20)
}

// Wait waits until one of the databases is no longer at the given sequence number and returns those databases. After a
// timeout at the server it returns none.
func (c *Client) Wait(ctx context.Context, places map[note.DatabaseID]uint64) ([]note.DatabaseID, error) {
	list := make([]Place, 0, len(places))
	for id, seq := range places {
		list = append(list, Place{ID: id.String(), Seq: seq})
	}
	body, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, http.MethodPost, pathWait, "", bytes.NewReader(body), int64(len(body)))
	if err != nil {
		return nil, err
	}
	b, err := whole(resp, 1<<20)
	if err != nil {
		return nil, err
	}
	var answer Waited
	if err := json.Unmarshal(b, &answer); err != nil {
		return nil, fmt.Errorf("replica: %s: %w", c.base.Host, err)
	}
	var out []note.DatabaseID
	for _, text := range answer.Changed {
		if id, err := note.ParseDatabaseID(text); err == nil {
			out = append(out, id)
		}
	}
	return out, nil
}
