// Package admin is every administrative operation once, as a typed verb in one table. The command
// line, the socket and later the console and the browser read the table; none of them has an
// operation of its own. A verb runs in the server, or in a process that has opened a stopped
// server's store: it cannot tell.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"time"

	"doublet/bus/pki"
	"doublet/client/dns"
	"doublet/client/reach"
	"doublet/cluster"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/search"
	"doublet/stat"
	"doublet/store"
	"doublet/store/backup"
)

// SocketName is the socket's name in the data folder.
const SocketName = "doublet.sock"

// System is what verbs act on.
type System struct {
	Env       *env.Env
	Store     *store.Store
	Directory *directory.Directory
	Sessions  *session.Service
	Mailbox   *mailbox.Service
	Mail      *mail.Service
	DNS       *dns.Resolver
	// Reach is the way to hosts that people name in a browser; nil where the store is open without its server.
	Reach *reach.Guard
	// Replica is replication with other servers; Replicator runs the connections, nil where the store is open without its
	// server.
	Replica    *replica.Service
	Replicator *Replicator
	Stats      *stat.Tree
	Reports    Reports
	// Search is the full-text search; nil where the store is open without its server, and where it is off.
	Search *search.Service
	// Cluster is the membership in a cluster; nil where the settings have none.
	Cluster *Cluster
	// Self is this server as the others of a domain know it.
	Self Self
	// Node is this server's part in its cluster; nil where it is in none, or does not run.
	Node *cluster.Node
	// Name is the server's, Data its data folder, Version the program's.
	Name, Data, Version string
	Started             time.Time
	// SCRAM lets verbs that set a password keep credentials for SCRAM-SHA-256 where they are not told.
	SCRAM bool
	// Publish is what the settings say that concerns public DNS.
	Publish Publish
	// Backup says where backups go where a verb does not.
	Backup BackupSettings
	// Doors and Tasks tell what runs; Stop asks the server to stop. They are nil where the store is
	// open without its server.
	Doors func() []Door
	Tasks func() []Task
	Stop  func()
	// Stopping ends when the server is to stop; nil where the store is open without its server.
	Stopping context.Context
	// Certificates keeps what the doors show; nil where the store is open without its server.
	Certificates Certificates
	// Health says what keeps a running server from its work; nil before its doors are open.
	Health func(ctx context.Context) error
	// ApplySettings reads the settings anew and lets the running server take those that it can; nil without a server.
	ApplySettings func() (Applied, error)
	// Bans lists the addresses from which nobody may sign in, RemoveBan ends one and says whether it was
	// there; both are nil where the store is open without its server.
	Bans      func() []Ban
	RemoveBan func(netip.Addr) bool

	imports imports
}

// Door is an open door.
type Door struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	TLS     string `json:"tls,omitempty"`
}

// Task is a server task: what it does now and what it did last.
type Task struct {
	Name    string    `json:"name"`
	State   string    `json:"state"`
	Runs    uint64    `json:"runs"`
	Failed  uint64    `json:"failed"`
	LastRun time.Time `json:"last_run,omitzero"`
	Took    string    `json:"took,omitempty"`
	NextRun time.Time `json:"next_run,omitzero"`
	Error   string    `json:"error,omitempty"`
}

// Call is one run of a verb.
type Call struct {
	*System
	Who note.Who
	// Progress tells whoever waits how far the verb has come. It is never nil.
	Progress func(Progress)
}

// Progress says how far a long verb has come, or carries a piece of its output.
type Progress struct {
	Stage string `json:"stage,omitempty"`
	Done  uint64 `json:"done,omitempty"`
	Bytes uint64 `json:"bytes,omitempty"`
	Text  string `json:"text,omitempty"`
	// Output is text that belongs to the result, to be shown as it is.
	Output string `json:"output,omitempty"`
}

// The kinds of error that callers branch on, beside those of the rooms below.
var (
	ErrUsage     = errors.New("bad arguments")
	ErrNoVerb    = errors.New("no such verb")
	ErrStopped   = errors.New("the server is not running")
	ErrForbidden = errors.New("the verb needs the role Admin")
	// ErrMachine refuses a verb to people: whoever has the server's own account on its machine runs it.
	ErrMachine = errors.New("the verb is run on the server's machine: it reads or writes files there, or shows what is in databases")
	// ErrStopping ends a verb that another run takes up where it was.
	ErrStopping = errors.New("the server stops")
)

