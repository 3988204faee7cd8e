package view

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// The order of types, as the first byte of a sort key. All types are above endMark, so that the end of a list sorts
// before any element.
const (
	endMark    = 0x01
	typeNull   = 0x02
	typeFalse  = 0x03
	typeTrue   = 0x04
	typeNumber = 0x05
	typeText   = 0x06
	typeList   = 0x08
	typeMap    = 0x09
)

// keyText bounds how much of a text, list or map is put into a sort key. A longer value sorts by its beginning and then
// by its digest, so that equal keys still mean equal values.
const keyText = 512

// collators holds collators with the root collation (UCA). Creating one is expensive, and one must not be used
// concurrently.
var collators = sync.Pool{New: func() any {
	return &collation{c: collate.New(language.Und)}
}}

type collation struct {
	c   *collate.Collator
	buf collate.Buffer
}

// appendKey appends the sort key of a value as encoding/json would decode it, with integers as int64. Keys are
// prefix-free: no key is the beginning of another. So keys can be concatenated, and inverting all bytes reverses the
// order.
func appendKey(dst []byte, v any) []byte {
	switch v := v.(type) {
	case bool:
		if v {
			return append(dst, typeTrue)
		}
		return append(dst, typeFalse)
	case int64:
		return appendNumber(dst, float64(v), intRest(v))
	case float64:
		return appendNumber(dst, v, 0)
	case string:
		return appendText(append(dst, typeText), v)
	case []any:
		var inner []byte
		for _, e := range v {
			inner = appendKey(inner, e)
		}
		return appendBounded(append(dst, typeList), append(inner, endMark))
	case map[string]any:
		var inner []byte
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner = appendText(append(inner, typeText), name)
			inner = appendKey(inner, v[name])
		}
		return appendBounded(append(dst, typeMap), append(inner, endMark))
	}
	return append(dst, typeNull)
}

// appendNumber appends a float so that the bytes compare as the numbers do, and then rest, by which an integer differs
// from the float.
func appendNumber(dst []byte, f float64, rest int) []byte {
	if f == 0 {
		f = 0 // no negative zero
	}
	bits := math.Float64bits(f)
	if math.IsNaN(f) {
		bits = ^uint64(0) // sorts below everything after the inversion
	}
	if bits>>63 != 0 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	dst = binary.BigEndian.AppendUint64(append(dst, typeNumber), bits)
	return binary.BigEndian.AppendUint16(dst, uint16(rest+1<<15))
}

// intRest returns the difference between an integer and its nearest float: within ±1,024.
func intRest(i int64) int {
	f := float64(i)
	if f >= 1<<63 {
		return int(i-math.MaxInt64) - 1
	}
	return int(i - int64(f))
}

func appendText(dst []byte, s string) []byte {
	tail := ""
	if len(s) > keyText {
		d := sha256.Sum256([]byte(s))
		tail = string(d[:16])
		s = s[:keyText]
	}
	c := collators.Get().(*collation)
	key := c.c.KeyFromString(&c.buf, s)
	dst = appendEscaped(dst, key)
	c.buf.Reset()
	collators.Put(c)
	return appendEscaped(dst, []byte(s+tail))
}

func appendBounded(dst, inner []byte) []byte {
	if len(inner) > keyText {
		d := sha256.Sum256(inner)
		inner = append(inner[:keyText:keyText], d[:16]...)
	}
	return appendEscaped(dst, inner)
}

// appendEscaped appends bytes with 0x00 as 00 FF, and 00 01 at the end, which sorts before any continuation.
func appendEscaped(dst, b []byte) []byte {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 {
			return append(append(dst, b...), 0, 1)
		}
		dst = append(append(dst, b[:i]...), 0, 0xFF)
		b = b[i+1:]
	}
}

func invert(b []byte) {
	for i := range b {
		b[i] = ^b[i]
	}
}

func rank(v any) int {
	switch v := v.(type) {
	case bool:
		if v {
			return typeTrue
		}
		return typeFalse
	case int64, float64:
		return typeNumber
	case string:
		return typeText
	case []any:
		return typeList
	case map[string]any:
		return typeMap
	}
	return typeNull
}

// compare orders two values as their sort keys would, without computing the keys.
func compare(a, b any) int {
	if r := cmp.Compare(rank(a), rank(b)); r != 0 {
		return r
	}
	switch a := a.(type) {
	case int64, float64:
		return compareNumbers(a, b)
	case string:
		b := b.(string)
		if a == b {
			return 0
		}
		c := collators.Get().(*collation)
		defer collators.Put(c)
		return cmp.Or(c.c.CompareString(a, b), strings.Compare(a, b))
	case []any:
		return slices.CompareFunc(a, b.([]any), compare)
	case map[string]any:
		return compareMaps(a, b.(map[string]any))
	}
	return 0
}

func compareNumbers(a, b any) int {
	i, aInt := a.(int64)
	j, bInt := b.(int64)
	if aInt && bInt {
		return cmp.Compare(i, j)
	}
	f, g, ri, rj := number(a), number(b), 0, 0
	if aInt {
		ri = intRest(i)
	}
	if bInt {
		rj = intRest(j)
	}
	return cmp.Or(cmp.Compare(f, g), cmp.Compare(ri, rj))
}

func number(v any) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	}
	return 0
}

func compareMaps(a, b map[string]any) int {
	an, bn := slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b))
	for i := 0; i < len(an) && i < len(bn); i++ {
		if r := cmp.Or(compare(an[i], bn[i]), compare(a[an[i]], b[bn[i]])); r != 0 {
			return r
		}
	}
	return cmp.Compare(len(an), len(bn))
}

// equal compares exactly: text byte by byte, numbers by value.
func equal(a, b any) bool {
	if s, ok := a.(string); ok {
		t, ok := b.(string)
		return ok && s == t
	}
	return compare(a, b) == 0
}
