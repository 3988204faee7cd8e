package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/client/reach"
	"doublet/directory"
	"doublet/groupware"
	"doublet/groupware/feed"
)

// FeedRow is a calendar that shows the feed of another server. Error says why the last attempt failed.
type FeedRow struct {
	Name    string    `json:"name"`
	Title   string    `json:"title"`
	Address string    `json:"address"`
	Read    time.Time `json:"read,omitzero"`
	Next    time.Time `json:"next,omitzero"`
	Error   string    `json:"error,omitempty"`
}

// LinkRow is a link by which everyone reads a calendar without a password. Shows is events, or busy for busy times
// alone. An address that begins with a slash is below the address of the server's web pages (setting web.url).
type LinkRow struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Shows   string `json:"shows"`
	Address string `json:"address"`
}

// FeedAdd are the arguments of calendar feed add.
type FeedAdd struct {
	Person  string `json:"person" arg:"required" help:"name or address of the person"`
	Address string `json:"address" arg:"required" help:"address of the feed, https: or webcal:" secret:"unasked"`
	Title   string `json:"title" help:"name of the calendar that people see (default: the host of the address)"`
}

// FeedOf are the arguments of the other verbs for one feed.
type FeedOf struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
	Name   string `json:"name" arg:"required" help:"name of the calendar, as calendar feed list prints it"`
}

// LinkOf are the arguments of the verbs for one link.
type LinkOf struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
	Name   string `json:"name" arg:"required" help:"name of the calendar, as calendar list prints it"`
	Busy   bool   `json:"busy" help:"the link to busy times alone (default: the one to all public events)"`
}

func feeds() []*Verb {
	return []*Verb{
		define("calendar feed list", "list the calendars of a person that show feeds of other servers", feedList),
		define("calendar feed add", "add a calendar that shows the feed of another server", feedAdd, changes),
		define("calendar feed remove", "remove a calendar that shows a feed", feedRemove, changes),
		define("calendar feed refresh", "read a feed again, at most once a minute", feedRefresh, changes),
		define("calendar link list", "list the links by which everyone reads calendars of a person", linkList),
		define("calendar link make", "make a link by which everyone reads a calendar", linkSet(true), changes),
		define("calendar link revoke", "revoke a link; it never works again", linkSet(false), changes),
	}
}

// calendarsOf returns the calendars of a person.
func calendarsOf(ctx context.Context, c *Call, person string) (f *groupware.File, list []groupware.Collection,
	err error) {
	if f, err = c.groupwareOf(ctx, person); err != nil {
		return nil, nil, err
	}
	list, err = f.Collections(ctx, groupware.Calendar)
	return f, list, err
}

func feedList(ctx context.Context, c *Call, a *CalendarOf) ([]FeedRow, error) {
	_, list, err := calendarsOf(ctx, c, a.Person)
	rows := []FeedRow{}
	for _, x := range list {
		if s := &x.Source; s.URL != "" {
			rows = append(rows, FeedRow{x.Name, x.Title, s.URL, s.Done, s.Next, s.Error})
		}
	}
	return rows, err
}

func feedAdd(ctx context.Context, c *Call, a *FeedAdd) (FeedRow, error) {
	f, err := c.groupwareOf(ctx, a.Person)
	if err != nil {
		return FeedRow{}, err
	}
	if len(a.Title) > groupware.MaxName {
		return FeedRow{}, fmt.Errorf("%w: title is longer than %d bytes", ErrUsage, groupware.MaxName)
	}
	if err := f.Ensure(ctx, ""); err != nil { // a file with a feed alone would never get the standard calendars
		return FeedRow{}, err
	}
	var row FeedRow
	err = f.Change(ctx, func(w *groupware.Changing) error {
		name, err := c.Sources.Subscribe(w, a.Address, a.Title)
		if err != nil {
			return err
		}
		x, err := w.Collection(groupware.Calendar, name)
		row = FeedRow{Name: name, Title: x.Title, Address: x.Source.URL}
		return err
	})
	if errors.Is(err, reach.ErrAddress) || errors.Is(err, groupware.ErrFull) {
		err = fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return row, err
}

// changeFeed changes a calendar that shows a feed.
func changeFeed(ctx context.Context, c *Call, a *FeedOf,
	change func(w *groupware.Changing, x *groupware.Collection) error) (title string, err error) {
	f, err := c.groupwareOf(ctx, a.Person)
	if err != nil {
		return "", err
	}
	err = f.Change(ctx, func(w *groupware.Changing) error {
		x, err := w.Collection(groupware.Calendar, a.Name)
		if err == nil && x.Source.URL == "" || errors.Is(err, groupware.ErrNoCollection) {
			return fmt.Errorf("feed %q: %w", a.Name, directory.ErrNotFound)
		}
		if err != nil {
			return err
		}
		title = x.Title
		return change(w, &x)
	})
	return title, err
}

func feedRemove(ctx context.Context, c *Call, a *FeedOf) (Done, error) {
	title, err := changeFeed(ctx, c, a, func(w *groupware.Changing, x *groupware.Collection) error {
		return w.Delete(groupware.Calendar, x.Name)
	})
	return Done{"removed " + title}, err
}

func feedRefresh(ctx context.Context, c *Call, a *FeedOf) (Done, error) {
	title, err := changeFeed(ctx, c, a, func(w *groupware.Changing, x *groupware.Collection) error {
		return w.ReadAgain(x.Name)
	})
	return Done{title + " is read again by the task Feeds"}, err
}

// linkNames are the values of LinkRow.Shows.
var linkNames = map[bool]string{false: "events", true: "busy"}

// linksOf returns the links of a calendar.
func linksOf(c *Call, f *groupware.File, x *groupware.Collection) (rows []LinkRow) {
	links := c.Feeds.Links(f.Database(), x)
	for busy, address := range []string{links.Full, links.Busy} {
		if address != "" {
			rows = append(rows, LinkRow{x.Name, x.Title, linkNames[busy == 1], address})
		}
	}
	return rows
}

func linkList(ctx context.Context, c *Call, a *CalendarOf) ([]LinkRow, error) {
	f, list, err := calendarsOf(ctx, c, a.Person)
	rows := []LinkRow{}
	for i := range list {
		rows = append(rows, linksOf(c, f, &list[i])...)
	}
	return rows, err
}

// linkSet returns the verb that makes or revokes a link. Making one that is there returns it.
func linkSet(on bool) func(context.Context, *Call, *LinkOf) ([]LinkRow, error) {
	return func(ctx context.Context, c *Call, a *LinkOf) ([]LinkRow, error) {
		f, err := c.groupwareOf(ctx, a.Person)
		if err != nil {
			return nil, err
		}
		choice := feed.Choice{Full: &on}
		if a.Busy {
			choice = feed.Choice{Busy: &on}
		}
		rows := []LinkRow{}
		err = f.Change(ctx, func(w *groupware.Changing) error {
			if err := c.Feeds.Set(w, strings.TrimSpace(a.Name), choice); err != nil {
				return err
			}
			x, err := w.Collection(groupware.Calendar, strings.TrimSpace(a.Name))
			rows = append(rows, linksOf(c, f, &x)...)
			return err
		})
		if errors.Is(err, groupware.ErrNoCollection) {
			err = fmt.Errorf("calendar %q: %w", a.Name, directory.ErrNotFound)
		}
		return rows, err
	}
}
