package drive

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/bench/content"
	"doublet/bench/ledger"
	"doublet/bench/workload"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// planner is a user's calendar over JMAP Calendars (draft-ietf-jmap-calendars). Its requests are those of the full
// client (web/src/state/calendars.ts, events.ts, unanswered.ts).
type planner struct {
	w       *World
	u       *User
	c       *client.Client
	account string // "" if the server has no calendars
	using   []string

	mu       sync.Mutex
	calendar string    // id of the calendar for new events
	waits    []waiting // invitations that wait for an answer, the first to begin first
}

// waiting is an invitation in the calendar that waits for an answer.
type waiting struct{ id, uid, participant, organizer string }

// newPlanner returns the calendar of a user as a session object describes it.
func newPlanner(w *World, u *User, c *client.Client, session *client.Session) *planner {
	p := &planner{w: w, u: u, c: c, account: session.Primary[wire.Calendars],
		using: []string{wire.Core, wire.Calendars, wire.SubmissionURN}}
	if session.Capabilities.Get(wire.Preferences) != nil {
		p.using = append(p.using, wire.Preferences)
	}
	return p
}

// As in web/src/state/calendars.ts and unanswered.ts: events and invitations that are asked for at once, and days for
// which invitations are looked for.
const (
	monthPage     = 500
	mostWaiting   = 20
	waitingDays   = 183
	plannerZone   = "Etc/UTC"
	calendarLocal = "2006-01-02T15:04:05"
)

// The properties of events that the full client asks for.
var (
	shownProperties = []string{"id", "baseEventId", "uid", "calendarIds", "title", "start", "timeZone", "duration",
		"showWithoutTime", "status", "freeBusyStatus", "privacy", "color", "locations", "virtualLocations",
		"participants", "recurrenceId", "utcStart", "utcEnd"}
	waitingProperties = []string{"id", "title", "start", "timeZone", "showWithoutTime", "recurrenceRules",
		"participants", "status"}
)

// calendars asks for the calendars. With whole it asks for all that the calendar page needs at first.
func (p *planner) calendars(ctx context.Context, whole bool) error {
	r := client.NewRequest(p.using...)
	if whole {
		r.Get("Identity", p.account, nil)
		if slices.Contains(p.using, wire.Preferences) {
			r.Get("Preferences", p.account, nil)
		}
	}
	h := r.Get("Calendar", p.account, nil)
	out, err := p.c.Do(ctx, r)
	if err != nil {
		return err
	}
	v, err := out.Get(h)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calendar = ""
	for i := range v.Get("list").Len() {
		x := v.Get("list").At(i)
		id, _ := x.Get("id").Text()
		if isDefault, _ := x.Get("isDefault").Bool(); isDefault || p.calendar == "" {
			p.calendar = strings.Clone(id)
		}
	}
	if p.calendar == "" {
		return &Refusal{"no calendar"}
	}
	return nil
}

// found performs a query of events, and gets them. Each that was found must be there.
func (p *planner) found(ctx context.Context, properties []string, query func(*wire.Writer)) (*wire.Value, error) {
	r := client.NewRequest(p.using...)
	q := r.Call("CalendarEvent/query", query)
	g := r.GetReferred("CalendarEvent", p.account, q.At("/ids"), properties...)
	out, err := p.c.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	ids, err := out.Get(q)
	if err != nil {
		return nil, err
	}
	v, err := out.Get(g)
	if err == nil && v.Get("list").Len() != ids.Get("ids").Len() {
		err = &Refusal{"a list without all of its events"}
	}
	return v, err
}

// span writes the members of a filter for the events of a time.
func span(f *wire.Writer, from, to time.Time) {
	f.Text("after", from.Format(calendarLocal))
	f.Text("before", to.Format(calendarLocal))
}

const byStart = `[{"property":"start","isAscending":true}]`

