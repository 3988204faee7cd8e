package calendar

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"doublet/wire/ical"
)

// Errors of changes of managed attachments.
var (
	// ErrInstance reports a parameter rid that is malformed, or names an instance that the object does not have.
	ErrInstance = errors.New("object has no such instance")
	// ErrManagedID reports a MANAGED-ID that names no attachment of the object.
	ErrManagedID = errors.New("object has no such managed attachment")
)

// ParamManagedID is the parameter of ATTACH that names a managed attachment.
//
// Implements: RFC 8607 §4.3 MANAGED-ID
const ParamManagedID = "MANAGED-ID"

// Attachment is a managed attachment: its bytes are on the server, and a line ATTACH leads to them.
type Attachment struct {
	ID   string // MANAGED-ID
	URL  string
	Name string // FILENAME
	Type string // FMTTYPE: a media type without parameters
	Size uint64 // SIZE in bytes
}

// line returns the line of the attachment.
//
// Implements: RFC 8607 §4 Modifications to iCalendar Syntax
func (a *Attachment) line() ical.Property {
	p := ical.Property{Name: "ATTACH", Value: a.URL}
	p.SetParam(ParamManagedID, a.ID)
	p.SetParam("FMTTYPE", a.Type)
	p.SetParam("SIZE", strconv.FormatUint(a.Size, 10))
	p.SetParam("FILENAME", a.Name)
	return p
}

// ManagedID returns the MANAGED-ID of a line ATTACH, "" for other lines.
func ManagedID(p *ical.Property) string {
	if p.Name != "ATTACH" {
		return ""
	}
	return p.Param(ParamManagedID)
}

