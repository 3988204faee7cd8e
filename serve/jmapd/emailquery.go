package jmapd

import (
	"slices"
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

// emailFilter reads the argument filter.
//
// Implements: RFC 8621 §4.4.1 filtering
func (c *call) emailFilter() (mailbox.Filter, error) {
	searched := false
	return readFilter(c.args.Get("filter"), func(name string, v *jmap.Value) (mailbox.Filter, error) {
		if name != searchCondition || !slices.Contains(c.using, jmap.Search) {
			return emailCondition(name, v)
		}
		if searched {
			return mailbox.Filter{}, unsupportedFilter("The filter has more than one " + searchCondition + ".")
		}
		searched = true
		return c.searchFilter(v)
	}, joinEmailFilters)
}

// joinEmailFilters combines filters by AND, OR or NOT.
func joinEmailFilters(op string, of []mailbox.Filter) mailbox.Filter {
	kinds := map[string]mailbox.FilterKind{"AND": mailbox.FilterAnd, "OR": mailbox.FilterOr, "NOT": mailbox.FilterNot}
	return mailbox.Filter{Kind: kinds[op], Of: of}
}

// conditionKinds maps the properties of a FilterCondition to the filters that test them. Those that begin with "no"
// negate it. The properties of textTests are not in the map.
var conditionKinds = map[string]mailbox.FilterKind{
	"inMailbox": mailbox.FilterIn, "inMailboxOtherThan": mailbox.FilterElsewhere,
	"before": mailbox.FilterBefore, "after": mailbox.FilterAfter,
	"minSize": mailbox.FilterMin, "maxSize": mailbox.FilterMax,
	"hasKeyword": mailbox.FilterKeyword, "notKeyword": mailbox.FilterKeyword,
	"allInThreadHaveKeyword": mailbox.FilterThreadAll, "someInThreadHaveKeyword": mailbox.FilterThreadSome,
	"noneInThreadHaveKeyword": mailbox.FilterThreadSome,
	"hasAttachment":           mailbox.FilterAttached, "header": mailbox.FilterText,
}

// emailCondition reads one property of a FilterCondition.
func emailCondition(name string, v *jmap.Value) (f mailbox.Filter, err error) {
	bad := invalid("the filter's %.100q is not what it should be", name)
	f.Kind = conditionKinds[name]
	switch name {
	case "inMailbox":
		id, ok := v.Text()
		f.Folders = folderIDs([]string{id})
		return f, orBad(ok, bad)
	case "inMailboxOtherThan":
		ids, ok := texts(v)
		f.Folders = folderIDs(ids)
		return f, orBad(ok, bad)
	case "before", "after":
		s, _ := v.Text()
		t, ok := jmap.ParseDate(s, true)
		f.Time = t
		return f, orBad(ok, bad)
	case "minSize", "maxSize":
		n, ok := v.Int()
		f.Size = uint64(max(n, 0))
		return f, orBad(ok && n >= 0, bad)
	case "hasKeyword", "notKeyword", "allInThreadHaveKeyword", "someInThreadHaveKeyword", "noneInThreadHaveKeyword":
		k, ok := keyword(v)
		f.Keyword = k
		if strings.HasPrefix(name, "no") {
			f = mailbox.Filter{Kind: mailbox.FilterNot, Of: []mailbox.Filter{f}}
		}
		return f, orBad(ok, bad)
	case "hasAttachment":
		on, ok := v.Bool()
		if !on {
			f = mailbox.Filter{Kind: mailbox.FilterNot, Of: []mailbox.Filter{f}}
		}
		return f, orBad(ok, bad)
	case "header":
		text, ok := headerCriteria(v)
		f.Text = text
		return f, orBad(ok, bad)
	}
	test, ok := textTests[name]
	if !ok {
		return f, noCondition(name)
	}
	s, ok := v.Text()
	if !ok || len(s) > 4096 {
		return f, bad
	}
	return wordsFilter(test, s)
}

// headerCriteria reads the value of the condition "header": the name of a field, and a text that it must contain.
func headerCriteria(v *jmap.Value) (c mailbox.Criteria, ok bool) {
	list, ok := texts(v)
	if !ok || len(list) < 1 || len(list) > 2 || !fieldName(list[0]) {
		return c, false
	}
	c = mailbox.Criteria{Test: mailbox.TestHeader, Name: list[0]}
	if len(list) == 2 {
		c.Text = list[1]
	}
	return c, true
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
	c.endQuery(w, found.Total, maxResults)
	return nil
}

func (c *call) emailQueryArguments() (*mailbox.Query, *window, error) {
	w, err := c.queryArguments(false, "collapseThreads")
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

// emailQueryChanges answers Email/queryChanges.
//
// Implements: RFC 8621 §4.5 Email/queryChanges
func emailQueryChanges(c *call) error {
	s, err := c.queryChangesArguments(false, "collapseThreads")
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
	state, err := mailbox.ParseState(s.state)
	if err != nil {
		return err
	}
	last, _ := parseID(letterEmail, upTo)
	x, err := c.account.File.QueryChanges(c.ctx, q, state, s.limit, last)
	if err != nil {
		return err
	}
	c.beginQueryChanges(&s, x.States.Email.String(), x.Total)
	c.out = append(appendIDs(c.out, letterEmail, x.Removed), `,"added":[`...)
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

// emailChanges answers Email/changes.
//
// Implements: RFC 8621 §4.3 Email/changes
func emailChanges(c *call) error {
	return c.fileChanges(letterEmail, (*mailbox.Reading).EmailChanges)
}

// threadChanges answers Thread/changes.
//
// Implements: RFC 8621 §3.2 Thread/changes
func threadChanges(c *call) error {
	return c.fileChanges(letterThread, (*mailbox.Reading).ThreadChanges)
}

// threadGet answers Thread/get.
//
// Implements: RFC 8621 §3.1 Thread/get
func threadGet(c *call) error {
	g, err := c.getArguments(false, []string{"id", "emailIds"})
	if err != nil {
		return err
	}
	if g.all {
		return tooLarge("Threads are got by their ids.")
	}
	emails := g.wants("emailIds")
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		states, err := d.States()
		if err != nil {
			return err
		}
		g.begin(states.Email.String())
		for _, id := range g.ids {
			u, ok := parseID(letterThread, id)
			var list []note.UNID
			if ok {
				if list, err = d.ThreadOf(u); err != nil {
					return err
				}
			}
			if len(list) == 0 {
				g.miss(id)
				continue
			}
			g.next()
			c.out = appendID(append(c.out, `{"id":`...), letterThread, u)
			if emails {
				c.out = appendIDs(append(c.out, `,"emailIds":`...), letterEmail, list)
			}
			c.out = append(c.out, '}')
		}
		g.end()
		return nil
	})
}
