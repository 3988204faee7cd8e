package mailbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Where the mail files of others stand among a person's folders, if they may look up something in
// them.
const (
	OthersPrefix = "Other Users/"
	SharedPrefix = "Shared/"
)

// Share is a mail file in which somebody else than its owner may find something.
type Share struct {
	ID note.DatabaseID
	// Title is the database's; Owner is zero where it belongs to nobody.
	Title string
	Owner note.UNID
}

// shares knows, for every person and group, which mail files name them in an access list: a list of
// folders must not read every database of the server. It is filled by one pass over the Infos and
// kept by what the store tells after.
type shares struct {
	once   sync.Once
	failed error

	// again is held over a look at one mail file, so that the last look is the last word.
	again sync.Mutex
	// late, while the table is filled, are the files that changed meanwhile.
	late map[note.DatabaseID]bool

	mu    sync.RWMutex
	files map[note.DatabaseID]share
	// by holds the files that a list gives something to an id; the zero id is everyone.
	by map[note.UNID][]note.DatabaseID
}

type share struct {
	Share
	ids []note.UNID
}

// idsOf are those that a mail file's list names, its owner aside.
func idsOf(i *layout.Info) (ids []note.UNID) {
	if i.Kind != Kind || i.State != layout.InService {
		return nil
	}
	if i.ACL.Default != note.NoAccess {
		ids = append(ids, note.UNID{})
	}
	for _, e := range i.ACL.Entries {
		if e.ID != i.Owner && (e.Level != note.NoAccess || e.Plus != 0) {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (s *shares) put(id note.DatabaseID, i *layout.Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, who := range s.files[id].ids {
		if left := slices.DeleteFunc(s.by[who], func(x note.DatabaseID) bool { return x == id }); len(left) > 0 {
			s.by[who] = left
		} else {
			delete(s.by, who)
		}
	}
	delete(s.files, id)
	if i == nil {
		return
	}
	ids := idsOf(i)
	if len(ids) == 0 {
		return
	}
	s.files[id] = share{Share{ID: id, Title: i.Title, Owner: i.Owner}, ids}
	for _, who := range ids {
		s.by[who] = append(s.by[who], id)
	}
}

// learn fills the table, once.
func (s *Service) learn() error {
	t := &s.shares
	t.once.Do(func() {
		t.files, t.by, t.late = map[note.DatabaseID]share{}, map[note.UNID][]note.DatabaseID{}, map[note.DatabaseID]bool{}
		s.store.WatchInfos(s.relearn) // first, so that nothing falls between
		t.failed = s.store.Infos(func(i *layout.Info) { t.put(i.ID, i) })
		t.again.Lock()
		late := t.late
		t.late = nil
		t.again.Unlock()
		for id := range late {
			s.relearn(id)
		}
	})
	return t.failed
}

// relearn looks at one mail file again.
func (s *Service) relearn(id note.DatabaseID) {
	t := &s.shares
	t.again.Lock()
	defer t.again.Unlock()
	if t.late != nil {
		t.late[id] = true
		return
	}
	i, err := s.store.Info(id)
	if err != nil {
		t.put(id, nil)
		return
	}
	t.put(id, &i)
}

// Shares lists the mail files, other than own, in which who may find something, by id: no name of a
// folder is read for it.
func (s *Service) Shares(who note.Who, own note.DatabaseID) ([]Share, error) {
	if err := s.learn(); err != nil {
		return nil, fmt.Errorf("shared mail files: %w", err)
	}
	t := &s.shares
	t.mu.RLock()
	defer t.mu.RUnlock()
	var ids []note.DatabaseID
	take := func(id note.UNID) { ids = append(ids, t.by[id]...) }
	take(note.UNID{})
	take(who.Person)
	for _, g := range who.Groups {
		take(g)
	}
	slices.Sort(ids)
	var out []Share
	for _, id := range slices.Compact(ids) {
		if id != own {
			out = append(out, t.files[id].Share)
		}
	}
	return out, nil
}

// SharedFile returns a handle on a mail file of somebody else; prefix, with a separator at its end,
// stands before the names of its folders.
func (s *Service) SharedFile(who note.Who, db note.DatabaseID, prefix string) *File {
	return &File{svc: s, who: who, db: db, prefix: prefix}
}

// Prefix stands before the names of the mail file's folders; "" in the person's own.
func (f *File) Prefix() string { return f.prefix }

// gone says whether an error means that a mail file cannot be looked into: it was removed, or is out
// of service.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrOutOfService) || errors.Is(err, store.ErrDamaged)
}

// Visible is a list of what is in a shared mail file, as it was read; none where that cannot be
// looked into, so that one mail file does not hide the others.
func Visible[T any](list []T, err error) ([]T, error) {
	if err != nil && gone(err) {
		return nil, nil
	}
	return list, err
}

// Level makes one level of a name out of a person's name or a title.
func Level(name string) string {
	name = strings.Map(func(c rune) rune {
		switch {
		case c == '/' || c == '*' || c == '%' || c == '"' || c == '\\':
			return '_'
		case c < 0x20 || c == 0x7f || c == 0xfffd || c >= 0x80 && c < 0xa0 || c == 0x2028 || c == 0x2029:
			return '_'
		}
		return c
	}, name)
	if name == "" || name == "." || name == ".." {
		return "_"
	}
	return name
}
