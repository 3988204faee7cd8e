package admin

import (
	"context"
	"fmt"
	"time"

	"doublet/directory"
	"doublet/groupware"
	"doublet/note"
)

// CalendarRow is a calendar or address book in the list of a person's.
type CalendarRow struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Title   string `json:"title"`
	Entries int    `json:"entries"`
	Bytes   uint64 `json:"bytes"`
}

// RemovedEntry is an entry of a calendar or address book that was removed and is kept for a time.
type RemovedEntry struct {
	ID      string    `json:"id"`
	Kind    string    `json:"kind"`
	From    string    `json:"from"` // "" if the collection is gone
	Subject string    `json:"subject"`
	Removed time.Time `json:"removed"`
}

// CalendarOf are the arguments of a verb for the calendars of a person.
type CalendarOf struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
}

// CalendarRestore are the arguments of calendar restore.
type CalendarRestore struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
	ID     string `json:"id" arg:"required" help:"id of the entry, as calendar removed prints it"`
	To     string `json:"to" help:"name of a calendar or address book (default: the one it was removed from)"`
}

func calendars() []*Verb {
	return []*Verb{
		define("calendar list", "list the calendars and address books of a person", calendarList),
		define("calendar removed", "list the removed entries that can be restored", calendarRemoved),
		define("calendar restore", "bring a removed entry back", calendarRestore, changes),
	}
}

// groupwareOf opens the calendars of a person as their owner.
func (c *Call) groupwareOf(ctx context.Context, name string) (*groupware.File, error) {
	p, err := c.Directory.Names.PersonNamed(ctx, name)
	if err != nil {
		return nil, err
	}
	if p.MailDatabase == 0 {
		return nil, fmt.Errorf("%w: %s has no mail file", ErrUsage, p.Name())
	}
	return c.Groupware.File(note.Who{Person: p.ID, System: true}, p.MailDatabase), nil
}

// collections returns the calendars and address books of a mail file.
func collections(ctx context.Context, f *groupware.File) (list []groupware.Collection, err error) {
	for _, kind := range []groupware.Kind{groupware.Calendar, groupware.AddressBook} {
		part, err := f.Collections(ctx, kind)
		if err != nil {
			return nil, err
		}
		list = append(list, part...)
	}
	return list, nil
}

func calendarList(ctx context.Context, c *Call, a *CalendarOf) ([]CalendarRow, error) {
	f, err := c.groupwareOf(ctx, a.Person)
	if err != nil {
		return nil, err
	}
	list, err := collections(ctx, f)
	rows := make([]CalendarRow, 0, len(list))
	for _, x := range list {
		rows = append(rows, CalendarRow{string(x.Kind), x.Name, x.Title, x.Total, x.Size})
	}
	return rows, err
}

func calendarRemoved(ctx context.Context, c *Call, a *CalendarOf) ([]RemovedEntry, error) {
	f, err := c.groupwareOf(ctx, a.Person)
	if err != nil {
		return nil, err
	}
	names := map[note.UNID]string{}
	list, err := collections(ctx, f)
	if err != nil {
		return nil, err
	}
	for _, x := range list {
		names[x.UNID] = x.Name
	}
	entries, err := f.Removed(ctx)
	rows := make([]RemovedEntry, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, RemovedEntry{e.UNID.String(), e.Component, names[e.Collection], e.Subject, e.Removed})
	}
	return rows, err
}

func calendarRestore(ctx context.Context, c *Call, a *CalendarRestore) (Done, error) {
	f, err := c.groupwareOf(ctx, a.Person)
	if err != nil {
		return Done{}, err
	}
	entries, err := f.Removed(ctx)
	if err != nil {
		return Done{}, err
	}
	list, err := collections(ctx, f)
	if err != nil {
		return Done{}, err
	}
	for _, e := range entries {
		if e.UNID.String() != a.ID {
			continue
		}
		for _, x := range list {
			if a.To == "" && x.UNID != e.Collection || a.To != "" && x.Name != a.To ||
				(x.Kind == groupware.AddressBook) != (e.Component == "VCARD") {
				continue
			}
			err := f.Change(ctx, func(u *groupware.Changing) error { return u.Restore(e.UNID, x.Kind, x.Name) })
			return Done{fmt.Sprintf("%s is in %s again", e.Subject, x.Name)}, err
		}
		return Done{}, fmt.Errorf("%w: no such calendar or address book: choose one with --to", ErrUsage)
	}
	return Done{}, fmt.Errorf("removed entry %s: %w", a.ID, directory.ErrNotFound)
}
