package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/directory"
	"doublet/directory/session"
	"doublet/mail/journal"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Database is a database in the results of verbs. Only db show sets Access and Folders.
type Database struct {
	ID      string    `json:"id"`
	Title   string    `json:"title"`
	Kind    string    `json:"kind"`
	Owner   string    `json:"owner,omitempty"`
	State   string    `json:"state"`
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Quota   Limit     `json:"quota,omitempty" show:"always"`
	Warning Limit     `json:"warning,omitempty"`
	// Acknowledge selects when a change is acknowledged; "" means local.
	Acknowledge string `json:"acknowledge,omitempty"`
	// Caution is the warning of db set.
	Caution string `json:"caution,omitempty"`
	// FullText is off if the database is not in the full-text index; "" means on.
	FullText string `json:"fulltext,omitempty"`
	// Encryption is the state of the database's own key, KeyFile the file that opens it, Key the key in that file.
	Encryption string   `json:"encryption,omitempty"`
	KeyFile    string   `json:"key_file,omitempty"`
	Key        string   `json:"key,omitempty"`
	Access     []string `json:"access,omitempty"`
	Folders    []Folder `json:"folders,omitempty"`
}

// Folder is a folder of a mail file.
type Folder struct {
	Name     string `json:"name"`
	Messages uint32 `json:"messages" show:"always"`
	Bytes    Size   `json:"bytes"`
}

// DatabaseAdd are the arguments of db add.
type DatabaseAdd struct {
	Title string `json:"title" arg:"required" help:"title"`
	Kind  string `json:"kind" help:"what it is for" default:"mail"`
	Owner string `json:"owner" help:"person who manages it"`
	Quota Size   `json:"quota" help:"most bytes that it may hold"`
}

// DatabaseList are the arguments of db list and show databases.
type DatabaseList struct {
	Pattern string `json:"pattern" arg:"optional" help:"only titles and ids that contain it"`
	Kind    string `json:"kind" help:"only those of a kind, such as mail"`
	Removed bool   `json:"removed" help:"those that were removed and can be brought back"`
	After   string `json:"after" help:"id of the database behind which the list begins"`
	Limit   int    `json:"limit" help:"at most so many; all where none is given"`
}

// DatabaseSet are the arguments of db set. A nil field leaves the value unchanged.
type DatabaseSet struct {
	Name    string  `json:"name" arg:"required" help:"id or title, or its owner's name"`
	Title   *string `json:"title" help:"new title"`
	Quota   *Size   `json:"quota" help:"most bytes that it may hold, 0 for no limit"`
	Warning *Size   `json:"warning" help:"size from which its owner is warned, 0 for none"`
	Service *bool   `json:"service" help:"whether it is in service"`
	// Acknowledge is one of layout.Acks.
	Acknowledge *string  `json:"acknowledge" help:"local, cluster (or after 1 s), cluster-strict, early (not durable)"`
	FullText    *string  `json:"fulltext" help:"on, or off: it is not indexed, and searches read its texts"`
	Access      []string `json:"access" help:"name=level, such as Bob=Editor, or default=Reader; may be repeated"`
}

func databases() []*Verb {
	return []*Verb{
		define("db add", "make a database", databaseAdd, changes),
		define("db list", "list databases", databaseList),
		define("db show", "show a database, its access list and folders", databaseShow),
		define("db set", "change a database", databaseSet, changes),
		define("db remove", "take a database out of service and delete it after 30 days; until then undo brings it "+
			"back", databaseRemove, changes),
		define("db restore", "bring one database back out of a backup", restoreDatabase, changes, machine, yields,
			long(restoreDatabaseLong)),
		define("db undo", "bring back a database that was removed", databaseUndo, changes),
	}
}

// database finds a database by id, by its owner's name, or by title if the title is unique.
func (c *Call) database(name string) (layout.Info, error) {
	if id, err := note.ParseDatabaseID(strings.ToUpper(name)); err == nil {
		return c.Store.Info(id)
	}
	if p, err := c.Directory.Names.PersonNamed(context.Background(), name); err == nil && p.MailDatabase != 0 {
		return c.Store.Info(p.MailDatabase)
	}
	all, err := c.Store.Databases()
	if err != nil {
		return layout.Info{}, err
	}
	var found []layout.Info
	for _, i := range all {
		if strings.EqualFold(i.Title, name) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return layout.Info{}, fmt.Errorf("database %q: %w", name, store.ErrNotFound)
	case 1:
		return found[0], nil
	}
	return layout.Info{}, fmt.Errorf("%w: %d databases have the title %q: give an id", ErrUsage, len(found), name)
}

