package lite

import (
	"net/http"
	"strings"
	"time"

	"doublet/directory"
	"doublet/mail/identity"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/speech"
)

// settingsPage is the page of settings. The password, sessions and second factor have pages of their own, which need no
// scripts either.
type settingsPage struct {
	*frame
	Languages   []speech.Language
	Vacation    directory.Vacation
	From, Until string
	Identities  []identity.Identity
	Forward     string
	Rules       bool // the person has a mail file, and so rules and blocked senders
	Blocked     []string
	BlockedMore int // so many are not listed
}

const dayLayout = "2006-01-02"

func (v *visit) settings() error {
	p, err := v.settingsPage()
	if err != nil {
		return err
	}
	v.toldOf(p.frame, "")
	v.s.show(v.w, http.StatusOK, "settings.html", p)
	return nil
}

func (v *visit) settingsPage() (*settingsPage, error) {
	fr, _, err := v.framed("settings", note.UNID{})
	if err != nil {
		return nil, err
	}
	p := &settingsPage{frame: fr, Languages: speech.Languages}
	person, err := v.s.dir.Names.Person(v.ctx, v.id.Who.Person)
	if err != nil {
		return nil, err
	}
	p.Vacation = person.Vacation
	if t := p.Vacation.From; !t.IsZero() {
		p.From = t.In(v.Location).Format(dayLayout)
	}
	if t := p.Vacation.Until; !t.IsZero() {
		p.Until = t.In(v.Location).Add(-time.Second).Format(dayLayout) // show the last day
	}
	p.Forward = clip(strings.Join(person.Forward, ", "), 500)
	if p.Rules = v.id.Database != 0; p.Rules {
		x, err := v.identities()
		if err != nil {
			return nil, err
		}
		p.Identities = x.All[:min(len(x.All), 12)]
		if err := v.readBlocked(p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// changeSettings changes one group of settings.
func (v *visit) changeSettings() error {
	var err error
	switch v.form.Get("do") {
	case "speech":
		err = v.setSpeech()
	case "vacation":
		err = v.setVacation()
	case "identity":
		err = v.setIdentity()
	case "block", "unblock":
		err = v.setSender(v.form.line("sender"), v.form.Get("do") == "block")
	default:
		sender, ok := strings.CutPrefix(v.form.Get("do"), "unblock:")
		if err = errForm; ok {
			err = v.setSender(sender, false)
		}
	}
	if err == nil {
		return v.leave(pathSettings, "said", "saved")
	}
	status, key := refusal(err)
	if status == http.StatusServiceUnavailable {
		return err
	}
	p, bad := v.settingsPage()
	if bad != nil {
		return bad
	}
	p.say(key, true, clip(v.form.line("sender"), 100))
	v.s.show(v.w, status, "settings.html", p)
	return nil
}

// setSpeech stores the language and time zone in a cookie, because they may differ on each browser.
func (v *visit) setSpeech() error {
	lang, zone := v.form.Get("lang"), v.form.line("zone")
	if !speech.Known(lang) {
		return errForm
	}
	if _, err := time.LoadLocation(zone); err != nil || len(zone) > 60 {
		return errForm
	}
	speech.Choose(v.w, v.r, lang, zone)
	return nil
}

func (v *visit) setVacation() error {
	f := v.form
	from, err := v.readDay(f.line("from"))
	if err != nil {
		return err
	}
	until, err := v.readDay(f.line("until"))
	if err != nil {
		return err
	}
	if !until.IsZero() {
		until = until.AddDate(0, 0, 1) // until the end of that day
	}
	return v.s.dir.People.SetVacation(v.ctx, v.id.Who, func(n *directory.Vacation) error {
		n.On, n.From, n.Until, n.Subject, n.Text = f.Get("on") != "", from, until, f.line("subject"), f.Get("text")
		return nil
	})
}

func (v *visit) readDay(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.ParseInLocation(dayLayout, s, v.Location)
	if err != nil {
		err = errForm
	}
	return t, err
}

// setIdentity changes the display name and the signature of an identity.
func (v *visit) setIdentity() error {
	own, err := v.own()
	if err != nil {
		return err
	}
	person, err := v.s.dir.Names.Person(v.ctx, v.id.Who.Person)
	if err != nil {
		return err
	}
	name, text := v.form.line("name"), strings.TrimRight(v.form.Get("text"), "\n")
	if len(name) > 1000 || len(text) > identity.MaxSignature {
		return errLarge
	}
	r, err := own.Change(v.ctx, 1, func(c *mailbox.Changing, _ int) error {
		profile := own.ProfileID(identity.Profile)
		x, err := identity.Read(c.Reading, profile, person.Name(), person.Addresses())
		if err != nil {
			return err
		}
		one := x.Find(v.form.Get("id"))
		if one == nil {
			return errNotFound
		}
		x.Sequence++
		if one.Text != text {
			one.HTML = "" // the old HTML no longer matches; the full client makes a new one
		}
		one.Name, one.Text, one.Changed = name, text, x.Sequence
		return c.PutProfile(profile, x.With(one.ID, note.TextList(one.Columns()...)))
	})
	if err == nil {
		err = r.Errs[0]
	}
	return err
}
