package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/note"
	"doublet/store"
)

// ErrTooMany says that a person has as many subscriptions as they may.
var ErrTooMany = errors.New("session: too many subscriptions")

// Subscription is where a person's device wants to be told of changes (RFC 8620 section 7.2).
type Subscription struct {
	ID     note.UNID
	Person note.UNID
	// Credential is what the subscription was made with; it ends with it.
	Credential string
	Device     string
	URL        string
	// P256dh and Auth are the keys that pushes are encrypted with, "" where there are none.
	P256dh, Auth string
	// Code was pushed to the device; Verified says that it has come back.
	Code     string
	Verified bool
	Created  time.Time
	Ends     time.Time
	// Types are the types of change that are pushed; AllTypes: all.
	Types    []string
	AllTypes bool
}

// allTypes stands for all of them where they are stored; it is no name of a type.
const allTypes = "*"

func (s *Subscription) items() note.Items {
	types := s.Types
	if s.AllTypes {
		types = []string{allTypes}
	}
	return note.Items(nil).With(itemForm, note.Text(formSubscription)).With(itemPerson, note.Text(s.Person.String())).
		With(itemCredential, note.Text(s.Credential)).With(itemDevice, note.Text(s.Device)).With(itemURL, note.Text(s.URL)).
		With(itemP256dh, note.Text(s.P256dh)).With(itemAuth, note.Text(s.Auth)).With(itemCode, note.Text(s.Code)).With(itemVerified, note.Bool(s.Verified)).
		With(itemCreated, note.Int(s.Created.Unix())).With(itemEnds, note.Int(s.Ends.Unix())).With(itemTypes, note.TextList(types...))
}

func readSubscription(r *store.Reader, id note.ID) (s Subscription, err error) {
	u, items, err := document(r, id)
	if err != nil || items.Get(itemForm).AsText() != formSubscription {
		return s, errorOr(err, ErrNone)
	}
	s = Subscription{
		ID: u, Credential: items.Get(itemCredential).AsText(), Device: items.Get(itemDevice).AsText(), URL: items.Get(itemURL).AsText(),
		P256dh: items.Get(itemP256dh).AsText(), Auth: items.Get(itemAuth).AsText(), Code: items.Get(itemCode).AsText(), Verified: items.Get(itemVerified).AsBool(),
		Created: unix(items.Get(itemCreated)), Ends: unix(items.Get(itemEnds)), Types: items.Get(itemTypes).AsTextList(),
	}
	if len(s.Types) == 1 && s.Types[0] == allTypes {
		s.Types, s.AllTypes = nil, true
	}
	if s.Person, err = note.ParseUNID(items.Get(itemPerson).AsText()); err != nil {
		return s, fmt.Errorf("%w: subscription %s", store.ErrDamaged, u)
	}
	return s, nil
}

// subscriptions keeps the push subscriptions of devices, and the place in the feed that all of them were told of.
type subscriptions struct{ *base }

// Subscribe keeps a subscription of which all but ID and Created are given. Errors: ErrTooMany.
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

// Subscriptions returns the subscriptions of a person, of the zero UNID those of everybody.
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

// Resubscribe changes a subscription under the lock of the database; fn must be quick. Errors: ErrNone.
func (ss *subscriptions) Resubscribe(ctx context.Context, id note.UNID, fn func(*Subscription) error) error {
	return ss.subscription(ctx, id, func(w *store.Writer, at note.ID, s *Subscription) error {
		if err := fn(s); err != nil {
			return err
		}
		return revise(w, at, s.items())
	})
}

// Unsubscribe ends a subscription; nothing of it stays. Errors: ErrNone.
func (ss *subscriptions) Unsubscribe(ctx context.Context, id note.UNID) error {
	return ss.subscription(ctx, id, func(w *store.Writer, at note.ID, _ *Subscription) error { return w.Destroy(at) })
}

func (ss *subscriptions) subscription(ctx context.Context, id note.UNID, fn func(*store.Writer, note.ID, *Subscription) error) error {
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
