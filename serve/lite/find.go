package lite

import (
	"errors"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/wire/mime"
)

// find finds people and groups in the directory, and recent correspondents.
func (v *visit) find(words string) ([]person, error) {
	if words == "" {
		return nil, nil
	}
	var out []person
	seen := map[string]bool{}
	add := func(name, address string) {
		if key := strings.ToLower(address); address != "" && !seen[key] && len(out) < 20 {
			seen[key] = true
			a := mime.Address{Name: name}
			a.Mailbox, a.Host, _ = strings.Cut(address, "@")
			out = append(out, person{clip(name, 80), formatAddress(&a), ""})
		}
	}
	search := directory.Search{Text: words}
	list, err := v.s.dir.Names.Find(v.ctx, search)
	if err == nil {
		list, err = v.s.dir.Names.FindMore(v.ctx, search, list)
	}
	if err != nil {
		return nil, err
	}
	for i := range list {
		add(list[i].Name, list[i].Address)
	}
	return out, v.recent(words, add)
}

// recent calls add for people in recent messages whose name or address contains the words.
func (v *visit) recent(words string, add func(name, address string)) error {
	own, err := v.own()
	if err != nil {
		return err
	}
	test := func(t mailbox.Test) mailbox.Filter {
		return mailbox.Filter{Kind: mailbox.FilterText, Text: mailbox.Criteria{Test: t, Text: words}}
	}
	found, err := own.Query(v.ctx, &mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterOr,
		Of: []mailbox.Filter{test(mailbox.TestFrom), test(mailbox.TestTo)}}, Limit: 30})
	if err != nil {
		return err
	}
	fold := strings.ToLower(words)
	return own.Read(v.ctx, func(d *mailbox.Reading) error {
		for _, h := range found.Hits {
			m, err := d.Email(h.ID)
			if errors.Is(err, mailbox.ErrNoMessage) {
				continue
			}
			if err != nil {
				return err
			}
			e, err := envelopeOf(m)
			if err != nil {
				return err
			}
			for _, a := range slices.Concat(e.From, e.To) {
				email := a.Mailbox + "@" + a.Host
				if !a.Group && a.Host != "" && strings.Contains(strings.ToLower(mailName(&a)+" "+email), fold) {
					add(mailName(&a), email)
				}
			}
		}
		return nil
	})
}

// withAddress appends an address to an address field.
func withAddress(field, address string) string {
	return strings.TrimLeft(strings.TrimRight(field, ", ")+", "+clip(address, 700), ", ")
}
