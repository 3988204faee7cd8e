package jmapd

import (
	"slices"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// window holds the arguments of a /query that select a part of the results.
type window struct {
	position, offset int64
	anchor           string
	limit            int
	total            bool
}

// maxResults bounds the results of one query. The response states this limit if the client asked for more.
const maxResults = 10_000

// queryArguments reads the arguments of a /query, except those that a type has for itself; more lists these.
//
// Implements: RFC 8620 §5.5 /query
func (c *call) queryArguments(personal bool, more ...string) (w window, err error) {
	if err = c.arguments(personal, append(more, "filter", "sort", "position", "anchor", "anchorOffset", "limit",
		"calculateTotal")...); err != nil {
		return w, err
	}
	if w.position, err = c.int("position", 0); err != nil {
		return w, err
	}
	if w.anchor, err = c.text("anchor"); err != nil {
		return w, err
	}
	if w.offset, err = c.int("anchorOffset", 0); err != nil {
		return w, err
	}
	limit, err := c.uint("limit", maxResults)
	if err != nil {
		return w, err
	}
	w.limit = int(min(limit, maxResults))
	w.total, err = c.bool("calculateTotal", false)
	return w, err
}

// queryResults are all ids that a query finds, in order.
type queryResults struct {
	ids   []string
	state string
}

// query answers a /query of a type whose results find returns all at once. more lists its further arguments.
func (c *call) query(personal bool, find func() (queryResults, error), more ...string) error {
	w, err := c.queryArguments(personal, more...)
	if err != nil {
		return err
	}
	found, err := find()
	if err != nil {
		return err
	}
	return c.answerQuery(&w, &found, true, maxResults)
}

// answerQuery appends the response to a /query. exact reports whether the server can calculate changes. most is the
// bound of the results, which the response states if the client asked for more.
func (c *call) answerQuery(w *window, found *queryResults, exact bool, most int64) error {
	list, position, err := w.cut(found.ids)
	if err != nil {
		return err
	}
	c.beginQuery(found.state, exact, position)
	for i, id := range list {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = jmap.AppendString(c.out, id)
	}
	c.endQuery(w, len(found.ids), most)
	return nil
}

// cut returns the part of a list of results that lies in the window, and the position at which it begins.
func (w *window) cut(list []string) (out []string, position int, err error) {
	from := w.position
	switch {
	case w.anchor != "":
		i := slices.Index(list, w.anchor)
		if i < 0 {
			return nil, 0, mailbox.ErrNoAnchor
		}
		from = int64(i) + w.offset
	case from < 0:
		from += int64(len(list))
	}
	from = min(max(from, 0), int64(len(list)))
	list = list[from:]
	return list[:min(len(list), w.limit)], int(from), nil
}

// beginQuery appends the response to a /query up to the opening bracket of its ids.
func (c *call) beginQuery(state string, exact bool, position int) {
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","queryState":`...)
	c.out = append(jmap.AppendString(c.out, state), `,"canCalculateChanges":`...)
	c.out = append(jmap.AppendBool(c.out, exact), `,"position":`...)
	c.out = append(appendInt(c.out, position), `,"ids":[`...)
}

// endQuery appends the rest of the response, from the closing bracket of the ids. It states the bound most unless the
// client asked for less.
func (c *call) endQuery(w *window, total int, most int64) {
	c.out = append(c.out, ']')
	if w.total {
		c.out = appendInt(append(c.out, `,"total":`...), total)
	}
	if n, ok := c.args.Get("limit").Int(); !ok || n > most {
		c.out = appendInt(append(c.out, `,"limit":`...), int(most))
	}
	c.out = append(c.out, '}')
}

// since holds the arguments of a /queryChanges that all types have.
type since struct {
	state string
	// limit is the greatest number of changes, negative for none. With 0 the call succeeds only if nothing has changed.
	limit int
	total bool
}

// queryChangesArguments reads the arguments of a /queryChanges, except those that a type has for itself; more lists
// these.
//
// Implements: RFC 8620 §5.6 /queryChanges
func (c *call) queryChangesArguments(personal bool, more ...string) (s since, err error) {
	if err = c.arguments(personal, append(more, "filter", "sort", "sinceQueryState", "maxChanges", "upToId",
		"calculateTotal")...); err != nil {
		return s, err
	}
	if s.state, err = c.needText("sinceQueryState"); err != nil {
		return s, err
	}
	n, err := c.uint("maxChanges", 0)
	if err != nil {
		return s, err
	}
	if s.limit = int(min(n, 1<<30)); c.args.Get("maxChanges").IsNull() {
		s.limit = -1
	}
	s.total, err = c.bool("calculateTotal", false)
	return s, err
}

// queryDelta holds the changes of a query. The frame reports those ids of added that are in queryResults.
type queryDelta struct {
	queryResults
	removed, added []string
}

// queryChanges answers a /queryChanges of a type whose changes find returns. more lists its further arguments.
func (c *call) queryChanges(personal bool, find func(state string) (queryDelta, error), more ...string) error {
	s, err := c.queryChangesArguments(personal, more...)
	if err != nil {
		return err
	}
	x, err := find(s.state)
	if err != nil {
		return err
	}
	added := make(map[string]bool, len(x.added))
	for _, id := range x.added {
		added[id] = true
	}
	n := len(x.removed)
	c.beginQueryChanges(&s, x.state, len(x.ids))
	c.out = append(jmap.AppendStrings(c.out, x.removed), `,"added":[`...)
	for i, id := range x.ids {
		if !added[id] {
			continue
		}
		if n++; n > len(x.removed)+1 {
			c.out = append(c.out, ',')
		}
		c.out = jmap.AppendString(append(c.out, `{"id":`...), id)
		c.out = append(appendInt(append(c.out, `,"index":`...), i), '}')
	}
	if s.limit >= 0 && n > s.limit {
		return mailbox.ErrManyChanges
	}
	c.out = append(c.out, "]}"...)
	return nil
}

// beginQueryChanges appends the response to a /queryChanges up to the list of removed ids.
func (c *call) beginQueryChanges(s *since, state string, total int) {
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","oldQueryState":`...)
	c.out = jmap.AppendString(c.out, s.state)
	c.out = jmap.AppendString(append(c.out, `,"newQueryState":`...), state)
	if s.total {
		c.out = appendInt(append(c.out, `,"total":`...), total)
	}
	c.out = append(c.out, `,"removed":`...)
}

// changeKind is the kind of a change that /changes reports.
type changeKind uint8

const (
	wasCreated changeKind = iota
	wasUpdated
	wasDestroyed
	changeKinds
)

// delta holds the changes of a type since a state.
type delta struct {
	state string
	more  bool
	ids   [changeKinds][]string
	// letter and unids, if letter is set, stand for ids that consist of a letter and a UNID.
	letter byte
	unids  [changeKinds][]note.UNID
	// properties is the JSON of updatedProperties, or "" for a type without it.
	properties string
}

// changes answers a /changes of a type whose changes since a state find returns. A limit of 0 means none.
//
// Implements: RFC 8620 §5.2 /changes
func (c *call) changes(personal bool, find func(d *mailbox.Reading, state string, limit int) (delta, error)) error {
	state, limit, err := c.changesArguments(personal)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		x, err := find(d, state, limit)
		if err == nil {
			c.appendChanges(state, &x)
		}
		return err
	})
}

