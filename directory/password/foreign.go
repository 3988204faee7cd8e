package password

import (
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	gohash "hash"
	"strconv"
	"strings"

	"github.com/go-crypt/crypt/algorithm"
	"github.com/go-crypt/crypt/algorithm/md5crypt"
	"github.com/go-crypt/crypt/algorithm/sha1crypt"
	"github.com/go-crypt/crypt/algorithm/shacrypt"
	"github.com/go-crypt/x/yescrypt"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Limits of hashes from other programs. They allow about ten times the cost of our own hashes.
const (
	maxCryptRounds  = 500_000
	maxPBKDF2Rounds = 1_000_000
	maxBcryptCost   = 14
)

// verifier is a stored hash that was parsed and is within the limits.
type verifier interface{ matches(password string) bool }

type verify func(password string) bool

func (v verify) matches(password string) bool { return v(password) }

// Foreign reports whether a stored hash was made by another program.
func Foreign(stored string) bool { return stored != "" && !strings.HasPrefix(stored, "$argon2id$") }

// Plain returns the password in a value from another system that stores it unhashed: after {PLAIN} or {CLEARTEXT}.
func Plain(value string) (password string, ok bool) {
	scheme, rest := cutScheme(value)
	return rest, scheme == "PLAIN" || scheme == "CLEARTEXT"
}

// Check returns ErrFormat if a hash from another system cannot be verified here, or its parameters are out of bounds.
// Supported are: crypt(3) hashes that begin with $1$, $2a$, $2b$, $2y$, $5$, $6$, $y$ and $sha1$, also after {CRYPT} or
// Dovecot's {MD5-CRYPT}, {BLF-CRYPT}, {SHA256-CRYPT} and {SHA512-CRYPT}; {SHA}, {SSHA}, {SHA256}, {SSHA256}, {SHA512},
// {SSHA512}, {MD5}, {SMD5}, {LDAP-MD5}, {PLAIN-MD5}; {PBKDF2} of OpenLDAP and of Dovecot, {PBKDF2-SHA256},
// {PBKDF2-SHA512}; argon2id and argon2i, with or without {ARGON2}, {ARGON2ID} or {ARGON2I}.
func Check(stored string) error {
	_, err := read(stored)
	return err
}

// read parses a stored hash of any kind.
func read(stored string) (verifier, error) {
	if len(stored) > maxPHC {
		return nil, fmt.Errorf("%w: too long", ErrFormat)
	}
	scheme, rest := cutScheme(stored)
	if scheme == "" {
		return readCrypt(stored)
	}
	scheme, coding, _ := strings.Cut(scheme, ".")
	if sum := digests[scheme]; sum.new != nil && !strings.HasPrefix(rest, "$") {
		return readDigest(sum, rest, coding)
	}
	switch scheme {
	case "CRYPT", "MD5", "MD5-CRYPT", "BLF-CRYPT", "SHA256-CRYPT", "SHA512-CRYPT", "ARGON2", "ARGON2I", "ARGON2ID":
		return readCrypt(rest)
	case "PLAIN-MD5":
		return readDigest(digest{new: md5.New}, rest, "HEX")
	case "PBKDF2":
		if strings.HasPrefix(rest, "$1$") {
			return readDovecotPBKDF2(rest)
		}
		return readPBKDF2(sha1.New, rest)
	case "PBKDF2-SHA1":
		return readPBKDF2(sha1.New, rest)
	case "PBKDF2-SHA256":
		return readPBKDF2(sha256.New, rest)
	case "PBKDF2-SHA512":
		return readPBKDF2(sha512.New, rest)
	}
	return nil, fmt.Errorf("%w: unknown scheme {%.20s}", ErrFormat, scheme)
}

// cutScheme cuts off {SCHEME} and returns it in upper case.
func cutScheme(s string) (scheme, rest string) {
	if !strings.HasPrefix(s, "{") {
		return "", s
	}
	scheme, rest, ok := strings.Cut(s[1:], "}")
	if !ok || len(scheme) > 20 {
		return "", s
	}
	return strings.ToUpper(scheme), rest
}

// readCrypt parses the formats of crypt(3) and argon2.
func readCrypt(s string) (verifier, error) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(s, "$"), "$")
	switch {
	case isDES(s):
		return nil, fmt.Errorf("%w: DES crypt is too weak: it uses only the first eight characters of a password",
			ErrFormat)
	case !strings.HasPrefix(s, "$"):
		return nil, fmt.Errorf("%w: no scheme that is known", ErrFormat)
	case kind == "argon2id":
		return parse(s)
	case kind == "argon2i":
		return readArgon2i(s)
	case kind == "1":
		return library(md5crypt.Decode(s))
	case kind == "2a", kind == "2b", kind == "2y":
		return readBcrypt(s)
	case kind == "5", kind == "6":
		if err := rounds(rest); err != nil {
			return nil, err
		}
		return library(shacrypt.Decode(s))
	case kind == "sha1":
		n, _, _ := strings.Cut(rest, "$")
		if _, err := number(n, "", maxCryptRounds); err != nil {
			return nil, fmt.Errorf("%w: rounds", ErrFormat)
		}
		return library(sha1crypt.Decode(s))
	case kind == "y":
		return readYescrypt(rest)
	case kind == "gy", kind == "7":
		return nil, fmt.Errorf("%w: gost-yescrypt and scrypt of crypt(3) cannot be verified here", ErrFormat)
	}
	return nil, fmt.Errorf("%w: unknown scheme $%.10s$", ErrFormat, kind)
}

