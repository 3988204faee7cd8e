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

// ErrForgotten says that what changed since a state cannot be told: the state is older than what is remembered, of
// another history, or of a time at which the person might see something else.
var ErrForgotten = errors.New("the changes since that state are not known")

// State is a moment of a mail file as a client remembers it: all changes up to a MODSEQ, as seen by somebody with certain
// rights. The same state means the same on every replica.
type State struct {
	Mod note.ModSeq
	// Access tells apart what a person may see; 0 is everything.
	Access uint32
	// UID is the last UID given, for who does not see all folders: a message that came into one of theirs later is new
	// to them.
	UID uint32
	// After, where it is set, says that of the changes at Mod only those of folders up to this place are known.
	After uint64
	// Base, where it is set, is the state that the client came from, which has been told only a part of what changed
	// since: what is as it was at Base and has changed again behind Mod is still to be told.
	Base note.ModSeq
}

// base is the MODSEQ up to which the client knows all.
func (s State) base() note.ModSeq {
	if s.Base != 0 {
		return s.Base
	}
	return s.Mod
}

// part is the state of a client that came from s and has been told what changed up to a MODSEQ, and no more.
func (s State) part(mod note.ModSeq, after uint64) State {
	return State{Mod: mod, Access: s.Access, UID: s.UID, After: after, Base: max(s.base(), 1)}
}

// String prints the state for a client.
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

// ParseState reads what String printed.
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
		return State{}, fmt.Errorf("%w: no state of ours", ErrForgotten)
	}
	return s, nil
}

// States are the states of what a mail file holds.
type States struct {
	// Email is that of messages and threads, Folders that of folders with their counts.
	Email, Folders State
	// Delivered is the MODSEQ of the latest message that came.
	Delivered note.ModSeq
}

// access is what a person's rights come to.
type access struct {
	hash uint32
	// partial: there are folders that the person may not read.
	partial bool
}

// accessOf looks at the rights of who. A folder counts where its list gives other rights than the database's.
func accessOf(r *store.Reader, who *note.Who) (a access) {
	info := r.Info()
	whole := rightsOf(&info.ACL, who)
	h := fnv.New32a()
	var word [10]byte
	a.partial = whole&note.Read == 0
	some := a.partial || whole&note.Administer == 0 // of who may not do everything anyhow
	for _, f := range r.AllFolders() {
		if !f.HasACL {
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

// rightsOf is what a list grants to somebody; the server itself may do everything.
func rightsOf(acl *note.ACL, who *note.Who) note.Rights {
	if who.System {
		return note.All
	}
	return acl.Rights(who)
}

// latest remembers the MODSEQs of the latest changes by what changed, as of last.
type latest struct {
	replica                  note.ReplicaID
	last                     note.ModSeq
	email, folder, delivered note.ModSeq
}

// latests are those of the mail files that were asked about; a bounded number, about 100 bytes each.
type latests struct {
	mu sync.Mutex
	by map[note.DatabaseID]latest
}

const maxLatests = 50_000

// states are the states of the mail file at the moment of a reader, for who. The reader may be anybody's.
func (s *Service) states(r *store.Reader, who *note.Who) (States, error) {
	l, err := s.latestAt(r)
	if err != nil {
		return States{}, err
	}
	return l.states(r.Counters(), accessOf(r, who)), nil
}

func (l *latest) states(c layout.Counters, a access) States {
	out := States{Email: State{Mod: l.email, Access: a.hash}, Folders: State{Mod: max(l.email, l.folder), Access: a.hash}, Delivered: l.delivered}
	if a.partial {
		out.Email.UID = c.Ledger.UID
	}
	return out
}

// latestAt is what has changed last at the moment of a reader.
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

// kindOf says what a change is of.
func kindOf(r *store.Reader, c *layout.Change) (email, folder bool, row *layout.Note, err error) {
	if c.Expunged {
		// A folder of its own has none; rows of older versions do not say more.
		email = c.Folder != 0
		return email, !email && (c.Class == note.Folder || c.Class == 0), nil, nil
	}
	row, err = r.Row(c.Note)
	if err != nil {
		return false, false, nil, ignoreGone(err)
	}
	return isMessage(row), row.Class == note.Folder, row, nil
}

// forward goes on to a MODSEQ. What has changed once more behind that is passed over.
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

// backward finds both from the end of what is remembered. Where nothing is, the floor is the state.
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
		// A folder's changes need not be found once a later one of a message is: the greater counts.
		return l.email == 0
	})
	l.email, l.folder = max(l.email, floor), max(l.folder, floor)
	l.delivered = l.email
	return errors.Join(err, inner)
}
