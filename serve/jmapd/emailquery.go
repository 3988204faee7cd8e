package jmapd

import (
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// sortOptions are the properties by which Email/query can sort.
var sortOptions = []string{"receivedAt", "sentAt", "size", "from", "to", "subject", "hasKeyword",
	"allInThreadHaveKeyword", "someInThreadHaveKeyword"}

var orderKinds = map[string]mailbox.OrderKind{
	"receivedAt": mailbox.OrderReceived, "sentAt": mailbox.OrderSent, "size": mailbox.OrderSize,
	"from": mailbox.OrderFrom, "to": mailbox.OrderTo,
	"subject": mailbox.OrderSubject, "hasKeyword": mailbox.OrderKeyword,
	"allInThreadHaveKeyword": mailbox.OrderThreadAll, "someInThreadHaveKeyword": mailbox.OrderThreadSome,
}

// Bounds of a filter, and of a sort order.
const (
	maxFilterDepth      = 20
	maxFilterConditions = 500
	maxFilterWords      = 50 // of one text condition
	maxSortKeys         = 10
)

// filterReader parses a filter. left is the number of conditions that it may still have.
type filterReader struct{ left int }

// emailFilter reads the argument filter.
//
// Implements: RFC 8621 §4.4.1 filtering
func (c *call) emailFilter() (f mailbox.Filter, err error) {
	v := c.args.Get("filter")
	if v.IsNull() {
		return f, nil
	}
	r := filterReader{left: maxFilterConditions}
	return r.read(v, 0)
}

func unsupportedFilter(why string) error {
	return &jmap.Error{Type: "unsupportedFilter", Description: why}
}

func (r *filterReader) read(v *jmap.Value, depth int) (f mailbox.Filter, err error) {
	if r.left--; r.left < 0 || depth > maxFilterDepth {
		return f, unsupportedFilter("The filter has more conditions, or nests them deeper, than this server takes.")
	}
	if v.Kind() != jmap.Object {
		return f, invalid("a filter is an object")
	}
	op := v.Get("operator")
	if op == nil {
		return r.condition(v)
	}
	name, _ := op.Text()
	kind, ok := map[string]mailbox.FilterKind{"AND": mailbox.FilterAnd, "OR": mailbox.FilterOr,
		"NOT": mailbox.FilterNot}[name]
	of := v.Get("conditions")
	if !ok || of.Kind() != jmap.Array || v.Len() != 2 {
		return f, invalid("a FilterOperator has an operator, AND, OR or NOT, and conditions")
	}
	f.Kind = kind
	for i := range of.Len() {
		g, err := r.read(of.At(i), depth+1)
		if err != nil {
			return f, err
		}
		f.Of = append(f.Of, g)
	}
	return f, nil
}

// condition reads a FilterCondition. All of its properties must match.
func (r *filterReader) condition(v *jmap.Value) (f mailbox.Filter, err error) {
	for i := range v.Len() {
		if r.left--; r.left < 0 {
			return f, unsupportedFilter("The filter has more conditions than this server takes.")
		}
		g, err := r.property(v.Name(i), v.At(i))
		if err != nil {
			return f, err
		}
		f.Of = append(f.Of, g)
	}
	if len(f.Of) == 1 {
		return f.Of[0], nil
	}
	return f, nil
}

func (r *filterReader) property(name string, v *jmap.Value) (f mailbox.Filter, err error) {
	bad := invalid("the filter's %.100q is not what it should be", name)
	switch name {
	case "inMailbox":
		id, ok := v.Text()
		f.Kind, f.Folders = mailbox.FilterIn, folderIDs([]string{id})
		return f, orBad(ok, bad)
	case "inMailboxOtherThan":
		ids, ok := texts(v)
		f.Kind, f.Folders = mailbox.FilterElsewhere, folderIDs(ids)
		return f, orBad(ok, bad)
	case "before", "after":
		s, _ := v.Text()
		t, ok := jmap.ParseDate(s, true)
		f.Kind, f.Time = mailbox.FilterBefore, t
		if name == "after" {
			f.Kind = mailbox.FilterAfter
		}
		return f, orBad(ok, bad)
	case "minSize", "maxSize":
		n, ok := v.Int()
		f.Kind, f.Size = mailbox.FilterMin, uint64(max(n, 0))
		if name == "maxSize" {
			f.Kind = mailbox.FilterMax
		}
		return f, orBad(ok && n >= 0, bad)
	case "hasKeyword", "notKeyword", "allInThreadHaveKeyword", "someInThreadHaveKeyword", "noneInThreadHaveKeyword":
		k, ok := keyword(v)
		f.Kind, f.Keyword = mailbox.FilterKeyword, k
		switch name {
		case "allInThreadHaveKeyword":
			f.Kind = mailbox.FilterThreadAll
		case "someInThreadHaveKeyword", "noneInThreadHaveKeyword":
			f.Kind = mailbox.FilterThreadSome
		}
		if strings.HasPrefix(name, "no") {
			f = mailbox.Filter{Kind: mailbox.FilterNot, Of: []mailbox.Filter{f}}
		}
		return f, orBad(ok, bad)
	case "hasAttachment":
		on, ok := v.Bool()
		f.Kind = mailbox.FilterAttached
		if !on {
			f = mailbox.Filter{Kind: mailbox.FilterNot, Of: []mailbox.Filter{f}}
		}
		return f, orBad(ok, bad)
	case "header":
		list, ok := texts(v)
		if !ok || len(list) < 1 || len(list) > 2 || !fieldName(list[0]) {
			return f, bad
		}
		f.Kind, f.Text = mailbox.FilterText, mailbox.Criteria{Test: mailbox.TestHeader, Name: list[0]}
		if len(list) == 2 {
			f.Text.Text = list[1]
		}
		return f, nil
	}
	test, ok := textTests[name]
	if !ok {
		return f, unsupportedFilter("There is no condition " + name[:min(len(name), 100)] + " here.")
	}
	s, ok := v.Text()
	if !ok || len(s) > 4096 {
		return f, bad
	}
	return wordsFilter(test, s)
}

func orBad(ok bool, bad error) error {
	if ok {
		return nil
	}
	return bad
}

var textTests = map[string]mailbox.Test{
	"text": mailbox.TestText, "from": mailbox.TestFrom, "to": mailbox.TestTo, "cc": mailbox.TestCc,
	"bcc": mailbox.TestBcc, "subject": mailbox.TestSubject, "body": mailbox.TestBody,
}

// wordsFilter matches the words and phrases of a text, as the server's index defines a match.
//
// Implements: RFC 8621 §4.4.1 words and phrases
func wordsFilter(test mailbox.Test, s string) (f mailbox.Filter, err error) {
	if len(strings.Fields(s)) > maxFilterWords {
		return f, unsupportedFilter("The text has too many words.")
	}
	return mailbox.Filter{Kind: mailbox.FilterText, Text: mailbox.Criteria{Test: test, Text: s, Words: true}}, nil
}

// folderIDs converts ids into the UNIDs of folders.
func folderIDs(ids []string) []note.UNID {
	out := make([]note.UNID, 0, len(ids))
	for _, id := range ids {
		u, _ := parseID(letterFolder, id) // malformed: the zero UNID, which no folder has
		out = append(out, u)
	}
	return out
}

func texts(v *jmap.Value) ([]string, bool) {
	if v.Kind() != jmap.Array {
		return nil, false
	}
	out := make([]string, 0, v.Len())
	for i := range v.Len() {
		s, ok := v.At(i).Text()
		if !ok {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// keyword reads a keyword and converts it to lower case, its canonical form.
func keyword(v *jmap.Value) (string, bool) {
	s, ok := v.Text()
	return strings.ToLower(s), ok && validKeyword(s)
}

// validKeyword reports whether a string can be a keyword (RFC 8621 section 4.1.1).
func validKeyword(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || strings.IndexByte(`(){]%*"\`, s[i]) >= 0 {
			return false
		}
	}
	return true
}

// emailOrder reads the argument sort.
//
// Implements: RFC 8621 §4.4.2 sorting
func (c *call) emailOrder() ([]mailbox.Order, error) {
	keys, err := c.sortKeys(sortOptions...)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return []mailbox.Order{{Kind: mailbox.OrderReceived, Descending: true}}, nil
	}
	out := make([]mailbox.Order, 0, len(keys))
	for _, k := range keys {
		o := mailbox.Order{Kind: orderKinds[k.property], Descending: k.down}
		if o.Kind >= mailbox.OrderKeyword {
			var ok bool
			if o.Keyword, ok = keyword(k.value.Get("keyword")); !ok {
				return nil, invalid("sorting by %s needs a keyword", k.property)
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// emailQuery answers Email/query.
//
// Implements: RFC 8621 §4.4 Email/query
func emailQuery(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "position", "anchor", "anchorOffset", "limit", "calculateTotal",
		"collapseThreads"); err != nil {
		return err
	}
	if err := c.needAccount(false); err != nil {
		return err
	}
	q, w, err := c.emailQueryArguments()
	if err != nil {
		return err
	}
	found, err := c.account.File.Query(c.ctx, q)
	if err != nil {
		return err
	}
	c.remember(found.Hits)
	c.beginQuery(found.States.Email.String(), q.Exact(), found.Position)
	for i := range found.Hits {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = appendID(c.out, letterEmail, found.Hits[i].UNID)
	}
	total := -1
	if w.total {
		total = found.Total
	}
	c.endQuery(total)
	return nil
}

func (c *call) emailQueryArguments() (*mailbox.Query, *window, error) {
	w, err := c.windowArguments()
	if err != nil {
		return nil, nil, err
	}
	q := &mailbox.Query{Position: w.position, Offset: w.offset, Limit: w.limit, Total: w.total}
	if w.anchor != "" {
		u, ok := parseID(letterEmail, w.anchor)
		if !ok {
			return nil, nil, mailbox.ErrNoAnchor
		}
		q.Anchor = u
	}
	if err := c.emailQueryOnly(q); err != nil {
		return nil, nil, err
	}
	return q, &w, nil
}

// emailQueryOnly reads the arguments of a query except those of the window.
func (c *call) emailQueryOnly(q *mailbox.Query) (err error) {
	if q.Filter, err = c.emailFilter(); err != nil {
		return err
	}
	if q.Sort, err = c.emailOrder(); err != nil {
		return err
	}
	q.Collapse, err = c.bool("collapseThreads", false)
	return err
}

// beginQuery appends the response to a /query up to the opening bracket of its ids. endQuery appends the rest, with the
// total unless that is negative.
func (c *call) beginQuery(state string, exact bool, position int) {
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","queryState":`...)
	c.out = append(jmap.AppendString(c.out, state), `,"canCalculateChanges":`...)
	c.out = append(jmap.AppendBool(c.out, exact), `,"position":`...)
	c.out = append(appendInt(c.out, position), `,"ids":[`...)
}

func (c *call) endQuery(total int) {
	c.out = append(c.out, ']')
	if total >= 0 {
		c.out = appendInt(append(c.out, `,"total":`...), total)
	}
	if c.limited() {
		c.out = appendInt(append(c.out, `,"limit":`...), maxResults)
	}
	c.out = append(c.out, '}')
}

// emailQueryChanges answers Email/queryChanges.
//
// Implements: RFC 8621 §4.5 Email/queryChanges
func emailQueryChanges(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "sinceQueryState", "maxChanges", "upToId", "calculateTotal",
		"collapseThreads"); err != nil {
		return err
	}
	since, limit, err := c.queryChangesArguments()
	if err != nil {
		return err
	}
	q := &mailbox.Query{}
	if err := c.emailQueryOnly(q); err != nil {
		return err
	}
	upTo, err := c.text("upToId")
	if err != nil {
		return err
	}
	total, err := c.bool("calculateTotal", false)
	if err != nil {
		return err
	}
	state, err := mailbox.ParseState(since)
	if err != nil {
		return err
	}
	last, _ := parseID(letterEmail, upTo)
	x, err := c.account.File.QueryChanges(c.ctx, q, state, limit, last)
	if err != nil {
		return err
	}
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","oldQueryState":`...)
	c.out = jmap.AppendString(c.out, since)
	c.out = jmap.AppendString(append(c.out, `,"newQueryState":`...), x.States.Email.String())
	if total {
		c.out = appendInt(append(c.out, `,"total":`...), x.Total)
	}
	c.out = appendIDs(append(c.out, `,"removed":`...), letterEmail, x.Removed)
	c.out = append(c.out, `,"added":[`...)
	for i, a := range x.Added {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = appendID(append(c.out, `{"id":`...), letterEmail, a.UNID)
		c.out = append(appendInt(append(c.out, `,"index":`...), a.Index), '}')
	}
	c.out = append(c.out, "]}"...)
	return nil
}

// queryChangesArguments reads the state and the limit of a /queryChanges. A negative limit means none. A limit of 0 is
// valid: the call then succeeds only if nothing has changed.
//
// Implements: RFC 8620 §5.6 /queryChanges
func (c *call) queryChangesArguments() (since string, limit int, err error) {
	if err := c.needAccount(false); err != nil {
		return "", 0, err
	}
	if since, err = c.needText("sinceQueryState"); err != nil {
		return "", 0, err
	}
	if c.args.Get("maxChanges").IsNull() {
		return since, -1, nil
	}
	n, err := c.uint("maxChanges", 0)
	return since, int(min(n, 1<<30)), err
}

// appendChanges appends the response to a /changes.
func (c *call) appendChanges(since string, x *mailbox.Changes, letter byte) {
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","oldState":`...)
	c.out = jmap.AppendString(c.out, since)
	c.out = jmap.AppendString(append(c.out, `,"newState":`...), x.State.String())
	c.out = jmap.AppendBool(append(c.out, `,"hasMoreChanges":`...), x.More)
	c.out = appendIDs(append(c.out, `,"created":`...), letter, x.Created)
	c.out = appendIDs(append(c.out, `,"updated":`...), letter, x.Updated)
	c.out = appendIDs(append(c.out, `,"destroyed":`...), letter, x.Destroyed)
	c.out = append(c.out, '}')
}

// changes answers a /changes for Emails, Threads or Mailboxes.
func (c *call) changes(letter byte, of func(*mailbox.Reading, mailbox.State, int) (mailbox.Changes, error),
	more func(*mailbox.Changes)) error {
	since, limit, err := c.changesArguments(false)
	if err != nil {
		return err
	}
	state, err := mailbox.ParseState(since)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		x, err := of(d, state, limit)
		if err != nil {
			return err
		}
		c.appendChanges(since, &x, letter)
		if more != nil {
			more(&x)
		}
		return nil
	})
}

// emailChanges answers Email/changes.
//
// Implements: RFC 8621 §4.3 Email/changes
func emailChanges(c *call) error {
	return c.changes(letterEmail, (*mailbox.Reading).EmailChanges, nil)
}

// threadChanges answers Thread/changes.
//
// Implements: RFC 8621 §3.2 Thread/changes
func threadChanges(c *call) error {
	return c.changes(letterThread, (*mailbox.Reading).ThreadChanges, nil)
}

// threadGet answers Thread/get.
//
// Implements: RFC 8621 §3.1 Thread/get
func threadGet(c *call) error {
	g, err := c.getArguments(false)
	if err != nil {
		return err
	}
	if err := g.only("id", "emailIds"); err != nil {
		return err
	}
	if g.all {
		return &jmap.Error{Type: "requestTooLarge", Description: "Threads are got by their ids."}
	}
	emails := g.wants("emailIds")
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		states, err := d.States()
		if err != nil {
			return err
		}
		c.beginGet(states.Email.String())
		var notFound []string
		first := true
		for _, id := range g.ids {
			u, ok := parseID(letterThread, id)
			var list []note.UNID
			if ok {
				if list, err = d.ThreadOf(u); err != nil {
					return err
				}
			}
			if len(list) == 0 {
				notFound = append(notFound, id)
				continue
			}
			if !first {
				c.out = append(c.out, ',')
			}
			first = false
			c.out = appendID(append(c.out, `{"id":`...), letterThread, u)
			if emails {
				c.out = appendIDs(append(c.out, `,"emailIds":`...), letterEmail, list)
			}
			c.out = append(c.out, '}')
		}
		c.endGet(notFound)
		return nil
	})
}
