package jmapd

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"doublet/mailbox"
	"doublet/wire/jmap"
)

var participantIdentityProperties = []string{"id", "name", "calendarAddress", "sendTo", "isDefault"}

// participantIdentity is an address under which the person takes part in events.
type participantIdentity struct {
	id, name, address string
	isDefault         bool
}

// participantIdentities returns the identities of the person to whom the account belongs, and their state.
func (c *call) participantIdentities() (list []participantIdentity, state string, err error) {
	me, err := c.self()
	h := fnv.New64a()
	for i, a := range me.addresses {
		one := fnv.New64a()
		_, _ = one.Write([]byte(a))
		list = append(list, participantIdentity{fmt.Sprintf("i%016x", one.Sum64()), me.name, a, i == 0})
		_, _ = h.Write([]byte(a + "\x00"))
	}
	_, _ = h.Write([]byte(me.name))
	return list, strconv.FormatUint(h.Sum64(), 16), err
}

// participantIdentityGet answers ParticipantIdentity/get with the addresses of the person. It tells each in the form of
// JSCalendar (sendTo) and in that of its successor (calendarAddress).
//
// Implements: draft-ietf-jmap-calendars §3.1 ParticipantIdentity/get
func participantIdentityGet(c *call) error {
	g, err := c.getArguments(false, participantIdentityProperties)
	if err != nil {
		return err
	}
	list, state, err := c.participantIdentities()
	if err != nil {
		return err
	}
	find := func(id string) *participantIdentity {
		i := slices.IndexFunc(list, func(x participantIdentity) bool { return x.id == id })
		if i < 0 {
			return nil
		}
		return &list[i]
	}
	answerGet(&g, state, list, find, func(dst []byte, x *participantIdentity) []byte {
		o := jmap.NewWriter(dst)
		o.Text("id", x.id)
		if g.wants("name") {
			o.Text("name", x.name)
		}
		if g.wants("calendarAddress") {
			o.Text("calendarAddress", "mailto:"+x.address)
		}
		if g.wants("sendTo") {
			o.Object("sendTo", func(o *jmap.Writer) { o.Text("imip", "mailto:"+x.address) })
		}
		if g.wants("isDefault") {
			o.Bool("isDefault", x.isDefault)
		}
		return o.End()
	})
	return nil
}

// participantIdentityChanges answers ParticipantIdentity/changes: the directory keeps no list of changes.
//
// Implements: draft-ietf-jmap-calendars §3.2 ParticipantIdentity/changes
func participantIdentityChanges(c *call) error {
	since, _, err := c.changesArguments(false)
	if err != nil {
		return err
	}
	_, state, err := c.participantIdentities()
	if err != nil {
		return err
	}
	if since != state {
		return mailbox.ErrForgotten
	}
	c.appendChanges(since, &delta{state: state})
	return nil
}

// participantIdentitySet answers ParticipantIdentity/set. It rejects all changes: administrators manage addresses.
//
// Implements: draft-ietf-jmap-calendars §3.3 ParticipantIdentity/set
func participantIdentitySet(c *call) error {
	s, err := c.setArguments(false, "onSuccessSetIsDefault")
	if err != nil {
		return err
	}
	_, state, err := c.participantIdentities()
	if err != nil {
		return err
	}
	return s.forbid(state, "Addresses are managed by the administrators of this server.")
}
