// Package contact converts contacts between vCard (RFC 2426, RFC 6350) and JSContact (RFC 9553), by the rules of RFC
// 9555. The stored form of a contact is its vCard: Apply changes only the properties that a client changed, and keeps
// all others as they are. Parts of a JSContact card for which vCard has no property are kept in JSPROP properties.
package contact

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// Card is a JSContact Card, or an object in one, as decoded JSON: strings, bools, float64, []any and Card.
//
// Implements: RFC 9553 §2 Card
type Card map[string]any

// Parse converts a JSON object. null members are left out.
func Parse(v *jmap.Value) Card {
	c, _ := decode(v).(Card)
	return c
}

func decode(v *jmap.Value) any {
	switch v.Kind() {
	case jmap.Object:
		c := Card{}
		for i := range v.Len() {
			if !v.At(i).IsNull() {
				c[v.Name(i)] = decode(v.At(i))
			}
		}
		return c
	case jmap.Array:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = decode(v.At(i))
		}
		return list
	case jmap.String:
		s, _ := v.Text()
		return s
	case jmap.Bool:
		on, _ := v.Bool()
		return on
	case jmap.Number:
		n, _ := strconv.ParseFloat(string(v.Append(nil)), 64) // JSON has no numbers that fail, but too large ones
		return n
	}
	return nil
}

// parseJSON parses a JSON text of any type.
func parseJSON(s string) (any, error) {
	v, err := jmap.Parse(s, jmap.Bounds{})
	if err != nil {
		return nil, err
	}
	if v.IsNull() {
		return nil, errors.New("contact: null")
	}
	return decode(v), nil
}

// Append appends the JSON of the card, with its members sorted.
func (c Card) Append(dst []byte) []byte { return appendJSON(dst, c) }

func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case Card:
		o := jmap.NewWriter(dst)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			o.Key(name)
			o.B = appendJSON(o.B, v[name])
		}
		return o.End()
	case []any:
		dst = append(dst, '[')
		for i, x := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, x)
		}
		return append(dst, ']')
	case string:
		return jmap.AppendString(dst, v)
	case bool:
		return jmap.AppendBool(dst, v)
	case float64:
		b, err := json.Marshal(v)
		if err != nil {
			return append(dst, '0') // an infinite number, from digits beyond the range
		}
		return append(dst, b...)
	}
	return append(dst, "null"...)
}

// equal reports whether two values have the same JSON.
func equal(a, b any) bool { return bytes.Equal(appendJSON(nil, a), appendJSON(nil, b)) }

// text returns a member that is a string, "" for any other.
func (c Card) text(name string) string {
	s, _ := c[name].(string)
	return s
}

// object returns a member that is an object, nil for any other.
func (c Card) object(name string) Card {
	o, _ := c[name].(Card)
	return o
}

// put sets a member, unless the text is empty.
func (c Card) put(name, text string) {
	if text != "" {
		c[name] = text
	}
}

// set is a JSON set of strings; nil if there are none.
func set(names []string) Card {
	if len(names) == 0 {
		return nil
	}
	c := Card{}
	for _, n := range names {
		c[n] = true
	}
	return c
}

// members returns the sorted strings of a JSON set.
func (c Card) members(name string) (list []string) {
	for k, on := range c.object(name) {
		if on == true {
			list = append(list, k)
		}
	}
	slices.Sort(list)
	return list
}

// Limits bound a vCard.
var Limits = ical.Limits{Size: 10 << 20, Lines: 20_000, Depth: 2}

// New returns an empty vCard of version 4.0 with a UID.
func New(uid string) *ical.Component {
	return &ical.Component{Name: "VCARD", Properties: []ical.Property{{Name: "VERSION", Value: "4.0"},
		{Name: "UID", Value: escape(uid)}}}
}

// old reports whether a vCard has version 3.0, in which some values have another form.
func old(c *ical.Component) bool { return strings.TrimSpace(c.Text("VERSION")) == "3.0" }

var escapes = strings.NewReplacer(`\`, `\\`, "\r\n", `\n`, "\n", `\n`, "\r", `\n`, ",", `\,`, ";", `\;`)

// escape returns a TEXT value.
//
// Implements: RFC 6350 §3.4 Property Value Escaping
func escape(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' || r == 0x7f {
			return -1
		}
		return r
	}, escapes.Replace(s))
}

// unescape returns the text of a TEXT value.
func unescape(s string) string { return (&ical.Property{Value: s}).Text() }

// split splits a value at a separator that is not escaped. The parts keep their escapes.
func split(s string, sep byte) (parts []string) {
	from := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[min(from, len(s)):])
}

// params returns all values of a parameter. Some programs quote several values of TYPE as one.
func params(p *ical.Property, name string) (list []string) {
	for _, x := range p.Params {
		if x.Name != name {
			continue
		}
		for _, v := range x.Values {
			if name == "TYPE" {
				list = append(list, strings.Split(v, ",")...)
			} else {
				list = append(list, v)
			}
		}
	}
	return list
}

// setParam sets a parameter to one value, or removes it with "".
func setParam(p *ical.Property, name, value string) {
	p.Params = slices.DeleteFunc(slices.Clone(p.Params), func(x ical.Param) bool { return x.Name == name })
	if value != "" {
		p.Params = append(p.Params, ical.Param{Name: name, Values: []string{cleanParam(value)}})
	}
}

// cleanParam replaces the control characters that a parameter cannot have.
func cleanParam(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\n' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// types maps values of the parameter TYPE, in small letters, to members of a JSON set.
type types map[string]string

var contexts = types{"home": "private", "work": "work"}
var addressContexts = types{"home": "private", "work": "work", "billing": "billing", "delivery": "delivery"}
var features = types{"cell": "mobile", "voice": "voice", "text": "text", "video": "video", "fax": "fax",
	"pager": "pager", "textphone": "textphone", "main-number": "main-number"}

// read returns the members of the set that a property has.
func (t types) read(p *ical.Property) Card {
	var list []string
	for _, v := range params(p, "TYPE") {
		if name := t[strings.ToLower(v)]; name != "" {
			list = append(list, name)
		}
	}
	return set(list)
}

// write sets the values of TYPE for a set, and keeps those of other sets.
func (t types) write(p *ical.Property, names []string) {
	var keep []string
	for _, v := range params(p, "TYPE") {
		name := t[strings.ToLower(v)]
		if name == "" || slices.Contains(names, name) {
			keep = append(keep, v)
		}
		names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
	}
	for _, v := range slices.Sorted(maps.Keys(t)) {
		if slices.Contains(names, t[v]) {
			keep = append(keep, v)
		}
	}
	setParam(p, "TYPE", "")
	if len(keep) > 0 {
		p.Params = append(p.Params, ical.Param{Name: "TYPE", Values: keep})
	}
}
