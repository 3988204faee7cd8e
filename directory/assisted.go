package directory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"doublet/directory/assist"
	"doublet/note"
	"doublet/store"
)

// assisted begins the PasswordID of a person whose password another directory keeps, before the id of the directory.
const assisted = "assistance:"

// checkAssisted returns an error unless a person's directory is none or exists.
func checkAssisted(r *store.Reader, id note.UNID) error {
	if id.IsZero() {
		return nil
	}
	_, c, err := find(r, id)
	if err == nil && c.Content.Items.Get(itemForm).AsText() != formAssistance {
		err = fmt.Errorf("%w: %s is no other directory", ErrNotFound, id)
	}
	return err
}

// checkAssisted returns an error if the new person's directory does not exist, or the person would have two passwords.
func (s *PersonSpec) checkAssisted(r *store.Reader) error {
	if !s.Assistance.IsZero() && s.Password+s.Hash != "" {
		return fmt.Errorf("%w person %q: another directory keeps the password", ErrInvalid, s.Name())
	}
	return checkAssisted(r, s.Assistance)
}

// verify checks the password of a person whose password another directory keeps. It returns assist.ErrAway if the
// directory cannot tell.
func (as *Assistance) verify(ctx context.Context, p *Person, secret string) (bool, error) {
	list, err := as.serving(ctx, assist.UseSignIn)
	if err != nil {
		return false, err
	}
	for i := range list {
		if list[i].ID != p.Assistance {
			continue
		}
		// Not the name that was typed: which entry of the other directory is this person does not depend on it.
		err := list[i].Verify(ctx, cmp.Or(p.ShortName, p.InternetAddress), secret)
		if err != nil && as.refused(ctx, &list[i], p.Name(), err) {
			return false, nil
		}
		return err == nil, err
	}
	return false, fmt.Errorf("%w: the directory of %s is off, or was removed", assist.ErrAway, p.Name())
}

// refused reports whether an error says that the password is not accepted, and logs the cause, which a client does not
// see.
func (as *Assistance) refused(ctx context.Context, o *otherClient, user string, err error) bool {
	away := errors.Is(err, assist.ErrAway)
	as.env.Log.InfoContext(ctx, "directory assistance: password not accepted", "directory", o.OtherDirectory.Name,
		"user", user[:min(len(user), maxName)], "away", away, "err", err)
	return errors.Is(err, assist.ErrRefused) || errors.Is(err, assist.ErrNobody) ||
		errors.Is(err, assist.ErrAmbiguous)
}

// reserved reports whether a name, or the local part of an address, is one of which Resolve makes the address of an
// administrator.
func reserved(name string) bool {
	local, _, _ := strings.Cut(plain(name), "@")
	return local == "postmaster" || local == "abuse"
}

// enroll asks the other directories that enroll people for a name that is unknown here. If the first that knows the
// name accepts the password, enroll adds the person here with a mail file. Otherwise ok is false.
func (as *Assistance) enroll(ctx context.Context, people *People, user, secret string) (p Person, ok bool, err error) {
	list, err := as.serving(ctx, assist.UseSignIn)
	if err != nil || secret == "" {
		return p, false, err
	}
	for i := range list {
		o := &list[i]
		if !o.Enroll || !o.OtherDirectory.Trusts(user) {
			continue
		}
		entry, err := o.Authenticate(ctx, user, secret)
		if errors.Is(err, assist.ErrNobody) {
			continue
		}
		if err != nil {
			if as.refused(ctx, o, user, err) {
				err = nil
			}
			return p, false, err
		}
		p, err = as.add(ctx, people, o, &entry)
		if errors.Is(err, ErrNameTaken) || errors.Is(err, ErrInvalid) {
			as.env.Log.WarnContext(ctx, "directory assistance: cannot add a person at the first sign-in",
				"directory", o.OtherDirectory.Name, "entry", entry.DN, "err", err)
			return p, false, nil
		}
		return p, err == nil, err
	}
	return p, false, nil
}

// add adds the person of an entry here, or finds the one whom another sign-in has added. It returns an error if the
// names of the entry are those of somebody else.
func (as *Assistance) add(ctx context.Context, people *People, o *otherClient, e *assist.Person) (Person, error) {
	short := lower(e.Short)
	if short == "" || strings.Contains(short, "@") {
		return Person{}, fmt.Errorf("%w entry: short name %q", ErrInvalid, e.Short)
	}
	if reserved(short) || reserved(e.Name) || reserved(e.Mail) {
		return Person{}, fmt.Errorf("%w: postmaster and abuse are names of roles", ErrNameTaken)
	}
	f := PersonFields{ShortName: short, Assistance: o.ID, FullName: []string{cmp.Or(e.Name, short)}}
	if e.Mail != "" && o.OtherDirectory.Trusts(e.Mail) {
		if _, domain, _ := strings.Cut(e.Mail, "@"); domain != "" {
			if local, err := people.domains.IsLocal(ctx, domain); err == nil && local {
				f.InternetAddress = e.Mail
			}
		}
	}
	p, err := as.added(ctx, people.names, o, short)
	if !errors.Is(err, ErrNotFound) {
		return p, err
	}
	p, err = people.Add(ctx, note.System, PersonSpec{PersonFields: f})
	if errors.Is(err, ErrNameTaken) {
		// Another sign-in was first, or the full name is that of somebody else.
		if p, err := as.added(ctx, people.names, o, short); !errors.Is(err, ErrNotFound) {
			return p, err
		}
		f.FullName[0] += " (" + short + ")"
		p, err = people.Add(ctx, note.System, PersonSpec{PersonFields: f})
	}
	if err == nil {
		as.stat.Enrolled.Inc()
		as.env.Log.InfoContext(ctx, "directory assistance: person added at the first sign-in", "person", p.Name(),
			"directory", o.OtherDirectory.Name, "entry", e.DN)
	}
	return p, err
}

// added returns the person with a short name if this directory keeps the person's password, ErrNotFound without one.
func (as *Assistance) added(ctx context.Context, names *Names, o *otherClient, short string) (Person, error) {
	p, err := names.PersonNamed(ctx, short)
	if err == nil && p.Assistance != o.ID {
		err = fmt.Errorf("%w: %s is not a person of the directory %s", ErrNameTaken, p.Name(), o.OtherDirectory.Name)
	}
	return p, err
}
