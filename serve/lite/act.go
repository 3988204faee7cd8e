package lite

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// act applies an action to messages: to those checked in a list, or to the one shown.
func (v *visit) act() error {
	do := v.form.Get("do")
	if do == "undo" {
		return v.undo()
	}
	var ids []note.UNID
	for _, s := range v.form.Values["m"] {
		u, err := unid(s)
		if err != nil {
			return err
		}
		if !slices.Contains(ids, u) && len(ids) < perPage {
			ids = append(ids, u)
		}
	}
	if len(ids) == 0 {
		return v.back("nothingSelected", 0, "")
	}
	folders, err := mailbox.Visible(v.box.Folders(v.ctx))
	if err != nil {
		return err
	}
	a := action{v: v, folders: folders}
	if s := v.form.Get("f"); s != "" {
		if a.from, err = unid(s); err != nil {
			return err
		}
	}
	switch do {
	case "read", "unread":
		return a.keyword(ids, mailbox.Seen, do == "read")
	case "flag", "unflag":
		return a.keyword(ids, mailbox.Flagged, do == "flag")
	case "pin", "unpin":
		return a.keyword(ids, pinned, do == "pin")
	case "archive":
		return a.moveToUse(ids, mailbox.UseArchive, "archivedCount")
	case "junk":
		a.set, a.clear = "$junk", "$notjunk" // filters learn from these keywords
		return a.moveToUse(ids, mailbox.UseJunk, "junkCount")
	case "notjunk":
		a.set, a.clear = "$notjunk", "$junk"
		return a.moveToUse(ids, mailbox.Inbox, "movedCount")
	case "move":
		to, err := unid(v.form.Get("to"))
		if err != nil {
			return err
		}
		return a.move(ids, to, "movedCount")
	case "delete":
		return a.remove(ids)
	}
	return a.own(do, ids)
}

// action is an action on messages of a mail file.
type action struct {
	v       *visit
	folders []mailbox.Folder
	from    note.UNID // the folder that the messages were shown in; zero for a search
	// set and clear are the keywords to set and clear together with a move, or "".
	set, clear string
}

func (a *action) folder(u note.UNID) *mailbox.Folder {
	for i := range a.folders {
		if a.folders[i].UNID == u {
			return &a.folders[i]
		}
	}
	return nil
}

// each changes messages and returns the number changed. It skips messages that were removed meanwhile.
func (a *action) each(ids []note.UNID, fn func(c *mailbox.Changing, id note.ID, i int) error) (int, error) {
	r, err := a.v.box.Change(a.v.ctx, len(ids), func(c *mailbox.Changing, i int) error {
		id, err := c.Find(ids[i])
		if err != nil {
			return err
		}
		return fn(c, id, i)
	})
	if err != nil {
		return 0, err
	}
	n := 0
	var failed error
	for _, err := range r.Errs {
		switch {
		case err == nil:
			n++
		case !errors.Is(err, mailbox.ErrNoMessage) || len(ids) == 1:
			failed = err
		}
	}
	if n > 0 {
		failed = nil // partial success counts as success, and the page shows the number
	}
	return n, failed
}

func (a *action) keyword(ids []note.UNID, word string, on bool) error {
	n, err := a.each(ids, func(c *mailbox.Changing, id note.ID, _ int) error { return c.SetKeyword(id, word, on) })
	if err != nil {
		return err
	}
	return a.v.back("done", n, "")
}

func (a *action) moveToUse(ids []note.UNID, use, said string) error {
	if f := mailbox.ForUse(a.folders, use); f != nil {
		return a.move(ids, f.UNID, said)
	}
	return errNotFound
}

// move moves messages from the folder in which they were shown to another one. Messages from a search are removed from
// all their other folders.
func (a *action) move(ids []note.UNID, to note.UNID, said string) error {
	if a.folder(to) == nil {
		return errNotFound
	}
	was := make([]note.UNID, len(ids))
	moved := make([]bool, len(ids))
	n, err := a.each(ids, func(c *mailbox.Changing, id note.ID, i int) error {
		moved[i] = false
		m, err := c.Email(id)
		if err != nil {
			return err
		}
		in := slices.Collect(m.Folders)
		was[i] = in[0]
		drop := slices.DeleteFunc(slices.Clone(in), func(u note.UNID) bool { return u == to })
		if slices.Contains(in, a.from) {
			was[i] = a.from
			drop = []note.UNID{a.from}
		}
		if len(drop) == 0 || was[i] == to {
			return nil // already in the folder
		}
		moved[i] = true
		if err := c.SetFolders(id, []note.UNID{to}, drop); err != nil || a.set == "" {
			return err
		}
		if err := c.SetKeyword(id, a.set, true); err != nil {
			return err
		}
		return c.SetKeyword(id, a.clear, false)
	})
	if err != nil {
		return err
	}
	var back []byte
	for i := range ids {
		if moved[i] {
			back = append(append(back, ids[i][:]...), was[i][:]...)
		}
	}
	return a.v.back(said, n, base64.RawURLEncoding.EncodeToString(back), "to", to.String())
}