// isDES reports whether a text has the form of crypt(3)'s oldest schemes: DES, or BSDi's with a leading underscore.
func isDES(s string) bool {
	if n := len(s); n != 13 && (n != 20 || s[0] != '_') {
		return false
	}
	return strings.Trim(strings.TrimPrefix(s, "_"), cryptAlphabet) == ""
}

const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// yescryptCost parses the cost. ok is false if it is malformed, or too high or low.
func yescryptCost(setting string) (log2, r int, ok bool) {
	_, log2, r, err := yescrypt.DecodeSetting([]byte(setting))
	return log2, r, err == nil && 10 <= log2 && log2 <= 18 && 1 <= r && r <= 32 && 128*r<<log2 <= maxMemory<<10
}

// readYescrypt parses parameters$salt$key after $y$. It accepts only the flags that libxcrypt sets.
func readYescrypt(rest string) (verifier, error) {
	f := strings.Split(rest, "$")
	if len(f) != 3 || len(f[0]) != 3 || f[0][0] != 'j' || len(f[1]) > 86 || len(f[2]) != 43 {
		return nil, fmt.Errorf("%w: yescrypt, or parameters that are not those of libxcrypt", ErrFormat)
	}
	log2, r, ok := yescryptCost(f[0])
	if !ok {
		return nil, fmt.Errorf("%w: yescrypt needs over %d MB", ErrFormat, maxMemory>>10)
	}
	salt, key := yescrypt.Decode64([]byte(f[1])), yescrypt.Decode64([]byte(f[2]))
	if len(salt) == 0 || len(key) != 32 {
		return nil, fmt.Errorf("%w: yescrypt", ErrFormat)
	}
	return verify(func(password string) bool {
		got, err := yescrypt.Key([]byte(password), salt, 1<<log2, r, 1, len(key))
		return err == nil && subtle.ConstantTimeCompare(got, key) == 1
	}), nil
}

// rounds checks the cost in a SHA-crypt string. rest is the part after the scheme.
func rounds(rest string) error {
	n, ok := strings.CutPrefix(rest, "rounds=")
	if !ok {
		return nil
	}
	n, _, _ = strings.Cut(n, "$")
	if _, err := number(n, "", maxCryptRounds); err != nil {
		return fmt.Errorf("%w: rounds out of bounds", ErrFormat)
	}
	return nil
}

// library turns the result of a go-crypt decoder into a verifier.
func library(d algorithm.Digest, err error) (verifier, error) {
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if len(d.Key()) == 0 {
		return nil, fmt.Errorf("%w: no hash", ErrFormat)
	}
	return verify(func(password string) bool {
		ok, err := d.MatchAdvanced(password)
		return err == nil && ok
	}), nil
}

func readBcrypt(s string) (verifier, error) {
	cost, err := bcrypt.Cost([]byte(s))
	if err != nil || cost > maxBcryptCost || len(s) != 60 {
		return nil, fmt.Errorf("%w: bcrypt, or its cost is over %d", ErrFormat, maxBcryptCost)
	}
	return verify(func(password string) bool {
		// bcrypt uses only 72 bytes. The program that made the hash truncated the password too.
		return bcrypt.CompareHashAndPassword([]byte(s), []byte(password[:min(len(password), 72)])) == nil
	}), nil
}

