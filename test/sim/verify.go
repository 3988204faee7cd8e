package sim

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"

	"doublet/cluster"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// settleDown ends the faults and waits until the cluster is complete and idle.
func (w *world) settleDown() {
	w.quiet = true
	w.logf("the trouble is over")
	w.faults.healAll()
	for w.net.Delayed() > 0 {
		w.net.Release(0)
	}
	for _, s := range w.servers {
		s.slow = false
		if s.full > 0 {
			w.faults.makeRoom(s)
		}
		if s.node == nil {
			w.faults.start(s)
		}
	}
	began := w.now
	w.wait("quiet", 300, func() string {
		if wrong := w.whole(); wrong != "" {
			return wrong
		}
		return w.different()
	})
	w.stats.Quiet = w.now.Sub(began)
	for _, s := range w.servers {
		w.stats.TakeOvers += int(s.stat.Counter("Server.Cluster.TakeOvers", "").Value())
		w.stats.HandOvers += int(s.stat.Counter("Server.Cluster.HandOvers", "").Value())
		w.stats.StepDowns += int(s.stat.Counter("Server.Cluster.StepDowns", "").Value())
	}
}

// different compares all replicas of all databases. It returns the first difference, or "".
func (w *world) different() string {
	ids := []note.DatabaseID{cluster.ID, directory.ID}
	if w.browsers {
		ids = append(ids, session.SharedID)
	}
	for _, b := range w.boxes {
		ids = append(ids, b.id)
	}
	// Start with the database that differed last time: usually it still does.
	if i := slices.Index(ids, w.differed); i > 0 {
		ids[0], ids[i] = ids[i], ids[0]
	}
	for _, id := range ids {
		var first *server
		var want string
		for _, s := range w.servers {
			if i, err := s.store.Info(id); err != nil || i.State != layout.InService {
				continue
			}
			got, err := Picture(w.ctx, s.store, id)
			if err != nil {
				return fmt.Sprintf("%s of %s: %v", w.names(id.String()), s.name, err)
			}
			if first == nil {
				first, want = s, got
			} else if got != want {
				w.differed = id
				return fmt.Sprintf("%s differs:\n%s", w.names(id.String()), Difference(first.name, want, s.name, got))
			}
		}
	}
	return ""
}

// Difference returns the lines that two pictures do not share, each with the name of its owner.
func Difference(a, x, b, y string) string {
	one, two := lines(x), lines(y)
	var out bytes.Buffer
	for _, l := range one {
		if _, ok := slices.BinarySearch(two, l); !ok {
			fmt.Fprintf(&out, "  %s: %s\n", a, l)
		}
	}
	for _, l := range two {
		if _, ok := slices.BinarySearch(one, l); !ok {
			fmt.Fprintf(&out, "  %s: %s\n", b, l)
		}
	}
	return out.String()
}

func lines(s string) []string {
	var out []string
	for _, l := range bytes.Split([]byte(s), []byte("\n")) {
		out = append(out, string(l))
	}
	sort.Strings(out)
	return out
}

// Picture returns the data that the replicas of a database share: a line for the ledger, for each folder and for each
// note.
func Picture(ctx context.Context, st *store.Store, id note.DatabaseID) (string, error) {
	var out bytes.Buffer
	err := st.Read(ctx, note.System, id, func(r *store.Reader) error {
		p := r.Position()
		fmt.Fprintf(&out, "ledger %s uid %d validity %d ended %v\n", modText(uint64(p.Last)), p.UID,
			p.LastUIDValidity, p.Ended)
		folders := map[note.ID]note.UNID{}
		var list []string
		for _, f := range r.Folders() {
			folders[f.Note] = f.UNID
			list = append(list, fmt.Sprintf("folder %s %q validity %d next %d total %d deleted %d size %d mod %s",
				f.UNID, f.Name, f.UIDValidity, f.UIDNext, f.Total, f.Deleted, f.Size, modText(uint64(f.Mod))))
		}
		var bad error
		err := r.Notes(1, func(nid note.ID, n *layout.Note) bool {
			c, err := r.Remote(nid)
			if err != nil {
				bad = err
				return false
			}
			members := slices.Clone(n.Members)
			slices.SortFunc(members, func(a, b layout.Membership) int { return cmp.Compare(a.UID, b.UID) })
			line := fmt.Sprintf("note %s class %d mod %s created %s size %d message %x members", n.UNID, n.Class,
				modText(uint64(n.Mod)), modText(uint64(n.Created)), n.Size, c.Message)
			for _, m := range members {
				line += fmt.Sprintf(" %s:%d:%v", folders[m.Folder], m.UID, m.Deleted)
			}
			line += " leaves"
			for _, l := range c.Tree.Leaves() {
				line += " " + l.Rev.String()
			}
			line += fmt.Sprintf(" state %x", note.AppendState(nil, n.State))
			list = append(list, line)
			return true
		})
		slices.Sort(list)
		for _, l := range list {
			fmt.Fprintln(&out, l)
		}
		return errors.Join(err, bad)
	})
	return out.String(), err
}

