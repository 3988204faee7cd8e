package drive

import (
	"context"
	"fmt"
	"strings"

	"doublet/bench/ledger"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// openPlanner signs a user in over JMAP for the calendar; nil means that the server has no calendars. The caller calls
// done.
func openPlanner(ctx context.Context, w *World, u *User) (p *planner, done func(), err error) {
	opened, _, err := w.openJMAP(ctx, u)
	if err != nil {
		return nil, nil, err
	}
	s := opened.(*jmapSession)
	if s.plan.account == "" {
		return nil, s.c.Close, nil
	}
	return s.plan, s.c.Close, nil
}

// HasCalendars reports whether the server offers a user calendars over JMAP.
func (w *World) HasCalendars(ctx context.Context, u *User) (bool, error) {
	p, done, err := openPlanner(ctx, w, u)
	if err != nil {
		return false, err
	}
	done()
	return p != nil, nil
}

// emptyCalendar destroys the events of a user, of which nobody is told, and returns their number.
func emptyCalendar(ctx context.Context, w *World, u *User) (n int, err error) {
	p, done, err := openPlanner(ctx, w, u)
	if err != nil {
		return 0, err
	}
	defer done()
	for p != nil {
		r := client.NewRequest(p.using...)
		q := r.Query("CalendarEvent", p.account, &client.Query{Limit: cutAtOnce})
		out, err := p.c.Do(ctx, r)
		if err != nil {
			return n, jmapError(err)
		}
		v, err := out.Get(q)
		if err != nil {
			return n, jmapError(err)
		}
		ids := texts(v.Get("ids"))
		if len(ids) == 0 {
			break
		}
		o, err := p.set(ctx, &client.Set{Destroy: ids}, false)
		if err == nil {
			err = o.Err()
		}
		if err != nil {
			return n, jmapError(err)
		}
		n += len(ids)
	}
	return n, nil
}

// Events reads the events of a user over JMAP, and who has accepted those that the user organizes, for a ledger.
func (w *World) Events(ctx context.Context, u *User) (out []ledger.Message, err error) {
	p, done, err := openPlanner(ctx, w, u)
	if err != nil {
		return nil, err
	}
	defer done()
	if p == nil {
		return nil, fmt.Errorf("drive: the server has no calendars (%s)", wire.Calendars)
	}
	for at := 0; ; at += monthPage {
		v, err := p.found(ctx, []string{"uid", "participants"}, func(w *wire.Writer) {
			w.Text("accountId", p.account)
			w.Raw("sort", byStart)
			w.Uint("position", uint64(at))
			w.Uint("limit", monthPage)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.Name, jmapError(err))
		}
		list := v.Get("list")
		for i := range list.Len() {
			out = appendEvent(out, list.At(i), u.Address)
		}
		if list.Len() < monthPage {
			return out, nil
		}
	}
}

// appendEvent appends an event and its acceptances as the ledger has them.
func appendEvent(out []ledger.Message, e *wire.Value, address string) []ledger.Message {
	uid, _ := e.Get("uid").Text()
	out = append(out, ledger.Message{Folder: ledger.Calendar, ID: strings.Clone(uid)})
	people := e.Get("participants")
	organizes := false
	var answers []ledger.Message
	for i := range people.Len() {
		email, _ := people.At(i).Get("email").Text()
		owner, _ := people.At(i).Get("roles").Get("owner").Bool()
		if owner {
			organizes = strings.EqualFold(email, address)
		} else if status, _ := people.At(i).Get("participationStatus").Text(); status == "accepted" {
			answers = append(answers, ledger.Message{Folder: ledger.Calendar, ID: ledger.AnswerID(uid, email)})
		}
	}
	if organizes {
		out = append(out, answers...)
	}
	return out
}
