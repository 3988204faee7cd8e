package pki

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"doublet/bus"
	"doublet/env"
	"doublet/note"
)

// Tokens is the list of tokens that a server has issued, saved in a file. Its methods are safe for concurrent use.
type Tokens struct {
	f    *Folder
	name string
	// verb is the command that issues a token, for error messages.
	verb string

	mu sync.Mutex // held during a change of the file
}

// domainTokensFile holds the tokens with which servers join this server's domain.
const domainTokensFile = "domain-tokens.json"

// DomainTokens returns the tokens with which servers join the domain of the server whose key is in dir.
func DomainTokens(e *env.Env, dir string, o Options) *Tokens {
	return &Tokens{f: newFolder(e, dir, o), name: domainTokensFile, verb: "doublet domain token"}
}

// Issued describes an issued token in a list.
type Issued struct {
	// ID identifies the token. It is the beginning of the hash of its secret.
	ID            string
	Made, Expires time.Time
	// UsedBy is the key of the server that used it, UsedAt the time; both are zero for an unused token.
	UsedBy bus.Key
	UsedAt time.Time
}

// shortID is the number of digits of the hash in an ID.
const shortID = 12

// List returns the remembered tokens, the oldest first.
func (t *Tokens) List() ([]Issued, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, err := t.load()
	out := make([]Issued, 0, len(list))
	for _, x := range list {
		i := Issued{ID: x.Text[:shortID], Made: x.Made, Expires: x.Expires, UsedAt: x.UsedAt}
		if x.UsedBy != "" {
			key, bad := bus.ParseKey(x.UsedBy)
			i.UsedBy, err = key, errors.Join(err, bad)
		}
		out = append(out, i)
	}
	return out, err
}

// Remove revokes a token. It returns ErrTokenUnknown if there is none with this ID.
func (t *Tokens) Remove(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	list, err := t.load()
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(list), func(x issued) bool { return x.Text[:shortID] == id })
	if len(left) == len(list) {
		return ErrTokenUnknown
	}
	return t.save(left)
}

func (t *Tokens) load() ([]issued, error) {
	raw, err := t.f.read(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []issued
	if err == nil {
		err = json.Unmarshal(raw, &list)
	}
	for i := range list {
		key, bad := bus.ParseKey(list[i].Text)
		err = errors.Join(err, bad)
		list[i].Hash = note.Digest(key)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.f.path(t.name), err)
	}
	now := t.f.env.Clock.Now()
	return slices.DeleteFunc(list, func(x issued) bool { return now.After(x.Expires.Add(keepTokens)) }), nil
}

func (t *Tokens) save(list []issued) error {
	raw, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return err
	}
	return t.f.write(t.name, append(raw, '\n'))
}

// Issue issues a secret that can be used once within life (0: DefaultTokenLife).
func (t *Tokens) Issue(life time.Duration, authority bool) (secret [16]byte, expires time.Time, err error) {
	if life <= 0 {
		life = DefaultTokenLife
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list, err := t.load()
	if err != nil {
		return secret, expires, err
	}
	now := t.f.env.Clock.Now()
	good := 0
	for _, x := range list {
		if x.UsedBy == "" && now.Before(x.Expires) {
			good++
		}
	}
	if good >= maxTokens {
		return secret, expires, ErrTooMany
	}
	t.f.env.Fill(secret[:])
	entry := issued{Text: hashOf(secret).String(), Made: now.UTC(), Expires: now.Add(life).UTC(), Authority: authority}
	return secret, entry.Expires, t.save(append(list, entry))
}

func hashOf(secret [16]byte) note.Digest { return sha256.Sum256(secret[:]) }

// Redeem marks a token as used by a key, durably, and reports whether it hands over the authority's key. The same key
// may use it again until the token expires.
func (t *Tokens) Redeem(secret []byte, key bus.Key) (authority bool, err error) {
	if len(secret) != len(Token{}.Secret) {
		return false, ErrTokenUnknown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list, err := t.load()
	if err != nil {
		return false, err
	}
	hash := hashOf([16]byte(secret))
	i := slices.IndexFunc(list, func(x issued) bool { return x.Hash == hash })
	if i < 0 {
		return false, ErrTokenUnknown
	}
	x := &list[i]
	now := t.f.env.Clock.Now()
	switch {
	case x.UsedBy != "" && x.UsedBy != key.String():
		return false, fmt.Errorf("%w: make another with %s", ErrTokenUsed, t.verb)
	case !now.Before(x.Expires):
		return false, fmt.Errorf("%w: make another with %s", ErrTokenExpired, t.verb)
	case x.UsedBy != "":
		return x.Authority, nil
	}
	x.UsedBy, x.UsedAt = key.String(), now.UTC()
	return x.Authority, t.save(list)
}
