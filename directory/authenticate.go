package directory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"doublet/directory/password"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/scram"
)

// authStats counts sign-ins.
type authStats struct {
	ok, app, failed, disabled *stat.Counter
}

func (s *authStats) init(t *stat.Tree) {
	s.ok = t.Counter("Directory.Authentication.Succeeded", "sign-ins with a password")
	s.app = t.Counter("Directory.Authentication.AppPassword", "sign-ins with an app password")
	s.failed = t.Counter("Directory.Authentication.Failed", "sign-ins with a wrong user or password")
	s.disabled = t.Counter("Directory.Authentication.Disabled", "sign-ins of disabled people")
}

// Authenticate signs a person in by full name, short name or address, with the password of the
// account or an app password. door names where, for the log. Errors: ErrAuthentication, which is
// the same, after the same time, for a wrong user and a wrong password; ErrDisabled, only to who
// knows the password; password.ErrBusy.
func (d *Directory) Authenticate(ctx context.Context, user, secret, door string) (note.Who, Person, error) {
	p, err := d.ByName(ctx, user)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return note.Who{}, Person{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	found := err == nil
	ok, app, err := d.verify(ctx, &p, secret)
	if err != nil {
		return note.Who{}, Person{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	if !found || !ok {
		d.stat.failed.Inc()
		d.log(ctx, "sign-in refused", user, door)
		return note.Who{}, Person{}, ErrAuthentication
	}
	who, err := d.WhoOf(ctx, p.ID)
	switch {
	case errors.Is(err, ErrDisabled):
		d.stat.disabled.Inc()
		d.log(ctx, "sign-in of a disabled account refused", user, door)
		return note.Who{}, Person{}, err
	case errors.Is(err, ErrNotFound):
		d.stat.failed.Inc()
		return note.Who{}, Person{}, ErrAuthentication
	case err != nil:
		return note.Who{}, Person{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	if app {
		d.stat.app.Inc()
	} else {
		d.stat.ok.Inc()
	}
	return who, p, nil
}

// SignedIn makes a session of a person who proved themselves otherwise, as in SCRAM.
func (d *Directory) SignedIn(ctx context.Context, user string) (note.Who, Person, error) {
	p, err := d.ByName(ctx, user)
	if err != nil {
		return note.Who{}, Person{}, err
	}
	who, err := d.WhoOf(ctx, p.ID)
	if err != nil {
		return note.Who{}, Person{}, err
	}
	d.stat.ok.Inc()
	return who, p, nil
}

func (d *Directory) log(ctx context.Context, what, user, door string) {
	if d.env.Log != nil {
		d.env.Log.InfoContext(ctx, what, "user", user[:min(len(user), maxName)], "door", door)
	}
}

// verify checks a password against a person; one who does not exist costs the same.
func (d *Directory) verify(ctx context.Context, p *Person, secret string) (ok, app bool, err error) {
	if password.IsToken(secret) {
		sum, _ := password.TokenHash(d.secret, secret)
		for _, t := range p.tokens {
			// What is stored is hex, so that it can stand in a list of texts.
			if hmac.Equal(hex.AppendEncode(nil, sum[:]), t) {
				return true, true, nil
			}
		}
	}
	if p.password == "" {
		return false, false, d.pool.VerifyNobody(ctx, secret)
	}
	ok, err = d.pool.Verify(ctx, p.password, secret)
	return ok, false, err
}

// Failed counts a sign-in that failed at a door by other means than Authenticate, as in SCRAM.
func (d *Directory) Failed(ctx context.Context, user, door string) {
	d.stat.failed.Inc()
	d.log(ctx, "sign-in refused", user, door)
}

// ScramCredentials returns the SCRAM-SHA-256 credentials of a user who opted in. For all others,
// and for users who do not exist, it makes some up that no password matches: always the same for
// one name. Errors are failures of the look-up itself.
func (d *Directory) ScramCredentials(ctx context.Context, user string) (scram.Credentials, error) {
	p, err := d.ByName(ctx, user)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return scram.Credentials{}, fmt.Errorf("directory: SCRAM: %w", err)
	}
	// The fake is made in any case, so that the time tells nothing.
	fake := scram.Fake(d.subkey("scram"), d.normalUser(ctx, user), d.opt.ScramIterations)
	if err == nil && p.HasScram && !p.Disabled {
		return p.scram, nil
	}
	return fake, nil
}

// normalUser is one for all spellings of a user: that a short name and the address made of it give the
// same credentials must not tell who exists.
func (d *Directory) normalUser(ctx context.Context, user string) string {
	if i := strings.LastIndexByte(user, '@'); i > 0 {
		if local, err := d.IsLocal(ctx, user[i+1:]); err == nil && local {
			user = user[:i]
		}
	}
	if k := keyOf(user); k != nil {
		return string(k)
	}
	return user
}

// subkey gives each use of the directory's secret a key of its own.
func (d *Directory) subkey(use string) []byte {
	m := hmac.New(sha256.New, d.secret)
	m.Write([]byte(use))
	return m.Sum(nil)
}

// requireSelf refuses everyone but administrators and the person themselves.
func requireSelf(who note.Who, person note.UNID) error {
	if who.Person == person && !person.IsZero() {
		return nil
	}
	return RequireAdmin(who)
}

// SetPassword sets the password of an account, and makes SCRAM credentials of it or takes those
// away. An empty password leaves app passwords alone to sign in with. People may set their own.
func (d *Directory) SetPassword(ctx context.Context, who note.Who, person note.UNID, pw string, withScram bool) error {
	if err := requireSelf(who, person); err != nil {
		return err
	}
	c, err := d.prepare(ctx, pw, withScram)
	if err != nil {
		return err
	}
	return d.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			return c.write(items), nil
		})
	})
}

