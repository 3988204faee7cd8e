package assist

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/client/ldap"
	"doublet/directory/password"
)

// with calls fn with a connection. It runs at most maxAtOnce at a time, and none while the breaker is open, so that
// callers do not wait for a directory that does not answer. most is the time for all steps together. An error that is
// not of the entries becomes ErrAway.
func (c *Client) with(ctx context.Context, most time.Duration, fn func(context.Context, *conn) error) error {
	if err := c.queue(ctx); err != nil {
		return err
	}
	defer func() { <-c.gate }()
	if err := c.breaker.enter(c.env.Clock.Now()); err != nil {
		c.stat.Away.Inc()
		return fmt.Errorf("%w: paused after: %w", ErrAway, err)
	}
	inside, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	err := c.attempt(inside, fn)
	if answered(err) {
		c.breaker.leave(c.env.Clock.Now(), nil, true)
		return err
	}
	if errors.Is(err, ldap.ErrReferral) {
		// The server serves other requests: they do not pause because an entry is elsewhere.
		c.breaker.leave(c.env.Clock.Now(), nil, true)
		c.stat.Away.Inc()
		return fmt.Errorf("%w: %w", ErrAway, err)
	}
	c.breaker.leave(c.env.Clock.Now(), err, ctx.Err() == nil)
	c.stat.Away.Inc()
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// answered reports whether the directory served a request, whatever the answer.
func answered(err error) bool {
	return err == nil || errors.Is(err, ErrRefused) || errors.Is(err, ErrNobody) || errors.Is(err, ErrAmbiguous) ||
		errors.Is(err, ErrTooMany)
}

// queue waits for a place among the requests under way.
func (c *Client) queue(ctx context.Context) error {
	select {
	case c.gate <- struct{}{}:
		return nil
	default:
	}
	defer c.waiting.Add(-1)
	if c.waiting.Add(1) > maxWaiting {
		return fmt.Errorf("assist: %w", password.ErrBusy)
	}
	select {
	case c.gate <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrAway, ctx.Err())
	}
}

// attempt calls fn with an idle connection, or a new one. The server may have closed an idle connection, so a failure
// there that is no answer is tried again on a new one.
func (c *Client) attempt(ctx context.Context, fn func(context.Context, *conn) error) error {
	if k := c.take(); k != nil {
		err := fn(ctx, k)
		if c.release(k, err); answered(err) || errors.Is(err, ldap.ErrTimeout) ||
			errors.Is(err, ldap.ErrReferral) || ctx.Err() != nil {
			return err
		}
	}
	k, err := c.dial(ctx)
	if err != nil {
		return err
	}
	err = fn(ctx, k)
	c.release(k, err)
	return err
}

// take returns an idle connection that is open, or nil.
func (c *Client) take() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.idle) > 0 {
		k := c.idle[len(c.idle)-1]
		c.idle = c.idle[:len(c.idle)-1]
		if !k.Closed() {
			return k
		}
		_ = k.Close()
	}
	return nil
}

// release keeps a connection for the next request, or closes it. One that is bound as a person serves no anonymous
// searches.
func (c *Client) release(k *conn, err error) {
	c.mu.Lock()
	keep := answered(err) && !k.Closed() && !c.closed && len(c.idle) < maxIdle && (k.searches || c.set.BindDN != "")
	if keep {
		c.idle = append(c.idle, k)
	}
	c.mu.Unlock()
	if !keep {
		_ = k.Close()
	}
}

// dial connects to the first server that answers.
func (c *Client) dial(ctx context.Context) (*conn, error) {
	var errs []error
	for i := range c.urls {
		k, err := c.dialOne(ctx, &c.urls[i])
		if err == nil {
			return k, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (c *Client) dialOne(ctx context.Context, u *ldap.URL) (*conn, error) {
	config, err := c.set.tls()
	if err != nil {
		return nil, err
	}
	k, err := ldap.Dial(ctx, c.env, *u, ldap.Options{StartTLS: c.set.startTLS(u) && !u.TLS, TLS: config,
		Timeout: c.set.Timeout, Answer: maxAnswer})
	if err != nil {
		return nil, err
	}
	return &conn{Conn: k, searches: c.set.BindDN == ""}, nil
}

// Away returns the reason for which the directory cannot be used now, nil if it can. It asks the directory, also while
// requests are paused; an answer ends the pause.
func (c *Client) Away(ctx context.Context) error {
	k, err := c.dial(ctx)
	if err == nil {
		err = c.base(ctx, k)
		c.release(k, err)
	}
	c.breaker.leave(c.env.Clock.Now(), err, ctx.Err() == nil)
	return err
}

// base looks for the entry of the base.
func (c *Client) base(ctx context.Context, k *conn) error {
	list, _, err := c.query(ctx, k, ldap.Query{Base: c.set.Base, Scope: ldap.ScopeBase, Filter: anyEntry,
		Limit: 1, Attributes: []string{"1.1"}})
	if errors.Is(err, ldap.ErrNoEntry) || err == nil && len(list) == 0 {
		err = fmt.Errorf("assist: base %q is not there, or the bind DN may not read it", c.set.Base)
	}
	return err
}
