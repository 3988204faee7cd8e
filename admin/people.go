package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/directory"
	"doublet/note"

	"golang.org/x/text/unicode/norm"
)

// User is a person in the results of verbs.
type User struct {
	Name       string   `json:"name"`
	Short      string   `json:"short,omitempty"`
	Address    string   `json:"address,omitempty"`
	Aliases    []string `json:"aliases,omitempty"`
	Names      []string `json:"names,omitempty"`
	Roles      []string `json:"roles,omitempty"`
	Database   string   `json:"database,omitempty"`
	MailServer string   `json:"mail_server,omitempty"` // the place: a cluster or a server
	Quota      Limit    `json:"quota,omitempty" show:"always"`
	Warning    Limit    `json:"warning,omitempty"`
	SizeLimit  Limit    `json:"size_limit,omitempty"`
	Disabled   bool     `json:"disabled,omitempty"`
	// Assistance is the other directory that keeps the password.
	Assistance   string        `json:"assistance,omitempty"`
	Password     bool          `json:"password"`
	SCRAM        bool          `json:"scram,omitempty"`
	SecondFactor time.Time     `json:"second_factor,omitzero"`
	Recovery     int           `json:"recovery_codes,omitempty"`
	AppPasswords []AppPassword `json:"app_passwords,omitempty"`
	Passkeys     []Passkey     `json:"passkeys,omitempty"`
	Forward      []string      `json:"forward,omitempty"`
	ForwardOnly  bool          `json:"forward_only,omitempty"`
	Vacation     string        `json:"vacation,omitempty"`
	SendAs       []string      `json:"send_as,omitempty"`
	OnBehalf     []string      `json:"on_behalf,omitempty"`
	Removed      time.Time     `json:"removed,omitzero"`
	ID           string        `json:"id"`
}

// AppPassword is an app password. Secret is set only in the result of the verb that creates it.
type AppPassword struct {
	ID      string    `json:"id"`
	Label   string    `json:"label"`
	Last4   string    `json:"last4,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Secret  string    `json:"secret,omitempty"`
}

// Passkey is a passkey of a person. Used is set only in the result of user show.
type Passkey struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used,omitzero"`
}

func userOf(p directory.Person) User {
	u := User{
		Name: p.Name(), Short: p.ShortName, Address: p.InternetAddress, Aliases: p.MailAddress, Roles: p.Roles,
		Quota: Limit(p.Quota), Warning: Limit(p.Warning), SizeLimit: Limit(p.SizeLimit), Disabled: p.Disabled,
		Password: p.HasPassword, SCRAM: p.HasScram, Removed: p.Removed, ID: p.ID.String(),
		SecondFactor: p.TOTP, Recovery: p.RecoveryCodes(),
	}
	u.Forward, u.ForwardOnly, u.Vacation = p.Forward, p.ForwardOnly, vacationText(&p.Vacation)
	u.SendAs, u.OnBehalf = p.SendAs, p.OnBehalf
	if len(p.FullName) > 1 {
		u.Names = p.FullName[1:]
	}
	if p.MailDatabase != 0 {
		u.Database = p.MailDatabase.String()
	}
	for _, a := range p.AppPasswords {
		u.AppPasswords = append(u.AppPasswords, AppPassword{ID: a.ID, Label: a.Label, Last4: a.Last4,
			Created: a.Created})
	}
	for _, k := range p.Passkeys {
		u.Passkeys = append(u.Passkeys, Passkey{ID: k.ID, Name: k.Name, Created: k.Created})
	}
	return u
}

// Named are the arguments of verbs that need only a name.
type Named struct {
	Name string `json:"name" arg:"required" help:"name, address or id"`
}

// UserAdd are the arguments of user add.
type UserAdd struct {
	Name      string   `json:"name" arg:"required" help:"full name"`
	Short     string   `json:"short" help:"short name for sign-in (default: from the address or first name)"`
	Address   string   `json:"address" help:"Internet address; without one the short name under the default domain"`
	Alias     []string `json:"alias" help:"further address; may be repeated"`
	Role      []string `json:"role" help:"role, such as Admin; may be repeated"`
	Password  string   `json:"password" help:"password; the command line asks for it where none is given" secret:"true"`
	SCRAM     *bool    `json:"scram" help:"keep SCRAM-SHA-256 credentials (default: directory.scram)"`
	Quota     Size     `json:"quota" help:"most bytes of the mail file"`
	Warning   Size     `json:"warning" help:"size of the mail file from which its owner is warned"`
	SizeLimit Size     `json:"size_limit" help:"greatest message taken"`
	Assist    string   `json:"assistance" help:"other directory that keeps the password (assistance list)"`
	Server    string   `json:"server" help:"server or cluster for the mail file (default: this one)"`
}

