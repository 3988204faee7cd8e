// Package webpush makes the messages for a push service (RFC 8030). A message is encrypted for its subscriber (RFC
// 8291, in the content coding of RFC 8188). A token identifies the server (VAPID, RFC 8292). The caller supplies
// randomness and time, and sends the message.
package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"
)

// Encoding is the content coding of an encrypted message.
const Encoding = "aes128gcm"

// MaxPayload is the maximum length in bytes of a message that every push service accepts (RFC 8291 section 4).
const MaxPayload = 4096 - headerLen - 1 - 16

const (
	pointLen  = 65 // uncompressed point of P-256
	saltLen   = 16
	authLen   = 16
	headerLen = saltLen + 4 + 1 + pointLen
	// recordSize is the record size in the header. A message is always one record.
	recordSize = 4096
)

// Keys holds a subscriber's public key and authentication secret.
type Keys struct {
	public *ecdh.PublicKey
	auth   []byte
}

// Errors in a subscriber's keys or in a message.
var (
	ErrKeys    = errors.New("webpush: p256dh is not a point of P-256, or auth is not 16 octets, in URL-safe base64")
	ErrTooLong = errors.New("webpush: message exceeds the limit of push services")
	ErrMessage = errors.New("webpush: the message cannot be read with these keys")
)

// ParseKeys parses the keys in the format of subscribers: URL-safe base64, with or without padding.
func ParseKeys(p256dh, auth string) (Keys, error) {
	point, err1 := decode(p256dh)
	secret, err2 := decode(auth)
	if err1 != nil || err2 != nil || len(point) != pointLen || len(secret) != authLen {
		return Keys{}, ErrKeys
	}
	public, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return Keys{}, ErrKeys
	}
	return Keys{public, secret}, nil
}

func decode(s string) ([]byte, error) {
	return base64.RawURLEncoding.Strict().DecodeString(strings.TrimRight(s, "="))
}

// Encrypt returns the body of a push message. ephemeral and salt must be used for one message only.
//
// Implements: RFC 8291 §4 Restrictions on use of "aes128gcm" content coding
// Implements: RFC 8188 §2 The "aes128gcm" HTTP content coding
func Encrypt(k Keys, ephemeral *ecdh.PrivateKey, salt [saltLen]byte, payload []byte) ([]byte, error) {
	if len(payload) > MaxPayload {
		return nil, ErrTooLong
	}
	shared, err := ephemeral.ECDH(k.public)
	if err != nil {
		return nil, fmt.Errorf("webpush: %w", err)
	}
	aead, nonce, err := derive(shared, k.auth, salt[:], k.public, ephemeral.PublicKey())
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, headerLen+len(payload)+1+aead.Overhead()), salt[:]...)
	out = binary.BigEndian.AppendUint32(out, recordSize)
	out = append(append(out, pointLen), ephemeral.PublicKey().Bytes()...)
	last := append(append(make([]byte, 0, len(payload)+1), payload...), 2) // the delimiter of the last record
	return aead.Seal(out, nonce, last, nil), nil
}

// derive returns the cipher and nonce for the only record.
//
// Implements: RFC 8291 §3.4 Encryption summary
func derive(shared, auth, salt []byte, subscriber, server *ecdh.PublicKey) (cipher.AEAD, []byte, error) {
	info := append([]byte("WebPush: info\x00"), subscriber.Bytes()...)
	info = append(info, server.Bytes()...)
	ikm, err := hkdf.Key(sha256.New, shared, auth, string(info), 32)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: %w", err)
	}
	prk, err := hkdf.Extract(sha256.New, ikm, salt)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: %w", err)
	}
	key, err := hkdf.Expand(sha256.New, prk, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: %w", err)
	}
	nonce, err := hkdf.Expand(sha256.New, prk, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, nil, fmt.Errorf("webpush: %w", err)
	}
	return aead, nonce, nil
}

