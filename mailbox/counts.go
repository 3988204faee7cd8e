package mailbox

import (
	"context"
	"slices"

	"doublet/note"
	"doublet/store"
)

// Counts holds the counts of a folder: its messages, those that are neither seen nor drafts, the threads with a message
// in the folder, and those of them that have an unread message.
type Counts struct{ Total, Unread, Threads, UnreadThreads uint32 }

// Mailbox is a folder as JMAP represents it.
type Mailbox struct {
	Folder
	Counts Counts
}

// rollCounts caches the counts of all folders for one person.
type rollCounts struct {
	person note.UNID
	access uint32
	by     map[note.ID]Counts
}

// maxRollCounts is the number of persons for whom a roll caches counts.
const maxRollCounts = 4

// Mailboxes returns the folders that the person may look up, sorted by name, parents before children. Their counts are
// filled in if counts is set.
func (f *File) Mailboxes(ctx context.Context, counts bool) (list []Mailbox, st States, err error) {
	fill := func(l *roll, r *store.Reader) (err error) {
		if st, err = f.svc.states(r, &f.who); err != nil {
			return err
		}
		list = f.mailboxes(r)
		if l == nil {
			return nil
		}
		by := l.countsFor(r, &f.who)
		for i := range list {
			list[i].Counts = by[list[i].ID]
		}
		return nil
	}
	if counts {
		err = f.withRoll(ctx, fill)
	} else {
		err = f.read(ctx, func(r *store.Reader) error { return fill(nil, r) })
	}
	return list, st, err
}

// mailboxes returns the folders that the person may look up. The rights of the reader itself do not matter.
func (f *File) mailboxes(r *store.Reader) []Mailbox {
	info, heads := r.Info(), r.AllFolders()
	whole := rightsOf(&info.ACL, &f.who)
	out := make([]Mailbox, 0, len(heads))
	for _, h := range heads {
		g := whole
		if h.HasACL {
			g = rightsOf(&h.ACL, &f.who)
		}
		if g&note.Lookup == 0 || !ofMail(h) {
			continue
		}
		m := Mailbox{Folder: f.folder(r, h)}
		m.Rights = g
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Mailbox) int { return compareNames(a.Name, b.Name) })
	return out
}

// countsFor returns the counts of all folders for a person. It computes them in one pass over the roll, unless they are
// cached.
func (l *roll) countsFor(r *store.Reader, who *note.Who) map[note.ID]Counts {
	hash := accessOf(r, who).hash
	for _, c := range l.counts {
		if c.person == who.Person && c.access == hash {
			return c.by
		}
	}
	by := l.count(r, who)
	if len(l.counts) >= maxRollCounts {
		l.counts = append(l.counts[:0], l.counts[1:]...)
	}
	l.counts = append(l.counts, rollCounts{who.Person, hash, by})
	return by
}

// count computes the counts. A thread is unread if one of its messages is unread. Messages in Trash count as a separate
// thread (RFC 8621 section 2).
//
// Implements: RFC 8621 §2 counts of a Mailbox
func (l *roll) count(r *store.Reader, who *note.Who) map[note.ID]Counts {
	heads := readableHeads(r, who)
	trash := trashOf(r)
	sets := make([]countedSet, len(l.members.list))
	for i, set := range l.members.list {
		sets[i] = countedSetOf(set, heads, trash)
	}
	unread := make([]bool, len(l.marks.list))
	for i, m := range l.marks.list {
		unread[i] = !seenIn(m, who.Person) && !hasWord(m, Draft)
	}
	threads := make([]uint8, len(l.threads))
	placed := map[note.ID][]uint32{}
	out := make(map[note.ID]Counts, len(heads))
	for i := range l.entries {
		e := &l.entries[i]
		s := &sets[e.members]
		if len(s.folders) == 0 {
			continue
		}
		if unread[e.marks] {
			threads[e.thread] |= s.places()
		}
		for _, f := range s.folders {
			c := out[f]
			if c.Total++; unread[e.marks] {
				c.Unread++
			}
			out[f] = c
			placed[f] = append(placed[f], e.thread)
		}
	}
	seen := make([]uint32, len(l.threads)) // the number of the folder in which the thread was counted last
	number := uint32(0)
	for f, list := range placed {
		c, want := out[f], uint8(outsideTrash)
		if f == trash {
			want = inTrash
		}
		number++
		for _, t := range list {
			if seen[t] == number {
				continue
			}
			seen[t] = number
			if c.Threads++; threads[t]&want != 0 {
				c.UnreadThreads++
			}
		}
		out[f] = c
	}
	return out
}

// Places in which a thread has an unread message.
const (
	outsideTrash = 1 << iota
	inTrash
)

func trashOf(r *store.Reader) (trash note.ID) {
	for _, h := range r.AllFolders() {
		if h.SpecialUse == UseTrash {
			trash = h.Note
		}
	}
	return trash
}

// countedSet is a set of folders, prepared for counting.
type countedSet struct {
	folders        []note.ID // those that the person may read
	trash, outside bool      // the set contains Trash; it contains another folder
}

// places returns where an unread message in these folders makes its thread unread.
func (s *countedSet) places() (places uint8) {
	if s.outside {
		places |= outsideTrash
	}
	if s.trash {
		places |= inTrash
	}
	return places
}

func countedSetOf(set string, heads map[note.ID]note.UNID, trash note.ID) (s countedSet) {
	for i := 0; i+8 <= len(set); i += 8 {
		id := folderAt(set, i)
		if _, ok := heads[id]; !ok {
			continue
		}
		s.folders = append(s.folders, id)
		if id == trash {
			s.trash = true
		} else {
			s.outside = true
		}
	}
	return s
}