// remove moves messages to the Trash. It destroys those that are already there, or if there is no Trash.
func (a *action) remove(ids []note.UNID) error {
	if trash := mailbox.ForUse(a.folders, mailbox.UseTrash); trash != nil && trash.UNID != a.from {
		return a.move(ids, trash.UNID, "deletedCount")
	}
	n, err := a.each(ids, func(c *mailbox.Changing, id note.ID, _ int) error { return c.Destroy(id) })
	if err != nil {
		return err
	}
	return a.v.back("destroyedCount", n, "")
}

// undo moves messages back to their former folders.
func (v *visit) undo() error {
	raw, err := base64.RawURLEncoding.DecodeString(v.form.Get("undo"))
	if err != nil || len(raw)%32 != 0 || len(raw) > perPage*32 {
		return errForm
	}
	from, err := unid(v.form.Get("to"))
	if err != nil {
		return err
	}
	var ids, was []note.UNID
	for ; len(raw) > 0; raw = raw[32:] {
		ids, was = append(ids, note.UNID(raw[:16])), append(was, note.UNID(raw[16:32]))
	}
	a := action{v: v}
	n, err := a.each(ids, func(c *mailbox.Changing, id note.ID, i int) error {
		return c.SetFolders(id, []note.UNID{was[i]}, []note.UNID{from})
	})
	if err != nil {
		return err
	}
	return v.back("undone", n, "")
}

// saidKeys lists the messages that the query of an address may select. Other keys are ignored, because anybody can make
// a link.
var saidKeys = []string{
	"done", "undone", "nothingSelected", "archivedCount", "deletedCount", "movedCount", "junkCount", "destroyedCount",
	"restoredCount", "deleted.gone",
	"messageSent", "draftSaved", "discarded", "saved", "aside.snoozed", "aside.muted",
	"aside.notSnoozed", "aside.reminds", "aside.noReminder", "aside.unmuted", "senders.blocked", "senders.unblocked",
	"senders.left", "later.isScheduled", "later.takenBack", "later.tooLate",
	"calSaved", "calNoFile", "calDeleted", "calAnswered", "conDeleted", "feedsSubscribed",
}

// stays reports whether the page of a message is shown again after an action with this result.
func stays(said string) bool {
	switch said {
	case "done", "nothingSelected", "aside.notSnoozed", "aside.reminds", "aside.noReminder", "aside.unmuted",
		"later.tooLate":
		return true
	}
	return strings.HasPrefix(said, "senders.")
}

// back redirects to the list, or to the message that was shown if it is still there. The query carries the result.
func (v *visit) back(said string, n int, undo string, more ...string) error {
	query := []string{"said", said, "n", strconv.Itoa(n), "undo", undo}
	query = append(query, more...)
	if m := v.form.Get("back"); m != "" && stays(said) {
		return v.leave(pathRead, append(query, "m", m)...)
	}
	return v.leave(Path, append(query, "f", v.form.Get("f"), "q", v.form.Get("q"), "p", v.form.Get("p"))...)
}

// toldOf sets the message that reports the result of an action, from the query that back made. sender is the one of the
// message that is shown, or "".
func (v *visit) toldOf(p *frame, sender string) {
	key := v.form.Get("said")
	if !slices.Contains(saidKeys, key) || p.Said != "" {
		return
	}
	n, _ := strconv.Atoi(v.form.Get("n"))
	where := ""
	to := v.form.Get("to")
	if p.Nav != nil {
		for _, f := range p.Nav.Folders {
			if to != "" && strings.Contains(f.Href, to) {
				where = f.Name
			}
		}
	}
	at, _ := strconv.ParseInt(v.form.Get("at"), 10, 64)
	switch key {
	case "aside.snoozed", "aside.reminds", "later.isScheduled":
		p.say(key, false, v.Long(time.Unix(at, 0)))
	case "senders.blocked", "senders.unblocked", "senders.left":
		p.say(key, false, sender)
	default:
		p.say(key, key == "nothingSelected", n, where)
	}
	if undo := v.form.Get("undo"); undo != "" && len(undo) < 2000 {
		p.Undo = &undoing{undo, to}
	}
}
