package https

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// Direction is the direction of replication.
type Direction string

// Directions, from the point of view of this server.
const (
	Pull Direction = "pull"
	Push Direction = "push"
	Both Direction = "both"
)

// ParseDirection parses a direction; "" is Both.
func ParseDirection(text string) (Direction, error) {
	switch d := Direction(strings.ToLower(text)); d {
	case "":
		return Both, nil
	case Pull, Push, Both:
		return d, nil
	}
	return "", fmt.Errorf("direction %q is not pull, push or both", text)
}

// Job describes replication between another server and this one.
type Job struct {
	Client  *Client
	Service *replica.Service
	Store   *store.Store
	// Databases are ids or titles; empty: the mail file of the signed-in person.
	Databases []string
	Direction Direction
	Select    replica.Selection
	// Domain means that the other server belongs to this domain. The directory may then be replicated too.
	Domain bool
	// UntilFailure makes Watch return at the first failure, so that another server can take over.
	UntilFailure bool
	// Compare compares all notes from the beginning.
	Compare bool
	// Progress, if set, receives the progress of each database.
	Progress func(title string, p replica.Progress)
}

// Outcome is the result of replicating one database.
type Outcome struct {
	ID    note.DatabaseID
	Title string
	// Made means that the local copy was created.
	Made    bool
	In, Out replica.Result
	Err     error
}

// Received returns the number of notes added or updated here.
func (o *Outcome) Received() int { return o.In.Added + o.In.Updated }

// Sent returns the number of notes added or updated at the other server.
func (o *Outcome) Sent() int { return o.Out.Added + o.Out.Updated }

// Deleted returns the number of notes that were deleted on either side.
func (o *Outcome) Deleted() int { return o.In.Deleted + o.Out.Deleted }

// Refused returns the notes that either side set aside.
func (o *Outcome) Refused() []replica.Refused { return slices.Concat(o.In.Refused, o.Out.Refused) }

// Summary returns one line about a run, "" if nothing was replicated. err is the error of the whole run.
func Summary(list []Outcome, err error) string {
	if err != nil {
		return err.Error()
	}
	var parts []string
	for i := range list {
		o := &list[i]
		received, sent, deleted, refused := o.Received(), o.Sent(), o.Deleted(), len(o.Refused())
		switch {
		case o.Err != nil:
			parts = append(parts, o.Title+": "+o.Err.Error())
		case received+sent+deleted+refused > 0:
			parts = append(parts, fmt.Sprintf("%s: %d received, %d sent, %d deleted, %d refused", o.Title, received,
				sent, deleted, refused))
		}
	}
	return strings.Join(parts, "; ")
}

// Run replicates all databases of the job once. The error of a single database is in its Outcome and does not stop the
// others.
func (j *Job) Run(ctx context.Context) (Account, []Outcome, error) {
	account, err := j.Client.Account(ctx)
	if err != nil {
		return account, nil, err
	}
	list, err := j.choose(&account)
	if err != nil {
		return account, nil, err
	}
	var out []Outcome
	for _, d := range list {
		o := j.one(ctx, &account, d)
		j.Service.Done(o.Err)
		out = append(out, o)
		if ctx.Err() != nil {
			return account, out, ctx.Err()
		}
	}
	return account, out, nil
}

// choose finds the databases of the job in the account.
func (j *Job) choose(a *Account) ([]Database, error) {
	var out []Database
	if len(j.Databases) == 0 {
		i := slices.IndexFunc(a.Databases, func(d Database) bool { return d.ID == a.Mail && a.Mail != "" })
		if i < 0 {
			return nil, fmt.Errorf("%w: %s has no mail file on %s: name the databases", store.ErrNotFound,
				a.Name, a.Server)
		}
		return a.Databases[i : i+1], nil
	}
	for _, name := range j.Databases {
		found := slices.DeleteFunc(slices.Clone(a.Databases), func(d Database) bool {
			return !strings.EqualFold(d.ID, name) && !strings.EqualFold(d.Title, name)
		})
		switch len(found) {
		case 0:
			return nil,
				fmt.Errorf("%w: no database %q on %s that %s may replicate: grant access there with doublet db set "+
					"--access",
					store.ErrNotFound, name, a.Server, a.Name)
		case 1:
			out = append(out, found[0])
		default:
			return nil, fmt.Errorf("%d databases on %s have the title %q: give an id", len(found), a.Server, name)
		}
	}
	return out, nil
}

func (j *Job) one(ctx context.Context, a *Account, d Database) (o Outcome) {
	o.Title = d.Title
	if o.ID, o.Err = note.ParseDatabaseID(d.ID); o.Err != nil {
		return o
	}
	direction := cmp.Or(j.Direction, Both)
	// A person who may only read at the server can still keep a copy.
	pull, push := direction != Push, direction != Pull && d.Push
	if pull && !d.Pull || !pull && !push {
		o.Err = fmt.Errorf("%w: %s at %s", store.ErrDenied, d.Title, a.Server)
		return o
	}
	if o.Err = j.meant(o.ID, a, d); o.Err != nil {
		return o
	}
	if o.Made, o.Err = j.make(o.ID, a, d); o.Err != nil {
		return o
	}
	there, here := j.Client.Side(), j.Service.As(note.System)
	opts := replica.SendOptions{Apart: true, Select: j.Select, Compare: j.Compare, From: j.Client.Host(), To: "here"}
	if j.Progress != nil {
		opts.Progress = func(p replica.Progress) { j.Progress(d.Title, p) }
	}
	if pull {
		if o.In, o.Err = replica.Send(ctx, there, here, o.ID, opts); o.Err != nil {
			return o
		}
	}
	if push {
		opts.From, opts.To = "here", j.Client.Host()
		// Push sends all local changes: the selection limits only what comes in.
		opts.Select = replica.Selection{}
		o.Out, o.Err = replica.Send(ctx, here, there, o.ID, opts)
	}
	return o
}