// UserSet are the arguments of user set. A nil field leaves the value unchanged.
type UserSet struct {
	Name      string    `json:"name" arg:"required" help:"name, address or id"`
	Rename    *string   `json:"rename" help:"new full name"`
	Short     *string   `json:"short" help:"short name"`
	Address   *string   `json:"address" help:"Internet address"`
	Alias     *[]string `json:"alias" help:"further addresses in place of those there; an empty one alone for none"`
	Role      *[]string `json:"role" help:"roles in place of those there; an empty one alone for none"`
	Quota     *Size     `json:"quota" help:"most bytes of the mail file, 0 for no limit"`
	Warning   *Size     `json:"warning" help:"size from which the owner is warned, 0 for none"`
	SizeLimit *Size     `json:"size_limit" help:"greatest message taken, 0 for the server's"`
	Assist    *string   `json:"assistance" help:"other directory that keeps the password; empty: it is kept here"`
	Disabled  *bool     `json:"disabled" help:"refuse sign-in, and mail too (SMTP answers 550 5.2.1)"`

	Forward         *[]string `json:"forward" help:"new forwarding addresses; one empty value: none"`
	ForwardOnly     *bool     `json:"forward_only" help:"keep no copy of what is forwarded"`
	Vacation        *string   `json:"vacation" help:"text of the vacation notice; an empty one ends it"`
	VacationSubject *string   `json:"vacation_subject" help:"its subject; empty for one made of the message's"`
	VacationFrom    *string   `json:"vacation_from" help:"first day of it, 2026-12-24; empty for at once"`
	VacationUntil   *string   `json:"vacation_until" help:"last day of it; empty for no end"`
	VacationDays    *int      `json:"vacation_days" help:"after how many days a sender is told again (7)"`
}

// UserPassword are the arguments of user password.
type UserPassword struct {
	Name     string `json:"name" arg:"required" help:"name, address or id"`
	Password string `json:"password" help:"new password (default: asked for)" secret:"true"`
	SCRAM    *bool  `json:"scram" help:"keep SCRAM-SHA-256 credentials (default: directory.scram)"`
}

// AppPasswordAdd are the arguments of user app-password add.
type AppPasswordAdd struct {
	Name  string `json:"name" arg:"required" help:"name, address or id of the person"`
	Label string `json:"label" arg:"optional" help:"what it is for"`
}

// AppPasswordRemove are the arguments of user app-password remove.
type AppPasswordRemove struct {
	Name string `json:"name" arg:"required" help:"name, address or id of the person"`
	ID   string `json:"id" arg:"required" help:"id of the app password, or its label"`
}

// UserImport are the arguments of user import.
type UserImport struct {
	File  string `json:"file" arg:"required" file:"true" help:"CSV file whose first row names the columns"`
	SCRAM *bool  `json:"scram" help:"keep SCRAM-SHA-256 credentials if no column scram (default: directory.scram)"`
}

// Imported is the result of user import.
type Imported struct {
	Added  int      `json:"added"`
	Failed int      `json:"failed"`
	Errors []string `json:"errors,omitempty"`
}

// Bad reports whether rows were skipped, for the exit code.
func (i Imported) Bad() bool { return i.Failed > 0 }

// undoTime is the part of a message that names the time in which a removal can be undone.
const undoTime = "; undo is possible for 30 days"

// Done is the result of verbs that return only a message.
type Done struct {
	Done string `json:"done"`
}

// people describes the people of the directory.
func (c *Call) people() documents[directory.Person, User] {
	names := c.Directory.Names
	return documents[directory.Person, User]{"Person", "person", c.Directory.People.List, names.Person, names.PersonOf,
		func(ctx context.Context, p directory.Person) User {
			u := userOf(p)
			u.MailServer, u.Assistance = c.placeName(ctx, p.MailServer), assistanceName(ctx, c, p.Assistance)
			return u
		}, func(p *directory.Person) []string {
			return slices.Concat([]string{p.ShortName, p.InternetAddress}, p.MailAddress, p.FullName)
		}}
}

