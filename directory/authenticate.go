package directory

import (
	"bytes"
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
	"doublet/store"
	"doublet/wire/scram"
)

// authStats counts sign-ins.
type authStats struct {
	ok, app, failed, disabled, renewed *stat.Counter
}

func (s *authStats) init(t *stat.Tree) {
	s.ok = t.Counter("Directory.Authentication.Succeeded", "sign-ins with a password")
	s.app = t.Counter("Directory.Authentication.AppPassword", "sign-ins with an app password")
	s.failed = t.Counter("Directory.Authentication.Failed", "sign-ins with a wrong user or password")
	s.disabled = t.Counter("Directory.Authentication.Disabled", "sign-ins of disabled people")
	s.renewed = t.Counter("Directory.Authentication.HashesRenewed", "stored passwords hashed anew with today's parameters")
}

// Proof is who signed in, and with what.
type Proof struct {
	Who    note.Who
	Person Person
	// App is the id of the app password; "" is the password of the account.
	App string
}

// Authenticate signs a person in by full name, short name or address, with the password of the
// account or an app password. door names where, for the log. Errors: ErrAuthentication, which is
// the same, after the same time, for a wrong user and a wrong password; ErrDisabled, only to who
// knows the password; password.ErrBusy. Where the person has a second factor, the password of the
// account alone is ErrAuthentication too: this is for programs that cannot ask for a code.
func (d *Directory) Authenticate(ctx context.Context, user, secret, door string) (note.Who, Person, error) {
	got, err := d.AuthenticateProof(ctx, user, secret, door)
	return got.Who, got.Person, err
}

// AuthenticateProof is Authenticate that tells which password it was.
func (d *Directory) AuthenticateProof(ctx context.Context, user, secret, door string) (Proof, error) {
	got, err := d.SignIn(ctx, user, secret, door)
	if err == nil && got.App == "" && got.Person.HasTOTP() {
		d.log(ctx, "sign-in refused: an app password is needed where a second factor is on", user, door)
		err = fmt.Errorf("%w: an app password is needed", ErrAuthentication)
	}
	if err != nil {
		return Proof{}, err
	}
	return got, nil
}

