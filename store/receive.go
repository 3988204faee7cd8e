package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2"
)

// maxRecipe bounds the size in bytes of a recipe that comes from another replica.
const maxRecipe = 16 << 20

// ErrMismatch means that bytes from another replica do not match their digest.
var ErrMismatch = errors.New("store: the bytes are not those of the digest")

// RecipeParts parses the recipe of a message. It returns the message's digest and size, and the objects that hold its
// large parts, each once.
func RecipeParts(recipe []byte) (d note.Digest, size uint64, parts []ObjectRef, err error) {
	if len(recipe) > maxRecipe {
		return d, 0, nil, fmt.Errorf("%w: a recipe of %d bytes", ErrMismatch, len(recipe))
	}
	st, err := parseRecipe(nil, nil, recipe)
	if err != nil {
		return d, 0, nil, fmt.Errorf("%w: a recipe that cannot be read", ErrMismatch)
	}
	seen := make(map[note.Digest]uint64)
	for i := range st.steps {
		x := &st.steps[i]
		if x.kind == stepInline {
			continue
		}
		have, ok := seen[x.digest]
		if ok && have != uint64(x.size) {
			return d, 0, nil, fmt.Errorf("%w: object %s has two sizes in one recipe", ErrMismatch, x.digest)
		}
		if !ok {
			seen[x.digest] = uint64(x.size)
			parts = append(parts, ObjectRef{x.digest, uint64(x.size)})
		}
	}
	return note.Digest(recipe[:32]), st.size, parts, nil
}

