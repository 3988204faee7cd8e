package jmapd

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// Each submission is a profile note of the mail file. One more profile note lists them with the send time of each.
// Every change of a submission also changes the list, so the MODSEQ of the list is the state.
const (
	submissionsProfile = "Submissions"
	submissionForm     = "EmailSubmission"
	itemList           = "List" // "unid sendAt", oldest first
	itemGoneList       = "Gone" // "unid modseq", of those removed last
	itemIdentity       = "Identity"
	itemEmail          = "Email"
	itemThread         = "Thread"
	itemEnvelope       = "Envelope" // JSON
	itemSendAt         = "SendAt"
	itemQueueID        = "QueueID"
	itemCanceled       = "Canceled"
	itemRecipients     = "Recipients"
	itemRefusals       = "Refusals" // parallel to Recipients: the SMTP reply, "" for an accepted recipient
	letterSubmission   = 's'
)

// Bounds of submissions: how many are kept, for how long, and how many removed ones are remembered.
const (
	maxSubmissions    = 1000
	keepSubmissions   = 30 * 24 * time.Hour
	maxSubmissionGone = 200
)

// submission is an EmailSubmission.
type submission struct {
	unid            note.UNID
	identity        string
	email, thread   note.UNID
	envelope        string
	sendAt          int64
	queue           note.UNID
	canceled        bool
	recipients      []string
	refusals        []string
	created, change note.ModSeq
}

func (m *submission) items() note.Items {
	return note.MakeItems(
		note.Item{Name: "Form", Value: note.Text(submissionForm)},
		note.Item{Name: itemIdentity, Value: note.Text(m.identity)},
		note.Item{Name: itemEmail, Value: note.Text(m.email.String())},
		note.Item{Name: itemThread, Value: note.Text(m.thread.String())},
		note.Item{Name: itemEnvelope, Value: note.Text(m.envelope)},
		note.Item{Name: itemSendAt, Value: note.Int(m.sendAt)},
		note.Item{Name: itemQueueID, Value: note.Text(m.queue.String())},
		note.Item{Name: itemCanceled, Value: note.Bool(m.canceled)},
		note.Item{Name: itemRecipients, Value: note.TextList(m.recipients...)},
		note.Item{Name: itemRefusals, Value: note.TextList(m.refusals...)},
	)
}

func (m *submission) read(items note.Items) {
	m.identity, m.envelope = items.Get(itemIdentity).AsText(), items.Get(itemEnvelope).AsText()
	m.email, _ = note.ParseUNID(items.Get(itemEmail).AsText())
	m.thread, _ = note.ParseUNID(items.Get(itemThread).AsText())
	m.queue, _ = note.ParseUNID(items.Get(itemQueueID).AsText())
	m.sendAt, m.canceled = items.Get(itemSendAt).AsInt(), items.Get(itemCanceled).AsBool()
	m.recipients, m.refusals = items.Get(itemRecipients).AsTextList(), items.Get(itemRefusals).AsTextList()
	for len(m.refusals) < len(m.recipients) {
		m.refusals = append(m.refusals, "")
	}
}

// undo returns the undoStatus.
func (m *submission) undo(now int64) string {
	switch {
	case m.canceled:
		return "canceled"
	case m.sendAt > now:
		return "pending"
	}
	return "final"
}

// listed is an entry of the list.
type listed struct {
	unid   note.UNID
	sendAt int64
}

// submissions is the list of submissions at time now.
type submissions struct {
	items note.Items
	list  []listed
	mod   note.ModSeq
	now   int64
}

func (c *call) readSubmissions(d *mailbox.Reading) (*submissions, error) {
	x := &submissions{now: c.s.env.Clock.Now().Unix()}
	var err error
	x.items, x.mod, err = d.Profile(c.account.File.ProfileID(submissionsProfile))
	for _, line := range x.items.Get(itemList).AsTextList() {
		id, at, _ := strings.Cut(line, " ")
		u, err := note.ParseUNID(id)
		n, err2 := strconv.ParseInt(at, 10, 64)
		if err == nil && err2 == nil {
			x.list = append(x.list, listed{u, n})
		}
	}
	return x, err
}

