package directory

import (
	"context"
	"errors"
	"fmt"

	"doublet/note"
)

// Adopt makes a person under the UNID that they have in another domain, for whom a copy of their mail
// file is kept here: what they have seen and what access lists grant goes by it. Their address need not be of a local
// domain: they sign in by it, and mail for it is not taken here. Whoever is there already gets the password
// alone, if it is the one whose mail file the copy is: the other server says who that is, and must not give a password that it knows
// to somebody else here. A person with a role keeps the password.
func (ps *People) Adopt(ctx context.Context, who note.Who, id note.UNID, spec PersonSpec) (Person, error) {
	if err := RequireAdmin(who); err != nil {
		return Person{}, err
	}
	p, err := ps.names.Person(ctx, id)
	switch {
	case err == nil && (p.MailDatabase != spec.MailDatabase || !p.Removed.IsZero()):
		return Person{}, fmt.Errorf("%w: the id %s is that of %s here, who has another mail file", ErrInvalid, id, p.Name())
	case err == nil && len(p.Roles) > 0:
		return p, nil
	case err == nil:
		return p, ps.passwords.Set(ctx, who, id, spec.Password, spec.Scram)
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
