package store_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store"
	"doublet/store/check"
	"doublet/store/layout"
)

// A clusterWorld is a database with a replica in each of several stores, and a network between them that loses pages,
// delivers them twice, and delivers old ones.

// show prints a note's state at a node.
func (x *clusterNode) show(u note.UNID) (text string) {
	x.read(func(r *store.Reader) error {
		id, err := r.Find(u)
		if err != nil {
			text = err.Error()
			return nil
		}
		in, err := r.Remote(id)
		x.w.must(err)
		text = fmt.Sprintf("%s class %v foldered %v void %v tree %v", u, in.Class, in.Foldered, in.Void, in.Tree)
		for _, it := range in.State {
			text += fmt.Sprintf(" %d:%x=%d@%d", it.Kind, it.Key, it.Value, it.Stamp.Time)
		}
		row, err := r.Row(id)
		if err != nil {
			text += " stub"
			return nil
		}
		text += fmt.Sprintf(" seq %d mod %x created %x unnumbered %v members %v", row.Seq, uint64(row.Mod),
			uint64(row.Created), row.Unnumbered, row.Members)
		return nil
	})
	return text
}

func (x *clusterNode) unnumbered() (n int) {
	x.read(func(r *store.Reader) error {
		c, err := r.Replicable(store.ChangeQuery{Limit: 1 << 20, Max: 1 << 30})
		n = len(c.Notes)
		return err
	})
	return n
}

func (x *clusterNode) check() {
	x.w.t.Helper()
	rep, err := check.Run(x.w.ctx, x.s, check.Options{Deep: true})
	x.w.must(err)
	for i, f := range rep.Findings {
		if i < 10 {
			x.w.t.Errorf("node %d: %v", x.i, f)
		}
	}
}

// picture returns everything on which replicas at rest must agree, by subject. Expunges are compared above the highest
// floor of all replicas.
func (x *clusterNode) picture(floor note.ModSeq) map[string]string {
	out := map[string]string{}
	x.read(func(r *store.Reader) error {
		folders := map[note.ID]note.UNID{}
		for _, f := range r.Folders() {
			folders[f.Note] = f.UNID
			seen := map[note.UNID]uint32{}
			for _, s := range f.Seen {
				seen[s.Person] = s.Count
			}
			sub := slices.SortedFunc(slices.Values(f.Subscribed), note.UNID.Compare)
			out["folder "+f.UNID.String()] = fmt.Sprint(f.Name, f.SpecialUse, f.UIDValidity, f.UIDNext, f.Total,
				f.Deleted, f.Size, f.Mod, seen, sub, f.HasACL, f.ACL)
		}
		x.w.must(r.Since(0, func(_ uint64, id note.ID) bool {
			in, err := r.Remote(id)
			x.w.must(err)
			row, err := r.Note(id)
			if errors.Is(err, store.ErrNotFound) {
				return true // a deletion stub: each replica keeps it for a time of its own
			}
			x.w.must(err)
			text := fmt.Sprint(row.Mod, row.Created, in.Tree.Leaves(), in.State, in.Size, sha256.Sum256(in.Message),
				in.Foldered, in.Class, in.Date, in.Author, in.Thread)
			for _, l := range in.Tree.Leaves() {
				text += fmt.Sprint(in.Contents[l.Rev])
			}
			for _, m := range row.Members {
				text += fmt.Sprint(folders[m.Folder], m.UID, m.Saved, m.Deleted)
			}
			out["note "+in.UNID.String()] = text
			return true
		}))
		x.w.must(r.Changes(0, func(mod note.ModSeq, c layout.Change) bool {
			if c.Expunged && mod <= floor {
				return true
			}
			if c.Expunged {
				out[fmt.Sprintf("mod %x", uint64(mod))] = fmt.Sprint(c.UNID, folders[c.Folder], c.UID, c.Gone, c.Time,
					c.Class, c.Thread, c.Created)
			} else if row, err := r.Note(c.Note); err == nil {
				out[fmt.Sprintf("mod %x", uint64(mod))] = row.UNID.String()
			} else {
				x.w.t.Errorf("node %d: MODSEQ %x is of note %d, which is not: %v", x.i, uint64(mod), c.Note, err)
			}
			return true
		}))
		p := r.Position()
		c, i := r.Counters(), r.Info()
		out["ledger"] = fmt.Sprint(p.Last, p.UID, p.Ended, p.Epoch, p.LastUIDValidity, c.Notes, c.Size)
		out["info"] = fmt.Sprint(i.Title, i.Owner, i.Quota, i.Warning, i.ACL, i.Ack, i.NoFullText, i.Stamp,
			i.Mod)
		return nil
	})
	return out
}

// compare compares all replicas with each other.
func (w *clusterWorld) compare() {
	w.t.Helper()
	floor := note.ModSeq(0)
	for _, x := range w.nodes {
		x.read(func(r *store.Reader) error { floor = max(floor, r.Counters().Floor); return nil })
	}
	want := w.nodes[0].picture(floor)
	for _, x := range w.nodes[1:] {
		got, n := x.picture(floor), 0
		for k := range got {
			if want[k] != got[k] && n < 8 {
				w.t.Errorf("%s: node 0 has %s\nnode %d has %s", k, want[k], x.i, got[k])
				n++
			}
		}
		for k := range want {
			if got[k] == "" && n < 8 {
				w.t.Errorf("%s: node 0 has %s, node %d has it not", k, want[k], x.i)
				n++
			}
		}
	}
	for _, x := range w.nodes {
		x.check()
	}
}
