package jmapd

import (
	"slices"

	"doublet/groupware"
	"doublet/note"
	"doublet/wire/jmap"
)

// shareRight is a member of the rights object of a collection: the rights that it grants, and those that it needs.
type shareRight struct {
	name         string
	grants, need note.Rights
}

// appendShareRights appends a rights object.
func appendShareRights(dst []byte, list []shareRight, g note.Rights) []byte {
	o := jmap.NewWriter(dst)
	for _, r := range list {
		o.Bool(r.name, g&r.need == r.need)
	}
	return o.End()
}

// appendShareWith appends the property shareWith: null for those who may not share, and if nobody but the owner has
// rights.
//
// Implements: RFC 9670 §4 shareWith
func appendShareWith(dst []byte, list []shareRight, x *groupware.Collection, owner note.UNID) []byte {
	if x.Rights&note.Administer == 0 || !x.HasACL {
		return append(dst, "null"...)
	}
	o := jmap.NewWriter(dst)
	some := false
	for _, e := range x.ACL.Entries {
		if e.ID == owner || e.ID.IsZero() || e.Rights() == 0 {
			continue
		}
		some = true
		o.Name(principalID(e.ID))
		o.B = appendShareRights(o.B, list, e.Rights())
	}
	if !some {
		return append(dst, "null"...)
	}
	return o.End()
}

// readShareWith reads the property shareWith: the rights of each person and group who has some now or is to have some.
// Without rights they are 0.
func (c *call) readShareWith(v *jmap.Value, list []shareRight, x *groupware.Collection,
	owner note.UNID) (map[note.UNID]note.Rights, error) {
	out := map[note.UNID]note.Rights{}
	if x.HasACL {
		for _, e := range x.ACL.Entries {
			if e.ID != owner && !e.ID.IsZero() {
				out[e.ID] = 0
			}
		}
	}
	if !v.IsNull() && v.Kind() != jmap.Object {
		return nil, badProperties("shareWith maps ids of principals to rights.", "shareWith")
	}
	for i := range v.Len() {
		u, ok := parseID(letterPrincipal, v.Name(i))
		path := "shareWith/" + v.Name(i)
		if !ok || v.At(i).Kind() != jmap.Object || u == owner {
			return nil, badProperties("There is no such principal to share with.", path)
		}
		if _, err := c.s.backend.Name(c.ctx, u); err != nil {
			return nil, badProperties("There is no such principal to share with.", path)
		}
		rights, err := readShareRights(v.At(i), list, path)
		if err != nil {
			return nil, err
		}
		out[u] = rights
	}
	for i := range v.Len() {
		if err := partly(v.Name(i), v.At(i), list, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func readShareRights(v *jmap.Value, list []shareRight, path string) (g note.Rights, err error) {
	for i := range v.Len() {
		k := slices.IndexFunc(list, func(r shareRight) bool { return r.name == v.Name(i) })
		on, ok := v.At(i).Bool()
		if k < 0 || !ok {
			return 0, badProperties("There is no such right.", path+"/"+v.Name(i))
		}
		if on {
			g |= list[k].grants
		}
	}
	return g, nil
}

// partly refuses rights of a person that come only together with others which the client does not grant.
func partly(id string, v *jmap.Value, list []shareRight, grants map[note.UNID]note.Rights) error {
	u, _ := parseID(letterPrincipal, id)
	for _, r := range list {
		if on, _ := v.Get(r.name).Bool(); on && grants[u]&r.need != r.need {
			return badProperties("This server grants it only together with others.", "shareWith/"+id+"/"+r.name)
		}
	}
	return nil
}
