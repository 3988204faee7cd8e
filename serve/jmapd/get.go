package jmapd

import (
	"fmt"
	"slices"

	"doublet/wire/jmap"
)

// get is a /get in progress: its arguments and its response so far.
type get struct {
	c          *call
	ids        []string // each once
	all        bool     // ids was null
	properties []string
	some       bool // properties was not null

	count    int // objects in the response
	notFound []string
}

// getArguments reads the arguments of a /get method. known lists the properties of the type, or is nil if the caller
// checks them. more lists further arguments.
//
// Implements: RFC 8620 §5.1 /get
func (c *call) getArguments(personal bool, known []string, more ...string) (g get, err error) {
	if err := c.arguments(personal, append(more, "ids", "properties")...); err != nil {
		return g, err
	}
	return c.getObjects(known)
}

// getObjects reads the arguments ids and properties.
func (c *call) getObjects(known []string) (g get, err error) {
	ids, some, err := c.list("ids")
	if err == nil {
		err = c.atMost(len(ids), "ids", "maxObjectsInGet")
	}
	if err != nil {
		return g, err
	}
	g = get{c: c, ids: c.once(ids), all: !some}
	if g.properties, g.some, err = c.list("properties"); err == nil && known != nil {
		err = g.only(known...)
	}
	return g, err
}

// atMost returns an error if a call names more than a limit of the session object allows.
func (c *call) atMost(n int, what, limit string) error {
	most := c.s.opt.Limits.ObjectsInGet
	if limit == "maxObjectsInSet" {
		most = c.s.opt.Limits.ObjectsInSet
	}
	if n > most {
		return tooLarge(fmt.Sprintf("There are more %s than %s.", what, limit))
	}
	return nil
}

// tooLarge returns the error requestTooLarge.
func tooLarge(why string) error { return &jmap.Error{Type: "requestTooLarge", Description: why} }

// once removes repeated ids in place and replaces creation ids by the ids of the objects created.
func (c *call) once(ids []string) []string {
	out := ids[:0]
	var seen map[string]bool
	if len(ids) > 16 {
		seen = make(map[string]bool, len(ids))
	}
	for _, id := range ids {
		if real, ok := c.real(id); ok {
			id = real
		}
		if seen == nil && !slices.Contains(out, id) || seen != nil && !seen[id] {
			out = append(out, id)
		}
		if seen != nil {
			seen[id] = true
		}
	}
	return out
}

// wants reports whether a property is requested. id always is.
func (g *get) wants(property string) bool {
	return !g.some || property == "id" || slices.Contains(g.properties, property)
}

// only returns an error for a property that the type does not have.
func (g *get) only(known ...string) error {
	for _, p := range g.properties {
		if !slices.Contains(known, p) {
			return invalid("%.100q is no property", p)
		}
	}
	return nil
}

// begin appends the response up to the opening bracket of its list. Types without a state pass "".
func (g *get) begin(state string) {
	c := g.c
	c.out = append(c.out, '{')
	if c.account != nil {
		c.out = append(append(append(c.out, `"accountId":"`...), c.account.ID...), `",`...)
	}
	if state != "" {
		c.out = append(jmap.AppendString(append(c.out, `"state":`...), state), ',')
	}
	c.out = append(c.out, `"list":[`...)
}

// next appends the comma before an object, except before the first.
func (g *get) next() {
	if g.count++; g.count > 1 {
		g.c.out = append(g.c.out, ',')
	}
}

// miss records that there is no object with this id.
func (g *get) miss(id string) { g.notFound = append(g.notFound, id) }

// end appends the rest of the response, from the closing bracket of the list.
func (g *get) end() {
	g.c.out = append(g.c.out, `],"notFound":`...)
	g.c.out = append(jmap.AppendStrings(g.c.out, g.notFound), '}')
}

// answerGet appends the response to a /get of a type whose objects have all been read. find returns the object with an
// id, or nil. put appends an object.
func answerGet[T any](g *get, state string, all []T, find func(id string) *T, put func(dst []byte, x *T) []byte) {
	g.begin(state)
	if g.all {
		for i := range all {
			g.next()
			g.c.out = put(g.c.out, &all[i])
		}
	}
	for _, id := range g.ids {
		if x := find(id); x != nil {
			g.next()
			g.c.out = put(g.c.out, x)
		} else {
			g.miss(id)
		}
	}
	g.end()
}

// onlyID returns the function find of answerGet for a type with at most one object, which has a fixed id.
func onlyID[T any](only string, all []T) func(id string) *T {
	return func(id string) *T {
		if id == only && len(all) > 0 {
			return &all[0]
		}
		return nil
	}
}
