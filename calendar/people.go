package calendar

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// people counts the lines of people of a component.
func people(c *ical.Component) (n int) {
	for i := range c.Properties {
		if isPerson(&c.Properties[i]) {
			n++
		}
	}
	return n
}

func isPerson(p *ical.Property) bool { return p.Name == "ATTENDEE" || p.Name == "ORGANIZER" }

// participant is a person of an event: a line, that of the attendee if there are two.
type participant struct {
	id    string
	line  *ical.Property
	owner bool
}

// addressOf returns the address of a person's line.
func addressOf(p *ical.Property) string { return strings.TrimSpace(p.Value) }

// hashID returns an id that stands for a text in all versions of an event. letter begins it.
func hashID(letter, s string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return letter + strconv.FormatUint(h.Sum64(), 36)
}

// idOf returns the id of the JSCalendar object that a line stands for: its JSID, else usual.
func idOf(p *ical.Property, usual string) string {
	if id := p.Param("JSID"); jmap.ValidID(id) {
		return id
	}
	return usual
}

// setID makes a line stand for an object with an id.
func setID(p *ical.Property, id, usual string) {
	if p.SetParam("JSID"); id != usual {
		p.SetParam("JSID", id)
	}
}

// participants returns the organizer and the attendees in the order of their lines; one who is both is one participant.
// The id of a participant is a hash of the address, unless the line names another one.
func (e *event) participants() (list []participant) {
	at := map[string]int{}
	ids := map[string]bool{}
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		if !isPerson(p) {
			continue
		}
		address := strings.ToLower(addressOf(p))
		before, twice := at[address]
		switch {
		case !twice:
			id := idOf(p, hashID("p", address))
			if ids[id] {
				id = hashID("p", address)
			}
			ids[id] = true
			at[address] = len(list)
			list = append(list, participant{id, p, p.Name == "ORGANIZER"})
		case p.Name == "ORGANIZER":
			list[before].owner = true
		case list[before].line.Name == "ORGANIZER":
			// What the attendee's line says of the organizer is more.
			list[before].line, list[before].id = p, idOf(p, list[before].id)
		}
	}
	return list
}

func printReplyTo(e *event, w *jmap.Writer, _ func(string) bool) {
	if p := e.c.Get("ORGANIZER"); p != nil {
		w.Object("replyTo", func(o *jmap.Writer) { o.Text("imip", addressOf(p)) })
	}
}

// printParticipants prints the organizer and the attendees.
func printParticipants(e *event, w *jmap.Writer, _ func(string) bool) {
	list := e.participants()
	if e.sees != nil {
		list = slices.DeleteFunc(list, func(p participant) bool {
			return !p.owner && !e.sees(strings.ToLower(addressOf(p.line)))
		})
	}
	if len(list) == 0 {
		return
	}
	ids := make(map[string]string, len(list))
	for _, p := range list {
		ids[strings.ToLower(addressOf(p.line))] = p.id
	}
	w.Object("participants", func(o *jmap.Writer) {
		for _, p := range list {
			o.Object(p.id, func(o *jmap.Writer) { p.append(o, ids) })
		}
	})
}

// kinds maps the kinds of participants to those of iCalendar.
var kinds = map[string]string{"individual": "INDIVIDUAL", "group": "GROUP", "location": "ROOM", "resource": "RESOURCE"}

// refs lists the parameters that name other people.
var refs = [...]struct{ param, name string }{{"DELEGATED-TO", "delegatedTo"}, {"DELEGATED-FROM", "delegatedFrom"},
	{"MEMBER", "memberOf"}}

// mailAddress returns the address of a mailto: URI.
func mailAddress(uri string) (string, bool) {
	if len(uri) > 7 && strings.EqualFold(uri[:7], "mailto:") {
		return uri[7:], true
	}
	return "", false
}

