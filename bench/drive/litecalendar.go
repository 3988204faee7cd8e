package drive

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"doublet/bench/workload"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// liteCalendar is the page of the calendar in the lite mode.
const liteCalendar = litePath + "calendar"

// linkTo returns the first link to a page; nil for none.
func linkTo(n *html.Node, page string) *html.Node {
	return find(n, func(x *html.Node) bool {
		return x.DataAtom == atom.A && strings.HasPrefix(attribute(x, "href"), page)
	})
}

// planned performs an action of the calendar. A server whose pages lead to no calendar has none: then there is nothing
// to do.
func (s *liteSession) planned(ctx context.Context, p *workload.Planned) error {
	if p.Do == workload.Calendar || s.path != liteCalendar {
		link := linkTo(find(s.page, is(atom.Nav, "")), liteCalendar)
		if link == nil {
			return ErrNothing
		}
		if err := s.get(ctx, attribute(link, "href")); err != nil {
			return err
		}
		if s.path != liteCalendar {
			return &Refusal{"no page of the calendar"}
		}
	}
	switch p.Do {
	case workload.Calendar:
		return nil
	case workload.RSVP:
		return s.answer(ctx)
	}
	return s.plan(ctx, p)
}

// plan makes an event with its form; the people in it are invited.
func (s *liteSession) plan(ctx context.Context, p *workload.Planned) error {
	link := find(find(s.page, is(atom.Main, "")), is(atom.A, "primary"))
	if link == nil {
		return &Refusal{"no way to add an event"}
	}
	if err := s.get(ctx, attribute(link, "href")); err != nil {
		return err
	}
	e := newEvent(s.w, s.u, p)
	day := e.start.Format("2006-01-02")
	f := formWith(s.page, "do", "save")
	for _, x := range []formField{{"title", "Meeting " + e.uid}, {"first", day}, {"from", e.start.Format("15:04")},
		{"last", day}, {"to", e.start.Add(eventLength).Format("15:04")}, {"people", strings.Join(e.people, ", ")},
		{"text", e.text}} {
		if f == nil || !f.set(x.name, x.value) {
			return fmt.Errorf("%w: no form for an event with a field %s", ErrProtocol, x.name)
		}
	}
	if err := s.post(ctx, f); err != nil {
		return err
	}
	return s.doneInCalendar()
}

// doneInCalendar checks that the calendar is shown, and says that something was done.
func (s *liteSession) doneInCalendar() error {
	if s.path != liteCalendar || find(s.page, is(atom.Div, "said")) == nil {
		return &Refusal{"the calendar does not say what it did"}
	}
	return nil
}

// waiting returns the form to accept the first invitation that the calendar shows, and its event; nil for none.
func (s *liteSession) waiting() (f *form, event string) {
	f = formWith(s.page, "do", "accepted")
	if f == nil {
		return nil, ""
	}
	i := slices.IndexFunc(f.fields, func(x formField) bool { return x.name == "e" })
	if i < 0 {
		return nil, ""
	}
	return f, f.fields[i].value
}

// answer accepts the first invitation that the calendar shows. Then it must wait no more.
func (s *liteSession) answer(ctx context.Context) error {
	f, event := s.waiting()
	if f == nil {
		return ErrNothing
	}
	if err := s.post(ctx, f); err != nil {
		return err
	}
	if err := s.doneInCalendar(); err != nil {
		return err
	}
	if _, next := s.waiting(); next == event {
		return &Refusal{"an invitation that was answered waits still"}
	}
	return nil
}
