package jmapd

import (
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
)

// snippetGet answers SearchSnippet/get.
//
// Implements: RFC 8621 §5.1 SearchSnippet/get
func snippetGet(c *call) error {
	if err := c.arguments(false, "filter", "emailIds"); err != nil {
		return err
	}
	f, err := c.emailFilter()
	if err != nil {
		return err
	}
	ids, err := c.needIDs("emailIds", "maxObjectsInGet")
	if err != nil {
		return err
	}
	found := make(map[note.ID]string, len(ids))
	var notes []note.ID
	var notFound []string
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		for _, id := range ids {
			m, err := c.email(d, id)
			if err == mailbox.ErrNoMessage {
				notFound = append(notFound, id)
				continue
			}
			if err != nil {
				return err
			}
			found[m.ID], notes = id, append(notes, m.ID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	texts := mailbox.Criteria{Test: mailbox.TestAny}
	collectTexts(&texts, &f, false)
	list, err := c.account.File.Snippets(c.ctx, &texts, notes)
	if err != nil {
		return err
	}
	c.out = append(append(append(c.out, `{"accountId":"`...), c.account.ID...), `","list":[`...)
	for i := range list {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		o := jmap.NewWriter(c.out)
		o.Text("emailId", found[list[i].ID])
		orNull(&o, "subject", list[i].Subject)
		orNull(&o, "preview", list[i].Preview)
		c.out = o.End()
		delete(found, list[i].ID)
	}
	for _, id := range notes {
		if name, gone := found[id]; gone { // removed meanwhile
			notFound = append(notFound, name)
		}
	}
	c.out = append(c.out, `],"notFound":`...)
	if notFound == nil {
		c.out = append(c.out, "null}"...)
	} else {
		c.out = append(jmap.AppendStrings(c.out, notFound), '}')
	}
	return nil
}

// orNull appends a text, or null if it is empty.
func orNull(o *jmap.Writer, name, text string) {
	if text == "" {
		o.Raw(name, "null")
		return
	}
	o.Text(name, text)
}

// collectTexts collects the texts that a filter searches for. It skips those under a NOT, which are not highlighted.
func collectTexts(to *mailbox.Criteria, f *mailbox.Filter, not bool) {
	if f.Kind == mailbox.FilterNot {
		not = !not
	}
	for i := range f.Of {
		collectTexts(to, &f.Of[i], not)
	}
	if f.Kind == mailbox.FilterText && !not {
		to.All = append(to.All, f.Text)
	}
}