// Decrypt decrypts a message as its subscriber does. The message must have one record, as from Encrypt.
func Decrypt(private *ecdh.PrivateKey, auth, body []byte) ([]byte, error) {
	if len(body) < headerLen+1+16 || body[saltLen+4] != pointLen ||
		binary.BigEndian.Uint32(body[saltLen:]) < uint32(max(18, len(body)-headerLen)) {
		return nil, ErrMessage
	}
	server, err := ecdh.P256().NewPublicKey(body[saltLen+5 : headerLen])
	if err != nil {
		return nil, ErrMessage
	}
	shared, err := private.ECDH(server)
	if err != nil {
		return nil, ErrMessage
	}
	aead, nonce, err := derive(shared, auth, body[:saltLen], private.PublicKey(), server)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, nonce, body[headerLen:], nil)
	if err != nil {
		return nil, ErrMessage
	}
	for i := len(plain) - 1; i >= 0; i-- {
		if plain[i] == 2 {
			return plain[:i], nil
		}
		if plain[i] != 0 {
			break
		}
	}
	return nil, ErrMessage
}

// KeyFrom derives the server's key pair from 32 secret bytes, always the same from the same bytes. ok is false for the
// few values that are not valid keys.
func KeyFrom(secret []byte) (key *ecdsa.PrivateKey, ok bool) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret)
	return key, err == nil
}

// PublicKey returns the server's public key for subscribers and push services: an uncompressed point in URL-safe
// base64.
func PublicKey(key *ecdsa.PrivateKey) string {
	point, err := key.PublicKey.Bytes()
	if err != nil {
		return "" // not possible for a key from KeyFrom
	}
	return base64.RawURLEncoding.EncodeToString(point)
}

// claims holds the claims of a token.
type claims struct {
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"`
	Subject  string `json:"sub,omitempty"`
}

// tokenHeader is the JOSE header of every token.
var tokenHeader = base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"ES256"}`))

// Authorization returns the header field that identifies the server to the push service at audience, which is an
// origin. subject is a contact for the server's operator, a mailto: or https: URL, or "". The token must expire within
// a day.
//
// Implements: RFC 8292 §2 Application server self-identification
// Implements: RFC 8292 §3 VAPID authentication scheme
func Authorization(key *ecdsa.PrivateKey, random io.Reader, audience, subject string,
	expires time.Time) (string, error) {
	body, err := json.Marshal(claims{audience, expires.Unix(), subject})
	if err != nil {
		return "", fmt.Errorf("webpush: token: %w", err)
	}
	text := tokenHeader + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(random, key, sum[:])
	if err != nil {
		return "", fmt.Errorf("webpush: token: %w", err)
	}
	var sig [64]byte
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return "vapid t=" + text + "." + base64.RawURLEncoding.EncodeToString(sig[:]) + ", k=" + PublicKey(key), nil
}

// ErrAuthorization means that a field is not from Authorization, or is not valid for this audience and time.
var ErrAuthorization = errors.New("webpush: the token is not good")

// verifyToken checks a token's signature with a public key, an uncompressed point in base64url, and returns its claims.
func verifyToken(token, public string) (body []byte, ok bool) {
	point, err := decode(public)
	if err != nil {
		return nil, false
	}
	key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	parts := strings.Split(token, ".")
	if err != nil || len(parts) != 3 || parts[0] != tokenHeader {
		return nil, false
	}
	body, err1 := decode(parts[1])
	sig, err2 := decode(parts[2])
	if err1 != nil || err2 != nil || len(sig) != 64 {
		return nil, false
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return body, ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:]))
}

// CheckAuthorization verifies the field as a push service does, and returns the subject and the public key.
func CheckAuthorization(field, audience string, now time.Time) (subject, public string, err error) {
	token, k, ok := strings.Cut(strings.TrimPrefix(field, "vapid t="), ", k=")
	if !ok || !strings.HasPrefix(field, "vapid ") {
		return "", "", ErrAuthorization
	}
	body, ok := verifyToken(token, k)
	if !ok {
		return "", "", ErrAuthorization
	}
	var c claims
	end := time.Unix(0, 0)
	if err := json.Unmarshal(body, &c); err == nil {
		end = time.Unix(c.Expires, 0)
	}
	if c.Audience != audience || !now.Before(end) || end.Sub(now) > 24*time.Hour {
		return "", "", ErrAuthorization
	}
	return c.Subject, k, nil
}
