package check

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/store/object"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
)

// recipe is a stored message, parsed independently of the store.
type recipe struct {
	digest note.Digest
	size   uint64
	steps  []step
	// names are those of the objects. seal is what has encrypted them. locked means that only size and names are known,
	// because the key is not given.
	names  []note.Digest
	seal   store.Sealer
	locked bool
}

type step struct {
	kind    byte
	inline  []byte
	digest  note.Digest
	size    int64 // of the object
	lineLen int
	final   bool
}

// The steps of a recipe, as the store writes them.
const (
	stepInline = iota
	stepObject
	stepBase64
)

// readRecipe parses the row of a recipe, which may be sealed.
func readRecipe(c *checker, key, v []byte) (*recipe, error) {
	_, size, s, sealed := layout.ReadSealedRecipe(v)
	if !sealed {
		return parseRecipe(v)
	}
	locked := &recipe{size: size, names: s.Names, locked: true}
	v, err := c.s.UnsealRecipe(key, v)
	if errors.Is(err, store.ErrLocked) {
		return locked, nil
	}
	if err != nil {
		return nil, err
	}
	by, ok := c.s.SealerOf(&s)
	if !ok { // its key was given until now
		return locked, nil
	}
	r, err := parseRecipe(v)
	if err == nil {
		r.seal, r.names = by, s.Names
	}
	return r, err
}

// recipeNames returns the names of the objects of a stored recipe. No key is needed.
func recipeNames(v []byte) ([]note.Digest, error) {
	if _, _, s, sealed := layout.ReadSealedRecipe(v); sealed {
		return s.Names, nil
	}
	r, err := parseRecipe(v)
	if err != nil {
		return nil, err
	}
	return r.names, nil
}

// parseRecipe parses a recipe that is not sealed.
func parseRecipe(b []byte) (*recipe, error) {
	if len(b) < 33 {
		return nil, note.ErrCorrupt
	}
	r := &recipe{digest: note.Digest(b[:32])}
	var ok bool
	if r.size, b, ok = uvarint(b[32:]); !ok {
		return nil, note.ErrCorrupt
	}
	var sum uint64
	for len(b) > 0 {
		var x step
		if x, b, ok = parseStep(b); !ok {
			return nil, note.ErrCorrupt
		}
		sum += x.length()
		r.steps = append(r.steps, x)
		if x.kind != stepInline {
			r.names = append(r.names, x.digest)
		}
	}
	if sum != r.size {
		return nil, note.ErrCorrupt
	}
	return r, nil
}

func parseStep(b []byte) (x step, rest []byte, ok bool) {
	var n uint64
	x.kind, b = b[0], b[1:]
	switch x.kind {
	case stepInline:
		if n, b, ok = uvarint(b); !ok || n > uint64(len(b)) {
			return x, nil, false
		}
		x.inline = b[:n]
		return x, b[n:], true
	case stepObject, stepBase64:
		if len(b) < 33 {
			return x, nil, false
		}
		copy(x.digest[:], b)
		if n, b, ok = uvarint(b[32:]); !ok || n > object.MaxSize {
			return x, nil, false
		}
		x.size = int64(n)
		if x.kind == stepObject {
			return x, b, true
		}
		n, b, ok = uvarint(b)
		x.lineLen, x.final = int(n>>1), n&1 == 1
		return x, b, ok && n>>1 != 0 && n>>1 <= 1000
	}
	return x, nil, false
}

func uvarint(b []byte) (uint64, []byte, bool) {
	v, k := binary.Uvarint(b)
	if k <= 0 {
		return 0, nil, false
	}
	return v, b[k:], true
}

// length returns the number of bytes of the message that a step stands for.
func (x *step) length() uint64 {
	if x.kind != stepBase64 {
		return uint64(x.size) + uint64(len(x.inline))
	}
	chars := uint64(x.size+2) / 3 * 4
	n := chars
	if lines := (chars + uint64(x.lineLen) - 1) / uint64(x.lineLen); lines > 0 {
		n += 2 * (lines - 1)
	}
	if x.final {
		n += 2
	}
	return n
}

// rebuild builds the whole message and compares it with its SHA-256.
func (c *checker) rebuild(r *recipe) error {
	h := sha256.New()
	for i := range r.steps {
		x := &r.steps[i]
		if x.kind == stepInline {
			h.Write(x.inline)
			continue
		}
		if err := c.rebuildStep(h, r, x); err != nil {
			return err
		}
	}
	if got := note.Digest(h.Sum(nil)); got != r.digest {
		return fmt.Errorf("rebuilt message has digest %s, not %s", got, r.digest)
	}
	return nil
}

