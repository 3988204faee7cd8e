package jmap

import (
	"strconv"
	"strings"
	"unsafe"
)

// maxReferred bounds the values that a result reference may select.
const maxReferred = 100_000

// Refer resolves a result reference in a response. path is a JSON Pointer in which * stands for all elements of an
// array (RFC 8620 section 3.7). printed is a JSON value that this package has printed. Refer scans it and parses only
// the selected values. It copies them, so the caller may go on using the buffer.
//
// Implements: RFC 8620 §3.7 References to previous method results
func Refer(printed []byte, path string) (Value, bool) {
	if path != "" && path[0] != '/' || len(path) > 1000 {
		return Value{}, false
	}
	text := unsafe.String(unsafe.SliceData(printed), len(printed))
	w := walker{left: maxReferred}
	v, ok := w.find(text, path)
	return v, ok && w.left >= 0
}

type walker struct{ left int }

func (w *walker) find(text, path string) (Value, bool) {
	if path == "" {
		v, err := Parse(strings.Clone(text), Bounds{Values: max(w.left, 1)})
		if err != nil {
			return Value{}, false
		}
		w.left -= 1 + len(v.items)
		return *v, true
	}
	token, rest := path[1:], ""
	if i := strings.IndexByte(token, '/'); i >= 0 {
		token, rest = token[:i], token[i:]
	}
	token = PointerToken(token)
	if strings.HasPrefix(text, "[") && token == "*" {
		return w.findAll(text, rest)
	}
	found, ok := "", false
	switch {
	case strings.HasPrefix(text, "{"):
		found, ok = memberOf(text, token)
	case strings.HasPrefix(text, "["):
		found, ok = elementOf(text, token)
	}
	if !ok {
		return Value{}, false
	}
	return w.find(found, rest)
}

// findAll applies the rest of a path to each element of an array, and joins the arrays among the results (RFC 8620
// section 3.7).
func (w *walker) findAll(text, rest string) (Value, bool) {
	out := Value{kind: Array}
	ok := true
	elements(text, func(value string) bool {
		var v Value
		if v, ok = w.find(value, rest); !ok || w.left < 0 {
			return false
		}
		if v.kind == Array {
			out.items = append(out.items, v.items...)
		} else {
			out.items = append(out.items, v)
		}
		return true
	})
	return out, ok
}

func memberOf(object, token string) (found string, ok bool) {
	members(object, func(name, value string) bool {
		if name == token {
			found, ok = value, true
		}
		return !ok
	})
	return found, ok
}

func elementOf(array, token string) (found string, ok bool) {
	n, err := strconv.ParseUint(token, 10, 31)
	if err != nil || len(token) > 1 && token[0] == '0' {
		return "", false
	}
	elements(array, func(value string) bool {
		if n == 0 {
			found, ok = value, true
		}
		n--
		return !ok
	})
	return found, ok
}

// members calls fn for the members of an object that this package has printed, which has no white space. Names are
// passed with their escapes, which the names of the protocol do not have.
func members(text string, fn func(name, value string) bool) {
	for i := 1; i < len(text) && text[i] == '"'; {
		end := skip(text, i)
		name := text[i+1 : end-1]
		if end >= len(text) || text[end] != ':' {
			return
		}
		next := skip(text, end+1)
		if !fn(name, text[end+1:next]) || next >= len(text) || text[next] != ',' {
			return
		}
		i = next + 1
	}
}

func elements(text string, fn func(value string) bool) {
	for i := 1; i < len(text) && text[i] != ']'; {
		next := skip(text, i)
		if next == i || !fn(text[i:next]) || next >= len(text) || text[next] != ',' {
			return
		}
		i = next + 1
	}
}

// skip returns the offset after the value at i.
func skip(s string, i int) int {
	depth := 0
	for i < len(s) {
		switch s[i] {
		case '"':
			if i = skipString(s, i); depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(s)
}

// skipString returns the offset after the string at i.
func skipString(s string, i int) int {
	for i++; i < len(s); {
		n := strings.IndexByte(s[i:], '"')
		if n < 0 {
			return len(s)
		}
		i += n + 1
		back := 0
		for k := i - 2; s[k] == '\\'; k-- {
			back++
		}
		if back%2 == 0 {
			return i
		}
	}
	return len(s)
}
