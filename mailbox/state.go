package mailbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ErrForgotten reports that the changes since a state are not known. The state is older than the stored changes,
// belongs to another history, or was made when the person had other rights.
var ErrForgotten = errors.New("changes since that state are unknown")

// State identifies a moment of a mail file for a client: all changes up to a MODSEQ, as seen with certain rights. A
// state has the same meaning on every replica.
type State struct {
	Mod note.ModSeq
	// Access identifies the person's rights by a hash; 0 means that they see everything.
	Access uint32
	// UID is the last UID assigned; it is set only if the person does not see all folders. A message that enters one of
	// their folders later, with a higher UID, is new to them.
	UID uint32
	// After, if not 0, limits the state: of the changes at Mod, the client knows only those of folders up to this place
	// (see folderChange.order).
	After uint64
	// Base, if not 0, is the state from which the client started: the client has received only a part of the changes
	// since then. If an object changed again after Mod, the client may know it only as of Base, and the change is still
	// to be reported.
	Base note.ModSeq
}

// base returns the MODSEQ up to which the client knows all changes.
func (s State) base() note.ModSeq {
	if s.Base != 0 {
		return s.Base
	}
	return s.Mod
}

// part returns the state of a client that came from s and has received the changes up to mod only.
func (s State) part(mod note.ModSeq, after uint64) State {
	return State{Mod: mod, Access: s.Access, UID: s.UID, After: after, Base: max(s.base(), 1)}
}

// String returns the state in the form that clients store.
func (s State) String() string {
	b := strconv.AppendUint(make([]byte, 0, 40), uint64(s.Mod), 16)
	if s.Access != 0 {
		b = strconv.AppendUint(append(b, '-'), uint64(s.Access), 16)
		b = strconv.AppendUint(append(b, '-'), uint64(s.UID), 16)
	}
	if s.After != 0 {
		b = strconv.AppendUint(append(b, '.'), s.After, 16)
	}
	if s.Base != 0 {
		b = strconv.AppendUint(append(b, '_'), uint64(s.Base), 16)
	}
	return string(b)
}

// ParseState parses the result of String.
func ParseState(text string) (s State, err error) {
	whole, base, partly := strings.Cut(text, "_")
	head, after, stops := strings.Cut(whole, ".")
	mod, rest, some := strings.Cut(head, "-")
	n, err := strconv.ParseUint(mod, 16, 64)
	s.Mod = note.ModSeq(n)
	if err == nil && some {
		access, uid, _ := strings.Cut(rest, "-")
		var a, u uint64
		if a, err = strconv.ParseUint(access, 16, 32); err == nil {
			u, err = strconv.ParseUint(uid, 16, 32)
		}
		s.Access, s.UID = uint32(a), uint32(u)
	}
	if err == nil && stops {
		s.After, err = strconv.ParseUint(after, 16, 64)
	}
	if err == nil && partly {
		n, err = strconv.ParseUint(base, 16, 64)
		s.Base = note.ModSeq(n)
	}
	if err != nil || s.String() != text {
		return State{}, fmt.Errorf("%w: malformed state", ErrForgotten)
	}
	return s, nil
}

// States holds the states of the kinds of objects in a mail file.
type States struct {
	// Email is the state of messages and threads. Folders is the state of folders including their counts.
	Email, Folders State
	// Delivered is the MODSEQ at which the latest message arrived.
	Delivered note.ModSeq
}

// access summarizes a person's rights in a mail file.
type access struct {
	hash uint32
	// partial is set if there are folders that the person may not read.
	partial bool
}

// accessOf computes the access of a person. A folder counts only if its ACL grants other rights than the database's
// ACL.
func accessOf(r *store.Reader, who *note.Who) (a access) {
	info := r.Info()
	whole := rightsOf(&info.ACL, who)
	h := fnv.New32a()
	var word [10]byte
	a.partial = whole&note.Read == 0
	some := a.partial || whole&note.Administer == 0 // false for those who may do everything anyway
	for _, f := range r.AllFolders() {
		if !f.HasACL || !ofMail(f) {
			continue
		}
		g := rightsOf(&f.ACL, who)
		if g == whole {
			continue
		}
		some = true
		a.partial = a.partial || g&note.Read == 0
		binary.BigEndian.PutUint64(word[:], uint64(f.Note))
		binary.BigEndian.PutUint16(word[8:], uint16(g))
		_, _ = h.Write(word[:])
	}
	if !some {
		return a
	}
	binary.BigEndian.PutUint16(word[:], uint16(whole))
	_, _ = h.Write(word[:2])
	a.hash = max(h.Sum32(), 1)
	return a
}

