package ldapd

import (
	"context"
	"errors"
	"time"

	"doublet/directory"
	"doublet/wire/ldap"
)

// Bounds of one search.
const (
	// batch is the number of records that are read in one snapshot.
	batch = 100
	// maxExamined is the maximum number of records that a search of a client without full access looks at.
	maxExamined = 20_000
	// maxSorted is the maximum number of entries that are sorted.
	maxSorted = 10_000
)

// errDone ends a search whose result is in search.result.
var errDone = errors.New("ldapd: search is done")

// search is one search operation.
type search struct {
	*view
	s      *session
	id     int
	req    ldap.Search
	query  query
	wanted wanted
	dn     ldap.DN

	paged  *ldap.Paged // nil without paging
	cursor cursor
	sorter *sorter  // nil without sorting
	sync   *refresh // nil without synchronization

	until    time.Time
	limit    int // entries of this response and the pages before it
	examined int
	sent     int // entries of this response
	full     bool
	result   ldap.Result
}

// search answers a search request.
//
// Implements: RFC 4511 §4.5 Search operation
func (s *session) search(m *ldap.Message) {
	x := &search{s: s, id: m.ID, result: ldap.Result{Op: ldap.OpSearchDone}}
	var err error
	if x.req, err = ldap.ParseSearch(m.Body); err != nil {
		s.refused(m, err)
		return
	}
	if x.dn, err = ldap.ParseDN(x.req.Base); err != nil {
		s.reply(m, ldap.Result{Code: ldap.InvalidDNSyntax, Text: "base is no distinguished name"})
		return
	}
	if x.view, err = s.view(); err != nil {
		s.trouble(m, err)
		return
	}
	x.query, x.wanted = prepare(&x.req.Filter), selectAttributes(x.req.Attributes)
	if !x.controls(m) {
		return
	}
	x.bound()
	err = x.run()
	if err == nil || errors.Is(err, errDone) {
		err = x.failed
	}
	switch {
	case s.failed != nil: // the client has gone
		return
	case err != nil:
		s.trouble(m, err)
		return
	case x.result.Code == ldap.Success:
		s.srv.stats.found.Add(uint64(x.sent))
	default:
		s.srv.stats.bounded.Inc()
	}
	s.reply(m, x.result)
}

// bound sets the limits: those of the client, but not above those of the server.
//
// Implements: RFC 4511 §4.5.1.4 SearchRequest.sizeLimit
// Implements: RFC 4511 §4.5.1.5 SearchRequest.timeLimit
func (x *search) bound() {
	cfg := &x.srv.cfg
	switch {
	case x.level < levelFull:
		x.limit = cfg.Entries
	case x.sync != nil: // a part would make the client remove the rest
		x.limit = unlimited
	case x.paged == nil:
		x.limit = cfg.ReaderEntries
	default: // each page is bounded, their number is not
		x.limit = unlimited
		x.paged.Size = min(x.paged.Size, cfg.ReaderEntries)
	}
	if n := x.req.SizeLimit; n > 0 {
		x.limit = min(x.limit, n)
	}
	d := cfg.SearchTime
	if n := x.req.TimeLimit; n > 0 && n < int(d/time.Second) {
		d = time.Duration(n) * time.Second
	}
	x.until = x.s.c.Now().Add(d)
}

// run sends the entries.
func (x *search) run() error {
	p, base, matched, err := x.find(x.dn)
	if err != nil {
		return err
	}
	switch {
	case x.paged != nil && x.paged.Size == 0: // the client needs no more pages
		return x.endPage(nil)
	case p == placeNone && x.level == levelNone:
		x.result.Code, x.result.Text = ldap.StrongerAuthRequired, "sign in first"
		return nil
	case p == placeNone:
		x.result.Code, x.result.Matched = ldap.NoSuchObject, matched
		return nil
	case x.req.Scope == ldap.ScopeBase:
		err = x.offer(&base)
	case p == placeRoot || p == placeSubschema || p == placeRecord:
		if x.req.Scope == ldap.ScopeSubtree && p != placeRoot {
			err = x.offer(&base)
		}
	default:
		err = x.walk(p, base)
	}
	if err == nil {
		err = x.flushSorted()
	}
	if err == nil && x.sync != nil {
		x.result.Controls = append(x.result.Controls, ldap.SyncDone(x.syncCookie()))
	}
	return x.endPage(err)
}

