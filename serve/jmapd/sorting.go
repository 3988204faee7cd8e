package jmapd

import (
	"slices"

	"doublet/wire/jmap"
)

// sortKey is a Comparator: a property to sort by.
type sortKey struct {
	property string
	down     bool
	value    *jmap.Value // the Comparator, for properties that are specific to a type
}

// maxSortKeys bounds a sort order.
const maxSortKeys = 10

// sortKeys reads the argument sort. known lists the properties by which this type can be sorted.
//
// Implements: RFC 8620 §5.5 Comparator
func (c *call) sortKeys(known ...string) ([]sortKey, error) {
	v := c.args.Get("sort")
	if v.IsNull() {
		return nil, nil
	}
	if v.Kind() != jmap.Array {
		return nil, invalid("sort is no array")
	}
	if v.Len() > maxSortKeys {
		return nil, &jmap.Error{Type: "unsupportedSort", Description: "There are too many keys to sort by."}
	}
	keys := make([]sortKey, 0, v.Len())
	for i := range v.Len() {
		k := v.At(i)
		name, ok := k.Get("property").Text()
		if !ok {
			return nil, invalid("a key to sort by has a property")
		}
		if !slices.Contains(known, name) {
			return nil, &jmap.Error{Type: "unsupportedSort", Description: "There is no sorting by that property."}
		}
		up, ok := k.Get("isAscending").Bool()
		if !ok && !k.Get("isAscending").IsNull() {
			return nil, invalid("isAscending is no boolean")
		}
		if err := collation(k); err != nil {
			return nil, err
		}
		keys = append(keys, sortKey{name, ok && !up, k})
	}
	return keys, nil
}

// compareBy returns a function that compares objects by the keys in turn. compare compares them by one property.
func compareBy[T any](keys []sortKey, compare func(property string, a, b T) int) func(a, b T) int {
	return func(a, b T) int {
		for _, k := range keys {
			n := compare(k.property, a, b)
			if k.down {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return 0
	}
}

// collation returns an error if a Comparator has an unsupported collation.
func collation(k *jmap.Value) error {
	v := k.Get("collation")
	if v.IsNull() {
		return nil
	}
	if s, ok := v.Text(); !ok || s != "i;unicode-casemap" {
		return &jmap.Error{Type: "unsupportedSort", Description: "The collation is i;unicode-casemap."}
	}
	return nil
}
