package password

import (
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// params are the cost parameters of argon2id (RFC 9106).
type params struct {
	memory  uint32 // KiB
	time    uint32
	threads uint8
}

// current holds the parameters of new hashes: 19 MiB, two passes, one lane.
var current = params{memory: 19 << 10, time: 2, threads: 1}

// Limits of the hashes that are verified. A stored hash may be imported, and must not control how much memory or time a
// sign-in takes.
const (
	maxMemory  = 64 << 10 // KiB
	maxTime    = 16
	maxThreads = 8
	maxPHC     = 512 // bytes of the whole string

	saltLen = 16
	keyLen  = 32
)

// hash is a parsed PHC string.
type hash struct {
	params
	salt, key []byte
}

func (h *hash) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.time, h.threads,
		b64.EncodeToString(h.salt), b64.EncodeToString(h.key))
}

func (p params) key(password string, salt []byte, n int) []byte {
	return argon2.IDKey([]byte(password), salt, p.time, p.memory, p.threads, uint32(n))
}

func (h *hash) matches(password string) bool {
	return subtle.ConstantTimeCompare(h.key, h.params.key(password, h.salt, len(h.key))) == 1
}

// parseParams parses m=…,t=…,p=….
func parseParams(s string) (params, error) {
	p := strings.Split(s, ",")
	if len(p) != 3 {
		return params{}, fmt.Errorf("%w: parameters", ErrFormat)
	}
	m, err1 := number(p[0], "m=", maxMemory)
	t, err2 := number(p[1], "t=", maxTime)
	l, err3 := number(p[2], "p=", maxThreads)
	if err1 != nil || err2 != nil || err3 != nil || m < 8*l {
		return params{}, fmt.Errorf("%w: parameters out of bounds", ErrFormat)
	}
	return params{memory: m, time: t, threads: uint8(l)}, nil
}

// parse parses $argon2id$v=19$m=…,t=…,p=…$salt$key with unpadded base64.
func parse(phc string) (*hash, error) {
	f := strings.Split(phc[:min(len(phc), maxPHC+1)], "$")
	if len(phc) > maxPHC || len(f) != 6 || f[0] != "" || f[1] != "argon2id" {
		return nil, fmt.Errorf("%w: not an argon2id string", ErrFormat)
	}
	if f[2] != "v="+strconv.Itoa(argon2.Version) {
		return nil, fmt.Errorf("%w: unknown version", ErrFormat)
	}
	var h hash
	var err error
	if h.params, err = parseParams(f[3]); err != nil {
		return nil, err
	}
	if h.salt, err = base64.RawStdEncoding.Strict().DecodeString(f[4]); err != nil || len(h.salt) < 8 ||
		len(h.salt) > 64 {
		return nil, fmt.Errorf("%w: salt", ErrFormat)
	}
	if h.key, err = base64.RawStdEncoding.Strict().DecodeString(f[5]); err != nil || len(h.key) < 16 ||
		len(h.key) > 64 {
		return nil, fmt.Errorf("%w: key", ErrFormat)
	}
	return &h, nil
}

// number parses prefix and a decimal number from 1 to limit.
func number(s, prefix string, limit uint64) (uint32, error) {
	digits, ok := strings.CutPrefix(s, prefix)
	n, err := strconv.ParseUint(digits, 10, 32)
	if !ok || err != nil || n < 1 || n > limit {
		return 0, ErrFormat
	}
	return uint32(n), nil
}

// Outdated reports whether a hash should be replaced by a new one, because its parameters differ from those of new
// hashes.
func Outdated(phc string) bool {
	h, err := parse(phc)
	return err != nil || h.params != current || len(h.salt) != saltLen || len(h.key) != keyLen
}