// Managed returns the ids of the managed attachments of the object, in their order, each once.
func (o *Object) Managed() (ids []string) {
	seen := map[string]bool{}
	for _, c := range o.Parts {
		for i := range c.Properties {
			if id := ManagedID(&c.Properties[i]); id != "" && !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// Readdress sets the addresses of the managed attachments to those that url returns for a line: ID, Name and URL of the
// attachment are set. It reports whether one was another before.
func (o *Object) Readdress(url func(a Attachment) string) (changed bool) {
	for _, c := range o.Parts {
		for i := range c.Properties {
			p := &c.Properties[i]
			if id := ManagedID(p); id != "" {
				to := url(Attachment{ID: id, Name: p.Param("FILENAME"), URL: p.Value})
				changed = changed || p.Value != to
				p.Value = to
			}
		}
	}
	return changed
}

// Unmanage makes the managed attachments of a component plain links: their ids mean nothing in another mail file.
func Unmanage(c *ical.Component) { remanage(c, nil) }

// Remanage sets the ids and addresses of the managed attachments to those of other ones with the same bytes. to has
// these by the old ids; those that it does not have become plain links.
func (o *Object) Remanage(to map[string]Attachment) {
	for _, c := range o.Parts {
		remanage(c, to)
	}
}

func remanage(c *ical.Component, to map[string]Attachment) {
	for i := range c.Properties {
		p := &c.Properties[i]
		id := ManagedID(p)
		if id == "" {
			continue
		}
		p.Params = slices.Clone(p.Params)
		if a, ok := to[id]; ok {
			p.SetParam(ParamManagedID, a.ID)
			p.Value = a.URL
		} else {
			p.SetParam(ParamManagedID)
		}
	}
}

// Instances names components of an object: the master, and instances by their recurrence ids. nil stands for all
// components that the object has.
type Instances []instanceName

// instanceName is one value of rid. The master has no time.
type instanceName struct {
	master bool
	at     ical.Moment
}

// maxInstances bounds the values of rid.
const maxInstances = 100

// ParseInstances parses the parameter rid: M for the master, and values of RECURRENCE-ID, which are a date, a time in
// UTC, or a time on the clocks of the series. Errors match ErrInstance.
//
// Implements: RFC 8607 §3.3.2 rid= Query Parameter
func ParseInstances(s string) (Instances, error) {
	if len(s) > maxInstances*len("20060102T150405Z,") {
		return nil, ErrInstance
	}
	var list Instances
	for v := range strings.SplitSeq(s, ",") {
		x := instanceName{master: v == "M"}
		if !x.master {
			var ok bool
			if x.at, ok = (&ical.Property{Value: v}).Moment(); !ok {
				return nil, ErrInstance
			}
		}
		if slices.Contains(list, x) || len(list) == maxInstances {
			return nil, ErrInstance
		}
		list = append(list, x)
	}
	return list, nil
}

// Attach adds a managed attachment to instances, and returns the text of the new object. An instance that follows the
// series gets a component of its own. Errors match ErrInstance.
//
// Implements: RFC 8607 §3.4 Adding Attachments
func (o *Object) Attach(a Attachment, in Instances) ([]byte, error) {
	x, parts, err := o.chosen(in)
	if err != nil {
		return nil, err
	}
	for _, c := range parts {
		c.Properties = append(c.Properties, a.line())
	}
	return x.Text(), nil
}

// Reattach replaces a managed attachment by another one, in all instances, and returns the text of the new object.
// Errors match ErrManagedID.
//
// Implements: RFC 8607 §3.5 Updating Attachments
func (o *Object) Reattach(id string, a Attachment) ([]byte, error) {
	return o.relink(id, nil, func(list []ical.Property, i int) []ical.Property {
		list[i] = a.line()
		return list
	})
}

// Detach removes a managed attachment from instances, and returns the text of the new object. An instance that follows
// the series gets a component of its own. Errors match ErrInstance or ErrManagedID.
//
// Implements: RFC 8607 §3.6 Removing Attachments via POST
func (o *Object) Detach(id string, in Instances) ([]byte, error) {
	return o.relink(id, in, func(list []ical.Property, i int) []ical.Property { return slices.Delete(list, i, i+1) })
}

// relink calls change for the line of a managed attachment in each of some instances that has it.
func (o *Object) relink(id string, in Instances,
	change func(list []ical.Property, i int) []ical.Property) ([]byte, error) {
	x, parts, err := o.chosen(in)
	if err != nil {
		return nil, err
	}
	found := false
	for _, c := range parts {
		i := slices.IndexFunc(c.Properties, func(p ical.Property) bool { return id != "" && ManagedID(&p) == id })
		if i >= 0 {
			found, c.Properties = true, change(c.Properties, i)
		}
	}
	if !found {
		return nil, ErrManagedID
	}
	return x.Text(), nil
}

// chosen returns a copy of the object and the components of instances in it.
func (o *Object) chosen(in Instances) (*Object, []*ical.Component, error) {
	x, err := NewObject(o.Whole.Clone())
	if err != nil {
		return nil, nil, err
	}
	if in == nil {
		return x, x.Parts, nil
	}
	var parts []*ical.Component
	for _, name := range in {
		c, err := x.component(name)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, c)
	}
	if both(parts) {
		return nil, nil, ErrInstance
	}
	return x, parts, nil
}

// both reports whether a component is in a list twice: two spellings of one instance.
func both(parts []*ical.Component) bool {
	for i, c := range parts {
		if slices.Contains(parts[:i], c) {
			return true
		}
	}
	return false
}

// component returns the component of an instance, which it makes if the instance follows the series.
func (o *Object) component(name instanceName) (*ical.Component, error) {
	if name.master {
		if !o.master {
			return nil, ErrInstance
		}
		return o.Parts[0], nil
	}
	z := &zoned{object: o.Whole, found: map[string]*ical.Zone{}}
	id := o.at(z, name.at)
	for _, c := range o.Whole.Children {
		if m, ok := c.Get("RECURRENCE-ID").Moment(); ok && c.Name == o.Kind && o.at(z, m).Equal(id) {
			return c, nil
		}
	}
	if !o.master || !o.Series.Recurs() {
		return nil, ErrInstance
	}
	at, ok := o.Instance(id)
	if !ok {
		return nil, ErrInstance
	}
	return o.override(at)
}

// override adds a component for an instance that follows the series.
func (o *Object) override(at Occurrence) (*ical.Component, error) {
	c := o.instance(at).c.Clone() // it shares its lines with the series
	start := o.Parts[0].Get("DTSTART")
	if start == nil {
		return nil, ErrInstance
	}
	c.Properties = append(c.Properties, onClocks("RECURRENCE-ID", start, at.ID))
	o.Whole.Children = append(o.Whole.Children, c)
	return c, nil
}