// readArgon2i parses a hash that differs from ours only in the function.
func readArgon2i(s string) (verifier, error) {
	h, err := parse("$argon2id$" + strings.TrimPrefix(s, "$argon2i$"))
	if err != nil {
		return nil, err
	}
	return verify(func(password string) bool {
		key := argon2.Key([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(len(h.key)))
		return subtle.ConstantTimeCompare(key, h.key) == 1
	}), nil
}

// digest is a plain hash, as LDAP servers store it, with or without a salt after it.
type digest struct {
	new    func() gohash.Hash
	salted bool
}

var digests = map[string]digest{
	"SHA": {sha1.New, false}, "SHA1": {sha1.New, false}, "SSHA": {sha1.New, true},
	"SHA256": {sha256.New, false}, "SSHA256": {sha256.New, true},
	"SHA512": {sha512.New, false}, "SSHA512": {sha512.New, true},
	"MD5": {md5.New, false}, "LDAP-MD5": {md5.New, false}, "SMD5": {md5.New, true},
}

func readDigest(d digest, text, coding string) (verifier, error) {
	var raw []byte
	var err error
	switch coding {
	case "HEX":
		raw, err = hex.DecodeString(text)
	case "", "B64", "BASE64":
		raw, err = unpadded(base64.RawStdEncoding, text)
	default:
		err = ErrFormat
	}
	size := d.new().Size()
	if err != nil || len(raw) < size || !d.salted && len(raw) != size || d.salted && len(raw) == size {
		return nil, fmt.Errorf("%w: digest", ErrFormat)
	}
	sum, salt := raw[:size], raw[size:]
	return verify(func(password string) bool {
		h := d.new()
		h.Write([]byte(password))
		h.Write(salt)
		return subtle.ConstantTimeCompare(h.Sum(nil), sum) == 1
	}), nil
}

func unpadded(e *base64.Encoding, s string) ([]byte, error) {
	return e.DecodeString(strings.TrimRight(s, "="))
}

// adapted decodes the base64 variant in which OpenLDAP and passlib write salts: with a dot instead of a plus.
func adapted(s string) ([]byte, error) {
	return unpadded(base64.RawStdEncoding, strings.ReplaceAll(s, ".", "+"))
}

// readPBKDF2 parses rounds$salt$key, the format of OpenLDAP and passlib.
func readPBKDF2(sum func() gohash.Hash, s string) (verifier, error) {
	f := strings.Split(strings.TrimPrefix(s, "$"), "$")
	if len(f) != 3 {
		return nil, fmt.Errorf("%w: PBKDF2", ErrFormat)
	}
	salt, err1 := adapted(f[1])
	key, err2 := adapted(f[2])
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%w: PBKDF2", ErrFormat)
	}
	return newPBKDF2(sum, f[0], salt, key)
}

// readDovecotPBKDF2 parses $1$salt$rounds$key, with an unencoded salt and a hex key.
func readDovecotPBKDF2(s string) (verifier, error) {
	f := strings.Split(s, "$")
	if len(f) != 5 {
		return nil, fmt.Errorf("%w: PBKDF2", ErrFormat)
	}
	key, err := hex.DecodeString(f[4])
	if err != nil {
		return nil, fmt.Errorf("%w: PBKDF2", ErrFormat)
	}
	return newPBKDF2(sha1.New, f[3], []byte(f[2]), key)
}

func newPBKDF2(sum func() gohash.Hash, count string, salt, key []byte) (verifier, error) {
	n, err := number(count, "", maxPBKDF2Rounds)
	if err != nil || len(key) < 16 || len(key) > 64 || len(salt) == 0 {
		return nil, fmt.Errorf("%w: PBKDF2 with %s rounds", ErrFormat, strconv.Quote(count[:min(len(count), 20)]))
	}
	return verify(func(password string) bool {
		got, err := pbkdf2.Key(sum, password, salt, int(n), len(key))
		return err == nil && subtle.ConstantTimeCompare(got, key) == 1
	}), nil
}
