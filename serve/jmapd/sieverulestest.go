package jmapd

import (
	"errors"

	"doublet/mail"
	"doublet/mail/rules"
	"doublet/mail/ruleset"
	"doublet/mailbox"
	"doublet/wire/jmap"
)

// triedByDefault is the number of messages of a dry run without a limit.
const triedByDefault = 100

// triedSize is about the size of a message in the response, in bytes.
const triedSize = 1500

// rulesTest answers SieveRules/test: a dry run of rules, or of a script in a blob, over the newest messages of a
// Mailbox. It returns the messages with which the script would do something else than keep them.
func rulesTest(c *call) error {
	if err := c.arguments(own, "rules", "blobId", "mailboxId", "limit"); err != nil {
		return err
	}
	limit, err := c.uint("limit", triedByDefault)
	if err != nil {
		return err
	}
	text, err := c.triedScript()
	if err != nil {
		return err
	}
	folder, err := c.triedFolder()
	if err != nil {
		return err
	}
	list, err := c.s.backend.TryScript(c.ctx, &mail.ScriptTrial{File: c.account.File, Database: c.account.Database,
		Address: c.caller.Address, Script: text, Folder: folder, Limit: int(min(limit, mail.MaxTried)),
		Hold: func(n int64) (func(), error) {
			if err := c.hold(n); err != nil {
				return nil, err
			}
			return func() { c.mem.drop(n) }, nil
		}})
	if err != nil {
		return scriptError(err)
	}
	if err := c.room(len(list) * triedSize); err != nil {
		return err
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Uint("tested", uint64(len(list)))
	o.Name("list")
	o.B = append(o.B, '[')
	met := 0
	for i := range list {
		if list[i].Kept() {
			continue
		}
		if met++; met > 1 {
			o.B = append(o.B, ',')
		}
		o.B = appendTried(o.B, &list[i])
	}
	o.B = append(o.B, ']')
	c.out = o.End()
	return nil
}

// triedScript returns the script of a dry run.
func (c *call) triedScript() (text string, err error) {
	v := c.args.Get("rules")
	if v.IsNull() {
		id, err := c.needText("blobId")
		if err != nil {
			return "", err
		}
		text, err = c.scriptText(id)
		return text, scriptError(err)
	}
	if !c.args.Get("blobId").IsNull() {
		return "", invalid("rules and blobId exclude each other")
	}
	list, err := readRules(v)
	if err != nil {
		return "", invalid("rules is no list of rules")
	}
	r, err := c.storedRules()
	if err != nil {
		return "", scriptError(err)
	}
	if r.rules == nil {
		r.rules = &ruleset.Script{}
	}
	r.rules.Rules = list
	text, err = r.rules.Format()
	if errors.Is(err, ruleset.ErrRule) {
		return "", invalid("%s", err)
	}
	return text, scriptError(err)
}

// triedFolder returns the name of the folder of a dry run: INBOX without a mailboxId.
func (c *call) triedFolder() (string, error) {
	id, err := c.text("mailboxId")
	if err != nil || id == "" {
		return mailbox.Inbox, err
	}
	folders, err := mailbox.Visible(c.account.File.Folders(c.ctx))
	if err != nil {
		return "", err
	}
	u := c.mailboxID(id)
	for i := range folders {
		if folders[i].UNID == u {
			return folders[i].Name, nil
		}
	}
	return "", invalid("there is no Mailbox %.40q", id)
}

// appendTried appends a message of a dry run with what would be done with it.
func appendTried(dst []byte, t *mail.Tried) []byte {
	o := jmap.NewWriter(dst)
	o.Text("emailId", t.EmailID)
	o.Text("from", t.From)
	o.Text("subject", t.Subject)
	o.Name("actions")
	w := actionWriter{B: append(o.B, '[')}
	w.outcome(&t.Outcome)
	o.B = append(w.B, ']')
	if t.Outcome.Err != nil {
		o.Text("error", t.Outcome.Err.Error())
	} else {
		o.Raw("error", "null")
	}
	return o.End()
}

// actionWriter appends the actions of an outcome.
type actionWriter struct {
	B     []byte
	count int
}

func (w *actionWriter) add(kind, value string, flags ...string) {
	if w.count++; w.count > 1 {
		w.B = append(w.B, ',')
	}
	o := jmap.NewWriter(w.B)
	o.Text("type", kind)
	if value != "" {
		o.Text("value", value)
	}
	if len(flags) > 0 {
		o.Strings("flags", flags...)
	}
	w.B = o.End()
}

// outcome appends the actions, with the names of Sieve.
func (w *actionWriter) outcome(o *rules.Outcome) {
	for _, f := range o.Filings {
		if f.Folder == "" {
			w.add("keep", "", f.Flags...)
		} else {
			w.add("fileinto", f.Folder, f.Flags...)
		}
	}
	for _, a := range o.Redirects {
		w.add("redirect", a)
	}
	if o.Rejected {
		w.add("reject", o.Reason)
	}
	if o.Vacation != nil {
		w.add("vacation", o.Vacation.Subject)
	}
	for _, n := range o.Notices {
		for _, to := range n.To {
			w.add("notify", to)
		}
	}
	if o.Header != nil {
		w.add("editheader", "")
	}
	if len(o.Filings)+len(o.Redirects) == 0 && !o.Rejected {
		w.add("discard", "")
	}
}
