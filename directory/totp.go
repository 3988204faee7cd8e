package directory

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"doublet/directory/totp"
	"doublet/note"
)

// HasTOTP reports whether the person has a second factor. The account's password then needs a code, and mail programs
// need app passwords.
func (p *Person) HasTOTP() bool { return len(p.totp) > 0 }

// RecoveryCodes returns the number of recovery codes that the person has left.
func (p *Person) RecoveryCodes() int { return len(p.recovery) }

// CheckTOTP reports whether text is a valid code at the time now, and returns its time step. Each step may be used only
// once; the caller must keep track of used steps.
func (p *Person) CheckTOTP(text string, now time.Time) (step int64, ok bool) {
	return totp.Check(p.totp, text, now)
}

// SecondFactors sets and removes the second factors of people: TOTP secrets and recovery codes.
type SecondFactors struct {
	*base
	names  *Names
	secret *Secret
}

// Set sets a person's second factor, replaces any earlier one, and returns the recovery codes, which cannot be read
// again. The caller must first have verified a code from the device. People may set their own.
func (sf *SecondFactors) Set(ctx context.Context, who note.Who, person note.UNID, secret []byte) ([]string, error) {
	if len(secret) != totp.SecretLen {
		return nil, fmt.Errorf("%w: a secret of %d bytes", ErrInvalid, len(secret))
	}
	now := sf.env.Clock.Now().Unix()
	return sf.recoverable(ctx, who, person, func(p *Person, f *fields) error {
		f.binary(itemTOTP, secret)
		f.int(itemTOTPSince, max(now, 1))
		return nil
	})
}

// NewRecoveryCodes replaces the recovery codes of a person who has a second factor.
func (sf *SecondFactors) NewRecoveryCodes(ctx context.Context, who note.Who, person note.UNID) ([]string, error) {
	return sf.recoverable(ctx, who, person, func(p *Person, _ *fields) error {
		if !p.HasTOTP() {
			return fmt.Errorf("%w: %s has no second factor", ErrNotFound, p.Name())
		}
		return nil
	})
}

// recoverable changes a person's second factor with fn and creates new recovery codes.
func (sf *SecondFactors) recoverable(ctx context.Context, who note.Who, person note.UNID,
	fn func(*Person, *fields) error) ([]string, error) {
	if err := requireSelf(who, person); err != nil {
		return nil, err
	}
	codes := make([]string, totp.RecoveryCodes)
	for i := range codes {
		codes[i] = totp.NewRecovery(sf.env)
	}
	err := sf.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			p := readPerson(person, items)
			f := fields{withoutRecovery(items)}
			if err := fn(&p, &f); err != nil {
				return nil, err
			}
			for i, c := range codes {
				sum, _ := totp.RecoveryHash(sf.secret.raw, c)
				f.text(itemRecovery+strconv.Itoa(i), hex.EncodeToString(sum[:]))
			}
			return f.items, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return codes, nil
}

func withoutRecovery(items note.Items) note.Items {
	var names []string
	for id := range items.Entries(itemRecovery) {
		names = append(names, itemRecovery+id)
	}
	for _, n := range names {
		items = items.With(n, nil)
	}
	return items
}

// Remove removes a person's second factor. People may remove their own.
func (sf *SecondFactors) Remove(ctx context.Context, who note.Who, person note.UNID) error {
	if err := requireSelf(who, person); err != nil {
		return err
	}
	return sf.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			if p := readPerson(person, items); !p.HasTOTP() {
				return nil, fmt.Errorf("%w: %s has no second factor", ErrNotFound, p.Name())
			}
			return withoutRecovery(items).With(itemTOTP, nil).With(itemTOTPSince, nil), nil
		})
	})
}

// UseRecoveryCode reports whether text is one of a person's recovery codes, and removes the code.
func (sf *SecondFactors) UseRecoveryCode(ctx context.Context, person note.UNID, text string) (bool, error) {
	sum, ok := totp.RecoveryHash(sf.secret.raw, text)
	if !ok {
		return false, nil
	}
	hash := hex.AppendEncode(nil, sum[:])
	p, err := sf.names.Person(ctx, person)
	if err != nil || !slices.ContainsFunc(p.recovery, func(have []byte) bool { return hmac.Equal(hash, have) }) {
		return false, err // a wrong code must not write to the directory
	}
	used := false
	find := func(items note.Items) (name string) {
		for id, v := range items.Entries(itemRecovery) {
			if hmac.Equal(hash, []byte(v.AsText())) {
				name = itemRecovery + id
			}
		}
		return name
	}
	err = sf.update(ctx, note.System, func(e *edit) error {
		used = false // the update may be retried
		id, c, err := e.document(person, formPerson)
		if err != nil {
			return err
		}
		name := find(c.Content.Items)
		if used = name != ""; !used {
			return nil
		}
		return e.revise(id, c, c.Content.Items.With(name, nil))
	})
	return used && err == nil, err
}
