// Package jmap implements a JMAP client (RFC 8620, 8621, 8887) for tests, the benchmark and other programs of this
// project. It supports sessions, batches of method calls with back-references, uploads, downloads and push. It bounds
// the size and time of responses, and returns them as values of package doublet/wire/jmap, which implements the
// grammar.
package jmap

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"doublet/env"
	wire "doublet/wire/jmap"
)

// Options holds the server's address and the user's credentials. Zero fields take the defaults, which are in
// parentheses.
type Options struct {
	// URL is the URL of the server ("https://mail.example.com"), whose /.well-known/jmap redirects to the session
	// object. If it has a path, it is the URL of the session object itself.
	URL string
	// User and Password are sent with the Basic scheme. Bearer, if set, is sent as a token instead.
	User, Password, Bearer string
	// Sign, if set, adds other credentials to each request, such as a browser's cookie.
	Sign func(*http.Request)
	// Transport sends the requests; nil means a transport of the client's own. Set it to share connections, such as
	// those of the browser that the client runs in. A WebSocket always has its own connection.
	Transport http.RoundTripper
	TLS       *tls.Config
	// Timeout bounds the response time of a call, and the time without progress of a transfer (1 min).
	Timeout time.Duration
	// Response bounds a response in octets (64 MB), and Values the number of its values (1,000,000).
	Response int64
	Values   int
}

// Client is a client of one server as one user. It is safe for concurrent use.
type Client struct {
	opt  Options
	env  *env.Env
	http *http.Client
	// upgrade opens WebSockets, which need a connection of HTTP/1.1.
	upgrade *http.Transport
	base    *url.URL
	sign    string // Authorization

	mu      sync.Mutex
	session *Session
}

// Errors other than *wire.Problem and *wire.Error, which are the server's error responses.
var (
	// ErrProtocol is returned if a response is not valid JMAP.
	ErrProtocol = errors.New("jmap: the server breaks the protocol")
	// ErrTooLarge is returned if a response exceeds the bounds in Options.
	ErrTooLarge = errors.New("jmap: the answer is larger than is read")
	// ErrTimeout is returned if the server takes too long.
	ErrTimeout error = timeout{}
	// ErrAbsent is returned if the server does not announce a requested feature.
	ErrAbsent = errors.New("jmap: the server does not offer that")
)

type timeout struct{}

func (timeout) Error() string { return "jmap: the server takes too long" }
func (timeout) Timeout() bool { return true }

// New returns a Client. It sends no request.
func New(e *env.Env, o Options) (*Client, error) {
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Response <= 0 {
		o.Response = 64 << 20
	}
	if o.Values <= 0 {
		o.Values = 1_000_000
	}
	base, err := url.Parse(o.URL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("jmap: %q is not the URL of a server", o.URL)
	}
	if base.Path == "" || base.Path == "/" {
		base.Path = "/.well-known/jmap"
	}
	c := &Client{opt: o, env: e, base: base}
	switch {
	case o.Bearer != "":
		c.sign = "Bearer " + o.Bearer
	case o.User != "":
		c.sign = "Basic " + base64.StdEncoding.EncodeToString([]byte(o.User+":"+o.Password))
	}
	transport := func() *http.Transport {
		return &http.Transport{
			DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
				return e.Dial(network, address, o.Timeout)
			},
			TLSClientConfig: o.TLS, DisableCompression: true, MaxIdleConnsPerHost: 64, MaxResponseHeaderBytes: 64 << 10,
			ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
		}
	}
	c.upgrade = transport()
	c.upgrade.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	carrier := o.Transport
	if carrier == nil {
		t := transport()
		t.ForceAttemptHTTP2 = true
		carrier = t
	}
	c.http = &http.Client{Transport: carrier, CheckRedirect: c.redirected}
	return c, nil
}

// maxRedirects bounds the redirects of one request.
const maxRedirects = 5

// redirected follows redirects, such as the one to the session object. Since it sends the credentials again, it rejects
// a redirect from https to http.
func (c *Client) redirected(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("%w: it leads from one place to the next", ErrProtocol)
	}
	if err := c.safe(r.URL); err != nil {
		return err
	}
	c.authorize(r)
	return nil
}

// safe rejects an http URL if the server's URL is https, because the credentials would be sent in the clear.
func (c *Client) safe(u *url.URL) error {
	if u.Scheme != c.base.Scheme && u.Scheme != "https" {
		return fmt.Errorf("%w: it leads away from TLS", ErrProtocol)
	}
	return nil
}

