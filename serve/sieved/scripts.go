package sieved

import (
	"errors"

	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/condition"
	"doublet/store"
	"doublet/wire/managesieve"
	"doublet/wire/sieve"
)

// haveSpace checks that a script may be stored.
//
// Implements: RFC 5804 §2.5 HAVESPACE
func (s *session) haveSpace(args []managesieve.Argument) {
	err := s.file.Read(s.c.Context(), func(d *mailbox.Reading) error {
		l, err := scripts.Read(s.file, d)
		if err != nil {
			return err
		}
		return scripts.Room(d, l, args[0].Text, int(args[1].Number))
	})
	s.answer("There is room", err)
}

// putScript stores a script, if it is valid.
//
// Implements: RFC 5804 §2.6 PUTSCRIPT
func (s *session) putScript(args []managesieve.Argument) {
	err := scripts.Check(args[1].Text)
	if err == nil {
		var id note.UNID
		s.srv.env.Fill(id[:])
		err = s.edit(func(e *scripts.Editor) error { return e.Put(args[0].Text, args[1].Text, id) })
	}
	s.answer("Script is stored", err)
}

// checkScript checks a script without storing it.
//
// Implements: RFC 5804 §2.12 CHECKSCRIPT
func (s *session) checkScript(args []managesieve.Argument) {
	s.answer("Script is valid", scripts.Check(args[0].Text))
}

// listScripts lists the names of the scripts.
//
// Implements: RFC 5804 §2.7 LISTSCRIPTS
func (s *session) listScripts([]managesieve.Argument) {
	err := s.file.Read(s.c.Context(), func(d *mailbox.Reading) error {
		l, err := scripts.Read(s.file, d)
		if err != nil {
			return err
		}
		for _, x := range l.Scripts {
			s.out.B = managesieve.AppendString(s.out.B, x.Name)
			if x.Active {
				s.out.B = append(s.out.B, " ACTIVE"...)
			}
			s.out.B = append(s.out.B, "\r\n"...)
		}
		return nil
	})
	s.answer("Listed", err)
}

// setActive makes a script the active one, or none.
//
// Implements: RFC 5804 §2.8 SETACTIVE
func (s *session) setActive(args []managesieve.Argument) {
	s.answer("Done", s.edit(func(e *scripts.Editor) error { return e.Activate(args[0].Text) }))
}

// getScript returns the text of a script.
//
// Implements: RFC 5804 §2.9 GETSCRIPT
func (s *session) getScript(args []managesieve.Argument) {
	err := s.file.Read(s.c.Context(), func(d *mailbox.Reading) error {
		l, err := scripts.Read(s.file, d)
		if err != nil {
			return err
		}
		x := l.Find(args[0].Text)
		if x == nil {
			return scripts.ErrNotFound
		}
		text, err := scripts.Text(d, x)
		if err == nil {
			s.out.B = append(managesieve.AppendString(s.out.B, text), "\r\n"...)
		}
		return err
	})
	s.answer("Done", err)
}

// deleteScript deletes a script that is not active.
//
// Implements: RFC 5804 §2.10 DELETESCRIPT
func (s *session) deleteScript(args []managesieve.Argument) {
	s.answer("Deleted", s.edit(func(e *scripts.Editor) error { return e.Delete(args[0].Text) }))
}

// renameScript changes the name of a script.
//
// Implements: RFC 5804 §2.11 RENAMESCRIPT
func (s *session) renameScript(args []managesieve.Argument) {
	s.answer("Renamed", s.edit(func(e *scripts.Editor) error { return e.Rename(args[0].Text, args[1].Text) }))
}

// edit changes the scripts in one update.
func (s *session) edit(fn func(*scripts.Editor) error) error {
	res, err := s.file.Change(s.c.Context(), 1, func(c *mailbox.Changing, _ int) error {
		e, err := scripts.Edit(s.file, c)
		if err != nil {
			return err
		}
		return fn(e)
	})
	if err != nil {
		return err
	}
	return res.Errs[0]
}

// answer answers a command about scripts.
func (s *session) answer(text string, err error) {
	var mistakes sieve.Errors
	switch {
	case err == nil:
		s.ok(text)
	case errors.As(err, &mistakes):
		s.reply("NO", "", mistakes.Error())
	case errors.Is(err, scripts.ErrNotFound):
		s.reply("NO", "NONEXISTENT", "There is no script with this name")
	case errors.Is(err, scripts.ErrExists):
		s.reply("NO", "ALREADYEXISTS", "A script with this name exists")
	case errors.Is(err, scripts.ErrActive):
		s.reply("NO", "ACTIVE", "The script is active")
	case errors.Is(err, scripts.ErrMany):
		s.reply("NO", "QUOTA/MAXSCRIPTS", err.Error())
	case errors.Is(err, scripts.ErrTooBig):
		s.reply("NO", "QUOTA/MAXSIZE", err.Error())
	case errors.Is(err, mailbox.ErrOverQuota):
		s.reply("NO", "QUOTA", "The mail file is full")
	case errors.Is(err, scripts.ErrName):
		s.reply("NO", "", err.Error())
	case errors.Is(err, store.ErrDenied):
		s.reply("NO", "", "You may not change scripts")
	default:
		s.trouble("command failed", err)
	}
}

// trouble answers an internal error. It logs errors that are not in the table of conditions.
func (s *session) trouble(failure string, err error) {
	c, known := condition.Of(err)
	if !known || c == condition.Damaged {
		s.srv.env.Log.Error("sieved: "+failure, "account", s.account.Name, "err", err)
	}
	s.reply("NO", "TRYLATER", c.IMAPText)
}
