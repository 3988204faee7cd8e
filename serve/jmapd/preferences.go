package jmapd

import (
	"errors"
	"maps"
	"slices"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/jmap"
)

var preferencesProperties = []string{"id", "values"}

// preferencesKind lists the properties of Preferences that a client may change.
var preferencesKind = kind{mutable: []string{"values"}, fixed: oneOf("id")}

// preferences is a Preferences object: settings of the person's clients, which the server keeps and does not read.
type preferences map[string]string

// state returns a hash of the values.
func (p preferences) state() string {
	u := note.DeriveUNID(p.append(nil, func(string) bool { return true }))
	return u.String()[:16]
}

func (p preferences) append(dst []byte, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", singleton)
	if wants("values") {
		o.Object("values", func(in *jmap.Writer) {
			for _, name := range slices.Sorted(maps.Keys(p)) {
				in.Text(name, p[name])
			}
		})
	}
	return o.End()
}

// preferencesGet answers Preferences/get.
func preferencesGet(c *call) error {
	g, err := c.getArguments(own, preferencesProperties)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		p, err := d.Preferences()
		if err != nil {
			return err
		}
		all := []preferences{p}
		answerGet(&g, all[0].state(), all, onlyID(singleton, all), func(dst []byte, p *preferences) []byte {
			return p.append(dst, g.wants)
		})
		return nil
	})
}

// preferencesSet answers Preferences/set.
func preferencesSet(c *call) error {
	return c.setSingleton(func(w *mailbox.Changing) (string, error) {
		p, err := w.Preferences()
		return preferences(p).state(), err
	}, func(w *mailbox.Changing, patch *jmap.Value) error {
		p, err := w.Preferences()
		if err != nil {
			return err
		}
		if p, err = preferences(p).patched(patch); err != nil {
			return err
		}
		err = w.SetPreferences(p)
		if errors.Is(err, mailbox.ErrLimit) {
			return badProperties(err.Error(), "values")
		}
		return err
	})
}

// patched returns the values with a client's patch applied.
func (p preferences) patched(patch *jmap.Value) (next map[string]string, err error) {
	current, err := jmap.Parse(string(p.append(nil, func(string) bool { return true })), jmap.Bounds{})
	if err != nil {
		return nil, err
	}
	next = p
	err = preferencesKind.apply(patch, current, func(changed *jmap.Value) error {
		v := changed.Get("values")
		if v == nil {
			return nil
		}
		if v.Kind() != jmap.Object {
			return badProperties("It maps names to texts.", "values")
		}
		next = make(map[string]string, v.Len())
		for i := range v.Len() {
			text, ok := v.At(i).Text()
			if !ok {
				return badProperties("It maps names to texts.", "values")
			}
			next[v.Name(i)] = text
		}
		return nil
	})
	return next, err
}

// setSingleton answers the /set of a type with one object, which is in the mail file. state reads its state, and update
// applies a patch to it.
func (c *call) setSingleton(state func(*mailbox.Changing) (string, error),
	update func(*mailbox.Changing, *jmap.Value) error) error {
	s, err := c.setArguments(own)
	if err != nil {
		return err
	}
	s.refuse(&jmap.Error{Type: "singleton"})
	var before, after string
	// One step more than there are changes: the last one only reads the state.
	res, err := c.account.File.Change(c.ctx, len(s.update)+1, func(w *mailbox.Changing, i int) (err error) {
		if after, err = state(w); err != nil {
			return store.Abort(err)
		}
		if w.Calls == 1 {
			before = after
			if err := s.mismatch(before); err != nil {
				return store.Abort(err)
			}
		}
		switch {
		case i == len(s.update):
			return nil
		case s.update[i].real != singleton:
			return &jmap.Error{Type: "notFound"}
		}
		return update(w, s.update[i].object)
	})
	if err != nil {
		return err
	}
	for i, err := range res.Errs[:len(s.update)] {
		if err != nil {
			s.notUpdated = append(s.notUpdated, failure{s.update[i].id, err})
		} else {
			s.updated = append(s.updated, entry{s.update[i].id, nil})
		}
	}
	s.append(before, after)
	return nil
}