func (c *Call) databaseOf(ctx context.Context, i layout.Info) Database {
	d := Database{
		ID: i.ID.String(), Title: i.Title, Kind: i.Kind, State: i.State.String(), Reason: i.Reason,
		Created: time.Unix(i.Created, 0).UTC(), Quota: Limit(i.Quota), Warning: Limit(i.Warning),
	}
	if !i.Owner.IsZero() {
		d.Owner = c.nameOf(ctx, i.Owner)
	}
	if i.Ack != layout.AckLocal {
		d.Acknowledge = i.Ack.String()
	}
	if !i.Indexed() {
		d.FullText = "off"
	}
	d.Encryption, d.KeyFile, d.Key = databaseKeyOf(c, &i)
	return d
}

func databaseAdd(ctx context.Context, c *Call, a *DatabaseAdd) (Database, error) {
	var owner note.UNID
	if a.Owner != "" {
		p, err := c.Directory.Names.PersonOf(ctx, a.Owner)
		if err != nil {
			return Database{}, err
		}
		owner = p.ID
	}
	var id note.DatabaseID
	var err error
	if a.Kind == mailbox.Kind {
		id, err = c.Mailbox.Make(ctx, owner, a.Title, uint64(a.Quota), 0)
	} else {
		acl := note.ACL{Default: note.NoAccess}
		if !owner.IsZero() {
			acl = acl.With(note.Entry{ID: owner, Level: note.Manager})
		}
		id, err = c.Store.CreateDatabase(note.System, store.Create{Title: a.Title, Kind: a.Kind, Owner: owner,
			Quota: uint64(a.Quota), ACL: acl})
	}
	if err != nil {
		return Database{}, err
	}
	i, err := c.Store.Info(id)
	return c.databaseOf(ctx, i), err
}

func databaseList(ctx context.Context, c *Call, a *DatabaseList) ([]Database, error) {
	var after note.DatabaseID
	if a.After != "" {
		var err error
		if after, err = note.ParseDatabaseID(strings.ToUpper(a.After)); err != nil {
			return nil, fmt.Errorf("%w: --after %s: %w", ErrUsage, a.After, err)
		}
	}
	return listed(atMost(a.Limit, everything), "", whole(c.Store.Databases()), func(i *layout.Info) bool {
		return i.ID > after && (a.Kind == "" || i.Kind == a.Kind) && a.Removed == (i.State == layout.PendingDelete) &&
			(holds(i.Title, a.Pattern) || holds(i.ID.String(), a.Pattern))
	}, func(i layout.Info) Database { return c.databaseOf(ctx, i) })
}

func databaseShow(ctx context.Context, c *Call, a *Named) (Database, error) {
	i, err := c.database(a.Name)
	if err != nil {
		return Database{}, err
	}
	d := c.databaseOf(ctx, i)
	d.Access = append(d.Access, "default="+i.ACL.Default.String())
	for _, e := range i.ACL.Entries {
		if e.Plus == note.Below && e.Level == note.NoAccess {
			continue // only named in the access list of a folder
		}
		d.Access = append(d.Access, c.nameOf(ctx, e.ID)+"="+e.Level.String())
	}
	if i.Kind == mailbox.Kind && i.State != layout.OutOfService {
		folders, err := c.Mailbox.File(note.System, i.ID).Folders(ctx)
		if err != nil {
			return d, err
		}
		for _, f := range folders {
			d.Folders = append(d.Folders, Folder{f.Name, f.Total, Size(f.Size)})
		}
	}
	return d, nil
}

func databaseSet(ctx context.Context, c *Call, a *DatabaseSet) (Database, error) {
	i, err := c.database(a.Name)
	if err != nil {
		return Database{}, err
	}
	acl, err := c.access(ctx, i.ACL, a.Access)
	if err != nil {
		return Database{}, err
	}
	if a.Service != nil && i.State == layout.PendingDelete {
		return Database{}, fmt.Errorf("%w: the database was removed: undo brings it back", ErrUsage)
	}
	if a.Service != nil && *a.Service && c.Store.Locked(&i) {
		return Database{}, keyError(store.ErrLocked)
	}
	ack, off, err := a.switches(&i)
	if err != nil {
		return Database{}, err
	}
	err = c.Store.SetInfo(note.System, i.ID, func(i *layout.Info) {
		i.Ack, i.NoFullText = ack, off
		assign(&i.Title, a.Title)
		assign((*Size)(&i.Quota), a.Quota)
		assign((*Size)(&i.Warning), a.Warning)
		i.ACL = acl
		if a.Service == nil {
			return
		}
		if i.State, i.Reason = layout.InService, ""; !*a.Service {
			i.State, i.Reason = layout.OutOfService, "set so by an administrator"
		}
	})
	if err != nil {
		return Database{}, err
	}
	d, err := databaseShow(ctx, c, &Named{i.ID.String()})
	if a.Acknowledge != nil && ack == layout.AckEarly {
		d.Caution = earlyCaution
	}
	return d, err
}

// earlyCaution is the warning for a database that acknowledges early.
const earlyCaution = "a crash or power failure loses the changes that were acknowledged since the last flush of the " +
	"log: those of the last milliseconds (store.wal_sync_interval and the time of a flush), 1024 at most. Mail that " +
	"was accepted is lost then; mail.box also sends again what it had sent."

