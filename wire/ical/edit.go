package ical

import (
	"slices"
	"strings"
)

var escapeText = strings.NewReplacer(`\`, `\\`, "\r\n", `\n`, "\n", `\n`, ",", `\,`, ";", `\;`)

// EscapeText returns a value of type TEXT for a text.
//
// Implements: RFC 5545 §3.3.11 TEXT, the escapes
func EscapeText(s string) string { return escapeText.Replace(s) }

// SetParam sets a parameter to values, in its place if the property has it. Without values it removes the parameter.
func (p *Property) SetParam(name string, values ...string) {
	at := slices.IndexFunc(p.Params, func(x Param) bool { return x.Name == name })
	switch {
	case at < 0 && len(values) > 0:
		p.Params = append(p.Params, Param{name, values})
	case at >= 0 && len(values) > 0:
		p.Params[at].Values = values
	case at >= 0:
		p.Params = slices.DeleteFunc(p.Params, func(x Param) bool { return x.Name == name })
	}
}

// Drop removes all properties of a name.
func (c *Component) Drop(name string) {
	c.Properties = slices.DeleteFunc(c.Properties, func(p Property) bool { return p.Name == name })
}

// Set puts a property in the place of the first one of its name, and removes the others of that name.
func (c *Component) Set(p Property) {
	at := slices.IndexFunc(c.Properties, func(x Property) bool { return x.Name == p.Name })
	if at < 0 {
		c.Properties = append(c.Properties, p)
		return
	}
	c.Properties[at] = p
	rest := slices.DeleteFunc(c.Properties[at+1:], func(x Property) bool { return x.Name == p.Name })
	c.Properties = c.Properties[:at+1+len(rest)]
}

// SetText sets the text of the first property of a name, which keeps its parameters, and removes the others. "" removes
// all.
func (c *Component) SetText(name, text string) {
	if text == "" {
		c.Drop(name)
		return
	}
	p := Property{Name: name}
	if have := c.Get(name); have != nil {
		p = *have
	}
	p.Value = EscapeText(text)
	c.Set(p)
}

// Clone returns a deep copy.
func (c *Component) Clone() *Component {
	out := &Component{Name: c.Name, Properties: slices.Clone(c.Properties)}
	for i := range out.Properties {
		p := &out.Properties[i]
		p.Params = slices.Clone(p.Params)
		for k := range p.Params {
			p.Params[k].Values = slices.Clone(p.Params[k].Values)
		}
	}
	for _, child := range c.Children {
		out.Children = append(out.Children, child.Clone())
	}
	return out
}