// presence is the presence of a note in a database.
type presence uint8

const (
	absent presence = iota
	present
	unknown
)

func has(s *server, db note.DatabaseID, u note.UNID) presence {
	out := absent
	err := s.store.Read(s.w.ctx, note.System, db, func(r *store.Reader) error {
		id, err := r.Find(u)
		if err != nil {
			return err
		}
		if _, err = r.Note(id); err == nil {
			out = present
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrGrave) {
		return unknown
	}
	return out
}

// verify checks that every promise was kept.
func (w *world) verify() {
	for _, m := range w.users.mails {
		w.verifyMail(m)
	}
	for _, x := range w.users.edits {
		if x.holds() && has(w.servers[0], directory.ID, x.id) != present {
			w.failf("group %.6s is lost: made at %s", x.id, x.at.name)
		}
	}
	for _, q := range w.users.queued {
		home := w.homes(q.queue)[0]
		if q.holds() && has(home, q.queue.id, q.unid) != present && q.to.expunge == nil &&
			has(w.homes(q.to.box)[0], q.to.box.id, q.to.unid) != present {
			w.failf("queued %.6s for %.6s of %s is neither in the queue nor delivered: accepted at %s, routed %v",
				q.unid, q.to.unid, q.to.box.title, q.at.name, q.routed)
		}
	}
	for _, c := range w.clients {
		c.verify()
	}
}

func (w *world) verifyMail(m *mail) {
	homes := w.homes(m.box)
	if len(homes) != 1 {
		w.failf("%s has %d homes", m.box.title, len(homes))
	}
	there := has(homes[0], m.box.id, m.unid)
	switch {
	case there == unknown:
		w.failf("mail %.6s of %s cannot be read", m.unid, m.box.title)
	case there == absent && m.expunge == nil && m.holds():
		w.failf("mail %.6s of %s is lost: accepted at %s in mode %s, confirmed %v, tick %d", m.unid, m.box.title,
			m.at.name, m.box.ack, m.confirmed, m.tick)
	case there == present && m.expunge != nil && m.expunge.holds() && !m.moved:
		w.failf("mail %.6s of %s is back: it was expunged at %s, confirmed %v", m.unid, m.box.title, m.expunge.at.name,
			m.expunge.confirmed)
	}
	if there != present {
		return
	}
	w.must(homes[0].store.Read(w.ctx, note.System, m.box.id, func(wr *store.Reader) error {
		return w.verifyNote(wr, m)
	}), "read mail")
}

// verifyNote fails if a message is in no folder or lacks a flag.
func (w *world) verifyNote(r *store.Reader, m *mail) error {
	id, err := r.Find(m.unid)
	if err != nil {
		return err
	}
	n, err := r.Note(id)
	if err != nil {
		return err
	}
	if len(n.Members) == 0 {
		w.failf("mail %.6s of %s is in no folder", m.unid, m.box.title)
	}
	for word, p := range m.keywords {
		if !p.holds() {
			continue
		}
		if v, _ := n.State.Get(note.Keyword, word); v != note.On {
			w.failf("flag %s of mail %.6s of %s is lost: set at %s, confirmed %v", word, m.unid, m.box.title,
				p.at.name, p.confirmed)
		}
	}
	return nil
}
