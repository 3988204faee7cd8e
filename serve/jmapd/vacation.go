package jmapd

import (
	"strings"
	"time"

	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/mime"
)

// singleton is the id of an account's only VacationResponse.
const singleton = "singleton"

// The profile note that holds the parts of a vacation response that the directory does not store: its HTML, and whether
// its text was made from the HTML.
const (
	vacationProfile = "VacationResponse"
	itemHTMLBody    = "HTMLBody"
	itemTextMade    = "TextMade"
)

var vacationProperties = []string{"id", "isEnabled", "fromDate", "toDate", "subject", "textBody", "htmlBody"}

// vacation is a VacationResponse.
type vacation struct {
	Vacation
	html     string
	hasHTML  bool
	textMade bool
}

func (c *call) readVacation(d *mailbox.Reading) (v vacation, err error) {
	if v.Vacation, err = c.s.backend.Vacation(c.ctx, c.caller.Who.Person); err != nil {
		return v, err
	}
	items, _, err := d.Profile(c.account.File.ProfileID(vacationProfile))
	if html := items.Get(itemHTMLBody); html != nil {
		v.html, v.hasHTML = html.AsText(), true
		v.textMade = items.Get(itemTextMade).AsBool()
	}
	return v, err
}

// state returns a hash of all properties.
func (v *vacation) state() string {
	u := note.DeriveUNID(v.append(nil, func(string) bool { return true }))
	return u.String()[:16]
}

func (v *vacation) append(dst []byte, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", singleton)
	if wants("isEnabled") {
		o.Bool("isEnabled", v.Enabled)
	}
	for _, p := range [...]struct {
		name string
		at   time.Time
	}{{"fromDate", v.From}, {"toDate", v.Until}} {
		if !wants(p.name) {
			continue
		}
		o.Name(p.name)
		if p.at.IsZero() {
			o.B = append(o.B, "null"...)
		} else {
			o.B = jmap.AppendUTCDate(o.B, p.at)
		}
	}
	for _, p := range [...]struct {
		name, value string
		has         bool
	}{{"subject", v.Subject, v.Subject != ""}, {"textBody", v.Text, v.Text != "" && !v.textMade},
		{"htmlBody", v.html, v.hasHTML}} {
		if !wants(p.name) {
			continue
		}
		if p.has {
			o.Text(p.name, p.value)
		} else {
			o.Raw(p.name, "null")
		}
	}
	return o.End()
}

// vacationGet answers VacationResponse/get.
//
// Implements: RFC 8621 §8.1 VacationResponse/get
func vacationGet(c *call) error {
	g, err := c.getArguments(own, vacationProperties)
	if err != nil {
		return err
	}
	return c.account.File.Read(c.ctx, func(d *mailbox.Reading) error {
		v, err := c.readVacation(d)
		if err != nil {
			return err
		}
		all := []vacation{v}
		answerGet(&g, v.state(), all, onlyID(singleton, all), func(dst []byte, v *vacation) []byte {
			return v.append(dst, g.wants)
		})
		return nil
	})
}

// vacationKind lists the properties of a VacationResponse that a client may change.
var vacationKind = kind{
	mutable: []string{"isEnabled", "fromDate", "toDate", "subject", "textBody", "htmlBody"},
	fixed:   oneOf("id"),
}

// patch applies a client's patch to v.
func (v *vacation) patch(patch *jmap.Value) error {
	current, err := jmap.Parse(string(v.append(nil, func(string) bool { return true })), jmap.Bounds{})
	if err != nil {
		return err
	}
	return vacationKind.apply(patch, current, v.change)
}

func (v *vacation) change(p *jmap.Value) error {
	var bad []string
	made := false
	for i := range p.Len() {
		name, x := p.Name(i), p.At(i)
		if !v.set(name, x) {
			bad = append(bad, name)
		}
		if name == "textBody" {
			made = x.IsNull()
		}
	}
	if bad != nil {
		return badProperties("", bad...)
	}
	if v.textMade = v.hasHTML && (v.textMade || made || v.Text == ""); v.textMade {
		// Vacation messages are plain text, so the text is made from the HTML.
		v.Text = strings.TrimSpace(mime.HTMLText(v.html))
	}
	return nil
}

// set sets a property. It reports whether the value is valid.
func (v *vacation) set(name string, x *jmap.Value) (ok bool) {
	text, isText := x.Text()
	ok = isText || x.IsNull()
	switch name {
	case "isEnabled":
		v.Enabled, ok = x.Bool()
		return ok
	case "fromDate":
		v.From, ok = dateOrNull(x)
		return ok
	case "toDate":
		v.Until, ok = dateOrNull(x)
		return ok
	case "subject":
		v.Subject = text
		return ok && len(text) <= 500 && !strings.ContainsAny(text, "\r\n\x00")
	case "textBody":
		v.Text, v.textMade = text, false
		return ok && len(text) <= identity.MaxSignature
	case "htmlBody":
		v.html, v.hasHTML = text, !x.IsNull()
		return ok && len(text) <= identity.MaxSignature
	}
	return false
}

// dateOrNull returns a UTCDate, or the zero time for null.
func dateOrNull(x *jmap.Value) (at time.Time, ok bool) {
	if x.IsNull() {
		return at, true
	}
	text, _ := x.Text()
	return jmap.ParseDate(text, true)
}

// vacationSet answers VacationResponse/set.
//
// Implements: RFC 8621 §8.2 VacationResponse/set
func vacationSet(c *call) error {
	s, err := c.setArguments(own)
	if err != nil {
		return err
	}
	s.refuse(&jmap.Error{Type: "singleton"})
	var v vacation
	err = c.account.File.Read(c.ctx, func(d *mailbox.Reading) (err error) {
		v, err = c.readVacation(d)
		return err
	})
	if err != nil {
		return err
	}
	before := v.state()
	if err := s.mismatch(before); err != nil {
		return err
	}
	for i := range s.update {
		p := &s.update[i]
		if p.real != singleton {
			s.notUpdated = append(s.notUpdated, failure{p.id, &jmap.Error{Type: "notFound"}})
			continue
		}
		next := v
		err := next.patch(p.object)
		if err == nil {
			err = c.writeVacation(&next)
		}
		if err != nil {
			s.notUpdated = append(s.notUpdated, failure{p.id, err})
			continue
		}
		v = next
		s.updated = append(s.updated, entry{p.id, nil})
	}
	s.append(before, v.state())
	return nil
}

// writeVacation stores a VacationResponse: first the profile note, then the settings in the directory that make it take
// effect.
func (c *call) writeVacation(v *vacation) error {
	profile := c.account.File.ProfileID(vacationProfile)
	res, err := c.account.File.Change(c.ctx, 1, func(w *mailbox.Changing, _ int) error {
		items, _, err := w.Profile(profile)
		if err != nil || items == nil && !v.hasHTML {
			return err
		}
		var html note.Value
		if v.hasHTML {
			html = note.Text(v.html)
		}
		items = items.With("Form", note.Text(vacationProfile)).With(itemHTMLBody, html).With(itemTextMade,
			note.Bool(v.textMade))
		return w.PutProfile(profile, items)
	})
	if err != nil {
		return err
	}
	if res.Errs[0] != nil {
		return res.Errs[0]
	}
	return c.s.backend.SetVacation(c.ctx, c.caller.Who, &v.Vacation)
}
