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

// ServerFields are the parts of a server document that an administrator sets, or the server itself.
type ServerFields struct {
	Name string
	// Host is the host name under which other servers reach it.
	Host string
	// Doors are where its doors are reached: "imap host:port"; that of the web is a URL, "web https://host".
	Doors []string
	// Key is the public key by which other servers of the domain know it.
	Key bus.Key
}

// Server is a server of the domain.
type Server struct {
	ID note.UNID
	ServerFields
	// Cluster is the cluster that it is in, or was; Gone says that it is no member any more. The cluster writes both.
	Cluster string
	Gone    bool
	Removed time.Time
}

// The items of a server document that the cluster writes and the directory reads.
const (
	ItemCluster = "ClusterName"
	ItemState   = "ClusterState"
	ItemKey     = "ClusterKey"
	// StateRemoved is the state of a server with which the others do not speak any more.
	StateRemoved = "removed"
)

// Door is where a door is reached, "" where it is not known.
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
	s := Server{ID: id, Removed: readRemoved(items), Cluster: items.Get(ItemCluster).AsText(), Gone: items.Get(ItemState).AsText() == StateRemoved}
	s.Name, s.Host, s.Doors = items.Get(itemServerName).AsText(), items.Get(itemHost).AsText(), items.Get(itemDoors).AsTextList()
	s.Key, _ = bus.ParseKey(items.Get(ItemKey).AsText()) // one that is none is nobody's
	return s
}

// ServerDocuments calls fn with every server document of the directory that r reads, removed servers left out.
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

// Servers adds, changes, lists and removes server documents, and knows the servers that hold a mail file.
type Servers struct {
	*base
	table atomic.Pointer[serverTable]
	self  atomic.Pointer[note.UNID] // this server; nil outside a domain
}

// Add makes a server document.
func (sv *Servers) Add(ctx context.Context, who note.Who, f ServerFields) (Server, error) {
	return sv.Enter(ctx, who, sv.s.UNID(), f)
}

// Enter is AddServer for a server that has its id already: it stands in its certificate. One that is
// entered already stays as it is.
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

// Set changes a server document under the lock of the directory; fn must be quick.
func (sv *Servers) Set(ctx context.Context, who note.Who, id note.UNID, fn func(*ServerFields) error) (Server, error) {
	if err := RequireAdmin(who); err != nil {
		return Server{}, err
	}
	var out Server
	err := sv.update(ctx, who, func(e *edit) error {
		return e.change(id, formServer, func(items note.Items) (note.Items, error) {
			f := readServer(id, items).ServerFields
			if err := fn(&f); err != nil {
				return nil, err
			}
			if err := checkServer(&f); err != nil {
				return nil, err
			}
			items = f.write(items)
			out = readServer(id, items)
			return items, nil
		})
	})
	return out, err
}

// maxDoors bounds the doors of a server.
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
func (sv *Servers) List(ctx context.Context, prefix string, limit int, after string) (list []Server, next string, err error) {
	next, err = sv.list(ctx, 's', prefix, limit, after, func(u note.UNID, items note.Items) {
		list = append(list, readServer(u, items))
	})
	return list, next, err
}
