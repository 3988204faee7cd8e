package signin

import (
	"context"

	"doublet/directory"
	"doublet/note"
)

// DirectoryPeople implements People and WebPeople with the services of a directory.
type DirectoryPeople struct {
	*directory.SignIns
	*directory.Names
	d *directory.Directory
}

// PeopleOf returns the People of d.
func PeopleOf(d *directory.Directory) DirectoryPeople {
	return DirectoryPeople{SignIns: d.SignIns, Names: d.Names, d: d}
}

// MailFileOf returns a person's mail file. See directory.People.
func (p DirectoryPeople) MailFileOf(ctx context.Context, person *directory.Person) (note.DatabaseID, error) {
	return p.d.People.MailFileOf(ctx, person)
}

// Moved returns an error if a person's mail file is at another place. See directory.People.
func (p DirectoryPeople) Moved(ctx context.Context, person note.UNID) error {
	return p.d.People.Moved(ctx, person)
}

// Version returns the version of the directory.
func (p DirectoryPeople) Version() uint64 { return p.d.Version() }

// UseRecoveryCode uses up a recovery code. See directory.SecondFactors.
func (p DirectoryPeople) UseRecoveryCode(ctx context.Context, person note.UNID, text string) (bool, error) {
	return p.d.SecondFactors.UseRecoveryCode(ctx, person, text)
}
