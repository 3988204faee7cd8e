// Package schedule implements the connections of a server: replication with other servers, over HTTPS, on a schedule.
package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"doublet/bus/pki"
	"doublet/client/reach"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica"
	"doublet/replica/https"
	"doublet/store"
)

// ErrInvalid rejects a connection that cannot be run.
var ErrInvalid = errors.New("bad arguments")

// Options of the connections of a server.
type Options struct {
	// Server is the name of this server.
	Server string
	// Own returns the key of this server in its domain, nil if it has none.
	Own func() *pki.Own
	// Reach checks the hosts that people enter in a browser.
	Reach *reach.Guard
	// Primary reports whether this server runs the connections of its place to other places of the domain.
	Primary func(context.Context) bool
	// Every is the interval at which the Replicator checks the connections (10 s).
	Every time.Duration
}

// Connections adds and runs the connections of a server.
type Connections struct {
	env       *env.Env
	directory *directory.Directory
	service   *replica.Service
	store     *store.Store
	o         Options
}

// New returns the connections of the server that svc replicates for.
func New(e *env.Env, d *directory.Directory, svc *replica.Service, s *store.Store, o Options) *Connections {
	o.Every = cmp.Or(o.Every, 10*time.Second)
	return &Connections{e, d, svc, s, o}
}

