package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store/layout"
	"doublet/store/object"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
)

// PartSize is the default of Options.ObjectSize. An object is written once to a segment and shared by every message
// that contains it.
const PartSize = 32 << 10

// inlineMax bounds the bytes that a recipe row holds itself. Above it, even small parts become objects.
const inlineMax = 96 << 10

// Message is a message on its way into the store. It is hashed, its large parts are written and durable, and its recipe
// is ready. It is pinned until Release: meanwhile the sweeper removes nothing of it.
type Message struct {
	Digest note.Digest
	Size   uint64

	s       *objects
	key     *sealKey      // of the databases that this form is for: see form
	recipe  note.RecipeID // 0 until the recipe row is in a batch
	row     []byte        // the recipe, not sealed
	objects []pinned
	// forms are the message for databases with other keys. They have the same pins, and no forms.
	forms  []*Message
	making sync.Mutex // guards forms
}

// pinned is an object of a message, by its name.
type pinned struct {
	name  note.Digest
	loc   object.Location
	isNew bool
}

// stepRoom is the room in bytes for a step of a recipe, but for the bytes that it holds.
const stepRoom = 64

// The steps of a recipe.
const (
	stepInline = iota // length, bytes
	stepObject        // digest, size: the object's bytes unchanged
	stepBase64        // digest, size, line length × 2 + final CRLF: the object's bytes as lines of base64
)

// objects stores messages and their large parts: it adds, finds and reads them, and sweeps those that no row
// references.
type objects struct {
	*core
	translog  *transactionLog
	tiers     *tiers
	pins      pins
	workspace workspace
	// shared and sharedBytes count the parts, and their bytes, that were in the store already.
	shared, sharedBytes atomic.Uint64
	// keep is held for reading while a backup copies segments, and for writing while a segment is rewritten.
	keep sync.RWMutex
}

