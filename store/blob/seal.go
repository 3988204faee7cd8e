package blob

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"filippo.io/age"
)

// Errors of blobs that are encrypted.
var (
	// ErrSealed means that a blob is encrypted, and that no given identity decrypts it.
	ErrSealed = errors.New("blob: encrypted: it needs the identity file of the administrator")
	// ErrForged means that a blob differs from what was encrypted.
	ErrForged = errors.New("blob: cannot decrypt")
)

const (
	// sealedMagic begins each file of age.
	sealedMagic = "age-encryption.org/v1\n"
	// sealedChunk and sealedTag are the sizes in bytes of a chunk of plain text, and of what encryption adds to it.
	sealedChunk, sealedTag = 64 << 10, 16
)

// Keys encrypt blobs to recipients and decrypt them with identities, in the format of age. The zero value encrypts and
// decrypts nothing.
type Keys struct {
	to   []age.Recipient
	from []age.Identity
	tag  string
	// overhead is the number of bytes that encryption adds before the first chunk.
	overhead int64
}

// ParseKeys reads recipients of age, separated by spaces, and an identity file of age. Either may be empty or nil.
func ParseKeys(recipients string, identities io.Reader) (k Keys, err error) {
	if names := strings.Fields(recipients); len(names) > 0 {
		slices.Sort(names)
		names = slices.Compact(names)
		text := strings.Join(names, "\n")
		if k.to, err = age.ParseRecipients(strings.NewReader(text)); err != nil {
			return Keys{}, fmt.Errorf("recipient of backups: %w", err)
		}
		sum := sha256.Sum256([]byte(text))
		k.tag = hex.EncodeToString(sum[:4])
		var b bytes.Buffer
		w, err := age.Encrypt(&b, k.to...)
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			return Keys{}, fmt.Errorf("recipient of backups: %w", err)
		}
		k.overhead = int64(b.Len()) - sealedTag
	}
	if identities != nil {
		if k.from, err = age.ParseIdentities(identities); err != nil {
			return Keys{}, fmt.Errorf("identity file: %w", err)
		}
	}
	return k, nil
}

// NewIdentity returns a new private key, in the form that it has in an identity file of age.
func NewIdentity() (string, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", fmt.Errorf("blob: make a key: %w", err)
	}
	return id.String(), nil
}

// OwnKeys returns keys that encrypt to one private key and decrypt with it.
func OwnKeys(identity string) (Keys, error) {
	id, err := age.ParseX25519Identity(identity)
	if err != nil {
		return Keys{}, fmt.Errorf("blob: malformed private key: %w", err)
	}
	return ParseKeys(id.Recipient().String(), strings.NewReader(identity))
}

// Seals reports whether the keys have a recipient.
func (k *Keys) Seals() bool { return len(k.to) > 0 }

// Opens reports whether the keys have an identity.
func (k *Keys) Opens() bool { return len(k.from) > 0 }

// Tag identifies the recipients. It is empty if there are none.
func (k *Keys) Tag() string { return k.tag }

// SealedSize returns the size of n bytes after Seal or SealSource.
func (k *Keys) SealedSize(n int64) int64 {
	if !k.Seals() {
		return n
	}
	return k.overhead + n + sealedTag*max(1, (n+sealedChunk-1)/sealedChunk)
}

// Seal encrypts content. It returns content itself if there are no recipients.
func (k *Keys) Seal(content []byte) ([]byte, error) {
	if !k.Seals() {
		return content, nil
	}
	var b bytes.Buffer
	b.Grow(int(k.SealedSize(int64(len(content)))))
	w, err := age.Encrypt(&b, k.to...)
	if err == nil {
		_, err = w.Write(content)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("blob: encrypt: %w", err)
	}
	return b.Bytes(), nil
}

// sealing is a Source that encrypts another one.
type sealing struct {
	k    *Keys
	from Source
	r    io.Reader
}

// SealSource returns a source that encrypts from, or from itself if there are no recipients.
func (k *Keys) SealSource(from Source) Source {
	if !k.Seals() {
		return from
	}
	return &sealing{k: k, from: from}
}

// Read implements Source.
func (s *sealing) Read(p []byte) (int, error) {
	if s.r == nil {
		r, err := age.EncryptReader(s.from, s.k.to...)
		if err != nil {
			return 0, fmt.Errorf("blob: encrypt: %w", err)
		}
		s.r = r
	}
	return s.r.Read(p)
}

// Reset implements Source. What is read then differs from before, because each encryption has a key of its own.
func (s *sealing) Reset() error {
	s.r = nil
	return s.from.Reset()
}

// Unseal decrypts content that Seal encrypted. It returns content itself if it is not encrypted.
func (k *Keys) Unseal(content []byte) ([]byte, error) {
	if !bytes.HasPrefix(content, []byte(sealedMagic)) {
		return content, nil
	}
	if !k.Opens() {
		return nil, ErrSealed
	}
	r, err := age.Decrypt(bytes.NewReader(content), k.from...)
	if err == nil {
		content, err = io.ReadAll(r)
	}
	return content, unsealError(err)
}

// unsealError maps an error of age.
func unsealError(err error) error {
	if no := (*age.NoIdentityMatchError)(nil); errors.As(err, &no) {
		return fmt.Errorf("%w: another one than was given", ErrSealed)
	}
	if err == nil || errors.Is(err, ErrAway) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrForged, err)
}

// unsealed is an encrypted blob as its plain text.
type unsealed struct {
	Reader
	plain io.ReaderAt
	size  int64
}

// UnsealReader returns the plain text of an encrypted blob. It closes r if it fails.
func (k *Keys) UnsealReader(r Reader) (Reader, error) {
	if !k.Opens() {
		return nil, errors.Join(ErrSealed, r.Close())
	}
	plain, size, err := age.DecryptReaderAt(r, r.Size(), k.from...)
	if err != nil {
		return nil, errors.Join(unsealError(err), r.Close())
	}
	return &unsealed{r, plain, size}, nil
}

// ReadAt implements Reader.
func (u *unsealed) ReadAt(p []byte, off int64) (int, error) {
	n, err := u.plain.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		err = unsealError(err)
	}
	return n, err
}

// Size implements Reader.
func (u *unsealed) Size() int64 { return u.size }
