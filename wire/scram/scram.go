// Package scram implements the state machines of SASL SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, RFC 7677), server
// and client. Messages are without base64, so the package is independent of the protocol that carries them.
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

// Mechanism is the SASL name of the mechanism, MechanismPlus the name with channel binding.
const (
	Mechanism     = "SCRAM-SHA-256"
	MechanismPlus = "SCRAM-SHA-256-PLUS"
)

const (
	// MinIterations is the minimum of RFC 7677. New credentials have at least this many iterations.
	MinIterations = 4096
	// MaxIterations limits the work that a server can demand from a client.
	MaxIterations = 10_000_000

	maxMessage = 4096 // bytes of one message
	maxNonce   = 1024 // bytes of both sides' nonces together
	maxName    = 32   // bytes of the name of a channel binding
)

var (
	// ErrSyntax means that a message does not follow the grammar or the order of steps.
	ErrSyntax = errors.New("scram: malformed message")
	// ErrChannelBinding means that channel binding is required but not possible, or that the two sides see different
	// channels, possibly because of an attacker.
	ErrChannelBinding = errors.New("scram: channel binding does not fit")
	// ErrExtension means that the peer requires an unknown extension.
	ErrExtension = errors.New("scram: mandatory extension not supported")
	// ErrProof means that the password (or the user) is wrong.
	ErrProof = errors.New("scram: authentication failed")
	// ErrServer means, for a client, that the server rejected the exchange or did not prove its identity.
	ErrServer = errors.New("scram: server refused or could not prove itself")
)

// Credentials holds the data that a server stores for a password (RFC 5802 section 3). A thief cannot use it to
// authenticate as the user elsewhere, but can impersonate this server.
type Credentials struct {
	Salt       []byte
	Iterations int
	StoredKey  [32]byte
	ServerKey  [32]byte
}

// Names of channel bindings for TLS: RFC 9266 section 2, RFC 5929 section 4.
const (
	TLSExporter       = "tls-exporter"
	TLSServerEndPoint = "tls-server-end-point"
)

// Binding holds the data of one channel binding, which is the same on both ends of a channel and differs between
// channels.
type Binding struct {
	Name string
	Data []byte
}

// Derive computes the credentials for a password, which must be prepared with Prepare. It takes iterations rounds of
// HMAC, about 1 ms for 4096. It uses at least MinIterations.
func Derive(password string, salt []byte, iterations int) Credentials {
	iterations = max(iterations, MinIterations)
	key := saltedPassword(password, salt, iterations)
	client := mac(key, "Client Key")
	c := Credentials{Salt: salt, Iterations: iterations, StoredKey: sha256.Sum256(client[:])}
	c.ServerKey = mac(key, "Server Key")
	return c
}

// Fake returns credentials for a user who does not exist. They are constant for a secret and user, so repeated attempts
// reveal nothing, and no password matches them. The secret must persist across restarts, and iterations should be those
// of real users.
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

// attribute parses "k=value" at the start of s, up to the next comma.
func attribute(s string, k byte) (value, rest string, err error) {
	if len(s) < 2 || s[0] != k || s[1] != '=' {
		return "", "", fmt.Errorf("%w: attribute %c missing", ErrSyntax, k)
	}
	value, rest, _ = strings.Cut(s[2:], ",")
	return value, rest, nil
}

// extensions checks that the text after the known attributes consists of attributes. They are ignored.
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

// validNonce reports whether s is printable ASCII without commas (RFC 5802 section 7).
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
