package jmapd

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// letterPrincipal is the first letter of the ids of Principals.
const letterPrincipal = 'p'

var principalProperties = []string{"id", "type", "name", "description", "email", "timeZone", "capabilities", "accounts"}

// principalGet answers Principal/get for people and groups of the directory that have an address. It shows only their
// type, name and address. Listing all of them is not supported.
//
// Implements: RFC 9670 §2.1 Principal/get
func principalGet(c *call) error {
	g, err := c.getArguments(own, principalProperties)
	if err != nil {
		return err
	}
	if g.all {
		return tooLarge("Principals are got by their ids.")
	}
	ids := make([]note.UNID, 0, len(g.ids))
	for _, id := range g.ids {
		if u, ok := parseID(letterPrincipal, id); ok {
			ids = append(ids, u)
		}
	}
	dir := c.s.backend.Directory()
	list, version, err := dir.Names.Entries(c.ctx, ids)
	if err != nil {
		return err
	}
	list = append(list, dir.Names.Known(ids)...)
	g.begin(strconv.FormatUint(version, 16))
	found := make(map[string]bool, len(list))
	for i := range list {
		g.next()
		c.out = appendPrincipal(c.out, &list[i], &g)
		found[principalID(list[i].ID)] = true
	}
	for _, id := range g.ids {
		if !found[id] {
			g.miss(id)
		}
	}
	g.end()
	return nil
}

func principalID(u note.UNID) string { return string(letterPrincipal) + u.String() }

func principalType(k directory.TargetKind) string {
	if k == directory.TargetGroup {
		return "group"
	}
	return "individual"
}

// appendPrincipal appends a Principal. accounts is always null, because the accounts of others are not disclosed.
//
// Implements: RFC 9670 §2 Principals
func appendPrincipal(dst []byte, e *directory.Entry, g *get) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", principalID(e.ID))
	for _, p := range [...]struct{ name, text string }{{"type", principalType(e.Kind)}, {"name", e.Name},
		{"email", e.Address}} {
		if g.wants(p.name) {
			o.Text(p.name, p.text)
		}
	}
	for _, p := range [...]struct{ name, json string }{{"description", "null"}, {"timeZone", "null"},
		{"capabilities", "{}"}, {"accounts", "null"}} {
		if g.wants(p.name) {
			o.Raw(p.name, p.json)
		}
	}
	return o.End()
}

// principalQuery answers Principal/query with the conditions text, name, email and type. One of the first three is
// required. It returns at most directory.MaxFound results, the best match first.
//
// Implements: RFC 9670 §2.4 Principal/query
func principalQuery(c *call) error {
	w, err := c.queryArguments(own)
	if err != nil {
		return err
	}
	if _, err := c.sortKeys(); err != nil { // sorting is not supported: the order is that of the match
		return err
	}
	search, some, err := principalFilter(c.args.Get("filter"))
	if err != nil {
		return err
	}
	var list []directory.Entry
	if some {
		dir := c.s.backend.Directory()
		if list, err = dir.Names.Find(c.ctx, search); err == nil {
			list, err = dir.Names.FindMore(c.ctx, search, list)
		}
		if err != nil {
			return err
		}
	}
	state := fnv.New64a()
	var found queryResults
	for i := range list {
		found.ids = append(found.ids, principalID(list[i].ID))
		_, _ = state.Write(list[i].ID[:])
	}
	found.state = strconv.FormatUint(state.Sum64(), 16)
	return c.answerQuery(&w, &found, false, directory.MaxFound)
}

// principalFilter reads a FilterCondition. some is false if it cannot match anything.
func principalFilter(v *jmap.Value) (s directory.Search, some bool, err error) {
	if v.IsNull() {
		return s, false,
			unsupportedFilter("Principals are found by text, name or email; all of them are not to be had.")
	}
	if v.Kind() != jmap.Object {
		return s, false, invalid("a filter is an object")
	}
	some = true
	for i := range v.Len() {
		text, ok := v.At(i).Text()
		switch name := v.Name(i); name {
		case "text":
			s.Text = text
		case "name":
			s.Name = text
		case "email":
			s.Email = text
		case "type":
			switch text {
			case "individual":
				s.Kind = directory.TargetPerson
			case "group":
				s.Kind = directory.TargetGroup
			default:
				some = false
			}
		default:
			return s, false,
				unsupportedFilter(fmt.Sprintf("Principals are found by text, name, email and type, together; %.100q "+
					"is none of them.", name))
		}
		if !ok {
			return s, false, invalid("%.100q of the filter is no string", v.Name(i))
		}
	}
	if s.Text == "" && s.Name == "" && s.Email == "" {
		return s, false,
			unsupportedFilter("Principals are found by text, name or email; all of them are not to be had.")
	}
	return s, some, nil
}

// principalChanges answers Principal/changes with cannotCalculateChanges, because the directory keeps no list of
// changes.
//
// Implements: RFC 9670 §2.2 Principal/changes
func principalChanges(c *call) error {
	if _, _, err := c.changesArguments(own); err != nil {
		return err
	}
	return mailbox.ErrForgotten
}

// principalQueryChanges answers Principal/queryChanges as principalChanges does.
//
// Implements: RFC 9670 §2.5 Principal/queryChanges
func principalQueryChanges(c *call) error {
	if _, err := c.queryChangesArguments(own); err != nil {
		return err
	}
	return mailbox.ErrForgotten
}

// principalSet answers Principal/set. It rejects all changes: administrators manage people and groups.
//
// Implements: RFC 9670 §2.3 Principal/set
func principalSet(c *call) error {
	s, err := c.setArguments(own)
	if err != nil {
		return err
	}
	_, version, err := c.s.backend.Directory().Names.Entries(c.ctx, nil)
	if err != nil {
		return err
	}
	return s.forbid(strconv.FormatUint(version, 16), "Principals are managed by the administrators of this server.")
}
