package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/store"
)

// ServerFields are the parts of a server document that an administrator or the server itself sets.
type ServerFields struct {
	Name string
	// Host is the host name at which other servers reach this server.
	Host string
	// Doors lists the addresses of the server's doors (protocol listeners): "imap host:port". The web door has a URL,
	// "web https://host".
	Doors []string
	// Key is the public key with which the server authenticates to other servers of the domain.
	Key bus.Key
}

// Server is a server of the domain.
type Server struct {
	ID note.UNID
	ServerFields
	// Cluster is the server's current or last cluster. Gone reports that the server was removed from it. The cluster
	// writes both.
	Cluster string
	Gone    bool
	Removed time.Time
}

// The items of a server document that the cluster writes and the directory reads.
const (
	ItemCluster = "ClusterName"
	ItemState   = "ClusterState"
	ItemKey     = "ClusterKey"
	// StateRemoved is the state of a removed server, with which the other servers no longer communicate.
	StateRemoved = "removed"
)

// Door returns the address of a door, or "" if it is unknown.
func (f *ServerFields) Door(name string) string {
	for _, d := range f.Doors {
		if at, ok := strings.CutPrefix(d, name+" "); ok {
			return at
		}
	}
	return ""
}

func (f *ServerFields) write(items note.Items) note.Items {
	x := fields{items}
	x.text(itemForm, formServer)
	x.text(itemServerName, f.Name)
	x.text(itemHost, f.Host)
	x.list(itemDoors, f.Doors)
	if f.Key != (bus.Key{}) {
		x.text(ItemKey, f.Key.String())
	}
	return x.items
}

func readServer(id note.UNID, items note.Items) Server {
	s := Server{ID: id, Removed: readRemoved(items), Cluster: items.Get(ItemCluster).AsText(),
		Gone: items.Get(ItemState).AsText() == StateRemoved}
	s.Name, s.Host, s.Doors = items.Get(itemServerName).AsText(), items.Get(itemHost).AsText(),
		items.Get(itemDoors).AsTextList()
	s.Key, _ = bus.ParseKey(items.Get(ItemKey).AsText()) // a malformed key is zero, which matches no server
	return s
}

// ServerDocuments calls fn for every server document of the directory that r reads. It skips removed documents.
func ServerDocuments(r *store.Reader, fn func(id note.UNID, name string, items note.Items)) error {
	var ids []note.ID
	err := r.Scan(indexList, []byte{'s'}, func(key []byte, id note.ID) bool {
		if key[0] == 's' {
			ids = append(ids, id)
		}
		return key[0] == 's'
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		row, c, err := r.Document(id)
		if errors.Is(err, store.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		fn(row.UNID, c.Content.Items.Get(itemServerName).AsText(), c.Content.Items)
	}
	return nil
}

var serverRecord = record[Server, ServerFields]{formServer, 's', readServer,
	func(s *Server) *ServerFields { return &s.ServerFields }, (*ServerFields).write,
	func(_ *edit, f, _ *ServerFields) error { return checkServer(f) }}

// Servers adds, changes, lists and removes server documents, and finds the servers that hold a mail file.
type Servers struct {
	*base
	table atomic.Pointer[serverTable]
	self  atomic.Pointer[note.UNID] // this server; nil outside a domain
}

// Add adds a server document with a new id.
func (sv *Servers) Add(ctx context.Context, who note.Who, f ServerFields) (Server, error) {
	return sv.Enter(ctx, who, sv.s.UNID(), f)
}

// Enter is Add for a server that already has an id, in its certificate. It does not change an existing document.
func (sv *Servers) Enter(ctx context.Context, who note.Who, id note.UNID, f ServerFields) (Server, error) {
	if err := RequireAdmin(who); err != nil {
		return Server{}, err
	}
	if err := checkServer(&f); err != nil {
		return Server{}, err
	}
	s := Server{ID: id, ServerFields: f}
	err := sv.update(ctx, who, func(e *edit) error {
		_, c, err := e.document(id, formServer)
		if err == nil {
			if s = readServer(id, c.Content.Items); !s.Removed.IsZero() {
				return fmt.Errorf("%w: the server %s was removed", ErrNotFound, s.Name)
			}
			return nil
		}
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		return e.create(id, f.write(nil))
	})
	return s, err
}

// Set changes a server document. It calls fn under the directory's lock, so fn must be quick.
func (sv *Servers) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*ServerFields) error) (Server, error) {
	return serverRecord.set(ctx, sv.base, who, id, fn)
}

// maxDoors limits the number of doors of a server.
const maxDoors = 32

func checkServer(f *ServerFields) error {
	var err error
	if f.Name, err = cleanName(f.Name); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if len(f.Doors) > maxDoors {
		return fmt.Errorf("%w server %q: at most %d doors", ErrInvalid, f.Name, maxDoors)
	}
	if f.Host == "" {
		return nil
	}
	if f.Host, err = NormalDomain(f.Host); err != nil {
		return fmt.Errorf("server %q: %w", f.Name, err)
	}
	return nil
}

// Remove removes a server document, as People.Remove removes a person.
func (sv *Servers) Remove(ctx context.Context, who note.Who, id note.UNID) error {
	return sv.remove(ctx, who, id, formServer)
}

// List lists server documents by name, as People.List lists people.
func (sv *Servers) List(ctx context.Context, prefix string, limit int, after string) ([]Server, string, error) {
	return serverRecord.list(ctx, sv.base, prefix, limit, after)
}