// append prints a participant. ids are those of all, by address.
//
// Implements: RFC 8984 §4.4.6 participants
func (p *participant) append(o *jmap.Writer, ids map[string]string) {
	l := p.line
	text := func(name, param string) {
		if s := l.Param(param); s != "" {
			o.Text(name, s)
		}
	}
	o.Text("@type", "Participant")
	text("name", "CN")
	if s := l.Param("EMAIL"); s != "" {
		o.Text("email", s)
	} else if s, ok := mailAddress(addressOf(l)); ok {
		o.Text("email", s)
	}
	o.Object("sendTo", func(o *jmap.Writer) { o.Text("imip", addressOf(l)) })
	kind := "individual"
	for name, value := range kinds {
		if strings.EqualFold(l.Param("CUTYPE"), value) {
			kind = name
		}
	}
	o.Text("kind", kind)
	attends := l.Name == "ATTENDEE"
	role := strings.ToUpper(l.Param("ROLE"))
	o.Object("roles", func(o *jmap.Writer) {
		for _, r := range [...]struct {
			name string
			has  bool
		}{
			{"owner", p.owner}, {"attendee", attends && role != "NON-PARTICIPANT"},
			{"optional", role == "OPT-PARTICIPANT"}, {"chair", role == "CHAIR"},
			{"informational", role == "NON-PARTICIPANT"},
		} {
			if r.has {
				o.Bool(r.name, true)
			}
		}
	})
	if attends {
		status := strings.ToLower(l.Param("PARTSTAT"))
		if status == "" {
			status = "needs-action"
		}
		o.Text("participationStatus", status)
		o.Bool("expectReply", strings.EqualFold(l.Param("RSVP"), "TRUE"))
	}
	if s := strings.ToLower(l.Param("SCHEDULE-AGENT")); s != "" {
		o.Text("scheduleAgent", s)
	}
	if s := l.Param("SCHEDULE-STATUS"); s != "" {
		o.Strings("scheduleStatus", strings.Split(s, ",")...)
	}
	text("sentBy", "SENT-BY")
	text("language", "LANGUAGE")
	p.appendRefs(o, ids)
}

func (p *participant) appendRefs(o *jmap.Writer, ids map[string]string) {
	for _, r := range refs {
		var named []string
		for _, x := range p.line.Params {
			if x.Name != r.param {
				continue
			}
			for _, address := range x.Values {
				if id := ids[strings.ToLower(address)]; id != "" && !slices.Contains(named, id) {
					named = append(named, id)
				}
			}
		}
		if len(named) > 0 {
			o.Object(r.name, func(o *jmap.Writer) {
				for _, id := range named {
					o.Bool(id, true)
				}
			})
		}
	}
}

// wantedAddress returns the address to which a participant's invitation is sent: that of sendTo, or the mail address.
func wantedAddress(v *jmap.Value) (string, bool) {
	s, ok := v.Get("sendTo").Get("imip").Text()
	if !ok {
		if s, ok = v.Get("email").Text(); ok {
			s = "mailto:" + s
		}
	}
	s, clean := line(strings.TrimSpace(s))
	colon := strings.IndexByte(s, ':')
	return s, ok && clean && colon > 0 && colon < len(s)-1
}

// setPeople writes the lines of the participants, and that of the organizer: the address of replyTo, else that of the
// first owner.
func setPeople(e *event, old, want *jmap.Value) error {
	v := want.Get("participants")
	if !v.IsNull() && v.Kind() != jmap.Object || v.Len() > maxAttendees {
		return invalid("it is no map of at most 1,000 participants", "participants")
	}
	addresses, err := wantedAddresses(v)
	if err != nil {
		return err
	}
	organizer, _ := want.Get("replyTo").Get("imip").Text()
	if old.Get("replyTo").Equal(want.Get("replyTo")) && !organizes(v, addresses, organizer) {
		organizer = ""
	}
	for i := 0; i < v.Len() && organizer == ""; i++ {
		if isOwner(v.At(i)) {
			organizer = addresses[v.Name(i)]
		}
	}
	organizer, ok := line(organizer)
	if !ok || organizer != "" && !strings.Contains(organizer, ":") {
		return invalid("it is no URI", "replyTo")
	}
	return e.writePeople(old.Get("participants"), v, addresses, organizer)
}

