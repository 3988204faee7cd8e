package note

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// Value is a typed, JSON-compatible value in its stored form: a byte for the kind, and a payload. The zero Value means
// that there is none.
type Value []byte

// The kinds of value.
const (
	kindNull   = 'z'
	kindFalse  = 'f'
	kindTrue   = 't'
	kindInt    = 'i' // zig-zag varint
	kindFloat  = 'd' // 8 bytes
	kindText   = 's'
	kindBinary = 'b' // shown in JSON as base64 text
	kindList   = 'l' // count, values each with length
	kindMap    = 'm' // count, names and values each with length, sorted by name
)

// Text returns a string value.
func Text(s string) Value { return append(Value{kindText}, s...) }

// Binary returns a value of raw bytes.
func Binary(b []byte) Value { return append(Value{kindBinary}, b...) }

// Int returns an integer value.
func Int(i int64) Value { return binary.AppendVarint(Value{kindInt}, i) }

// Bool returns a boolean value.
func Bool(b bool) Value {
	if b {
		return Value{kindTrue}
	}
	return Value{kindFalse}
}

// TextList returns a list of strings.
func TextList(list ...string) Value {
	v := binary.AppendUvarint(Value{kindList}, uint64(len(list)))
	for _, s := range list {
		v = binary.AppendUvarint(v, uint64(len(s)+1))
		v = append(append(v, kindText), s...)
	}
	return v
}

// AsText returns the string, "" for values of other kinds.
func (v Value) AsText() string {
	if len(v) > 0 && v[0] == kindText {
		return string(v[1:])
	}
	return ""
}

// AsBinary returns the raw bytes, nil for values of other kinds.
func (v Value) AsBinary() []byte {
	if len(v) > 0 && v[0] == kindBinary {
		return v[1:]
	}
	return nil
}

// AsInt returns the integer, 0 for values of other kinds.
func (v Value) AsInt() int64 {
	if len(v) == 0 {
		return 0
	}
	switch v[0] {
	case kindInt:
		i, n := binary.Varint(v[1:])
		if n > 0 {
			return i
		}
	case kindFloat:
		if len(v) == 9 {
			return int64(math.Float64frombits(binary.BigEndian.Uint64(v[1:])))
		}
	}
	return 0
}

// AsBool reports whether the value is true.
func (v Value) AsBool() bool { return len(v) > 0 && v[0] == kindTrue }

// AsTextList returns the strings of a list; a single string counts as a list of one.
func (v Value) AsTextList() []string {
	if len(v) == 0 {
		return nil
	}
	if v[0] == kindText {
		return []string{v.AsText()}
	}
	if v[0] != kindList {
		return nil
	}
	n, b, err := readCount(v[1:], 1)
	if err != nil {
		return nil
	}
	out := make([]string, 0, n)
	for range n {
		var p []byte
		if p, b, err = readBytes(b); err != nil {
			return out
		}
		if len(p) > 0 && p[0] == kindText {
			out = append(out, string(p[1:]))
		}
	}
	return out
}

const maxValueDepth = 64