// credentials are what is stored of a password.
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

// prepare computes what is stored of a password, before any lock is taken.
func (d *Directory) prepare(ctx context.Context, pw string, withScram bool) (credentials, error) {
	var c credentials
	if pw == "" {
		return c, nil
	}
	var err error
	if c.hash, err = d.pool.Hash(ctx, pw); err != nil {
		return c, fmt.Errorf("directory: password: %w", err)
	}
	if withScram {
		salt := make([]byte, 16)
		d.env.Fill(salt)
		made := scram.Derive(scram.Prepare(pw), salt, d.opt.ScramIterations)
		c.scram = appendScram(&made)
	}
	return c, nil
}

// maxTokens bounds the app passwords of a person.
const maxTokens = 100

// AddAppPassword makes an app password for a person and returns it: it is not shown again. People
// may make their own.
func (d *Directory) AddAppPassword(ctx context.Context, who note.Who, person note.UNID, label string) (AppPassword, string, error) {
	if err := requireSelf(who, person); err != nil {
		return AppPassword{}, "", err
	}
	label, err := cleanName(label)
	if err != nil {
		return AppPassword{}, "", fmt.Errorf("label of the app password: %w", err)
	}
	secret := password.NewToken(d.env)
	sum, ok := password.TokenHash(d.secret, secret)
	if !ok {
		return AppPassword{}, "", errors.New("directory: app password: malformed")
	}
	var id [8]byte
	d.env.Fill(id[:])
	a := AppPassword{ID: hex.EncodeToString(id[:]), Label: label, Last4: secret[len(secret)-4:], Created: d.env.Clock.Now().UTC().Truncate(1e9)}
	err = d.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			n := 0
			for _, it := range items {
				if strings.HasPrefix(it.Name, itemToken) {
					n++
				}
			}
			if n >= maxTokens {
				return nil, fmt.Errorf("%w: a person has at most %d app passwords; remove one first", ErrInvalid, maxTokens)
			}
			return items.With(itemToken+a.ID, tokenItem(&a, hex.AppendEncode(nil, sum[:]))), nil
		})
	})
	if err != nil {
		return AppPassword{}, "", err
	}
	return a, secret, nil
}

// RemoveAppPassword ends an app password by its ID. People may end their own.
func (d *Directory) RemoveAppPassword(ctx context.Context, who note.Who, person note.UNID, id string) error {
	if err := requireSelf(who, person); err != nil {
		return err
	}
	return d.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			if items.Get(itemToken+id) == nil {
				return nil, fmt.Errorf("%w: there is no app password %q", ErrNotFound, id)
			}
			return items.With(itemToken+id, nil), nil
		})
	})
}
