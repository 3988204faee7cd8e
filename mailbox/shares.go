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

// Prefixes of the folder names of other people's mail files, as a person sees them.
const (
	OthersPrefix = "Other Users/"
	SharedPrefix = "Shared/"
)

// Share is a mail file in which someone other than its owner may have rights.
type Share struct {
	ID note.DatabaseID
	// Title is the title of the database. Owner is zero if it has no owner.
	Title string
	Owner note.UNID
}

// shares maps every person and group to the mail files whose ACL names them. Without it, listing folders would read
// every database of the server. It is filled once from the Infos of all databases, and then updated by notifications
// from the store.
type shares struct {
	once   sync.Once
	failed error

	// again is held while one mail file is read again. So two reads do not overlap, and the entry is that of the later
	// one.
	again sync.Mutex
	// late holds the files that change while the table is being filled; it is nil afterwards.
	late map[note.DatabaseID]bool

	mu    sync.RWMutex
	files map[note.DatabaseID]share
	// by maps an id to the files whose ACL grants it rights. The zero id stands for everyone.
	by map[note.UNID][]note.DatabaseID
}

type share struct {
	Share
	ids []note.UNID
}

// idsOf returns the ids that a mail file's ACL grants rights, without its owner.
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

// learn fills the table once.
func (s *Service) learn() error {
	t := &s.shares
	t.once.Do(func() {
		t.files, t.by, t.late = map[note.DatabaseID]share{}, map[note.UNID][]note.DatabaseID{},
			map[note.DatabaseID]bool{}
		s.store.WatchInfos(s.relearn) // before the pass, so that no change is missed
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

// relearn reads the Info of one mail file again and updates its entry.
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

// Shares returns the mail files other than own in which the person may have rights, sorted by id. It reads no folders.
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

// SharedFile returns a handle for another person's mail file. prefix, which ends in a separator, precedes the names of
// its folders.
func (s *Service) SharedFile(who note.Who, db note.DatabaseID, prefix string) *File {
	return &File{namespace{handle{svc: s, who: who, db: db}, prefix}}
}

// Prefix returns the prefix of the mail file's folder names; it is "" for the person's own mail file.
func (ns *namespace) Prefix() string { return ns.prefix }

// gone reports whether an error means that a mail file cannot be read: it was removed, is out of service or is damaged.
func gone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrOutOfService) ||
		errors.Is(err, store.ErrDamaged)
}

// Visible returns the result of reading a shared mail file. If the mail file cannot be read, it returns an empty list,
// so that one mail file does not hide the others.
func Visible[T any](list []T, err error) ([]T, error) {
	if err != nil && gone(err) {
		return nil, nil
	}
	return list, err
}

// Level turns a person's name or a title into one level of a folder name.
func Level(name string) string {
	name = strings.Map(func(c rune) rune {
		if isControl(c) || strings.ContainsRune(`/*%"\`, c) {
			return '_'
		}
		return c
	}, name)
	if name == "" || name == "." || name == ".." {
		return "_"
	}
	return name
}
