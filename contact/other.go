package contact

import (
	"maps"
	"slices"
	"strings"

	"doublet/wire/ical"
)

// others adds the properties that the card does not express as they are.
//
// Implements: RFC 9555 §2.15.1 The JSContact property vCardProps
func (r *base) others() {
	var list []any
	for i := range r.c.Properties {
		p := &r.c.Properties[i]
		if r.used[i] {
			continue
		}
		list = append(list, other(p))
	}
	if list != nil {
		r.card["vCardProps"] = list
	}
}

// other returns a property as an element of vCardProps: its name, parameters, type and value.
func other(p *ical.Property) []any {
	in := Card{}
	in.put("group", p.Group)
	for _, x := range p.Params {
		if len(x.Values) == 1 {
			in[strings.ToLower(x.Name)] = x.Values[0]
			continue
		}
		values := make([]any, len(x.Values))
		for k := range values {
			values[k] = x.Values[k]
		}
		in[strings.ToLower(x.Name)] = values
	}
	return []any{strings.ToLower(p.Name), in, "unknown", p.Value}
}

// others writes vCardProps.
func (w *writing) others() {
	all, _ := w.want["vCardProps"].([]any)
	for _, v := range all {
		p, ok := readOther(v)
		if ok && !known(p.Name) {
			w.emit(p)
		}
	}
}

// readOther reads an element of vCardProps: a property of jCard (RFC 7095).
func readOther(v any) (p ical.Property, ok bool) {
	e, _ := v.([]any)
	if len(e) < 4 {
		return p, false
	}
	name, _ := e[0].(string)
	in, _ := e[1].(Card)
	kind, _ := e[2].(string)
	text, isText := e[3].(string)
	if !isName(name) || in == nil || !isText || len(e) > 4 {
		return p, false
	}
	p = ical.Property{Name: strings.ToUpper(name), Value: uri(text)}
	if kind == "text" {
		p.Value = escape(text)
	}
	for _, k := range slices.Sorted(maps.Keys(in)) {
		values, ok := textsOf(in[k])
		if !ok || !isName(k) {
			return p, false
		}
		if k == "group" {
			if p.Group = values[0]; !isName(p.Group) {
				return p, false
			}
			continue
		}
		p.Params = append(p.Params, ical.Param{Name: strings.ToUpper(k), Values: values})
	}
	return p, true
}

func textsOf(v any) (out []string, ok bool) {
	if s, ok := v.(string); ok {
		return []string{cleanParam(s)}, true
	}
	list, _ := v.([]any)
	for _, x := range list {
		s, ok := x.(string)
		if !ok {
			return nil, false
		}
		out = append(out, cleanParam(s))
	}
	return out, len(out) > 0
}

// isName reports whether s is a name of vCard.
func isName(s string) bool {
	return s != "" && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
