package admin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/replica"
	"doublet/replica/https"
)

// Connection is a connection document in the results of verbs, with the results of its runs on this server since the
// start. It never contains the password.
type Connection struct {
	Name      string   `json:"name"`
	URL       string   `json:"url"`
	User      string   `json:"user"`
	Server    string   `json:"server,omitempty"`
	Databases []string `json:"databases,omitempty"`
	Direction string   `json:"direction"`
	Folders   []string `json:"folders,omitempty"`
	MaxSize   Size     `json:"max_size,omitempty"`
	Days      int      `json:"days,omitempty"`
	// Every is the interval between runs, or "continuous".
	Every    string    `json:"every"`
	Between  string    `json:"between,omitempty"`
	Disabled bool      `json:"disabled,omitempty"`
	State    string    `json:"state,omitempty"`
	LastRun  time.Time `json:"last_run,omitzero"`
	NextRun  time.Time `json:"next_run,omitzero"`
	Runs     uint64    `json:"runs,omitempty"`
	Received uint64    `json:"received,omitempty"`
	Sent     uint64    `json:"sent,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// ConnectionAdd are the arguments of connection add.
type ConnectionAdd struct {
	Name        string   `json:"name" arg:"required" help:"what it is called"`
	URL         string   `json:"url" arg:"required" help:"the other server, such as https://mail.example.com"`
	User        string   `json:"user" required:"true" help:"user there, named in the access lists there"`
	Password    string   `json:"password" help:"the password for it, best an app password" secret:"yes"`
	Database    []string `json:"database" help:"database there, by id or title; repeatable (default: mail file)"`
	Direction   string   `json:"direction" help:"pull, push or both" default:"both"`
	Folder      []string `json:"folder" help:"bring only what is in this folder, or below it; may be repeated"`
	MaxSize     Size     `json:"max_size" help:"bring no message that is larger"`
	Days        int      `json:"days" help:"bring nothing that is older"`
	Every       string   `json:"every" help:"interval: 15m, 2h; or continuous: after each change" default:"1h"`
	Between     string   `json:"between" help:"only within these times of the day, such as 22:00-06:00"`
	Fingerprint string   `json:"fingerprint" help:"SHA-256 of the certificate there, if self-signed"`
	Server      string   `json:"server" help:"server of this domain that runs it; without it, this one"`
	Disabled    bool     `json:"disabled" help:"run it by connection run alone"`
}

// ConnectionRun are the arguments of connection run.
type ConnectionRun struct {
	Name    string `json:"name" arg:"required" help:"name of the connection"`
	Compare bool   `json:"compare" help:"compare everything from the beginning, whatever both sides remember"`
}

// ReplicaCopy are the arguments of replica copy.
type ReplicaCopy struct {
	URL         string   `json:"url" arg:"required" help:"the other server, such as https://mail.example.com"`
	User        string   `json:"user" required:"true" help:"who signs in there"`
	Password    string   `json:"password" help:"the password for it" secret:"yes"`
	Database    []string `json:"database" help:"database there, by id or title; repeatable (default: mail file)"`
	Direction   string   `json:"direction" help:"pull, push or both" default:"both"`
	Folder      []string `json:"folder" help:"bring only what is in this folder, or below it; may be repeated"`
	MaxSize     Size     `json:"max_size" help:"bring no message that is larger"`
	Days        int      `json:"days" help:"bring nothing that is older"`
	Fingerprint string   `json:"fingerprint" help:"SHA-256 of the certificate there, if self-signed"`
	Compare     bool     `json:"compare" help:"compare everything from the beginning, whatever both sides remember"`
	Adopt       bool     `json:"adopt" help:"let the user sign in here too, with the same password"`
	Continuous  bool     `json:"continuous" help:"go on, and replicate whatever changes on either side"`
}

// Replicated is the result of a replication.
type Replicated struct {
	Server    string               `json:"server"`
	Databases []ReplicatedDatabase `json:"databases"`
}

// ReplicatedDatabase is the result of replicating one database.
type ReplicatedDatabase struct {
	Title string `json:"title"`
	ID    string `json:"id"`
	// New reports that the local copy was created.
	New      bool     `json:"new,omitempty"`
	Received int      `json:"received" show:"always"`
	Sent     int      `json:"sent" show:"always"`
	Deleted  int      `json:"deleted,omitempty"`
	Objects  Size     `json:"objects,omitempty"`
	Restored bool     `json:"restored,omitempty"`
	Refused  []string `json:"refused,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// Bad reports whether something failed, for the exit code.
func (r Replicated) Bad() bool {
	return slices.ContainsFunc(r.Databases,
		func(d ReplicatedDatabase) bool { return d.Error != "" || len(d.Refused) > 0 })
}

// ReplicaShown is the stored state of replication with another replica.
type ReplicaShown struct {
	Database string    `json:"database"`
	Title    string    `json:"title,omitempty"`
	Other    string    `json:"other,omitempty"`
	Replica  string    `json:"replica"`
	Received uint64    `json:"received_up_to"`
	Given    uint64    `json:"given_up_to"`
	Time     time.Time `json:"time,omitzero"`
	Aside    int       `json:"set_aside,omitempty"`
	First    string    `json:"first,omitempty"`
}

// ReplicaForget are the arguments of replica forget.
type ReplicaForget struct {
	Database string `json:"database" arg:"required" help:"id or title of the database, or its owner's name"`
	Replica  string `json:"replica" arg:"required" help:"replica, as replica history shows it"`
}

func replication() []*Verb {
	return []*Verb{
		define("connection add", "replicate databases with another server on a schedule", connectionAdd, changes,
			long("For servers that are in no cluster. The other server is asked over HTTPS, as the user; what the "+
				"access lists there grant\ncomes and goes. The task Replica of the server runs it.")),
		define("connection list", "list the connections, and how their last runs went",
			func(ctx context.Context, c *Call, _ *struct{}) ([]Connection, error) {
				return rows(c.connectionOf)(c.Directory.Connections.List(ctx, c.Who))
			}),
		define("connection remove", "remove a connection; the copies that it made stay",
			func(ctx context.Context, c *Call, a *Named) (Done, error) {
				x, err := c.Connections.Named(ctx, a.Name)
				if err != nil {
					return Done{}, err
				}
				return Done{"removed the connection " + x.Name}, c.Directory.Connections.Remove(ctx, c.Who, x.ID)
			}, changes),
		define("connection run", "run a connection now", func(ctx context.Context, c *Call,
			a *ConnectionRun) (Replicated, error) {
			x, err := c.Connections.Named(ctx, a.Name)
			if err != nil {
				return Replicated{}, err
			}
			job, err := c.Connections.Job(ctx, &x.ConnectionFields, 0)
			if err != nil {
				return Replicated{}, err
			}
			defer job.Client.Close()
			job.Compare, job.Progress = a.Compare, c.replicaProgress
			account, list, err := job.Run(ctx)
			return replicated(&account, list), err
		}, changes, yields),
		define("replica copy",
			"replicate databases with another server once, and make the copies that are missing here", replicaCopy,
			changes, yields,
			long("What connection add does on a schedule. doublet replicate makes the data folder too, where there "+
				"is none.")),
		define("replica history",
			"what is remembered of replicas elsewhere: how far both sides have come, and what was set aside",
			replicaHistory),
		define("replica forget",
			"forget a replica elsewhere that does not come back: the next time the two are compared from the beginning",
			func(ctx context.Context, c *Call, a *ReplicaForget) (Done, error) {
				i, err := c.database(a.Database)
				if err != nil {
					return Done{}, err
				}
				id, err := strconv.ParseUint(a.Replica, 16, 64)
				if err != nil {
					return Done{}, fmt.Errorf("%w: a replica is 16 hex digits, not %q", ErrUsage, a.Replica)
				}
				return Done{"forgot replica " + a.Replica + " of " + i.Title},
					c.Replica.Forget(ctx, i.ID, note.ReplicaID(id))
			}, changes),
	}
}

func connectionAdd(ctx context.Context, c *Call, a *ConnectionAdd) (Connection, error) {
	f := directory.ConnectionFields{
		Name: a.Name, Server: a.Server, URL: a.URL, User: a.User, Password: a.Password, Fingerprint: a.Fingerprint,
		Databases: nonEmpty(a.Database), Direction: strings.ToLower(a.Direction), Folders: nonEmpty(a.Folder),
		MaxSize: uint64(a.MaxSize), Days: a.Days,
		Disabled: a.Disabled, Guarded: !c.Who.System,
	}
	var err error
	if a.Every != "continuous" {
		if f.Every, err = time.ParseDuration(a.Every); err != nil || f.Every <= 0 {
			return Connection{}, fmt.Errorf("%w: --every is a time such as 15m, or continuous", ErrUsage)
		}
	}
	if f.From, f.Until, err = parseBetween(a.Between); err != nil {
		return Connection{}, err
	}
	x, err := c.Connections.Add(ctx, c.Who, f)
	return c.connectionOf(x), err
}

// parseBetween parses 22:00-06:00 as minutes of the day.
func parseBetween(text string) (from, until int, err error) {
	if text == "" {
		return 0, 0, nil
	}
	a, b, _ := strings.Cut(text, "-")
	for _, p := range []struct {
		text string
		to   *int
	}{{a, &from}, {b, &until}} {
		t, err := time.Parse("15:04", strings.TrimSpace(p.text))
		if err != nil {
			return 0, 0, fmt.Errorf("%w: %q is no part of a day such as 22:00-06:00", ErrUsage, text)
		}
		*p.to = t.Hour()*60 + t.Minute()
	}
	return from, until, nil
}

func (c *Call) connectionOf(x directory.Connection) Connection {
	out := Connection{
		Name: x.Name, URL: x.URL, User: x.User, Server: x.Server, Databases: x.Databases, Direction: x.Direction,
		Folders: x.Folders, MaxSize: Size(x.MaxSize), Days: x.Days, Every: "continuous", Disabled: x.Disabled,
	}
	if x.Every > 0 {
		out.Every = x.Every.String()
	}
	if !x.Peer.IsZero() {
		out.URL = "server of the domain"
	}
	if x.From != x.Until {
		out.Between = fmt.Sprintf("%02d:%02d-%02d:%02d", x.From/60, x.From%60, x.Until/60, x.Until%60)
	}
	if c.running != nil {
		r := c.running.Replicator.Status(&x)
		out.State, out.LastRun, out.NextRun, out.Runs = r.State, r.LastRun, r.NextRun, r.Runs
		out.Received, out.Sent, out.Error = r.Received, r.Sent, r.Error
	}
	return out
}

func (c *Call) replicaProgress(title string, p replica.Progress) {
	c.Progress(Progress{Stage: title, Done: p.Done, Text: fmt.Sprintf("of %d notes, %d brought", p.Total,
		p.Added+p.Updated+p.Deleted)})
}

func replicated(a *https.Account, list []https.Outcome) Replicated {
	out := Replicated{Server: a.Server, Databases: []ReplicatedDatabase{}}
	for i := range list {
		o := &list[i]
		d := ReplicatedDatabase{
			Title: o.Title, ID: o.ID.String(), New: o.Made, Received: o.Received(), Sent: o.Sent(),
			Deleted: o.Deleted(), Objects: Size(o.In.ObjectBytes + o.Out.ObjectBytes),
			Restored: o.In.Restored || o.Out.Restored,
		}
		for _, r := range o.Refused() {
			d.Refused = append(d.Refused, r.UNID.String()+": "+r.Text)
		}
		if o.Err != nil {
			d.Error = o.Err.Error()
		}
		out.Databases = append(out.Databases, d)
	}
	return out
}

// adopt enters a person who replicates their mail file, so that they can sign in here too, under the other server's id.
func (c *Call) adopt(ctx context.Context, a *https.Account, password string) error {
	if a.Person == "" || a.Mail == "" {
		return fmt.Errorf("%w: %s has no mail file on %s", ErrUsage, a.Name, a.Server)
	}
	id, err := note.ParseUNID(a.Person)
	if err != nil {
		return err
	}
	db, err := note.ParseDatabaseID(a.Mail)
	if err != nil {
		return err
	}
	fields := directory.PersonFields{FullName: []string{a.Name}, ShortName: a.Short, InternetAddress: a.Address,
		MailDatabase: db}
	_, err = c.Directory.People.Adopt(ctx, c.Who, id, directory.PersonSpec{PersonFields: fields, Password: password,
		Scram: c.SCRAM})
	return err
}

func replicaCopy(ctx context.Context, c *Call, a *ReplicaCopy) (Replicated, error) {
	f := directory.ConnectionFields{
		URL: a.URL, User: a.User, Password: a.Password, Fingerprint: a.Fingerprint, Databases: nonEmpty(a.Database),
		Direction: a.Direction,
		Folders:   nonEmpty(a.Folder), MaxSize: uint64(a.MaxSize), Days: a.Days, Guarded: !c.Who.System,
	}
	job, err := c.Connections.Job(ctx, &f, 0)
	if err != nil {
		return Replicated{}, fmt.Errorf("%w: %w", ErrUsage, err)
	}
	defer job.Client.Close()
	job.Compare, job.Progress = a.Compare, c.replicaProgress
	if a.Adopt {
		account, err := job.Client.Account(ctx)
		if err == nil {
			err = c.adopt(ctx, &account, a.Password)
		}
		if err != nil {
			return Replicated{}, err
		}
	}
	if !a.Continuous {
		account, list, err := job.Run(ctx)
		return replicated(&account, list), err
	}
	var last Replicated
	server := https.Account{Server: job.Client.Host()}
	err = job.Watch(ctx, func(list []https.Outcome, err error) {
		job.Compare = false
		last = replicated(&server, list)
		if text := https.Summary(list, err); text != "" {
			c.Progress(Progress{Output: c.Env.Clock.Now().UTC().Format(time.RFC3339) + " " + text + "\n"})
		}
	})
	if ctx.Err() != nil {
		err = nil // the caller has canceled, which is not an error
	}
	return last, err
}

func replicaHistory(ctx context.Context, c *Call, _ *struct{}) ([]ReplicaShown, error) {
	return rows(func(x replica.Record) ReplicaShown {
		r := ReplicaShown{
			Database: x.Database.String(), Other: x.Name, Replica: fmt.Sprintf("%016X", uint64(x.Replica)),
			Received: x.Received, Given: x.Given,
			Time: x.Time, Aside: len(x.Aside),
		}
		if i, err := c.Store.Info(x.Database); err == nil {
			r.Title = i.Title
		}
		if len(x.Aside) > 0 {
			r.First = x.Aside[0].UNID.String() + ": " + x.Aside[0].Text
		}
		return r
	})(c.Replica.History(ctx))
}
