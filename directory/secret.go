package directory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
)

// Secret is the directory's secret key. It derives the keys for app passwords, for the server's signatures, and for the
// fake SCRAM credentials of unknown users.
type Secret struct{ raw []byte }

// readSecret reads the key from its profile document. At the first start it creates both.
func (b *base) readSecret(ctx context.Context) (*Secret, error) {
	s := &Secret{}
	take := func(r *store.Reader) error {
		_, c, err := find(r, unidSecret)
		if err != nil {
			return err
		}
		s.raw = append([]byte(nil), c.Content.Items.Get(itemSecret).AsBinary()...)
		if len(s.raw) < 32 {
			return fmt.Errorf("%w: the directory's secret; restore it from a backup", store.ErrDamaged)
		}
		return nil
	}
	err := b.read(ctx, take)
	if !errors.Is(err, ErrNotFound) {
		return s, err
	}
	return s, b.update(ctx, note.System, func(e *edit) error {
		if err := take(&e.w.Reader); !errors.Is(err, ErrNotFound) {
			return err
		}
		secret := make([]byte, 32)
		b.env.Fill(secret)
		f := fields{}
		f.binary(itemSecret, secret)
		_, err := e.w.Create(store.New{UNID: unidSecret, Class: note.Profile, Content: note.Content{Items: f.items}})
		s.raw = secret
		return err
	})
}

// key derives a separate key for each use of the directory's secret.
func (s *Secret) key(use string) []byte {
	m := hmac.New(sha256.New, s.raw)
	m.Write([]byte(use))
	return m.Sum(nil)
}

// Key returns a key of 32 bytes for one use. It is the same at every server of the domain.
func (s *Secret) Key(use string) []byte { return s.key("key " + use) }

// Sign returns a code of 16 bytes for links and addresses that users send back. Only servers of this domain can compute
// it. Each use has its own key.
func (s *Secret) Sign(use, text string) []byte {
	m := hmac.New(sha256.New, s.key("sign "+use))
	m.Write([]byte(text))
	return m.Sum(nil)[:16]
}