// state returns the state: the MODSEQ of the list, and the latest send time that has passed. At its send time a
// submission becomes final without a change of the list.
func (x *submissions) state() string {
	passed := int64(0)
	for _, m := range x.list {
		if m.sendAt <= x.now {
			passed = max(passed, m.sendAt)
		}
	}
	return submissionState(2*uint64(x.mod), passed)
}

// submissionState prints a state. A moment is twice a MODSEQ, so that a removal after a MODSEQ has an odd moment of its
// own before the next MODSEQ.
func submissionState(moment uint64, passed int64) string {
	return strconv.FormatUint(moment, 16) + "-" + strconv.FormatInt(passed, 16)
}

// trim splits a list into the submissions to keep and those that are too old or too many.
func (x *submissions) trim(list []listed) (keep []listed, old []note.UNID) {
	for i, l := range list {
		if len(list)-i > maxSubmissions || l.sendAt < x.now-int64(keepSubmissions.Seconds()) {
			old = append(old, l.unid)
		} else {
			keep = append(keep, l)
		}
	}
	return keep, old
}

// itemsOf returns the items of the list note for these submissions. gone were removed in this change.
func (x *submissions) itemsOf(list []listed, gone []note.UNID) note.Items {
	var lines []string
	for _, l := range list {
		lines = append(lines, l.unid.String()+" "+strconv.FormatInt(l.sendAt, 10))
	}
	items := x.items.With("Form", note.Text(submissionsProfile)).With(itemList, note.TextList(lines...))
	if len(gone) > 0 {
		// The MODSEQ of this change is not known yet, so record the one before it.
		was := x.items.Get(itemGoneList).AsTextList()
		for _, u := range gone {
			was = append(was, u.String()+" "+strconv.FormatUint(uint64(x.mod), 10))
		}
		items = items.With(itemGoneList, note.TextList(was[max(0, len(was)-maxSubmissionGone):]...))
	}
	// Change the note even if the list is the same, so that it gets a new MODSEQ.
	return items.With("Sequence", note.Int(x.items.Get("Sequence").AsInt()+1))
}

// load reads one submission. It returns nil if the submission is not in the list.
func (x *submissions) load(d *mailbox.Reading, u note.UNID) (*submission, error) {
	if !slices.ContainsFunc(x.list, func(l listed) bool { return l.unid == u }) {
		return nil, nil
	}
	items, created, mod, err := d.ProfileSince(u)
	if err != nil || items == nil {
		return nil, err
	}
	m := &submission{unid: u, created: created, change: mod}
	m.read(items)
	return m, nil
}

var submissionProperties = []string{"id", "identityId", "emailId", "threadId", "envelope", "sendAt", "undoStatus",
	"deliveryStatus", "dsnBlobIds", "mdnBlobIds"}