// Add adds a connection. It rejects at once what the first run would reject.
func (c *Connections) Add(ctx context.Context, who note.Who, f directory.ConnectionFields) (directory.Connection,
	error) {
	f.Server = cmp.Or(f.Server, c.o.Server)
	if err := directory.CheckConnection(&f); err != nil {
		return directory.Connection{}, err
	}
	job, err := c.Job(ctx, &f, 0)
	if err != nil {
		return directory.Connection{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	job.Client.Close()
	if err := c.reachable(ctx, &f); err != nil {
		return directory.Connection{}, err
	}
	return c.directory.Connections.Add(ctx, who, f)
}

// Named returns the connection with a name, with its password.
func (c *Connections) Named(ctx context.Context, name string) (directory.Connection, error) {
	list, err := c.directory.Connections.List(ctx, note.System)
	if err != nil {
		return directory.Connection{}, err
	}
	for _, x := range list {
		if strings.EqualFold(x.Name, name) {
			return x, nil
		}
	}
	return directory.Connection{}, fmt.Errorf("%w: no connection %.80q", directory.ErrNotFound, name)
}

// Job returns the job of a connection. turn is the number of the run: if the other place has several servers, it
// selects one of them.
func (c *Connections) Job(ctx context.Context, f *directory.ConnectionFields, turn uint64) (*https.Job, error) {
	if !f.Peer.IsZero() {
		return c.peerJob(ctx, f, turn)
	}
	o := https.ClientOptions{URL: f.URL, User: f.User, Secret: f.Password, Fingerprint: f.Fingerprint}
	if f.Guarded {
		if err := c.guard(f.URL); err != nil {
			return nil, err
		}
		o.Dial = c.o.Reach.Dial
	}
	return c.jobOver(f, o)
}

// errReach is the advice in the error for a host that may not be reached from the browser.
const errReach = "give the command on the server's machine, or allow the network in web.admin_reach"

// guard rejects a URL that web administration may not use. Reach.Dial checks the host's address later.
func (c *Connections) guard(text string) error {
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	if err := c.o.Reach.Check(text); err != nil {
		return fmt.Errorf("%w: %s", err, errReach)
	}
	return nil
}

// reachable rejects a forbidden host when the connection is added, not only at the first run.
func (c *Connections) reachable(ctx context.Context, f *directory.ConnectionFields) error {
	u, err := url.Parse(f.URL)
	if !f.Guarded || err != nil {
		return err
	}
	if _, err = c.o.Reach.Find(ctx, u.Hostname()); errors.Is(err, reach.ErrAddress) {
		return fmt.Errorf("%w: %w: %s", ErrInvalid, err, errReach)
	}
	return nil // a name that does not resolve now may do so later
}

// peerJob returns the job of a connection to a server of the domain. turn selects the server of the other place.
func (c *Connections) peerJob(ctx context.Context, f *directory.ConnectionFields, turn uint64) (*https.Job, error) {
	own := c.o.Own()
	if own == nil {
		return nil,
			errors.New("this server has no key of its own: put back server.key in the folder cluster of its data " +
				"folder")
	}
	place, err := c.directory.Servers.PlaceOf(ctx, f.Peer)
	if err != nil {
		return nil, err
	}
	if place.Here {
		return nil, fmt.Errorf("%w: the connection %s leads to this server's own place", ErrInvalid, f.Name)
	}
	var reached []directory.Server
	for _, x := range place.Servers {
		if x.Door("web") != "" {
			reached = append(reached, x)
		}
	}
	if len(reached) == 0 {
		return nil, fmt.Errorf("no server of %s has an https address in the directory", place.Name)
	}
	to := reached[turn%uint64(len(reached))]
	return c.jobOver(f, https.ClientOptions{URL: to.Door("web"), TLS: own.Client(to.Key, c.env.Clock.Now)})
}

func (c *Connections) jobOver(f *directory.ConnectionFields, o https.ClientOptions) (*https.Job, error) {
	direction, err := https.ParseDirection(f.Direction)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	client, err := https.NewClient(c.env, o)
	if err != nil {
		return nil, err
	}
	j := &https.Job{
		Client: client, Service: c.service, Store: c.store, Databases: f.Databases, Direction: direction,
		Domain: o.TLS != nil, UntilFailure: o.TLS != nil,
		Select: replica.Selection{Folders: f.Folders, MaxSize: f.MaxSize},
	}
	if f.Days > 0 {
		// Use whole days, so that the selection stays the same all day and the next run continues after this one.
		day := c.env.Clock.Now().UTC().Truncate(24 * time.Hour)
		j.Select.Since = day.AddDate(0, 0, -f.Days).Unix()
	}
	return j, nil
}

// Exchange replicates with another place: with the first of its servers that succeeds, or with all that have a replica.
// It returns the number of notes received.
func (c *Connections) Exchange(ctx context.Context, f *directory.ConnectionFields, servers int, all bool) (int, error) {
	var errs []error
	brought, done, missing := 0, 0, 0
	for turn := range max(servers, 1) {
		n, err := c.exchangeWith(ctx, f, uint64(turn))
		brought += n
		switch {
		case err == nil && !all:
			return brought, nil
		case err == nil:
			done++
			continue
		case ctx.Err() != nil:
			return brought, ctx.Err()
		case errors.Is(err, store.ErrNotFound):
			missing++
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	switch {
	case missing == len(errs) && done > 0:
		return brought, nil
	case missing < len(errs) && errors.Is(err, store.ErrNotFound):
		return brought, fmt.Errorf("not all servers of the other place answer, and the others have no "+
			"replica: %v", err) //nolint:errorlint // it is not ErrNotFound
	}
	return brought, err
}

// exchangeWith replicates with server number turn of another place.
func (c *Connections) exchangeWith(ctx context.Context, f *directory.ConnectionFields, turn uint64) (int, error) {
	job, err := c.Job(ctx, f, turn)
	if err != nil {
		return 0, err
	}
	_, list, err := job.Run(ctx)
	job.Client.Close()
	n := 0
	for _, o := range list {
		n += o.In.Added + o.In.Updated + o.In.Deleted
		if err = errors.Join(err, o.Err); len(o.In.Refused) > 0 {
			err = errors.Join(err, fmt.Errorf("%d notes were refused: %s", len(o.In.Refused), o.In.Refused[0].Text))
		}
	}
	return n, err
}

// runsHere reports whether this server has to run a connection.
func (c *Connections) runsHere(ctx context.Context, x *directory.Connection) bool {
	if x.Peer.IsZero() {
		return x.Server == c.o.Server
	}
	server, err := c.directory.Servers.Named(ctx, x.Server)
	if err != nil {
		return false
	}
	place, err := c.directory.Servers.PlaceOf(ctx, server.ID)
	return err == nil && place.Here && c.o.Primary(ctx)
}
