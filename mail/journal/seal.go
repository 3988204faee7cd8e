package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// Details are the facts about a message that are encrypted with it.
type Details struct {
	// Envelope lists the recipients as the client named them, with groups not expanded. Hidden lists those of them that
	// neither To nor Cc names (Bcc).
	Envelope []string `json:"envelope,omitempty"`
	Hidden   []string `json:"hidden,omitempty"`
	// SignIn is the address of the person who signed in, empty for mail from outside and of the server.
	SignIn string `json:"sign_in,omitempty"`
	// Client is the IP address of the client. Helo, Protocol and TLS are as in the Received field.
	Client   string `json:"client,omitempty"`
	Helo     string `json:"helo,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	TLS      string `json:"tls,omitempty"`
}

// ServerKey is the recipient that stands for the key of the server in the settings.
const ServerKey = "server"

// maxRecipients limits the keys that a journal is encrypted to.
const maxRecipients = 16

// maxPlain limits the bytes of an entry after decompression.
const maxPlain = 1 << 30

// ErrKey means that none of the given keys opens an entry.
var ErrKey = errors.New("journal: the entry is encrypted to other keys")

// ParseKeys parses the setting journal.recipients: words that are public keys of age (age1…) or ServerKey. server
// reports that ServerKey is among them.
func ParseKeys(text string) (list []age.Recipient, server bool, err error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > maxRecipients {
		return nil, false, fmt.Errorf("%d recipients, want 1 to %d", len(words), maxRecipients)
	}
	for _, w := range words {
		if w == ServerKey {
			server = true
			continue
		}
		r, err := age.ParseX25519Recipient(w)
		if err != nil {
			return nil, false, fmt.Errorf("recipient %.80q is neither %q nor a public key age1…: %w", w, ServerKey,
				err)
		}
		list = append(list, r)
	}
	return list, server, nil
}

// The encoder and the decoder have no state between calls, and may be used from any goroutine. The options are valid,
// so no error occurs.
var (
	compressor, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxPlain), zstd.WithDecoderConcurrency(2))
)

// seal encrypts a message with its details: a line of JSON, then the message, compressed with zstd, encrypted with age.
func seal(d *Details, raw []byte, to []age.Recipient) ([]byte, error) {
	plain, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	plain = append(append(plain, '\n'), raw...)
	packed := compressor.EncodeAll(plain, make([]byte, 0, len(plain)/2+64))
	var out bytes.Buffer
	out.Grow(len(packed) + 1024)
	w, err := age.Encrypt(&out, to...)
	if err == nil {
		_, err = w.Write(packed)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// Unseal decrypts the encrypted part of an entry. Errors: ErrKey; others mean that the part is damaged.
func Unseal(sealed []byte, keys ...age.Identity) (*Details, []byte, error) {
	if len(keys) == 0 {
		return nil, nil, ErrKey
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), keys...)
	var other *age.NoIdentityMatchError
	if errors.As(err, &other) {
		return nil, nil, ErrKey
	}
	if err != nil {
		return nil, nil, fmt.Errorf("journal: decrypt: %w", err)
	}
	packed, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: decrypt: %w", err)
	}
	plain, err := decompressor.DecodeAll(packed, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("journal: decompress: %w", err)
	}
	line, raw, ok := bytes.Cut(plain, []byte("\n"))
	d := &Details{}
	if err := json.Unmarshal(line, d); !ok || err != nil {
		return nil, nil, fmt.Errorf("journal: details: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	return d, raw, nil
}
