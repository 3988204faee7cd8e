package probe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"doublet/client/reach"
	"doublet/env"
)

// WebhookOptions are the settings of a webhook.
type WebhookOptions struct {
	Server, URL, Secret string
	Least               Severity
	// Reach connects to the host of the URL, and only if it is allowed. Roots are the authorities that are trusted
	// there; nil means those of the system.
	Reach *reach.Guard
	Roots *x509.CertPool
}

const (
	// hookTime is the time limit of one request, hookBatch the number of events in it.
	hookTime  = 10 * time.Second
	hookBatch = 50
)

// Webhook returns a channel that posts changes of events to a URL as JSON. The other side accepts them with a status of
// 200 to 299; anything else is tried again.
func Webhook(e *env.Env, o WebhookOptions) (Channel, error) {
	if err := o.Reach.Check(o.URL); err != nil {
		return Channel{}, err
	}
	client := o.Reach.Client(reach.HTTP{Timeout: hookTime, Roots: o.Roots})
	send := func(ctx context.Context, list []Event, _ int) error {
		body, err := json.Marshal(struct {
			Server string  `json:"server"`
			Events []Event `json:"events"`
		}{o.Server, list})
		if err != nil {
			return err
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.URL, bytes.NewReader(body))
		if err != nil {
			return err
		}
		now := strconv.FormatInt(e.Clock.Now().Unix(), 10)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Doublet-Time", now)
		if o.Secret != "" {
			r.Header.Set("X-Doublet-Signature", "sha256="+Sign(o.Secret, now, body))
		}
		return post(client, r)
	}
	return Channel{Name: "webhook", Least: o.Least, Batch: hookBatch, Send: send}, nil
}

// Sign returns the HMAC-SHA256 (RFC 2104) of a time in Unix seconds, a dot and a body, in hex.
func Sign(secret, now string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(now + "."))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func post(client *http.Client, r *http.Request) error {
	answer, err := client.Do(r)
	if err != nil {
		if of := (*url.Error)(nil); errors.As(err, &of) {
			err = of.Err // without the URL, which often holds a secret
		}
		return fmt.Errorf("webhook at %s: %w", r.URL.Hostname(), err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // the answer has no meaning
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("webhook answers %s", answer.Status)
	}
	return nil
}
