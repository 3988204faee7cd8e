package jmap

import (
	"fmt"
	"slices"
	"strings"
)

// Pointer is one member of a PatchObject: a path into an object, and the value to set there.
type Pointer struct {
	Tokens []string
	Value  *Value
}

// maxPointer bounds a path in octets. A keyword has at most 255, and escapes double each.
const maxPointer = 1000

// Pointers reads the members of a PatchObject. No path may be a prefix of another. Errors are of type invalidPatch.
//
// Implements: RFC 8620 §5.3 PatchObject
func Pointers(v *Value) ([]Pointer, error) {
	list := make([]Pointer, v.Len())
	for i := range v.Len() {
		tokens, ok := ParsePointer(v.Name(i))
		if !ok {
			return nil, badPatch("%.100q is longer than %d octets, or no JSON Pointer", v.Name(i), maxPointer)
		}
		list[i] = Pointer{tokens, v.At(i)}
	}
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b Pointer) int { return slices.Compare(a.Tokens, b.Tokens) })
	for i := 1; i < len(sorted); i++ {
		a, b := sorted[i-1].Tokens, sorted[i].Tokens
		if len(a) <= len(b) && slices.Equal(a, b[:len(a)]) {
			return nil, badPatch("one path leads to a part of another: %.100q", strings.Join(b, "/"))
		}
	}
	return list, nil
}

// ParsePointer returns the tokens of the path of a PatchObject, a JSON Pointer without the slash at its start.
func ParsePointer(path string) (tokens []string, ok bool) {
	if len(path) > maxPointer {
		return nil, false
	}
	tokens = strings.Split(path, "/")
	for i, t := range tokens {
		if !validToken(t) {
			return nil, false
		}
		tokens[i] = PointerToken(t)
	}
	return tokens, true
}

// AppendPointer appends a token to a path of a PatchObject.
func AppendPointer(path, token string) string {
	token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	if path == "" {
		return token
	}
	return path + "/" + token
}

// validToken reports whether each ~ in a token of a JSON Pointer starts an escape (RFC 6901 section 3).
func validToken(s string) bool {
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return false
		}
	}
	return true
}

// PointerToken decodes a token of a JSON Pointer (RFC 6901 section 4).
func PointerToken(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
}

// Put returns a copy of an object with values set at paths; depth is the number of tokens that lead to the object.
// All tokens of a path but the last must exist, and none may lead into an array. null removes a member. The object is
// copied once, however many paths there are. Errors are of type invalidPatch.
func Put(in *Value, list []Pointer, depth int) (out Value, err error) {
	if in.Kind() != Object {
		return out, badPatch("there is no object to change at %.100q", strings.Join(list[0].Tokens, "/"))
	}
	var order []string
	below := map[string][]Pointer{}
	for _, p := range list {
		name := p.Tokens[depth]
		if _, seen := below[name]; !seen {
			order = append(order, name)
		}
		below[name] = append(below[name], p)
	}
	var names []string
	var values []Value
	for i := range in.Len() {
		if name := in.Name(i); below[name] == nil {
			names, values = append(names, name), append(values, *in.At(i))
		}
	}
	for _, name := range order {
		p := below[name][0]
		value := *p.Value
		switch {
		case len(p.Tokens) > depth+1:
			child := in.Get(name)
			if child == nil {
				return out, badPatch("there is nothing to change at %.100q", strings.Join(p.Tokens, "/"))
			}
			if value, err = Put(child, below[name], depth+1); err != nil {
				return out, err
			}
		case value.IsNull():
			continue
		}
		names, values = append(names, name), append(values, value)
	}
	return *MakeObject(names, values), nil
}

// badPatch returns the SetError invalidPatch.
func badPatch(format string, args ...any) *Error {
	return &Error{Type: "invalidPatch", Description: fmt.Sprintf(format, args...)}
}
