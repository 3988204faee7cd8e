package admin

import (
	"context"
	"errors"
	"fmt"

	"doublet/directory"
	"doublet/mail"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/sieve"
)

// SieveScript is a Sieve script of a person.
type SieveScript struct {
	Name   string `json:"name"`
	Active bool   `json:"active"`
	Text   string `json:"text,omitempty"`
}

// SieveScripts are the scripts of a person, with their last failures.
type SieveScripts struct {
	Scripts  []SieveScript `json:"scripts"`
	Failures []string      `json:"failures,omitempty"`
}

// SieveOf are the arguments of a verb for the scripts of a person.
type SieveOf struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
}

// SieveNamed are the arguments of a verb for one script.
type SieveNamed struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
	Name   string `json:"name" arg:"required" help:"name of the script"`
}

// SievePut are the arguments of sieve put.
type SievePut struct {
	Person   string `json:"person" arg:"required" help:"name or address of the person"`
	Name     string `json:"name" arg:"required" help:"name of the script"`
	Text     string `json:"text" arg:"required" help:"text of the script, as in \"$(cat rules.sieve)\""`
	Activate bool   `json:"activate" help:"make it the active script"`
}

// SieveCheck are the arguments of sieve check.
type SieveCheck struct {
	Text string `json:"text" arg:"required" help:"text of the script, as in \"$(cat rules.sieve)\""`
}

// SieveTest are the arguments of sieve test.
type SieveTest struct {
	Person string `json:"person" arg:"required" help:"name or address of the person"`
	Name   string `json:"name" arg:"optional" help:"name of a stored script (default: the active one)"`
	Text   string `json:"text" help:"text of a script that is not stored, instead of a name"`
	Folder string `json:"folder" help:"folder with the messages (default: INBOX)"`
	Limit  int    `json:"limit" help:"number of messages, the newest ones (default: 100, at most 500)"`
	All    bool   `json:"all" help:"also show messages that would only be kept"`
}

// SieveTried holds the actions that a script would run on a message.
type SieveTried struct {
	UID     uint32   `json:"uid"`
	From    string   `json:"from"`
	Subject string   `json:"subject"`
	Actions []string `json:"actions"`
}

func sieves() []*Verb {
	return []*Verb{
		define("sieve list", "list the filter scripts of a person, and their last failures", sieveList),
		define("sieve show", "show a filter script", sieveShow),
		define("sieve put", "store a filter script", sievePut, changes),
		define("sieve activate", "make a filter script the active one", sieveActivate, changes),
		define("sieve deactivate", "switch filtering off",
			func(ctx context.Context, c *Call, a *SieveOf) (SieveScripts, error) {
				return sieveActivate(ctx, c, &SieveNamed{Person: a.Person})
			}, changes),
		define("sieve delete", "delete a filter script that is not active", sieveDelete, changes),
		define("sieve check", "check a filter script without storing it", sieveCheck),
		define("sieve test", "show what a filter script would do with messages of a folder", sieveTest),
	}
}

// mailFile opens the mail file of a person as its owner.
func (c *Call) mailFile(ctx context.Context, name string) (directory.Person, *mailbox.File, error) {
	p, err := c.Directory.Names.PersonNamed(ctx, name)
	if err != nil {
		return p, nil, err
	}
	if p.MailDatabase == 0 {
		return p, nil, fmt.Errorf("%w: %s has no mail file", ErrUsage, p.Name())
	}
	return p, c.Mailbox.File(note.Who{Person: p.ID, System: true}, p.MailDatabase), nil
}

func sieveList(ctx context.Context, c *Call, a *SieveOf) (out SieveScripts, err error) {
	_, f, err := c.mailFile(ctx, a.Person)
	if err != nil {
		return out, err
	}
	return readScripts(ctx, f)
}

func readScripts(ctx context.Context, f *mailbox.File) (out SieveScripts, err error) {
	err = f.Read(ctx, func(d *mailbox.Reading) error {
		l, err := scripts.Read(f, d)
		if err != nil {
			return err
		}
		out.Scripts = []SieveScript{}
		for _, s := range l.Scripts {
			out.Scripts = append(out.Scripts, SieveScript{Name: s.Name, Active: s.Active})
		}
		out.Failures, err = scripts.Trouble(f, d)
		return err
	})
	return out, err
}

