package jmapd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"doublet/mail/submission"
	"doublet/mailbox"
	"doublet/wire/jmap"
)

// submissionChanges answers EmailSubmission/changes.
//
// Implements: RFC 8621 §7.2 EmailSubmission/changes
func submissionChanges(c *call) error {
	return c.changes(own, func(d *mailbox.Reading, since string, limit int) (delta, error) {
		x, err := c.readSubmissions(d)
		if err != nil {
			return delta{}, err
		}
		return x.since(d, since, limit)
	})
}

// submissionChange is a change of the list: at the moment of a MODSEQ, or when the send time passed.
type submissionChange struct {
	at   uint64 // moment; 0 if the submission became final by time alone
	time int64  // send time
	id   string
	kind changeKind
}

// since returns the submissions created, updated and destroyed since a state. Changes with a MODSEQ come first, in that
// order. Those that became final by time alone follow, in order of send time.
func (x *submissions) since(d *mailbox.Reading, since string, limit int) (out delta, err error) {
	from, passed, err := x.parseState(since)
	if out.state = x.state(); err != nil || since == out.state {
		return out, err
	}
	list, err := x.changedSince(d, from, passed)
	if err == nil {
		list, err = x.goneSince(list, from)
	}
	if err != nil {
		return out, err
	}
	slices.SortStableFunc(list, func(a, b submissionChange) int {
		return cmp.Or(cmp.Compare(min(b.at, 1), min(a.at, 1)), cmp.Compare(a.at, b.at), cmp.Compare(a.time, b.time))
	})
	if limit > 0 && len(list) > limit {
		if list, out.state = x.firstOf(list, limit, passed); list == nil {
			return out, mailbox.ErrForgotten
		}
		out.more = true
	}
	for _, ch := range list {
		out.ids[ch.kind] = append(out.ids[ch.kind], ch.id)
	}
	return out, nil
}

// parseState parses the output of submissionState.
func (x *submissions) parseState(s string) (moment uint64, passed int64, err error) {
	head, tail, ok := strings.Cut(s, "-")
	moment, err1 := strconv.ParseUint(head, 16, 64)
	passed, err2 := strconv.ParseInt(tail, 16, 64)
	if !ok || err1 != nil || err2 != nil || moment > 2*uint64(x.Mod) {
		return 0, 0, mailbox.ErrForgotten
	}
	return moment, passed, nil
}

// firstOf returns at most limit changes from the start of a list, and the state after them. It never splits changes of
// one moment, and returns nil if the first moment has more than limit.
func (x *submissions) firstOf(list []submissionChange, limit int, passed int64) ([]submissionChange, string) {
	same := func(a, b *submissionChange) bool { return a.at == b.at && (a.at > 0 || a.time == b.time) }
	n := limit
	for n > 0 && same(&list[n-1], &list[n]) {
		n--
	}
	if n == 0 {
		return nil, ""
	}
	last := &list[n-1]
	if last.at == 0 {
		return list[:n], submissionState(2*uint64(x.Mod), last.time)
	}
	return list[:n], submissionState(last.at, passed)
}

// changedSince returns the submissions of the list that were created or changed since a state.
func (x *submissions) changedSince(d *mailbox.Reading, from uint64, passed int64) (list []submissionChange, err error) {
	for _, l := range x.Entries {
		m, err := x.Load(d, l.ID)
		if err != nil {
			return nil, err
		}
		ch := submissionChange{id: idOf(letterSubmission, l.ID), time: l.SendAt, kind: wasUpdated}
		switch {
		case m == nil:
			continue
		case 2*uint64(m.Created) > from:
			// Use the MODSEQ of the creation, not of the last change. Otherwise a client that stopped in between would
			// get an update for an object that it never saw.
			ch.at, ch.kind = 2*uint64(m.Created), wasCreated
		case 2*uint64(m.Changed) > from:
			ch.at = 2 * uint64(m.Changed)
		case m.Canceled || l.SendAt <= passed || l.SendAt > x.Now:
			continue
		}
		list = append(list, ch)
	}
	return list, nil
}

