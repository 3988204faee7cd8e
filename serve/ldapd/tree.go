package ldapd

import (
	"context"
	"strings"

	"doublet/directory"
	"doublet/wire/ldap"
)

// tree holds the names of the upper entries: the suffix and the two containers below it.
type tree struct {
	version                     uint64 // of the directory
	suffix, people, groups      string
	suffixDN, peopleDN, groupDN ldap.DN
	// The normal forms of the names.
	normalSuffix, normalPeople, normalGroups string
}

// noBase is the suffix where neither the settings nor a domain give one.
const noBase = "o=doublet"

// tree returns the current tree. Without a suffix in the settings, it follows the directory's first domain.
func (srv *Server) tree(ctx context.Context) (*tree, error) {
	version := srv.dir.Version()
	if t := srv.trees.Load(); t != nil && t.version == version {
		return t, nil
	}
	base := srv.cfg.Base
	if base == "" {
		list, err := srv.dir.Domains.List(ctx)
		if err != nil {
			return nil, err
		}
		base = noBase
		if len(list) > 0 {
			base = "dc=" + strings.ReplaceAll(list[0], ".", ",dc=")
		}
	}
	t, err := newTree(base, srv.cfg.People, srv.cfg.Groups)
	if err != nil {
		return nil, err
	}
	t.version = version
	srv.trees.Store(t)
	return t, nil
}

func newTree(base, people, groups string) (*tree, error) {
	t := &tree{}
	for _, x := range []struct {
		text         string
		dn           *ldap.DN
		name, normal *string
	}{
		{base, &t.suffixDN, &t.suffix, &t.normalSuffix},
		{people + "," + base, &t.peopleDN, &t.people, &t.normalPeople},
		{groups + "," + base, &t.groupDN, &t.groups, &t.normalGroups},
	} {
		dn, err := ldap.ParseDN(x.text)
		if err != nil {
			return nil, err
		}
		*x.dn, *x.name, *x.normal = dn, dn.String(), normalOf(dn)
	}
	return t, nil
}

// dnOf returns the distinguished name of a record: by uid for people with a short name, else by cn. Names are unique in
// the directory, so these are too.
func (t *tree) dnOf(r *directory.Record) string {
	rdn, under := ldap.RDN{Type: "cn", Value: r.Name()}, t.people
	switch {
	case r.Group != nil:
		under = t.groups
	case r.Person != nil && r.Person.ShortName != "":
		rdn = ldap.RDN{Type: "uid", Value: r.Person.ShortName}
	}
	b := make([]byte, 0, len(rdn.Value)+len(under)+8)
	return string(append(append(ldap.AppendRDN(b, rdn), ','), under...))
}

// place is the result of looking up a distinguished name.
type place uint8

const (
	placeNone      place = iota // no such entry
	placeRoot                   // the root DSE
	placeSubschema              // the subschema subentry
	placeSuffix                 // the top of the tree
	placePeople                 // the container of people
	placeGroups                 // the container of groups
	placeRecord                 // a person, group or mail-in database
)

// below reports whether a name in normal form is an entry directly below another.
func below(name ldap.DN, parent string) bool { return len(name) > 1 && normalOf(name[1:]) == parent }

// find looks up a distinguished name. For placeNone, matched is the deepest entry above it that exists.
func (v *view) find(dn ldap.DN) (p place, e entry, matched string, err error) {
	t, normal := v.tree, normalOf(dn)
	switch {
	case len(dn) == 0:
		return placeRoot, v.rootDSE(), "", nil
	case normal == "cn=subschema":
		return placeSubschema, entry{v: v, name: subschemaDN, fixed: v.srv.subschema}, "", nil
	case v.level == levelNone: // do not reveal what exists
		return placeNone, e, "", nil
	case normal == t.normalSuffix:
		return placeSuffix, v.suffix(), "", nil
	case normal == t.normalPeople:
		return placePeople, v.container(t.people, t.peopleDN), "", nil
	case normal == t.normalGroups:
		return placeGroups, v.container(t.groups, t.groupDN), "", nil
	case below(dn, t.normalPeople):
		matched = t.people
	case below(dn, t.normalGroups):
		matched = t.groups
	default:
		if strings.HasSuffix(normal, ","+t.normalSuffix) {
			matched = t.suffix
		}
		return placeNone, e, matched, nil
	}
	list, err := v.srv.dir.Names.Exact(v.ctx, directory.Term{Name: dn[0].Value})
	for i := range list {
		if e, ok := v.entryOf(&list[i]); ok {
			if n, _ := normalDN(e.dn()); n == normal {
				return placeRecord, e, "", nil
			}
		}
	}
	return placeNone, e, matched, err
}

// suffix returns the entry at the top of the tree.
func (v *view) suffix() entry {
	t := v.tree
	fixed := map[string][]string{
		"objectclass": {"top", "organization"}, "structuralobjectclass": {"organization"},
		"hassubordinates": {"TRUE"}, "entrydn": {t.suffix}, "subschemasubentry": {subschemaDN},
		"o": {t.suffixDN[0].Value},
	}
	if strings.EqualFold(t.suffixDN[0].Type, "dc") {
		fixed["objectclass"] = append(fixed["objectclass"], "dcObject")
		fixed["dc"] = []string{t.suffixDN[0].Value}
	}
	return entry{v: v, name: t.suffix, fixed: fixed}
}

// container returns the entry of a container.
func (v *view) container(name string, dn ldap.DN) entry {
	return entry{v: v, name: name, fixed: map[string][]string{
		"objectclass": {"top", "organizationalUnit"}, "structuralobjectclass": {"organizationalUnit"},
		"hassubordinates": {"TRUE"}, "entrydn": {name}, "subschemasubentry": {subschemaDN}, "ou": {dn[0].Value},
	}}
}

// rootDSE returns the entry that describes the server. Everybody may read it.
//
// Implements: RFC 4512 §5.1 Server-specific data requirements
func (v *view) rootDSE() entry {
	fixed := map[string][]string{
		"objectclass": {"top"}, "namingcontexts": {v.tree.suffix}, "supportedldapversion": {"3"},
		"subschemasubentry": {subschemaDN}, "vendorname": {"Doublet"},
		"supportedcontrol":   {ldap.OIDPaged, ldap.OIDSort, ldap.OIDSync},
		"supportedextension": {ldap.OIDWhoAmI, ldap.OIDPasswordModify, ldap.OIDCancel, ldap.OIDStartTLS},
		"supportedfeatures":  {ldap.OIDAllOperational, ldap.OIDTrueFalse}, "entrydn": {""},
	}
	if v.srv.cfg.Version != "" {
		fixed["vendorversion"] = []string{v.srv.cfg.Version}
	}
	if list := v.mechanisms(); len(list) > 0 {
		fixed["supportedsaslmechanisms"] = list
	}
	return entry{v: v, fixed: fixed}
}
