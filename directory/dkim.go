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

// formDKIM is the form of a signing key. Only the server reads these notes: the directory's access list has no other
// entries, and callers other than the server get a key without its private part.
const formDKIM = "DKIMKey"

// The names of a signing key's items.
const (
	itemKeyDomain    = "Domain"
	itemKeySelector  = "Selector"
	itemKeyAlgorithm = "Algorithm"
	itemKeyPrivate   = "PrivateKey"
	itemKeyCreated   = "Created" // Unix seconds
	itemKeyChanged   = "StateChanged"
	itemKeyState     = "State"
)

// indexDKIM is the index of signing keys by domain.
const indexDKIM uint64 = 8

func dkimKeys(form string, items note.Items) [][]byte {
	if form != formDKIM {
		return nil
	}
	return [][]byte{[]byte(items.Get(itemKeyDomain).AsText())}
}

// KeyState is the state of a signing key.
type KeyState string

// The states of a key, in the order in which it passes through them.
const (
	// KeyNext is for a key that exists and has to be published. It does not sign yet.
	KeyNext KeyState = "next"
	// KeyActive is for a key that signs.
	KeyActive KeyState = "active"
	// KeyRetired is for a key that no longer signs. It stays published while mail that it signed is in transit.
	KeyRetired KeyState = "retired"
)

// DKIMKey is a key that signs mail of a domain.
type DKIMKey struct {
	ID               note.UNID
	Domain, Selector string
	// Algorithm is "rsa" or "ed25519".
	Algorithm string
	State     KeyState
	// Created is the time when the key was made, Changed the time when it entered its state.
	Created, Changed time.Time
	// Private is the private key (PKCS #8, DER). It is nil for every caller except the server.
	Private []byte
}

// maxKeys limits the number of keys of one domain.
const maxKeys = 20

// DKIMKeys reads and changes the signing keys of domains.
type DKIMKeys struct{ *base }

// Of returns a domain's signing keys, the oldest first. Only note.System gets their private parts.
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
			Created: time.Unix(items.Get(itemKeyCreated).AsInt(), 0).UTC(),
			Changed: time.Unix(items.Get(itemKeyChanged).AsInt(), 0).UTC(),
			Private: bytes.Clone(items.Get(itemKeyPrivate).AsBinary()),
		})
	}
	return out, ids, nil
}

// Edit changes a domain's keys in one transaction. It passes the keys to fn, which returns the wanted keys. Edit adds a
// key without an ID and destroys a key that fn left out. Of the other keys only the state may change. fn may be called
// more than once.
func (ks *DKIMKeys) Edit(ctx context.Context, who note.Who, domain string,
	fn func([]DKIMKey) ([]DKIMKey, error)) error {
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
			return fmt.Errorf("%w: %.80q cannot be a selector: letters, digits and hyphens, at most 63", ErrInvalid,
				k.Selector)
		}
		if seen[k.Selector] {
			return fmt.Errorf("%w: %s has a key with the selector %s", ErrNameTaken, domain, k.Selector)
		}
		seen[k.Selector] = true
		if k.State != KeyNext && k.State != KeyActive && k.State != KeyRetired {
			return fmt.Errorf("%w: %.20q is not next, active or retired", ErrInvalid, k.State)
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

// KeySelector returns a new selector for a key made on a day: "d20261121r", with a number appended if it is in use.
// From the day, a DNS administrator can tell which records are old.
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
