package drive

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"doublet/bench/workload"
	client "doublet/client/jmap"
	wire "doublet/wire/jmap"
)

// webCalendar is the calendar of the full client, a page of its own with the user's events and tasks
// (web/src/state/calendars.ts, tasks.ts), which the user keeps open in a tab beside the mail. It listens for changes
// until the session ends.
type webCalendar struct {
	s      *webSession
	plan   *planner
	todo   *webTasks         // nil if the server has no tasks
	states map[string]string // pushed states by type; the listener's own
	// deaf is set when the connection for pushes broke: the next action opens the page anew.
	deaf atomic.Bool
}

// plannerPushed are the types whose changes are pushed to the calendar page.
var plannerPushed = []string{"Calendar", "CalendarEvent", "TaskList", "Task"}

// planned performs an action of the calendar, and opens the page before it if it is not open.
// held is the time of look-ups for which no user waits.
func (s *webSession) planned(ctx context.Context, p *workload.Planned) (held time.Duration, err error) {
	if s.calendar != nil && s.calendar.deaf.Load() {
		s.calendar = nil
	}
	if s.calendar == nil || p.Do == workload.Calendar {
		if err := s.openCalendar(ctx); err != nil || p.Do == workload.Calendar {
			return 0, err
		}
	}
	if p.Do == workload.RSVP {
		return 0, s.calendar.answer(ctx)
	}
	return s.calendar.write(ctx, p)
}

// openCalendar loads the calendar page anew: session, calendars, this month and the next, the invitations that wait,
// and tasks. The first time it begins to listen.
func (s *webSession) openCalendar(ctx context.Context) error {
	if err := s.load(ctx, "/calendar/"); err != nil {
		return err
	}
	header := http.Header{"Accept": {"application/json"}}
	got, err := s.fetch(ctx, http.MethodGet, "/auth/session", header, nil)
	if err != nil {
		return err
	}
	if got.status != http.StatusOK {
		return signedOut()
	}
	session, err := s.c.Refresh(ctx)
	if err != nil {
		return err
	}
	t := s.calendar
	if t == nil {
		t = &webCalendar{s: s, plan: newPlanner(s.w, s.u, s.c, session), states: map[string]string{}}
		if account := session.Primary[wire.Tasks]; account != "" {
			t.todo = &webTasks{c: s.c, account: account}
		}
	}
	if t.plan.account == "" {
		return &Refusal{"no calendars"}
	}
	if err := t.plan.calendars(ctx, true); err != nil {
		return err
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	if _, err := t.plan.month(ctx, t.now().AddDate(0, 1, 1-t.now().Day())); err != nil {
		return err
	}
	if err := t.todo.read(ctx); err != nil || s.calendar != nil {
		return err
	}
	s.calendar = t
	return t.listen(ctx)
}

func (t *webCalendar) now() time.Time { return t.s.w.Env.Clock.Now().UTC() }

// refresh reads again the events and invitations that the page shows.
func (t *webCalendar) refresh(ctx context.Context) error {
	if _, err := t.plan.month(ctx, t.now()); err != nil {
		return err
	}
	return t.plan.unanswered(ctx)
}

// listen opens the WebSocket of the page, reads all again as the page does when it is open, and follows the pushes.
func (t *webCalendar) listen(ctx context.Context) error {
	socket, err := t.s.c.Socket(ctx)
	if err == nil {
		err = socket.Push(plannerPushed, "")
	}
	if err != nil {
		return err
	}
	live := t.s.live
	t.s.work.Add(1)
	t.s.w.Env.Go("bench calendar", func() {
		defer t.s.work.Done()
		defer socket.Close()
		t.follow(live, plannerWhole)
		for live.Err() == nil {
			c, err := socket.Next(live)
			switch {
			case err == nil:
				t.hear(live, c)
			case live.Err() == nil:
				t.deaf.Store(true)
				t.s.synced(Sync{Begun: t.now(), Ended: t.now(), Err: err})
				return
			}
		}
	})
	return nil
}

// plannerNews are the parts of the page that may have changed. With all, nothing is known of them.
type plannerNews struct{ calendars, events, tasks, all bool }

var plannerWhole = plannerNews{calendars: true, events: true, tasks: true, all: true}

// hear handles a push: it reads again what the page shows if a state is new.
func (t *webCalendar) hear(ctx context.Context, c client.Changed) {
	var n plannerNews
	for kind, state := range c[t.plan.account] {
		if t.states[kind] == state {
			continue
		}
		t.states[kind] = state
		n.calendars = n.calendars || kind == "Calendar"
		n.events = n.events || kind == "Calendar" || kind == "CalendarEvent"
		n.tasks = n.tasks || kind == "TaskList" || kind == "Task"
	}
	if n != (plannerNews{}) {
		t.follow(ctx, n)
	}
}

// follow reads again what the page shows, in the background.
func (t *webCalendar) follow(ctx context.Context, n plannerNews) {
	begun := t.now()
	err := error(nil)
	if n.calendars {
		err = t.plan.calendars(ctx, false)
	}
	if err == nil && n.events {
		err = t.refresh(ctx)
	}
	switch {
	case err != nil || !n.tasks:
	case n.all:
		err = t.todo.read(ctx)
	default:
		err = t.todo.hear(ctx)
	}
	if ctx.Err() == nil {
		t.s.synced(Sync{Begun: begun, Ended: t.now(), Err: webError(err)})
	}
}

// write makes an event in the editor. Its people are completed and checked while they are typed: held is that time.
func (t *webCalendar) write(ctx context.Context, p *workload.Planned) (held time.Duration, err error) {
	e := newEvent(t.s.w, t.s.u, p)
	begun := t.now()
	if err := t.s.complete(ctx, e.people); err != nil {
		return 0, err
	}
	if err := t.s.check(ctx, e.people); err != nil {
		return 0, err
	}
	held = t.now().Sub(begun)
	if err := t.plan.create(ctx, e); err != nil {
		return held, err
	}
	return held, t.refresh(ctx)
}

// answer accepts the first invitation that the page shows. Then it must wait no more.
func (t *webCalendar) answer(ctx context.Context) error {
	x, ok := t.plan.next()
	if !ok {
		return ErrNothing
	}
	if err := t.plan.accept(ctx, x); err != nil {
		return err
	}
	if err := t.refresh(ctx); err != nil {
		return err
	}
	if t.plan.waitsFor(x.id) {
		return &Refusal{"an invitation that was answered waits still"}
	}
	return nil
}
