package directory

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// formConnection is the form of connection documents. A connection selects the server to replicate with, the databases
// and the schedule. Only the server itself may read these notes, because they hold the password for the other server.
const formConnection = "Connection"

// The names of a connection's items. The user and password use the item names of a route.
const (
	itemConnName      = "ConnectionName"
	itemConnServer    = "SourceServer"
	itemConnURL       = "OptionalNetworkAddress"
	itemConnPrint     = "CertificateFingerprint"
	itemConnDatabases = "ReplicationFiles"
	itemConnDirection = "ReplicationType"
	itemConnFolders   = "ReplicationFolders"
	itemConnMaxSize   = "ReplicationMaxSize"
	itemConnDays      = "ReplicationDays"
	itemConnEvery     = "RepeatInterval" // seconds
	itemConnFrom      = "CallRangeBegin" // minutes of the day
	itemConnUntil     = "CallRangeEnd"
	itemConnDisabled  = "ScheduleDisabled"
	itemConnGuarded   = "Guarded"
	itemConnPeer      = "DestinationServer" // the UNID of the other server's document
)

// indexConnections is the index of all connections, under one key.
const indexConnections uint64 = 7

func connectionKeys(form string, _ note.Items) [][]byte {
	if form != formConnection {
		return nil
	}
	return [][]byte{{'c'}}
}

// ConnectionFields are the parts of a connection that an administrator sets.
type ConnectionFields struct {
	// Name is the connection's name. Server is the server of this domain that runs it.
	Name, Server string
	// URL is the other server's address. User and Password sign in there. Fingerprint is the SHA-256 of the other
	// server's certificate, for a certificate that no trusted authority has signed.
	URL, User, Password, Fingerprint string
	// Peer is a server of this domain, and replaces URL, User, Password and Fingerprint. Any server of Peer's place
	// will do; the keys in the server documents authenticate both sides. Any server of Server's place may then run the
	// connection.
	Peer note.UNID
	// Databases lists ids or titles. Empty means the mail file of User.
	Databases []string
	// Direction is pull, push or both, as seen from Server.
	Direction string
	// Folders, MaxSize (bytes) and Days restrict what comes here. Zero values restrict nothing.
	Folders []string
	MaxSize uint64
	Days    int
	// Every is the time from the start of one run to the start of the next; 0 runs whenever something has changed.
	Every time.Duration
	// From and Until limit runs to a part of the day. They are minutes of the day in the server's time zone; equal
	// values mean always.
	From, Until int
	// Disabled connections run only when an administrator starts them.
	Disabled bool
	// Guarded connections were made in the browser. They may only reach hosts that web administration may reach.
	Guarded bool
}

// Connection is a connection document.
type Connection struct {
	ID note.UNID
	ConnectionFields
}

// Limits of connections. There are few, and each one causes work.
const (
	maxConnections = 1000
	maxConnLists   = 1000
	minEvery       = time.Minute
	maxEvery       = 31 * 24 * time.Hour
)

func (f *ConnectionFields) write(items note.Items) note.Items {
	x := fields{items}
	x.text(itemForm, formConnection)
	x.text(itemConnName, f.Name)
	x.text(itemConnServer, f.Server)
	x.text(itemConnURL, f.URL)
	x.text(itemRouteUser, f.User)
	x.text(itemRoutePassword, f.Password)
	x.text(itemConnPrint, f.Fingerprint)
	x.list(itemConnDatabases, f.Databases)
	x.text(itemConnDirection, f.Direction)
	x.list(itemConnFolders, f.Folders)
	x.int(itemConnMaxSize, int64(f.MaxSize))
	x.int(itemConnDays, int64(f.Days))
	x.int(itemConnEvery, int64(f.Every/time.Second))
	x.int(itemConnFrom, int64(f.From))
	x.int(itemConnUntil, int64(f.Until))
	x.bool(itemConnDisabled, f.Disabled)
	x.bool(itemConnGuarded, f.Guarded)
	x.unid(itemConnPeer, f.Peer)
	return x.items
}

func readConnection(id note.UNID, items note.Items) Connection {
	text := func(name string) string { return items.Get(name).AsText() }
	number := func(name string) int64 { return max(0, items.Get(name).AsInt()) }
	return Connection{ID: id, ConnectionFields: ConnectionFields{
		Name: text(itemConnName), Server: text(itemConnServer), URL: text(itemConnURL), User: text(itemRouteUser),
		Password:    text(itemRoutePassword),
		Fingerprint: text(itemConnPrint), Databases: items.Get(itemConnDatabases).AsTextList(),
		Direction: text(itemConnDirection),
		Folders:   items.Get(itemConnFolders).AsTextList(), MaxSize: uint64(number(itemConnMaxSize)),
		Days:  int(number(itemConnDays)),
		Every: time.Duration(number(itemConnEvery)) * time.Second, From: int(number(itemConnFrom)),
		Until:    int(number(itemConnUntil)),
		Disabled: items.Get(itemConnDisabled).AsBool(), Guarded: items.Get(itemConnGuarded).AsBool(),
		Peer: readUNID(items.Get(itemConnPeer)),
	}}
}

