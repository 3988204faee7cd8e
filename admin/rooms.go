package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/directory"
	"doublet/scheduling"
)

// Room is a room or another resource that people book.
type Room struct {
	Name      string    `json:"name"`
	Address   string    `json:"address"`
	Kind      string    `json:"kind"`
	Capacity  int       `json:"capacity,omitempty"`
	Equipment []string  `json:"equipment,omitempty"`
	Site      string    `json:"site,omitempty"`
	Owners    []string  `json:"owners,omitempty"`
	Approval  bool      `json:"approval,omitempty"`
	Hours     string    `json:"hours,omitempty"`
	TimeZone  string    `json:"time_zone,omitempty"`
	Removed   time.Time `json:"removed,omitzero"`
	ID        string    `json:"id"`
}

// Reservation is a booking of a room.
type Reservation struct {
	ID        string    `json:"id"`
	Subject   string    `json:"subject"`
	Organizer string    `json:"organizer"`
	Start     time.Time `json:"start"`
	Status    string    `json:"status"`
}

// RoomAdd are the arguments of room add.
type RoomAdd struct {
	Name      string   `json:"name" arg:"required" help:"name of the room or resource"`
	Address   string   `json:"address" help:"address under which people invite it" required:"true"`
	Kind      string   `json:"kind" help:"room or resource (default: room)"`
	Capacity  int      `json:"capacity" help:"people that a room holds"`
	Equipment []string `json:"equipment" help:"equipment, such as projector"`
	Site      string   `json:"site" help:"building or other place where people look for it"`
	Owner     []string `json:"owner" help:"people and groups who alone book it, or who decide with --approval"`
	Approval  bool     `json:"approval" help:"bookings of others wait for an owner's decision"`
	Hours     string   `json:"hours" help:"hours of each day in which it can be booked, as 08:00-18:00"`
	TimeZone  string   `json:"time_zone" help:"time zone of the hours, as Europe/Berlin (default: UTC)"`
}

// RoomSet are the arguments of room set. A nil field leaves the value unchanged.
type RoomSet struct {
	Name      string    `json:"name" arg:"required" help:"name, address or id"`
	Rename    *string   `json:"rename" help:"new name"`
	Address   *string   `json:"address" help:"address under which people invite it"`
	Capacity  *int      `json:"capacity" help:"people that a room holds"`
	Equipment *[]string `json:"equipment" help:"all its equipment"`
	Site      *string   `json:"site" help:"building or other place where people look for it"`
	Owner     *[]string `json:"owner" help:"all its owners"`
	Approval  *bool     `json:"approval" help:"bookings of others wait for an owner's decision"`
	Hours     *string   `json:"hours" help:"hours of each day in which it can be booked"`
	TimeZone  *string   `json:"time_zone" help:"time zone of the hours"`
}

// RoomAnswer are the arguments of room accept and room decline.
type RoomAnswer struct {
	Name string `json:"name" arg:"required" help:"name, address or id of the room"`
	ID   string `json:"id" arg:"required" help:"id of the booking, as room bookings prints it"`
}

func rooms() []*Verb {
	return []*Verb{
		define("room add", "add a room or another resource that people book by inviting it", roomAdd, changes),
		define("room list", "list rooms and other resources", roomList),
		define("room show", "show a room", func(ctx context.Context, c *Call, a *Named) (Room, error) {
			m, err := room(ctx, c, a.Name)
			return roomOf(ctx, c, m), err
		}),
		define("room set", "change a room", roomSet, changes),
		define("room bookings", "list the bookings of a room, those that wait for a decision first", roomBookings),
		define("room accept", "accept a booking that waits for a decision", roomAnswer(true), changes),
		define("room decline", "decline a booking that waits for a decision", roomAnswer(false), changes),
		define("room remove", "remove a room; its database stays", func(ctx context.Context, c *Call,
			a *Named) (Done, error) {
			m, err := room(ctx, c, a.Name)
			if err != nil {
				return Done{}, err
			}
			return Done{"removed room " + m.Name + undoTime}, c.Directory.MailIns.Remove(ctx, c.Who, m.ID)
		}, changes),
		define("room undo", "bring back a room that was removed", undo("MailIn"), changes),
	}
}

// room returns the room with a name, an address or an id.
func room(ctx context.Context, c *Call, name string) (directory.MailIn, error) {
	m, err := c.mailIns().find(ctx, name)
	if err == nil && m.Resource.Kind == "" {
		err = fmt.Errorf("room %q: %w: nobody books it", name, directory.ErrNotFound)
	}
	return m, err
}

