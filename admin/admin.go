// Package admin implements every administrative operation once, as a typed verb in one table. The command line, the
// socket, the console and the browser all use this table and have no operations of their own. A verb runs in the
// server, or in a process that has opened the store of a stopped server. Its code is the same in both cases.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"doublet/bus/pki"
	"doublet/catalog"
	"doublet/client/dns"
	"doublet/cluster/member"
	"doublet/collect"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mail"
	"doublet/mail/journal"
	"doublet/mail/junk"
	"doublet/mail/reports"
	"doublet/mailbox"
	"doublet/note"
	"doublet/probe"
	"doublet/replica"
	"doublet/replica/domain"
	"doublet/replica/schedule"
	"doublet/scheduling"
	"doublet/stat"
	"doublet/store"
	"doublet/store/backup"
	"doublet/store/crypt"
	"doublet/transfer"
)

// SocketName is the name of the socket in the data folder.
const SocketName = "doublet.sock"

// System holds the rooms that verbs act on, whether or not the server runs.
type System struct {
	Env       *env.Env
	Store     *store.Store
	Directory *directory.Directory
	Sessions  *session.Service
	Mailbox   *mailbox.Service
	Groupware *groupware.Service
	// Feeds publishes calendars by links, Sources reads the feeds of other servers.
	Feeds   *feed.Publisher
	Sources *feed.Subscriber
	// Scheduling sends invitations and answers.
	Scheduling *scheduling.Service
	Mail       *mail.Service
	Journal    *journal.Journal
	// Junk is the junk filter, nil if it is off.
	Junk *junk.Filter
	// Transfer runs imports and exports.
	Transfer *transfer.Service
	DNS      *dns.Resolver
	// Replica replicates with other servers. Connections does so on a schedule.
	Replica     *replica.Service
	Connections *schedule.Connections
	Stats       *stat.Tree
	// Received stores the reports that other servers sent about mail.
	Received *reports.Log
	// Member is the membership in a cluster, or the lack of one.
	Member *member.Member
	// Domain is this server's part in a domain.
	Domain *domain.Service
	// History is the statistics database, Catalog the catalog of databases.
	History *collect.History
	Catalog *catalog.Catalog
	// Events is the database of events.
	Events *probe.Log
	// Name is the server's name, Data its data folder, Version the program's version.
	Name, Data, Version string
	Started             time.Time
	// SCRAM makes verbs that set a password also store SCRAM-SHA-256 credentials, unless the verb's arguments say
	// otherwise.
	SCRAM bool
	// Publish holds the settings that concern public DNS.
	Publish Publish
	// Encryption is the file system of the store, nil if its files are not encrypted.
	Encryption *crypt.FS
	// Backup holds the backup settings, which are the defaults of the backup verbs.
	Backup BackupSettings
}

// Door is an open door (protocol listener).
type Door struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	TLS     string `json:"tls,omitempty"`
}

// Call is one run of a verb.
type Call struct {
	*System
	Who note.Who
	// running is the server, nil if the store is open without it.
	running *Running
	// audited makes a verb leave an audit line even if it changes nothing, for commands of the console.
	audited bool
	// passed reports that the verb has passed its work on to another one, which leaves the audit line.
	passed bool
	// Progress reports the progress of the verb to the caller. It is never nil.
	Progress func(Progress)
}

// Progress is the progress of a long verb, or a piece of its output.
type Progress struct {
	Stage string `json:"stage,omitempty"`
	Done  uint64 `json:"done,omitempty"`
	Bytes uint64 `json:"bytes,omitempty"`
	Text  string `json:"text,omitempty"`
	// Output is text of the result. It is shown unchanged.
	Output string `json:"output,omitempty"`
}

// The kinds of errors that callers distinguish, in addition to those of the packages below.
var (
	ErrUsage     = errors.New("bad arguments")
	ErrNoVerb    = errors.New("no such verb")
	ErrStopped   = errors.New("server is not running")
	ErrForbidden = errors.New("verb needs the role Admin")
	// ErrMachine rejects a verb that only the server's own account on its machine may run.
	ErrMachine = errors.New("verb runs only on the server's machine, because it accesses files or the contents of " +
		"databases")
	// ErrStopping ends a verb because the server is stopping. Running the verb again continues its work.
	ErrStopping = errors.New("server is stopping")
)

// String returns the progress as one line.
func (p Progress) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d %s", p.Stage, p.Done, p.Text))
}

// Verb is one administrative operation.
type Verb struct {
	// Name consists of the verb's words: "user app-password add".
	Name string
	// Help is one line; Long may add details.
	Help, Long string
	// Params describe the arguments, positional ones first.
	Params []Param
	// Changes marks a verb that changes something. Each run is logged.
	Changes bool
	// Server marks a verb that needs a running server. onServer sets it.
	Server bool
	// Machine marks a verb that reads or writes files of the server's machine, stops the server, or shows the content
	// of databases regardless of their access lists. The role Admin is not enough for it: it must be run through the
	// socket.
	Machine bool
	// Yields marks a long verb that ends at once when the server stops. Another run of the verb continues what it did
	// not finish.
	Yields bool

	run       func(ctx context.Context, c *Call, raw json.RawMessage) (any, error)
	newResult func() any
	redact    func(raw json.RawMessage) string
}

// Result returns a new empty result of the verb's type, for decoding.
func (v *Verb) Result() any { return v.newResult() }

// table holds all verbs, in the order of the help.
var table []*Verb