// changesArguments reads the arguments of a /changes method.
func (c *call) changesArguments(personal bool) (state string, limit int, err error) {
	if err := c.arguments(personal, "sinceState", "maxChanges"); err != nil {
		return "", 0, err
	}
	if state, err = c.needText("sinceState"); err != nil {
		return "", 0, err
	}
	n, err := c.uint("maxChanges", 0)
	if v := c.args.Get("maxChanges"); err == nil && !v.IsNull() && n == 0 {
		err = invalid("maxChanges is 0")
	}
	return state, int(min(n, 1<<30)), err
}

// appendChanges appends the response to a /changes.
func (c *call) appendChanges(state string, x *delta) {
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Text("oldState", state)
	o.Text("newState", x.state)
	o.Bool("hasMoreChanges", x.more)
	for i, name := range [changeKinds]string{"created", "updated", "destroyed"} {
		if x.letter == 0 {
			o.Strings(name, x.ids[i]...)
			continue
		}
		o.Name(name)
		o.B = appendIDs(o.B, x.letter, x.unids[i])
	}
	if x.properties != "" {
		o.Raw("updatedProperties", x.properties)
	}
	c.out = o.End()
}

// fileChanges answers a /changes of Emails, Threads or Mailboxes, whose changes the mail file returns.
func (c *call) fileChanges(letter byte,
	of func(*mailbox.Reading, mailbox.State, int) (mailbox.Changes, error)) error {
	return c.changes(false, func(d *mailbox.Reading, since string, limit int) (out delta, err error) {
		state, err := mailbox.ParseState(since)
		if err != nil {
			return out, err
		}
		x, err := of(d, state, limit)
		out = delta{state: x.State.String(), more: x.More, letter: letter,
			unids: [changeKinds][]note.UNID{x.Created, x.Updated, x.Destroyed}}
		switch {
		case letter != letterFolder:
		case x.CountsOnly && len(x.Updated) > 0:
			out.properties = string(jmap.AppendStrings(nil, countProperties))
		default:
			out.properties = "null"
		}
		return out, err
	})
}
