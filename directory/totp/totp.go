// Package totp implements the second factor: codes that a person's device computes from a shared secret and the time
// (RFC 6238), and recovery codes in case the device is lost.
package totp

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"net/url"
	"strconv"
	"strings"
	"time"

	"doublet/env"
)

// SecretLen is the length of a secret, in bytes (RFC 4226 section 4 recommends 160 bits).
const SecretLen = 20

const (
	digits = 6
	period = 30 // seconds
	// window is the number of accepted steps before and after the current one, because clocks differ.
	window = 1
)

// NewSecret returns a new random secret.
func NewSecret(e *env.Env) []byte {
	s := make([]byte, SecretLen)
	e.Fill(s)
	return s
}

var letters = base32.StdEncoding.WithPadding(base32.NoPadding)

// Text returns a secret in base32, for people who cannot scan it.
func Text(secret []byte) string { return letters.EncodeToString(secret) }

// URI returns the text of the QR code that devices scan. issuer names the server, account the person.
func URI(issuer, account string, secret []byte) string {
	q := url.Values{"secret": {Text(secret)}, "issuer": {issuer}, "algorithm": {"SHA1"},
		"digits": {strconv.Itoa(digits)}, "period": {strconv.Itoa(period)}}
	// Some devices do not read + as a space.
	return "otpauth://totp/" + url.PathEscape(issuer+":"+account) + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

// step returns the time step of a time.
func step(now time.Time) int64 { return now.Unix() / period }

// Code returns the code at a time.
func Code(secret []byte, now time.Time) string { return code(secret, step(now)) }

// code returns the HOTP value of a counter.
//
// Implements: RFC 4226 §5.3 Generating an HOTP value
// Implements: RFC 6238 §4.2 TOTP
func code(secret []byte, counter int64) string {
	m := hmac.New(sha1.New, secret)
	m.Write(binary.BigEndian.AppendUint64(nil, uint64(counter)))
	sum := m.Sum(nil)
	at := sum[len(sum)-1] & 0x0f
	n := binary.BigEndian.Uint32(sum[at:]) & 0x7fffffff % 1e6
	text := strconv.Itoa(int(n))
	return strings.Repeat("0", digits-len(text)) + text
}

// Check reports whether text is the code of a step within the window around now, and returns that step. The caller must
// accept each step only once (RFC 6238 section 5.2).
//
// Implements: RFC 6238 §5.2 Validation and time-step size
func Check(secret []byte, text string, now time.Time) (good int64, ok bool) {
	text = plain(text)
	if len(secret) == 0 || len(text) != digits {
		return 0, false
	}
	// Always compute all codes, so that the time does not reveal anything.
	for s := step(now) - window; s <= step(now)+window; s++ {
		if subtle.ConstantTimeCompare([]byte(code(secret, s)), []byte(text)) == 1 {
			good, ok = s, true
		}
	}
	return good, ok
}

// plain removes the separators that people type in a code.
func plain(s string) string {
	if len(s) > 64 {
		return ""
	}
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "", "\u00a0", "").Replace(s))
}

// Properties of recovery codes.
const (
	// RecoveryCodes is the number of recovery codes that a person gets.
	RecoveryCodes = 10
	recoveryBytes = 10 // 80 bits, 16 letters
)

var recoveryLetters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NewRecovery returns a new recovery code, "abcd-efgh-ijkl-mnop".
func NewRecovery(e *env.Env) string {
	var raw [recoveryBytes]byte
	e.Fill(raw[:])
	s := recoveryLetters.EncodeToString(raw[:])
	return s[:4] + "-" + s[4:8] + "-" + s[8:12] + "-" + s[12:]
}

// RecoveryHash returns the stored form of a recovery code: HMAC-SHA-256 under a key of the server. It is the same for
// every way to type the code. ok is false if text does not have the form of a recovery code.
func RecoveryHash(key []byte, text string) (sum [32]byte, ok bool) {
	text = plain(text)
	raw, err := recoveryLetters.DecodeString(text)
	if err != nil || len(raw) != recoveryBytes || len(text) != recoveryLetters.EncodedLen(recoveryBytes) {
		return sum, false
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte("recovery code\x00"))
	m.Write(raw)
	m.Sum(sum[:0])
	return sum, true
}
