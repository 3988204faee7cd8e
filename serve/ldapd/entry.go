package ldapd

import (
	"context"
	"errors"
	"strings"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/ldap"
)

// view is the directory as one client sees it during one operation.
type view struct {
	ctx  context.Context
	srv  *Server
	tree *tree
	level
	who note.Who
	// mechanisms returns the SASL mechanisms that the client may use now.
	mechanisms func() []string
	// failed is the first error of reading the directory for an attribute.
	failed error
}

// entry is an entry of the tree. record is nil for entries that are not in the directory, which have the attributes
// fixed, by lower-case name.
type entry struct {
	v      *view
	record *directory.Record
	fixed  map[string][]string
	// name is the distinguished name of an entry without a record.
	name string
	// level is the client's access to this entry.
	level level
}

// entryOf returns the entry of a record, and false if the client may not see it.
//
// People see others as an address book shows them, and of themselves everything. If the directory does not let people
// look each other up, they see only themselves.
func (v *view) entryOf(r *directory.Record) (entry, bool) {
	e := entry{v: v, record: r, level: v.level}
	if v.level == levelFull {
		return e, r.Person == nil || !r.Person.Disabled
	}
	if r.ID == v.who.Person && !r.ID.IsZero() {
		e.level = levelFull
		return e, true
	}
	return e, v.level == levelPublic && r.Public() && !v.srv.dir.Names.Private()
}

// get returns the values of an attribute that the client may see.
func (e *entry) get(a *attribute) []string {
	if e.record == nil {
		return e.fixed[strings.ToLower(a.name)]
	}
	if a.values == nil || a.level > e.level {
		return nil
	}
	return a.values(e)
}

// hidden reports whether the client may not see whether the entry has an attribute.
func (e *entry) hidden(a *attribute) bool { return e.record != nil && a.level > e.level }

// dn returns the distinguished name.
func (e *entry) dn() string {
	if e.record == nil {
		return e.name
	}
	return e.v.tree.dnOf(e.record)
}

func (e *entry) ownDN() []string { return []string{e.dn()} }

// entryClasses are the object classes of each kind, the structural one last but for auxiliary ones.
var entryClasses = map[directory.TargetKind][]string{
	directory.TargetPerson: {"top", "person", "organizationalPerson", "inetOrgPerson", "inetLocalMailRecipient",
		"mailRecipient"},
	directory.TargetGroup:  {"top", "groupOfNames", "mailGroup"},
	directory.TargetMailIn: {"top", "applicationProcess", "inetLocalMailRecipient", "mailRecipient"},
}

func (e *entry) classes() []string { return entryClasses[e.record.Kind()] }

func (e *entry) structural() []string {
	switch e.record.Kind() {
	case directory.TargetPerson:
		return []string{"inetOrgPerson"}
	case directory.TargetGroup:
		return []string{"groupOfNames"}
	}
	return []string{"applicationProcess"}
}

func (e *entry) names() []string {
	if p := e.record.Person; p != nil {
		return p.FullName
	}
	return []string{e.record.Name()}
}

// givenAndSurname splits a name at its last word. The directory has no separate fields for the two. A hierarchical
// name such as Ada Lovelace/Sales/Example is split before the first slash.
func givenAndSurname(name string) (given, surname string) {
	common, _, _ := strings.Cut(name, "/")
	common = strings.TrimSpace(common)
	if common == "" {
		return "", name
	}
	if i := strings.LastIndexByte(common, ' '); i >= 0 {
		return strings.TrimSpace(common[:i]), common[i+1:]
	}
	return "", common
}

func (e *entry) surname() []string {
	if e.record.Person == nil {
		return nil
	}
	_, s := givenAndSurname(e.record.Name())
	return []string{s}
}

func (e *entry) givenName() []string {
	if e.record.Person == nil {
		return nil
	}
	g, _ := givenAndSurname(e.record.Name())
	return some(g)
}