// month reads the events of the month of a time, and returns their UIDs.
func (p *planner) month(ctx context.Context, at time.Time) (uids []string, err error) {
	first := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	for len(uids)%monthPage == 0 {
		v, err := p.found(ctx, shownProperties, func(w *wire.Writer) {
			w.Text("accountId", p.account)
			w.Object("filter", func(f *wire.Writer) { span(f, first, first.AddDate(0, 1, 0)) })
			w.Raw("sort", byStart)
			w.Bool("expandRecurrences", true)
			w.Text("timeZone", plannerZone)
			w.Uint("position", uint64(len(uids)))
			w.Uint("limit", monthPage)
		})
		if err != nil {
			return nil, err
		}
		list := v.Get("list")
		for i := range list.Len() {
			uid, _ := list.At(i).Get("uid").Text()
			uids = append(uids, strings.Clone(uid))
		}
		if list.Len() == 0 {
			break
		}
	}
	return uids, nil
}

// unanswered reads the invitations that wait for an answer of the user.
func (p *planner) unanswered(ctx context.Context) error {
	now := p.w.Env.Clock.Now().UTC()
	v, err := p.found(ctx, waitingProperties, func(w *wire.Writer) {
		w.Text("accountId", p.account)
		w.Object("filter", func(f *wire.Writer) {
			span(f, now, now.Truncate(24*time.Hour).AddDate(0, 0, waitingDays))
			f.Text("participationStatus", "needs-action")
			f.Text("attendee", p.u.Address)
		})
		w.Raw("sort", byStart)
		w.Text("timeZone", plannerZone)
		w.Uint("limit", mostWaiting)
	})
	if err != nil {
		return err
	}
	var waits []waiting
	list := v.Get("list")
	for i := range list.Len() {
		if x, ok := waitingIn(list.At(i), p.u.Address); ok {
			waits = append(waits, x)
		}
	}
	p.mu.Lock()
	p.waits = waits
	p.mu.Unlock()
	return nil
}

// waitingIn reads from an event the invitation of a person that waits.
func waitingIn(e *wire.Value, address string) (x waiting, ok bool) {
	id, _ := e.Get("id").Text()
	people := e.Get("participants")
	for i := range people.Len() {
		person := people.At(i)
		email, _ := person.Get("email").Text()
		status, _ := person.Get("participationStatus").Text()
		if owner, _ := person.Get("roles").Get("owner").Bool(); owner {
			x.organizer = strings.Clone(email)
		} else if strings.EqualFold(email, address) && (status == "" || status == "needs-action") {
			x.id, x.participant, ok = strings.Clone(id), strings.Clone(people.Name(i)), true
		}
	}
	return x, ok
}

// set changes events. With tell, people hear of those that concern them.
func (p *planner) set(ctx context.Context, x *client.Set, tell bool) (o client.Outcome, err error) {
	x.More = func(w *wire.Writer) { w.Bool("sendSchedulingMessages", tell) }
	r := client.NewRequest(p.using...)
	h := r.Set("CalendarEvent", p.account, x)
	out, err := p.c.Do(ctx, r)
	if err != nil {
		return o, err
	}
	return out.OutcomeOf(h)
}

// event is a new event of a user.
type event struct {
	uid, text string
	start     time.Time
	people    []string
}

// newEvent composes the event of an action: an hour within the next two weeks, in working time.
func newEvent(w *World, u *User, p *workload.Planned) event {
	m := w.compose(u, p)
	day := m.Date.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1+int(p.Pick>>8%14))
	e := event{uid: m.ID, start: day.Add(time.Duration(8+p.Pick>>16%9) * time.Hour),
		text: strings.ReplaceAll(strings.TrimSpace(string(content.AppendText(nil, m.Body, m.Seed))), "\r\n", "\n")}
	if p.Do == workload.Invite {
		e.people = w.recipients(u, p)
	}
	return e
}

// eventLength is the length of an event.
const eventLength = time.Hour

// create puts an event into the calendar; the server invites its people.
func (p *planner) create(ctx context.Context, e event) error {
	p.mu.Lock()
	calendar := p.calendar
	p.mu.Unlock()
	o, err := p.set(ctx, &client.Set{Create: map[string]func(*wire.Writer){"e": func(w *wire.Writer) {
		p.write(w, e, calendar)
	}}}, true)
	if err == nil {
		_, err = o.Created("e")
	}
	p.w.Ledger.Added(p.u.Address, e.uid, err)
	p.w.Ledger.Sent(ledger.Invitation, e.uid, e.people, func(int) bool { return err == nil })
	return err
}

