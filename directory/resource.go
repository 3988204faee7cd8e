package directory

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/note"
)

// The kinds of resource.
const (
	ResourceRoom  = "room"
	ResourceOther = "resource"
)

// items of a resource.
const (
	itemResourceType = "ResourceType"
	itemCapacity     = "Capacity"
	itemEquipment    = "Equipment"
	itemOwners       = "ResourceOwners"
	itemApproval     = "ApprovalRequired"
	itemHours        = "AvailableHours"
	itemZone         = "ResourceTimeZone"
	itemSite         = "Site"
)

// Limits of a resource.
const (
	maxEquipment = 50
	maxOwners    = 100
	maxCapacity  = 1_000_000
)

// ResourceFields describe a room or another resource that people book, as Domino's Resource documents do.
type ResourceFields struct {
	// Kind is ResourceRoom or ResourceOther, "" for a database that nobody books.
	Kind string
	// Capacity is the number of people that a room holds, 0 if it is not known.
	Capacity  int
	Equipment []string
	// Site is the place where people look for the resource, such as a building; "" if it has none.
	Site string
	// Owners lists the UNIDs of the people and groups who own the resource. With Approval the bookings of others wait
	// for their decision; without, only they book. Without owners everybody books.
	Owners   []string
	Approval bool
	// Hours are the hours of each day in which it can be booked, "08:00-18:00"; "" means all.
	Hours string
	// TimeZone is the time zone of Hours, a name of the IANA database; "" means UTC.
	TimeZone string
}

func (r *ResourceFields) write(f *fields) {
	f.text(itemResourceType, r.Kind)
	f.int(itemCapacity, int64(r.Capacity))
	f.list(itemEquipment, r.Equipment)
	f.list(itemOwners, r.Owners)
	f.bool(itemApproval, r.Approval)
	f.text(itemHours, r.Hours)
	f.text(itemZone, r.TimeZone)
	f.text(itemSite, r.Site)
}

func readResource(items note.Items) ResourceFields {
	return ResourceFields{Kind: items.Get(itemResourceType).AsText(), Capacity: int(items.Get(itemCapacity).AsInt()),
		Equipment: items.Get(itemEquipment).AsTextList(), Owners: items.Get(itemOwners).AsTextList(),
		Approval: items.Get(itemApproval).AsBool(), Hours: items.Get(itemHours).AsText(),
		TimeZone: items.Get(itemZone).AsText(), Site: items.Get(itemSite).AsText()}
}

// check rejects fields that no resource has.
func (r *ResourceFields) check() error {
	switch {
	case r.Kind == "":
		*r = ResourceFields{} // a database that nobody books has none of the others
		return nil
	case r.Kind != ResourceRoom && r.Kind != ResourceOther:
		return fmt.Errorf("%w kind of resource %.20q: it must be room or resource", ErrInvalid, r.Kind)
	case r.Capacity < 0 || r.Capacity > maxCapacity:
		return fmt.Errorf("%w capacity %d", ErrInvalid, r.Capacity)
	case len(r.Site) > maxName:
		return fmt.Errorf("%w site %.40q", ErrInvalid, r.Site)
	case r.Approval && len(r.Owners) == 0:
		return fmt.Errorf("%w resource: approval needs an owner", ErrInvalid)
	}
	if _, _, err := r.Day(); err != nil {
		return err
	}
	if _, err := time.LoadLocation(r.TimeZone); err != nil || r.TimeZone == "Local" {
		return fmt.Errorf("%w time zone %.40q", ErrInvalid, r.TimeZone)
	}
	return r.checkLists()
}

// checkLists rejects equipment and owners that no resource has.
func (r *ResourceFields) checkLists() error {
	if len(r.Equipment) > maxEquipment || len(r.Owners) > maxOwners {
		return fmt.Errorf("%w resource: at most %d pieces of equipment and %d owners", ErrInvalid, maxEquipment,
			maxOwners)
	}
	for _, e := range r.Equipment {
		if e == "" || len(e) > maxName {
			return fmt.Errorf("%w equipment %.40q", ErrInvalid, e)
		}
	}
	for _, id := range r.Owners {
		if _, err := note.ParseUNID(id); err != nil {
			return fmt.Errorf("%w owner %.40q: it must be an id", ErrInvalid, id)
		}
	}
	return nil
}

// Day returns the hours of a day in which the resource can be booked, as times since midnight: the whole day if no
// hours are set.
func (r *ResourceFields) Day() (from, to time.Duration, err error) {
	if r.Hours == "" {
		return 0, 24 * time.Hour, nil
	}
	a, b, _ := strings.Cut(r.Hours, "-")
	first, errFirst := time.Parse("15:04", strings.TrimSpace(a))
	last, errLast := time.Parse("15:04", strings.TrimSpace(b))
	if errFirst != nil || errLast != nil || !first.Before(last) {
		return 0, 0, fmt.Errorf("%w hours %.20q: they must look like 08:00-18:00", ErrInvalid, r.Hours)
	}
	since := func(t time.Time) time.Duration {
		return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	}
	return since(first), since(last), nil
}

// Owns reports whether a person is one of the owners, also as a member of a group.
func (r *ResourceFields) Owns(who note.Who) bool {
	if slices.Contains(r.Owners, who.Person.String()) {
		return true
	}
	return slices.ContainsFunc(who.Groups, func(g note.UNID) bool { return slices.Contains(r.Owners, g.String()) })
}
