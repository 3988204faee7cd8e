package push

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"doublet/directory/session"
	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/webpush"
)

// Bounds of subscriptions. They limit abuse: each new subscription makes the server send a request to an address that
// the client chooses.
const (
	maxMade    = 20
	madeWithin = time.Hour
	maxTallies = 10_000
	maxDevice  = 255
)

// tally counts the subscriptions that a person created within madeWithin.
type tally struct {
	n     int
	since time.Time
}

// NewSubscription holds the properties of a new subscription (RFC 8620 section 7.2).
type NewSubscription struct {
	Device, URL  string
	P256dh, Auth string // both set or both empty
	Expires      time.Time
	Types        []string
	AllTypes     bool
}

// SubscriptionChange holds the changes to a subscription. A nil field stays unchanged; Types and AllTypes need
// SetTypes.
type SubscriptionChange struct {
	Code     *string
	Expires  *time.Time // zero Time: the longest allowed
	Types    []string
	AllTypes bool
	SetTypes bool
}

func invalid(property, why string) error {
	return &jmap.Error{Type: "invalidProperties", Properties: []string{property}, Description: why}
}

// Web reports whether push through push services is enabled.
func (p *Service) Web() bool { return p.web.opt.Subscriptions != nil }

// ApplicationServerKey returns the VAPID public key by which push services identify the server, or "" if there is none.
//
// Implements: RFC 9749 §3 Discovering support for VAPID
func (p *Service) ApplicationServerKey() string {
	if p.web.opt.Key == nil || !p.Web() {
		return ""
	}
	return webpush.PublicKey(p.web.opt.Key)
}

// Subscribe creates a subscription and pushes its verification code to the device. Errors for the client are
// *jmap.Error.
func (p *Service) Subscribe(ctx context.Context, c *Caller, n NewSubscription) (session.Subscription, error) {
	w := p.web
	if err := w.check(&n); err != nil {
		return session.Subscription{}, err
	}
	if !w.mayMake(c.Who.Person) {
		return session.Subscription{}, &jmap.Error{Type: "rateLimit",
			Description: "Too many subscriptions were made lately."}
	}
	var code [16]byte
	p.env.Fill(code[:])
	sub, err := w.opt.Subscriptions.Subscribe(ctx, session.Subscription{
		Person: c.Who.Person, Credential: c.Credential, Device: n.Device, URL: n.URL, P256dh: n.P256dh, Auth: n.Auth,
		Code: hex.EncodeToString(code[:]), Ends: w.until(n.Expires), Types: n.Types, AllTypes: n.AllTypes,
	})
	if errors.Is(err, session.ErrTooMany) {
		return sub, &jmap.Error{Type: "overQuota", Description: "There are as many subscriptions as one may have."}
	}
	if err != nil {
		return sub, err
	}
	w.edits.Add(1)
	d, _ := w.put(sub)
	d.mu.Lock()
	d.verify = true
	d.mu.Unlock()
	w.kick(d)
	return sub, nil
}

func (w *web) check(n *NewSubscription) error {
	if n.Device == "" || len(n.Device) > maxDevice {
		return invalid("deviceClientId", "It is missing or too long.")
	}
	if err := w.guard.Check(n.URL); err != nil {
		return invalid("url", strings.TrimPrefix(err.Error(), "push: "))
	}
	if n.P256dh != "" || n.Auth != "" {
		if _, err := webpush.ParseKeys(n.P256dh, n.Auth); err != nil {
			return invalid("keys", strings.TrimPrefix(err.Error(), "webpush: "))
		}
	}
	if !n.Expires.IsZero() && !n.Expires.After(w.p.env.Clock.Now()) {
		return invalid("expires", "It is over.")
	}
	return checkTypes(n.Types)
}

func checkTypes(types []string) error {
	if len(types) > maxTypes {
		return invalid("types", "There are too many.")
	}
	for _, t := range types {
		if !validType(t) {
			return invalid("types", "One is no name of a type.")
		}
	}
	return nil
}