func people() []*Verb {
	return []*Verb{
		define("user add", "add a person with a mail file", userAdd, changes),
		define("user list", "list people", listDocuments((*Call).people)),
		define("user show", "show a person", func(ctx context.Context, c *Call, a *Named) (User, error) {
			p, err := c.Directory.Names.PersonOf(ctx, a.Name)
			u := c.people().row(ctx, p)
			u.SendAs, u.OnBehalf = c.names(ctx, u.SendAs), c.names(ctx, u.OnBehalf)
			return u, errors.Join(err, passkeyUses(ctx, c, p.ID, u.Passkeys))
		}),
		define("user set", "change a person", userSet, changes),
		onServer("user move",
			"bring a person's mail file to this server from another place of the domain, while it is in use",
			userMove, changes),
		define("user remove", "remove a person; undo brings them back for 30 days",
			func(ctx context.Context, c *Call, a *Named) (Done, error) {
				p, err := c.Directory.Names.PersonOf(ctx, a.Name)
				if err != nil {
					return Done{}, err
				}
				if err := notHeld(ctx, c, p.MailDatabase); err != nil {
					return Done{}, err
				}
				return Done{"removed " + p.Name() + undoTime}, c.Directory.People.Remove(ctx, c.Who, p.ID)
			}, changes),
		define("user undo", "bring back a person who was removed", undo("Person"), changes),
		define("user import", "add people from a CSV file", userImport, changes, machine,
			long("Columns, in any order: fullname, shortname, address, aliases, roles, password, scram, disabled, "+
				"quota, warning, sizelimit.\nSeveral values in a field are separated by semicolons. A row that is "+
				"wrong is left out and told of; the exit code is 1 then.")),
		define("user password", "set a person's password", func(ctx context.Context, c *Call,
			a *UserPassword) (Done, error) {
			p, err := c.Directory.Names.PersonOf(ctx, a.Name)
			if err != nil {
				return Done{}, err
			}
			return Done{"password of " + p.Name() + " is set"}, c.Directory.Passwords.Set(ctx, c.Who, p.ID, a.Password,
				c.scram(a.SCRAM))
		}, changes),
		define("user app-password add", "make a password for one program; it is shown once",
			func(ctx context.Context, c *Call, a *AppPasswordAdd) (AppPassword, error) {
				p, err := c.Directory.Names.PersonOf(ctx, a.Name)
				if err != nil {
					return AppPassword{}, err
				}
				ap, secret, err := c.Directory.Passwords.AddApp(ctx, c.Who, p.ID, a.Label)
				return AppPassword{ID: ap.ID, Label: ap.Label, Last4: ap.Last4, Created: ap.Created, Secret: secret},
					err
			}, changes),
		define("user send-as allow", "let a person or group write under a person's or group's address",
			sendAs(true), changes),
		define("user send-as deny", "end that", sendAs(false), changes),
		define("user app-password remove", "end a password of one program", appPasswordRemove, changes),
	}
}

// scram reports whether to store SCRAM-SHA-256 credentials for a password. The verb's argument takes precedence over
// the setting.
func (c *Call) scram(told *bool) bool {
	if told != nil {
		return *told
	}
	return c.SCRAM
}

// shortOf returns a short name made from the first word of a full name: its ASCII letters and digits in lower case,
// without accents.
func shortOf(name string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(name), " ")
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(norm.NFD.String(first)))
}

func userAdd(ctx context.Context, c *Call, a *UserAdd) (User, error) {
	if a.Short == "" && a.Address == "" {
		if a.Short = shortOf(a.Name); a.Short == "" {
			return User{}, fmt.Errorf("%w: cannot derive a short name from %q: set --short or --address",
				ErrUsage, a.Name)
		}
	}
	server, err := c.placeNamed(ctx, a.Server)
	if err != nil {
		return User{}, err
	}
	other, err := assistanceNamed(ctx, c, a.Assist)
	if err != nil {
		return User{}, err
	}
	p, err := c.Directory.People.Add(ctx, c.Who, directory.PersonSpec{
		PersonFields: directory.PersonFields{
			FullName: []string{a.Name}, ShortName: a.Short, InternetAddress: a.Address, MailAddress: a.Alias,
			Roles: a.Role,
			Quota: uint64(a.Quota), Warning: uint64(a.Warning), SizeLimit: uint64(a.SizeLimit), MailServer: server,
			Assistance: other,
		},
		Password: a.Password, Scram: c.scram(a.SCRAM),
	})
	if err == nil && a.Quota+a.Warning > 0 {
		err = c.setQuota(p.MailDatabase, &a.Quota, &a.Warning)
	}
	return c.people().row(ctx, p), err
}