// submissionGet answers EmailSubmission/get.
//
// Implements: RFC 8621 §7.1 EmailSubmission/get
func submissionGet(c *call) error {
	g, err := c.getArguments(own)
	if err != nil {
		return err
	}
	if err := g.only(submissionProperties...); err != nil {
		return err
	}
	var x *submissions
	var found []*submission
	var notFound []string
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) (err error) {
		if x, err = c.readSubmissions(d); err != nil {
			return err
		}
		ids := make([]note.UNID, 0, len(g.ids))
		for _, id := range g.ids {
			u, _ := parseID(letterSubmission, id)
			ids = append(ids, u)
		}
		if g.all {
			for _, l := range x.list {
				ids = append(ids, l.unid)
			}
		}
		if len(ids) > c.s.opt.Limits.ObjectsInGet {
			return &jmap.Error{Type: "requestTooLarge", Description: "There are more submissions than maxObjectsInGet."}
		}
		for i, u := range ids {
			m, err := x.load(d, u)
			if err != nil {
				return err
			}
			if m == nil && !g.all {
				notFound = append(notFound, g.ids[i])
			} else if m != nil {
				found = append(found, m)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.beginGet(x.state())
	for i, m := range found {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		if err := c.appendSubmission(m, x.now, g.wants); err != nil {
			return err
		}
	}
	c.endGet(notFound)
	return nil
}

func (c *call) appendSubmission(m *submission, now int64, wants func(string) bool) error {
	o := jmap.NewWriter(c.out)
	o.Text("id", idOf(letterSubmission, m.unid))
	if wants("identityId") {
		o.Text("identityId", m.identity)
	}
	if wants("emailId") {
		o.Text("emailId", idOf(letterEmail, m.email))
	}
	if wants("threadId") {
		o.Text("threadId", idOf(letterThread, m.thread))
	}
	if wants("envelope") {
		o.Raw("envelope", m.envelope)
	}
	if wants("sendAt") {
		o.Name("sendAt")
		o.B = jmap.AppendUTCDate(o.B, time.Unix(m.sendAt, 0))
	}
	if wants("undoStatus") {
		o.Text("undoStatus", m.undo(now))
	}
	if wants("deliveryStatus") {
		o.Name("deliveryStatus")
		var err error
		if o.B, err = c.appendDelivery(o.B, m, now); err != nil {
			return err
		}
	}
	for _, p := range []string{"dsnBlobIds", "mdnBlobIds"} {
		if wants(p) {
			o.Raw(p, "[]")
		}
	}
	c.out = o.End()
	return nil
}

// appendDelivery appends the deliveryStatus of each recipient.
//
// Implements: RFC 8621 §7 deliveryStatus
func (c *call) appendDelivery(dst []byte, m *submission, now int64) ([]byte, error) {
	if m.undo(now) != "final" {
		return append(dst, "null"...), nil
	}
	progress, err := c.s.backend.Progress(c.ctx, m.queue, m.recipients)
	if err != nil {
		return dst, err
	}
	o := jmap.NewWriter(dst)
	for i, to := range m.recipients {
		p := Progress{Delivered: DeliveryUnknown}
		switch {
		case m.refusals[i] != "":
			p = Progress{m.refusals[i], DeliveryNo}
		case i < len(progress):
			p = progress[i]
		}
		if p.Reply == "" {
			p.Reply = "250 2.0.0 Queued"
		}
		name := jmap.AppendString(nil, to)
		o.Name(string(name[1 : len(name)-1]))
		in := jmap.NewWriter(o.B)
		in.Text("smtpReply", p.Reply)
		in.Text("delivered", string(p.Delivered))
		in.Text("displayed", "unknown")
		o.B = in.End()
	}
	return o.End(), nil
}

// submissionChanges answers EmailSubmission/changes.
//
// Implements: RFC 8621 §7.2 EmailSubmission/changes
func submissionChanges(c *call) error {
	since, limit, err := c.changesArguments(own)
	if err != nil {
		return err
	}
	var ids [3][]string
	var state string
	var more bool
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		x, err := c.readSubmissions(d)
		if err != nil {
			return err
		}
		ids, state, more, err = x.since(d, since, limit)
		return err
	})
	if err != nil {
		return err
	}
	c.appendIDChanges(since, state, more, ids)
	return nil
}

// submissionChange is a change of the list: at the moment of a MODSEQ, or when the send time passed.
type submissionChange struct {
	at   uint64 // moment; 0 if the submission became final by time alone
	time int64  // send time
	id   string
	what int // created, updated, destroyed
}

// since returns the submissions created, updated and destroyed since a state. Changes with a MODSEQ come first, in that
// order. Those that became final by time alone follow, in order of send time.
func (x *submissions) since(d *mailbox.Reading, since string,
	limit int) (ids [3][]string, state string, more bool, err error) {
	from, passed, err := x.parseState(since)
	if err != nil || since == x.state() {
		return ids, since, false, err
	}
	list, err := x.changedSince(d, from, passed)
	if err != nil {
		return ids, "", false, err
	}
	list, err = x.goneSince(list, from)
	if err != nil {
		return ids, "", false, err
	}
	slices.SortStableFunc(list, func(a, b submissionChange) int {
		return cmp.Or(cmp.Compare(min(b.at, 1), min(a.at, 1)), cmp.Compare(a.at, b.at), cmp.Compare(a.time, b.time))
	})
	state = x.state()
	if limit > 0 && len(list) > limit {
		if list, state = x.firstOf(list, limit, passed); list == nil {
			return ids, "", false, mailbox.ErrForgotten
		}
		more = true
	}
	for _, ch := range list {
		ids[ch.what] = append(ids[ch.what], ch.id)
	}
	return ids, state, more, nil
}

