package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// The cluster model test does random operations at the replicas of a database. Some replicas lead, some follow. Pages
// get lost, or arrive twice or late; nodes crash; the network splits and heals; homes (primary replicas) are taken over
// and handed over. Meanwhile caching clients synchronize with the leaders, and must end with the leader's state. At
// rest all replicas must be equal, nothing that was acknowledged may be missing, and nothing that was deleted may be
// back.

// cachingClient is a mail client with a cache.
type cachingClient struct {
	folder   string
	validity uint32
	mod      note.ModSeq
	cache    map[uint32]string
	// These are of a simple client, which looks for new mail only from UIDNEXT on.
	plainValidity, next uint32
	plain               map[uint32]bool // the UIDs that it holds
}

// leaving names the removal of a message from a folder, by the message's UNID.
type leaving struct {
	unid   string
	folder note.UNID
}

// sync lets a client synchronize with a node that leads.
func (m *clusterModel) sync(c *cachingClient, x *clusterNode) {
	m.t.Helper()
	x.read(func(r *store.Reader) error {
		h, err := r.FolderNamed(c.folder)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		m.must(err)
		now := m.contents(r, h)
		m.tell("client syncs %s at %s: next %d, uidnext %d, uids %v", c.folder, x.at(), c.next, h.UIDNext,
			slices.Sorted(maps.Keys(now)))
		if h.UIDValidity != c.validity {
			c.validity, c.mod, c.cache = h.UIDValidity, 0, map[uint32]string{}
		}
		m.refresh(c, r, h, now)
		if len(c.cache) != len(now) {
			m.t.Errorf("node %d, %s: the client has %d messages, there are %d: %v", x.i, c.folder, len(c.cache),
				len(now), slices.Sorted(maps.Keys(c.cache)))
		}
		for uid, text := range now {
			if c.cache[uid] != text {
				m.t.Errorf("node %d, %s: UID %d is %q to the client, and is %q", x.i, c.folder, uid, c.cache[uid], text)
			}
		}
		if c.mod = r.Position().Last; h.Mod > c.mod {
			m.t.Errorf("node %d, %s: HIGHESTMODSEQ %x is above the ledger's %x", x.i, c.folder, uint64(h.Mod),
				uint64(c.mod))
		}
		m.plainSync(c, h, now)
		return nil
	})
}

// contents reads a folder, and records the note that each UID has been shown for.
func (m *clusterModel) contents(r *store.Reader, h *layout.Folder) map[uint32]string {
	now := map[uint32]string{}
	m.must(r.Members(h.Note, 1, note.MaxUID, func(uid uint32, id note.ID) bool {
		row, err := r.Note(id)
		m.must(err)
		in, _ := row.Member(h.Note)
		now[uid] = fmt.Sprint(row.UNID, in.Deleted, slices.Sorted(row.Keywords), row.SeenBy(persons[0]),
			row.SeenBy(persons[1]))
		m.show(fmt.Sprint(h.UNID, h.UIDValidity, " ", uid), row.UNID.String())
		m.show(fmt.Sprint("numbering ", r.Position().Epoch, " ", uid), fmt.Sprint(row.UNID, h.UNID))
		if uid >= h.UIDNext {
			m.t.Errorf("UID %d is there, and UIDNEXT is %d", uid, h.UIDNext)
		}
		return true
	}))
	return now
}

// show checks that a UID stands for the same note as ever.
func (m *clusterModel) show(number, what string) {
	m.t.Helper()
	if was := m.shown[number]; was != "" && was != what {
		m.t.Errorf("UID %s was shown for %s and is for %s", number, was, what)
	}
	m.shown[number] = what
}

// refresh synchronizes as RFC 7162 describes: it fetches changes since the last time, and the UIDs that vanished.
func (m *clusterModel) refresh(c *cachingClient, r *store.Reader, h *layout.Folder, now map[uint32]string) {
	ct := r.Counters()
	since := c.mod
	if known := ct.Ledger.Knows(since); !known || since < ct.Floor {
		if !known {
			since = 0
		}
		for uid := range c.cache { // VANISHED for every UID absent
			if now[uid] == "" {
				delete(c.cache, uid)
			}
		}
	}
	if since == 0 {
		for uid, text := range now {
			c.cache[uid] = text
		}
		return
	}
	m.must(r.Changes(since, func(_ note.ModSeq, ch layout.Change) bool {
		if ch.Expunged {
			if ch.Folder == h.Note {
				delete(c.cache, ch.UID)
			}
			return true
		}
		row, err := r.Note(ch.Note)
		m.must(err)
		if in, ok := row.Member(h.Note); ok {
			c.cache[in.UID] = now[in.UID]
		}
		return true
	}))
}

// plainSync is a client that fetches from UIDNEXT on, asks which of its known UIDs exist, and forgets the others.
func (m *clusterModel) plainSync(c *cachingClient, h *layout.Folder, now map[uint32]string) {
	if c.plainValidity != h.UIDValidity {
		c.plainValidity, c.next, c.plain = h.UIDValidity, 1, map[uint32]bool{}
	}
	for uid := range c.plain {
		if now[uid] == "" {
			delete(c.plain, uid)
		}
	}
	for uid := range now {
		if uid >= c.next {
			c.plain[uid] = true
		}
	}
	c.next = max(c.next, h.UIDNext)
}