// CheckConnection normalizes a connection, or returns an error if it is invalid.
func CheckConnection(f *ConnectionFields) error {
	var err error
	if f.Name, err = cleanName(f.Name); err != nil {
		return fmt.Errorf("connection: %w", err)
	}
	if f.Server, err = cleanName(f.Server); err != nil {
		return fmt.Errorf("connection %q: server: %w", f.Name, err)
	}
	if !f.Peer.IsZero() {
		if f.URL+f.User+f.Password+f.Fingerprint != "" {
			return fmt.Errorf("%w connection %q: to a server of the domain, or to a URL", ErrInvalid, f.Name)
		}
		return checkWhen(f)
	}
	if err := checkURL(f); err != nil {
		return err
	}
	if f.User == "" {
		return fmt.Errorf("%w connection %q: user is not set", ErrInvalid, f.Name)
	}
	return checkWhen(f)
}

// checkURL checks the URL of the other server, which is https but for this machine itself.
func checkURL(f *ConnectionFields) error {
	if !strings.Contains(f.URL, "://") {
		f.URL = "https://" + f.URL
	}
	u, err := url.Parse(f.URL)
	switch ip := net.ParseIP(hostOf(u)); {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%w connection %q: %.200q is not the URL of a server", ErrInvalid, f.Name, f.URL)
	case u.Scheme != "https" && !(u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback())):
		return fmt.Errorf("%w connection %q: use https", ErrInvalid, f.Name)
	}
	return nil
}

// checkWhen checks the fields that do not concern the other server.
func checkWhen(f *ConnectionFields) error {
	if f.Direction == "" {
		f.Direction = "both"
	}
	switch {
	case !slices.Contains([]string{"pull", "push", "both"}, f.Direction):
		return fmt.Errorf("%w connection %q: the direction is pull, push or both", ErrInvalid, f.Name)
	case len(f.Databases) > maxConnLists || len(f.Folders) > maxConnLists:
		return fmt.Errorf("%w connection %q: at most %d databases and folders", ErrInvalid, f.Name, maxConnLists)
	case f.Every != 0 && f.Every < minEvery || f.Every > maxEvery:
		return fmt.Errorf("%w connection %q: interval must be %s to %s, or 0 to run after each change", ErrInvalid,
			f.Name, minEvery, maxEvery)
	case min(f.From, f.Until) < 0 || max(f.From, f.Until) >= 24*60:
		return fmt.Errorf("%w connection %q: a time of the day has 24 hours", ErrInvalid, f.Name)
	case f.Days < 0:
		return fmt.Errorf("%w connection %q: days", ErrInvalid, f.Name)
	}
	texts := slices.Concat([]string{f.User, f.Password, f.Fingerprint}, f.Databases, f.Folders)
	if slices.ContainsFunc(texts, func(s string) bool { return len(s) > 1000 || strings.ContainsAny(s, "\x00\r\n") }) {
		return fmt.Errorf("%w connection %q: its parts are short texts of one line", ErrInvalid, f.Name)
	}
	return checkSizes(f.MaxSize)
}

func hostOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Hostname()
}

// Connections adds, lists and removes the connections that replicate with other servers.
type Connections struct{ *base }

// Add adds a connection.
func (cs *Connections) Add(ctx context.Context, who note.Who, f ConnectionFields) (Connection, error) {
	if err := RequireAdmin(who); err != nil {
		return Connection{}, err
	}
	if err := CheckConnection(&f); err != nil {
		return Connection{}, err
	}
	c := Connection{ID: cs.s.UNID(), ConnectionFields: f}
	return c, cs.update(ctx, who, func(e *edit) error {
		list, err := readConnections(&e.w.Reader)
		if err != nil {
			return err
		}
		if len(list) >= maxConnections {
			return fmt.Errorf("%w: at most %d connections", ErrTooMany, maxConnections)
		}
		for _, x := range list {
			if strings.EqualFold(x.Name, f.Name) {
				return fmt.Errorf("%w: connection %q exists: remove it first", ErrNameTaken, x.Name)
			}
		}
		return e.create(c.ID, f.write(nil))
	})
}

// List lists the connections by name. It requires an administrator. Only the server itself gets the passwords.
func (cs *Connections) List(ctx context.Context, who note.Who) ([]Connection, error) {
	if err := RequireAdmin(who); err != nil {
		return nil, err
	}
	var out []Connection
	err := cs.read(ctx, func(r *store.Reader) (err error) {
		out, err = readConnections(r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("directory: connections: %w", err)
	}
	if !who.System {
		for i := range out {
			out[i].Password = ""
		}
	}
	slices.SortFunc(out, func(a, b Connection) int { return strings.Compare(lower(a.Name), lower(b.Name)) })
	return out, nil
}

func readConnections(r *store.Reader) (out []Connection, err error) {
	ids, err := r.Lookup(indexConnections, []byte{'c'})
	if err != nil {
		return nil, err
	}
	err = eachDocument(r, ids, func(id note.UNID, items note.Items) { out = append(out, readConnection(id, items)) })
	return out, err
}

// eachDocument calls fn for documents that an index has found.
func eachDocument(r *store.Reader, ids []note.ID, fn func(note.UNID, note.Items)) error {
	for _, id := range ids {
		row, err := r.Note(id)
		if err != nil {
			return err
		}
		c, err := r.Content(id)
		if err != nil {
			return err
		}
		fn(row.UNID, c.Content.Items)
	}
	return nil
}

// Remove deletes a connection for good.
func (cs *Connections) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return cs.destroy(ctx, who, id, formConnection)
}