// meant checks that the local database with this id is the one that the job means. The other server chooses the id that
// it reports; without the check it could obtain or change another local database by sending that one's id. Servers of
// the domain are trusted.
func (j *Job) meant(id note.DatabaseID, a *Account, d Database) error {
	if j.Domain {
		return nil
	}
	info, err := j.Store.Info(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	byID := slices.ContainsFunc(j.Databases, func(name string) bool { return strings.EqualFold(name, id.String()) })
	own := len(j.Databases) == 0 && a.Person != "" && info.Owner.String() == a.Person
	if byID || own || len(j.Databases) > 0 && info.Title == d.Title {
		return nil
	}
	return fmt.Errorf("%w: database %q of %s has the id %s, which is %q here: name it by this id if it is the same",
		store.ErrDenied, a.Server, d.Title, id, info.Title)
}

// make creates the local copy if there is none. It reports whether it did.
func (j *Job) make(id note.DatabaseID, a *Account, d Database) (bool, error) {
	if info, err := j.Store.Info(id); err == nil {
		if !Published(&info) && !(j.Domain && id == directory.ID) {
			return false, fmt.Errorf("%w: %s", replica.ErrLocalOnly, info.Title)
		}
		return false, nil
	} else if !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	c := store.Create{ID: id, Title: d.Title, Kind: d.Kind, Quota: d.Quota}
	var err error
	if d.Owner != "" {
		if c.Owner, err = note.ParseUNID(d.Owner); err != nil {
			return false, fmt.Errorf("replica: %s: %w", a.Server, err)
		}
	}
	if c.ACL, err = access(a, d, c.Owner); err != nil {
		return false, fmt.Errorf("replica: %s: %w", a.Server, err)
	}
	if !PublishedKind(d.Kind) && !(j.Domain && id == directory.ID) {
		return false, fmt.Errorf("%w: a database of kind %.40q", replica.ErrLocalOnly, d.Kind)
	}
	_, err = j.Store.CreateDatabase(note.System, c)
	return err == nil, err
}

// access returns the access list for a local copy: the server's list if the server sent it, else a list of the owner
// and the person who creates the copy.
func access(a *Account, d Database, owner note.UNID) (note.ACL, error) {
	if len(d.Access) > 0 {
		acl, rest, err := note.ReadACL(d.Access)
		if err == nil && len(rest) != 0 {
			err = note.ErrCorrupt
		}
		return acl, err
	}
	acl := note.ACL{Default: note.NoAccess}
	if a.Person != "" {
		person, err := note.ParseUNID(a.Person)
		if err != nil {
			return acl, err
		}
		level := note.Reader
		if d.Push {
			level = note.Editor
		}
		acl = acl.With(note.Entry{ID: person, Level: level})
	}
	if !owner.IsZero() {
		acl = acl.With(note.Entry{ID: owner, Level: note.Manager})
	}
	return acl, nil
}

// Watch runs the job, and again when a database has changed on either side, until ctx ends. It calls told with the
// result of each run. After a failure it pauses, each time for longer.
func (j *Job) Watch(ctx context.Context, told func([]Outcome, error)) error {
	pause := firstPause
	for ctx.Err() == nil {
		_, out, err := j.Run(ctx)
		told(out, err)
		failed := err != nil || slices.ContainsFunc(out, func(o Outcome) bool { return o.Err != nil })
		if errors.Is(err, ErrSignIn) {
			return err
		}
		if failed && j.UntilFailure {
			return errors.Join(append([]error{err}, errorsOf(out)...)...)
		}
		if failed {
			select {
			case <-j.Client.env.Clock.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, maxPause)
			continue
		}
		pause = firstPause
		j.rest(ctx, out)
	}
	return ctx.Err()
}

func errorsOf(list []Outcome) (out []error) {
	for _, o := range list {
		out = append(out, o.Err)
	}
	return out
}

// Pauses after a failure, and the time in which changes are collected before they are replicated.
const (
	firstPause = 5 * time.Second
	maxPause   = 5 * time.Minute
	gather     = 500 * time.Millisecond
	// atLeast is the maximum time between two runs if no change is noticed.
	atLeast = 10 * time.Minute
)

// rest waits until one of the databases has changed, at the server or here.
func (j *Job) rest(ctx context.Context, list []Outcome) {
	e := j.Client.env
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	woken := make(chan struct{}, 1)
	wake := func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	}
	places := map[note.DatabaseID]uint64{}
	for _, o := range list {
		// Use the position at the start of the run. So no later change is missed; the run's own writes cost one extra
		// run.
		places[o.ID] = cmp.Or(o.In.FromSeq, o.Out.ToSeq)
		if j.Direction == Pull {
			continue
		}
		stop, err := j.Store.Watch(o.ID, wake)
		if err != nil {
			return
		}
		defer stop()
		g, err := j.Service.As(note.System).Hello(ctx, o.ID, replica.Peer{})
		if err != nil || g.Seq != cmp.Or(o.Out.FromSeq, o.In.ToSeq) {
			wake()
		}
	}
	done := make(chan struct{})
	e.Go("replica wait", func() {
		defer close(done)
		for ctx.Err() == nil {
			changed, err := j.Client.Wait(ctx, places)
			if err != nil || len(changed) > 0 {
				wake()
				return
			}
		}
	})
	select {
	case <-woken:
		select { // collect changes that arrive together
		case <-e.Clock.After(gather):
		case <-ctx.Done():
		}
	case <-e.Clock.After(atLeast):
	case <-ctx.Done():
	}
	cancel()
	<-done
}
