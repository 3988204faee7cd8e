package mail

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// MaxBoxes is how many mail.box databases a server has at most.
const MaxBoxes = 8

// soleID is the i-th mail.box of a server that is alone: the same at every server, so that it cannot have replicas.
func soleID(i int) note.DatabaseID { return BoxID + note.DatabaseID(i)<<16 }

// Sole says that a mail.box is one of those that a server had while it was alone: they are each server's own.
func Sole(id note.DatabaseID) bool {
	for i := range MaxBoxes {
		if soleID(i) == id {
			return true
		}
	}
	return false
}

// OwnedID is the i-th mail.box of a member of a cluster. It follows from the server's id, so that a server that has lost its
// disk knows which of the replicas that its mates have is its own.
func OwnedID(server note.UNID, i int) note.DatabaseID {
	u := note.DeriveUNID([]byte("mail.box"), server[:], []byte{byte(i)})
	return note.DatabaseID(binary.BigEndian.Uint64(u[:8]))
}

// box is a mail.box database of which there is a replica here.
type box struct {
	id    note.DatabaseID
	index int // in the keys of its entries
	// owner is the server whose it is; zero for those of a server that is alone.
	owner note.UNID
	// Guarded by Service.mu. leads says that what is in it is worked on here, since is up to where its changes have been
	// seen, sum what it adds to the gauges. from is since when it could be led, due when the work on it begins.
	leads bool
	since note.ModSeq
	sum   tally
	due   int64
	// vacating counts those who are about to move its home: while there are some nothing new is begun.
	vacating int
	settler  settler
	census   census
	stop     func() // ends watching it
}

// replicated says that mates may have it too, and entries come from them.
func (b *box) replicated() bool { return !b.owner.IsZero() }

// openBoxes makes the databases that are missing, and finds those that are there. Of a time when there were more, or when the
// server was alone, they are kept: nothing new comes in, and what is in them goes out.
func (s *Service) openBoxes() error {
	for i := range MaxBoxes {
		id := soleID(i)
		_, err := s.store.Info(id)
		if errors.Is(err, store.ErrNotFound) {
			if i >= s.opt.Boxes {
				continue
			}
			err = s.makeBox(id, i, note.UNID{}, "")
		}
		if err != nil {
			return fmt.Errorf("mail: %s: %w", id, err)
		}
		if err := s.addBox(id, note.UNID{}); err != nil {
			return err
		}
	}
	s.store.WatchInfos(func(id note.DatabaseID) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.server.IsZero() {
			s.changedInfos = append(s.changedInfos, id)
			nudge(s.wakeLocal)
		}
	})
	return nil
}

// makeBox makes the i-th mail.box: of the member of a cluster that has this name, or of a server that is alone.
func (s *Service) makeBox(id note.DatabaseID, i int, owner note.UNID, name string) error {
	title := "mail.box"
	if i > 0 {
		title = fmt.Sprintf("mail%d.box", i+1)
	}
	c := store.Create{ID: id, Title: title, Kind: Kind, Queue: true, Owner: owner}
	if !owner.IsZero() {
		c.Title, c.Ack = title+" of "+name, layout.AckCluster
	}
	_, err := s.store.CreateDatabase(note.System, c)
	if errors.Is(err, store.ErrExists) {
		err = nil
	}
	return err
}

// Join has the server, as a member of a cluster under a name, keep what waits in mail.box databases that are its own there, and
// whose replicas mates have. known says that the cluster has such a database: where it is missing here, it comes from a mate.
func (s *Service) Join(server note.UNID, name string, known func(note.DatabaseID) bool) error {
	for i := range s.opt.Boxes {
		id := OwnedID(server, i)
		_, err := s.store.Info(id)
		if errors.Is(err, store.ErrNotFound) && !known(id) {
			err = s.makeBox(id, i, server, name)
		} else if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("mail: %s: %w", id, err)
		}
	}
	if err := s.joinOutbox(server, name, known); err != nil {
		return err
	}
	var all, own []note.DatabaseID
	err := s.store.Infos(func(i *layout.Info) {
		if i.Kind == Kind {
			all = append(all, i.ID)
		}
	})
	if err != nil {
		return fmt.Errorf("mail: %w", err)
	}
	for i := range s.opt.Boxes {
		own = append(own, OwnedID(server, i))
	}
	s.mu.Lock()
	s.server = server
	s.changedInfos = append(s.changedInfos, all...)
	s.mu.Unlock()
	if err := s.noticeBoxes(); err != nil {
		return err
	}
	s.own.Store(&own)
	nudge(s.wakeLocal)
	return nil
}

// noticeBoxes takes up the mail.box databases that have come.
func (s *Service) noticeBoxes() error {
	s.mu.Lock()
	list := s.changedInfos
	s.changedInfos = nil
	s.mu.Unlock()
	var errs []error
	for _, id := range list { // one that cannot be taken up keeps none of the others away
		info, err := s.store.Info(id)
		if err == nil && info.Kind == Kind && info.Queue && !Sole(id) {
			errs = append(errs, s.addBox(id, info.Owner))
		}
	}
	return errors.Join(errs...)
}