// rebuildStep feeds a part to the hash, one piece at a time. A piece of base64 consists of whole lines.
func (c *checker) rebuildStep(h hash.Hash, r *recipe, x *step) error {
	name := r.seal.Name(x.digest)
	loc, ok, err := c.locate(name)
	if err != nil {
		return err
	}
	if !ok || int64(loc.Size) != x.size {
		return fmt.Errorf("object %s is missing or has another size", x.digest)
	}
	piece := int64(1 << 20)
	if x.kind == stepBase64 {
		if x.lineLen%4 != 0 {
			piece = x.size
		} else {
			line := int64(x.lineLen) / 4 * 3
			piece = max(1, piece/line) * line
		}
	}
	var raw, text []byte
	for off := int64(0); ; off += piece {
		if raw, err = c.s.Objects().ReadRange(loc, object.Digest(name), off, piece, raw[:0]); err != nil {
			return err
		}
		if err := r.seal.Decrypt(x.digest, raw, off); err != nil {
			return err
		}
		last := off+piece >= x.size
		if x.kind == stepObject {
			h.Write(raw)
		} else {
			text = mime.AppendBase64Lines(text[:0], raw, x.lineLen, !last || x.final)
			h.Write(text)
		}
		if last {
			return nil
		}
	}
}

func (c *checker) locate(d note.Digest) (object.Location, bool, error) {
	v, ok, err := c.get(layout.Key(layout.SpaceObject, d[:]))
	if err != nil || !ok {
		return object.Location{}, false, err
	}
	loc, rest, err := object.ParseLocation(v)
	if err != nil || len(rest) != 0 {
		return loc, false, nil //nolint:nilerr // the row's own finding
	}
	return loc, true, nil
}

// recipes walks stored messages and the references to them side by side.
func (c *checker) recipes() error {
	rows, err := c.walk(layout.Key(layout.SpaceRecipe))
	if err != nil {
		return err
	}
	defer rows.close()
	refs, err := c.walk(layout.Key(layout.SpaceRecipeRef))
	if err != nil {
		return err
	}
	defer refs.close()
	err = rows.while(always, func(key []byte) error {
		if len(key) != 9 {
			c.found(0, Recipe, key, []change{drop(key)}, "a key of %d bytes", len(key))
			return nil
		}
		return c.oneRecipe(rows, refs)
	})
	if err != nil {
		return err
	}
	return refs.while(always, c.dangling)
}

func (c *checker) oneRecipe(rows, refs *walker) error {
	id := layout.Tail64(rows.key)
	err := refs.while(func(k []byte) bool { return len(k) != 21 || layout.Tail64(k[:9]) < id }, c.dangling)
	if err != nil {
		return err
	}
	c.rep.Messages++
	r, err := readRecipe(c, rows.key, rows.value)
	if err != nil {
		// Its notes will find it missing in the next pass.
		c.found(0, Recipe, rows.key, []change{drop(rows.key)}, "recipe %d cannot be read", id)
	} else if err := c.ingredients(note.RecipeID(id), r); err != nil {
		return err
	}
	valid := 0
	err = refs.while(func(k []byte) bool { return len(k) == 21 && layout.Tail64(k[:9]) == id }, func(k []byte) error {
		ok, err := c.reference(k, r)
		if ok {
			valid++
		}
		return err
	})
	if err != nil {
		return err
	}
	if valid == 0 {
		return c.require(0, SweepRow, layout.SweepRecipe(note.RecipeID(id)), "missing: no note refers to recipe %d", id)
	}
	return nil
}

// ingredients checks that a recipe's objects exist and are referenced by it.
func (c *checker) ingredients(id note.RecipeID, r *recipe) error {
	whole := !r.locked
	for _, name := range r.names {
		err := c.require(0, ObjectReference, layout.ObjectByRecipe(name, id), "missing: recipe %d names object %s", id,
			name)
		if err != nil {
			return err
		}
	}
	for i := range r.steps {
		x := &r.steps[i]
		if x.kind == stepInline {
			continue
		}
		loc, ok, err := c.locate(r.seal.Name(x.digest))
		if err != nil {
			return err
		}
		if whole = whole && ok; ok && int64(loc.Size) != x.size {
			c.found(0, Recipe, layout.NumberKey(layout.SpaceRecipe, uint64(id)), nil,
				"recipe %d takes object %s to have %d bytes, it has %d", id, x.digest, x.size, loc.Size)
			whole = false
		}
	}
	if !c.o.Deep || !whole {
		return nil
	}
	err := c.rebuild(r)
	if err != nil {
		err = c.rebuildNow(id, r)
	}
	if err != nil {
		if errors.As(err, new(errDamage)) || errors.Is(err, object.ErrAway) {
			return err
		}
		c.found(0, Recipe, layout.NumberKey(layout.SpaceRecipe, uint64(id)), nil, "recipe %d: %v", id, err)
	}
	return nil
}

