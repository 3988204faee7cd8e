// Package webcal reads calendars that other servers publish as iCalendar text at a URL.
package webcal

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"doublet/client/reach"
)

// MaxSize is the maximum size of a feed in bytes.
const MaxSize = 10 << 20

const (
	// within is the timeout of a request with its redirects.
	within = time.Minute
	// maxRedirects is the maximum number of redirects that a request follows.
	maxRedirects = 5
	// maxValidator bounds an ETag and a Last-Modified, in bytes: longer ones are not used.
	maxValidator = 500
)

// ErrTooLarge means that a feed is larger than MaxSize.
var ErrTooLarge = errors.New("feed is larger than 10 MB")

// Refused is the error of a server that does not return the feed.
type Refused struct{ Status int }

// Error returns a text with the status.
func (r *Refused) Error() string {
	return fmt.Sprintf("server answers %d %s", r.Status, http.StatusText(r.Status))
}

// Answer is the response of a server that has the feed.
type Answer struct {
	// Unchanged is set if the feed is the one that the validators name; Text is nil then.
	Unchanged      bool
	Text           []byte
	ETag, Modified string
}

// Client reads feeds. It connects only to hosts that its Guard allows, over https. It is safe for concurrent use.
type Client struct {
	guard *reach.Guard
	http  *http.Client
}

// New returns a Client. roots verifies the certificates of servers; if nil, the system's roots are used.
func New(guard *reach.Guard, roots *x509.CertPool) *Client {
	c := guard.Client(reach.HTTP{Timeout: within, Roots: roots})
	c.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		r.Header.Del("Referer") // the URL of a feed may be a secret
		return nil
	}
	return &Client{guard, c}
}

// URL returns the https URL of a feed as people paste it: webcal: and webcals: stand for https:. The error wraps
// reach.ErrAddress if the URL is not allowed; the addresses of its host are checked with each connection.
func (c *Client) URL(text string) (string, error) {
	text = strings.TrimSpace(text)
	for _, scheme := range []string{"webcal://", "webcals://"} {
		if len(text) > len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			text = "https://" + text[len(scheme):]
		}
	}
	text, _, _ = strings.Cut(text, "#")
	return text, c.guard.Check(text)
}

// Get reads a feed. etag and modified are the validators of the answer before, "" without one. The error is a *Refused
// if the server does not return the feed, ErrTooLarge, or wraps reach.ErrAddress if the URL or a redirect is not
// allowed.
//
// Implements: RFC 9110 §13.1 preconditions, as a client
func (c *Client) Get(ctx context.Context, url, etag, modified string) (*Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", reach.ErrAddress, err)
	}
	r.Header.Set("User-Agent", "Doublet")
	r.Header.Set("Accept", "text/calendar, */*;q=0.1")
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	if modified != "" {
		r.Header.Set("If-Modified-Since", modified)
	}
	out, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Body.Close() }()
	switch {
	case out.StatusCode == http.StatusNotModified && etag+modified != "":
		return &Answer{Unchanged: true, ETag: etag, Modified: modified}, nil
	case out.StatusCode != http.StatusOK:
		return nil, &Refused{out.StatusCode}
	}
	text, err := io.ReadAll(io.LimitReader(out.Body, MaxSize+1))
	if err == nil && len(text) > MaxSize {
		err = ErrTooLarge
	}
	return &Answer{Text: text, ETag: short(out.Header.Get("ETag")),
		Modified: short(out.Header.Get("Last-Modified"))}, err
}

func short(s string) string {
	if len(s) > maxValidator {
		return ""
	}
	return s
}
