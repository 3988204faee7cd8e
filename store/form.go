package store

import (
	"bytes"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// keysOf returns the keys of databases, each once; nil stands for all that have none.
func (o *objects) keysOf(ids []note.DatabaseID) []*sealKey {
	var out []*sealKey
	for _, id := range ids {
		if k := o.keys.of(id); !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	if out == nil {
		return []*sealKey{nil}
	}
	return out
}

// prepare makes the message in the form of each key. build makes one form, and its objects durable. If it fails, all is
// released.
func (m *Message) prepare(keys []*sealKey, build func(*Message) error) error {
	for i, k := range keys {
		f := m
		if i > 0 {
			f = &Message{s: m.s, Digest: m.Digest, Size: m.Size}
			m.forms = append(m.forms, f)
		}
		f.key = k
		m.s.pins.pin(k.name(m.Digest))
		if err := build(f); err != nil {
			m.Release()
			return err
		}
	}
	return nil
}

// form returns the message in the form that databases with a key have. One that Prepare did not make is made now: for
// messages from before the database got its key, and for callers that did not know the database. That may write and
// flush objects.
func (m *Message) form(k *sealKey) (*Message, error) {
	return m.formed(k, func(f *Message) error {
		if err := f.find(); err != nil || f.recipe != 0 {
			return err
		}
		row := m.row
		if row == nil {
			var err error
			if row, _, err = m.s.storedRecipe(m.s.eng, m.recipe); err != nil {
				return err
			}
		}
		return f.convert(row, m)
	})
}

// formed returns the form for a key, or makes it.
func (m *Message) formed(k *sealKey, build func(*Message) error) (*Message, error) {
	if m.key == k {
		return m, nil
	}
	m.making.Lock()
	defer m.making.Unlock()
	for _, f := range m.forms {
		if f.key == k {
			return f, nil
		}
	}
	f := &Message{s: m.s, Digest: m.Digest, Size: m.Size}
	if err := f.prepare([]*sealKey{k}, build); err != nil {
		return nil, err
	}
	m.forms = append(m.forms, f)
	return f, nil
}

// convert builds a form from the recipe of another one, from.
func (m *Message) convert(row []byte, from *Message) error {
	st, err := parseRecipe(m.s, from.key, row)
	if err != nil {
		return err
	}
	for i := range st.steps {
		x := &st.steps[i]
		if x.kind == stepInline {
			continue
		}
		if err := m.copyObject(ObjectRef{x.digest, uint64(x.size)}, from); err != nil {
			return err
		}
	}
	m.row = bytes.Clone(row)
	return m.sync()
}

// copyObject keeps an object that another form has.
func (m *Message) copyObject(ref ObjectRef, from *Message) error {
	loc, err := from.place(ref.Digest)
	if err != nil {
		return err
	}
	content, err := m.s.readHere(loc, from.key, ref.Digest, 0, int64(ref.Size), nil)
	if err == nil {
		err = ref.matches(content)
	}
	if err == nil {
		_, err = m.keep(content)
	}
	return err
}

// form is Message.form for an attachment.
func (o *Object) form(k *sealKey) (*Message, error) {
	return o.m.formed(k, func(f *Message) error {
		if err := f.copyObject(ObjectRef{o.Digest, o.Size}, o.m); err != nil {
			return err
		}
		return f.sync()
	})
}

// formOf returns a message in the form of the database.
func (w *Writer) formOf(m *Message) (*Message, error) {
	k, err := w.s.writeKey(w.st.info)
	if err != nil {
		return nil, err
	}
	return m.form(k)
}

// adopt brings the message of a note, which came from another database, into the form of this one.
func (se *settlement) adopt(t *txNote) error {
	k, err := se.s.writeKey(se.st.info)
	if err != nil || t.row.Recipe == 0 && t.message == nil {
		return err
	}
	from := t.message
	if from == nil {
		row, by, err := se.s.storedRecipe(se.eng, t.row.Recipe)
		if err != nil || by == k {
			return err
		}
		d, size, _, err := RecipeParts(row)
		if err != nil {
			return err
		}
		from = &Message{s: se.s.objects, key: by, Digest: d, Size: size, row: row}
	}
	m, err := from.form(k)
	if err != nil {
		return err
	}
	if t.message == nil {
		se.brought = append(se.brought, m)
	}
	t.message, t.row.Recipe = m, m.recipe
	return nil
}

// recipeNames returns the names of the objects of a stored recipe, for which no key is needed.
func recipeNames(v []byte) ([]note.Digest, error) {
	if _, _, s, ok := layout.ReadSealedRecipe(v); ok {
		return s.Names, nil
	}
	_, _, parts, err := RecipeParts(v)
	if err != nil {
		return nil, err
	}
	names := make([]note.Digest, len(parts))
	for i, p := range parts {
		names[i] = p.Digest
	}
	return names, nil
}
