package jmapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/client/reach"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/wire/jmap"
)

var feedProperties = []string{"id", "full", "busy", "source", "fetched", "error"}

// feedKind lists the properties of a CalendarFeed that a client may change.
var feedKind = kind{mutable: []string{"full", "busy", "refresh"}, fixed: oneOf("id", "source", "fetched", "error")}

// appendFeed appends a CalendarFeed: the links of a calendar, which only those who administer it see, and the feed of
// another server that it shows. It has the id of the Calendar.
func (c *call) appendFeed(dst []byte, x *groupware.Collection, wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Text("id", idOf(letterCalendar, x.UNID))
	links := c.s.opt.Feeds.Links(c.account.Database, x)
	for _, p := range [...]struct{ name, text string }{{"full", links.Full}, {"busy", links.Busy},
		{"source", x.Source.URL}, {"error", x.Source.Error}} {
		if wants(p.name) {
			orNull(&o, p.name, p.text)
		}
	}
	if wants("fetched") && x.Source.Done.IsZero() {
		o.Raw("fetched", "null")
	} else if wants("fetched") {
		o.Name("fetched")
		o.B = jmap.AppendUTCDate(o.B, x.Source.Done)
	}
	return o.End()
}

// feedGet answers CalendarFeed/get. Its state is that of Calendar.
func feedGet(c *call) error {
	g, err := c.getArguments(false, feedProperties)
	if err != nil {
		return err
	}
	x, err := c.collectionsOf(calendars)
	if err != nil {
		return err
	}
	answerGet(&g, x.state, x.list, x.find(letterCalendar), func(dst []byte, b *groupware.Collection) []byte {
		return c.appendFeed(dst, b, g.wants)
	})
	return nil
}

// feedSetting is a CalendarFeed/set in progress.
type feedSetting struct {
	*set
	made    map[string]groupware.Collection // by creation id
	changed map[string][]byte               // what the server has set in an update, by id
}

// feedSet answers CalendarFeed/set. An update makes links (true) or revokes them (null), or reads the feed of another
// server again (refresh). A creation makes a Calendar that shows the feed at source; Calendar/set destroys it.
func feedSet(c *call) error {
	s, err := c.setArguments(false)
	if err != nil {
		return err
	}
	f, err := c.box()
	if err != nil {
		return err
	}
	x := &feedSetting{s, map[string]groupware.Collection{}, map[string][]byte{}}
	errs, before, after, err := s.changeGroupware(f, groupware.Calendar, ofCollections,
		&groupwareSteps{create: x.create, update: x.update, destroy: func(*groupware.Changing, string) error {
			return &jmap.Error{Type: "forbidden", Description: "Destroy the Calendar."}
		}})
	if err != nil {
		return err
	}
	s.record(errs, func(i int) (string, []byte) {
		b := x.made[s.create[i].id]
		object, err := jmap.Parse(string(c.appendFeed(nil, &b, wantsAll)), jmap.Bounds{})
		if err != nil {
			return idOf(letterCalendar, b.UNID), nil
		}
		return idOf(letterCalendar, b.UNID), told(s.create[i].object, object)
	})
	for i := range s.updated {
		s.updated[i].json = x.changed[s.updated[i].id]
	}
	s.append(before, after)
	return nil
}

func (x *feedSetting) create(w *groupware.Changing, i int) error {
	p := &x.set.create[i]
	for k := range p.object.Len() {
		if n := p.object.Name(k); n != "source" && n != "name" {
			return badProperties("It cannot be set.", n)
		}
	}
	source, ok := p.object.Get("source").Text()
	title, _ := p.object.Get("name").Text()
	if !ok || len(title) > groupware.MaxName {
		return badProperties("It is the https or webcal URL of a feed.", "source")
	}
	name, err := x.c.s.opt.Sources.Subscribe(w, source, nfc(strings.TrimSpace(title)))
	if errors.Is(err, reach.ErrAddress) {
		return badProperties(err.Error(), "source")
	}
	if err != nil {
		return err
	}
	x.made[p.id], err = w.Collection(groupware.Calendar, name)
	return err
}

func (x *feedSetting) update(w *groupware.Changing, i int) error {
	p := &x.set.update[i]
	u, _ := parseID(letterCalendar, p.real)
	name, err := w.NameOf(groupware.Calendar, u)
	if err != nil {
		return err
	}
	b, err := w.Collection(groupware.Calendar, name)
	if err != nil {
		return err
	}
	current, err := jmap.Parse(string(x.c.appendFeed(nil, &b, wantsAll)), jmap.Bounds{})
	if err != nil {
		return err
	}
	return feedKind.apply(p.object, current, func(changed *jmap.Value) error {
		choice := feed.Choice{}
		for k := range changed.Len() {
			on, isBool := changed.At(k).Bool()
			switch n := changed.Name(k); {
			case !isBool && !changed.At(k).IsNull():
				return badProperties("It is true, or null.", n)
			case n == "full":
				choice.Full = &on
			case n == "busy":
				choice.Busy = &on
			case on:
				if err := w.ReadAgain(name); err != nil {
					return err
				}
			}
		}
		if choice == (feed.Choice{}) {
			return nil
		}
		if err := x.c.s.opt.Feeds.Set(w, name, choice); err != nil {
			return err
		}
		b, err := w.Collection(groupware.Calendar, name)
		x.changed[p.id] = x.c.appendFeed(nil, &b, func(n string) bool {
			return slices.Contains([]string{"full",
				"busy"}, n)
		})
		return err
	})
}
