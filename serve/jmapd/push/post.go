package push

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"doublet/client/reach"
	"doublet/directory/session"
	"doublet/wire/jmap"
	"doublet/wire/webpush"
)

const (
	// postTime is the timeout of one push.
	postTime = 30 * time.Second
	// keepFor is the TTL of a push in seconds: how long a push service keeps it for a device that is offline.
	keepFor = 24 * 60 * 60
	// tokenLife is the validity of a VAPID token, and tokenUse the time for which one is reused.
	tokenLife, tokenUse = 12 * time.Hour, 11 * time.Hour
	// maxTokens bounds the cached tokens, one per push service.
	maxTokens = 1000
)

// answer is an error response of a push service.
type answer struct {
	status int
	after  time.Duration // from Retry-After
}

func (a *answer) Error() string { return "push: the push service answers " + strconv.Itoa(a.status) }

// gone reports whether the subscription no longer exists.
func (a *answer) gone() bool {
	return a.status == http.StatusNotFound || a.status == http.StatusGone
}

// final reports whether a retry of the same push is useless.
func (a *answer) final() bool {
	return a.status < 500 && a.status != http.StatusTooManyRequests && a.status != http.StatusRequestTimeout
}

// verification returns the PushVerification object. The device returns its code to prove that it receives pushes.
//
// Implements: RFC 8620 §7.2.2 PushVerification
func verification(s *session.Subscription) []byte {
	dst := append([]byte(`{"@type":"PushVerification","pushSubscriptionId":"`), SubscriptionID(s)...)
	return append(jmap.AppendString(append(dst, `","verificationCode":`...), s.Code), '}')
}

// SubscriptionID returns the id of a subscription.
func SubscriptionID(s *session.Subscription) string { return "p" + s.ID.String() }

// post sends one push.
//
// Implements: RFC 8620 §7.2 PushSubscription
// Implements: RFC 8030 §5 Requesting push message delivery
func (w *web) post(ctx context.Context, d *device, payload []byte) error {
	encrypted := d.keys != nil
	if encrypted {
		var err error
		if payload, err = w.encrypt(d.keys, payload); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.sub.URL, bytes.NewReader(payload))
	if err != nil {
		return fmt.Errorf("%w: %w", reach.ErrAddress, err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("TTL", strconv.Itoa(keepFor))
	r.Header.Set("Urgency", "normal")
	r.Header.Set("User-Agent", "Doublet")
	if encrypted {
		r.Header.Set("Content-Encoding", webpush.Encoding)
	}
	if w.opt.Key != nil {
		text, err := w.authorization(r.URL)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", text)
	}
	out, err := w.http.Do(r)
	if err != nil {
		return fmt.Errorf("push: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(out.Body, 4096)) // read the body so that the connection can be reused
	_ = out.Body.Close()
	if out.StatusCode >= 200 && out.StatusCode < 300 {
		return nil
	}
	return &answer{out.StatusCode, w.retryAfter(out.Header.Get("Retry-After"))}
}

// retryAfter parses a Retry-After field: seconds, or a date.
func (w *web) retryAfter(text string) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(0, t.Sub(w.p.env.Clock.Now()))
	}
	return 0
}

// encrypt encrypts a message so that only the device can read it.
func (w *web) encrypt(keys *webpush.Keys, payload []byte) ([]byte, error) {
	var salt [16]byte
	w.p.env.Fill(salt[:])
	for {
		var secret [32]byte
		w.p.env.Fill(secret[:])
		private, err := ecdh.P256().NewPrivateKey(secret[:])
		if err != nil {
			continue // a random value is out of range with probability 2^-32
		}
		return webpush.Encrypt(*keys, private, salt, payload)
	}
}

// tokens caches VAPID tokens by the origin of the push service.
type tokens struct {
	mu   sync.Mutex
	kept map[string]token
}

type token struct {
	text  string
	until time.Time
}

// authorization returns the VAPID token that identifies this server to a push service.
func (w *web) authorization(to *url.URL) (string, error) {
	origin := to.Scheme + "://" + to.Host
	now := w.p.env.Clock.Now()
	v := &w.vapid
	v.mu.Lock()
	defer v.mu.Unlock()
	if t := v.kept[origin]; now.Before(t.until) {
		return t.text, nil
	}
	text, err := webpush.Authorization(w.opt.Key, w.p.env.Rand, origin, w.opt.Contact, now.Add(tokenLife))
	if err != nil {
		return "", err
	}
	if len(v.kept) >= maxTokens {
		clear(v.kept)
	}
	v.kept[origin] = token{text, now.Add(tokenUse)}
	return text, nil
}
