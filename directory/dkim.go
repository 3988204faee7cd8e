package directory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// formDKIM is the form of a signing key. Only the server reads such notes: nobody else is on the
// directory's access list, and what is handed out to people has no private part.
const formDKIM = "DKIMKey"

// The items of a signing key.
const (
	itemKeyDomain    = "Domain"
	itemKeySelector  = "Selector"
	itemKeyAlgorithm = "Algorithm"
	itemKeyPrivate   = "PrivateKey"
	itemKeyCreated   = "Created" // Unix seconds
	itemKeyChanged   = "StateChanged"
	itemKeyState     = "State"
)

// indexDKIM finds a domain's signing keys.
const indexDKIM uint64 = 8

func dkimKeys(form string, items note.Items) [][]byte {
	if form != formDKIM {
		return nil
	}
	return [][]byte{[]byte(items.Get(itemKeyDomain).AsText())}
}

// KeyState says what a signing key is used for.
type KeyState string

// The states. A key goes through them in this order.
const (
	// KeyNext is made and to be published; nothing is signed with it yet.
	KeyNext KeyState = "next"
	// KeyActive signs.
	KeyActive KeyState = "active"
	// KeyRetired signs no more and stays published while mail that it signed is under way.
	KeyRetired KeyState = "retired"
)

// DKIMKey is a key that mail of a domain is signed with.
type DKIMKey struct {
	ID               note.UNID
	Domain, Selector string
	// Algorithm is "rsa" or "ed25519".
	Algorithm string
	State     KeyState
	// Created is when it was made, Changed when it came into its state.
	Created, Changed time.Time
	// Private is the private key (PKCS #8, DER); nil for everyone but the server.
	Private []byte
}

// maxKeys bounds the keys of one domain.
const maxKeys = 20

// DKIMKeys reads and changes the signing keys of domains.
type DKIMKeys struct{ *base }

