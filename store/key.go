package store

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// ErrLocked means that the key of a database is needed and not given. It matches ErrOutOfService.
var ErrLocked = fmt.Errorf("%w: it is locked until its key is given (doublet db unlock)", ErrOutOfService)

// sealKey is the key of a database that has one of its own. It encrypts content, messages and objects, and names the
// messages and objects, so that nothing of them equals what another database has. A nil key leaves all as it is.
type sealKey struct {
	db             note.DatabaseID
	id             uint64 // says in rows which key has sealed them
	secret         []byte
	rows           cipher.AEAD
	names, objects []byte
}

// secretSize is the length of the key of a database in bytes.
const secretSize = 32

func newSealKey(db note.DatabaseID, secret []byte) (*sealKey, error) {
	if len(secret) != secretSize {
		return nil, fmt.Errorf("store: the key of database %s has %d bytes, not %d", db, len(secret), secretSize)
	}
	k := &sealKey{db: db, secret: secret, id: binary.BigEndian.Uint64(derive(secret, []byte("doublet database id"))),
		names:   derive(secret, []byte("doublet database names")),
		objects: derive(secret, []byte("doublet database objects"))}
	block, err := aes.NewCipher(derive(secret, []byte("doublet database rows")))
	if err == nil {
		k.rows, err = cipher.NewGCM(block)
	}
	return k, err
}

func derive(secret, from []byte) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write(from)
	return h.Sum(nil)
}

// name returns the name of a message or an object in the rows of the store. Without the key it reveals nothing of the
// digest.
func (k *sealKey) name(d note.Digest) note.Digest {
	if k == nil {
		return d
	}
	return note.Digest(derive(k.names, d[:]))
}

// xor encrypts or decrypts b, which begins at offset off of the object with digest d. Each object has a key stream of
// its own. Since it depends on the content, one key stream never encrypts two contents.
func (k *sealKey) xor(d note.Digest, b []byte, off int64) error {
	if k == nil {
		return nil
	}
	block, err := aes.NewCipher(derive(k.objects, d[:]))
	if err != nil {
		return fmt.Errorf("store: cipher: %w", err)
	}
	var counter, skipped [aes.BlockSize]byte
	binary.BigEndian.PutUint64(counter[8:], uint64(off/aes.BlockSize))
	ctr := cipher.NewCTR(block, counter[:])
	if skip := off % aes.BlockSize; skip > 0 {
		ctr.XORKeyStream(skipped[:skip], skipped[:skip])
	}
	ctr.XORKeyStream(b, b)
	return nil
}

// appendSealed appends a sealed value for the row with a key.
func (k *sealKey) appendSealed(dst []byte, e *env.Env, row, content []byte, names []note.Digest) []byte {
	head := layout.AppendSealedHead(nil, k.db, k.id, names)
	nonce := make([]byte, layout.SealedNonce)
	e.Fill(nonce)
	return k.rows.Seal(append(append(dst, head...), nonce...), nonce, content, bound(row, head))
}

// bound returns what authenticates a sealed value besides its content: its row, so that it is not taken for another
// one's, and what comes before the content.
func bound(row, head []byte) []byte {
	return append(append(make([]byte, 0, len(row)+len(head)), row...), head...)
}

// keyRing has the keys of databases that are given.
type keyRing struct {
	mu   sync.RWMutex
	keys map[note.DatabaseID]*sealKey
	// dropped has the ids of keys that databases no longer have. Snapshots may have rows that they have sealed.
	dropped map[uint64]bool
}

// of returns the key of a database, or nil.
func (r *keyRing) of(id note.DatabaseID) *sealKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys[id]
}

// all returns all keys.
func (r *keyRing) all() []*sealKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*sealKey, 0, len(r.keys))
	for _, k := range r.keys {
		out = append(out, k)
	}
	return out
}

// put adds a key, and removes it with nil.
func (r *keyRing) put(id note.DatabaseID, k *sealKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = map[note.DatabaseID]*sealKey{}
	}
	if r.keys[id] = k; k == nil {
		delete(r.keys, id)
	}
}

// drop removes the key of a database that has none any more.
func (r *keyRing) drop(id note.DatabaseID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.keys[id]; k != nil {
		if r.dropped == nil {
			r.dropped = map[uint64]bool{}
		}
		r.dropped[k.id] = true
		delete(r.keys, id)
	}
}

// wasDropped reports whether a database had a key since the store was opened, and has it no more.
func (r *keyRing) wasDropped(key uint64) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.dropped[key]
}

// keyOf returns the key that has sealed a value, or nil if it is not given.
func (c *core) keyOf(s *layout.Sealed) *sealKey {
	if k := c.keys.of(s.Database); k != nil && k.id == s.Key {
		return k
	}
	return nil
}

// ownKey returns the key of the database that a row belongs to, or nil if it is not given. A message belongs to the
// databases whose notes refer to it.
func (c *core) ownKey(row []byte) (k *sealKey, err error) {
	look := func(num uint32) {
		c.dbs.mu.Lock()
		id := c.dbs.byNum[num]
		c.dbs.mu.Unlock()
		if own := c.keys.of(id); own != nil {
			k = own
		}
	}
	if num, _, _, ok := layout.Split(row); ok {
		look(num)
		return k, nil
	}
	refs := layout.NumberKey(layout.SpaceRecipeRef, layout.Tail64(row))
	err = scan(c.eng, refs, func(ref, _ []byte) error {
		if len(ref) == 21 {
			look(layout.Tail32(ref[:13]))
		}
		return nil
	})
	return k, err
}