func userSet(ctx context.Context, c *Call, a *UserSet) (User, error) {
	p, err := c.Directory.Names.PersonOf(ctx, a.Name)
	if err != nil {
		return User{}, err
	}
	var other note.UNID
	if a.Assist != nil {
		if other, err = assistanceNamed(ctx, c, *a.Assist); err != nil {
			return User{}, err
		}
	}
	p, err = c.Directory.People.Set(ctx, c.Who, p.ID, func(f *directory.PersonFields) error {
		if a.Assist != nil {
			f.Assistance = other
		}
		if a.Rename != nil {
			f.FullName = append([]string{*a.Rename}, f.FullName[min(1, len(f.FullName)):]...)
		}
		assign(&f.ShortName, a.Short)
		assign(&f.InternetAddress, a.Address)
		if a.Alias != nil {
			f.MailAddress = nonEmpty(*a.Alias)
		}
		if a.Role != nil {
			f.Roles = nonEmpty(*a.Role)
		}
		assign((*Size)(&f.Quota), a.Quota)
		assign((*Size)(&f.Warning), a.Warning)
		assign((*Size)(&f.SizeLimit), a.SizeLimit)
		assign(&f.Disabled, a.Disabled)
		if a.Forward != nil {
			f.Forward = nonEmpty(*a.Forward)
		}
		assign(&f.ForwardOnly, a.ForwardOnly)
		return setVacation(&f.Vacation, a)
	})
	if err != nil {
		return User{}, err
	}
	if a.Quota != nil || a.Warning != nil {
		// The mail file enforces the quota.
		if err := c.setQuota(p.MailDatabase, a.Quota, a.Warning); err != nil {
			return User{}, err
		}
	}
	return userOf(p), nil
}

func assign[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func nonEmpty(list []string) []string {
	var out []string
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func appPasswordRemove(ctx context.Context, c *Call, a *AppPasswordRemove) (Done, error) {
	p, err := c.Directory.Names.PersonOf(ctx, a.Name)
	if err != nil {
		return Done{}, err
	}
	for _, ap := range p.AppPasswords {
		if ap.ID == a.ID || ap.Label == a.ID {
			return Done{"removed app password " + ap.ID}, c.Directory.Passwords.RemoveApp(ctx, c.Who, p.ID, ap.ID)
		}
	}
	return Done{}, fmt.Errorf("app password %q of %s: %w", a.ID, p.Name(), directory.ErrNotFound)
}

// undo restores the entry with an id, or the one most recently removed under a name.
func undo(form string) func(context.Context, *Call, *Named) (Done, error) {
	return func(ctx context.Context, c *Call, a *Named) (Done, error) {
		id, bad := note.ParseUNID(a.Name)
		if bad != nil {
			list, err := c.removed(ctx, form, a.Name)
			if form == "Person" && len(list) == 0 && (err == nil || errors.Is(err, directory.ErrInvalid)) {
				list, err = c.removedAlso(ctx, a.Name)
			}
			if err != nil {
				return Done{}, err
			}
			if len(list) == 0 {
				return Done{}, fmt.Errorf("nothing of the name %q was removed: %w", a.Name, directory.ErrNotFound)
			}
			id = list[0].ID
		}
		return Done{"brought back " + a.Name}, c.Directory.Removals.Undo(ctx, c.Who, id)
	}
}

// removed lists removed entries of a form, the newest first.
func (c *Call) removed(ctx context.Context, form, name string) ([]directory.Removed, error) {
	all, err := c.Directory.Removals.List(ctx, name, everything)
	slices.Reverse(all)
	return slices.DeleteFunc(all, func(r directory.Removed) bool { return r.Form != form }), err
}

// removedAlso lists removed people by other names than the first full name: short names, addresses. It checks all
// removed people, because there are few.
func (c *Call) removedAlso(ctx context.Context, name string) ([]directory.Removed, error) {
	all, err := c.removed(ctx, "Person", "")
	if err != nil {
		return nil, err
	}
	var errs []error
	return slices.DeleteFunc(all, func(r directory.Removed) bool {
		p, err := c.Directory.Names.Person(ctx, r.ID)
		errs = append(errs, err)
		return !slices.ContainsFunc(slices.Concat([]string{p.ShortName}, p.Addresses(), p.FullName),
			func(s string) bool { return strings.EqualFold(s, name) })
	}), errors.Join(errs...)
}
