package pki

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strings"
	"time"

	"doublet/bus"
	"doublet/note"
)

// Token is a join token. An administrator takes it to a server that joins a cluster or a domain. It holds the address
// to join at, the fingerprint to verify, and a secret that admits one server.
type Token struct {
	// Domain is set for a token of a domain, not of a cluster.
	Domain bool
	// Address is the address of the issuing server, as host:port. It is the direct address, or the HTTPS address for a
	// domain.
	Address string
	// Fingerprint identifies the cluster's authority, or the server's own key for a domain.
	Fingerprint note.Digest
	Secret      [16]byte
}

const (
	tokenPrefix       = "doublet-join-"
	domainTokenPrefix = "doublet-domain-"
	tokenVersion      = 1
	// DefaultTokenLife is the default validity period of a token.
	DefaultTokenLife = time.Hour
	// maxTokens is the maximum number of valid tokens. keepTokens is the time for which an ended token is remembered,
	// so that its late user gets the reason for the rejection.
	maxTokens  = 100
	keepTokens = 7 * 24 * time.Hour
	maxAddress = 255
)

// Reasons why a token is rejected or cannot be issued.
var (
	ErrBadToken     = errors.New("that is not a join token: copy it whole")
	ErrTokenUsed    = errors.New("token was already used")
	ErrTokenExpired = errors.New("token expired")
	ErrTokenUnknown = errors.New("server at that address did not issue this token")
	ErrTooMany      = errors.New("too many tokens are good at this time")
)

// String returns the token as one word, for people to copy.
func (t Token) String() string {
	raw := []byte{tokenVersion}
	raw = append(raw, t.Fingerprint[:]...)
	raw = append(raw, t.Secret[:]...)
	raw = append(raw, t.Address...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	prefix := tokenPrefix
	if t.Domain {
		prefix = domainTokenPrefix
	}
	return prefix + base64.RawURLEncoding.EncodeToString(raw)
}

// ParseToken parses the format of String.
func ParseToken(word string) (Token, error) {
	word, ok := strings.CutPrefix(strings.TrimSpace(word), tokenPrefix)
	domain := false
	if !ok {
		word, domain = strings.CutPrefix(word, domainTokenPrefix)
	}
	if !ok && !domain || len(word) > 512 {
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
	t := Token{Domain: domain}
	copy(t.Fingerprint[:], body[1:])
	copy(t.Secret[:], body[1+len(t.Fingerprint):])
	t.Address = string(body[fixed:])
	return t, checkAddress(t.Address)
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || len(address) > maxAddress ||
		strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%q is not host:port", address)
	}
	return nil
}

// issued is an entry of tokens.json. It holds the secret's hash only.
type issued struct {
	Hash    note.Digest `json:"-"`
	Text    string      `json:"hash"`
	Made    time.Time   `json:"made"`
	Expires time.Time   `json:"expires"`
	// Authority is set if the joining server gets the authority's key.
	Authority bool `json:"authority,omitempty"`
	// UsedBy is the key of the server that used the token. That server may use it again, if its answer was lost.
	UsedBy string    `json:"used_by,omitempty"`
	UsedAt time.Time `json:"used_at,omitzero"`
}

// NewToken issues a token for one server, valid for life (0: DefaultTokenLife). address is this server's direct
// address. authority gives the joining server the authority's key, so that it can admit others too.
func (f *Folder) NewToken(address string, life time.Duration, authority bool) (Token, time.Time, error) {
	if !f.MayAdmit() {
		return Token{}, time.Time{}, ErrNoKey
	}
	if err := checkAddress(address); err != nil {
		return Token{}, time.Time{}, err
	}
	t := Token{Address: address, Fingerprint: f.Fingerprint()}
	var expires time.Time
	var err error
	t.Secret, expires, err = f.tokens.Issue(life, authority)
	return t, expires, err
}

// Tokens returns the tokens with which servers join the cluster here.
func (f *Folder) Tokens() *Tokens { return f.tokens }

// NewDomainToken issues a token with which one server joins a domain. key and address are the issuing server's own key
// and its HTTPS address.
func (t *Tokens) NewDomainToken(address string, key bus.Key, life time.Duration) (Token, time.Time, error) {
	if err := checkAddress(address); err != nil {
		return Token{}, time.Time{}, err
	}
	token := Token{Domain: true, Address: address, Fingerprint: note.Digest(key)}
	var expires time.Time
	var err error
	token.Secret, expires, err = t.Issue(life, false)
	return token, expires, err
}
