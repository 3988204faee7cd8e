package directory

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"doublet/directory/password"
	"doublet/note"
	"doublet/wire/scram"
)

// requireSelf returns ErrDenied unless who is the person or an administrator.
func requireSelf(who note.Who, person note.UNID) error {
	if who.Person == person && !person.IsZero() {
		return nil
	}
	return RequireAdmin(who)
}

// Passwords sets passwords, SCRAM credentials and app passwords.
type Passwords struct {
	*base
	names  *Names
	secret *Secret
	pool   *password.Pool
}

// Set sets the password of an account, and creates or removes its SCRAM credentials. An empty password disables the
// account's password; app passwords still work. People may set their own password.
func (pws *Passwords) Set(ctx context.Context, who note.Who, person note.UNID, pw string, withScram bool) error {
	if err := requireSelf(who, person); err != nil {
		return err
	}
	var err error
	for range 3 {
		err = pws.set(ctx, who, person, pw, func(*Person) (bool, error) { return withScram, nil }, false)
		if !errors.Is(err, errMoved) {
			break
		}
	}
	return err
}

// newID assigns a new PasswordID, which marks a change of the password.
func (pws *Passwords) newID(items note.Items) note.Items {
	var id [8]byte
	pws.env.Fill(id[:])
	return items.With(itemPasswordID, note.Text(hex.EncodeToString(id[:])))
}

// errMoved reports that a person was changed between the first read and the update.
var errMoved = errors.New("directory: the person changed meanwhile")

// set sets the password. It calls ask twice, before hashing and under the lock; ask returns whether to create SCRAM
// credentials. same reports that the password itself does not change.
func (pws *Passwords) set(ctx context.Context, who note.Who, person note.UNID, pw string,
	ask func(*Person) (withScram bool, err error), same bool) error {
	p, err := pws.names.Person(ctx, person)
	if err != nil {
		return err
	}
	withScram, err := ask(&p)
	if err != nil {
		return err
	}
	if err := kept(&p); err != nil {
		return err
	}
	salt := pws.saltOf(&p, false)
	c, err := pws.prepare(ctx, pw, withScram, salt)
	if err != nil {
		return err
	}
	return pws.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			now := readPerson(person, items)
			if err := kept(&now); err != nil {
				return nil, err
			}
			again, err := ask(&now)
			if err == nil && (again != withScram || !salt.is(pws.saltOf(&now, false))) {
				err = errMoved
			}
			items = c.write(items)
			if !same {
				items = pws.newID(items)
			}
			return items, err
		})
	})
}

// kept returns an error if another directory keeps a person's password.
func kept(p *Person) error {
	if p.Assistance.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: another directory keeps the password of %s; change it there", ErrInvalid, p.Name())
}

// salt holds the salt and iteration count of all of a person's SCRAM credentials. They must agree, because the server
// sends one salt and count before it knows which password the client uses.
type salt struct {
	bytes      []byte
	iterations int
}

func (s salt) is(o salt) bool { return s.iterations == o.iterations && bytes.Equal(s.bytes, o.bytes) }

func saltIn(c *scram.Credentials) salt { return salt{c.Salt, c.Iterations} }

// saltOf returns the salt for a new password of a person: the salt of the credentials that remain. account reports that
// the account's password remains too.
func (pws *Passwords) saltOf(p *Person, account bool) salt {
	for i := range p.scram {
		if i > 0 || account || !p.HasScram {
			return saltIn(&p.scram[i])
		}
	}
	return pws.newSalt(p.ID)
}

// newSalt returns a person's first salt. It is the same at every replica, so that app passwords added at two replicas
// have the same salt.
func (pws *Passwords) newSalt(person note.UNID) salt {
	m := hmac.New(sha256.New, pws.secret.key("scram salt"))
	m.Write(person[:])
	return salt{m.Sum(nil)[:16], pws.opt.ScramIterations}
}

// credentials are the stored form of a password.
type credentials struct {
	hash  string
	scram []byte
}

func (c *credentials) write(items note.Items) note.Items {
	f := fields{items}
	f.text(itemPassword, c.hash)
	f.binary(itemScram, c.scram)
	return f.items
}

// prepare computes the stored form of a password. Hashing is slow, so it runs before any lock is taken.
func (pws *Passwords) prepare(ctx context.Context, pw string, withScram bool, s salt) (credentials, error) {
	var c credentials
	if pw == "" {
		return c, nil
	}
	var err error
	if c.hash, err = pws.pool.Hash(ctx, pw); err != nil {
		return c, fmt.Errorf("directory: password: %w", err)
	}
	if withScram {
		c.scram = s.derive(pw)
	}
	return c, nil
}

func (s salt) derive(pw string) []byte {
	made := scram.Derive(scram.Prepare(pw), s.bytes, s.iterations)
	return appendScram(&made)
}

// maxTokens limits the number of app passwords of a person.
const maxTokens = 100

// AddApp creates an app password for a person and returns its secret, which cannot be read again. People may add their
// own.
func (pws *Passwords) AddApp(ctx context.Context, who note.Who, person note.UNID,
	label string) (AppPassword, string, error) {
	if err := requireSelf(who, person); err != nil {
		return AppPassword{}, "", err
	}
	label, err := cleanName(label)
	if err != nil {
		return AppPassword{}, "", fmt.Errorf("label of the app password: %w", err)
	}
	secret := password.NewToken(pws.env)
	sum, ok := password.TokenHash(pws.secret.raw, secret)
	if !ok {
		return AppPassword{}, "", errors.New("directory: app password: malformed")
	}
	var id [8]byte
	pws.env.Fill(id[:])
	a := AppPassword{ID: hex.EncodeToString(id[:]), Label: label, Last4: secret[len(secret)-4:],
		Created: pws.env.Clock.Now().UTC().Truncate(1e9)}
	add := func() error {
		p, err := pws.names.Person(ctx, person)
		if err != nil {
			return err
		}
		with := pws.saltOf(&p, true)
		made := with.derive(secret)
		return pws.update(ctx, who, func(e *edit) error {
			return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
				now := readPerson(person, items)
				switch {
				case len(now.tokens) >= maxTokens:
					return nil, fmt.Errorf("%w: a person has at most %d app passwords; remove one first",
						ErrInvalid, maxTokens)
				case !with.is(pws.saltOf(&now, true)):
					return nil, errMoved
				}
				return items.With(itemToken+a.ID, tokenItem(&a, hex.AppendEncode(nil, sum[:]), made)), nil
			})
		})
	}
	for range 3 {
		if err = add(); !errors.Is(err, errMoved) {
			break
		}
	}
	if err != nil {
		return AppPassword{}, "", err
	}
	return a, secret, nil
}

// RemoveApp removes an app password by its ID. People may remove their own.
func (pws *Passwords) RemoveApp(ctx context.Context, who note.Who, person note.UNID, id string) error {
	if err := requireSelf(who, person); err != nil {
		return err
	}
	return pws.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			if items.Get(itemToken+id) == nil {
				return nil, fmt.Errorf("%w: no app password %q", ErrNotFound, id)
			}
			return items.With(itemToken+id, nil), nil
		})
	})
}
