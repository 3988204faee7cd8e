package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/note"
	"doublet/store"
)

// passkeyKept is the time for which the last use of a passkey is stored. After it, the signature counter is compared
// with the one of the registration.
const passkeyKept = 400 * 24 * time.Hour

// passkeys stores the last use of each passkey. It is no part of the person's entry, because a sign-in must not change
// the directory.
type passkeys struct{ *base }

// PasskeyUse is the last use of a passkey.
type PasskeyUse struct {
	At      time.Time
	Counter uint32
}

func passkeyNote(person note.UNID, passkey string) note.UNID {
	return note.DeriveUNID([]byte("passkey"), person[:], []byte(passkey))
}

// UsePasskey stores a use of a passkey with its signature counter, unless the counter went back: it must be greater
// than that of the last use, or both must be 0 (WebAuthn section 7.2). In a cluster, a member that has not yet
// received the last use compares with the one before.
func (ps *passkeys) UsePasskey(ctx context.Context, person note.UNID, passkey string, counter uint32) (bool, error) {
	now := ps.now()
	id := passkeyNote(person, passkey)
	items := note.Items(nil).With(itemForm, note.Text(formPasskey)).With(itemPerson, note.Text(person.String())).
		With(itemUsed, note.Int(now.Unix())).With(itemCounter, note.Int(int64(counter))).
		With(itemEnds, note.Int(now.Add(passkeyKept).Unix()))
	ok := false
	err := ps.update(ctx, func(w *store.Writer) error {
		ok = true
		last, at, err := passkeyUse(&w.Reader, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			_, err = w.Create(store.New{UNID: id, Content: note.Content{Items: items}})
			return err
		case err != nil:
			return err
		case counter <= last.Counter && last.Counter > 0:
			ok = false
			return nil
		}
		return revise(w, at, items)
	})
	if absent(err) {
		return true, nil // the last use was deleted at its end, and its stub is still stored
	}
	if err != nil {
		return false, fmt.Errorf("session: passkey: %w", err)
	}
	return ok, nil
}

// PasskeyUse returns the last use of a passkey, the zero value without one.
func (ps *passkeys) PasskeyUse(ctx context.Context, person note.UNID, passkey string) (out PasskeyUse, err error) {
	err = ps.read(ctx, func(r *store.Reader) (err error) {
		out, _, err = passkeyUse(r, passkeyNote(person, passkey))
		return err
	})
	if err != nil && !absent(err) {
		return PasskeyUse{}, fmt.Errorf("session: passkey: %w", err)
	}
	return out, nil
}

func passkeyUse(r *store.Reader, u note.UNID) (PasskeyUse, note.ID, error) {
	id, err := r.Find(u)
	if err != nil {
		return PasskeyUse{}, 0, err
	}
	_, items, err := document(r, id)
	if err != nil {
		return PasskeyUse{}, 0, err
	}
	return PasskeyUse{At: unix(items.Get(itemUsed)), Counter: uint32(items.Get(itemCounter).AsInt())}, id, nil
}