// rebuildNow tries again with the present state. Since the snapshot was taken, objects may have moved, or may have been
// removed with the message.
func (c *checker) rebuildNow(id note.RecipeID, r *recipe) error {
	return c.s.Inspect(func(now pebble.Reader) error {
		fresh := &checker{ctx: c.ctx, s: c.s, r: now}
		if ok, err := fresh.has(layout.NumberKey(layout.SpaceRecipe, uint64(id))); err != nil || !ok {
			return err
		}
		return fresh.rebuild(r)
	})
}

// reference checks one note's reference to an existing recipe.
func (c *checker) reference(key []byte, r *recipe) (ok bool, err error) {
	id, num, nid := splitReference(key)
	e := c.byNum[num]
	n, err := c.readNote(num, nid)
	if err != nil {
		return false, err
	}
	if e == nil || n == nil || n.Recipe != id {
		c.found(e.databaseID(), RecipeReference, key, []change{drop(key), put(layout.SweepRecipe(id), nil)},
			"note %d does not name recipe %d", nid, id)
		return false, nil
	}
	if r == nil {
		return true, nil
	}
	if n.Size != r.size {
		fixed := *n
		fixed.Size = r.size
		nk := layout.NoteKey(num, layout.KindNote, nid)
		c.found(e.id, NoteRow, nk, []change{put(nk, layout.AppendNote(nil, &fixed))},
			"note %d: size %d, its message has %d", nid, n.Size, r.size)
	}
	if c.o.Deep {
		row, err := c.readContent(num, nid)
		if err != nil {
			return true, ignoreLocked(err)
		}
		if row != nil && !n.Stub && !r.locked && row.Content.Message != r.digest {
			c.found(e.id, NoteRow, layout.NoteKey(num, layout.KindNote, nid), nil,
				"note %d: recipe %d is not that of its message %s", nid, id, row.Content.Message)
		}
	}
	return true, nil
}

func splitReference(key []byte) (note.RecipeID, uint32, note.ID) {
	return note.RecipeID(layout.Tail64(key[:9])), layout.Tail32(key[:13]), note.ID(layout.Tail64(key))
}

// dangling handles a reference to a recipe that does not exist. If the note still needs it, dangling uses another
// recipe of the same bytes; otherwise the message is lost.
func (c *checker) dangling(key []byte) error {
	if len(key) != 21 {
		c.found(0, RecipeReference, key, []change{drop(key)}, "a key of %d bytes", len(key))
		return nil
	}
	id, num, nid := splitReference(key)
	e := c.byNum[num]
	n, err := c.readNote(num, nid)
	if err != nil {
		return err
	}
	if e == nil || n == nil || n.Recipe != id {
		c.found(e.databaseID(), RecipeReference, key, []change{drop(key)},
			"recipe %d does not exist, and note %d does not name it", id, nid)
		return nil
	}
	row, err := c.readContent(num, nid)
	if err != nil {
		return ignoreLocked(err) // its digest is not known
	}
	if row != nil {
		name := e.seal.Name(row.Content.Message)
		v, ok, err := c.get(layout.Key(layout.SpaceRecipeHash, name[:]))
		if err != nil {
			return err
		}
		if other := layout.Tail64(v); ok && other != uint64(id) {
			if ok, err = c.has(layout.NumberKey(layout.SpaceRecipe, other)); err != nil {
				return err
			}
			if ok {
				fixed := *n
				fixed.Recipe = note.RecipeID(other)
				nk := layout.NoteKey(num, layout.KindNote, nid)
				c.found(e.id, Recipe, nk, []change{
					put(nk, layout.AppendNote(nil, &fixed)), drop(key),
					put(layout.RecipeRefKey(fixed.Recipe, num, nid), nil),
				}, "recipe %d of note %d is missing, recipe %d has the same bytes", id, nid, other)
				return nil
			}
		}
	}
	if e.locked {
		return nil // its digest is not known
	}
	c.lose(e, nid, n.UNID, Recipe, fmt.Sprintf("its message, recipe %d, is missing", id))
	return nil
}

// ignoreLocked returns nil if content was not read because its key is not given.
func ignoreLocked(err error) error {
	if errors.Is(err, store.ErrLocked) {
		return nil
	}
	return err
}

// hashes checks that each digest leads to a recipe of the same bytes.
func (c *checker) hashes() error {
	return c.scan(layout.Key(layout.SpaceRecipeHash), func(k, v []byte) error {
		if len(k) != 33 || len(v) != 8 {
			c.found(0, RecipeHash, k, []change{drop(k)}, "cannot be read")
			return nil
		}
		row, ok, err := c.get(layout.NumberKey(layout.SpaceRecipe, layout.Tail64(v)))
		if err == nil && (!ok || len(row) < 32 || string(row[:32]) != string(k[1:])) {
			c.found(0, RecipeHash, k, []change{drop(k)}, "leads to recipe %d, which is not of these bytes",
				layout.Tail64(v))
		}
		return err
	})
}
