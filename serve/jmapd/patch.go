package jmapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/wire/jmap"
)

// kind describes an object type to the code that all /set methods share: the properties that a client may change, and
// those that it may only send back unchanged.
type kind struct {
	// mutable lists the properties that a client may change.
	mutable []string
	// fixed reports whether a property is set by the server or cannot change after creation.
	fixed func(name string) bool
	// defaults maps properties to the values that null stands for. Other properties become null.
	defaults map[string]jmap.Value
	// same compares a fixed property in a patch with the current value. If nil, they must be equal.
	same func(name string, sent, current *jmap.Value) bool
}

// oneOf returns a function for the field fixed that reports whether a property is one of names.
func oneOf(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// apply calls read with the properties that a PatchObject changes, each with its whole new value. current is the object
// as /get shows it, with all properties that the patch names. Properties equal to the current value are ignored, so
// that a client may send back a whole object. A fixed property that would change is an error. apply reports it together
// with the invalid properties that read returns.
func (k *kind) apply(patch, current *jmap.Value, read func(changed *jmap.Value) error) error {
	list, err := jmap.Pointers(patch)
	if err != nil {
		return err
	}
	next, names, bad, err := k.patched(list, current)
	if err != nil {
		return err
	}
	var changed []string
	var values []jmap.Value
	for _, name := range names {
		v, was := next[name], current.Get(name)
		switch {
		case k.fixed(name):
			if !k.unchanged(name, &v, was) {
				bad = append(bad, name)
			}
		case !v.Equal(was):
			changed, values = append(changed, name), append(values, v)
		}
	}
	err = read(jmap.MakeObject(changed, values))
	if bad == nil {
		return err
	}
	if e, ok := errors.AsType[*jmap.Error](err); ok && e.Type == "invalidProperties" {
		bad = append(e.Properties, bad...)
	}
	return badProperties("The server sets a property, it stays as it was created, or it cannot be that.", bad...)
}

// patched computes the new values of the properties that a patch names. bad lists those that the type does not have.
func (k *kind) patched(list []jmap.Pointer, current *jmap.Value) (
	next map[string]jmap.Value, names, bad []string, err error,
) {
	next = map[string]jmap.Value{}
	below := map[string][]jmap.Pointer{}
	for _, p := range list {
		name := p.Tokens[0]
		if !slices.Contains(k.mutable, name) && !k.fixed(name) {
			if len(p.Tokens) > 1 {
				return nil, nil, nil, badPatch("there is no property %.100q", name)
			}
			bad = append(bad, name)
			continue
		}
		if _, seen := below[name]; !seen {
			names = append(names, name)
		}
		below[name] = append(below[name], p)
	}
	for _, name := range names {
		if next[name], err = k.put(current.Get(name), below[name]); err != nil {
			return nil, nil, nil, err
		}
	}
	return next, names, bad, nil
}

func (k *kind) unchanged(name string, sent, current *jmap.Value) bool {
	if k.same != nil {
		return k.same(name, sent, current)
	}
	return sent.Equal(current)
}

// put returns a property's value after applying the pointers in list. was is nil if the property does not exist.
func (k *kind) put(was *jmap.Value, list []jmap.Pointer) (jmap.Value, error) {
	if p := list[0]; len(p.Tokens) == 1 { // the only pointer to this property
		if p.Value.IsNull() {
			return k.defaults[p.Tokens[0]], nil
		}
		return *p.Value, nil
	}
	return jmap.Put(was, list, 1)
}

// named returns a function that reports whether a PatchObject names a property.
func (k *kind) named(patch *jmap.Value) func(string) bool {
	names := map[string]bool{}
	for i := range patch.Len() {
		top, _, _ := strings.Cut(patch.Name(i), "/")
		names[jmap.PointerToken(top)] = true
	}
	return func(name string) bool { return names[name] }
}

// rendered returns the JSON that print appends to the response as a value. It restores the response and its
// reservation.
func (c *call) rendered(print func() error) (*jmap.Value, error) {
	out, held := c.out, c.held
	c.out, c.held = nil, 0
	defer func() {
		c.mem.drop(c.held)
		c.out, c.held = out, held
	}()
	if err := print(); err != nil {
		return nil, err
	}
	return jmap.Parse(string(c.out), jmap.Bounds{})
}

// told returns the response for an object that a client created: the properties that it did not send, and those whose
// value the server changed.
//
// Implements: RFC 8620 §5.3 created
func told(sent, object *jmap.Value) []byte {
	o := jmap.NewWriter(nil)
	for i := range object.Len() {
		name, v := object.Name(i), object.At(i)
		if was := sent.Get(name); was != nil && was.Equal(v) {
			continue
		}
		o.Name(name)
		o.B = v.Append(o.B)
	}
	return o.End()
}
