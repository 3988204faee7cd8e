package mailbox

import (
	"cmp"
	"context"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// maxClaims bounds the ranges that a session remembers. A session has more than one only if several sessions compete
// for the messages of a folder. Beyond the bound the oldest range is dropped, and its messages are no longer recent.
const maxClaims = 1000

// claim is a range of UIDs that are recent in a session. left is the number of those that the session still knows.
type claim struct {
	Range
	left uint32
}

// Recents holds the messages of a view that are \Recent in its session, which means that no other session knew them
// before (RFC 3501 section 2.3.2). A session that may change the folder claims them, so that they are recent in no
// other session. A read-only session sees the messages that nobody has claimed. The zero value claims and shows none.
type Recents struct {
	session bool // the session claims messages
	shown   bool // the session remembers the messages that it claims
	claims  []claim
	count   uint32
}

// Count returns the number of recent messages that the session knows.
func (c *Recents) Count() uint32 { return c.count }

// find returns the index of the claim that contains a UID, or -1.
func (c *Recents) find(uid uint32) int {
	i, ok := slices.BinarySearchFunc(c.claims, uid, func(x claim, u uint32) int { return cmp.Compare(x.Start, u) })
	if !ok {
		i--
	}
	if i < 0 || uid > c.claims[i].Stop {
		return -1
	}
	return i
}

func (c *Recents) has(uid uint32) bool { return len(c.claims) > 0 && c.find(uid) >= 0 }

// ranges returns the UIDs of recent messages, ascending.
func (c *Recents) ranges() []Range {
	out := make([]Range, len(c.claims))
	for i := range c.claims {
		out[i] = c.claims[i].Range
	}
	return out
}

// add adds n messages in a range of UIDs above all others.
func (c *Recents) add(g Range, n uint32) {
	if n == 0 {
		return
	}
	c.count += n
	if last := len(c.claims) - 1; last >= 0 && c.claims[last].Stop+1 == g.Start {
		c.claims[last].Stop = g.Stop
		c.claims[last].left += n
		return
	}
	if len(c.claims) == maxClaims {
		c.count -= c.claims[0].left
		c.claims = slices.Delete(c.claims, 0, 1)
	}
	c.claims = append(c.claims, claim{g, n})
}

// expunged removes a message whose expunge was announced to the session.
func (c *Recents) expunged(uid uint32) {
	i := c.find(uid)
	if i < 0 {
		return
	}
	c.count--
	if c.claims[i].left--; c.claims[i].left == 0 {
		c.claims = slices.Delete(c.claims, i, i+1)
	}
}

// meet marks as recent the messages with a UID of at least from that no session knows yet. The caller passes the
// folder's head, within the read that also announces the messages to the session.
func (v *View) meet(r *store.Reader, h *layout.Folder, from uint32) error {
	c := &v.recent
	if !c.session || h.Told >= h.UIDNext {
		return nil
	}
	first := h.Told
	if !v.readOnly {
		var err error
		if first, err = v.f.svc.recents.Claim(v.f.db, v.folder, v.validity, h.UIDNext); err != nil {
			return err
		}
	}
	if first = max(first, from); !c.shown || first >= h.UIDNext {
		return nil
	}
	before, err := r.Rank(v.folder, first)
	c.add(Range{first, h.UIDNext - 1}, h.Total-before)
	return err
}

// Select opens a folder for an IMAP session. Messages that no session knows yet become \Recent in it (View.Recent). If
// shown is false, as for IMAP4rev2, which has no \Recent, the session still claims them but does not remember them.
//
// Implements: RFC 3501 §2.3.2 \Recent
func (f *File) Select(ctx context.Context, name string, readOnly, shown bool) (*View, Folder, error) {
	return f.open(ctx, name, readOnly, Recents{session: true, shown: shown})
}

// Unclaimed returns the number of messages in a folder that no session knows yet. If known is a view of that folder,
// Unclaimed leaves out the messages that its session knows.
func (hd *handle) Unclaimed(ctx context.Context, folder note.ID, known *View) (n uint32, err error) {
	err = hd.read(ctx, func(r *store.Reader) error {
		h, err := r.Folder(folder)
		if err != nil {
			return err
		}
		if r.FolderRights(h)&note.Read == 0 {
			return store.ErrDenied
		}
		if hd.bin {
			return nil
		}
		first := h.Told
		if known != nil {
			first = max(first, known.uidNext)
		}
		if first >= h.UIDNext {
			return nil
		}
		before, err := r.Rank(folder, first)
		n = h.Total - before
		return err
	})
	return n, err
}
