package drive

import (
	"context"
	"errors"
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

// Capabilities holds the parts of JMAP that a server offers a user, as far as actions depend on them.
type Capabilities struct{ Mail, Submission, Calendars, Events bool }

// Capabilities returns what the JMAP server announces in a user's session object (RFC 8620 section 2), and Events if it
// has an event stream, which every server announces.
func (w *World) Capabilities(ctx context.Context, u *User) (c Capabilities, err error) {
	s, err := newJMAP(w, u)
	if err != nil {
		return c, err
	}
	defer s.c.Close()
	ctx, end := w.until(ctx)
	defer end()
	session, err := s.c.Refresh(ctx)
	if err != nil {
		return c, jmapError(err)
	}
	_, none := session.MailAccount()
	c = Capabilities{Mail: none == nil, Submission: session.Capabilities.Get(wire.SubmissionURN) != nil,
		Calendars: session.Primary[wire.Calendars] != ""}
	stream, err := s.events(ctx)
	if err == nil {
		_ = stream.Close()
	}
	c.Events = !errors.Is(err, client.ErrAbsent) // other errors are those of the people who wait
	return c, nil
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
	return p.events(ctx, nil)
}

// Emails reads the mail of a user over JMAP for a ledger: the INBOX, and where messages are filed. At a server with
// calendars it reads the events too.
func (w *World) Emails(ctx context.Context, u *User) (out []ledger.Message, err error) {
	opened, _, err := w.openJMAP(ctx, u)
	if err != nil {
		return nil, err
	}
	s := opened.(*jmapSession)
	defer s.c.Close()
	read := map[string]bool{} // an Email is on two pages if one before it has come or gone meanwhile
	for at := 0; ; {
		part, err := s.emails(ctx, nil, at, "id", "messageId", "mailboxIds", "keywords")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u.Name, jmapError(err))
		}
		if len(part) == 0 {
			break
		}
		at += len(part)
		for _, m := range part {
			if id, _ := m.Get("id").Text(); !read[id] {
				read[id] = true
				out = s.appendEmail(out, m)
			}
		}
	}
	if s.plan.account == "" {
		return out, nil
	}
	return s.plan.events(ctx, out)
}

// appendEmail appends an Email as the ledger has it, for each of its folders.
func (s *jmapSession) appendEmail(out []ledger.Message, m *wire.Value) []ledger.Message {
	x := ledger.Message{ID: strings.Clone(ledger.Bare(messageID(m)))}
	if x.ID == "" {
		return out
	}
	x.Flagged, _ = m.Get("keywords").Get("$flagged").Bool()
	for _, f := range []struct{ id, name string }{{s.inbox, ledger.Inbox}, {s.archive, ledger.Archive}} {
		if here, _ := m.Get("mailboxIds").Get(f.id).Bool(); here && f.id != "" {
			x.Folder = f.name
			out = append(out, x)
		}
	}
	return out
}

// events appends the events of the calendar, and who has accepted those that the user organizes.
func (p *planner) events(ctx context.Context, out []ledger.Message) ([]ledger.Message, error) {
	for at := 0; ; at += monthPage {
		v, err := p.found(ctx, []string{"uid", "participants"}, func(w *wire.Writer) {
			w.Text("accountId", p.account)
			w.Raw("sort", byStart)
			w.Uint("position", uint64(at))
			w.Uint("limit", monthPage)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.u.Name, jmapError(err))
		}
		list := v.Get("list")
		for i := range list.Len() {
			out = appendEvent(out, list.At(i), p.u.Address)
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
