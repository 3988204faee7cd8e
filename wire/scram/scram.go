// Package scram holds the two step machines of SASL SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802,
// RFC 7677), server and client: they take and give the messages as they are inside base64, and know
// nothing of the protocol that carries them.
package scram

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/pbkdf2"
)

// Mechanism is the name of the mechanism in SASL, MechanismPlus that with channel binding.
const (
	Mechanism     = "SCRAM-SHA-256"
	MechanismPlus = "SCRAM-SHA-256-PLUS"
)

const (
	// MinIterations is the least that RFC 7677 allows, and what new credentials have at least.
	MinIterations = 4096
	// MaxIterations bounds what a server can make a client compute.
	MaxIterations = 10_000_000

	maxMessage = 4096 // bytes of one message
	maxNonce   = 1024 // bytes of the nonce of both sides together
	maxName    = 32   // bytes of the name of a channel binding
)

var (
	// ErrSyntax says that a message breaks the grammar or the order of steps.
	ErrSyntax = errors.New("scram: malformed message")
	// ErrChannelBinding says that the two sides cannot bind to the channel as one of them demands, or
	// see different channels: somebody may stand between them.
	ErrChannelBinding = errors.New("scram: channel binding does not fit")
	// ErrExtension says that the peer demands an extension that does not exist.
	ErrExtension = errors.New("scram: mandatory extension not supported")
	// ErrProof says that the password (or the user) is not the right one.
	ErrProof = errors.New("scram: authentication failed")
	// ErrServer says, to a client, that the server refused or is not who it claims to be.
	ErrServer = errors.New("scram: server refused or could not prove itself")
)

// Credentials are what a server keeps of a password (RFC 5802 section 3). They do not let anyone
// sign in as the user elsewhere; they do let their thief impersonate this server.
type Credentials struct {
	Salt       []byte
	Iterations int
	StoredKey  [32]byte
	ServerKey  [32]byte
}

// The names of channel bindings that exist for TLS: RFC 9266 section 2, RFC 5929 section 4.
const (
	TLSExporter       = "tls-exporter"
	TLSServerEndPoint = "tls-server-end-point"
)

// Binding is the data of one channel binding: the same on both ends of one channel, and on no other.
type Binding struct {
	Name string
	Data []byte
}

// Derive computes the credentials of a password, prepared by Prepare. It costs Iterations rounds
// of HMAC, about 1 ms for 4096. Iterations below MinIterations are raised to it.
func Derive(password string, salt []byte, iterations int) Credentials {
	iterations = max(iterations, MinIterations)
	key := saltedPassword(password, salt, iterations)
	client := mac(key, "Client Key")
	c := Credentials{Salt: salt, Iterations: iterations, StoredKey: sha256.Sum256(client[:])}
	c.ServerKey = mac(key, "Server Key")
	return c
}

// Fake returns credentials for a user who does not exist: always the same for one secret and
// user, so that asking twice tells nothing. No password matches them. Use a secret that stays the
// same over restarts, and the iterations that real users have.
func Fake(secret []byte, user string, iterations int) Credentials {
	key := func(use string) [32]byte { return mac(secret, "scram fake "+use+"\x00"+user) }
	salt := key("salt")
	return Credentials{Salt: salt[:16], Iterations: iterations, StoredKey: key("stored"), ServerKey: key("server")}
}

func saltedPassword(password string, salt []byte, iterations int) []byte {
	return pbkdf2.Key([]byte(Prepare(password)), salt, iterations, sha256.Size, sha256.New)
}

func mac(key []byte, message string) (out [32]byte) {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(message))
	h.Sum(out[:0])
	return out
}

func xor(a, b [32]byte) (out [32]byte) {
	for i := 0; i < len(a); i += 8 {
		binary.NativeEndian.PutUint64(out[i:], binary.NativeEndian.Uint64(a[i:])^binary.NativeEndian.Uint64(b[i:]))
	}
	return out
}

// attribute takes "k=value" off the front of s, up to the next comma.
func attribute(s string, k byte) (value, rest string, err error) {
	if len(s) < 2 || s[0] != k || s[1] != '=' {
		return "", "", fmt.Errorf("%w: attribute %c missing", ErrSyntax, k)
	}
	value, rest, _ = strings.Cut(s[2:], ",")
	return value, rest, nil
}

// extensions checks what follows the known attributes: it is ignored, but must be attributes.
func extensions(s string) error {
	for s != "" {
		var one string
		one, s, _ = strings.Cut(s, ",")
		if len(one) < 2 || one[1] != '=' || !letter(one[0]) {
			return fmt.Errorf("%w: bad extension", ErrSyntax)
		}
	}
	return nil
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// validNonce: printable ASCII without comma (RFC 5802 section 7).
func validNonce(s string) bool {
	if s == "" || len(s) > maxNonce {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x21 || s[i] > 0x7e || s[i] == ',' {
			return false
		}
	}
	return true
}

// key32 decodes the base64 of a proof or signature.
func key32(s string) (out [32]byte, err error) {
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil || len(b) != len(out) {
		return out, fmt.Errorf("%w: bad base64", ErrSyntax)
	}
	return [32]byte(b), nil
}

func encode(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

var nameEscaper = strings.NewReplacer("=", "=3D", ",", "=2C")

// unescapeName decodes a saslname (RFC 5802 section 5.1, attribute n).
func unescapeName(s string) (string, error) {
	if s == "" || strings.IndexByte(s, 0) >= 0 {
		return "", fmt.Errorf("%w: bad name", ErrSyntax)
	}
	if strings.IndexByte(s, '=') < 0 {
		return s, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '=')
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		switch {
		case strings.HasPrefix(s[i:], "=2C"):
			b.WriteByte(',')
		case strings.HasPrefix(s[i:], "=3D"):
			b.WriteByte('=')
		default:
			return "", fmt.Errorf("%w: bad escape in name", ErrSyntax)
		}
		s = s[i+3:]
	}
}