// parseState parses the output of submissionState.
func (x *submissions) parseState(s string) (moment uint64, passed int64, err error) {
	head, tail, ok := strings.Cut(s, "-")
	moment, err1 := strconv.ParseUint(head, 16, 64)
	passed, err2 := strconv.ParseInt(tail, 16, 64)
	if !ok || err1 != nil || err2 != nil || moment > 2*uint64(x.mod) {
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
		return list[:n], submissionState(2*uint64(x.mod), last.time)
	}
	return list[:n], submissionState(last.at, passed)
}

// changedSince returns the submissions of the list that were created or changed since a state.
func (x *submissions) changedSince(d *mailbox.Reading, from uint64, passed int64) (list []submissionChange, err error) {
	for _, l := range x.list {
		m, err := x.load(d, l.unid)
		if err != nil {
			return nil, err
		}
		ch := submissionChange{id: idOf(letterSubmission, l.unid), time: l.sendAt, what: 1}
		switch {
		case m == nil:
			continue
		case 2*uint64(m.created) > from:
			// Use the MODSEQ of the creation, not of the last change. Otherwise a client that stopped in between would
			// get an update for an object that it never saw.
			ch.at, ch.what = 2*uint64(m.created), 0
		case 2*uint64(m.change) > from:
			ch.at = 2 * uint64(m.change)
		case m.canceled || l.sendAt <= passed || l.sendAt > x.now:
			continue
		}
		list = append(list, ch)
	}
	return list, nil
}

// goneSince appends the submissions that were removed since a state.
func (x *submissions) goneSince(list []submissionChange, from uint64) ([]submissionChange, error) {
	gone := x.items.Get(itemGoneList).AsTextList()
	for i, line := range gone {
		id, at, _ := strings.Cut(line, " ")
		mod, _ := strconv.ParseUint(at, 10, 64)
		u, err := note.ParseUNID(id)
		if err != nil || 2*mod+1 <= from {
			continue
		}
		if i == 0 && len(gone) >= maxSubmissionGone {
			return nil, mailbox.ErrForgotten
		}
		list = append(list, submissionChange{at: 2*mod + 1, id: idOf(letterSubmission, u), what: 2})
	}
	return list, nil
}

// submissionResults returns the ids that a query finds, in order.
//
// Implements: RFC 8621 §7.3 EmailSubmission/query
func (c *call) submissionResults(d *mailbox.Reading, x *submissions) (ids []string, err error) {
	var all []*submission
	for _, l := range x.list {
		m, err := x.load(d, l.unid)
		if err != nil {
			return nil, err
		}
		if m != nil {
			all = append(all, m)
		}
	}
	filter := c.args.Get("filter")
	for _, m := range all {
		fits := true
		if !filter.IsNull() {
			r := filterReader{left: maxFilterConditions}
			if fits, err = r.submission(filter, m, x.now, 0); err != nil {
				return nil, err
			}
		}
		if !fits {
			m.unid = note.UNID{}
		}
	}
	all = slices.DeleteFunc(all, func(m *submission) bool { return m.unid.IsZero() })
	if err := c.sortSubmissions(all); err != nil {
		return nil, err
	}
	for _, m := range all {
		ids = append(ids, idOf(letterSubmission, m.unid))
	}
	return ids, nil
}

func (c *call) sortSubmissions(all []*submission) error {
	keys, err := c.sortKeys("emailId", "threadId", "sentAt", "sendAt")
	if err != nil {
		return err
	}
	slices.SortStableFunc(all, func(a, b *submission) int {
		for _, k := range keys {
			n := 0
			switch k.property {
			case "emailId":
				n = a.email.Compare(b.email)
			case "threadId":
				n = a.thread.Compare(b.thread)
			default:
				n = cmp.Compare(a.sendAt, b.sendAt)
			}
			if k.down {
				n = -n
			}
			if n != 0 {
				return n
			}
		}
		return 0
	})
	return nil
}

