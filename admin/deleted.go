package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// DeletedMessage is a deleted message that can be restored.
type DeletedMessage struct {
	ID      string    `json:"id"`
	Deleted time.Time `json:"deleted"`
	From    string    `json:"from"`
	Subject string    `json:"subject"`
	Size    Size      `json:"size"`
	Folder  string    `json:"folder"` // the folders that it goes back to, separated by commas
}

// DeletedList are the arguments of deleted list.
type DeletedList struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
	Since  string `json:"since" help:"deleted since: so long ago, such as 90m or 7d, or a day, 2026-03-01"`
}

// DeletedRestore are the arguments of deleted restore.
type DeletedRestore struct {
	Person string   `json:"person" arg:"required" help:"name or address of the person"`
	Since  string   `json:"since" help:"all deleted since: so long ago, such as 90m or 7d, or a day, 2026-03-01"`
	ID     []string `json:"id" help:"id of a message, as deleted list prints it; may be repeated"`
}

// UserHold are the arguments of user hold.
type UserHold struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
	State  string `json:"state" arg:"required" help:"on or off"`
}

func deleted() []*Verb {
	return []*Verb{
		define("deleted list", "list deleted messages of a person that can be restored, the newest 500", deletedList),
		define("deleted restore", "move deleted messages back to their folders: those with an id, or all of a time",
			deletedRestore, changes),
		define("user hold", "keep all that a person deletes until the hold is off", userHold, changes),
	}
}

// sinceOrAll reads a time as since does. No text is the zero time.
func sinceOrAll(c *Call, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	return since(text, c.Env.Clock.Now())
}

func deletedList(ctx context.Context, c *Call, a *DeletedList) ([]DeletedMessage, error) {
	c.audited = true // it shows mail of another person
	_, f, err := c.mailFile(ctx, a.Person)
	if err != nil {
		return nil, err
	}
	from, err := sinceOrAll(c, a.Since)
	if err != nil {
		return nil, err
	}
	list, _, err := f.Recoverable(ctx, from)
	rows := make([]DeletedMessage, 0, len(list))
	for i := range list {
		x := &list[i]
		row := DeletedMessage{ID: x.UNID.String(), Deleted: x.Deleted, Subject: x.Subject, Size: Size(x.Size),
			Folder: folderNames(x.Folders)}
		if len(x.From) > 0 {
			row.From = x.From[0].Mailbox + "@" + x.From[0].Host
		}
		rows = append(rows, row)
	}
	return rows, err
}

func folderNames(list []mailbox.Folder) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return strings.Join(names, ", ")
}

func deletedRestore(ctx context.Context, c *Call, a *DeletedRestore) (Done, error) {
	_, f, err := c.mailFile(ctx, a.Person)
	if err != nil {
		return Done{}, err
	}
	if (len(a.ID) == 0) == (a.Since == "") {
		return Done{}, fmt.Errorf("%w: give --id or --since", ErrUsage)
	}
	n := 0
	if a.Since == "" {
		n, err = restoreNamed(ctx, f, a.ID)
	} else if from, bad := sinceOrAll(c, a.Since); bad != nil {
		return Done{}, bad
	} else {
		n, err = restoreSince(ctx, f, from)
	}
	text := fmt.Sprintf("%d messages restored", n)
	if err != nil {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return Done{text}, err
}

// restoreNamed restores messages by their ids, and returns their number.
func restoreNamed(ctx context.Context, f *mailbox.File, ids []string) (n int, err error) {
	unids := make([]note.UNID, len(ids))
	for i, id := range ids {
		if unids[i], err = note.ParseUNID(id); err != nil {
			return 0, fmt.Errorf("%w: %q is no id: %w", ErrUsage, id, err)
		}
	}
	res, err := f.Recover(ctx, unids)
	var errs []error
	for i, x := range res {
		switch {
		case x.Err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", ids[i], x.Err))
		case err == nil:
			n++
		}
	}
	return n, errors.Join(err, errors.Join(errs...))
}

// restoreSince restores all messages deleted since a time, and returns their number. It stops at a list of which none
// can be restored.
func restoreSince(ctx context.Context, f *mailbox.File, from time.Time) (n int, err error) {
	for {
		list, more, err := f.Recoverable(ctx, from)
		if err != nil || len(list) == 0 {
			return n, err
		}
		ids := make([]string, len(list))
		for i := range list {
			ids[i] = list[i].UNID.String()
		}
		some, err := restoreNamed(ctx, f, ids)
		if n += some; !more || some == 0 {
			return n, err
		}
	}
}

// notHeld returns an error if a hold of a mail file is on: neither the file nor its owner can be removed then. The hold
// of a file out of service cannot be read, so that is an error too. A file that this server does not have is not
// checked.
func notHeld(ctx context.Context, c *Call, db note.DatabaseID) error {
	on, err := c.Mailbox.Held(ctx, db)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case errors.Is(err, store.ErrOutOfService):
		return fmt.Errorf("%w: a hold may be on: put the file into service first, db set %s --service: %w", ErrUsage,
			db, err)
	}
	if err == nil && on {
		err = fmt.Errorf("%w: a hold is on: end it with user hold NAME off", ErrUsage)
	}
	return err
}

func userHold(ctx context.Context, c *Call, a *UserHold) (Done, error) {
	p, f, err := c.mailFile(ctx, a.Person)
	if err != nil {
		return Done{}, err
	}
	if a.State != "on" && a.State != "off" {
		return Done{}, fmt.Errorf("%w: the hold is on or off", ErrUsage)
	}
	err = c.Mailbox.Hold(ctx, f.Database(), a.State == "on")
	return Done{fmt.Sprintf("hold of %s is %s", p.Name(), a.State)}, err
}