// Of are a domain's signing keys, the oldest first. Only note.System gets their private parts.
func (ks *DKIMKeys) Of(ctx context.Context, who note.Who, domain string) ([]DKIMKey, error) {
	if err := RequireAdmin(who); err != nil {
		return nil, err
	}
	n, err := NormalDomain(domain)
	if err != nil {
		return nil, err
	}
	var out []DKIMKey
	err = ks.read(ctx, func(r *store.Reader) error {
		out, _, err = readKeys(r, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory: keys of %s: %w", n, err)
	}
	if !who.System {
		for i := range out {
			out[i].Private = nil
		}
	}
	return out, nil
}

func readKeys(r *store.Reader, domain string) ([]DKIMKey, []note.ID, error) {
	ids, err := r.Lookup(indexDKIM, []byte(domain))
	if err != nil {
		return nil, nil, err
	}
	out := make([]DKIMKey, 0, len(ids))
	for _, id := range ids {
		row, err := r.Note(id)
		if err != nil {
			return nil, nil, err
		}
		c, err := r.Content(id)
		if err != nil {
			return nil, nil, err
		}
		items := c.Content.Items
		out = append(out, DKIMKey{
			ID: row.UNID, Domain: items.Get(itemKeyDomain).AsText(), Selector: items.Get(itemKeySelector).AsText(),
			Algorithm: items.Get(itemKeyAlgorithm).AsText(), State: KeyState(items.Get(itemKeyState).AsText()),
			Created: time.Unix(items.Get(itemKeyCreated).AsInt(), 0).UTC(), Changed: time.Unix(items.Get(itemKeyChanged).AsInt(), 0).UTC(),
			Private: bytes.Clone(items.Get(itemKeyPrivate).AsBinary()),
		})
	}
	return out, ids, nil
}

// Edit changes a domain's keys in one step: fn gets them and returns those that are to be.
// One without an ID is new; one that is missing is destroyed; of the others the state may differ.
// fn may be called more than once.
func (ks *DKIMKeys) Edit(ctx context.Context, who note.Who, domain string, fn func([]DKIMKey) ([]DKIMKey, error)) error {
	if err := RequireAdmin(who); err != nil {
		return err
	}
	n, err := NormalDomain(domain)
	if err != nil {
		return err
	}
	now := ks.env.Clock.Now().Unix()
	return ks.update(ctx, who, func(e *edit) error {
		have, ids, err := readKeys(&e.w.Reader, n)
		if err != nil {
			return err
		}
		want, err := fn(slices.Clone(have))
		if err != nil {
			return err
		}
		if err := checkKeys(n, want); err != nil {
			return err
		}
		for i := range have {
			at := slices.IndexFunc(want, func(k DKIMKey) bool { return k.ID == have[i].ID })
			if at < 0 {
				if err := e.w.Destroy(ids[i]); err != nil {
					return err
				}
			} else if err := e.setKeyState(ids[i], &have[i], want[at].State, now); err != nil {
				return err
			}
		}
		for i := range want {
			if want[i].ID.IsZero() {
				if err := e.addKey(&want[i], now); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func checkKeys(domain string, want []DKIMKey) error {
	if len(want) > maxKeys {
		return fmt.Errorf("%w: at most %d keys for a domain; remove retired ones", ErrInvalid, maxKeys)
	}
	seen := map[string]bool{}
	for i := range want {
		k := &want[i]
		if k.Domain != domain {
			return fmt.Errorf("%w: a key of %s among those of %s", ErrInvalid, k.Domain, domain)
		}
		if !validSelector(k.Selector) {
			return fmt.Errorf("%w: %.80q cannot be a selector: letters, digits and hyphens, at most 63", ErrInvalid, k.Selector)
		}
		if seen[k.Selector] {
			return fmt.Errorf("%w: %s has a key with the selector %s", ErrNameTaken, domain, k.Selector)
		}
		seen[k.Selector] = true
		if k.State != KeyNext && k.State != KeyActive && k.State != KeyRetired {
			return fmt.Errorf("%w: %.20q is none of next, active, retired", ErrInvalid, k.State)
		}
	}
	return nil
}

func validSelector(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' && i > 0 && i < len(s)-1) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

func (e *edit) addKey(k *DKIMKey, now int64) error {
	if len(k.Private) == 0 || k.Algorithm == "" {
		return fmt.Errorf("%w: a key without its private part", ErrInvalid)
	}
	f := fields{}
	f.text(itemForm, formDKIM)
	f.text(itemKeyDomain, k.Domain)
	f.text(itemKeySelector, k.Selector)
	f.text(itemKeyAlgorithm, k.Algorithm)
	f.binary(itemKeyPrivate, k.Private)
	f.text(itemKeyState, string(k.State))
	f.int(itemKeyCreated, now)
	f.int(itemKeyChanged, now)
	var u note.UNID
	e.b.env.Fill(u[:])
	_, err := e.w.Create(store.New{UNID: u, Content: note.Content{Items: f.items}})
	return err
}

func (e *edit) setKeyState(id note.ID, have *DKIMKey, want KeyState, now int64) error {
	if have.State == want {
		return nil
	}
	c, err := e.w.Content(id)
	if err != nil {
		return err
	}
	f := fields{c.Content.Items}
	f.text(itemKeyState, string(want))
	f.int(itemKeyChanged, now)
	return e.revise(id, c, f.items)
}

// KeySelector names a key that was made on a day: "d20261121r", with a number behind it where that
// is taken. The day tells an administrator of DNS which records are the old ones.
func KeySelector(have []DKIMKey, algorithm string, day time.Time) string {
	letter := "k"
	if algorithm != "" {
		letter = strings.ToLower(algorithm[:1])
	}
	base := "d" + day.UTC().Format("20060102") + letter
	name := base
	for n := 2; slices.ContainsFunc(have, func(k DKIMKey) bool { return k.Selector == name }); n++ {
		name = fmt.Sprintf("%s%d", base, n)
	}
	return name
}
