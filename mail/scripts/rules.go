package scripts

import (
	"doublet/mail/ruleset"
	"doublet/mailbox"
	"doublet/note"
)

// RulesName is the name of the script that is made for the rules of a person who has no script.
const RulesName = "rules"

// State returns a hash that changes with every change of the scripts.
func (l *List) State() string {
	content := note.Content{Items: l.items}
	return note.DeriveUNID([]byte("state"), note.AppendContent(nil, &content)).String()[:16]
}

// OfRules returns the script whose rules a person edits in a form: the active one, else the one with the name
// RulesName, or nil.
func (l *List) OfRules() *Script {
	if s := l.Active(); s != nil {
		return s
	}
	return l.Find(RulesName)
}

// Rules returns the rules of the script that OfRules returns. An error is of type sieve.Errors if the script has
// mistakes.
func (l *List) Rules(d *mailbox.Reading) (*ruleset.Script, error) {
	s := l.OfRules()
	if s == nil {
		return ruleset.Parse("")
	}
	text, err := Text(d, s)
	if err != nil {
		return nil, err
	}
	return ruleset.Parse(text)
}

// PutRules stores the rules that Rules returned, after changes. id is the UNID of the script if there was none; that
// one is activated. An error is ruleset.ErrRule, or of type sieve.Errors, or one of Put.
func (e *Editor) PutRules(x *ruleset.Script, id note.UNID) error {
	text, err := x.Format()
	if err == nil {
		err = Check(text)
	}
	if err != nil {
		return err
	}
	if s := e.l.OfRules(); s != nil {
		return e.Put(s.Name, text, id)
	}
	if err := e.Put(RulesName, text, id); err != nil {
		return err
	}
	return e.Activate(RulesName)
}
