package drive

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// browser is a user's browser: cookies, persistent connections, header fields, and cached files. It counts traffic on
// the wire.
type browser struct {
	w         *World
	n         *counted
	base      *url.URL
	transport *http.Transport
	jar       *cookiejar.Jar
	// csrf is the session's token, which the full client sends in a header field; "" for none.
	csrf string
}

// kept is the cache that the browsers of all users share: the validator of each file by its path, "" for a file that
// never expires. With one cache for all, the first user of a run loads everything and the others are returning users,
// as in the course of a day.
type kept struct {
	mu    sync.Mutex
	files map[string]string
}

func (k *kept) get(path string) (validator string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	validator, ok = k.files[path]
	return validator, ok
}

func (k *kept) put(path, validator string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.files == nil {
		k.files = make(map[string]string)
	}
	k.files[path] = validator
}

// web returns the address of the web door, http://host:port/.
func (w *World) web() (*url.URL, error) {
	address, scheme := w.Target.Doors["jmaps"], "https"
	if address == "" {
		address, scheme = w.Target.Doors["jmap"], "http"
	}
	if address == "" {
		return nil, errors.New("drive: the target has no door jmap")
	}
	return &url.URL{Scheme: scheme, Host: address, Path: "/"}, nil
}

func (w *World) newBrowser() (*browser, error) {
	base, err := w.web()
	if err != nil {
		return nil, err
	}
	b := &browser{w: w, n: &counted{}, base: base}
	if b.jar, err = cookiejar.New(nil); err != nil {
		return nil, err
	}
	e := counting(w.Env, b.n)
	b.transport = &http.Transport{
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return e.Dial(network, address, w.timeout())
		},
		DisableCompression: true, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 6, MaxResponseHeaderBytes: 64 << 10,
		ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,
	}
	if base.Scheme == "https" {
		b.transport.TLSClientConfig = w.Target.tlsFor(base.Host).Clone()
	} else {
		b.transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	return b, nil
}

// The fields that every browser sends, at about their usual length.
const (
	userAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 " +
		"Safari/537.36"
	acceptPage     = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
	acceptEncoding = "gzip"
)

// sign adds to a request the fields that a browser adds by itself, and the full client's token.
func (b *browser) sign(r *http.Request) {
	h := r.Header
	h.Set("User-Agent", userAgent)
	h.Set("Accept-Language", "en-GB,en;q=0.9")
	if h.Get("Upgrade") == "" {
		h.Set("Sec-Fetch-Site", "same-origin")
		h.Set("Accept-Encoding", acceptEncoding)
	}
	if r.Method == http.MethodPost || h.Get("Upgrade") != "" {
		h.Set("Origin", b.base.Scheme+"://"+b.base.Host)
	}
	if b.csrf != "" {
		h.Set("X-CSRF-Token", b.csrf)
	}
	h.Del("Cookie") // a redirected request already has them
	for _, c := range b.jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
}

// RoundTrip implements http.RoundTripper. All requests of the browser pass through it, also those of a JMAP client.
func (b *browser) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	b.sign(r)
	out, err := b.transport.RoundTrip(r)
	if err == nil {
		b.jar.SetCookies(r.URL, out.Cookies())
	}
	return out, err
}

// fetched is an answer, read completely.
type fetched struct {
	status int
	at     *url.URL // the address after all redirections
	header http.Header
	body   []byte // as received, possibly compressed
}

// maxFetched is the size limit of one answer.
const maxFetched = 8 << 20

// fetch sends a request, follows redirections and reads the answer.
func (b *browser) fetch(ctx context.Context, method, to string, header http.Header, body []byte) (*fetched, error) {
	u, err := b.base.Parse(to)
	if err != nil || u.Host != b.base.Host || u.Scheme != b.base.Scheme {
		return nil, fmt.Errorf("%w: it leads to %.100q", ErrProtocol, to)
	}
	ctx, cancel := context.WithTimeout(ctx, b.w.timeout())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if header != nil {
		r.Header = header
	}
	out, err := (&http.Client{Transport: b}).Do(r)
	if err != nil {
		return nil, fmt.Errorf("drive: %s: %w", method, err)
	}
	defer out.Body.Close()
	text, err := io.ReadAll(io.LimitReader(out.Body, maxFetched+1))
	if err != nil {
		return nil, fmt.Errorf("drive: read: %w", err)
	}
	if len(text) > maxFetched {
		return nil, fmt.Errorf("%w: an answer of more than %d bytes", ErrProtocol, maxFetched)
	}
	return &fetched{status: out.StatusCode, at: out.Request.URL, header: out.Header, body: text}, nil
}

// text returns the body, decompressed if necessary.
func (f *fetched) text() ([]byte, error) {
	if f.header.Get("Content-Encoding") != "gzip" {
		return f.body, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(f.body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxFetched))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return text, nil
}

// file gets a file of the site and caches its validator. It returns nil if the browser's cache has the file.
func (b *browser) file(ctx context.Context, to string) (*fetched, error) {
	header := http.Header{"Accept": {"*/*"}}
	validator, known := b.w.kept.get(to)
	if known && !b.w.Cold {
		if validator == "" {
			return nil, nil
		}
		header.Set("If-None-Match", validator)
	}
	got, err := b.fetch(ctx, http.MethodGet, to, header, nil)
	if err != nil {
		return nil, err
	}
	switch {
	case got.status == http.StatusNotModified && header.Get("If-None-Match") != "":
		return nil, nil
	case got.status != http.StatusOK:
		return nil, &Refusal{fmt.Sprintf("%d for %s", got.status, family(to))}
	}
	age := got.header.Get("Cache-Control")
	validator = got.header.Get("ETag")
	if strings.Contains(age, "immutable") || strings.Contains(age, "max-age") && validator == "" {
		validator = ""
	} else if validator == "" {
		return got, nil // requested in full every time
	}
	b.w.kept.put(to, validator)
	return got, nil
}

// named matches the version in the name of a file.
var named = regexp.MustCompile(`-[A-Za-z0-9_-]{8}\.|\?.*`)

// sheetURL matches the files that a style sheet names.
var sheetURL = regexp.MustCompile(`url\(["']?(/[^)"']*)`)

// family returns a path without the part that distinguishes versions of a file.
func family(path string) string {
	return named.ReplaceAllStringFunc(path, func(s string) string {
		if s[0] == '?' {
			return ""
		}
		return "-*."
	})
}

// signedOut returns the error for a session that the server has ended; the user signs in again.
func signedOut() error { return &Farewell{"signed out"} }

func (b *browser) close() { b.transport.CloseIdleConnections() }
