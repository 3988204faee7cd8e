package directory

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"doublet/directory/passkey"
	"doublet/note"
)

// Passkey is a passkey of a person: a key pair on their device, with whose private key they sign in to the web.
type Passkey struct {
	// ID identifies the passkey among those of the person. The person chose Name.
	ID, Name string
	Created  time.Time
	// Credential holds the state at the registration. Package session stores later signature counters, because a
	// sign-in must not change the directory.
	passkey.Credential
}

// PasskeyOf returns the passkey with a credential ID.
func (p *Person) PasskeyOf(credential []byte) (Passkey, bool) {
	for _, k := range p.Passkeys {
		if bytes.Equal(k.Credential.ID, credential) {
			return k, true
		}
	}
	return Passkey{}, false
}

// HasPasskey reports whether the person has the passkey with an ID of Passkey.
func (p *Person) HasPasskey(id string) bool {
	for _, k := range p.Passkeys {
		if k.ID == id {
			return true
		}
	}
	return false
}

// MaxPasskeys is the maximum number of passkeys of a person.
const MaxPasskeys = 20

// Maximum lengths of the parts of a stored passkey, in bytes. A credential ID has at most 1,023 (WebAuthn section 4),
// the public key of ML-DSA-87 2,592.
const (
	maxCredentialID  = 1023
	maxCredentialKey = 4096
	maxPasskeyName   = 100
)

// Passkeys adds and removes the passkeys of people.
type Passkeys struct{ *base }

// Add adds a passkey that the caller has verified. People may add their own. Errors: ErrInvalid, also for a
// passkey that the person has already; ErrDenied.
func (ps *Passkeys) Add(ctx context.Context, who note.Who, person note.UNID, name string,
	c passkey.Credential) (Passkey, error) {
	if err := requireSelf(who, person); err != nil {
		return Passkey{}, err
	}
	name = strings.Join(strings.Fields(name), " ")
	switch {
	case name == "" || len(name) > maxPasskeyName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, unicode.IsControl):
		return Passkey{}, fmt.Errorf("%w name of the passkey: 1 to %d bytes of text are needed", ErrInvalid,
			maxPasskeyName)
	case len(c.ID) == 0 || len(c.ID) > maxCredentialID || len(c.Key) == 0 || len(c.Key) > maxCredentialKey:
		return Passkey{}, fmt.Errorf("%w passkey: an id of %d bytes and a key of %d", ErrInvalid, len(c.ID), len(c.Key))
	}
	var id [8]byte
	ps.env.Fill(id[:])
	k := Passkey{ID: hex.EncodeToString(id[:]), Name: name, Created: ps.env.Clock.Now().UTC().Truncate(time.Second),
		Credential: c}
	err := ps.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			p := readPerson(person, items)
			if _, have := p.PasskeyOf(c.ID); have {
				return nil, fmt.Errorf("%w: the person has this passkey already", ErrInvalid)
			}
			if len(p.Passkeys) >= MaxPasskeys {
				return nil, fmt.Errorf("%w: a person has at most %d passkeys; remove one first", ErrInvalid,
					MaxPasskeys)
			}
			return items.With(itemPasskey+k.ID, k.item()), nil
		})
	})
	if err != nil {
		return Passkey{}, err
	}
	return k, nil
}

// Remove removes a passkey by its ID. People may remove their own. Errors: ErrNotFound, ErrDenied.
func (ps *Passkeys) Remove(ctx context.Context, who note.Who, person note.UNID, id string) error {
	if err := requireSelf(who, person); err != nil {
		return err
	}
	return ps.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			if items.Get(itemPasskey+id) == nil {
				return nil, fmt.Errorf("%w: no passkey %q", ErrNotFound, id)
			}
			return items.With(itemPasskey+id, nil), nil
		})
	})
}

var passkeyText = base64.RawStdEncoding

// item returns the stored form: name, creation in Unix seconds, credential ID, public key, signature counter, and "1"
// for a passkey that is eligible for backup.
func (k *Passkey) item() note.Value {
	eligible := "0"
	if k.BackupEligible {
		eligible = "1"
	}
	return note.TextList(k.Name, strconv.FormatInt(k.Created.Unix(), 10), passkeyText.EncodeToString(k.Credential.ID),
		passkeyText.EncodeToString(k.Key), strconv.FormatUint(uint64(k.Counter), 10), eligible)
}

// readPasskey reads a passkey. ok is false for a malformed one.
func readPasskey(id string, v note.Value) (k Passkey, ok bool) {
	list := v.AsTextList()
	if len(list) < 6 {
		return k, false
	}
	k = Passkey{ID: id, Name: list[0]}
	created, err := strconv.ParseInt(list[1], 10, 64)
	if err == nil {
		k.Created = time.Unix(created, 0).UTC()
		k.Credential.ID, err = passkeyText.DecodeString(list[2])
	}
	if err == nil {
		k.Key, err = passkeyText.DecodeString(list[3])
	}
	if err != nil {
		return k, false
	}
	counter, err := strconv.ParseUint(list[4], 10, 32)
	k.Counter, k.BackupEligible = uint32(counter), list[5] == "1"
	return k, err == nil
}
