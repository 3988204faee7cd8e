package lite

import (
	"errors"
	"mime"
	"net/url"
	"strings"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/scheduling"
	"doublet/wire/ical"
)

// eventFile is an attachment of an event, as its page shows it.
type eventFile struct {
	ID, Name, Size, Href string
}

// eventFiles lists the attachments of an event or instance: those that the server keeps, and links to pages of others.
func (v *visit) eventFiles(page *eventPage, x *found, organizes bool) {
	c := x.part()
	for i := range c.Properties {
		p := &c.Properties[i]
		if p.Name != "ATTACH" || len(page.Files) == groupware.MaxAttachments {
			continue
		}
		if a := x.attachment(calendar.ManagedID(p)); a != nil {
			page.Files = append(page.Files, eventFile{a.ID, fit(a.Name, 80, 120), size(float64(a.Size)),
				v.at(pathEvent, "e", page.ID, "file", a.ID)})
		} else if u, err := url.Parse(p.Value); err == nil && u.Scheme == "https" && len(p.Value) <= 500 {
			page.Files = append(page.Files, eventFile{Name: fit(p.Param("FILENAME"), 80, 120), Href: p.Value})
		}
		if last := len(page.Files) - 1; last >= 0 && page.Files[last].Name == "" {
			page.Files[last].Name = clip(page.Files[last].Href, 80)
		}
	}
	page.MayAttach = x.may(note.Write) && organizes
	page.MaxFile = size(groupware.MaxAttachment)
}

// attachment returns the attachment of the entry with an id, nil for none.
func (x *found) attachment(id string) *groupware.Attachment {
	for i := range x.Attachments {
		if id != "" && x.Attachments[i].ID == id {
			return &x.Attachments[i]
		}
	}
	return nil
}

// eventFile serves an attachment of an event to save. Anybody who may write in the calendar chose its content.
func (v *visit) eventFile(p *planner) error {
	x, err := p.event()
	if err != nil {
		return err
	}
	if x.attachment(v.form.Get("file")) == nil {
		return errNotFound
	}
	a, body, err := v.s.plans.Attachment(v.ctx, v.id.Who, v.box.db, v.form.Get("file"))
	if err != nil {
		return err
	}
	v.foreign("application/octet-stream", mime.FormatMediaType("attachment", map[string]string{"filename": a.Name}),
		body.Size())
	return v.send(body.Size(), body.AppendRange)
}

// attach adds the files of the form to all instances of an event, each by a change of its own.
func (v *visit) attach(p *planner) error {
	x, err := p.event()
	if err != nil {
		return err
	}
	for i := range v.form.files {
		f := &v.form.files[i]
		a, err := v.s.plans.NewAttachment(v.ctx, f.name, f.kind, f.content)
		if err == nil {
			err = v.attachChange(p, x, &scheduling.AttachmentChange{New: a})
			a.Release()
		}
		if err != nil {
			return err
		}
	}
	if len(v.form.files) == 0 {
		return v.backToEvent("calNoFile")
	}
	return v.backToEvent("calSaved")
}

// detach removes an attachment from all instances of an event that have it.
func (v *visit) detach(p *planner, id string) error {
	x, err := p.event()
	if err != nil {
		return err
	}
	if err := v.attachChange(p, x, &scheduling.AttachmentChange{ID: id}); err != nil {
		return err
	}
	return v.backToEvent("calSaved")
}

func (v *visit) attachChange(p *planner, x *found, change *scheduling.AttachmentChange) error {
	_, err := v.s.invites.Attach(v.ctx, &scheduling.Target{File: p.File, Owner: p.owner, Place: x.place(),
		Condition: groupware.Condition{Old: true}}, change)
	if errors.Is(err, calendar.ErrManagedID) {
		err = errNotFound // somebody else removed it
	}
	return err
}

func (v *visit) backToEvent(said string) error {
	return v.leave(pathEvent, "e", v.form.Get("e"), "at", v.form.Get("at"), "said", said)
}

// enclosed returns the names of the attachments of an invitation.
func enclosed(c *ical.Component) string {
	var names []string
	for i := range c.Properties {
		if p := &c.Properties[i]; p.Name == "ATTACH" && p.Param("FILENAME") != "" && len(names) < 10 {
			names = append(names, fit(p.Param("FILENAME"), 60, 100))
		}
	}
	return strings.Join(names, ", ")
}