// Verb is one operation.
type Verb struct {
	// Name is its words: "user app-password add".
	Name string
	// Help is one line; Long may say more.
	Help, Long string
	// Params describe the arguments, positional ones first.
	Params []Param
	// Changes marks a verb that changes something: it leaves a line in the log.
	Changes bool
	// Server marks one that means something only while the server runs.
	Server bool
	// Machine marks one that reads or writes files of the server's machine, stops the server, or shows what databases
	// hold whatever their access lists say: the role Admin alone does not run it, only who reaches the socket does.
	Machine bool
	// Yields marks a long one that ends at once when the server stops: it changes nothing that another run
	// would not take up.
	Yields bool

	run       func(ctx context.Context, c *Call, raw json.RawMessage) (any, error)
	newResult func() any
	redact    func(raw json.RawMessage) string
}

// Result makes an empty result of the verb's type, to decode an answer into.
func (v *Verb) Result() any { return v.newResult() }

// table is every verb, in the order of help.
var table = concat(people(), sessions(), groups(), lists(), domains(), domainKeys(), dnsVerbs(), mailIns(), databases(), onMachine(transfer()), shows(), bans(), queues(), reportVerbs(), routes(), replication(), clusters(), clusterShows(), clusterKeeps(), places(), logs(), searches(), checks(), onMachine(backups()), onMachine(dumps()), certificates(), control())

// onMachine marks verbs that are run on the server's machine alone.
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

// Verbs is the table.
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

// option marks a verb as it is defined.
type option func(*Verb)

var (
	changes    option = func(v *Verb) { v.Changes = true }
	serverOnly option = func(v *Verb) { v.Server = true }
	machine    option = func(v *Verb) { v.Machine = true }
	yields     option = func(v *Verb) { v.Yields = true }
)

func long(text string) option { return func(v *Verb) { v.Long = text } }

// define makes a verb of a function. A is the struct of its arguments, see Param; R its result.
func define[A, R any](name, help string, fn func(ctx context.Context, c *Call, a *A) (R, error), options ...option) *Verb {
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

// Run runs a verb here: the one way in, from the socket and from the command line. args is a JSON
// object or empty; the result is JSON too, so that both ways give the same.
func (s *System) Run(ctx context.Context, who note.Who, name string, args json.RawMessage, progress func(Progress)) (json.RawMessage, error) {
	v, ok := Find(name)
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoVerb, name)
	}
	if err := MayRun(who, v); err != nil {
		s.audit(ctx, who, v, args, err)
		return nil, err
	}
	if v.Server && s.Stop == nil {
		return nil, fmt.Errorf("%w: %s needs it", ErrStopped, name)
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	if v.Yields && s.Stopping != nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(s.Stopping, func() { cancel(ErrStopping) })()
	}
	result, err := v.run(ctx, &Call{System: s, Who: who, Progress: progress}, args)
	if err != nil && errors.Is(context.Cause(ctx), ErrStopping) {
		err = ErrStopping
	}
	if v.Changes {
		s.audit(ctx, who, v, args, err)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

// MayRun says whether somebody may run a verb, whatever way they came.
func MayRun(who note.Who, v *Verb) error {
	switch {
	case directory.RequireAdmin(who) != nil:
		return fmt.Errorf("%w: %s", ErrForbidden, v.Name)
	case v.Machine && !who.System:
		return fmt.Errorf("%w: %s", ErrMachine, v.Name)
	}
	return nil
}

// Kind is the word for an error's kind, the same over the socket and here: it decides exit codes
// and HTTP statuses.
func Kind(err error) string {
	var remote *RemoteError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &remote):
		return remote.Kind
	case errors.Is(err, ErrUsage), errors.Is(err, directory.ErrInvalid), errors.Is(err, ErrNoVerb),
		errors.Is(err, mailbox.ErrBadName):
		return "usage"
	case errors.Is(err, directory.ErrNotFound), errors.Is(err, directory.ErrNoSuchRecipient),
		errors.Is(err, store.ErrNotFound), errors.Is(err, mailbox.ErrNoFolder), errors.Is(err, fs.ErrNotExist), errors.Is(err, backup.ErrNotFound), errors.Is(err, pki.ErrNone):
		return "not found"
	case errors.Is(err, directory.ErrNameTaken), errors.Is(err, store.ErrExists), errors.Is(err, fs.ErrExist), errors.Is(err, pki.ErrExists):
		return "exists"
	case errors.Is(err, ErrForbidden), errors.Is(err, ErrMachine), errors.Is(err, directory.ErrDenied), errors.Is(err, store.ErrDenied), errors.Is(err, fs.ErrPermission):
		return "denied"
	case errors.Is(err, store.ErrNoSpace), errors.Is(err, mailbox.ErrOverQuota):
		return "no space"
	case errors.Is(err, ErrStopped), errors.Is(err, ErrStopping):
		return "stopped"
	}
	return "failed"
}
