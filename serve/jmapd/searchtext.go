package jmapd

import (
	"errors"
	"time"
	"unicode/utf8"

	"doublet/mailbox"
	"doublet/search/query"
	"doublet/wire/jmap"
)

// searchCondition is the property of a FilterCondition that holds the text of a search box. A request that uses it must
// list the capability jmap.Search.
const searchCondition = "searchText"

// maxZone is the maximum length of the name of a time zone.
const maxZone = 100

// searched parses the text of a search box for the caller.
func (c *call) searched(text, zone string) (*query.Parsed, mailbox.Filter, error) {
	var none mailbox.Filter
	at := time.UTC
	if zone != "" {
		var err error
		if at, err = time.LoadLocation(zone); err != nil || zone == "Local" || len(zone) > maxZone {
			return nil, none, invalid("%.100q is not the name of a time zone", zone)
		}
	}
	folders, err := mailbox.Visible(c.account.File.Folders(c.ctx))
	if err != nil {
		return nil, none, err
	}
	me, err := c.sender()
	if err != nil {
		return nil, none, err
	}
	p, f, err := mailbox.SearchBox(text, query.Context{Now: c.s.env.Clock.Now().In(at), Me: me.addresses}, folders)
	if errors.Is(err, query.ErrQuery) {
		return nil, none, unsupportedFilter("The search text cannot be used: " + err.Error() + ".")
	}
	return p, f, err
}

// searchFilter reads the value of the condition searchText: {"text": …, "timeZone": …}.
func (c *call) searchFilter(v *jmap.Value) (f mailbox.Filter, err error) {
	text, ok := v.Get("text").Text()
	zone, isZone := v.Get("timeZone").Text()
	members := 1
	if v.Get("timeZone") != nil {
		members++
		ok = ok && (isZone || v.Get("timeZone").IsNull())
	}
	if v.Kind() != jmap.Object || !ok || v.Len() != members {
		return f, invalid("%s has a text and, if wanted, a timeZone", searchCondition)
	}
	_, f, err = c.searched(text, zone)
	return f, err
}

// searchTextParse answers SearchText/parse, which tells how the server understands the text of a search box.
func searchTextParse(c *call) error {
	if err := c.arguments(false, "text", "timeZone"); err != nil {
		return err
	}
	text, err := c.needText("text")
	if err != nil {
		return err
	}
	zone, err := c.text("timeZone")
	if err != nil {
		return err
	}
	p, _, err := c.searched(text, zone)
	if err != nil {
		return err
	}
	units := unitsOf(p.Text)
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Text("text", p.Text)
	o.Name("terms")
	o.B = appendTerms(o.B, p.Terms, units)
	o.Name("notUnderstood")
	o.B = append(o.B, '[')
	for i := range p.Unknown {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		u := &p.Unknown[i]
		in := jmap.NewWriter(o.B)
		in.Text("reason", string(u.Reason))
		in.Text("text", u.Text)
		in.Uint("start", units(u.Start))
		in.Uint("end", units(u.End))
		o.B = in.End()
	}
	o.B = append(o.B, ']')
	c.out = o.End()
	return nil
}

func appendTerms(dst []byte, list []query.Term, units func(int) uint64) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		t := &list[i]
		o := jmap.NewWriter(dst)
		o.Text("kind", string(t.Kind))
		o.Bool("not", t.Not)
		o.Uint("start", units(t.Start))
		o.Uint("end", units(t.End))
		if t.Of != nil {
			o.Name("of")
			o.B = appendTerms(o.B, t.Of, units)
		} else {
			o.Text("value", t.Value)
		}
		dst = o.End()
	}
	return append(dst, ']')
}

// unitsOf returns a function that converts an offset in bytes into one in UTF-16 code units, by which clients in
// JavaScript, Java and C# count.
func unitsOf(s string) func(int) uint64 {
	units := make([]uint64, len(s)+1)
	var n uint64
	for i, r := range s {
		width := utf8.RuneLen(r)
		for k := range width {
			units[i+k] = n
		}
		if n++; r >= 1<<16 {
			n++
		}
	}
	units[len(s)] = n
	return func(i int) uint64 { return units[i] }
}
