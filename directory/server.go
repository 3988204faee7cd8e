package directory

import (
	"context"
	"fmt"

	"doublet/note"
)

// AddServer makes a server document.
func (d *Directory) AddServer(ctx context.Context, who note.Who, f ServerFields) (Server, error) {
	if err := RequireAdmin(who); err != nil {
		return Server{}, err
	}
	if err := checkServer(&f); err != nil {
		return Server{}, err
	}
	s := Server{ID: d.s.UNID(), ServerFields: f}
	err := d.update(ctx, who, func(e *edit) error { return e.create(s.ID, f.write(nil)) })
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