func (c *Client) authorize(r *http.Request) {
	if c.sign != "" {
		r.Header.Set("Authorization", c.sign)
	}
	if c.opt.Sign != nil {
		c.opt.Sign(r)
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// watchdog cancels a request that makes no progress.
type watchdog struct {
	context.Context
	clock  env.Clock
	cancel context.CancelCauseFunc
	last   atomic.Int64 // time of the last progress in nanoseconds

	mu   sync.Mutex
	most time.Duration // longest time without progress; 0 after end
	stop func() bool
}

// watch returns a context for one request, which is canceled if there is no progress for d. Call end when the request
// is done.
func (c *Client) watch(ctx context.Context, d time.Duration) *watchdog {
	w := &watchdog{clock: c.env.Clock, most: d}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	w.patience(d)
	return w
}

func (w *watchdog) progress() { w.last.Store(w.clock.Now().UnixNano()) }

// patience restarts the timer with d.
func (w *watchdog) patience(d time.Duration) {
	w.progress()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop != nil {
		w.stop()
	}
	w.most = d
	w.stop = w.clock.AfterFunc(d, w.look)
}

// look cancels the request if there was no progress for the time allowed. Otherwise it restarts the timer.
func (w *watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	still := time.Duration(w.clock.Now().UnixNano() - w.last.Load())
	switch {
	case w.most == 0:
	case still >= w.most:
		w.cancel(ErrTimeout)
	default:
		w.stop = w.clock.AfterFunc(w.most-still, w.look)
	}
}

func (w *watchdog) end() {
	w.mu.Lock()
	w.most = 0
	w.stop()
	w.mu.Unlock()
	w.cancel(nil)
}

// why returns the reason for which the context was canceled, or err if it was not. A nil err stays nil.
func (w *watchdog) why(err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(w.Context); cause != nil {
		return cause
	}
	return err
}

// request returns a request for a URL, with the credentials.
func (c *Client) request(ctx context.Context, method, to string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if err := c.safe(r.URL); err != nil {
		return nil, err
	}
	c.authorize(r)
	return r, nil
}

// exchange sends a request and reads the whole response, which must be JSON. from is its URL after redirects. If the
// status is not 2xx, the error is a *wire.Problem.
func (c *Client) exchange(w *watchdog, r *http.Request) (v *wire.Value, from *url.URL, err error) {
	r.Header.Set("Accept", "application/json")
	out, err := c.http.Do(r)
	if err != nil {
		return nil, nil, fmt.Errorf("jmap: %s: %w", r.Method, w.why(err))
	}
	defer out.Body.Close()
	text, err := c.read(out)
	switch {
	case err != nil:
		return nil, nil, w.why(err)
	case out.StatusCode/100 != 2:
		return nil, nil, problem(out, text)
	}
	v, err = c.parse(text)
	return v, out.Request.URL, err
}

// read reads a body within the bounds.
func (c *Client) read(out *http.Response) (string, error) {
	if out.ContentLength > c.opt.Response {
		return "", ErrTooLarge
	}
	// Do not trust Content-Length: start with at most 1 MB.
	b := make([]byte, 0, min(max(out.ContentLength+1, 4<<10), 1<<20))
	for {
		n, err := out.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > c.opt.Response:
			return "", ErrTooLarge
		case errors.Is(err, io.EOF):
			return unsafe.String(unsafe.SliceData(b), len(b)), nil // nothing writes to b after this
		case err != nil:
			return "", fmt.Errorf("jmap: read: %w", err)
		case len(b) == cap(b):
			b = slices.Grow(b, cap(b))
		}
	}
}

// problem converts an error response into a *wire.Problem.
func problem(out *http.Response, text string) error {
	v, err := wire.Parse(text, wire.Bounds{Values: 1000, Depth: 10})
	if err != nil || v.Kind() != wire.Object {
		return &wire.Problem{Type: wire.ProblemBlank, Status: out.StatusCode, Title: http.StatusText(out.StatusCode)}
	}
	return wire.ReadProblem(v, out.StatusCode)
}

// parse parses the JSON of a response.
func (c *Client) parse(text string) (*wire.Value, error) {
	v, err := wire.Parse(text, wire.Bounds{Values: c.opt.Values})
	switch {
	case errors.Is(err, wire.ErrBounds):
		return nil, fmt.Errorf("%w: %w", ErrTooLarge, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return v, nil
}