func isOwner(v *jmap.Value) bool {
	on, _ := v.Get("roles").Get("owner").Bool()
	return on
}

// organizes reports whether the organizer of before may stay: one who takes part is an owner, and there are others.
func organizes(v *jmap.Value, addresses map[string]string, organizer string) bool {
	for i := range v.Len() {
		if strings.EqualFold(addresses[v.Name(i)], organizer) {
			return isOwner(v.At(i))
		}
	}
	return v.Len() > 0
}

// wantedAddresses returns the addresses of participants, by their ids.
func wantedAddresses(v *jmap.Value) (map[string]string, error) {
	addresses := make(map[string]string, v.Len())
	taken := map[string]bool{}
	for i := range v.Len() {
		address, ok := wantedAddress(v.At(i))
		folded := strings.ToLower(address)
		if !ok || taken[folded] || !jmap.ValidID(v.Name(i)) {
			return nil, invalid("a participant has no address, or one that another participant has", "participants")
		}
		taken[folded], addresses[v.Name(i)] = true, address
	}
	return addresses, nil
}

// writePeople replaces the lines of people. Those of people who stay keep their places and parameters.
func (e *event) writePeople(old, want *jmap.Value, addresses map[string]string, organizer string) error {
	at, lines := map[string]string{}, map[string]ical.Property{}
	for _, p := range e.participants() {
		at[strings.ToLower(addressOf(p.line))], lines[p.id] = p.id, *p.line
	}
	next := map[string]ical.Property{}
	for i := range want.Len() {
		id := want.Name(i)
		p, err := personLine(lines[id], id, old.Get(id), want.At(i), addresses, organizer)
		if err != nil {
			return err
		}
		next[id] = p
	}
	var out []ical.Property
	done := map[string]bool{}
	for _, p := range e.c.Properties {
		id := at[strings.ToLower(addressOf(&p))]
		switch l := next[id]; {
		case !isPerson(&p):
			out = append(out, p)
		case p.Name == "ATTENDEE" && l.Name == "ATTENDEE" && !done[id]:
			done[id], out = true, append(out, l)
		}
	}
	if organizer != "" {
		out = append(out, e.organizer(e.c.Get("ORGANIZER"), next, organizer))
	}
	for i := range want.Len() {
		if id := want.Name(i); next[id].Name == "ATTENDEE" && !done[id] {
			out = append(out, next[id])
		}
	}
	e.c.Properties = out
	return nil
}

// personLine returns the line of a participant, of the one that it had before.
func personLine(p ical.Property, id string, old, want *jmap.Value, addresses map[string]string,
	organizer string) (ical.Property, error) {
	p.Params = slices.Clone(p.Params)
	if !strings.EqualFold(addressOf(&p), addresses[id]) {
		p.Value = addresses[id]
	}
	setID(&p, id, hashID("p", strings.ToLower(addresses[id])))
	err := setPerson(&p, old, want, addresses)
	if p.Name == "ORGANIZER" && !strings.EqualFold(addressOf(&p), organizer) {
		p.Name = "ATTENDEE" // an event of iCalendar has one organizer; JSPROP keeps that this one is an owner
	}
	return p, err
}

// organizer returns the line of the organizer. had is the one before, nil for none.
func (e *event) organizer(had *ical.Property, lines map[string]ical.Property, address string) ical.Property {
	for _, l := range lines {
		if !strings.EqualFold(addressOf(&l), address) {
			continue
		}
		if l.Name == "ORGANIZER" {
			return l
		}
		if had == nil || !strings.EqualFold(addressOf(had), address) {
			p := ical.Property{Name: "ORGANIZER", Value: l.Value}
			if name := l.Param("CN"); name != "" {
				p.SetParam("CN", name)
			}
			return p
		}
	}
	if had != nil && strings.EqualFold(addressOf(had), address) {
		return *had
	}
	return ical.Property{Name: "ORGANIZER", Value: address}
}

