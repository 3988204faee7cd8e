package admin

import (
	"context"
	"errors"
	"path"
	"strings"
	"testing"

	"doublet/groupware/feed"
)

// TestCalendarFeeds adds, refreshes and removes a feed of another server. TestRedact keeps its address out of the log.
func TestCalendarFeeds(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	withContact(t, s)
	row := must[FeedRow](t, s, "calendar feed add", FeedAdd{Person: "ada",
		Address: "webcal://example.com/secret7.ics"})
	if row.Title != "example.com" || row.Address != "https://example.com/secret7.ics" {
		t.Fatalf("%+v", row)
	}
	if list := must[[]FeedRow](t, s, "calendar feed list", CalendarOf{"ada"}); len(list) != 1 || list[0] != row {
		t.Fatalf("%+v", list)
	}
	must[Done](t, s, "calendar feed refresh", FeedOf{"ada", row.Name})
	must[Done](t, s, "calendar feed remove", FeedOf{"ada", row.Name})
	if list := must[[]FeedRow](t, s, "calendar feed list", CalendarOf{"ada"}); len(list) != 0 {
		t.Fatalf("%+v", list)
	}
}

// TestCalendarLinks makes and revokes links of a calendar. One that was revoked never works again.
func TestCalendarLinks(t *testing.T) {
	t.Parallel()
	s, ctx := newSystem(t), context.Background()
	withContact(t, s)
	opens := func(address string) error {
		_, err := s.Feeds.Open(ctx, path.Base(address))
		return err
	}
	made := must[[]LinkRow](t, s, "calendar link make", LinkOf{Person: "ada", Name: "calendar"})
	if len(made) != 1 || made[0].Shows != "events" ||
		!strings.HasPrefix(made[0].Address, "https://mail.example.com/") || opens(made[0].Address) != nil {
		t.Fatalf("%+v", made)
	}
	again := must[[]LinkRow](t, s, "calendar link make", LinkOf{Person: "ada", Name: "calendar", Busy: true})
	if len(again) != 2 || again[0] != made[0] || again[1].Shows != "busy" {
		t.Fatalf("%+v", again)
	}
	left := must[[]LinkRow](t, s, "calendar link revoke", LinkOf{Person: "ada", Name: "calendar"})
	if len(left) != 1 || left[0] != again[1] || !errors.Is(opens(made[0].Address), feed.ErrNoFeed) ||
		opens(left[0].Address) != nil {
		t.Fatalf("%+v", left)
	}
	next := must[[]LinkRow](t, s, "calendar link make", LinkOf{Person: "ada", Name: "calendar"})
	if len(next) != 2 || next[0].Address == made[0].Address || !errors.Is(opens(made[0].Address), feed.ErrNoFeed) {
		t.Fatalf("%+v", next)
	}
}