// The verbs of the console read the table, so it cannot be a variable's initial value.
func init() {
	table = concat(people(), sessions(), groups(), lists(), domains(), domainKeys(), dnsVerbs(), mailIns(), rooms(),
		databases(), databaseKeys(), onMachine(transfers()), shows(), bans(), queues(), reportVerbs(), routes(),
		mailRules(),
		retentions(), assistance(),
		replication(), clusters(), clusterShows(), clusterKeeps(), places(), logs(), searches(), sieves(), junks(),
		calendars(), deleted(), checks(),
		journals(), feeds(),
		onMachine(backups()), onMachine(dumps()), certificates(), statistics(), catalogs(), compacts(), updalls(),
		onMachine(encryptions()),
		events(),
		tasks(), consoles(), settings(), control())
}

// onMachine marks verbs as Machine.
func onMachine(list []*Verb) []*Verb {
	for _, v := range list {
		v.Machine = true
	}
	return list
}

func concat(parts ...[]*Verb) []*Verb {
	var all []*Verb
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// Verbs returns all verbs, in the order of the help.
func Verbs() []*Verb { return table }

// Find returns a verb by its name.
func Find(name string) (*Verb, bool) {
	for _, v := range table {
		if v.Name == name {
			return v, true
		}
	}
	return nil, false
}

// option sets a property of a verb that is being defined.
type option func(*Verb)

var (
	changes option = func(v *Verb) { v.Changes = true }
	machine option = func(v *Verb) { v.Machine = true }
	yields  option = func(v *Verb) { v.Yields = true }
)

func long(text string) option { return func(v *Verb) { v.Long = text } }

// define makes a verb from a function. A is the struct of its arguments, see Param; R is its result.
func define[A, R any](name, help string, fn func(ctx context.Context, c *Call, a *A) (R, error),
	options ...option) *Verb {
	v := &Verb{
		Name: name, Help: help, Params: params[A](),
		newResult: func() any { return new(R) },
	}
	v.run = func(ctx context.Context, c *Call, raw json.RawMessage) (any, error) {
		a, err := decode[A](v, raw)
		if err != nil {
			return nil, err
		}
		return fn(ctx, c, a)
	}
	v.redact = func(raw json.RawMessage) string { return redact(v, raw) }
	for _, o := range options {
		o(v)
	}
	return v
}

// Run runs a verb on the store of a stopped server. args is a JSON object or empty. The result is JSON, the same from
// the socket and from the command line.
func (s *System) Run(ctx context.Context, who note.Who, name string, args json.RawMessage,
	progress func(Progress)) (json.RawMessage, error) {
	return (&Call{System: s, Who: who, Progress: progress}).run(ctx, name, args)
}

// run runs a verb: the one way in.
func (c *Call) run(ctx context.Context, name string, args json.RawMessage) (json.RawMessage, error) {
	v, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoVerb, name)
	}
	if err := MayRun(c.Who, v); err != nil {
		c.audit(ctx, c.Who, v, args, err)
		return nil, err
	}
	if v.Server && c.running == nil {
		return nil, fmt.Errorf("%w: %s needs it", ErrStopped, name)
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if v.Yields && c.running != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.running.Stopping, func() { cancel(ErrStopping) })()
	}
	result, err := v.run(ctx, c, args)
	if err != nil && errors.Is(context.Cause(ctx), ErrStopping) {
		err = ErrStopping
	}
	if (v.Changes || c.audited) && !c.passed {
		c.audit(ctx, c.Who, v, args, err)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// MayRun returns an error unless the caller who may run the verb, from the socket or the browser.
func MayRun(who note.Who, v *Verb) error {
	switch {
	case directory.RequireAdmin(who) != nil:
		return fmt.Errorf("%w: %s", ErrForbidden, v.Name)
	case v.Machine && !who.System:
		return fmt.Errorf("%w: %s", ErrMachine, v.Name)
	}
	return nil
}

// Kind returns the word for an error's kind, from which exit codes and HTTP statuses follow. It is the same for errors
// received over the socket.
func Kind(err error) string {
	var remote *RemoteError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &remote):
		return remote.Kind
	case errors.Is(err, ErrUsage), errors.Is(err, directory.ErrInvalid), errors.Is(err, ErrNoVerb),
		errors.Is(err, mailbox.ErrBadName), errors.Is(err, transfer.ErrInvalid),
		errors.Is(err, schedule.ErrInvalid), errors.Is(err, probe.ErrInvalid):
		return "usage"
	case errors.Is(err, directory.ErrNotFound), errors.Is(err, directory.ErrNoSuchRecipient),
		errors.Is(err, store.ErrNotFound), errors.Is(err, mailbox.ErrNoFolder), errors.Is(err, mailbox.ErrNoMessage),
		errors.Is(err, fs.ErrNotExist),
		errors.Is(err, backup.ErrNotFound), errors.Is(err, pki.ErrNone), errors.Is(err, ErrNoTask),
		errors.Is(err, probe.ErrNoEvent):
		return "not found"
	case errors.Is(err, directory.ErrNameTaken), errors.Is(err, store.ErrExists), errors.Is(err, fs.ErrExist),
		errors.Is(err, pki.ErrExists), errors.Is(err, ErrTaskRuns):
		return "exists"
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrMachine), errors.Is(err, directory.ErrDenied),
		errors.Is(err, store.ErrDenied), errors.Is(err, fs.ErrPermission):
		return "denied"
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, mailbox.ErrOverQuota):
		return "no space"
	case errors.Is(err, ErrStopped), errors.Is(err, ErrStopping):
		return "stopped"
	}
	return "failed"
}
