package jmapd

import (
	"slices"

	"doublet/wire/jmap"
)

// Bounds of a filter.
const (
	maxFilterDepth      = 20
	maxFilterConditions = 500
	maxFilterWords      = 50 // of one text condition
)

// filterReader parses a filter into values of type F.
type filterReader[F any] struct {
	left      int                                         // conditions that the filter may still have
	condition func(name string, v *jmap.Value) (F, error) // reads one property of a FilterCondition
	join      func(op string, of []F) F                   // combines filters by AND, OR or NOT
}

// readFilter reads a filter. Without one (null) it returns the zero F.
//
// Implements: RFC 8620 §5.5 filter
func readFilter[F any](v *jmap.Value, condition func(name string, v *jmap.Value) (F, error),
	join func(op string, of []F) F) (f F, err error) {
	if v.IsNull() {
		return f, nil
	}
	r := filterReader[F]{maxFilterConditions, condition, join}
	return r.read(v, 0)
}

func (r *filterReader[F]) read(v *jmap.Value, depth int) (f F, err error) {
	if r.left--; r.left < 0 || depth > maxFilterDepth {
		return f, errFilter
	}
	if v.Kind() != jmap.Object {
		return f, invalid("a filter is an object")
	}
	op := v.Get("operator")
	if op == nil {
		return r.properties(v)
	}
	name, _ := op.Text()
	of := v.Get("conditions")
	if !slices.Contains([]string{"AND", "OR", "NOT"}, name) || of.Kind() != jmap.Array || v.Len() != 2 {
		return f, invalid("a FilterOperator has an operator, AND, OR or NOT, and conditions")
	}
	if of.Len() > r.left {
		return f, errFilter
	}
	list := make([]F, of.Len())
	for i := range list {
		if list[i], err = r.read(of.At(i), depth+1); err != nil {
			return f, err
		}
	}
	return r.join(name, list), nil
}

// properties reads a FilterCondition. All of its properties must match.
func (r *filterReader[F]) properties(v *jmap.Value) (f F, err error) {
	if r.left -= v.Len(); r.left < 0 {
		return f, errFilter
	}
	list := make([]F, v.Len())
	for i := range list {
		if list[i], err = r.condition(v.Name(i), v.At(i)); err != nil {
			return f, err
		}
	}
	if len(list) == 1 {
		return list[0], nil
	}
	return r.join("AND", list), nil
}

var errFilter = unsupportedFilter("The filter has more conditions, or nests them deeper, than this server takes.")

func unsupportedFilter(why string) error {
	return &jmap.Error{Type: "unsupportedFilter", Description: why}
}

// noCondition returns the error for a condition that a type does not have.
func noCondition(name string) error {
	return unsupportedFilter("There is no condition " + name[:min(len(name), 100)] + " here.")
}

// matcher reports whether an object matches a filter.
type matcher[T any] func(T) bool

// match reads the argument filter of a type whose objects are compared one by one. Without it all objects match.
func match[T any](c *call, condition func(name string, v *jmap.Value) (matcher[T], error)) (matcher[T], error) {
	m, err := readFilter(c.args.Get("filter"), condition, joinMatchers[T])
	if m == nil {
		m = func(T) bool { return true }
	}
	return m, err
}

func joinMatchers[T any](op string, of []matcher[T]) matcher[T] {
	return func(x T) bool {
		for _, m := range of {
			if ok := m(x); ok != (op == "AND") {
				return ok && op == "OR"
			}
		}
		return op != "OR"
	}
}

func texts(v *jmap.Value) ([]string, bool) {
	if v.Kind() != jmap.Array {
		return nil, false
	}
	out := make([]string, 0, v.Len())
	for i := range v.Len() {
		s, ok := v.At(i).Text()
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}
