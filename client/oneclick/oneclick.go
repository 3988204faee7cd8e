// Package oneclick leaves mailing lists by one request to the list's server (RFC 8058).
package oneclick

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

const (
	// within is the timeout of a request.
	within = 20 * time.Second
	// maxAtOnce is the maximum number of requests at the same time.
	maxAtOnce = 16
)

// ErrBusy means that too many requests are in progress.
var ErrBusy = errors.New("too many requests to mailing lists, try again later")

// Refused is the error of a server that did not accept a request.
type Refused struct{ Status int }

// Error returns a text with the status.
func (r *Refused) Error() string { return fmt.Sprintf("mailing list's server answers %d", r.Status) }

// Client sends the requests. It connects only to hosts that its Guard allows. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	slots chan struct{}
}

// New returns a Client. roots verifies the certificates of servers; if nil, the system's roots are used.
func New(guard *reach.Guard, roots *x509.CertPool) *Client {
	// A redirect is not followed: by RFC 8058 section 3.1 there must be none.
	return &Client{guard.Client(reach.HTTP{Timeout: within, Roots: roots}), make(chan struct{}, maxAtOnce)}
}

// Leave sends the request that leaves a mailing list. It carries no cookie and nothing about the person but what the
// URL holds. The error is a *Refused if the server did not accept it, ErrBusy, or wraps reach.ErrAddress if the URL is
// not allowed.
//
// Implements: RFC 8058 §3.2 the POST request
func (c *Client) Leave(ctx context.Context, url string) error {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return ErrBusy
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("List-Unsubscribe=One-Click"))
	if err != nil {
		return fmt.Errorf("%w: %w", reach.ErrAddress, err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("User-Agent", "Doublet")
	out, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("unsubscribe: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(out.Body, 4096))
	_ = out.Body.Close()
	if out.StatusCode < 200 || out.StatusCode > 299 {
		return &Refused{out.StatusCode}
	}
	return nil
}