// FromJSON converts a JSON value. The depth is limited to 64.
func FromJSON(data []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var x any
	if err := d.Decode(&x); err != nil {
		return nil, fmt.Errorf("note: value: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("note: value: more than one JSON value")
	}
	return appendAny(nil, x, 0)
}

func appendAny(dst Value, x any, depth int) (Value, error) {
	if depth > maxValueDepth {
		return nil, fmt.Errorf("note: value: deeper than %d", maxValueDepth)
	}
	var err error
	switch x := x.(type) {
	case nil:
		return append(dst, kindNull), nil
	case bool:
		return append(dst, Bool(x)...), nil
	case string:
		return append(append(dst, kindText), x...), nil
	case json.Number:
		return appendNumber(dst, x)
	case []any:
		dst = binary.AppendUvarint(append(dst, kindList), uint64(len(x)))
		for _, e := range x {
			if dst, err = appendElement(dst, e, depth+1); err != nil {
				return nil, err
			}
		}
		return dst, nil
	case map[string]any:
		dst = binary.AppendUvarint(append(dst, kindMap), uint64(len(x)))
		for _, k := range slices.Sorted(maps.Keys(x)) {
			if dst, err = appendElement(appendString(dst, k), x[k], depth+1); err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
	return nil, fmt.Errorf("note: value: cannot hold %T", x)
}

func appendNumber(dst Value, x json.Number) (Value, error) {
	if i, err := x.Int64(); err == nil {
		return append(dst, Int(i)...), nil
	}
	f, err := x.Float64()
	if err != nil {
		return nil, fmt.Errorf("note: value: %w", err)
	}
	if f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
		// 2.0 is printed as 2. It must become the same value, and give the same revision, when it is read again.
		return append(dst, Int(int64(f))...), nil
	}
	return binary.BigEndian.AppendUint64(append(dst, kindFloat), math.Float64bits(f)), nil
}

// appendElement appends an element of a list or map after its length.
func appendElement(dst Value, x any, depth int) (Value, error) {
	v, err := appendAny(nil, x, depth)
	if err != nil {
		return nil, err
	}
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...), nil
}

// Any returns the value as encoding/json would decode it, except that integers are int64. Binary becomes base64 text.
func (v Value) Any() any {
	x, err := v.any(0)
	if err != nil {
		return nil
	}
	return x
}

// MarshalJSON encodes the value as JSON.
func (v Value) MarshalJSON() ([]byte, error) {
	x, err := v.any(0)
	if err != nil {
		return nil, err
	}
	return json.Marshal(x)
}

func (v Value) any(depth int) (any, error) {
	if len(v) == 0 || depth > maxValueDepth {
		return nil, ErrCorrupt
	}
	switch v[0] {
	case kindNull:
		return nil, nil
	case kindFalse, kindTrue:
		return v[0] == kindTrue, nil
	case kindText:
		return string(v[1:]), nil
	case kindBinary:
		return base64.StdEncoding.EncodeToString(v[1:]), nil
	case kindInt:
		return v.AsInt(), nil
	case kindFloat:
		if len(v) != 9 {
			return nil, ErrCorrupt
		}
		return math.Float64frombits(binary.BigEndian.Uint64(v[1:])), nil
	case kindList, kindMap:
		return v.anyCompound(depth)
	}
	return nil, ErrCorrupt
}

func (v Value) anyCompound(depth int) (any, error) {
	n, b, err := readCount(v[1:], 1)
	if err != nil {
		return nil, err
	}
	// Do not allocate by a damaged count: nested ones would multiply.
	list, dict := make([]any, 0, min(n, 16)), map[string]any{}
	for range n {
		var name string
		if v[0] == kindMap {
			if name, b, err = readString(b); err != nil {
				return nil, err
			}
		}
		var p []byte
		if p, b, err = readBytes(b); err != nil {
			return nil, err
		}
		x, err := Value(p).any(depth + 1)
		if err != nil {
			return nil, err
		}
		if v[0] == kindMap {
			dict[name] = x
		} else {
			list = append(list, x)
		}
	}
	if v[0] == kindMap {
		return dict, nil
	}
	return list, nil
}

// Item is a named value.
type Item struct {
	Name  string
	Value Value
}

// Items is a set of items, sorted by name.
type Items []Item

// MakeItems returns items sorted by name. Of several items with the same name the last one is kept.
func MakeItems(list ...Item) Items {
	slices.SortStableFunc(list, func(a, b Item) int { return strings.Compare(a.Name, b.Name) })
	out := list[:0]
	for i, it := range list {
		if i+1 < len(list) && list[i+1].Name == it.Name {
			continue
		}
		out = append(out, it)
	}
	return out
}

// Get returns an item's value, or nil if there is none.
func (s Items) Get(name string) Value {
	i, ok := slices.BinarySearchFunc(s, name, func(it Item, n string) int { return strings.Compare(it.Name, n) })
	if !ok {
		return nil
	}
	return s[i].Value
}

// Entries returns the entries of a list in the order of their keys: the items whose names begin with prefix, which ends
// with a dot, without the prefix. Such lists merge entry by entry (MergeLeaves).
func (s Items) Entries(prefix string) iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		i, _ := slices.BinarySearchFunc(s, prefix, func(it Item, n string) int { return strings.Compare(it.Name, n) })
		for ; i < len(s) && strings.HasPrefix(s[i].Name, prefix); i++ {
			if !yield(s[i].Name[len(prefix):], s[i].Value) {
				return
			}
		}
	}
}

// WithEntries returns the items with the entries of a list replaced. Those that stay as they are keep their values, so
// that only the changed ones count as changed.
func (s Items) WithEntries(prefix string, entries map[string]Value) Items {
	out := slices.DeleteFunc(slices.Clone(s), func(it Item) bool { return strings.HasPrefix(it.Name, prefix) })
	for key, v := range entries {
		out = append(out, Item{prefix + key, v})
	}
	return MakeItems(out...)
}

// Split returns the items with the elements of a text list as entries: "KEY TEXT" becomes the item prefix+KEY with the
// text TEXT. The list is removed. Early builds kept lists in one item.
func (s Items) Split(list, prefix string) Items {
	lines := s.Get(list).AsTextList()
	if lines == nil {
		return s
	}
	s = s.With(list, nil)
	for _, line := range lines {
		key, text, _ := strings.Cut(line, " ")
		s = s.With(prefix+key, Text(text))
	}
	return s
}

// With returns the items with one set, or removed if v is nil.
func (s Items) With(name string, v Value) Items {
	i, ok := slices.BinarySearchFunc(s, name, func(it Item, n string) int { return strings.Compare(it.Name, n) })
	out := slices.Clone(s)
	switch {
	case ok && v == nil:
		return slices.Delete(out, i, i+1)
	case ok:
		out[i].Value = v
	case v != nil:
		out = slices.Insert(out, i, Item{name, v})
	}
	return out
}

// Diff returns the names of the items in which two sets differ, sorted.
func (s Items) Diff(t Items) []string {
	var out []string
	for len(s) > 0 || len(t) > 0 {
		switch {
		case len(t) == 0 || len(s) > 0 && s[0].Name < t[0].Name:
			out, s = append(out, s[0].Name), s[1:]
		case len(s) == 0 || t[0].Name < s[0].Name:
			out, t = append(out, t[0].Name), t[1:]
		default:
			if !bytes.Equal(s[0].Value, t[0].Value) {
				out = append(out, s[0].Name)
			}
			s, t = s[1:], t[1:]
		}
	}
	return out
}
