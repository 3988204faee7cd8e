package ldapd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"doublet/directory"
	"doublet/note"
	"doublet/wire/ldap"
)

// refresh is a search that brings a client's copy up to date: entries that have changed since the cookie come whole,
// the others by their UUID alone. The client removes all other entries.
type refresh struct {
	now     directory.Position
	changed map[note.UNID]bool
	all     bool // the cookie is missing or of another content: every entry comes whole
}

// controlSync prepares a refresh. It answers the search and returns false if the client asks for something else.
//
// Implements: RFC 4533 §3.3 refreshOnly
func (x *search) controlSync(m *ldap.Message, c *ldap.Control) bool {
	q, err := ldap.ParseSync(c.Value)
	switch {
	case err != nil:
		x.s.reply(m, ldap.Result{Code: ldap.ProtocolError, Text: "malformed control for synchronization"})
		return false
	case q.Mode != ldap.SyncRefreshOnly:
		x.s.reply(m, ldap.Result{Code: ldap.UnwillingToPerform, Text: "only the mode refreshOnly is offered"})
		return false
	}
	at, same := x.parseSyncCookie(q.Cookie)
	r := &refresh{}
	var ok bool
	if r.changed, r.now, ok, err = x.srv.dir.Names.Changes(x.ctx, at); err != nil {
		x.s.trouble(m, err)
		return false
	}
	r.all = !ok || !same || len(r.changed) > 0 && (x.wanted.foreign() || x.query.foreign())
	x.sync = r
	return true
}

// foreign reports whether a request selects attributes that depend on other documents: a change of any document may
// then change any entry.
func (w *wanted) foreign() bool {
	return slices.ContainsFunc(attributes, func(a *attribute) bool { return a.foreign && w.has(a) })
}

func (q *query) foreign() bool {
	simple := len(q.parts) == 0 && q.kind > ldap.FilterNot && !q.undefined
	return simple && (q.attribute == nil || q.attribute.foreign) ||
		slices.ContainsFunc(q.parts, func(p query) bool { return p.foreign() })
}

// contentHash identifies what a search of the client can see: the request, the client's access and the names of the
// tree. A cookie of another content is not valid.
func (x *search) contentHash() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%d %t %x %s %s %s ", x.level, x.srv.dir.Names.Private(), x.who.Person, x.tree.suffix, x.tree.people,
		x.tree.groups)
	h.Write(ldap.AppendSearch(nil, &ldap.Search{Base: x.req.Base, Scope: x.req.Scope, Filter: x.req.Filter,
		Attributes: x.req.Attributes}))
	return h.Sum(nil)[:8]
}

func (x *search) syncCookie() []byte {
	b := binary.BigEndian.AppendUint64(nil, x.sync.now.Incarnation)
	return append(binary.BigEndian.AppendUint64(b, x.sync.now.Seq), x.contentHash()...)
}

func (x *search) parseSyncCookie(b []byte) (at directory.Position, same bool) {
	if len(b) != 24 {
		return at, false
	}
	at = directory.Position{Incarnation: binary.BigEndian.Uint64(b), Seq: binary.BigEndian.Uint64(b[8:])}
	return at, bytes.Equal(b[16:], x.contentHash())
}

// state returns the control of an entry, and whether the entry comes whole.
func (r *refresh) state(e *entry) (c ldap.Control, whole bool) {
	id := e.id()
	// Entries above the records change only with the settings, which the cookie covers.
	if whole = r.all || e.record != nil && r.changed[e.record.ID]; whole {
		return ldap.SyncState(ldap.SyncAdd, id), true
	}
	return ldap.SyncState(ldap.SyncPresent, id), false
}

// id returns the UUID of an entry.
func (e *entry) id() note.UNID {
	if e.record != nil {
		return e.record.ID
	}
	return note.DeriveUNID([]byte("ldap"), []byte(e.name))
}

// unlimited is the limit of entries of a refresh for a client that sees everything.
const unlimited = math.MaxInt