// walk offers the entries in the scope, below a container or the suffix.
func (x *search) walk(p place, base entry) error {
	kinds := x.query.kinds()
	sub := x.req.Scope == ldap.ScopeSubtree
	var upper []entry
	if sub {
		upper = append(upper, base)
	}
	people, groups := kindOf(directory.TargetPerson)|kindOf(directory.TargetMailIn), kindOf(directory.TargetGroup)
	switch {
	case p == placePeople:
		kinds &= people
	case p == placeGroups:
		kinds &= groups
	default:
		upper = append(upper, x.container(x.tree.people, x.tree.peopleDN), x.container(x.tree.groups, x.tree.groupDN))
		if !sub {
			kinds = 0
		}
	}
	for x.cursor.upper < len(upper) {
		if err := x.offer(&upper[x.cursor.upper]); err != nil {
			return err
		}
		x.cursor.upper++
	}
	if kinds == 0 {
		return nil
	}
	plan := x.query.plan(x.view)
	if !plan.all {
		return x.selected(plan, kinds)
	}
	for _, kind := range []directory.TargetKind{directory.TargetPerson, directory.TargetMailIn, directory.TargetGroup} {
		if kinds&kindOf(kind) == 0 || !x.cursor.reaches(kind) {
			continue
		}
		if err := x.browse(kind); err != nil {
			return err
		}
	}
	return nil
}

// selected offers the records that the terms of a plan select.
func (x *search) selected(p plan, kinds kindSet) error {
	if len(p.terms) == 0 {
		return nil
	}
	if one := p.terms[0]; len(p.terms) == 1 && (one.Name != "" || one.Address != "") {
		list, err := x.srv.dir.Names.Exact(x.ctx, one)
		if err != nil {
			return err
		}
		return x.records(list[min(x.cursor.offset, len(list)):], kinds)
	}
	sel, err := x.srv.dir.Names.Select(x.ctx, p.terms, maxTerms)
	if err != nil {
		return err
	}
	sel.Skip(x.cursor.offset)
	for sel.Left() > 0 {
		list, err := sel.Next(x.ctx, batch)
		if err == nil {
			err = x.records(list, kinds)
		}
		if err != nil {
			return err
		}
	}
	if sel.More {
		return x.end(ldap.AdminLimitExceeded, "too many entries to look at: search for more letters")
	}
	return nil
}

// records offers records of a selection. Removed records between two pages move the later ones: a page may then repeat
// or leave out some, as for any change between two pages (RFC 2696 section 3).
func (x *search) records(list []directory.Record, kinds kindSet) error {
	for i := range list {
		r := &list[i]
		if kinds&kindOf(r.Kind()) != 0 {
			if e, ok := x.entryOf(r); ok {
				if err := x.offer(&e); err != nil {
					return err
				}
			}
		}
		x.cursor.offset++
		if err := x.look(); err != nil {
			return err
		}
	}
	return nil
}

// browse offers all records of a kind.
func (x *search) browse(kind directory.TargetKind) error {
	after := x.cursor.enter(kind)
	for {
		list, next, err := x.srv.dir.Names.Browse(x.ctx, kind, batch, after)
		if err != nil {
			return err
		}
		for i := range list {
			if e, ok := x.entryOf(&list[i]); ok {
				if err := x.offer(&e); err != nil {
					return err
				}
			}
			if name, err := directory.NormalName(list[i].Name()); err == nil {
				x.cursor.after = name
			}
			if err := x.look(); err != nil {
				return err
			}
		}
		if after = next; after == "" {
			return nil
		}
	}
}

