package passkey

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"time"

	"doublet/env"
)

// ErrExpired reports a challenge of this domain that is older than Life.
var ErrExpired = errors.New("passkey: the challenge has expired")

// Life is the time for which a challenge is valid.
const Life = 5 * time.Minute

// Challenges issues and checks challenges. A challenge carries its expiry and a MAC, so that open ceremonies take no
// memory, and each member of a cluster knows the challenges of the others. A challenge may be used once: the caller
// stores the ones that were used, for at least Life.
type Challenges struct {
	env *env.Env
	key []byte
}

// NewChallenges returns the Challenges of a secret key, which must be the same at all servers of the domain.
func NewChallenges(e *env.Env, key []byte) *Challenges { return &Challenges{e, key} }

// The parts of a challenge: random bytes, the expiry in Unix seconds, and a MAC, in bytes. WebAuthn section 13.4.3
// requires at least 16 random bytes.
const (
	randomLen    = 16
	bodyLen      = randomLen + 8
	challengeLen = bodyLen + sha256.Size
)

// Issue returns a challenge that is valid for one purpose: a text that Check must get too.
func (c *Challenges) Issue(purpose string) []byte {
	b := make([]byte, randomLen, challengeLen)
	c.env.Fill(b)
	b = binary.BigEndian.AppendUint64(b, uint64(c.env.Clock.Now().Add(Life).Unix()))
	return append(b, c.mac(purpose, b)...)
}

// Check verifies a challenge. Errors: ErrExpired; ErrWrong for one that was not issued for the purpose.
func (c *Challenges) Check(purpose string, challenge []byte) error {
	if len(challenge) != challengeLen || !hmac.Equal(challenge[bodyLen:], c.mac(purpose, challenge[:bodyLen])) {
		return ErrWrong
	}
	if ends := binary.BigEndian.Uint64(challenge[randomLen:]); c.env.Clock.Now().Unix() >= int64(ends) {
		return ErrExpired
	}
	return nil
}

func (c *Challenges) mac(purpose string, body []byte) []byte {
	m := hmac.New(sha256.New, c.key)
	m.Write(bytes.Join([][]byte{[]byte("passkey challenge"), []byte(purpose), body}, []byte{0}))
	return m.Sum(nil)
}