// submission reports whether a filter matches a submission.
func (r *filterReader) submission(v *jmap.Value, m *submission, now int64, depth int) (bool, error) {
	if r.left--; r.left < 0 || depth > maxFilterDepth {
		return false, unsupportedFilter("The filter has more conditions, or nests them deeper, than this server takes.")
	}
	if v.Kind() != jmap.Object {
		return false, invalid("a filter is an object")
	}
	if op, ok := v.Get("operator").Text(); ok {
		of := v.Get("conditions")
		if of.Kind() != jmap.Array || !slices.Contains([]string{"AND", "OR", "NOT"}, op) {
			return false, invalid("a FilterOperator has an operator, AND, OR or NOT, and conditions")
		}
		result := op != "OR"
		for i := range of.Len() {
			ok, err := r.submission(of.At(i), m, now, depth+1)
			if err != nil {
				return false, err
			}
			if ok != (op == "AND") {
				result = ok && op == "OR"
			}
		}
		return result, nil
	}
	result := true
	for i := range v.Len() {
		ok, err := submissionTest(v.Name(i), v.At(i), m, now)
		if err != nil {
			return false, err
		}
		result = result && ok
	}
	return result, nil
}

func submissionTest(name string, v *jmap.Value, m *submission, now int64) (bool, error) {
	text, isText := v.Text()
	ids, isList := texts(v)
	switch {
	case name == "identityIds" && isList:
		return slices.Contains(ids, m.identity), nil
	case name == "emailIds" && isList:
		return slices.Contains(ids, idOf(letterEmail, m.email)), nil
	case name == "threadIds" && isList:
		return slices.Contains(ids, idOf(letterThread, m.thread)), nil
	case name == "undoStatus" && isText:
		return m.undo(now) == text, nil
	case (name == "before" || name == "after") && isText:
		t, ok := jmap.ParseDate(text, true)
		if !ok {
			return false, invalid("%s is no UTCDate", name)
		}
		return (m.sendAt < t.Unix()) == (name == "before"), nil
	case slices.Contains([]string{"identityIds", "emailIds", "threadIds", "undoStatus", "before", "after"}, name):
		return false, invalid("the filter's %s is not what it should be", name)
	}
	return false, unsupportedFilter("There is no condition " + name[:min(len(name), 100)] + " here.")
}

// submissionQuery answers EmailSubmission/query.
//
// Implements: RFC 8621 §7.3 EmailSubmission/query
func submissionQuery(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "position", "anchor", "anchorOffset", "limit",
		"calculateTotal"); err != nil {
		return err
	}
	if err := c.needAccount(own); err != nil {
		return err
	}
	w, err := c.windowArguments()
	if err != nil {
		return err
	}
	var list []string
	var state string
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		x, err := c.readSubmissions(d)
		if err == nil {
			state = x.state()
			list, err = c.submissionResults(d, x)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.answerQuery(&w, list, state)
}

// submissionQueryChanges answers EmailSubmission/queryChanges.
//
// Implements: RFC 8621 §7.4 EmailSubmission/queryChanges
func submissionQueryChanges(c *call) error {
	if err := c.allow("accountId", "filter", "sort", "sinceQueryState", "maxChanges", "upToId",
		"calculateTotal"); err != nil {
		return err
	}
	since, limit, err := c.queryChangesArguments()
	if err != nil {
		return err
	}
	if !c.account.Personal {
		return &jmap.Error{Type: "accountNotSupportedByMethod"}
	}
	total, err := c.bool("calculateTotal", false)
	if err != nil {
		return err
	}
	var ids [3][]string
	var list []string
	var state string
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		x, err := c.readSubmissions(d)
		if err != nil {
			return err
		}
		if ids, state, _, err = x.since(d, since, 0); err != nil {
			return err
		}
		list, err = c.submissionResults(d, x)
		return err
	})
	if err != nil {
		return err
	}
	removed := append(ids[2], ids[1]...)
	added := append(ids[0], ids[1]...)
	if n := len(slices.DeleteFunc(slices.Clone(added),
		func(id string) bool { return !slices.Contains(list, id) })); limit >= 0 && len(removed)+n > limit {
		return mailbox.ErrManyChanges
	}
	c.answerQueryChanges(since, state, removed, added, list, total)
	return nil
}
