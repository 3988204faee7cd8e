// Package jmap is a JMAP client (RFC 8620, 8621, 8887) for tests, the benchmark and whatever of ours talks to a JMAP
// server: sessions, method calls in batches with back-references, uploads, downloads and pushes. What a server sends is
// bounded in size and time, and read as values of doublet/wire/jmap; the grammar is there.
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

// Options say where a server is, and who asks. Zero fields take the defaults.
type Options struct {
	// URL is the server's ("https://mail.example.com"), whose /.well-known/jmap leads to the session object, or that
	// of the session object itself, with a path.
	URL string
	// User and Password are sent as Basic, or Bearer as a token.
	User, Password, Bearer string
	// Sign puts into each request what proves who asks, where that is neither a password nor a token: a browser's cookie.
	Sign func(*http.Request)
	// Transport carries requests over connections of somebody else, as of the browser that the client runs in; nil for the
	// client's own. A WebSocket has its own in any case.
	Transport http.RoundTripper
	TLS       *tls.Config
	// Timeout is the longest that the answer to a call may take, and that a transfer may stand still (1 min).
	Timeout time.Duration
	// Response bounds an answer in octets (64 MB); Values its values (1,000,000).
	Response int64
	Values   int
}

// Client talks to one server as one user. Any goroutine may use it.
type Client struct {
	opt  Options
	env  *env.Env
	http *http.Client
	// upgrade is for WebSockets, which need a connection of HTTP/1.1.
	upgrade *http.Transport
	base    *url.URL
	sign    string // Authorization

	mu      sync.Mutex
	session *Session
}

// What goes wrong beside *wire.Problem and *wire.Error, which are the server's refusals.
var (
	// ErrProtocol: the server's answer is none of JMAP.
	ErrProtocol = errors.New("jmap: the server breaks the protocol")
	// ErrTooLarge: the answer is larger than Options allow.
	ErrTooLarge = errors.New("jmap: the answer is larger than is read")
	// ErrTimeout: the server took too long.
	ErrTimeout error = timeout{}
	// ErrAbsent: the server does not announce what is asked of it.
	ErrAbsent = errors.New("jmap: the server does not offer that")
)

type timeout struct{}

func (timeout) Error() string { return "jmap: the server takes too long" }
func (timeout) Timeout() bool { return true }

// New makes a Client. Nothing is asked yet.
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
		return nil, fmt.Errorf("jmap: %q is no URL of a server", o.URL)
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
			TLSClientConfig: o.TLS, DisableCompression: true, MaxIdleConnsPerHost: 64, MaxResponseHeaderBytes: 64 << 10, ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
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

// maxRedirects bounds how often the session object is somewhere else.
const maxRedirects = 5

// redirected follows a server that leads to its session object, as long as it stays under TLS where it began so: the
// credentials go along.
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

// safe refuses a URL to which the credentials would go in the clear, though they began under TLS.
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

// Close lets go of the connections that wait.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// watchdog cancels what stands still.
type watchdog struct {
	context.Context
	clock  env.Clock
	cancel context.CancelCauseFunc
	last   atomic.Int64 // nanoseconds, of the last progress

	mu   sync.Mutex
	most time.Duration // how long it may stand still; 0: it is over
	stop func() bool
}

// watch bounds what the server does about one request: it may not stand still for longer than d. A request is over
// with end.
func (c *Client) watch(ctx context.Context, d time.Duration) *watchdog {
	w := &watchdog{clock: c.env.Clock, most: d}
	w.Context, w.cancel = context.WithCancelCause(ctx)
	w.patience(d)
	return w
}

func (w *watchdog) progress() { w.last.Store(w.clock.Now().UnixNano()) }

// patience counts anew, up to d.
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

// look sees whether there was progress since it was called last.
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

// why is err, or what ended the context behind it.
func (w *watchdog) why(err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(w.Context); cause != nil {
		return cause
	}
	return err
}

// request makes a request of a URL.
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

// exchange sends a request and reads the whole answer, which is JSON; from is where it came from in the end. A status
// other than 2xx is a *wire.Problem.
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
	// What is announced and does not come takes little.
	b := make([]byte, 0, min(max(out.ContentLength+1, 4<<10), 1<<20))
	for {
		n, err := out.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > c.opt.Response:
			return "", ErrTooLarge
		case errors.Is(err, io.EOF):
			return unsafe.String(unsafe.SliceData(b), len(b)), nil // nobody writes to b any more
		case err != nil:
			return "", fmt.Errorf("jmap: read: %w", err)
		case len(b) == cap(b):
			b = slices.Grow(b, cap(b))
		}
	}
}

// problem is how the server refuses a request.
func problem(out *http.Response, text string) error {
	v, err := wire.Parse(text, wire.Bounds{Values: 1000, Depth: 10})
	if err != nil || v.Kind() != wire.Object {
		return &wire.Problem{Type: wire.ProblemBlank, Status: out.StatusCode, Title: http.StatusText(out.StatusCode)}
	}
	return wire.ReadProblem(v, out.StatusCode)
}

// parse reads an answer's JSON.
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