// Prepare prepares a message for storing. leaves are its large parts as found by mime.SplitLeaves. Prepare needs no
// lock. What it writes is garbage until an update references it. The caller must call Release.
//
// For databases with keys of their own the message is stored apart. So the caller names the databases that it is for,
// if it knows them: then nothing is stored for others. The message can be used in all databases.
func (o *objects) Prepare(ctx context.Context, raw []byte, leaves []mime.LeafSpan,
	ids ...note.DatabaseID) (*Message, error) {
	if err := errors.Join(ctx.Err(), o.alive(), o.space.admit()); err != nil {
		return nil, err
	}
	if err := o.dbs.enter(); err != nil {
		return nil, err
	}
	defer o.dbs.leave()
	m := &Message{s: o, Size: uint64(len(raw))}
	keys := o.keysOf(ids)
	var err error
	if len(raw) < digestApart || len(keys) > 1 {
		m.Digest = sha256.Sum256(raw)
		err = m.prepare(keys, func(f *Message) error {
			if err := f.find(); err != nil || f.recipe != 0 {
				return err
			}
			return f.build(ctx, raw, leaves)
		})
	} else {
		m.key = keys[0]
		if err = m.prepareLarge(ctx, raw, leaves); err != nil {
			m.Release()
		}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// digestApart is the size in bytes from which prepareLarge is faster than prepare.
const digestApart = 1 << 20

// prepareLarge is prepare, but another goroutine computes the digest of the message meanwhile. If the message is stored
// already, its objects are too: then they have been decoded in vain, but not written again.
func (m *Message) prepareLarge(ctx context.Context, raw []byte, leaves []mime.LeafSpan) error {
	sum := make(chan note.Digest, 1)
	m.s.env.Go("digest", func() { sum <- sha256.Sum256(raw) })
	err := m.build(ctx, raw, leaves)
	m.named(<-sum) // also after an error: raw belongs to the caller again when Prepare returns
	if err != nil {
		return err
	}
	copy(m.row, m.Digest[:])
	return m.find()
}

// named sets the digest of the message, and pins it.
func (m *Message) named(d note.Digest) {
	m.Digest = d
	m.s.pins.pin(m.key.name(d))
}

// find looks for a stored recipe of the same bytes.
func (m *Message) find() error {
	name := m.key.name(m.Digest)
	v, err := getValue(m.s.eng, layout.Key(layout.SpaceRecipeHash, name[:]))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(v) != 8 {
		return fmt.Errorf("%w: recipe of %s", ErrDamaged, m.Digest)
	}
	m.recipe = note.RecipeID(binary.BigEndian.Uint64(v))
	return nil
}

func (m *Message) build(ctx context.Context, raw []byte, leaves []mime.LeafSpan) error {
	parts, room := m.parts(raw, leaves)
	row := append(make([]byte, 0, room), m.Digest[:]...) // of prepareLarge: still to come
	row = binary.AppendUvarint(row, m.Size)
	at, inline := 0, 0
	var err error
	for _, l := range parts {
		if row, err = m.inline(row, raw[at:l.Start], &inline); err != nil {
			return err
		}
		leave, err := m.s.workspace.enter(ctx, l.End-l.Start)
		if err != nil {
			return err
		}
		row, err = m.part(row, raw[l.Start:l.End], l)
		leave()
		if err != nil {
			return err
		}
		at = l.End
	}
	if row, err = m.inline(row, raw[at:], &inline); err != nil {
		return err
	}
	m.row = row
	return m.sync()
}

// parts returns the leaves that become objects, and the room in bytes that the recipe needs.
func (m *Message) parts(raw []byte, leaves []mime.LeafSpan) (parts []mime.LeafSpan, room int) {
	at, inline := 0, len(raw)
	for _, l := range leaves {
		if l.Start >= at && l.End <= len(raw) && l.End-l.Start >= m.s.opt.ObjectSize {
			parts = append(parts, l)
			inline -= l.End - l.Start
			at = l.End
		}
	}
	return parts, min(inline, inlineMax) + stepRoom*(2*len(parts)+2)
}

// inline adds bytes to the recipe itself, or as objects once the recipe holds too many.
func (m *Message) inline(row, b []byte, sum *int) ([]byte, error) {
	if len(b) == 0 {
		return row, nil
	}
	if *sum+len(b) <= inlineMax {
		*sum += len(b)
		row = binary.AppendUvarint(append(row, stepInline), uint64(len(b)))
		return append(row, b...), nil
	}
	return m.object(append(row, stepObject), b)
}

// part adds a large part. If it is base64 that encoding reproduces exactly, the decoded bytes are stored; otherwise the
// part unchanged.
func (m *Message) part(row, body []byte, l mime.LeafSpan) ([]byte, error) {
	if l.LineLen > 0 {
		decoded := takeScratch()
		defer decoded.give()
		if raw, finalCRLF, ok := mime.AppendCanonical(decoded.b, body, l.LineLen); ok {
			decoded.b = raw
			row, err := m.object(append(row, stepBase64), raw)
			form := uint64(l.LineLen) << 1
			if finalCRLF {
				form |= 1
			}
			return binary.AppendUvarint(row, form), err
		}
	}
	return m.object(append(row, stepObject), body)
}

func (m *Message) object(row, content []byte) ([]byte, error) {
	d, err := m.keep(content)
	row = append(row, d[:]...)
	return binary.AppendUvarint(row, uint64(len(content))), err
}

// keep finds or writes an object and pins it.
func (m *Message) keep(content []byte) (note.Digest, error) {
	d := note.Digest(sha256.Sum256(content))
	p := pinned{name: m.key.name(d)}
	m.s.pins.pin(p.name)
	_, err := m.s.locate(m.s.eng, p.name)
	switch {
	case err == nil:
		m.s.shared.Add(1)
		m.s.sharedBytes.Add(uint64(len(content)))
	case errors.Is(err, ErrNotFound):
		p.isNew = true
		p.loc, err = m.s.append(m.key, d, content)
	}
	if err != nil {
		m.s.pins.unpin(p.name)
		return d, fmt.Errorf("store: object: %w", err)
	}
	m.objects = append(m.objects, p)
	return d, nil
}

// append writes an object to a segment, encrypted with a key if there is one. Rewrite leaves the segment alone until
// the object is referenced.
func (o *objects) append(k *sealKey, d note.Digest, content []byte) (object.Location, error) {
	o.pins.flight.RLock()
	defer o.pins.flight.RUnlock()
	var loc object.Location
	var err error
	if k == nil {
		loc, err = o.obj.Append(object.Digest(d), content)
	} else {
		content = bytes.Clone(content)
		if err = k.xor(d, content, 0); err == nil {
			loc, err = object.AppendNamed(o.obj, object.Digest(k.name(d)), content)
		}
	}
	if err == nil {
		o.pins.took(loc.Segment)
	}
	return loc, err
}

// sync waits until the objects are durable, before any row references them.
func (m *Message) sync() error {
	for i := len(m.objects) - 1; i >= 0; i-- {
		if m.objects[i].isNew {
			// The last append also covers those before it.
			if err := m.s.obj.Sync(m.objects[i].loc); err != nil {
				return m.s.die(err)
			}
			return nil
		}
	}
	return nil
}

// put writes the recipe, the rows of its new objects and its references into the first batch that references it.
func (m *Message) put(b *pebble.Batch) {
	key, name := layout.NumberKey(layout.SpaceRecipe, uint64(m.recipe)), m.key.name(m.Digest)
	set(b, key, m.key.sealRecipe(m.s.env, key, m.row, m.names()))
	set(b, layout.Key(layout.SpaceRecipeHash, name[:]), uint64Bytes(uint64(m.recipe)))
	for _, p := range m.objects {
		if p.isNew {
			set(b, layout.Key(layout.SpaceObject, p.name[:]), p.loc.Append(nil))
		}
		set(b, layout.ObjectByRecipe(p.name, m.recipe), nil)
	}
}

// names returns the names of the message's objects, each once.
func (m *Message) names() (out []note.Digest) {
	for _, p := range m.objects {
		if !slices.Contains(out, p.name) {
			out = append(out, p.name)
		}
	}
	return out
}

// Memory returns the number of bytes that the message holds in memory: its recipe with the small parts in it.
func (m *Message) Memory() int64 {
	n := int64(cap(m.row))
	m.making.Lock()
	defer m.making.Unlock()
	for _, f := range m.forms {
		n += f.Memory()
	}
	return n
}

// Release unpins the message. The updates that use it must have ended.
func (m *Message) Release() {
	for _, f := range m.forms {
		f.Release()
	}
	m.forms = nil
	m.s.pins.unpin(m.key.name(m.Digest))
	for _, p := range m.objects {
		m.s.pins.unpin(p.name)
		if p.isNew {
			m.s.pins.landed(p.loc.Segment)
		}
	}
	m.objects = nil
}

// LeastObject returns Options.ObjectSize. A caller of Prepare may leave out smaller leaves.
func (o *objects) LeastObject() int { return o.opt.ObjectSize }

// Attach prepares bytes as an attachment of a note, as Prepare does for a message. The caller passes the result to Keep
// in the update, and must call Release. ids are the databases that it is for, as for Prepare.
func (o *objects) Attach(ctx context.Context, content []byte, ids ...note.DatabaseID) (*Object, error) {
	if err := errors.Join(ctx.Err(), o.alive(), o.space.admit()); err != nil {
		return nil, err
	}
	if err := o.dbs.enter(); err != nil {
		return nil, err
	}
	defer o.dbs.leave()
	leave, err := o.workspace.enter(ctx, len(content))
	if err != nil {
		return nil, err
	}
	defer leave()
	m := &Message{s: o}
	err = m.prepare(o.keysOf(ids), func(f *Message) error {
		if _, err := f.keep(content); err != nil {
			return err
		}
		return f.sync()
	})
	if err != nil {
		return nil, err
	}
	return &Object{Digest: sha256.Sum256(content), Size: uint64(len(content)), m: m}, nil
}

// Object holds an attachment on its way into the store.
type Object struct {
	Digest note.Digest
	Size   uint64
	m      *Message
}

// Release unpins the object.
func (o *Object) Release() { o.m.Release() }

// Keep makes the update write the object's row, together with the notes that reference its digest.
func (dr *draft) Keep(o *Object) {
	dr.mutable()
	dr.objects = append(dr.objects, o)
}

// locate returns the location of an object.
func (c *core) locate(r pebble.Reader, d note.Digest) (object.Location, error) {
	v, closer, err := r.Get(layout.Key(layout.SpaceObject, d[:]))
	if err != nil {
		return object.Location{}, engineError(err)
	}
	loc, _, err := object.ParseLocation(v)
	if err = errors.Join(err, engineError(closer.Close())); err != nil {
		return loc, fmt.Errorf("%w: object %s", ErrDamaged, d)
	}
	return loc, nil
}

// find is locate for an object that something references, stored with the key k. If it is missing here, find fetches it
// with Options.Mend, if set.
func (o *objects) find(r pebble.Reader, k *sealKey, d note.Digest) (object.Location, error) {
	loc, err := o.locate(r, k.name(d))
	if err == nil || o.opt.Mend == nil {
		return loc, err
	}
	if merr := o.opt.Mend(d); merr != nil {
		return loc, errors.Join(err, merr)
	}
	return o.locate(o.eng, k.name(d))
}

// readObject is readHere, but if an object cannot be read it fetches a copy with Options.Mend, if set.
func (o *objects) readObject(loc object.Location, k *sealKey, d note.Digest, off, n int64, dst []byte) ([]byte,
	error) {
	out, err := o.readHere(loc, k, d, off, n, dst)
	if err == nil || o.opt.Mend == nil {
		return out, err
	}
	if merr := o.opt.Mend(d); errors.Is(err, ErrAway) && merr != nil {
		return dst, err // the object is not lost
	} else if merr != nil {
		return dst, errors.Join(err, merr)
	}
	if loc, err = o.locate(o.eng, k.name(d)); err != nil {
		return dst, fmt.Errorf("%w: object %s: %w", ErrDamaged, d, err)
	}
	return o.readHere(loc, k, d, off, n, dst)
}

// readHere is readStored for an object that was stored with the key k.
func (o *objects) readHere(loc object.Location, k *sealKey, d note.Digest, off, n int64, dst []byte) ([]byte, error) {
	at := len(dst)
	out, err := o.readStored(loc, k.name(d), off, n, dst)
	if err == nil {
		err = k.xor(d, out[at:], off)
	}
	return out, err
}

// readStored appends n bytes of an object from off, as they are stored. loc is its location when the reader looked it
// up. If the segment was rewritten since, or the object mended, readStored looks it up again. If its file is damaged,
// readStored reads the copy of the segment. An object that lost its last reference meanwhile can still be read, because
// only Rewrite removes bytes.
func (o *objects) readStored(loc object.Location, d note.Digest, off, n int64, dst []byte) ([]byte, error) {
	at := loc
	out, err := o.obj.ReadRange(at, object.Digest(d), off, n, dst)
	if gone := errors.Is(err, object.ErrNotFound); gone || errors.Is(err, object.ErrAway) {
		now, lerr := o.locate(o.eng, d)
		switch {
		case lerr == nil && (gone || now != loc):
			at = now
			out, err = o.obj.ReadRange(at, object.Digest(d), off, n, dst)
		case gone:
			err = lerr
		}
	}
	if errors.Is(err, object.ErrDamaged) {
		if healthy, cerr := o.tiers.read(at, d, off, n, dst, err); cerr == nil {
			return healthy, nil
		}
	}
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, object.ErrAway):
		return dst, fmt.Errorf("%w: object %s: %w", ErrAway, d, err)
	}
	return dst, fmt.Errorf("%w: object %s: %w", ErrDamaged, d, err)
}

// Object appends the bytes of an attachment that the note references.
func (r *Reader) Object(id note.ID, d note.Digest, dst []byte) ([]byte, error) {
	c, err := r.Content(id)
	if err != nil {
		return dst, err
	}
	for _, a := range c.Content.Attachments {
		if a.Digest == d {
			loc, k, err := r.findAttached(d)
			if err != nil {
				return dst, fmt.Errorf("%w: object %s: %w", ErrDamaged, d, err)
			}
			return r.s.readObject(loc, k, d, 0, int64(a.Size), dst)
		}
	}
	return dst, ErrNotFound
}

// findAttached returns the location of an attachment of a note, and the key that it is stored with. While a database
// gets or loses its key, it may have both forms.
func (sn *snapshot) findAttached(d note.Digest) (object.Location, *sealKey, error) {
	k := sn.s.keys.of(sn.db.id)
	if k != nil {
		if loc, err := sn.s.locate(sn.eng, k.name(d)); err == nil {
			return loc, k, nil
		}
		if loc, err := sn.s.locate(sn.eng, d); err == nil {
			return loc, nil, nil
		}
	}
	loc, err := sn.s.find(sn.eng, k, d)
	return loc, k, err
}