// look counts a record that was looked at, and ends the search at its bounds.
func (x *search) look() error {
	x.examined++
	switch {
	case x.examined > maxExamined && x.level < levelFull:
		return x.end(ldap.AdminLimitExceeded, "too many entries to look at: search for a name or an address")
	case x.examined%batch != 0:
		return nil
	case x.ctx.Err() != nil:
		return context.Cause(x.ctx)
	}
	return x.inTime()
}

func (x *search) inTime() error {
	if x.s.c.Now().After(x.until) {
		return x.end(ldap.TimeLimitExceeded, "the search took too long")
	}
	return nil
}

// end ends the search with a code.
func (x *search) end(code ldap.Code, text string) error {
	x.result.Code, x.result.Text = code, text
	return errDone
}

// offer sends an entry if it matches.
func (x *search) offer(e *entry) error {
	if x.query.match(e) != yes {
		return nil
	}
	if x.sorter != nil {
		return x.sorter.add(x, e)
	}
	return x.send(e)
}

// send sends an entry, or ends the search if that would be one too many.
func (x *search) send(e *entry) error {
	switch {
	case x.cursor.before+x.sent >= x.limit:
		return x.end(ldap.SizeLimitExceeded, "there are more entries")
	case x.paged != nil && x.sent >= x.paged.Size:
		x.full = true
		return errDone
	}
	out := &x.s.out
	switch {
	case x.sync == nil:
		out.B = e.append(out.B, x.id, &x.wanted, x.req.TypesOnly)
	default:
		c, whole := x.sync.state(e)
		w := &x.wanted
		if !whole {
			w = &wanted{}
		}
		out.B = e.append(out.B, x.id, w, x.req.TypesOnly, c)
	}
	x.sent++
	if len(out.B) > sendAt {
		if err := x.s.flush(); err != nil {
			return err
		}
		return x.inTime()
	}
	return nil
}

// compare answers a compare request.
//
// Implements: RFC 4511 §4.10 Compare operation
func (s *session) compare(m *ldap.Message) {
	req, err := ldap.ParseCompare(m.Body)
	if err != nil {
		s.refused(m, err)
		return
	}
	if critical(m) {
		s.reply(m, ldap.Result{Code: ldap.UnavailableCriticalExtension, Text: "compare has no controls here"})
		return
	}
	v, err := s.view()
	if err != nil {
		s.trouble(m, err)
		return
	}
	r, err := v.compare(&req)
	if err == nil {
		err = v.failed
	}
	if err != nil {
		s.trouble(m, err)
		return
	}
	s.reply(m, r)
}

func (v *view) compare(req *ldap.Compare) (ldap.Result, error) {
	dn, err := ldap.ParseDN(req.Name)
	if err != nil {
		return ldap.Result{Code: ldap.InvalidDNSyntax, Text: "entry is no distinguished name"}, nil
	}
	p, e, matched, err := v.find(dn)
	switch {
	case err != nil:
		return ldap.Result{}, err
	case p == placeNone && v.level == levelNone:
		return ldap.Result{Code: ldap.StrongerAuthRequired, Text: "sign in first"}, nil
	case p == placeNone:
		return ldap.Result{Code: ldap.NoSuchObject, Matched: matched}, nil
	}
	q := prepare(&ldap.Filter{Kind: ldap.FilterEqual, Type: req.Type, Value: req.Value})
	switch {
	case q.attribute == nil:
		return ldap.Result{Code: ldap.UndefinedAttributeType, Text: "attribute type is unknown"}, nil
	case len(e.get(q.attribute)) == 0:
		return ldap.Result{Code: ldap.NoSuchAttribute}, nil
	case q.undefined:
		return ldap.Result{Code: ldap.InvalidAttributeSyntax, Text: "value does not have the syntax"}, nil
	case q.match(&e) == yes:
		return ldap.Result{Code: ldap.CompareTrue}, nil
	}
	return ldap.Result{Code: ldap.CompareFalse}, nil
}