// SignIn is Authenticate for who asks for the second factor itself: whether the person has one, the
// Proof tells.
func (d *Directory) SignIn(ctx context.Context, user, secret, door string) (Proof, error) {
	p, err := d.ByName(ctx, user)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	found := err == nil
	ok, app, err := d.verify(ctx, &p, secret)
	if err != nil {
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	if !found || !ok {
		return Proof{}, d.refuse(ctx, user, door)
	}
	proof, err := d.admit(ctx, Proof{Person: p, App: app}, user, door)
	if err == nil && app == "" && password.Outdated(p.password) {
		d.renew(ctx, &p, secret)
	}
	return proof, err
}

// SignInToken signs in who shows an app password and no name, as a bearer token. Errors as Authenticate.
func (d *Directory) SignInToken(ctx context.Context, token, door string) (Proof, error) {
	sum, ok := password.TokenHash(d.secret, token)
	if !ok {
		return Proof{}, d.refuse(ctx, "", door)
	}
	p, err := d.tokenOwner(ctx, hex.EncodeToString(sum[:]))
	switch {
	case errors.Is(err, ErrNotFound):
		return Proof{}, d.refuse(ctx, "", door)
	case err != nil:
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	app, ok := d.appPassword(&p, token)
	if !ok {
		return Proof{}, d.refuse(ctx, "", door)
	}
	return d.admit(ctx, Proof{Person: p, App: app}, p.Name(), door)
}

// tokenOwner finds whose app password has a hash.
func (d *Directory) tokenOwner(ctx context.Context, hash string) (Person, error) {
	version := d.version.Load()
	key := cacheKey{kind: 't', text: hash}
	if a, ok := d.names.get(key, version); ok {
		return *a.person, nil
	}
	var p Person
	err := d.read(ctx, func(r *store.Reader) error {
		ids, err := r.Lookup(indexTokens, []byte(hash))
		if err == nil && len(ids) == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		row, err := r.Note(ids[0])
		if err != nil {
			return err
		}
		found, err := d.person(ctx, r, row.UNID)
		if err == nil {
			p = *found
		}
		return err
	})
	if err == nil {
		d.names.put(key, version, answer{person: &p})
	}
	return p, err
}

// refuse counts a sign-in with a wrong user or password.
func (d *Directory) refuse(ctx context.Context, user, door string) error {
	d.Failed(ctx, user, door)
	return ErrAuthentication
}

// admit counts a sign-in that proved who it is, and makes what the store checks.
func (d *Directory) admit(ctx context.Context, proof Proof, user, door string) (Proof, error) {
	who, err := d.WhoOf(ctx, proof.Person.ID)
	switch {
	case errors.Is(err, ErrDisabled):
		d.stat.disabled.Inc()
		d.log(ctx, "sign-in of a disabled account refused", user, door)
		return Proof{}, err
	case errors.Is(err, ErrNotFound):
		d.stat.failed.Inc()
		return Proof{}, ErrAuthentication
	case err != nil:
		return Proof{}, fmt.Errorf("directory: authenticate: %w", err)
	}
	proof.Who = who
	if proof.App != "" {
		d.stat.app.Inc()
	} else {
		d.stat.ok.Inc()
	}
	return proof, nil
}

// renew puts a hash of today in the place of one that was made with weaker parameters, or by
// another program. Now is the only time at which the password is known. Who signs in does so whether
// this works or not.
func (d *Directory) renew(ctx context.Context, p *Person, secret string) {
	err := d.setPassword(ctx, note.System, p.ID, secret, func(now *Person) (bool, error) {
		if now.password != p.password {
			return false, errMoved // it was changed meanwhile, and by whom is none of our business
		}
		return now.HasScram || d.opt.Scram && password.Foreign(now.password), nil
	}, true)
	switch {
	case err == nil:
		d.stat.renewed.Inc()
	case !errors.Is(err, errMoved) && d.env.Log != nil:
		d.env.Log.WarnContext(ctx, "directory: the hash of a password could not be renewed", "person", p.Name(), "err", err)
	}
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

// verify checks a password against a person; one who does not exist costs the same. app is the id of
// the app password that it is.
func (d *Directory) verify(ctx context.Context, p *Person, secret string) (ok bool, app string, err error) {
	if app, ok := d.appPassword(p, secret); ok {
		return true, app, nil
	}
	if p.password == "" {
		return false, "", d.pool.VerifyNobody(ctx, secret)
	}
	ok, err = d.pool.Verify(ctx, p.password, secret)
	return ok, "", err
}

// appPassword finds which of a person's app passwords a secret is.
func (d *Directory) appPassword(p *Person, secret string) (id string, ok bool) {
	sum, ok := password.TokenHash(d.secret, secret)
	if !ok {
		return "", false
	}
	// What is stored is hex, so that it can stand in a list of texts.
	hash := hex.AppendEncode(nil, sum[:])
	for i, t := range p.tokens {
		if hmac.Equal(hash, t) {
			return p.AppPasswords[i].ID, true
		}
	}
	return "", false
}

// Failed counts a sign-in that failed at a door by other means than Authenticate, as in SCRAM.
func (d *Directory) Failed(ctx context.Context, user, door string) {
	d.stat.failed.Inc()
	d.log(ctx, "sign-in refused", user, door)
}

// ScramCredentials returns the SCRAM-SHA-256 credentials of all the passwords that a user has some
// for: the account's, where they opted in and have no second factor, and the app passwords. For who has
// none, and for users who do not exist, it makes some up that no password matches: always the same for one
// name. Errors are failures of the look-up itself.
func (d *Directory) ScramCredentials(ctx context.Context, user string) ([]scram.Credentials, error) {
	p, err := d.ByName(ctx, user)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("directory: SCRAM: %w", err)
	}
	// The fake is made in any case, so that the time tells nothing.
	fake := scram.Fake(d.subkey("scram"), d.normalUser(ctx, user), d.opt.ScramIterations)
	list := p.scram
	if p.HasScram && p.HasTOTP() {
		list = list[1:]
	}
	if err == nil && len(list) > 0 && !p.Disabled {
		return list, nil
	}
	return []scram.Credentials{fake}, nil
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

// Key is a key of 32 bytes for one use, the same at every server of the domain.
func (d *Directory) Key(use string) []byte { return d.subkey("key " + use) }

// Sign makes a code of 16 bytes that only this domain's servers can make, for links and addresses
// that come back; each use has a key of its own.
func (d *Directory) Sign(use, text string) []byte {
	m := hmac.New(sha256.New, d.subkey("sign "+use))
	m.Write([]byte(text))
	return m.Sum(nil)[:16]
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
	var err error
	for range 3 {
		err = d.setPassword(ctx, who, person, pw, func(*Person) (bool, error) { return withScram, nil }, false)
		if !errors.Is(err, errMoved) {
			break
		}
	}
	return err
}

// newPasswordID says that the password is another one.
func (d *Directory) newPasswordID(items note.Items) note.Items {
	var id [8]byte
	d.env.Fill(id[:])
	return items.With(itemPasswordID, note.Text(hex.EncodeToString(id[:])))
}

// errMoved says that a person changed between the look at them and the lock.
var errMoved = errors.New("directory: the person changed meanwhile")

// setPassword asks, before the hash and under the lock, whether the password is to have SCRAM
// credentials. same says that it is the password that the account had.
func (d *Directory) setPassword(ctx context.Context, who note.Who, person note.UNID, pw string, ask func(*Person) (withScram bool, err error), same bool) error {
	p, err := d.Person(ctx, person)
	if err != nil {
		return err
	}
	withScram, err := ask(&p)
	if err != nil {
		return err
	}
	salt := d.saltOf(&p, false)
	c, err := d.prepare(ctx, pw, withScram, salt)
	if err != nil {
		return err
	}
	return d.update(ctx, who, func(e *edit) error {
		return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
			now := readPerson(person, items)
			again, err := ask(&now)
			if err == nil && (again != withScram || !salt.is(d.saltOf(&now, false))) {
				err = errMoved
			}
			items = c.write(items)
			if !same {
				items = d.newPasswordID(items)
			}
			return items, err
		})
	})
}

// salt is what all SCRAM credentials of a person are derived with: the server tells a client one
// salt and one count before it knows which of the passwords the client has.
type salt struct {
	bytes      []byte
	iterations int
}

func (s salt) is(o salt) bool { return s.iterations == o.iterations && bytes.Equal(s.bytes, o.bytes) }

func saltIn(c *scram.Credentials) salt { return salt{c.Salt, c.Iterations} }

// saltOf is the salt for a new password of a person: that of those that stay. account says that the
// account's password stays too.
func (d *Directory) saltOf(p *Person, account bool) salt {
	for i := range p.scram {
		if i > 0 || account || !p.HasScram {
			return saltIn(&p.scram[i])
		}
	}
	return d.newSalt(p.ID)
}

// newSalt is the same at every replica, so that two app passwords that are added at two of them go
// together.
func (d *Directory) newSalt(person note.UNID) salt {
	m := hmac.New(sha256.New, d.subkey("scram salt"))
	m.Write(person[:])
	return salt{m.Sum(nil)[:16], d.opt.ScramIterations}
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
func (d *Directory) prepare(ctx context.Context, pw string, withScram bool, s salt) (credentials, error) {
	var c credentials
	if pw == "" {
		return c, nil
	}
	var err error
	if c.hash, err = d.pool.Hash(ctx, pw); err != nil {
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
	add := func() error {
		p, err := d.Person(ctx, person)
		if err != nil {
			return err
		}
		with := d.saltOf(&p, true)
		made := with.derive(secret)
		return d.update(ctx, who, func(e *edit) error {
			return e.change(person, formPerson, func(items note.Items) (note.Items, error) {
				now := readPerson(person, items)
				switch {
				case len(now.tokens) >= maxTokens:
					return nil, fmt.Errorf("%w: a person has at most %d app passwords; remove one first", ErrInvalid, maxTokens)
				case !with.is(d.saltOf(&now, true)):
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