func sieveShow(ctx context.Context, c *Call, a *SieveNamed) (out SieveScript, err error) {
	_, f, err := c.mailFile(ctx, a.Person)
	if err != nil {
		return out, err
	}
	err = f.Read(ctx, func(d *mailbox.Reading) error {
		l, err := scripts.Read(f, d)
		if err != nil {
			return err
		}
		s := l.Find(a.Name)
		if s == nil {
			return fmt.Errorf("script %q: %w", a.Name, directory.ErrNotFound)
		}
		out.Name, out.Active = s.Name, s.Active
		out.Text, err = scripts.Text(d, s)
		return err
	})
	return out, err
}

// sieveEdit changes the scripts of a person, and returns them.
func (c *Call) sieveEdit(ctx context.Context, person string,
	fn func(*scripts.Editor) error) (out SieveScripts, err error) {
	_, f, err := c.mailFile(ctx, person)
	if err != nil {
		return out, err
	}
	res, err := f.Change(ctx, 1, func(u *mailbox.Changing, _ int) error {
		e, err := scripts.Edit(f, u)
		if err != nil {
			return err
		}
		return fn(e)
	})
	if err == nil {
		err = res.Errs[0]
	}
	if err != nil {
		return out, sieveError(err)
	}
	return readScripts(ctx, f)
}

// sieveError returns the error that the table of errors knows.
func sieveError(err error) error {
	var mistakes sieve.Errors
	switch {
	case errors.Is(err, scripts.ErrNotFound):
		return fmt.Errorf("%w: %w", directory.ErrNotFound, err)
	case errors.As(err, &mistakes), errors.Is(err, scripts.ErrTooBig), errors.Is(err, scripts.ErrMany),
		errors.Is(err, scripts.ErrActive), errors.Is(err, scripts.ErrName):
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	return err
}

func sievePut(ctx context.Context, c *Call, a *SievePut) (SieveScripts, error) {
	if err := scripts.Check(a.Text); err != nil {
		return SieveScripts{}, sieveError(err)
	}
	id := c.Store.UNID()
	return c.sieveEdit(ctx, a.Person, func(e *scripts.Editor) error {
		if err := e.Put(a.Name, a.Text, id); err != nil || !a.Activate {
			return err
		}
		return e.Activate(a.Name)
	})
}

func sieveActivate(ctx context.Context, c *Call, a *SieveNamed) (SieveScripts, error) {
	return c.sieveEdit(ctx, a.Person, func(e *scripts.Editor) error { return e.Activate(a.Name) })
}

func sieveDelete(ctx context.Context, c *Call, a *SieveNamed) (SieveScripts, error) {
	return c.sieveEdit(ctx, a.Person, func(e *scripts.Editor) error { return e.Delete(a.Name) })
}

func sieveCheck(_ context.Context, _ *Call, a *SieveCheck) (Done, error) {
	if err := scripts.Check(a.Text); err != nil {
		return Done{}, sieveError(err)
	}
	return Done{"the script is valid"}, nil
}

// sieveTest runs a script over messages of a folder. It changes nothing.
func sieveTest(ctx context.Context, c *Call, a *SieveTest) (out []SieveTried, err error) {
	p, f, err := c.mailFile(ctx, a.Person)
	if err != nil {
		return nil, err
	}
	text, err := c.sieveText(ctx, f, a)
	if err != nil {
		return nil, err
	}
	folder := a.Folder
	if folder == "" {
		folder = mailbox.Inbox
	}
	list, err := c.Mail.Deposits.TryScript(ctx, &mail.ScriptTrial{File: f, Database: p.MailDatabase,
		Address: p.InternetAddress, Script: text, Folder: folder, Limit: atMost(a.Limit, 100)})
	if err != nil {
		return nil, sieveError(err)
	}
	out = []SieveTried{}
	for i := len(list) - 1; i >= 0; i-- {
		if x := &list[i]; a.All || !x.Kept() {
			out = append(out, SieveTried{UID: x.UID, From: x.From, Subject: x.Subject, Actions: x.Outcome.Lines()})
		}
	}
	return out, nil
}

// sieveText returns the script that sieve test runs.
func (c *Call) sieveText(ctx context.Context, f *mailbox.File, a *SieveTest) (text string, err error) {
	if a.Text != "" {
		return a.Text, nil
	}
	err = f.Read(ctx, func(d *mailbox.Reading) error {
		l, err := scripts.Read(f, d)
		if err != nil {
			return err
		}
		s := l.Active()
		if a.Name != "" {
			s = l.Find(a.Name)
		}
		if s == nil {
			return fmt.Errorf("%w: no such script, or none is active: name one, or give --text", directory.ErrNotFound)
		}
		text, err = scripts.Text(d, s)
		return err
	})
	return text, err
}
