package jmapd

import (
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/scheduling"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// perUser lists the properties of an event or task that are no concern of its other people: they change neither
// sequence nor updated (draft-ietf-jmap-calendars section 5.3).
var perUser = []string{"keywords", "color", "freeBusyStatus", "useDefaultAlerts", "alerts", "calendarIds", "taskListId",
	"isDraft", "updated", "sequence"}

// eventSetting is a change of events or tasks in progress. Each is written by itself.
type eventSetting struct {
	*set
	t    *objectType
	f    *groupware.File
	have owned
	self self
	send bool
	now  time.Time
	view *eventView
	// blobs are those of the attachments, of the event that is written.
	blobs *eventBlobs
	// touched holds the entries that were written, foreign is set if somebody else changed one meanwhile.
	touched map[note.UNID]bool
	foreign bool
	before  groupware.Moment
}

// maxAttempts bounds the attempts to write an event that others change at the same time.
const maxAttempts = 8

// set answers a /set.
//
// Implements: draft-ietf-jmap-calendars §5.9 CalendarEvent/set
func (t *objectType) set(c *call) error {
	s, err := c.setArguments(false, t.setArguments...)
	if err != nil {
		return err
	}
	x, err := t.setting(s)
	if err != nil {
		return err
	}
	defer x.blobs.release()
	for i := range s.create {
		p := &s.create[i]
		id, json, err := x.create(p.object)
		if err != nil {
			s.notCreated = append(s.notCreated, failure{p.id, t.error(err)})
			continue
		}
		s.made(p.id, id, json)
	}
	for i := range s.update {
		p := &s.update[i]
		json, err := x.update(p.real, p.object)
		if err != nil {
			s.notUpdated = append(s.notUpdated, failure{p.id, t.error(err)})
			continue
		}
		s.updated = append(s.updated, entry{p.id, json})
	}
	for _, id := range s.destroy {
		if err := x.destroy(id); err != nil {
			s.not = append(s.not, failure{id, t.error(err)})
		} else {
			s.destroyed = append(s.destroyed, id)
		}
	}
	old, now, err := x.states()
	if err != nil {
		return err
	}
	s.append(old, now)
	return nil
}

// setting begins changes, if the objects are in the state that the client expects.
func (t *objectType) setting(s *set) (x *eventSetting, err error) {
	c := s.c
	x = &eventSetting{set: s, t: t, touched: map[note.UNID]bool{}}
	x.now = c.s.env.Clock.Now().UTC().Truncate(time.Second)
	if x.send, err = c.bool("sendSchedulingMessages", false); err != nil {
		return nil, err
	}
	if x.have, err = c.collectionsOf(t.collections); err != nil {
		return nil, err
	}
	x.f = x.have.file
	if x.self, err = c.self(); err != nil {
		return nil, err
	}
	m, err := x.f.Moments(c.ctx, groupware.Calendar)
	if err != nil {
		return nil, err
	}
	x.before = m.Entries
	x.blobs = &eventBlobs{c: c, f: x.f, made: map[string]*groupware.Attachment{}}
	x.view = &eventView{t: t, c: c, self: x.self, blobs: x.blobs}
	return x, s.mismatch(x.before.String())
}

// states returns the states before and after the changes. The former is "", unknown, if others changed events
// meanwhile: the client would not learn of these.
func (x *eventSetting) states() (before, after string, err error) {
	d, err := x.t.delta(x.f, x.c.ctx, groupware.Calendar, x.before, 0)
	if errors.Is(err, groupware.ErrForgotten) {
		m, err := x.f.Moments(x.c.ctx, groupware.Calendar)
		return "", m.Entries.String(), err
	}
	if err != nil {
		return "", "", err
	}
	other := func(u note.UNID) bool { return !x.touched[u] }
	if x.foreign || slices.ContainsFunc(slices.Concat(d.Created, d.Updated, d.Destroyed), other) {
		return "", d.Moment.String(), nil
	}
	return x.before.String(), d.Moment.String(), nil
}

// error converts an error of package calendar or groupware into a SetError.
func (t *objectType) error(err error) error {
	var bad *calendar.InvalidError
	var conflict *groupware.UIDConflictError
	if told := schedulingError(err); told != nil {
		return told
	}
	switch {
	case errors.As(err, &bad):
		return badProperties(bad.Why, bad.Properties...)
	case errors.As(err, &conflict):
		return badProperties("Another "+t.noun+" of the collection has this uid.", "uid")
	case errors.Is(err, groupware.ErrAttachments), errors.Is(err, groupware.ErrManagedID):
		return badProperties(err.Error(), "links")
	case errors.Is(err, groupware.ErrInvalid), errors.Is(err, calendar.ErrObject):
		return badProperties(err.Error())
	case errors.Is(err, groupware.ErrComponent), errors.Is(err, groupware.ErrNoCollection):
		return badProperties("No collection of "+t.noun+"s has this id.", t.place)
	case errors.Is(err, groupware.ErrChanged):
		return &jmap.Error{Type: "rateLimit",
			Description: "Others change the " + t.noun + " at the same time. Try again."}
	}
	return err
}

// create makes an event. It returns its id and its part of the response.
func (x *eventSetting) create(object *jmap.Value) (id string, json []byte, err error) {
	changed, err := x.readNew(object)
	if err != nil {
		return "", nil, err
	}
	collection, err := x.place(object.Get(x.t.place))
	if err != nil {
		return "", nil, err
	}
	name := x.c.s.backend.Groupware().NewName(groupware.Calendar)
	uid := strings.TrimSuffix(name, ".ics")
	if v := object.Get("uid"); !v.IsNull() {
		if uid, _ = v.Text(); !calendar.ValidUID(uid) {
			return "", nil, badProperties("It is no text of at most 1,000 octets.", "uid")
		}
	}
	o := calendar.New(x.t.component, uid, x.now)
	x.blobs.begin(nil)
	o.Blobs = x.blobs
	if o, err = o.Edit(x.scheduled(nil, changed)); err != nil {
		return "", nil, err
	}
	return x.add(collection, name, o, object)
}

// add writes a new event, for which the client sent object. It returns its id and its part of the response.
func (x *eventSetting) add(collection, name string, o *calendar.Object,
	object *jmap.Value) (id string, json []byte, err error) {
	t := x.target(groupware.Place{Collection: collection, Name: name}, groupware.Condition{New: true})
	e, err := x.put(t, o.Text())
	if err != nil {
		return "", nil, err
	}
	x.touched[e.UNID] = true
	made, err := jmap.Parse(string(x.view.append(nil, &e, o, nil)), jmap.Bounds{})
	if err != nil {
		return "", nil, err
	}
	return idOf(x.t.letter, e.UNID), told(object, made), nil
}

// readNew returns the properties of a new event that package calendar sets.
func (x *eventSetting) readNew(object *jmap.Value) (*jmap.Value, error) {
	changed := jmap.MakeObject(nil, nil)
	var bad []string
	for i := range object.Len() {
		name, v := object.Name(i), object.At(i)
		text, _ := v.Text()
		switch {
		case name == x.t.place, name == "uid", name == "@type" && text == x.t.jsType, v.IsNull():
		case slices.Contains(x.t.utc, name), calendar.Settable(x.t.component, name):
			next := changed.With(name, *v)
			changed = &next
		default:
			bad = append(bad, name)
		}
	}
	if bad != nil {
		return nil, badProperties("The server sets a property, or "+x.t.noun+"s have none of this name.", bad...)
	}
	if x.t == events && changed.Get("start") == nil && changed.Get("utcStart") == nil {
		return nil, badProperties("An event has a start.", "start")
	}
	if err := x.private(changed); err != nil {
		return nil, err
	}
	return utcTimes(changed, changed)
}

// private refuses an event of a shared calendar that its other people would not see.
//
// Implements: draft-ietf-jmap-calendars §5.9 privacy in calendars of others
func (x *eventSetting) private(changed *jmap.Value) error {
	if p, ok := changed.Get("privacy").Text(); ok && p != "public" && !x.c.account.Personal {
		return badProperties("In collections of others "+x.t.noun+"s are public.", "privacy")
	}
	return nil
}

// utcTimes translates utcStart and utcEnd into start and duration. current has the other times of the event.
//
// Implements: draft-ietf-jmap-calendars §5.9 utcStart, utcEnd
func utcTimes(changed, current *jmap.Value) (*jmap.Value, error) {
	from, to := changed.Get("utcStart"), changed.Get("utcEnd")
	if from == nil && to == nil {
		return changed, nil
	}
	if from != nil && changed.Get("start") != nil || to != nil && changed.Get("duration") != nil {
		return nil, badProperties("A time is given twice.", "utcStart", "utcEnd")
	}
	get := func(name string) *jmap.Value {
		if v := changed.Get(name); v != nil {
			return v
		}
		return current.Get(name)
	}
	zone := ical.UTC
	if name, _ := get("timeZone").Text(); name != "" {
		zone = ical.Named(name)
	}
	out := changed.Without("utcStart")
	out = out.Without("utcEnd")
	var start time.Time
	if from != nil {
		text, _ := from.Text()
		at, ok := jmap.ParseDate(text, true)
		if !ok {
			return nil, badProperties("It is no UTCDate.", "utcStart")
		}
		start = at
		out = out.With("start", jmap.Text(zone.Wall(at).Format("2006-01-02T15:04:05")))
	} else {
		text, _ := get("start").Text()
		local, ok := calendar.ParseLocal(text)
		if !ok {
			return nil, badProperties("It is no LocalDateTime.", "start")
		}
		start = zone.At(local)
	}
	if to != nil {
		text, _ := to.Text()
		at, ok := jmap.ParseDate(text, true)
		if !ok || at.Before(start) {
			return nil, badProperties("It is no UTCDate after the start.", "utcEnd")
		}
		out = out.With("duration", jmap.Text(calendar.Duration(at.Sub(start))))
	}
	return &out, nil
}

// place returns the name of the collection that a value of the property for it names.
func (x *eventSetting) place(v *jmap.Value) (string, error) {
	if id, ok := x.t.placed(v); ok {
		if real, ok := x.c.real(id); ok {
			id = real
		}
		if found := x.have.find(x.t.collections.letter)(id); found != nil {
			return found.Name, nil
		}
	}
	return "", badProperties("A collection of "+x.t.noun+"s with this id must exist, and be the only one.", x.t.place)
}

// target returns the target of a write.
func (x *eventSetting) target(p groupware.Place, condition groupware.Condition) *eventTarget {
	return &eventTarget{scheduling.Target{File: x.f, Owner: x.self.id, Place: p, Condition: condition,
		New: x.blobs.offered()}, x.send}
}

// scheduled adds to changes what the server sets: replyTo for an event that gets its first participants, the time of
// the change, and the next sequence. o is the event before, nil for a new one.
//
// Implements: draft-ietf-jmap-calendars §5.9 replyTo, updated, sequence
func (x *eventSetting) scheduled(o *calendar.Object, changed *jmap.Value) *jmap.Value {
	out := *changed
	invites := changed.Get("participants").Len() > 0
	if invites && (o == nil || o.Parts[0].Get("ORGANIZER") == nil) && changed.Get("replyTo") == nil &&
		!hasOwner(changed.Get("participants")) && len(x.self.addresses) > 0 {
		out = out.With("replyTo", *jmap.MakeObject([]string{"imip"}, []jmap.Value{
			jmap.Text("mailto:" + x.self.addresses[0])}))
	}
	stamps := x.stamps(o, &out)
	for i := range stamps.Len() {
		out = out.With(stamps.Name(i), *stamps.At(i))
	}
	return &out
}

// hasOwner reports whether a participant has the role of an owner.
func hasOwner(v *jmap.Value) bool {
	for i := range v.Len() {
		if on, _ := v.At(i).Get("roles").Get("owner").Bool(); on {
			return true
		}
	}
	return false
}

// stamps returns updated and sequence of an event that changes.
func (x *eventSetting) stamps(o *calendar.Object, changed *jmap.Value) *jmap.Value {
	var names []string
	var values []jmap.Value
	add := func(name string, v jmap.Value) { names, values = append(names, name), append(values, v) }
	if o != nil && !x.self.origin(o) {
		return jmap.MakeObject(nil, nil)
	}
	at := jmap.Text(x.now.Format("2006-01-02T15:04:05Z"))
	if add("updated", at); o == nil {
		if text, _ := changed.Get("created").Text(); text == "" || text > x.now.Format("2006-01-02T15:04:05Z") {
			add("created", at)
		}
		return jmap.MakeObject(names, values)
	}
	for i := range changed.Len() {
		if !slices.Contains(perUser, changed.Name(i)) {
			now := o.Sequence()
			if given, ok := changed.Get("sequence").Int(); !ok || given <= now {
				add("sequence", jmap.MakeNumber(now+1))
			}
			break
		}
	}
	return jmap.MakeObject(names, values)
}

// read returns the entry of an event, its place, and the instance that an id names, if it names one.
func (x *eventSetting) read(id string) (e *groupware.Entry, o *calendar.Object, at *calendar.Occurrence, err error) {
	missing := &jmap.Error{Type: "notFound"}
	n, ok := x.t.parseID(id)
	if !ok {
		return nil, nil, nil, missing
	}
	err = x.f.ByID(x.c.ctx, groupware.Calendar, []note.UNID{n.unid}, true, func(found *groupware.Entry) bool {
		e, o = found, x.t.of(found)
		return false
	})
	if err != nil {
		return nil, nil, nil, err
	}
	if o == nil {
		return nil, nil, nil, missing
	}
	if n.at.IsZero() {
		return e, o, nil, nil
	}
	one, ok := o.Instance(n.at)
	if !ok {
		return nil, nil, nil, missing
	}
	return e, o, &one, nil
}

// again calls try until it meets no change by others, at most maxAttempts times.
func (x *eventSetting) again(try func() error) (err error) {
	for range maxAttempts {
		if err = try(); !errors.Is(err, groupware.ErrChanged) {
			return err
		}
		x.foreign = true
	}
	return err
}

// collection returns the name of the collection of an entry.
func (x *eventSetting) collection(e *groupware.Entry) (string, error) {
	letter := x.t.collections.letter
	found := x.have.find(letter)(idOf(letter, e.Collection))
	if found == nil {
		return "", &jmap.Error{Type: "notFound"}
	}
	return found.Name, nil
}

// update changes an event or an instance. It returns the part of the response, nil for null.
func (x *eventSetting) update(id string, patch *jmap.Value) (json []byte, err error) {
	err = x.again(func() error {
		e, o, at, err := x.read(id)
		if err == nil {
			json, err = x.change(e, o, at, patch)
		}
		return err
	})
	return json, err
}

// change makes one attempt of update.
func (x *eventSetting) change(e *groupware.Entry, o *calendar.Object, at *calendar.Occurrence,
	patch *jmap.Value) ([]byte, error) {
	from, err := x.collection(e)
	if err != nil {
		return nil, err
	}
	current, err := jmap.Parse(string(x.view.append(nil, e, o, at)), jmap.Bounds{})
	if err != nil {
		return nil, err
	}
	var changed *jmap.Value
	k := x.t.patch(patch)
	if err := k.apply(patch, current, func(v *jmap.Value) error { changed = v; return nil }); err != nil {
		return nil, err
	}
	to := from
	if v := changed.Get(x.t.place); v != nil {
		if at != nil {
			return nil, badProperties("An instance is in the collection of its series.", x.t.place)
		}
		if to, err = x.place(v); err != nil {
			return nil, err
		}
		next := changed.Without(x.t.place)
		changed = &next
	}
	if on, _ := changed.Get("isDraft").Bool(); on {
		return nil, badProperties("Only a new event becomes a draft.", "isDraft")
	}
	if err := x.private(changed); err != nil {
		return nil, err
	}
	if changed, err = utcTimes(changed, current); err != nil {
		return nil, err
	}
	var told []byte
	if changed.Len() > 0 {
		if told, err = x.write(e, o, at, from, changed); err != nil {
			return nil, err
		}
	}
	if to != from {
		x.touched[e.UNID] = true
		return told, x.f.Change(x.c.ctx, func(w *groupware.Changing) error {
			return w.Shift(groupware.Calendar, e.UNID, to)
		})
	}
	return told, nil
}

// patch returns the properties that a patch may change.
func (t *objectType) patch(patch *jmap.Value) *kind {
	k := &kind{
		mutable: append([]string{t.place}, t.utc...),
		fixed: oneOf("id", t.base, "isOrigin", "@type", "uid", "method", "recurrenceId",
			"recurrenceIdTimeZone"),
	}
	for i := range patch.Len() {
		top, _, _ := strings.Cut(patch.Name(i), "/")
		if name := jmap.PointerToken(top); calendar.Settable(t.component, name) {
			k.mutable = append(k.mutable, name)
		}
	}
	return k
}

// write writes a changed event. It returns the properties that the server set.
func (x *eventSetting) write(e *groupware.Entry, o *calendar.Object, at *calendar.Occurrence, collection string,
	changed *jmap.Value) (json []byte, err error) {
	all := x.scheduled(o, changed)
	var out jmap.Value
	for _, name := range []string{"updated", "sequence"} {
		if v := all.Get(name); v != nil && !v.Equal(changed.Get(name)) {
			out = out.With(name, *v)
		}
	}
	x.blobs.begin(e)
	if at == nil {
		o, err = o.Edit(all)
	} else {
		stamps := x.stamps(o, changed)
		own := changed.Without("updated")
		own = own.Without("sequence")
		o, err = o.EditInstance(*at, &own, stamps)
	}
	if err != nil {
		return nil, err
	}
	t := x.target(groupware.Place{Collection: collection, Name: e.Name}, groupware.Condition{ETag: e.ETag})
	if _, err := x.put(t, o.Text()); err != nil {
		return nil, err
	}
	x.touched[e.UNID] = true
	if out = x.withLinks(out, e, o, at, changed); out.Len() == 0 {
		return nil, nil
	}
	return out.Append(nil), nil
}

// destroy removes an event, or takes an instance out of it.
func (x *eventSetting) destroy(id string) error {
	return x.again(func() error {
		e, o, at, err := x.read(id)
		if err != nil {
			return err
		}
		collection, err := x.collection(e)
		if err != nil {
			return err
		}
		t := x.target(groupware.Place{Collection: collection, Name: e.Name}, groupware.Condition{ETag: e.ETag})
		x.touched[e.UNID] = true
		if at != nil {
			excluded := jmap.MakeObject([]string{"excluded"}, []jmap.Value{jmap.True()})
			if o, err = o.RemoveInstance(*at, x.stamps(o, excluded)); err != nil {
				return err
			}
			if o != nil {
				_, err = x.put(t, o.Text())
				return err
			}
		}
		return x.remove(t)
	})
}
