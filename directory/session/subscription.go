package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/note"
	"doublet/store"
)

// ErrTooMany reports that a person has the maximum number of subscriptions.
var ErrTooMany = errors.New("session: too many subscriptions")

// Subscription is the push subscription of a person's device (RFC 8620 section 7.2).
type Subscription struct {
	ID     note.UNID
	Person note.UNID
	// Credential identifies the credential that made the subscription. The subscription ends when the credential does.
	Credential string
	Device     string
	URL        string
	// P256dh and Auth are the keys for the encryption of pushes, "" without encryption.
	P256dh, Auth string
	// Code is the code that was pushed to the device. Verified reports that the device has returned it.
	Code     string
	Verified bool
	Created  time.Time
	Ends     time.Time
	// Types lists the types of changes to push. AllTypes selects all types.
	Types    []string
	AllTypes bool
}

// allTypes is the stored form of AllTypes. No type has this name.
const allTypes = "*"

func (s *Subscription) items() note.Items {
	types := s.Types
	if s.AllTypes {
		types = []string{allTypes}
	}
	return note.Items(nil).With(itemForm, note.Text(formSubscription)).With(itemPerson, note.Text(s.Person.String())).
		With(itemCredential, note.Text(s.Credential)).With(itemDevice, note.Text(s.Device)).With(itemURL,
		note.Text(s.URL)).
		With(itemP256dh, note.Text(s.P256dh)).With(itemAuth, note.Text(s.Auth)).With(itemCode,
		note.Text(s.Code)).With(itemVerified, note.Bool(s.Verified)).
		With(itemCreated, note.Int(s.Created.Unix())).With(itemEnds, note.Int(s.Ends.Unix())).With(itemTypes,
		note.TextList(types...))
}

func readSubscription(r *store.Reader, id note.ID) (s Subscription, err error) {
	u, items, err := document(r, id)
	if err != nil || items.Get(itemForm).AsText() != formSubscription {
		return s, errorOr(err, ErrNone)
	}
	s = Subscription{
		ID: u, Credential: items.Get(itemCredential).AsText(), Device: items.Get(itemDevice).AsText(),
		URL:    items.Get(itemURL).AsText(),
		P256dh: items.Get(itemP256dh).AsText(), Auth: items.Get(itemAuth).AsText(), Code: items.Get(itemCode).AsText(),
		Verified: items.Get(itemVerified).AsBool(),
		Created:  unix(items.Get(itemCreated)), Ends: unix(items.Get(itemEnds)),
		Types: items.Get(itemTypes).AsTextList(),
	}
	if len(s.Types) == 1 && s.Types[0] == allTypes {
		s.Types, s.AllTypes = nil, true
	}
	if s.Person, err = note.ParseUNID(items.Get(itemPerson).AsText()); err != nil {
		return s, fmt.Errorf("%w: subscription %s", store.ErrDamaged, u)
	}
	return s, nil
}

// subscriptions stores the push subscriptions of devices, and the position in the feed up to which they were notified.
type subscriptions struct{ *base }

// Subscribe adds a subscription. The caller sets all fields except ID and Created. Errors: ErrTooMany.
func (ss *subscriptions) Subscribe(ctx context.Context, s Subscription) (Subscription, error) {
	s.ID, s.Created = ss.s.UNID(), ss.now()
	err := ss.update(ctx, func(w *store.Writer) error {
		ids, err := w.Lookup(indexSubscriptions, personKey(s.Person))
		if err == nil && len(ids) >= ss.opt.Subscriptions {
			err = ErrTooMany
		}
		if err == nil {
			_, err = w.Create(store.New{UNID: s.ID, Content: note.Content{Items: s.items()}})
		}
		return err
	})
	if err != nil {
		return Subscription{}, fmt.Errorf("session: subscribe: %w", err)
	}
	return s, nil
}

// Subscriptions returns the unexpired subscriptions of a person. The zero UNID means everybody.
func (ss *subscriptions) Subscriptions(ctx context.Context, person note.UNID) ([]Subscription, error) {
	var out []Subscription
	now := ss.env.Clock.Now()
	err := ss.read(ctx, func(r *store.Reader) error {
		ids, err := list(r, indexSubscriptions, person)
		for _, id := range ids {
			s, bad := readSubscription(r, id)
			if bad != nil {
				return errors.Join(err, bad)
			}
			if now.Before(s.Ends) {
				out = append(out, s)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("session: subscriptions: %w", err)
	}
	return out, nil
}

// Resubscribe changes a subscription. It calls fn under the database's lock, so fn must be quick. Errors: ErrNone.
func (ss *subscriptions) Resubscribe(ctx context.Context, id note.UNID, fn func(*Subscription) error) error {
	return ss.subscription(ctx, id, func(w *store.Writer, at note.ID, s *Subscription) error {
		if err := fn(s); err != nil {
			return err
		}
		return revise(w, at, s.items())
	})
}

// Unsubscribe deletes a subscription for good. Errors: ErrNone.
func (ss *subscriptions) Unsubscribe(ctx context.Context, id note.UNID) error {
	return ss.subscription(ctx, id, func(w *store.Writer, at note.ID, _ *Subscription) error { return w.Destroy(at) })
}

func (ss *subscriptions) subscription(ctx context.Context, id note.UNID,
	fn func(*store.Writer, note.ID, *Subscription) error) error {
	err := ss.update(ctx, func(w *store.Writer) error {
		at, err := w.Find(id)
		if err != nil {
			return err
		}
		s, err := readSubscription(&w.Reader, at)
		if err != nil {
			return err
		}
		return fn(w, at, &s)
	})
	switch {
	case absent(err):
		return ErrNone
	case err != nil:
		return fmt.Errorf("session: subscription: %w", err)
	}
	return nil
}
