package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The bounds of a selector.
const (
	maxDepth   = 32
	maxNodes   = 1000
	maxPattern = 1000
	// maxSubject bounds the text on which a pattern is tried, in bytes.
	maxSubject = 64 << 10
)

// ErrDefinition means that a view's definition is not valid.
var ErrDefinition = errors.New("view: bad definition")

// Selector selects the documents of a view, in the Mango syntax of CouchDB: $eq $ne $gt $gte $lt $lte $in $nin $exists
// $regex $size $elemMatch, and $and $or $not $nor, over dotted paths (a dot within a name is written \.). A condition
// on a field that a document lacks is false, except for $exists. Values are ordered as in the view's keys.
type Selector struct{ match matcher }

// Match reports whether a document is selected. field returns the document's top-level fields.
func (s *Selector) Match(field func(name string) (any, bool)) bool {
	return s.match(func(path []string) (any, bool) { return resolve(field, path) })
}

// lookup returns a value by path.
type lookup func(path []string) (any, bool)

type matcher func(lookup) bool

// test is a condition on one value.
type test func(v any) bool

func resolve(field func(string) (any, bool), path []string) (any, bool) {
	if len(path) == 0 {
		return nil, false
	}
	v, ok := field(path[0])
	return descend(v, ok, path[1:])
}

func descend(v any, ok bool, path []string) (any, bool) {
	for _, p := range path {
		m, is := v.(map[string]any)
		if !ok || !is {
			return nil, false
		}
		v, ok = m[p]
	}
	return v, ok
}

// ParseSelector parses a selector.
func ParseSelector(data []byte) (*Selector, error) {
	v, err := decode(data)
	if err != nil {
		return nil, err
	}
	p := &parser{}
	m, err := p.selector(v, 0)
	if err != nil {
		return nil, err
	}
	return &Selector{m}, nil
}

// decode decodes JSON in the form of note values, with integers as int64.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%w: more than one JSON value", ErrDefinition)
	}
	return plain(v, 0)
}

