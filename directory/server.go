package directory

import (
	"context"
	"errors"
	"fmt"

	"doublet/note"
)

// AddServer makes a server document.
func (d *Directory) AddServer(ctx context.Context, who note.Who, f ServerFields) (Server, error) {
	return d.EnterServer(ctx, who, d.s.UNID(), f)
}

// EnterServer is AddServer for a server that has its id already: it stands in its certificate. One that is
// entered already stays as it is.
func (d *Directory) EnterServer(ctx context.Context, who note.Who, id note.UNID, f ServerFields) (Server, error) {
	if err := RequireAdmin(who); err != nil {
		return Server{}, err
	}
	if err := checkServer(&f); err != nil {
		return Server{}, err
	}
	s := Server{ID: id, ServerFields: f}
	err := d.update(ctx, who, func(e *edit) error {
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

// SetServer changes a server document under the lock of the directory; fn must be quick.
func (d *Directory) SetServer(ctx context.Context, who note.Who, id note.UNID, fn func(*ServerFields) error) (Server, error) {
	if err := RequireAdmin(who); err != nil {
		return Server{}, err
	}
	var out Server
	err := d.update(ctx, who, func(e *edit) error {
		return e.change(id, formServer, func(items note.Items) (note.Items, error) {
			f := readServer(id, items).ServerFields
			if err := fn(&f); err != nil {
				return nil, err
			}
			if err := checkServer(&f); err != nil {
				return nil, err
			}
			out = Server{ID: id, ServerFields: f}
			return f.write(items), nil
		})
	})
	return out, err
}

func checkServer(f *ServerFields) error {
	var err error
	if f.Name, err = cleanName(f.Name); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if f.Host == "" {
		return nil
	}
	if f.Host, err = NormalDomain(f.Host); err != nil {
		return fmt.Errorf("server %q: %w", f.Name, err)
	}
	return nil
}

// RemoveServer removes a server document, as RemovePerson does a person.
func (d *Directory) RemoveServer(ctx context.Context, who note.Who, id note.UNID) error {
	return d.remove(ctx, who, id, formServer)
}

// ListServers lists server documents by name, as ListPersons does people.
func (d *Directory) ListServers(ctx context.Context, prefix string, limit int, after string) (list []Server, next string, err error) {
	next, err = d.list(ctx, 's', prefix, limit, after, func(u note.UNID, items note.Items) {
		list = append(list, readServer(u, items))
	})
	return list, next, err
}