// Receive prepares a message that came as its recipe. fetch returns the bytes of the parts that are not here. Receive
// checks the digest of every part, and rebuilds the message once to check its digest; ErrMismatch means that one is
// wrong. When Receive returns, the objects are durable. The caller must call Release. ids are the databases that the
// message is for, as for Prepare.
func (o *objects) Receive(ctx context.Context, recipe []byte, fetch func(ObjectRef) ([]byte, error),
	ids ...note.DatabaseID) (*Message, error) {
	d, size, parts, err := RecipeParts(recipe)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(ctx.Err(), o.alive(), o.space.admit()); err != nil {
		return nil, err
	}
	if err := o.dbs.enter(); err != nil {
		return nil, err
	}
	defer o.dbs.leave()
	m := &Message{s: o, Digest: d, Size: size}
	err = m.prepare(o.keysOf(ids), func(f *Message) error {
		if err := f.find(); err != nil || f.recipe != 0 {
			return err
		}
		return f.take(ctx, recipe, parts, fetch)
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// take fetches the missing parts of a message and rebuilds it.
func (m *Message) take(ctx context.Context, recipe []byte, parts []ObjectRef,
	fetch func(ObjectRef) ([]byte, error)) error {
	for _, p := range parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.obtain(p, fetch); err != nil {
			return err
		}
	}
	m.row = bytes.Clone(recipe)
	if err := m.sync(); err != nil {
		return err
	}
	st, err := parseRecipe(m.s, m.key, m.row)
	if err != nil {
		return err
	}
	for i := range st.steps {
		if x := &st.steps[i]; x.kind != stepInline {
			if x.loc, err = m.place(x.digest); err != nil {
				return err
			}
		}
	}
	h := sha256.New()
	if _, err := st.WriteTo(h); err != nil {
		return err
	}
	if note.Digest(h.Sum(nil)) != m.Digest {
		return fmt.Errorf("%w: message %s", ErrMismatch, m.Digest)
	}
	return nil
}

// obtain pins an object that is here, or fetches it.
func (m *Message) obtain(ref ObjectRef, fetch func(ObjectRef) ([]byte, error)) error {
	name := m.key.name(ref.Digest)
	m.s.pins.pin(name)
	loc, err := m.s.locate(m.s.eng, name)
	if err == nil {
		m.objects = append(m.objects, pinned{name: name})
		if uint64(loc.Size) != ref.Size {
			return fmt.Errorf("%w: object %s has %d bytes, not %d", ErrMismatch, ref.Digest, loc.Size, ref.Size)
		}
		return nil
	}
	m.s.pins.unpin(name)
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	if content, err := m.s.otherForm(ref); err == nil {
		_, err = m.keep(content)
		return err
	}
	if fetch == nil {
		return fmt.Errorf("object %s: %w", ref.Digest, ErrNotFound)
	}
	content, err := fetch(ref)
	if err != nil {
		return fmt.Errorf("store: fetch object %s: %w", ref.Digest, err)
	}
	if err := ref.matches(content); err != nil {
		return err
	}
	_, err = m.keep(content)
	return err
}

func (r ObjectRef) matches(content []byte) error {
	if uint64(len(content)) != r.Size || note.Digest(sha256.Sum256(content)) != r.Digest {
		return fmt.Errorf("%w: object %s of %d bytes", ErrMismatch, r.Digest, r.Size)
	}
	return nil
}

// otherForm reads an object that a database with another key has here.
func (o *objects) otherForm(ref ObjectRef) ([]byte, error) {
	loc, k, err := o.anyForm(ref.Digest)
	if err != nil {
		return nil, err
	}
	content, err := o.readHere(loc, k, ref.Digest, 0, int64(ref.Size), nil)
	return content, errors.Join(err, ref.matches(content))
}

// anyForm returns the location of an object, whatever key it is stored with, and that key.
func (o *objects) anyForm(d note.Digest) (object.Location, *sealKey, error) {
	loc, err := o.locate(o.eng, d)
	if !errors.Is(err, ErrNotFound) {
		return loc, nil, err
	}
	for _, k := range o.keys.all() {
		if loc, err := o.locate(o.eng, k.name(d)); !errors.Is(err, ErrNotFound) {
			return loc, k, err
		}
	}
	return loc, nil, err
}

// place returns the location of an object of the message, whether or not the index references it yet.
func (m *Message) place(d note.Digest) (object.Location, error) {
	if loc, err := m.located(m.key.name(d)); err == nil {
		return loc, nil
	}
	return m.s.locate(m.s.eng, m.key.name(d))
}

// ReceiveObject prepares an attachment that came from another replica. The caller passes it to Keep or to ApplyLedger,
// and must call Release. Without content the object must be stored here; otherwise ReceiveObject returns ErrNotFound.
// ids are the databases that it is for, as for Prepare.
func (o *objects) ReceiveObject(ctx context.Context, ref ObjectRef, content []byte,
	ids ...note.DatabaseID) (*Object, error) {
	if err := errors.Join(ctx.Err(), o.alive()); err != nil {
		return nil, err
	}
	if err := o.dbs.enter(); err != nil {
		return nil, err
	}
	defer o.dbs.leave()
	m := &Message{s: o}
	err := m.prepare(o.keysOf(ids), func(f *Message) error {
		err := f.obtain(ref, func(ObjectRef) ([]byte, error) {
			if content == nil && ref.Size > 0 {
				return nil, ErrNotFound
			}
			return content, o.space.admit()
		})
		if err != nil {
			return err
		}
		return f.sync()
	})
	if err != nil {
		return nil, err
	}
	return &Object{Digest: ref.Digest, Size: ref.Size, m: m}, nil
}

// MendObject stores a new copy of an object that was damaged here or lost from its segment. It ignores an object that
// nothing references.
func (o *objects) MendObject(ctx context.Context, ref ObjectRef, content []byte) error {
	if err := errors.Join(ctx.Err(), o.alive(), ref.matches(content)); err != nil {
		return err
	}
	if err := o.dbs.enter(); err != nil {
		return err
	}
	defer o.dbs.leave()
	errs := []error{o.mend(nil, ref, content)}
	for _, k := range o.keys.all() {
		errs = append(errs, o.mend(k, ref, content))
	}
	return errors.Join(errs...)
}

// mend is MendObject for what is stored with one key.
func (o *objects) mend(k *sealKey, ref ObjectRef, content []byte) error {
	name := k.name(ref.Digest)
	refs := layout.Key(layout.SpaceObjectRef, name[:])
	if none, err := o.empty(refs); err != nil || none {
		return err
	}
	loc, err := o.append(k, ref.Digest, content)
	if err != nil {
		return err
	}
	defer o.pins.landed(loc.Segment)
	if err := o.obj.Sync(loc); err != nil {
		return o.die(err)
	}
	sh := &o.pins.shards[name[0]&63]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	none, err := o.empty(refs)
	if err != nil || none {
		return err
	}
	if err := o.eng.Set(layout.Key(layout.SpaceObject, name[:]), loc.Append(nil), pebble.Sync); err != nil {
		return o.die(err)
	}
	return nil
}

// HasMessage reports whether the message with that digest is stored here for databases without a key of their own.
func (o *objects) HasMessage(d note.Digest) bool {
	if o.dbs.enter() != nil {
		return false
	}
	defer o.dbs.leave()
	_, err := getValue(o.eng, layout.Key(layout.SpaceRecipeHash, d[:]))
	return err == nil
}

// Lacks returns the refs of the objects that are not here.
func (o *objects) Lacks(refs []ObjectRef) (out []ObjectRef, err error) {
	if err := o.dbs.enter(); err != nil {
		return nil, err
	}
	defer o.dbs.leave()
	for _, r := range refs {
		switch _, _, err := o.anyForm(r.Digest); {
		case errors.Is(err, ErrNotFound), errors.Is(err, ErrDamaged):
			out = append(out, r)
		case err != nil:
			return nil, err
		}
	}
	return out, nil
}

// ObjectBytes appends up to n bytes of a stored object from off, fewer at its end. It checks no access, so only the
// server itself may call it.
func (o *objects) ObjectBytes(dst []byte, d note.Digest, off, n int64) ([]byte, error) {
	if err := o.dbs.enter(); err != nil {
		return dst, err
	}
	defer o.dbs.leave()
	loc, k, err := o.anyForm(d)
	if err != nil {
		return dst, fmt.Errorf("object %s: %w", d, err)
	}
	return o.readHere(loc, k, d, off, n, dst) // the caller is a mate, so do not fetch from mates in turn
}

// ObjectSize returns the size of a stored object in bytes.
func (o *objects) ObjectSize(d note.Digest) (uint64, error) {
	if err := o.dbs.enter(); err != nil {
		return 0, err
	}
	defer o.dbs.leave()
	loc, _, err := o.anyForm(d)
	if err != nil {
		return 0, fmt.Errorf("object %s: %w", d, err)
	}
	return uint64(loc.Size), nil
}
