package scheduling

import (
	"context"
	"errors"

	"doublet/directory"
	"doublet/note"
)

// people finds the people and rooms of addresses.
type people struct{ dir *directory.Directory }

// party is the person or room that an address belongs to.
type party struct {
	address string // normalized
	// unknown is set for an address of a domain here that belongs to nobody, or that no message can be sent to.
	unknown bool
	// id and file are zero for people of other domains, and for addresses that are no person's.
	id     note.UNID
	file   note.DatabaseID
	server note.UNID // that holds file, see directory.PersonFields
	me     func(address string) bool
	// resource is set for a room or another resource.
	resource bool
}

// find finds the party of a normalized address.
func (p people) find(ctx context.Context, address string) (party, error) {
	out := party{address: address}
	t, err := p.dir.Names.Resolve(ctx, address)
	switch {
	case errors.Is(err, directory.ErrNotLocal):
		return out, nil
	case errors.Is(err, directory.ErrNoSuchRecipient), errors.Is(err, directory.ErrInvalid):
		out.unknown = true
		return out, nil
	case err != nil:
		return out, err
	}
	if out.resource = t.Resource; t.Kind == directory.TargetPerson || t.Resource {
		out.id, out.file, out.server, out.me = t.ID, t.Database, t.MailServer, p.is(ctx, t.ID)
	}
	return out, nil
}

// is returns a function that reports whether a normalized address belongs to a person.
func (p people) is(ctx context.Context, id note.UNID) func(address string) bool {
	known := map[string]bool{}
	return func(address string) bool {
		is, ok := known[address]
		if !ok {
			t, err := p.dir.Names.Resolve(ctx, address)
			is = err == nil && t.ID == id && !id.IsZero()
			known[address] = is
		}
		return is
	}
}
