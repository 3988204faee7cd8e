package jmapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/wire/jmap"
)

// kind describes a type of objects to the frame that all /set methods share: what a client may change, and what it may
// only send back as it is.
type kind struct {
	// mutable are the properties that a client may change.
	mutable []string
	// fixed reports whether a property is set by the server, or stays as it was created.
	fixed func(name string) bool
	// defaults are the values that null stands for; other properties become null.
	defaults map[string]jmap.Value
	// same compares a fixed property that was sent with the current one; nil: they must be equal.
	same func(name string, sent, current *jmap.Value) bool
}

// maxPointer bounds a path in octets: a keyword has 255 at most, and each may be escaped.
const maxPointer = 1000

// oneOf makes the function fixed of a kind.
func oneOf(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// path is one member of a PatchObject: a pointer into the object, and the value to put there.
type pointer struct {
	tokens []string
	value  *jmap.Value
}

// pointers reads the members of a PatchObject. No pointer may lead to a part of what another leads to.
//
// Implements: RFC 8620 §5.3 PatchObject
func pointers(v *jmap.Value) ([]pointer, error) {
	list := make([]pointer, v.Len())
	for i := range v.Len() {
		name := v.Name(i)
		if len(name) > maxPointer {
			return nil, badPatch("a path is longer than %d octets", maxPointer)
		}
		tokens := strings.Split(name, "/")
		for k, t := range tokens {
			if !validToken(t) {
				return nil, badPatch("%.100q is no JSON Pointer", name)
			}
			tokens[k] = unescape(t)
		}
		list[i] = pointer{tokens, v.At(i)}
	}
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b pointer) int { return slices.Compare(a.tokens, b.tokens) })
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1].tokens, sorted[i].tokens
		if len(a) <= len(b) && slices.Equal(a, b[:len(a)]) {
			return nil, badPatch("one path leads to a part of another: %.100q", strings.Join(b, "/"))
		}
	}
	return list, nil
}

// validToken reports whether each ~ in a token of a JSON Pointer begins an escape (RFC 6901 section 3).
func validToken(s string) bool {
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

// unescape undoes the escapes of a JSON Pointer's token.
func unescape(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

// apply has read take the properties that a PatchObject changes, each with its whole new value. current is the object
// as /get tells it, with all properties that the patch names. A property that is sent as it is counts as not sent: a
// client may send back a whole object. One that is fixed and would change is an error, told together with those that
// read finds.
func (k *kind) apply(patch, current *jmap.Value, read func(changed *jmap.Value) error) error {
	list, err := pointers(patch)
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

// patched gives the properties that a patch names their new values. bad are those that the type does not have.
func (k *kind) patched(list []pointer, current *jmap.Value) (
	next map[string]jmap.Value, names, bad []string, err error,
) {
	next = map[string]jmap.Value{}
	below := map[string][]pointer{}
	for _, p := range list {
		name := p.tokens[0]
		if !slices.Contains(k.mutable, name) && !k.fixed(name) {
			if len(p.tokens) > 1 {
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

// put returns a property's value with the values of pointers put in their places. was is nil where there is none.
func (k *kind) put(was *jmap.Value, list []pointer) (jmap.Value, error) {
	if p := list[0]; len(p.tokens) == 1 { // then it is the only one
		if p.value.IsNull() {
			return k.defaults[p.tokens[0]], nil
		}
		return *p.value, nil
	}
	return putBelow(was, list, 1)
}

// putBelow puts values at paths into an object, of which depth tokens lead to it. All of a path but the last token must be there,
// and no token may lead into an array. null removes a member. The object is copied once, however many paths there are.
func putBelow(in *jmap.Value, list []pointer, depth int) (out jmap.Value, err error) {
	if in.Kind() != jmap.Object {
		return out, badPatch("there is no object to change at %.100q", strings.Join(list[0].tokens, "/"))
	}
	var order []string
	below := map[string][]pointer{}
	for _, p := range list {
		name := p.tokens[depth]
		if _, seen := below[name]; !seen {
			order = append(order, name)
		}
		below[name] = append(below[name], p)
	}
	var names []string
	var values []jmap.Value
	for i := range in.Len() {
		if name := in.Name(i); below[name] == nil {
			names, values = append(names, name), append(values, *in.At(i))
		}
	}
	for _, name := range order {
		p := below[name][0]
		value := *p.value
		switch {
		case len(p.tokens) > depth+1:
			child := in.Get(name)
			if child == nil {
				return out, badPatch("there is nothing to change at %.100q", strings.Join(p.tokens, "/"))
			}
			if value, err = putBelow(child, below[name], depth+1); err != nil {
				return out, err
			}
		case value.IsNull():
			continue
		}
		names, values = append(names, name), append(values, value)
	}
	return *jmap.MakeObject(names, values), nil
}

// named returns the properties of the type that a PatchObject names, for the object that it is compared with.
func (k *kind) named(patch *jmap.Value) func(string) bool {
	names := map[string]bool{}
	for i := range patch.Len() {
		top, _, _ := strings.Cut(patch.Name(i), "/")
		names[unescape(top)] = true
	}
	return func(name string) bool { return names[name] }
}

// rendered returns what print appends to the response as a value, and leaves the response, and what is reserved for it, as
// they were.
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

// told prints what a client is told of an object that it created: what it did not send, and what became something
// else.
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
