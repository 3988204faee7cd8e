package lite

import (
	"cmp"
	"encoding/base64"
	"errors"
	"mime"
	"net/url"
	"strconv"
	"strings"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/scheduling"
	"doublet/wire/ical"
)

// eventFile is an attachment of an event, as its page shows it. For a link, Size is the host.
type eventFile struct {
	ID, Name, Size, Href string
}

// eventFiles lists the attachments of an event or instance: those that the server keeps, those in the text of the
// event, and links to pages of others.
func (v *visit) eventFiles(page *eventPage, x *found, organizes bool) {
	c := x.part()
	for i := range c.Properties {
		p := &c.Properties[i]
		if p.Name != "ATTACH" || len(page.Files) == groupware.MaxAttachments {
			continue
		}
		name := fit(p.Param("FILENAME"), 80, 120)
		if a := x.attachment(calendar.ManagedID(p)); a != nil {
			page.Files = append(page.Files, eventFile{a.ID, fit(a.Name, 80, 120), size(float64(a.Size)),
				v.at(pathEvent, "e", page.ID, "file", a.ID)})
		} else if inText(p) {
			page.Files = append(page.Files, eventFile{"", groupware.FileName(name),
				size(float64(base64.StdEncoding.DecodedLen(len(p.Value)))),
				v.at(pathEvent, "e", page.ID, "at", page.Instance, "file", inTextPrefix+strconv.Itoa(i))})
		} else if u, err := url.Parse(p.Value); err == nil && u.Scheme == "https" && len(p.Value) <= 500 {
			// The name is the organizer's, who may be a stranger: the host behind it shows where the link leads.
			page.Files = append(page.Files,
				eventFile{Name: cmp.Or(name, clip(p.Value, 80)), Size: u.Host, Href: p.Value})
		}
	}
	page.MayAttach = x.may(note.Write) && organizes
	page.MaxFile = size(groupware.MaxAttachment)
}

// inTextPrefix begins the name of an attachment in the text of an event, in an address of this door. The number of its
// line in the component follows.
const inTextPrefix = "line"

// inText reports whether a line ATTACH holds the attachment itself: so it came by mail.
func inText(p *ical.Property) bool {
	return p.Name == "ATTACH" && strings.EqualFold(p.Param("ENCODING"), "BASE64")
}

// lineFile serves an attachment in the text of an event to save.
func (v *visit) lineFile(x *found, number string) error {
	i, err := strconv.Atoi(number)
	c := x.part()
	if err != nil || i < 0 || i >= len(c.Properties) || !inText(&c.Properties[i]) {
		return errNotFound
	}
	content, err := base64.StdEncoding.DecodeString(c.Properties[i].Value)
	if err != nil {
		return errNotFound
	}
	v.foreign("application/octet-stream", mime.FormatMediaType("attachment", map[string]string{
		"filename": groupware.FileName(c.Properties[i].Param("FILENAME"))}), int64(len(content)))
	return v.send(int64(len(content)), func(dst []byte, off, n int64) ([]byte, error) {
		return append(dst, content[off:min(off+n, int64(len(content)))]...), nil
	})
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
	if number, ok := strings.CutPrefix(v.form.Get("file"), inTextPrefix); ok {
		return v.lineFile(x, number)
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
		a, err := v.s.plans.NewAttachment(v.ctx, f.name, f.kind, f.content, p.Database())
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
