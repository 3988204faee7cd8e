package pki

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"doublet/bus"
	"doublet/note"
)

// Token is what an administrator carries to a server that is to join: where to go, whom to believe
// there, and the secret that opens the door once.
type Token struct {
	// Address is the direct address of the server that gave it out, host:port.
	Address string
	// Fingerprint is that of the cluster's authority.
	Fingerprint note.Digest
	Secret      [16]byte
}

const (
	tokenPrefix  = "doublet-join-"
	tokenVersion = 1
	// DefaultTokenLife is how long a token is good.
	DefaultTokenLife = time.Hour
	// maxTokens bounds those that are good at one time, keepTokens how long an ended one is remembered, so
	// that whoever brings it hears why it is refused.
	maxTokens  = 100
	keepTokens = 7 * 24 * time.Hour
	maxAddress = 255
)

// The reasons why a token is refused.
var (
	ErrBadToken     = errors.New("that is not a join token: copy it whole")
	ErrTokenUsed    = errors.New("the token has been used: make another with doublet cluster token")
	ErrTokenExpired = errors.New("the token has expired: make another with doublet cluster token")
	ErrTokenUnknown = errors.New("the server at that address did not give out this token")
	ErrTooMany      = errors.New("too many tokens are good at this time")
)

// String is the token as people copy it: one word.
func (t Token) String() string {
	raw := []byte{tokenVersion}
	raw = append(raw, t.Fingerprint[:]...)
	raw = append(raw, t.Secret[:]...)
	raw = append(raw, t.Address...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// ParseToken reads what String prints.
func ParseToken(word string) (Token, error) {
	word, ok := strings.CutPrefix(strings.TrimSpace(word), tokenPrefix)
	if !ok || len(word) > 512 {
		return Token{}, ErrBadToken
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(word)
	const fixed = 1 + len(note.Digest{}) + 16
	if err != nil || len(raw) < fixed+4 || len(raw) > fixed+maxAddress+4 {
		return Token{}, ErrBadToken
	}
	body, sum := raw[:len(raw)-4], raw[len(raw)-4:]
	if binary.BigEndian.Uint32(sum) != crc32.ChecksumIEEE(body) {
		return Token{}, ErrBadToken
	}
	if body[0] != tokenVersion {
		return Token{}, fmt.Errorf("%w: it is of version %d, this program knows %d", ErrBadToken, body[0], tokenVersion)
	}
	var t Token
	copy(t.Fingerprint[:], body[1:])
	copy(t.Secret[:], body[1+len(t.Fingerprint):])
	t.Address = string(body[fixed:])
	return t, checkAddress(t.Address)
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || len(address) > maxAddress || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%q is not host:port", address)
	}
	return nil
}

// issued is a token in tokens.json. The secret itself is not kept.
type issued struct {
	Hash    note.Digest `json:"-"`
	Text    string      `json:"hash"`
	Made    time.Time   `json:"made"`
	Expires time.Time   `json:"expires"`
	// Authority: whoever joins with it gets the authority's key.
	Authority bool `json:"authority,omitempty"`
	// UsedBy is the key of the server that used it: that one may come again, if its answer was lost.
	UsedBy string    `json:"used_by,omitempty"`
	UsedAt time.Time `json:"used_at,omitzero"`
}

func (f *Folder) loadTokens() ([]issued, error) {
	raw, err := f.read(tokensFile)
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
		return nil, fmt.Errorf("%s: %w", f.path(tokensFile), err)
	}
	now := f.env.Clock.Now()
	return slices.DeleteFunc(list, func(t issued) bool { return now.After(t.Expires.Add(keepTokens)) }), nil
}

func (f *Folder) saveTokens(list []issued) error {
	raw, err := json.MarshalIndent(list, "", "\t")
	if err != nil {
		return err
	}
	return f.write(tokensFile, append(raw, '\n'))
}

// NewToken gives out a token for one server, good for life (0: DefaultTokenLife). address is where this
// server is reached directly. authority hands the joining server the authority's key, so that it can
// admit others too.
func (f *Folder) NewToken(address string, life time.Duration, authority bool) (Token, time.Time, error) {
	if !f.MayAdmit() {
		return Token{}, time.Time{}, ErrNoKey
	}
	if err := checkAddress(address); err != nil {
		return Token{}, time.Time{}, err
	}
	if life <= 0 {
		life = DefaultTokenLife
	}
	f.tokens.Lock()
	defer f.tokens.Unlock()
	list, err := f.loadTokens()
	if err != nil {
		return Token{}, time.Time{}, err
	}
	now := f.env.Clock.Now()
	good := 0
	for _, t := range list {
		if t.UsedBy == "" && now.Before(t.Expires) {
			good++
		}
	}
	if good >= maxTokens {
		return Token{}, time.Time{}, ErrTooMany
	}
	t := Token{Address: address, Fingerprint: f.Fingerprint()}
	f.env.Fill(t.Secret[:])
	entry := issued{Text: hashOf(t.Secret).String(), Made: now.UTC(), Expires: now.Add(life).UTC(), Authority: authority}
	return t, entry.Expires, f.saveTokens(append(list, entry))
}

func hashOf(secret [16]byte) note.Digest { return sha256.Sum256(secret[:]) }

// redeem uses a token up for a key, durably. The same key may do so again.
func (f *Folder) redeem(secret [16]byte, key bus.Key) (authority bool, err error) {
	f.tokens.Lock()
	defer f.tokens.Unlock()
	list, err := f.loadTokens()
	if err != nil {
		return false, err
	}
	hash := hashOf(secret)
	i := slices.IndexFunc(list, func(t issued) bool { return t.Hash == hash })
	if i < 0 {
		return false, ErrTokenUnknown
	}
	t := &list[i]
	now := f.env.Clock.Now()
	switch {
	case t.UsedBy != "" && t.UsedBy != key.String():
		return false, ErrTokenUsed
	case !now.Before(t.Expires):
		return false, ErrTokenExpired
	case t.UsedBy != "":
		return t.Authority, nil
	}
	t.UsedBy, t.UsedAt = key.String(), now.UTC()
	return t.Authority, f.saveTokens(list)
}
