package jmap

import (
	"slices"
	"strconv"
)

// Equal reports whether two values are equal. Numbers are compared by value, and objects in any order of members. A
// missing value equals null.
func (v *Value) Equal(w *Value) bool {
	if v.Kind() != w.Kind() {
		return false
	}
	switch v.Kind() {
	case Null:
		return true
	case Number:
		return v.text == w.text || sameNumber(v.text, w.text)
	case Array:
		return slices.EqualFunc(v.items, w.items, func(a, b Value) bool { return a.Equal(&b) })
	case Object:
		if len(v.names) != len(w.names) {
			return false
		}
		for i, name := range v.names {
			other := &w.items[i] // mostly: a search for each of many members would take too long
			if w.names[i] != name {
				other = w.Get(name)
			}
			if other == nil || !v.items[i].Equal(other) {
				return false
			}
		}
		return true
	}
	return v.text == w.text
}

func sameNumber(a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y
}

// With returns a copy of an object with one member set. The other members are shared.
func (v *Value) With(name string, member Value) Value {
	out := v.Without(name)
	out.names, out.items = append(out.names, name), append(out.items, member)
	return out
}

// Without returns a copy of an object without one member. The other members are shared.
func (v *Value) Without(name string) Value {
	out := Value{kind: Object, names: make([]string, 0, v.Len()+1), items: make([]Value, 0, v.Len()+1)}
	for i := range v.Len() {
		if v.names[i] != name {
			out.names, out.items = append(out.names, v.names[i]), append(out.items, v.items[i])
		}
	}
	return out
}

// MakeNumber returns a number value.
func MakeNumber(n int64) Value { return Value{kind: Number, text: strconv.FormatInt(n, 10)} }