// setPerson changes the line of a participant. An owner without another role has the line of the organizer alone.
func setPerson(p *ical.Property, old, want *jmap.Value, addresses map[string]string) error {
	changed := func(name string) bool { return !old.Get(name).Equal(want.Get(name)) }
	roles, ok := names(want, "roles")
	if !ok {
		return invalid("the roles are no set", "participants")
	}
	if p.Name == "" || changed("roles") {
		setRoles(p, roles)
	}
	for _, x := range personTexts {
		s, ok := textOf(want, x.name)
		if !ok || x.param != "CN" && strings.Contains(s, "\n") {
			return invalid("a property of a participant is no text", "participants")
		}
		if changed(x.name) {
			x.set(p, s)
		}
	}
	if changed("kind") {
		kind, _ := want.Get("kind").Text()
		if p.SetParam("CUTYPE"); kinds[kind] != "" && kind != "individual" {
			p.SetParam("CUTYPE", kinds[kind])
		}
	}
	if changed("expectReply") {
		on, _ := want.Get("expectReply").Bool()
		if p.SetParam("RSVP"); on {
			p.SetParam("RSVP", "TRUE")
		}
	}
	return setRefs(p, old, want, addresses)
}

// personText is a property of a participant that a parameter stands for.
type personText struct {
	name, param string
	word        bool // in capital letters
}

var personTexts = [...]personText{{"name", "CN", false}, {"sentBy", "SENT-BY", false}, {"language", "LANGUAGE", false},
	{"email", "EMAIL", false}, {"participationStatus", "PARTSTAT", true}, {"scheduleAgent", "SCHEDULE-AGENT", true}}

// set sets the parameter. An email that the address tells already has none.
func (x *personText) set(p *ical.Property, s string) {
	if address, isMail := mailAddress(p.Value); x.param == "EMAIL" && isMail && address == s {
		s = ""
	}
	if x.word {
		s = strings.ToUpper(s)
	}
	if p.SetParam(x.param); s != "" {
		p.SetParam(x.param, s)
	}
}

// setRoles sets the name of the line and its role.
func setRoles(p *ical.Property, roles []string) {
	has := func(role string) bool { return slices.Contains(roles, role) }
	p.SetParam("ROLE")
	if p.Name = "ATTENDEE"; len(roles) == 1 && has("owner") {
		p.Name = "ORGANIZER"
		return
	}
	switch {
	case has("chair"):
		p.SetParam("ROLE", "CHAIR")
	case has("informational"):
		p.SetParam("ROLE", "NON-PARTICIPANT")
	case has("optional"):
		p.SetParam("ROLE", "OPT-PARTICIPANT")
	}
}

// setRefs sets the delivery states, and the parameters that name other people.
func setRefs(p *ical.Property, old, want *jmap.Value, addresses map[string]string) error {
	if !old.Get("scheduleStatus").Equal(want.Get("scheduleStatus")) {
		list, _ := stringsOf(want.Get("scheduleStatus"))
		if p.SetParam("SCHEDULE-STATUS"); len(list) > 0 {
			p.SetParam("SCHEDULE-STATUS", strings.Join(list, ","))
		}
	}
	for _, r := range refs {
		if old.Get(r.name).Equal(want.Get(r.name)) {
			continue
		}
		ids, ok := names(want, r.name)
		if !ok {
			return invalid(r.name+" is no set of ids", "participants")
		}
		var values []string
		for _, id := range ids {
			if addresses[id] == "" {
				return invalid(r.name+" names nobody of the event", "participants")
			}
			values = append(values, addresses[id])
		}
		p.SetParam(r.param, values...)
	}
	return nil
}