// rightsOf returns the rights that an ACL grants to a person. The server itself (who.System) has all rights.
func rightsOf(acl *note.ACL, who *note.Who) note.Rights {
	if who.System {
		return note.All
	}
	return acl.Rights(who)
}

// latest holds the MODSEQs of the latest changes, by type of object, as of MODSEQ last.
type latest struct {
	replica                  note.ReplicaID
	last                     note.ModSeq
	email, folder, delivered note.ModSeq
}

// latests caches latest for the mail files that were asked about: at most maxLatests of them, about 100 bytes each.
type latests struct {
	mu sync.Mutex
	by map[note.DatabaseID]latest
}

const maxLatests = 50_000

// states returns the states of the mail file at the moment of the reader, as the person sees them. The rights of the
// reader itself do not matter.
func (s *Service) states(r *store.Reader, who *note.Who) (States, error) {
	l, err := s.latestAt(r)
	if err != nil {
		return States{}, err
	}
	return l.states(r.Counters(), accessOf(r, who)), nil
}

func (l *latest) states(c layout.Counters, a access) States {
	out := States{Email: State{Mod: l.email, Access: a.hash},
		Folders: State{Mod: max(l.email, l.folder), Access: a.hash}, Delivered: l.delivered}
	if a.partial {
		out.Email.UID = c.Ledger.UID
	}
	return out
}

// latestAt returns the latest changes at the moment of the reader.
func (s *Service) latestAt(r *store.Reader) (latest, error) {
	c, replica := r.Counters(), r.Info().Replica
	db := r.Database()
	t := &s.latests
	t.mu.Lock()
	l, known := t.by[db]
	t.mu.Unlock()
	known = known && l.replica == replica && l.last <= c.Ledger.Last && l.last >= c.Floor && c.Ledger.Knows(l.last)
	if known && l.last == c.Ledger.Last {
		return l, nil
	}
	var err error
	if known {
		err = l.forward(r, c.Ledger.Last)
	} else {
		l = latest{replica: replica}
		err = l.backward(r, c.Floor)
	}
	if err != nil {
		return l, err
	}
	l.last = c.Ledger.Last
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.by == nil || len(t.by) >= maxLatests {
		t.by = make(map[note.DatabaseID]latest)
	}
	if have := t.by[db]; have.last < l.last || have.replica != replica {
		t.by[db] = l
	}
	return l, nil
}

// kindOf reports whether a change concerns a message or a folder. row is nil for an expunge.
func kindOf(r *store.Reader, c *layout.Change) (email, folder bool, row *layout.Note, err error) {
	if c.Expunged {
		// The expunge of a message names its folder. Any other one is of a folder's note if Class says so; rows of
		// older versions have Class 0, so treat them as folders.
		email = c.Folder != 0
		return email, !email && (c.Class == note.Folder || c.Class == 0), nil, nil
	}
	row, err = r.Row(c.Note)
	if err != nil {
		return false, false, nil, ignoreGone(err)
	}
	return isMessage(row), row.Class == note.Folder, row, nil
}

// forward updates l with the changes up to a MODSEQ. A note that changed again after that MODSEQ has only the later
// entry, and is skipped.
func (l *latest) forward(r *store.Reader, to note.ModSeq) error {
	var inner error
	from := l.last
	err := r.Changes(from, func(mod note.ModSeq, c layout.Change) bool {
		if mod > to {
			return false
		}
		email, folder, row, err := kindOf(r, &c)
		if err != nil {
			inner = err
			return false
		}
		if email {
			l.email = mod
			if row != nil && row.Created > from {
				l.delivered = max(l.delivered, row.Created)
			}
		}
		if folder {
			l.folder = mod
		}
		return true
	})
	return errors.Join(err, inner)
}

// backward finds the latest changes, starting from the last one stored. If there is no stored change, it uses floor.
func (l *latest) backward(r *store.Reader, floor note.ModSeq) error {
	var inner error
	err := r.Latest(func(mod note.ModSeq, c layout.Change) bool {
		email, folder, _, err := kindOf(r, &c)
		if err != nil {
			inner = err
			return false
		}
		if email && l.email == 0 {
			l.email = mod
		}
		if folder && l.folder == 0 {
			l.folder = mod
		}
		// Stop at the first message: an earlier change of a folder does not matter, because the folder state is the
		// greater of both.
		return l.email == 0
	})
	l.email, l.folder = max(l.email, floor), max(l.folder, floor)
	l.delivered = l.email
	return errors.Join(err, inner)
}