// goneSince appends the submissions that were removed since a state.
func (x *submissions) goneSince(list []submissionChange, from uint64) ([]submissionChange, error) {
	gone := x.Gone()
	for i, r := range gone {
		at := 2*uint64(r.Mod) + 1
		if at <= from {
			continue
		}
		if i == 0 && len(gone) >= submission.MaxGone {
			return nil, mailbox.ErrForgotten
		}
		list = append(list, submissionChange{at: at, id: idOf(letterSubmission, r.ID), kind: wasDestroyed})
	}
	return list, nil
}

// submissionQuery answers EmailSubmission/query.
//
// Implements: RFC 8621 §7.3 EmailSubmission/query
func submissionQuery(c *call) error {
	return c.query(own, func() (out queryResults, err error) {
		err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
			x, err := c.readSubmissions(d)
			if err == nil {
				out, err = c.submissionResults(d, x)
			}
			return err
		})
		return out, err
	})
}

// submissionQueryChanges answers EmailSubmission/queryChanges.
//
// Implements: RFC 8621 §7.4 EmailSubmission/queryChanges
func submissionQueryChanges(c *call) error {
	return c.queryChanges(own, func(since string) (out queryDelta, err error) {
		err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
			x, err := c.readSubmissions(d)
			if err != nil {
				return err
			}
			changes, err := x.since(d, since, 0)
			if err != nil {
				return err
			}
			updated := changes.ids[wasUpdated]
			out.removed = append(changes.ids[wasDestroyed], updated...)
			out.added = append(changes.ids[wasCreated], updated...)
			out.queryResults, err = c.submissionResults(d, x)
			return err
		})
		return out, err
	})
}

// submissionResults returns all results of a query for EmailSubmissions.
func (c *call) submissionResults(d *mailbox.Reading, x *submissions) (out queryResults, err error) {
	fits, err := match(c, x.condition)
	if err != nil {
		return out, err
	}
	keys, err := c.sortKeys("emailId", "threadId", "sentAt", "sendAt")
	if err != nil {
		return out, err
	}
	var found []*submission.Record
	for _, l := range x.Entries {
		m, err := x.Load(d, l.ID)
		if err != nil {
			return out, err
		}
		if m != nil && fits(m) {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, compareBy(keys, func(property string, a, b *submission.Record) int {
		switch property {
		case "emailId":
			return a.Email.Compare(b.Email)
		case "threadId":
			return a.Thread.Compare(b.Thread)
		}
		return cmp.Compare(a.SendAt, b.SendAt)
	}))
	for _, m := range found {
		out.ids = append(out.ids, idOf(letterSubmission, m.ID))
	}
	out.state = x.state()
	return out, nil
}

// condition reads one property of a FilterCondition.
func (x *submissions) condition(name string, v *jmap.Value) (matcher[*submission.Record], error) {
	text, isText := v.Text()
	ids, isList := texts(v)
	switch {
	case name == "identityIds" && isList:
		return func(m *submission.Record) bool { return slices.Contains(ids, m.Identity) }, nil
	case name == "emailIds" && isList:
		return func(m *submission.Record) bool { return slices.Contains(ids, idOf(letterEmail, m.Email)) }, nil
	case name == "threadIds" && isList:
		return func(m *submission.Record) bool { return slices.Contains(ids, idOf(letterThread, m.Thread)) }, nil
	case name == "undoStatus" && isText:
		return func(m *submission.Record) bool { return m.UndoStatus(x.Now) == text }, nil
	case (name == "before" || name == "after") && isText:
		t, ok := jmap.ParseDate(text, true)
		if !ok {
			return nil, invalid("%s is no UTCDate", name)
		}
		return func(m *submission.Record) bool { return (m.SendAt < t.Unix()) == (name == "before") }, nil
	case slices.Contains([]string{"identityIds", "emailIds", "threadIds", "undoStatus", "before", "after"}, name):
		return nil, invalid("the filter's %s is not what it should be", name)
	}
	return nil, noCondition(name)
}