func roomOf(ctx context.Context, c *Call, m directory.MailIn) Room {
	r := &m.Resource
	return Room{Name: m.Name, Address: m.InternetAddress, Kind: r.Kind, Capacity: r.Capacity, Equipment: r.Equipment,
		Site:   r.Site,
		Owners: c.names(ctx, r.Owners), Approval: r.Approval, Hours: r.Hours, TimeZone: r.TimeZone, Removed: m.Removed,
		ID: m.ID.String()}
}

// ownersOf returns the ids of people and groups.
func ownersOf(ctx context.Context, c *Call, names []string) (ids []string, err error) {
	for _, name := range names {
		t, err := c.Directory.Names.Lookup(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("owner %q: %w", name, err)
		}
		ids = append(ids, t.ID.String())
	}
	return ids, nil
}

func roomAdd(ctx context.Context, c *Call, a *RoomAdd) (Room, error) {
	owners, err := ownersOf(ctx, c, a.Owner)
	if err != nil {
		return Room{}, err
	}
	if a.Kind == "" {
		a.Kind = directory.ResourceRoom
	}
	m, err := c.newMailIn(ctx, directory.MailInFields{Name: a.Name, InternetAddress: a.Address,
		Resource: directory.ResourceFields{Kind: a.Kind, Capacity: a.Capacity, Equipment: a.Equipment, Site: a.Site,
			Owners: owners, Approval: a.Approval, Hours: a.Hours, TimeZone: a.TimeZone}})
	if err != nil {
		return Room{}, err
	}
	return roomOf(ctx, c, m), nil
}

func roomList(ctx context.Context, c *Call, _ *struct{}) ([]Room, error) {
	return listed(everything, "", func(limit int, after string) ([]directory.MailIn, string, error) {
		return c.Directory.MailIns.List(ctx, "", limit, after)
	}, func(m *directory.MailIn) bool {
		return m.Resource.Kind != "" && m.Removed.IsZero()
	}, func(m directory.MailIn) Room {
		return roomOf(ctx, c, m)
	})
}

func roomSet(ctx context.Context, c *Call, a *RoomSet) (Room, error) {
	m, err := room(ctx, c, a.Name)
	if err != nil {
		return Room{}, err
	}
	var owners []string
	if a.Owner != nil {
		if owners, err = ownersOf(ctx, c, nonEmpty(*a.Owner)); err != nil {
			return Room{}, err
		}
	}
	m, err = c.Directory.MailIns.Set(ctx, c.Who, m.ID, func(f *directory.MailInFields) error {
		r := &f.Resource
		assign(&f.Name, a.Rename)
		assign(&f.InternetAddress, a.Address)
		assign(&r.Capacity, a.Capacity)
		assign(&r.Approval, a.Approval)
		assign(&r.Hours, a.Hours)
		assign(&r.Site, a.Site)
		assign(&r.TimeZone, a.TimeZone)
		if a.Equipment != nil {
			r.Equipment = nonEmpty(*a.Equipment)
		}
		if a.Owner != nil {
			r.Owners = owners
		}
		return nil
	})
	return roomOf(ctx, c, m), err
}

// maxBookings bounds the list of bookings.
const maxBookings = 1000

func roomBookings(ctx context.Context, c *Call, a *Named) ([]Reservation, error) {
	m, err := room(ctx, c, a.Name)
	if err != nil {
		return nil, err
	}
	list, err := c.Scheduling.Bookings(ctx, &m, maxBookings)
	rows := make([]Reservation, 0, len(list))
	for _, b := range list {
		rows = append(rows, Reservation{b.UID, b.Subject, b.Organizer, b.Start, b.Status})
	}
	return rows, err
}

func roomAnswer(accept bool) func(context.Context, *Call, *RoomAnswer) (Done, error) {
	return func(ctx context.Context, c *Call, a *RoomAnswer) (Done, error) {
		m, err := room(ctx, c, a.Name)
		if err != nil {
			return Done{}, err
		}
		err = c.Scheduling.Decide(ctx, &m, a.ID, accept)
		if errors.Is(err, scheduling.ErrNoBooking) {
			err = fmt.Errorf("%w: booking %q of %s does not wait for a decision", directory.ErrNotFound, a.ID, m.Name)
		}
		return Done{"the organizer is told"}, err
	}
}