// maxBoxes bounds the databases that keys of entries tell apart.
const maxBoxes = 1 << (rankShift - boxShift)

// addBox takes up a database, or watches anew one that was made again.
func (s *Service) addBox(id note.DatabaseID, owner note.UNID) error {
	stop, err := s.store.Watch(id, func() {
		nudge(s.wakeLocal)
		nudge(s.wakeOut)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil // removed again
	}
	if err != nil {
		return fmt.Errorf("mail: router: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.boxes()
	if i := slices.IndexFunc(list, func(b *box) bool { return b.id == id }); i >= 0 {
		list[i].stop()
		list[i].stop = stop
		return nil
	}
	if len(list) >= maxBoxes {
		stop()
		return fmt.Errorf("mail: more than %d mail.box databases", maxBoxes)
	}
	b := &box{id: id, index: len(list), owner: owner, stop: stop, leads: owner.IsZero()}
	grown := append(slices.Clone(list), b)
	s.table.Store(&grown)
	return nil
}

// boxes are the databases that are there, by index. The list must not be changed.
func (s *Service) boxes() []*box {
	if list := s.table.Load(); list != nil {
		return *list
	}
	return nil
}

// boxOf is the box of a database.
func (s *Service) boxOf(id note.DatabaseID) *box {
	for _, b := range s.boxes() {
		if b.id == id {
			return b
		}
	}
	return nil
}

// led are the boxes whose entries are worked on here, in order of their ids.
func (s *Service) led() []*box {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*box
	for _, b := range s.boxes() {
		if b.leads {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b *box) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return out
}

// boxFor is the mail.box into which a message of this queue id is entered: they are spread, so that
// many who enter do not wait for each other. It is one of the server's own in its cluster, unless that is missing.
func (s *Service) boxFor(id note.UNID) note.DatabaseID {
	i := int(id[len(id)-1]) % s.opt.Boxes
	if own := s.own.Load(); own != nil && s.inService((*own)[i]) {
		return (*own)[i]
	}
	return soleID(i)
}

// entryKey is an entry: the note's id, the index of its mail.box above it.
type entryKey uint64

const boxShift = 48

func keyOf(box int, id note.ID) entryKey { return entryKey(box)<<boxShift | entryKey(id) }

func (k entryKey) box() int      { return int(k >> boxShift) }
func (k entryKey) note() note.ID { return note.ID(k & (1<<boxShift - 1)) }

func (s *Service) keyOf(e *Entry) entryKey {
	if b := s.boxOf(e.box); b != nil {
		return keyOf(b.index, e.note)
	}
	return entryKey(e.note)
}

func (s *Service) database(k entryKey) note.DatabaseID { return s.boxes()[k.box()].id }

// locate finds the mail.box that a message is in.
func (s *Service) locate(ctx context.Context, id note.UNID) (note.DatabaseID, error) {
	first := s.boxFor(id)
	found := note.DatabaseID(0)
	look := func(box note.DatabaseID) error {
		return s.store.Read(ctx, note.System, box, func(r *store.Reader) error {
			_, err := r.Find(id)
			switch {
			case err == nil:
				found = box
			case !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrGrave):
				return err
			}
			return nil
		})
	}
	if err := look(first); err != nil {
		return 0, err
	}
	for _, b := range s.boxes() {
		if found != 0 {
			break
		}
		if b.id == first {
			continue
		}
		if err := look(b.id); err != nil && !(b.replicated() && databaseTrouble(err)) {
			return 0, err
		}
	}
	if found == 0 {
		return 0, ErrNotQueued
	}
	return found, nil
}

// place is an entry's place in the order of all: by database, then by arrival.
type place struct {
	box  note.DatabaseID
	note note.ID
}

// eachEntry calls fn for the entries from one on, box by box, in order of arrival. A damaged one is
// logged and left out.
func (s *Service) eachEntry(ctx context.Context, from place, fn func(*Entry) bool) error {
	for _, b := range s.led() {
		if b.id < from.box {
			continue
		}
		start := note.ID(0)
		if b.id == from.box {
			start = from.note
		}
		goOn, err := s.eachIn(ctx, b.id, start, fn)
		if b.replicated() && errors.Is(err, store.ErrNotFound) {
			continue // removed since
		}
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

func (s *Service) eachIn(ctx context.Context, box note.DatabaseID, from note.ID, fn func(*Entry) bool) (goOn bool, err error) {
	goOn = true
	err = s.store.Read(ctx, note.System, box, func(r *store.Reader) error {
		var ids []note.ID
		for {
			if err := ctx.Err(); err != nil {
				return err
			}
			ids = ids[:0]
			err := r.Notes(from, func(id note.ID, _ *layout.Note) bool {
				ids = append(ids, id)
				return len(ids) < 1000
			})
			if err != nil || len(ids) == 0 {
				return err
			}
			for _, id := range ids {
				e, err := load(r, id)
				if err != nil {
					s.env.Log.Error("mail: entry of mail.box cannot be read", "note", uint64(id), "err", err)
					continue
				}
				if !fn(e) {
					goOn = false
					return nil
				}
			}
			from = ids[len(ids)-1] + 1
		}
	})
	return goOn, err
}
