package password

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"doublet/env"
)

// A token has 160 random bits. That is enough for a plain keyed hash to protect it; a slow hash is not needed.
const (
	tokenBytes = 20
	tokenLen   = 32 // characters
)

var tokenEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewToken returns a new app password: eight groups of four letters and digits, "abcd-efgh-…". It is shown to the
// person once.
func NewToken(e *env.Env) string {
	var raw [tokenBytes]byte
	e.Fill(raw[:])
	s := tokenEncoding.EncodeToString(raw[:])
	var b strings.Builder
	for i := 0; i < tokenLen; i += 4 {
		if i > 0 {
			b.WriteByte('-')
		}
		b.WriteString(s[i : i+4])
	}
	return b.String()
}

// plainToken returns the 32 characters of a token that a person typed in any case, with or without hyphens and spaces.
func plainToken(s string) (plain [tokenLen]byte, ok bool) {
	n := 0
	if len(s) > 4*tokenLen {
		return plain, false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c == '-' || c == ' ':
			continue
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case 'a' <= c && c <= 'z', '2' <= c && c <= '7':
		default:
			return plain, false
		}
		if n == tokenLen {
			return plain, false
		}
		plain[n] = c
		n++
	}
	return plain, n == tokenLen
}

// IsToken reports whether s has the form of a token. Other texts need no lookup.
func IsToken(s string) bool {
	_, ok := plainToken(s)
	return ok
}

// TokenHash returns the stored form of a token: HMAC-SHA-256 under the server's key. It is the same for every way to
// type the token, so that an index of hashes finds the token. ok is false if s does not have the form of a token.
func TokenHash(serverKey []byte, s string) (sum [32]byte, ok bool) {
	plain, ok := plainToken(s)
	if !ok {
		return sum, false
	}
	m := hmac.New(sha256.New, serverKey)
	m.Write([]byte("app password\x00"))
	m.Write(plain[:])
	m.Sum(sum[:0])
	return sum, true
}

// VerifyToken compares s with a stored hash in constant time.
func VerifyToken(serverKey, stored []byte, s string) bool {
	sum, ok := TokenHash(serverKey, s)
	return ok && hmac.Equal(sum[:], stored)
}