func plain(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%w: deeper than %d", ErrDefinition, maxDepth)
	}
	var err error
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		f, err := v.Float64()
		if err != nil {
			return nil, fmt.Errorf("%w: number %s", ErrDefinition, v)
		}
		return f, nil
	case []any:
		for i := range v {
			if v[i], err = plain(v[i], depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = plain(v[k], depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

type parser struct{ nodes int }

func (p *parser) count(depth int) error {
	if p.nodes++; p.nodes > maxNodes {
		return fmt.Errorf("%w: a selector of more than %d conditions", ErrDefinition, maxNodes)
	}
	if depth > maxDepth {
		return fmt.Errorf("%w: a selector deeper than %d", ErrDefinition, maxDepth)
	}
	return nil
}

// selector parses an object of conditions, all of which must be true.
func (p *parser) selector(v any, depth int) (matcher, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%w: a selector is an object", ErrDefinition)
	}
	if err := p.count(depth); err != nil {
		return nil, err
	}
	var all []matcher
	for _, k := range slices.Sorted(maps.Keys(m)) {
		one, err := p.condition(k, m[k], depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return func(l lookup) bool {
		for _, f := range all {
			if !f(l) {
				return false
			}
		}
		return true
	}, nil
}

func (p *parser) condition(k string, v any, depth int) (matcher, error) {
	switch k {
	case "$and", "$or", "$nor":
		list, ok := v.([]any)
		if !ok {
			return nil, fmt.Errorf("%w: %s needs a list", ErrDefinition, k)
		}
		var subs []matcher
		for _, e := range list {
			s, err := p.selector(e, depth+1)
			if err != nil {
				return nil, err
			}
			subs = append(subs, s)
		}
		return combine(k, subs), nil
	case "$not":
		s, err := p.selector(v, depth+1)
		if err != nil {
			return nil, err
		}
		return func(l lookup) bool { return !s(l) }, nil
	}
	if strings.HasPrefix(k, "$") {
		return nil, fmt.Errorf("%w: operator %s needs a field", ErrDefinition, k)
	}
	return p.field(splitPath(k), v, depth)
}

func combine(op string, subs []matcher) matcher {
	return func(l lookup) bool {
		for _, s := range subs {
			if s(l) != (op == "$and") {
				return op == "$or"
			}
		}
		return op != "$or"
	}
}

// splitPath splits a dotted path. \. is a dot within a name.
func splitPath(s string) []string {
	var out []string
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '.' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case s[i] == '.':
			out = append(out, b.String())
			b.Reset()
		default:
			b.WriteByte(s[i])
		}
	}
	return append(out, b.String())
}

// field parses the condition on a field: a value to compare with, operators, or conditions on fields below.
func (p *parser) field(path []string, v any, depth int) (matcher, error) {
	if err := p.count(depth); err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return func(l lookup) bool {
			have, ok := l(path)
			return ok && equal(have, v)
		}, nil
	}
	var all []matcher
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var one matcher
		var err error
		switch {
		case k == "$exists":
			want, ok := m[k].(bool)
			if !ok {
				return nil, fmt.Errorf("%w: $exists needs true or false", ErrDefinition)
			}
			one = func(l lookup) bool {
				_, have := l(path)
				return have == want
			}
		case strings.HasPrefix(k, "$"):
			var t test
			if t, err = p.operator(k, m[k], depth+1); err == nil {
				one = func(l lookup) bool {
					have, ok := l(path)
					return ok && t(have)
				}
			}
		default:
			one, err = p.field(append(slices.Clone(path), splitPath(k)...), m[k], depth+1)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return combine("$and", all), nil
}

// operator parses a condition on the present value.
func (p *parser) operator(op string, arg any, depth int) (test, error) {
	if err := p.count(depth); err != nil {
		return nil, err
	}
	if holds, ok := comparisons[op]; ok {
		return func(v any) bool { return holds(compare(v, arg)) }, nil
	}
	switch op {
	case "$eq":
		return func(v any) bool { return equal(v, arg) }, nil
	case "$ne":
		return func(v any) bool { return !equal(v, arg) }, nil
	case "$in", "$nin":
		return among(op, arg)
	case "$size":
		return size(arg)
	case "$regex":
		return pattern(arg)
	case "$not":
		t, err := p.value(arg, depth+1)
		if err != nil {
			return nil, err
		}
		return func(v any) bool { return !t(v) }, nil
	case "$elemMatch":
		t, err := p.value(arg, depth+1)
		if err != nil {
			return nil, err
		}
		return func(v any) bool {
			list, _ := v.([]any)
			return slices.ContainsFunc(list, t)
		}, nil
	}
	return nil, fmt.Errorf("%w: unknown operator %s", ErrDefinition, op)
}

// comparisons holds the operators that depend on the order of two values alone.
var comparisons = map[string]func(order int) bool{
	"$gt":  func(order int) bool { return order > 0 },
	"$gte": func(order int) bool { return order >= 0 },
	"$lt":  func(order int) bool { return order < 0 },
	"$lte": func(order int) bool { return order <= 0 },
}

func size(arg any) (test, error) {
	n, ok := arg.(int64)
	if !ok || n < 0 {
		return nil, fmt.Errorf("%w: $size needs a number", ErrDefinition)
	}
	return func(v any) bool {
		list, ok := v.([]any)
		return ok && int64(len(list)) == n
	}, nil
}

func among(op string, arg any) (test, error) {
	list, ok := arg.([]any)
	if !ok {
		return nil, fmt.Errorf("%w: %s needs a list", ErrDefinition, op)
	}
	return func(v any) bool {
		return slices.ContainsFunc(list, func(e any) bool { return equal(v, e) }) == (op == "$in")
	}, nil
}

func pattern(arg any) (test, error) {
	s, ok := arg.(string)
	if !ok || len(s) > maxPattern {
		return nil, fmt.Errorf("%w: $regex needs a pattern of at most %d bytes", ErrDefinition, maxPattern)
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDefinition, err)
	}
	return func(v any) bool {
		t, ok := v.(string)
		return ok && re.MatchString(t[:min(len(t), maxSubject)])
	}, nil
}

// value parses a condition on a value itself: operators, or a selector over its fields.
func (p *parser) value(v any, depth int) (test, error) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return func(have any) bool { return equal(have, v) }, p.count(depth)
	}
	f, err := p.field(nil, m, depth)
	if err != nil {
		return nil, err
	}
	return func(have any) bool {
		return f(func(path []string) (any, bool) { return descend(have, true, path) })
	}, nil
}
