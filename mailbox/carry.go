package mailbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ErrParted reports that this replica cannot continue a session's view of a folder. Either this replica has not
// received all changes that the session knows, or two primaries assigned numbers at the same time, which was repaired
// since. The primary of a database ("home" in the code) is the replica that assigns its UIDs and MODSEQs.
var ErrParted = errors.New("mailbox: replica differs from the state of the session")

// Carried is a View in transfer to another member of the cluster. UIDs and MODSEQs are the same on all members. So the
// other member needs only the UIDs that the session knows, and the MODSEQ up to which changes were announced.
type Carried struct {
	Name        string
	UNID        note.UNID
	UIDValidity uint32
	UIDNext     uint32
	ReadOnly    bool
	ModSeq      note.ModSeq
	// Pending is the MODSEQ of the first expunge not announced yet, or 0.
	Pending note.ModSeq
	// UIDs holds the UIDs of the messages that the session knows, encoded by packUIDs.
	UIDs []byte
	// Claims and ShowsRecent are the fields session and shown of Recents. Recent holds the UIDs of the \Recent
	// messages, encoded by packUIDs.
	Claims, ShowsRecent bool
	Recent              []byte
}

// Carry returns the view in a form for another member. ErrParted means that the ledger here was rewritten since the
// session's last Poll, so that its sequence numbers can no longer be computed.
func (v *View) Carry(ctx context.Context) (*Carried, error) {
	c := &Carried{Name: v.name, UNID: v.unid, UIDValidity: v.validity, UIDNext: v.uidNext, ReadOnly: v.readOnly,
		ModSeq: v.mod}
	err := v.f.read(ctx, func(r *store.Reader) error {
		known, err := v.known(r)
		if err != nil {
			return err
		}
		if len(v.hidden) > 0 {
			c.Pending = v.pending
		}
		c.UIDs = packUIDs(known)
		c.Claims, c.ShowsRecent, c.Recent = v.recent.session, v.recent.shown, packUIDs(v.recent.ranges())
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// known returns the UIDs of the messages that the session knows: live ones, and those whose expunge was not announced.
func (k *knowledge) known(r *store.Reader) (Set, error) {
	if err := k.sync(r); err != nil {
		return nil, err
	}
	var out Set
	var count uint32
	hidden := k.hidden
	add := func(uid uint32) {
		out, count = appendUID(out, uid), count+1
	}
	twice := false
	if k.uidNext > 1 {
		err := r.Members(k.folder, 1, k.uidNext-1, func(uid uint32, _ note.ID) bool {
			for ; len(hidden) > 0 && hidden[0] < uid; hidden = hidden[1:] {
				add(hidden[0])
			}
			twice = len(hidden) > 0 && hidden[0] == uid
			add(uid)
			return !twice
		})
		if err != nil {
			return nil, err
		}
	}
	for _, uid := range hidden {
		add(uid)
	}
	if twice || count != k.exists {
		return nil, fmt.Errorf("%w: %s has %d messages, the session counts %d", ErrParted, k.name, count, k.exists)
	}
	return out, nil
}

// Resume continues a view from another member; the next Poll reports the differences to this replica. It returns
// ErrFolderGone if the folder was deleted or renumbered, and ErrParted if expunges and new messages cannot express the
// differences.
func (f *File) Resume(ctx context.Context, c *Carried) (*View, Folder, error) {
	known, err := unpackUIDs(c.UIDs, c.UIDNext)
	if err != nil {
		return nil, Folder{}, err
	}
	recent, err := unpackUIDs(c.Recent, c.UIDNext)
	if err != nil {
		return nil, Folder{}, err
	}
	var v *View
	var out Folder
	err = f.read(ctx, func(r *store.Reader) error {
		h, err := f.carriedFolder(r, c)
		if err != nil {
			return err
		}
		out = f.folder(r, h)
		v = &View{
			readOnly: c.ReadOnly || !mayChange(out.Rights), recent: Recents{session: c.Claims, shown: c.ShowsRecent},
		}
		v.knowledge = knowledge{
			opened: opened{f: f, folder: h.Note, unid: h.UNID}, validity: h.UIDValidity, name: out.Name,
			mod: c.ModSeq, synced: r.Counters().Ledger.Last, uidNext: c.UIDNext, pending: c.ModSeq + 1,
		}
		for _, g := range recent {
			v.recent.add(g, countIn(known, g))
		}
		if c.Pending != 0 {
			v.pending = min(v.pending, c.Pending)
		}
		return v.match(r, known)
	})
	if err != nil {
		return nil, Folder{}, err
	}
	return v, out, nil
}

// mayChange reports whether rights allow any change to a folder.
func mayChange(g note.Rights) bool {
	return g&(note.Write|note.WriteOwn|note.KeepSeen|note.Insert|note.DeleteMark|note.Expunge) != 0
}

// carriedFolder finds the folder of a carried view, even if it was renamed. It checks that this replica has all changes
// that were announced to the session.
func (hd *handle) carriedFolder(r *store.Reader, c *Carried) (*layout.Folder, error) {
	for _, h := range hd.shown(r) {
		if h.UNID != c.UNID {
			continue
		}
		switch last := r.Counters().Ledger.Last; {
		case h.UIDValidity != c.UIDValidity, r.FolderRights(h)&note.Read == 0:
			return nil, fmt.Errorf("%w: %s", ErrFolderGone, c.Name)
		case last < c.ModSeq, h.UIDNext < c.UIDNext:
			return nil, fmt.Errorf("%w: %s is at MODSEQ %d and UIDNEXT %d, the session at %d and %d",
				ErrParted, c.Name, last, h.UIDNext, c.ModSeq, c.UIDNext)
		}
		return h, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrFolderGone, c.Name)
}

// match compares the messages that a session knows with the live messages here. It hides those that no longer exist,
// until their expunges may be announced. It returns ErrParted for a message below UIDNEXT that the session does not
// know, because it has no sequence number.
func (k *knowledge) match(r *store.Reader, known Set) error {
	var next uint32 // next UID of known, 0 if none is left
	take := func() {
		for next = 0; len(known) > 0; known = known[1:] {
			if g := &known[0]; g.Start <= g.Stop {
				next = g.Start
				g.Start++
				return
			}
		}
	}
	hide := func() {
		k.hidden = append(k.hidden, next)
		k.exists++
		take()
	}
	take()
	strange := uint32(0)
	if k.uidNext > 1 {
		err := r.Members(k.folder, 1, k.uidNext-1, func(uid uint32, _ note.ID) bool {
			for next != 0 && next < uid {
				hide()
			}
			if next != uid {
				strange = uid
				return false
			}
			k.exists++
			take()
			return true
		})
		if err != nil {
			return err
		}
	}
	if strange != 0 {
		return fmt.Errorf("%w: %s has a message with UID %d, unknown to the session", ErrParted, k.name, strange)
	}
	for next != 0 {
		hide()
	}
	return nil
}

// countIn returns how many UIDs of an ascending set are in a range.
func countIn(set Set, g Range) (n uint32) {
	for _, x := range set {
		if lo, hi := max(x.Start, g.Start), min(x.Stop, g.Stop); lo <= hi {
			n += hi - lo + 1
		}
	}
	return n
}

// packUIDs encodes ascending ranges as pairs of varints: the gap before each range, and its length minus one.
func packUIDs(s Set) []byte {
	var out []byte
	last := uint32(0)
	for _, g := range s {
		out = binary.AppendUvarint(out, uint64(g.Start-last))
		out = binary.AppendUvarint(out, uint64(g.Stop-g.Start))
		last = g.Stop
	}
	return out
}

// unpackUIDs decodes the output of packUIDs. All UIDs must be below uidNext.
func unpackUIDs(b []byte, uidNext uint32) (Set, error) {
	var out Set
	last := uint64(0)
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errCarried
		}
		length, m := binary.Uvarint(b[n:])
		if m <= 0 || gap == 0 || gap >= 1<<32 || length >= 1<<32 {
			return nil, errCarried
		}
		b = b[n+m:]
		start := last + gap
		if last = start + length; last >= uint64(uidNext) {
			return nil, errCarried
		}
		out = append(out, Range{uint32(start), uint32(last)})
	}
	return out, nil
}

var errCarried = errors.New("mailbox: the UIDs of a carried session cannot be read")