// write prints an event as the editor of the full client does.
func (p *planner) write(w *wire.Writer, e event, calendar string) {
	w.Text("@type", "Event")
	w.Text("uid", e.uid)
	w.Object("calendarIds", func(m *wire.Writer) {
		m.Key(calendar)
		m.B = wire.AppendBool(m.B, true)
	})
	w.Text("title", "Meeting "+e.uid)
	w.Text("description", e.text)
	w.Text("start", e.start.Format(calendarLocal))
	w.Text("duration", "PT1H")
	w.Text("timeZone", plannerZone)
	w.Bool("showWithoutTime", false)
	w.Text("freeBusyStatus", "busy")
	w.Text("privacy", "public")
	if len(e.people) == 0 {
		return
	}
	w.Object("replyTo", func(r *wire.Writer) { r.Text("imip", "mailto:"+p.u.Address) })
	w.Object("participants", func(m *wire.Writer) {
		m.Object("owner", func(o *wire.Writer) {
			o.Text("name", p.u.Name)
			participant(o, p.u.Address, "accepted")
			o.Raw("roles", `{"owner":true,"attendee":true}`)
		})
		for i, address := range e.people {
			m.Object(participantID(i, address), func(o *wire.Writer) {
				participant(o, address, "needs-action")
				o.Raw("roles", `{"attendee":true}`)
				o.Text("kind", "individual")
				o.Bool("expectReply", true)
			})
		}
	})
}

func participant(o *wire.Writer, address, status string) {
	o.Text("@type", "Participant")
	o.Text("email", address)
	o.Object("sendTo", func(s *wire.Writer) { s.Text("imip", "mailto:"+address) })
	o.Text("participationStatus", status)
}

var notWord = regexp.MustCompile(`\W`)

// participantID returns the id that the full client has for a guest.
func participantID(i int, address string) string {
	name := notWord.ReplaceAllString(address, "")
	return fmt.Sprintf("p%d-%s", i, name[:min(len(name), 20)])
}

// next returns the first invitation that waits, and forgets it; ok is false if none does.
func (p *planner) next() (x waiting, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waits) == 0 {
		return x, false
	}
	x, p.waits = p.waits[0], p.waits[1:]
	return x, true
}

// waitsFor reports whether an invitation waits for an answer.
func (p *planner) waitsFor(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.waits, func(x waiting) bool { return x.id == id })
}

// accept answers an invitation; the server tells the organizer. It is read first, as the full client does.
func (p *planner) accept(ctx context.Context, x waiting) error {
	r := client.NewRequest(p.using...)
	g := r.Get("CalendarEvent", p.account, []string{x.id})
	out, err := p.c.Do(ctx, r)
	if err != nil {
		return err
	}
	v, err := out.Get(g)
	if err != nil {
		return err
	}
	if v.Get("list").Len() == 0 {
		return &Refusal{"an invitation that waits is not found"}
	}
	uid, _ := v.Get("list").At(0).Get("uid").Text()
	x.uid = strings.Clone(uid)
	o, err := p.set(ctx, &client.Set{Update: map[string]func(*wire.Writer){x.id: func(w *wire.Writer) {
		w.Text("participants/"+x.participant+"/participationStatus", "accepted")
	}}}, true)
	if err == nil {
		err = o.Updated(x.id)
	}
	answer := ledger.AnswerID(x.uid, p.u.Address)
	p.w.Ledger.Sent(ledger.Answer, answer, []string{x.organizer}, func(int) bool { return err == nil })
	return err
}

// do performs an action of the calendar as a program over JMAP does that asks for nothing that it knows.
func (p *planner) do(ctx context.Context, x *workload.Planned) error {
	if p.calendar == "" {
		if err := p.calendars(ctx, false); err != nil {
			return err
		}
	}
	switch x.Do {
	case workload.Calendar:
		if _, err := p.month(ctx, p.w.Env.Clock.Now()); err != nil {
			return err
		}
		return p.unanswered(ctx)
	case workload.RSVP:
		if err := p.unanswered(ctx); err != nil {
			return err
		}
		v, ok := p.next()
		if !ok {
			return ErrNothing
		}
		return p.accept(ctx, v)
	}
	return p.create(ctx, newEvent(p.w, p.u, x))
}