// until returns the expiry of a subscription: the time that the client requests, or the latest one allowed.
//
// Implements: RFC 8620 §7.2 bounds of expires
func (w *web) until(t time.Time) time.Time {
	last := w.p.env.Clock.Now().UTC().Add(w.opt.Life).Truncate(time.Second)
	if t.IsZero() || t.After(last) {
		return last
	}
	return t.UTC().Truncate(time.Second)
}

// mayMake counts a new subscription of a person. It returns false if there were too many lately.
func (w *web) mayMake(person note.UNID) bool {
	now := w.p.env.Clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.made[person]
	if now.Sub(t.since) >= madeWithin {
		t = tally{since: now}
	}
	if t.n++; t.n > maxMade {
		return false
	}
	for id, old := range w.made {
		if len(w.made) < maxTallies {
			break
		}
		if now.Sub(old.since) >= madeWithin || id != person {
			delete(w.made, id)
		}
	}
	w.made[person] = t
	return true
}

// Subscriptions returns the subscriptions that were made with the caller's credential (RFC 8620 section 7.2).
func (p *Service) Subscriptions(ctx context.Context, c *Caller) ([]session.Subscription, error) {
	all, err := p.web.opt.Subscriptions.Subscriptions(ctx, c.Who.Person)
	out := all[:0]
	for _, s := range all {
		if s.Credential == c.Credential {
			out = append(out, s)
		}
	}
	return out, err
}

// errNotYours is the error for a subscription of another credential, or one that does not exist.
var errNotYours = &jmap.Error{Type: "notFound"}

// parseSubscription parses an id.
func parseSubscription(id string) (note.UNID, bool) {
	text, ok := strings.CutPrefix(id, "p")
	u, err := note.ParseUNID(text)
	return u, ok && err == nil && u.String() == text
}

// Resubscribe changes a subscription and returns its new value.
//
// Implements: RFC 8620 §7.2.2 PushSubscription/set
func (p *Service) Resubscribe(ctx context.Context, c *Caller, id string,
	change SubscriptionChange) (session.Subscription, error) {
	var out session.Subscription
	u, ok := parseSubscription(id)
	if !ok {
		return out, errNotYours
	}
	if err := checkTypes(change.Types); err != nil {
		return out, err
	}
	now := p.env.Clock.Now()
	err := p.web.opt.Subscriptions.Resubscribe(ctx, u, func(s *session.Subscription) error {
		switch {
		case s.Person != c.Who.Person || s.Credential != c.Credential || !now.Before(s.Ends):
			return errNotYours
		case change.Code != nil && !hmac.Equal([]byte(*change.Code), []byte(s.Code)):
			return invalid("verificationCode", "It is not the one that was pushed.")
		case change.Expires != nil && !change.Expires.IsZero() && !change.Expires.After(now):
			return invalid("expires", "It is over.")
		}
		s.Verified = s.Verified || change.Code != nil
		if change.Expires != nil {
			s.Ends = p.web.until(*change.Expires)
		}
		if change.SetTypes {
			s.Types, s.AllTypes = change.Types, change.AllTypes
		}
		out = *s
		return nil
	})
	if errors.Is(err, session.ErrNone) {
		return out, errNotYours
	}
	if err == nil {
		p.web.edits.Add(1)
		p.web.put(out)
	}
	return out, err
}

// Unsubscribe removes a subscription with its URL and keys.
func (p *Service) Unsubscribe(ctx context.Context, c *Caller, id string) error {
	list, err := p.Subscriptions(ctx, c)
	if err != nil {
		return err
	}
	for i := range list {
		if SubscriptionID(&list[i]) != id {
			continue
		}
		err = p.web.opt.Subscriptions.Unsubscribe(ctx, list[i].ID)
		p.web.edits.Add(1)
		p.web.drop(list[i].ID)
		if errors.Is(err, session.ErrNone) {
			err = nil // removed meanwhile
		}
		return err
	}
	return errNotYours
}