// openSealed returns the content of a sealed value of a row, and its key. If the value names another key than that of
// the database that the row belongs to, and this one is given, the row is damaged.
func (c *core) openSealed(row []byte, s *layout.Sealed) ([]byte, *sealKey, error) {
	k := c.keyOf(s)
	if k == nil {
		own, err := c.ownKey(row)
		switch {
		case err != nil:
			return nil, nil, err
		case own == nil || c.keys.wasDropped(s.Key):
			return nil, nil, ErrLocked
		case own.db != s.Database || own.id != s.Key:
			return nil, nil, fmt.Errorf("%w: a row that names a key of database %s, which is not its own", ErrDamaged,
				s.Database)
		}
		k = own // given just now
	}
	content, err := k.rows.Open(nil, s.Nonce, s.Text, bound(row, s.Head))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: a row that the key of database %s does not open", ErrDamaged, s.Database)
	}
	return content, k, nil
}

// Unseal returns the content of a row of a note's content or leaf, which may be sealed. Content that is not aliases v.
// ErrLocked means that the key of its database is not given.
func (c *core) Unseal(row, v []byte) ([]byte, error) {
	if !layout.IsSealed(v) {
		return v, nil
	}
	s, err := layout.ReadSealed(v)
	if err != nil {
		return nil, fmt.Errorf("%w: a sealed row", ErrDamaged)
	}
	content, _, err := c.openSealed(row, &s)
	return content, err
}

// UnsealRecipe returns a recipe, which may be sealed, as it is in databases that have no key of their own.
func (c *core) UnsealRecipe(row, v []byte) ([]byte, error) {
	plain, _, err := c.unsealRecipe(row, v)
	return plain, err
}

func (c *core) unsealRecipe(row, v []byte) ([]byte, *sealKey, error) {
	_, size, s, ok := layout.ReadSealedRecipe(v)
	if !ok {
		return v, nil, nil
	}
	content, k, err := c.openSealed(row, &s)
	if err != nil {
		return nil, nil, err
	}
	if len(content) < len(note.Digest{}) {
		return nil, nil, fmt.Errorf("%w: sealed recipe", ErrDamaged)
	}
	plain := append(make([]byte, 0, len(content)+binary.MaxVarintLen64), content[:len(note.Digest{})]...)
	plain = binary.AppendUvarint(plain, size)
	return append(plain, content[len(note.Digest{}):]...), k, nil
}

// sealRecipe returns a recipe as its row has it. names are those of its objects.
func (k *sealKey) sealRecipe(e *env.Env, row, plain []byte, names []note.Digest) []byte {
	if k == nil {
		return plain
	}
	d := note.Digest(plain[:len(note.Digest{})])
	_, n := binary.Uvarint(plain[len(d):])
	name := k.name(d)
	out := append(append(make([]byte, 0, len(plain)+128), name[:]...), plain[len(d):len(d)+n]...)
	content := append(d[:], plain[len(d)+n:]...)
	return k.appendSealed(append(out, layout.StepSealed), e, row, content, names)
}

// sealContent returns a note's content, or that of a leaf, as its row has it.
func (k *sealKey) sealContent(e *env.Env, row, plain []byte, c *note.Content) []byte {
	if k == nil {
		return plain
	}
	return k.appendSealed(nil, e, row, plain, k.namesIn(c))
}

// namesIn returns the names of the attachments of a content, each once.
func (k *sealKey) namesIn(c *note.Content) (names []note.Digest) {
	seen := map[note.Digest]bool{}
	for _, a := range c.Attachments {
		if !seen[a.Digest] {
			seen[a.Digest] = true
			names = append(names, k.name(a.Digest))
		}
	}
	return names
}

// Sealer seals as the database does whose key it has, for check. The zero value leaves all as it is.
type Sealer struct {
	env *env.Env
	key *sealKey
}

// Sealer returns what seals the content of a database, as its description says. ErrLocked means that its key is not
// given.
func (c *core) Sealer(i *layout.Info) (Sealer, error) {
	k, err := c.writeKey(i)
	return Sealer{c.env, k}, err
}

// SealerOf returns what has sealed a value. ok is false if its key is not given.
func (c *core) SealerOf(v *layout.Sealed) (s Sealer, ok bool) {
	k := c.keyOf(v)
	return Sealer{c.env, k}, k != nil
}

// Content returns the row of a note's content.
func (s Sealer) Content(row []byte, c *layout.Content) []byte {
	return s.key.sealContent(s.env, row, layout.AppendContentRow(nil, c), &c.Content)
}

// Name returns the name of an object, or of a message.
func (s Sealer) Name(d note.Digest) note.Digest { return s.key.name(d) }

// Decrypt decrypts b, which begins at offset off of an object.
func (s Sealer) Decrypt(d note.Digest, b []byte, off int64) error { return s.key.xor(d, b, off) }

// writeKey returns the key that seals what is written to a database, nil if it has none.
func (c *core) writeKey(i *layout.Info) (*sealKey, error) {
	if i.Key == nil || i.Key.Leaving {
		return nil, nil
	}
	if k := c.keys.of(i.ID); k != nil {
		return k, nil
	}
	return nil, ErrLocked
}
