package jmapd

import (
	"bytes"
	"encoding/json"
	"errors"

	"doublet/mail/ruleset"
	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/sieve"
)

// sieveRules is a SieveRules object: the rules of the script that is active, in the form of package ruleset.
type sieveRules struct {
	list *scripts.List
	// rules is nil if the script has mistakes.
	rules *ruleset.Script
}

var rulesProperties = []string{"id", "scriptId", "name", "isActive", "rules"}

// rulesKind lists the properties of SieveRules that a client may change.
var rulesKind = kind{mutable: []string{"rules"}, fixed: oneOf("id", "scriptId", "name", "isActive")}

func readSieveRules(l *scripts.List, d *mailbox.Reading) (r sieveRules, err error) {
	r.list = l
	var mistakes sieve.Errors
	if r.rules, err = l.Rules(d); errors.As(err, &mistakes) {
		r.rules, err = nil, nil
	}
	return r, err
}

// storedRules reads the rules of the person.
func (c *call) storedRules() (r sieveRules, err error) {
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		l, err := scripts.Read(c.account.File, d)
		if err == nil {
			r, err = readSieveRules(l, d)
		}
		return err
	})
	return r, err
}

func (r *sieveRules) append(dst []byte, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", singleton)
	id, name, active := "", "", false
	if s := r.list.OfRules(); s != nil {
		id, name, active = idOf(letterScript, s.ID), s.Name, s.Active
	}
	if wants("scriptId") {
		orNull(&o, "scriptId", id)
	}
	if wants("name") {
		orNull(&o, "name", name)
	}
	if wants("isActive") {
		o.Bool("isActive", active)
	}
	if wants("rules") {
		o.Raw("rules", r.json())
	}
	return o.End()
}

// json returns the rules, or null for a script with mistakes.
func (r *sieveRules) json() string {
	if r.rules == nil {
		return "null"
	}
	if r.rules.Rules == nil {
		return "[]"
	}
	out, err := json.Marshal(r.rules.Rules)
	if err != nil {
		panic(err) // strings, numbers and booleans alone
	}
	return string(out)
}

// rulesGet answers SieveRules/get.
func rulesGet(c *call) error {
	g, err := c.getArguments(own, rulesProperties)
	if err != nil {
		return err
	}
	r, err := c.storedRules()
	if err != nil {
		return err
	}
	all := []sieveRules{r}
	answerGet(&g, r.list.State(), all, onlyID(singleton, all), func(dst []byte, r *sieveRules) []byte {
		return r.append(dst, g.wants)
	})
	return nil
}

// rulesSet answers SieveRules/set. Rules of a person without a script are a new script, which becomes active.
func rulesSet(c *call) error {
	var id note.UNID
	c.s.env.Fill(id[:])
	return c.setSingleton(func(w *mailbox.Changing) (string, error) {
		l, err := scripts.Read(c.account.File, w.Reading)
		return l.State(), err
	}, func(w *mailbox.Changing, patch *jmap.Value) error {
		e, err := scripts.Edit(c.account.File, w)
		if err != nil {
			return err
		}
		r, err := readSieveRules(e.List(), w.Reading)
		if err != nil {
			return err
		}
		current, err := jmap.Parse(string(r.append(nil, wantsAll)), jmap.Bounds{})
		if err != nil {
			return err
		}
		return rulesKind.apply(patch, current, func(changed *jmap.Value) error {
			v := changed.Get("rules")
			if v == nil {
				return nil
			}
			if r.rules == nil {
				return &jmap.Error{Type: "invalidSieve",
					Description: "The script has mistakes: correct its text first."}
			}
			if r.rules.Rules, err = readRules(v); err != nil {
				return err
			}
			return rulesError(e.PutRules(r.rules, id))
		})
	})
}

// maxRules bounds the rules that a client sends.
const maxRules = 1000

// readRules reads a list of rules.
func readRules(v *jmap.Value) ([]ruleset.Rule, error) {
	bad := badProperties("It is no list of rules.", "rules")
	if v.Kind() != jmap.Array || v.Len() > maxRules {
		return nil, bad
	}
	out := make([]ruleset.Rule, v.Len())
	for i := range out {
		if v.At(i).Kind() != jmap.Object {
			return nil, bad
		}
		out[i] = ruleset.Rule{Enabled: true}
		d := json.NewDecoder(bytes.NewReader(v.At(i).Append(nil)))
		d.DisallowUnknownFields()
		if err := d.Decode(&out[i]); err != nil {
			return nil, badProperties("A rule of the list is not what it should be: "+err.Error(), "rules")
		}
	}
	return out, nil
}

// rulesError returns the SetError for rules that cannot be stored.
func rulesError(err error) error {
	if errors.Is(err, ruleset.ErrRule) {
		return badProperties(err.Error(), "rules")
	}
	return scriptError(err)
}

// rulesParse answers SieveRules/parse, which returns the rules of a script that is not stored, or its mistakes.
func rulesParse(c *call) error {
	if err := c.arguments(own, "text"); err != nil {
		return err
	}
	text, err := c.text("text")
	if err != nil {
		return err
	}
	var r sieveRules
	if err = scripts.Check(text); err == nil {
		r.rules, err = ruleset.Parse(text)
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Raw("rules", r.json())
	if err == nil {
		o.Raw("error", "null")
	} else {
		o.Name("error")
		o.B = c.setError(scriptError(err)).Append(o.B)
	}
	c.out = o.End()
	return nil
}

// rulesSuggest answers SieveRules/suggest, which returns the conditions that a message suggests for a rule.
func rulesSuggest(c *call) error {
	if err := c.arguments(own, "emailId"); err != nil {
		return err
	}
	id, err := c.needText("emailId")
	if err != nil {
		return err
	}
	header, err := c.emailHeader(id, tooLarge("The header is too large."))
	if err != nil {
		return err
	}
	out, err := json.Marshal(ruleset.Suggest(header))
	if err != nil {
		return err
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Text("emailId", id)
	o.Raw("conditions", string(out))
	c.out = o.End()
	return nil
}
