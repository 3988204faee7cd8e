package directory

import (
	"context"
	"errors"
	"fmt"

	"doublet/note"
)

// readopt is Adopt for a person who exists.
func (ps *People) readopt(ctx context.Context, who note.Who, p Person, spec *PersonSpec) (Person, error) {
	switch {
	case p.MailDatabase != spec.MailDatabase || !p.Removed.IsZero():
		return Person{}, fmt.Errorf("%w: id %s belongs to %s here, with another mail file", ErrInvalid, p.ID, p.Name())
	case len(p.Roles) > 0:
		return p, nil
	}
	return p, ps.passwords.Set(ctx, who, p.ID, spec.Password, spec.Scram)
}

// Adopt adds a person of another domain under the UNID that they have there. A copy of the person's mail file is kept
// on this server. Read marks and access lists in it refer to that UNID. The address need not be in a local domain: the
// person signs in with it, but mail for it is not accepted here.
//
// If the person exists already, Adopt only sets the password, and only if the copy is that person's mail file. The
// other server chooses the UNID, and must not be able to set a password for someone else here. For the same reason the
// password of a person with a role does not change.
func (ps *People) Adopt(ctx context.Context, who note.Who, id note.UNID, spec PersonSpec) (Person, error) {
	if err := RequireAdmin(who); err != nil {
		return Person{}, err
	}
	p, err := ps.names.Person(ctx, id)
	switch {
	case err == nil:
		return ps.readopt(ctx, who, p, &spec)
	case !errors.Is(err, ErrNotFound):
		return Person{}, err
	case id.IsZero() || spec.MailDatabase == 0:
		return Person{}, fmt.Errorf("%w: a person of another domain has an id and a mail file", ErrInvalid)
	}
	address := spec.InternetAddress
	if _, err := ParseAddress(address); address != "" && err != nil {
		return Person{}, err
	}
	spec.InternetAddress = ""
	n, err := ps.prepare(ctx, &spec)
	if err != nil {
		return Person{}, err
	}
	n.id = id
	f := fields{n.items}
	f.text(itemInternetAddress, address)
	n.items = f.items
	if err := ps.update(ctx, who, func(e *edit) error { return e.addPerson(n) }); err != nil {
		return Person{}, err
	}
	return readPerson(n.id, n.items), nil
}
