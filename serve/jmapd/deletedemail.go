package jmapd

import (
	"errors"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

var deletedProperties = []string{"id", "from", "subject", "size", "receivedAt", "deletedAt", "mailboxIds"}

func appendDeleted(dst []byte, x *mailbox.Recoverable, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", idOf(letterEmail, x.UNID))
	if wants("from") {
		o.Name("from")
		o.B = appendAddressList(o.B, x.From)
	}
	if wants("subject") {
		o.Name("subject")
		o.B = appendWords(o.B, []byte(x.Subject))
	}
	if wants("size") {
		o.Uint("size", x.Size)
	}
	if wants("receivedAt") {
		o.Name("receivedAt")
		o.B = jmap.AppendUTCDate(o.B, x.Received)
	}
	if wants("deletedAt") {
		o.Name("deletedAt")
		o.B = jmap.AppendUTCDate(o.B, x.Deleted)
	}
	if wants("mailboxIds") {
		o.Name("mailboxIds")
		o.B = appendMailboxSet(o.B, x.Folders)
	}
	return o.End()
}

// appendMailboxSet appends folders as an Id[Boolean], as the mailboxIds of an Email.
func appendMailboxSet(dst []byte, list []mailbox.Folder) []byte {
	o := jmap.NewWriter(dst)
	for i := range list {
		o.Bool(idOf(letterFolder, list[i].UNID), true)
	}
	return o.End()
}

func deletedState(list []mailbox.Recoverable) string {
	var all []byte
	for i := range list {
		all = append(all, list[i].UNID[:]...)
	}
	u := note.DeriveUNID(all)
	return u.String()[:16]
}

// deletedGet answers DeletedEmail/get: the messages of the account that were deleted and can be restored, the newest
// first, at most mailbox.MaxRecoverable. Their ids are those of the Emails.
func deletedGet(c *call) error {
	g, err := c.getArguments(own, deletedProperties)
	if err != nil {
		return err
	}
	list, _, err := c.account.File.Recoverable(c.ctx, time.Time{})
	if err != nil {
		return err
	}
	answerGet(&g, deletedState(list), list, func(id string) *mailbox.Recoverable {
		for i := range list {
			if idOf(letterEmail, list[i].UNID) == id {
				return &list[i]
			}
		}
		return nil
	}, func(dst []byte, x *mailbox.Recoverable) []byte { return appendDeleted(dst, x, g.wants) })
	return nil
}

// deletedRestore answers DeletedEmail/restore. It moves deleted messages back to the mailboxes of their mailboxIds. In
// the response, restored maps the id of each to its new mailboxIds, and notRestored the ids of others to a SetError.
func deletedRestore(c *call) error {
	if err := c.arguments(own, "ids"); err != nil {
		return err
	}
	ids, some, err := c.list("ids")
	if err == nil && !some {
		err = invalid("ids is missing")
	}
	if err == nil {
		err = c.atMost(len(ids), "ids", "maxObjectsInSet")
	}
	if err != nil {
		return err
	}
	ids = c.once(ids)
	unids := make([]note.UNID, len(ids))
	for i, id := range ids {
		unids[i], _ = parseID(letterEmail, id) // a malformed id is the zero UNID, which no message has
	}
	res, err := c.account.File.Recover(c.ctx, unids)
	if err != nil {
		return err
	}
	var done []entry
	var failed []failure
	for i, x := range res {
		switch {
		case errors.Is(x.Err, mailbox.ErrNoMessage):
			failed = append(failed, failure{ids[i], &jmap.Error{Type: "notFound"}})
		case x.Err != nil:
			failed = append(failed, failure{ids[i], x.Err})
		default:
			o := jmap.NewWriter(nil)
			o.Name("mailboxIds")
			o.B = appendMailboxSet(o.B, x.Folders)
			done = append(done, entry{ids[i], o.End()})
		}
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	c.appendBoth(&o, "restored", done, "notRestored", failed)
	c.out = o.End()
	return nil
}
