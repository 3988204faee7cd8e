package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// client is a mail program with a cache. It remembers UIDVALIDITY, UIDNEXT and HIGHESTMODSEQ of a folder. At each sync
// it connects to a primary (home) of the mail file, requests only the changes since then, and trusts the answer (RFC
// 7162, QRESYNC).
type client struct {
	w    *world
	name string
	box  *box

	validity uint32
	uidNext  uint32
	modSeq   uint64
	cache    map[uint32]cached
	// late holds messages that appeared with UIDs below UIDNEXT while the cluster was split. The client does not put
	// them in its cache.
	late map[uint32]string
}

type cached struct{ email, flags string }

// shown identifies a UID that a client has seen.
type shown struct {
	box      *box
	validity uint32
	uid      uint32
}

// takenOut reports whether somebody has tried to remove a message from a folder.
func (u *users) takenOut(email string) bool {
	m := u.byEmail[email]
	return m != nil && (m.expunge != nil || len(m.movers) > 0)
}

func flagsText(f mailbox.Flags) string {
	return fmt.Sprint(f.Seen, f.Deleted, strings.Join(f.Keywords, ","))
}

// sync updates the cache from one of the homes.
func (c *client) sync() {
	homes := c.w.homes(c.box)
	if len(homes) == 0 {
		return
	}
	c.syncAt(pick(c.w, homes))
}

func (c *client) syncAt(s *server) {
	file := s.mail.File(note.System, c.box.id)
	v, f, err := file.Open(c.w.ctx, mailbox.Inbox, true)
	if errors.Is(err, mailbox.ErrNoFolder) || errors.Is(err, store.ErrOutOfService) {
		return
	}
	c.w.must(err, c.name+": open INBOX at "+s.name)
	c.w.stats.Syncs++
	if c.cache == nil || f.UIDValidity != c.validity {
		c.validity, c.uidNext, c.modSeq, c.cache, c.late = f.UIDValidity, 1, 0, map[uint32]cached{}, map[uint32]string{}
	}
	was := fmt.Sprintf("uidnext %d, modseq %s", c.uidNext, modText(c.modSeq))
	if c.modSeq != 0 && c.uidNext > 1 {
		c.resync(v)
	}
	c.fetch(v, mailbox.Set{{Start: c.uidNext, Stop: max(c.uidNext, v.UIDNext())}}, 0, func(uid uint32, m cached) {
		if uid >= c.uidNext {
			c.cache[uid] = m
		}
	})
	c.modSeq, c.uidNext = f.HighestModSeq, max(c.uidNext, f.UIDNext)
	c.w.logf("%s syncs %s at %s: %s -> uidnext %d, modseq %s, %d messages", c.name, c.box.title, s.name, was, c.uidNext,
		modText(c.modSeq), len(c.cache))
	for uid, m := range c.cache {
		k := shown{c.box, c.validity, uid}
		if have, ok := c.w.shown[k]; ok && have != m.email {
			c.w.failf("%s: UID %d of %s stood for %s and stands for %s", c.name, uid, c.box.title, have, m.email)
		}
		c.w.shown[k] = m.email
	}
}

// resync fetches removals and changes since the last sync.
func (c *client) resync(v *mailbox.View) {
	known := mailbox.Set{{Start: 1, Stop: c.uidNext - 1}}
	gone, err := v.VanishedSince(c.w.ctx, c.modSeq, known)
	c.w.must(err, c.name+": vanished")
	for _, g := range gone {
		for uid := range c.cache {
			if uid >= g.Start && uid <= g.Stop {
				delete(c.cache, uid)
			}
		}
	}
	c.fetch(v, known, c.modSeq, func(uid uint32, m cached) {
		if have, ok := c.cache[uid]; ok {
			if have.email != m.email {
				c.w.failf("%s: UID %d of %s was %s and is %s", c.name, uid, c.box.title, have.email, m.email)
			}
			c.cache[uid] = m
			return
		}
		switch {
		case c.w.users.takenOut(m.email):
			// The record of the removal was lost with a disk. A client that synced after the removal now sees the
			// message again.
			c.cache[uid] = m
		case c.w.quiet && !c.box.widowed:
			c.w.failf("%s: UID %d of %s is new and below its UIDNEXT %d (%s)", c.name, uid, c.box.title,
				c.uidNext, m.email)
		default: // it gets another UID after the split has healed
			c.late[uid] = m.email
		}
	})
}

func (c *client) fetch(v *mailbox.View, set mailbox.Set, since uint64, fn func(uint32, cached)) {
	err := v.Fetch(c.w.ctx, set, true, mailbox.FetchOptions{ChangedSince: since},
		func(m *mailbox.Message) (bool, error) {
			fn(m.UID, cached{m.EmailID(), flagsText(m.Flags())})
			return false, nil
		}, func() error { return nil })
	c.w.must(err, c.name+": fetch")
}

func modText(m uint64) string {
	x := note.ModSeq(m)
	return fmt.Sprintf("%d.%d/%d", x.Term()/note.Slots, x.Home(), m&(1<<33-1))
}

// verify syncs once more and compares the cache with the folder. A client that fetched only changes must have the same
// state as one that fetches everything.
func (c *client) verify() {
	homes := c.w.homes(c.box)
	if len(homes) != 1 {
		c.w.failf("%d servers lead %s", len(homes), c.box.title)
	}
	c.syncAt(homes[0])
	whole := &client{w: c.w, name: c.name + " anew", box: c.box}
	whole.syncAt(homes[0])
	if maps.Equal(c.cache, whole.cache) {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(whole.cache)) {
		have, ok := c.cache[uid]
		switch {
		case !ok && c.box.widowed && c.late[uid] == whole.cache[uid].email:
			// The message was missing at one of two homes, and that home died before it could report that it had been a
			// home.
		case !ok:
			c.w.failf("%s never heard of UID %d of %s (%s); it knew up to UIDNEXT %d", c.name, uid, c.box.title,
				whole.cache[uid].email, c.uidNext)
		case have != whole.cache[uid]:
			c.w.failf("%s knows UID %d of %s as %v; it is %v", c.name, uid, c.box.title, have, whole.cache[uid])
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(c.cache)) {
		if _, ok := whole.cache[uid]; !ok {
			c.w.failf("%s was never told that UID %d of %s is gone (%s)", c.name, uid, c.box.title, c.cache[uid].email)
		}
	}
}