// switches returns what acknowledges the changes of a database, and reports whether it is left out of the full-text
// index, after the change that the arguments ask for.
func (a *DatabaseSet) switches(i *layout.Info) (ack layout.Ack, off bool, err error) {
	ack, off = i.Ack, i.NoFullText
	if a.Acknowledge != nil {
		at := slices.IndexFunc(layout.Acks, func(m layout.Ack) bool { return m.String() == *a.Acknowledge })
		if at < 0 {
			return ack, off, fmt.Errorf("%w: a change is acknowledged local, cluster, cluster-strict or early, not %q",
				ErrUsage, *a.Acknowledge)
		}
		ack = layout.Acks[at]
	}
	if ack == layout.AckEarly && (i.Kind == directory.Kind || i.Kind == session.Kind) {
		return ack, off, fmt.Errorf("%w: %s is never acknowledged early: a crash would bring back withdrawn rights",
			ErrUsage, i.Title)
	}
	if a.FullText != nil {
		if *a.FullText != "on" && *a.FullText != "off" {
			return ack, off, fmt.Errorf("%w: full text is on or off, not %q", ErrUsage, *a.FullText)
		}
		off = *a.FullText == "off"
	}
	return ack, off, nil
}

// access adds entries of the form name=level to an access list. The level No Access removes an entry.
func (c *Call) access(ctx context.Context, acl note.ACL, entries []string) (note.ACL, error) {
	for _, e := range entries {
		name, word, _ := strings.Cut(e, "=")
		level, err := note.ParseLevel(word)
		if err != nil {
			return acl, fmt.Errorf("%w: access %q: %w", ErrUsage, e, err)
		}
		if strings.EqualFold(name, "default") {
			acl.Default = level
			continue
		}
		t, err := c.Directory.Names.Lookup(ctx, name)
		if err != nil {
			return acl, fmt.Errorf("access %q: %w", e, err)
		}
		acl = acl.With(note.Entry{ID: t.ID, Level: level})
	}
	return acl, nil
}

func (c *Call) setQuota(id note.DatabaseID, quota, warning *Size) error {
	if id == 0 {
		return nil
	}
	err := c.Store.SetInfo(note.System, id, func(i *layout.Info) {
		assign((*Size)(&i.Quota), quota)
		assign((*Size)(&i.Warning), warning)
	})
	if errors.Is(err, store.ErrNotFound) { // the mail file is created when it is first opened
		return nil
	}
	return err
}

func databaseRemove(ctx context.Context, c *Call, a *Named) (Done, error) {
	i, err := c.database(a.Name)
	if err != nil {
		return Done{}, err
	}
	if i.ID == directory.ID || i.Queue {
		return Done{}, fmt.Errorf("%w: the server needs %s", ErrUsage, i.Title)
	}
	if i.Kind == journal.Kind {
		return Done{}, fmt.Errorf("%w: %s is a mail journal: journal remove", ErrUsage, i.Title)
	}
	if p, err := c.Directory.Names.Person(ctx, i.Owner); err == nil && p.MailDatabase == i.ID && p.Removed.IsZero() &&
		!c.gone(ctx, &p) {
		return Done{}, fmt.Errorf("%w: %s is the mail file of %s: remove the person instead", ErrUsage,
			i.Title, p.Name())
	}
	if i.Kind == mailbox.Kind {
		if err := notHeld(ctx, c, i.ID); err != nil {
			return Done{}, err
		}
	}
	err = c.Store.SetInfo(note.System, i.ID, func(i *layout.Info) { i.Remove(c.Env.Clock.Now()) })
	return Done{"removed " + i.Title + "; undo is possible for 30 days"}, err
}

func databaseUndo(_ context.Context, c *Call, a *Named) (Done, error) {
	i, err := c.database(a.Name)
	if err != nil {
		return Done{}, err
	}
	if i.State != layout.PendingDelete {
		return Done{}, fmt.Errorf("%w: %s was not removed", ErrUsage, i.Title)
	}
	return Done{"brought back " + i.Title}, c.Store.SetInfo(note.System, i.ID, func(i *layout.Info) {
		i.State, i.Reason = layout.InService, ""
	})
}

// PurgeDatabases deletes the databases that were removed longer than keep ago, and returns their number. The nightly
// Purge calls it.
func PurgeDatabases(s *store.Store, now time.Time, keep time.Duration) (int, error) {
	all, err := s.Databases()
	if err != nil {
		return 0, err
	}
	n := 0
	var errs []error
	for _, i := range all {
		if at, ok := i.Removed(); !ok || now.Sub(at) < keep {
			continue
		}
		if err := s.RemoveDatabase(note.System, i.ID); err != nil {
			errs = append(errs, fmt.Errorf("purge database %s: %w", i.ID, err))
			continue
		}
		n++
	}
	return n, errors.Join(errs...)
}