func some(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

func (e *entry) displayName() []string { return []string{e.record.Name()} }

func (e *entry) uid() []string {
	if e.record.Person == nil {
		return nil
	}
	return some(e.record.Person.ShortName)
}

func (e *entry) addresses() []string { return e.record.Addresses() }

func (e *entry) mail() []string {
	all := e.record.Addresses()
	return all[:min(1, len(all))]
}

func (e *entry) alternateAddresses() []string {
	all := e.record.Addresses()
	return all[min(1, len(all)):]
}

func (e *entry) mailHost() []string {
	var server note.UNID
	switch {
	case e.record.Person != nil:
		server = e.record.Person.MailServer
	case e.record.MailIn != nil:
		server = e.record.MailIn.MailServer
	}
	place, err := e.v.srv.dir.Servers.PlaceOf(e.v.ctx, server)
	if err == nil && len(place.Servers) > 0 && place.Servers[0].Host != "" {
		return []string{place.Servers[0].Host}
	}
	if err != nil && !errors.Is(err, directory.ErrNotFound) {
		e.v.fail(err)
	}
	return []string{e.v.srv.cfg.Hostname}
}

func (v *view) fail(err error) {
	if v.failed == nil {
		v.failed = err
	}
}

func (e *entry) forwards() []string {
	if e.record.Person == nil {
		return nil
	}
	return e.record.Person.Forward
}

func (e *entry) description() []string {
	if e.record.Group == nil {
		return nil
	}
	return some(e.record.Group.Description)
}

// members returns the names of the members that have an entry.
func (e *entry) members() (out []string) {
	if e.record.Group == nil {
		return nil
	}
	for _, m := range e.record.Group.Members {
		id, err := note.ParseUNID(m)
		if err != nil {
			continue
		}
		r, err := e.v.srv.dir.Names.RecordOf(e.v.ctx, id)
		if err == nil {
			if _, ok := e.v.entryOf(&r); ok {
				out = append(out, e.v.tree.dnOf(&r))
			}
		} else if !errors.Is(err, directory.ErrNotFound) {
			e.v.fail(err)
		}
	}
	return out
}

// mailMembers returns the members that are addresses of other domains.
func (e *entry) mailMembers() (out []string) {
	if e.record.Group == nil {
		return nil
	}
	for _, m := range e.record.Group.Members {
		if strings.IndexByte(m, '@') >= 0 {
			out = append(out, m)
		}
	}
	return out
}

// memberOf returns the names of the groups that list the entry.
func (e *entry) memberOf() (out []string) {
	groups, err := e.v.srv.dir.Names.GroupsOf(e.v.ctx, e.record.ID)
	if err != nil {
		e.v.fail(err)
		return nil
	}
	for i := range groups {
		out = append(out, e.v.tree.dnOf(&groups[i]))
	}
	return out
}

// uuid returns the UNID in the form of a UUID. It stays the same when the entry is renamed, and on all replicas.
func (e *entry) uuid() []string { return []string{uuidOf(e.record.ID)} }

func uuidOf(id note.UNID) string {
	s := id.String()
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func parseUUID(s string) (note.UNID, bool) {
	id, err := note.ParseUNID(strings.ToLower(strings.ReplaceAll(s, "-", "")))
	return id, err == nil
}

// wanted selects the attributes of a response (RFC 4511 section 4.5.1.8).
type wanted struct {
	user, operational bool
	list              []*attribute
}

// selectAttributes reads the list of a request: names, * for all user attributes, + for all operational ones, 1.1 for
// none. An empty list is *.
//
// Implements: RFC 4511 §4.5.1.8 SearchRequest.attributes
// Implements: RFC 3673 §2 All operational attributes
func selectAttributes(list []string) wanted {
	w := wanted{user: len(list) == 0}
	for _, name := range list {
		switch name {
		case "*":
			w.user = true
		case "+":
			w.operational = true
		default:
			if a := attributeNamed(name); a != nil {
				w.list = append(w.list, a)
			}
		}
	}
	return w
}

func (w *wanted) has(a *attribute) bool {
	if a.operational && w.operational || !a.operational && w.user {
		return true
	}
	for _, x := range w.list {
		if x == a {
			return true
		}
	}
	return false
}

// append appends a search result entry.
func (e *entry) append(dst []byte, id int, w *wanted, typesOnly bool, controls ...ldap.Control) []byte {
	out := ldap.NewEntry(dst, id, e.dn())
	list := w.list
	if w.user || w.operational {
		list = attributes
	}
	for i, a := range list {
		if w.user || w.operational {
			if !w.has(a) {
				continue
			}
		} else if repeated(list, i) {
			continue
		}
		values := e.get(a)
		if len(values) == 0 {
			continue
		}
		out.Type(a.name)
		if !typesOnly {
			for _, v := range values {
				out.Value(v)
			}
		}
	}
	return out.End(controls...)
}

func repeated(list []*attribute, i int) bool {
	for _, a := range list[:i] {
		if a == list[i] {
			return true
		}
	}
	return false
}
