package lite

import (
	"encoding/base64"
	"slices"
	"strconv"
	"time"

	"doublet/mailbox"
	"doublet/note"
)

// pinned is the keyword of messages that clients show on top of their lists.
const pinned = "$pinned"

// maxWait bounds how far in the future a message may come back.
const maxWait = 10 * 366 * 24 * time.Hour

// localLayout is the format of <input type="datetime-local">.
const localLayout = "2006-01-02T15:04"

// asidePart is the part of a message's page that is about putting it aside. It is in the user's own mail file only.
type asidePart struct {
	Snoozed, Reminder string // when the message comes back, and when the reminder comes, or ""
	Waits             string // when the message is sent, or ""
	Muted             bool
	Times, Days       []choice // when to snooze until, and after how many days to remind
	Sender            string   // the sender who can be blocked, or ""
	Blocked           bool
	Leave             ways
	Logo              string // the domain whose logo stands beside the sender, or ""
}

// asideOf reads what was put aside of a message.
func (v *visit) asideOf(l *letter) (*asidePart, error) {
	p := &asidePart{Muted: l.has(mailbox.MutedKeyword), Times: v.times(), Days: v.days()}
	var blocked []string
	err := v.box.Read(v.ctx, func(d *mailbox.Reading) (err error) {
		list, err := d.Snoozed()
		if err != nil {
			return err
		}
		for _, s := range list {
			switch {
			case s.Email != l.id:
			case s.Reminder:
				p.Reminder = v.T("aside.reminds", v.Long(s.Until))
			default:
				p.Snoozed = v.T("aside.comesBack", v.Long(s.Until))
			}
		}
		times, err := v.sendTimes(d)
		if t, ok := times[l.id]; ok {
			p.Waits = v.T("later.willBeSent", v.Long(t))
		}
		if err == nil {
			blocked, err = d.BlockedSenders()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if p.Sender, err = v.blockable(l.env); err != nil {
		return nil, err
	}
	_, p.Blocked = slices.BinarySearch(blocked, p.Sender)
	if p.Leave, err = v.waysOf(l); err != nil {
		return nil, err
	}
	p.Logo, err = v.logoDomain(l)
	return p, err
}

// times returns the times that the full client offers too: in three hours if that is before the evening, tomorrow,
// Saturday and Monday.
func (v *visit) times() (out []choice) {
	now := v.Now
	at := func(days, hour int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+days, hour, 0, 0, 0, v.Location)
	}
	add := func(t time.Time, text string) { out = append(out, choice{Value: t.Format(localLayout), Name: text}) }
	if soon := at(0, now.Hour()+3); soon.Day() == now.Day() && soon.Hour() <= 20 {
		add(soon, v.T("aside.laterToday", soon.Format("15:04")))
	}
	add(at(1, 8), v.T("aside.tomorrow", "08:00"))
	if day := int(now.Weekday()); day > 0 && day < 5 {
		t := at(6-day, 9)
		add(t, v.T("aside.weekend", v.Long(t)))
	}
	toMonday := (7-int(now.Weekday()))%7 + 1
	t := at(toMonday, 8)
	add(t, v.T("aside.nextWeek", v.Long(t)))
	return out
}

// days returns after how many days a reminder can come.
func (v *visit) days() []choice {
	return []choice{{Value: "2", Name: v.T("aside.in2Days")}, {Value: "4", Name: v.T("aside.in4Days")},
		{Value: "7", Name: v.T("aside.inAWeek")}, {Value: "14", Name: v.T("aside.inTwoWeeks")}}
}

// chosenTime returns the time of a form: that of the field "at" if the user filled it in, else the chosen option.
func (v *visit) chosenTime() (time.Time, error) {
	text := v.form.line("at")
	if text == "" {
		text = v.form.line("until")
	}
	t, err := time.ParseInLocation(localLayout, text, v.Location)
	now := v.s.env.Clock.Now()
	if err != nil || !t.After(now) || t.Sub(now) > maxWait {
		return t, errTime
	}
	return t, nil
}

// own carries out an action that is for messages of the user's own mail file only.
func (a *action) own(do string, ids []note.UNID) error {
	if a.v.box.ID != "" {
		return errForm
	}
	switch do {
	case "snooze":
		return a.snooze(ids)
	case "remind":
		return a.remind(ids)
	case "wake", "unremind":
		return a.wake(ids)
	case "mute", "unmute":
		return a.mute(ids, do == "mute")
	case "block", "unblock":
		return a.block(ids, do == "block")
	case "leave":
		return a.leaveList(ids)
	case "unsend":
		return a.unsend(ids)
	}
	return errForm
}

// snooze moves messages to the folder of snoozed messages until a time.
func (a *action) snooze(ids []note.UNID) error {
	until, err := a.v.chosenTime()
	if err != nil {
		return err
	}
	var folder note.UNID
	was := make([]note.UNID, len(ids))
	n, err := a.each(ids, func(c *mailbox.Changing, id note.ID, i int) error {
		m, err := c.Email(id)
		if err != nil {
			return err
		}
		in := slices.Collect(m.Folders)
		if was[i] = in[0]; slices.Contains(in, a.from) {
			was[i] = a.from
		}
		if err := c.Snooze(ids[i], until); err != nil {
			return err
		}
		folder, err = c.ForUse(mailbox.UseSnoozed)
		return err
	})
	if err != nil {
		return err
	}
	var back []byte
	for i := range ids {
		if !was[i].IsZero() && was[i] != folder {
			back = append(append(back, ids[i][:]...), was[i][:]...)
		}
	}
	return a.v.back("aside.snoozed", n, base64.RawURLEncoding.EncodeToString(back), "to", folder.String(), "at",
		strconv.FormatInt(until.Unix(), 10))
}

// remind sets reminders, which come at eight o'clock if nobody has answered until then.
func (a *action) remind(ids []note.UNID) error {
	days, err := strconv.Atoi(a.v.form.Get("days"))
	if err != nil || days < 1 || days > 365 {
		return errTime
	}
	now := a.v.Now
	at := time.Date(now.Year(), now.Month(), now.Day()+days, 8, 0, 0, 0, a.v.Location)
	n, err := a.each(ids, func(c *mailbox.Changing, _ note.ID, i int) error { return c.Remind(ids[i], at) })
	if err != nil {
		return err
	}
	return a.v.back("aside.reminds", n, "", "at", strconv.FormatInt(at.Unix(), 10))
}

// wake brings snoozed messages back, or removes reminders.
func (a *action) wake(ids []note.UNID) error {
	said := "aside.notSnoozed"
	if a.v.form.Get("do") == "unremind" {
		said = "aside.noReminder"
	}
	n, err := a.each(ids, func(c *mailbox.Changing, _ note.ID, i int) error { return c.Unsnooze(ids[i]) })
	if err != nil {
		return err
	}
	return a.v.back(said, n, "")
}

// mute archives conversations as read, with the keyword by which new mail to them is archived. If on is false, it
// removes the keyword.
func (a *action) mute(ids []note.UNID, on bool) error {
	var all []note.UNID
	err := a.v.box.Read(a.v.ctx, func(d *mailbox.Reading) error {
		for _, id := range ids {
			m, err := d.EmailOf(id)
			if err != nil {
				return err
			}
			thread, err := d.ThreadOf(m.Thread())
			if err != nil {
				return err
			}
			all = append(all, thread...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	inbox, archive := mailbox.ForUse(a.folders, mailbox.Inbox), mailbox.ForUse(a.folders, mailbox.UseArchive)
	n, err := a.each(all, func(c *mailbox.Changing, id note.ID, _ int) error {
		err := c.SetKeyword(id, mailbox.MutedKeyword, on)
		if err == nil && on {
			err = c.SetKeyword(id, mailbox.Seen, true)
		}
		if err != nil || !on || inbox == nil || archive == nil {
			return err
		}
		m, err := c.Email(id)
		if err != nil || !slices.Contains(slices.Collect(m.Folders), inbox.UNID) {
			return err
		}
		return c.SetFolders(id, []note.UNID{archive.UNID}, []note.UNID{inbox.UNID})
	})
	if err != nil {
		return err
	}
	if on {
		return a.v.back("aside.muted", n, "")
	}
	return a.v.back("aside.unmuted", n, "")
}

// untilOf returns when the messages of the folder of snoozed messages come back.
func untilOf(d *mailbox.Reading) (map[note.UNID]time.Time, error) {
	list, err := d.Snoozed()
	out := make(map[note.UNID]time.Time, len(list))
	for _, s := range list {
		if !s.Reminder {
			out[s.Email] = s.Until
		}
	}
	return out, err
}

// pinnedFirst sorts the messages of a folder, pinned ones first, if there are any.
func (v *visit) pinnedFirst(q *mailbox.Query) error {
	some := mailbox.Query{Limit: 1, Filter: mailbox.Filter{Kind: mailbox.FilterAnd,
		Of: []mailbox.Filter{q.Filter, {Kind: mailbox.FilterKeyword, Keyword: pinned}}}}
	found, err := v.box.Query(v.ctx, &some)
	if err != nil || len(found.Hits) == 0 {
		return err
	}
	q.Sort = []mailbox.Order{{Kind: mailbox.OrderKeyword, Keyword: pinned, Descending: true},
		{Kind: mailbox.OrderReceived, Descending: true}}
	return nil
}
