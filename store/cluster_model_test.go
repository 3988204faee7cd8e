package store_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// The cluster model test does random operations at the replicas of a database. Some replicas lead, some follow. Pages
// get lost, or arrive twice or late; nodes crash; the network splits and heals; homes (primary replicas) are taken over
// and handed over. Meanwhile caching clients synchronize with the leaders, and must end with the leader's state. At
// rest all replicas must be equal, nothing that was acknowledged may be missing, and nothing that was deleted may be
// back.

type clusterModel struct {
	*clusterWorld
	troubles int // the number of kinds of trouble
	notes    []*fate
	left     map[leaving]bool // what was removed from a folder
	clients  []*cachingClient
	// shown holds the UIDs that any leader ever showed.
	shown   map[string]string
	folders int
}

// fate is the expected end state of a note.
type fate struct {
	unid note.UNID
	mail bool
	// kept holds the latest stamps by which a client put it into a folder, by folder; revs holds all revisions of its
	// content.
	kept map[string]note.Stamp
	revs map[note.Revision]bool
	// removable means that a client removed it from a folder or destroyed it. dead means that this client knew of
	// everything that keeps the note.
	removable, dead bool
}

func (m *clusterModel) node() *clusterNode { return m.nodes[m.rng.IntN(len(m.nodes))] }

// some returns a random live note of a node.
func (m *clusterModel) some(x *clusterNode, mail bool) (f *fate, id note.ID) {
	for range 5 {
		if len(m.notes) == 0 {
			return nil, 0
		}
		f := m.notes[m.rng.IntN(len(m.notes))]
		if f.mail != mail {
			continue
		}
		found := false
		x.read(func(r *store.Reader) (err error) {
			if id, err = r.Find(f.unid); err == nil {
				_, err = r.Note(id)
				found = err == nil
			}
			return ignore(ignore(err, store.ErrNotFound), store.ErrGrave)
		})
		if found {
			return f, id
		}
	}
	return nil, 0
}

// folder returns a random folder of a node.
func (m *clusterModel) folder(x *clusterNode) (f *layout.Folder) {
	x.read(func(r *store.Reader) error {
		if l := r.Folders(); len(l) > 0 {
			f = l[m.rng.IntN(len(l))]
		}
		return nil
	})
	return f
}

// keeps records, within the update, what keeps a note alive.
func (m *clusterModel) keeps(w *store.Writer, f *fate, id note.ID) error {
	in, err := w.Remote(id)
	if err != nil {
		return err
	}
	for _, it := range in.State {
		if it.Kind == note.Member && it.Value != note.Off && f.kept[it.Key].Less(it.Stamp) {
			f.kept[it.Key] = it.Stamp
			f.dead = false
		}
	}
	for _, n := range in.Tree {
		if !n.Deleted && !f.revs[n.Rev] {
			f.revs[n.Rev], f.dead = true, false
		}
	}
	return nil
}

// ends records, within the update, whether a note that has left every folder is gone for good.
func (m *clusterModel) ends(w *store.Writer, f *fate, before *store.Remote) {
	f.removable = true
	knows := true
	for key, at := range f.kept {
		_, have := before.State.Get(note.Member, key)
		knows = knows && !have.Less(at)
	}
	for rev := range f.revs {
		_, have := before.Tree.Node(rev)
		knows = knows && have
	}
	f.dead = f.dead || knows
}

func (m *clusterModel) deliver(x *clusterNode) {
	h := m.folder(x)
	if h == nil {
		return
	}
	f := &fate{unid: x.s.UNID(), mail: true, kept: map[string]note.Stamp{}, revs: map[note.Revision]bool{}}
	if m.rng.IntN(6) == 0 && len(m.notes) > 0 { // the same delivery on another server
		if old := m.notes[m.rng.IntN(len(m.notes))]; old.mail {
			f = old
		}
	}
	msg := x.message(f.unid)
	defer msg.Release()
	err := x.try(func(w *store.Writer) error {
		id, err := w.Create(store.New{UNID: f.unid, Message: msg, Content: items(f.unid.String()),
			Folders: []note.ID{h.Note}, Date: 7, Thread: f.unid})
		if err == nil {
			err = m.keeps(w, f, id)
		}
		return err
	})
	if errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrGrave) {
		return
	}
	m.must(err)
	m.tell("deliver %s at %d into %s", f.unid, x.i, h.Name)
	if !slices.Contains(m.notes, f) {
		m.notes = append(m.notes, f)
	}
}

func (m *clusterModel) document(x *clusterNode) {
	f := &fate{unid: x.s.UNID(), kept: map[string]note.Stamp{}, revs: map[note.Revision]bool{}}
	c := items("document")
	var o *store.Object
	if m.rng.IntN(3) == 0 {
		var err error
		o, err = x.s.Attach(m.ctx, fmt.Appendf(nil, "attachment %d", m.rng.IntN(3)))
		m.must(err)
		defer o.Release()
		c.Attachments = []note.Attachment{{Name: "a", Digest: o.Digest, Size: o.Size}}
	}
	x.update(func(w *store.Writer) error {
		if o != nil {
			w.Keep(o)
		}
		id, err := w.Create(store.New{UNID: f.unid, Content: c})
		if err == nil {
			err = m.keeps(w, f, id)
		}
		return err
	})
	m.notes = append(m.notes, f)
}

func (m *clusterModel) edit(x *clusterNode) {
	f, id := m.some(x, false)
	if f == nil {
		return
	}
	x.update(func(w *store.Writer) error {
		c, err := w.Content(id)
		if err != nil {
			return err
		}
		next := c.Content
		m.n++
		next.Items = next.Items.With(fmt.Sprint("I", m.rng.IntN(3)), note.Int(int64(m.n)))
		if _, err := w.Revise(id, c.Tree.Leaves()[0].Rev, next, nil); err != nil {
			return err
		}
		return m.keeps(w, f, id)
	})
}

func (m *clusterModel) destroy(x *clusterNode) {
	f, id := m.some(x, m.rng.IntN(2) == 0)
	if f == nil {
		return
	}
	x.update(func(w *store.Writer) error {
		before, err := w.Remote(id)
		if err != nil {
			return err
		}
		m.ends(w, f, before)
		m.tell("destroy %s at %d, dead %v", f.unid, x.i, f.dead)
		return w.Destroy(id)
	})
}

func (m *clusterModel) flags(x *clusterNode) {
	f, id := m.some(x, m.rng.IntN(4) > 0)
	if f == nil {
		return
	}
	k, p, on := fmt.Sprint("k", m.rng.IntN(3)), persons[m.rng.IntN(2)], m.rng.IntN(2) == 0
	x.update(func(w *store.Writer) error {
		return errors.Join(w.SetKeyword(id, k, on), w.SetSeen(id, p, !on))
	})
}

func (m *clusterModel) mark(x *clusterNode) {
	f, id := m.some(x, true)
	h := m.folder(x)
	if f == nil || h == nil {
		return
	}
	m.must(ignore(x.try(func(w *store.Writer) error {
		err := w.MarkDeleted(id, h.Note, m.rng.IntN(3) > 0)
		if err == nil {
			err = m.keeps(w, f, id)
		}
		return err
	}), store.ErrNotFound))
}

// move copies a note into another folder, or moves it there.
func (m *clusterModel) move(x *clusterNode) {
	f, id := m.some(x, true)
	to := m.folder(x)
	if f == nil || to == nil {
		return
	}
	m.tell("move %s at %d to %s", f.unid, x.i, to.Name)
	x.update(func(w *store.Writer) error {
		before, err := w.Remote(id)
		if err != nil {
			return err
		}
		if _, err := w.AddTo(id, to.Note); err != nil {
			return ignore(err, store.ErrExists)
		}
		if m.rng.IntN(3) > 0 {
			for _, h := range w.Folders() {
				if v, _ := before.State.Get(note.Member, string(h.UNID[:])); v != note.Off && h.UNID != to.UNID {
					if err := ignore(w.RemoveFrom(id, h.Note), store.ErrNotFound); err != nil {
						return err
					}
					f.removable, m.left[leaving{f.unid.String(), h.UNID}] = true, true
				}
			}
		}
		return m.keeps(w, f, id)
	})
}

// expunge removes a note from one folder.
func (m *clusterModel) expunge(x *clusterNode) {
	f, id := m.some(x, true)
	h := m.folder(x)
	if f == nil || h == nil {
		return
	}
	m.must(ignore(x.try(func(w *store.Writer) error {
		before, err := w.Remote(id)
		if err != nil {
			return err
		}
		live := 0
		for _, it := range before.State {
			if it.Kind == note.Member && it.Value != note.Off {
				live++
			}
		}
		if err := w.RemoveFrom(id, h.Note); err != nil {
			return err
		}
		m.left[leaving{f.unid.String(), h.UNID}] = true
		if f.removable = true; live == 1 {
			m.ends(w, f, before)
		}
		m.tell("expunge %s at %d from %s, dead %v", f.unid, x.i, h.Name, f.dead)
		return nil
	}), store.ErrNotFound))
}

func (m *clusterModel) folderWork(x *clusterNode) {
	// A follower lists a folder that was deleted there until its home has ended it.
	deletedHere := store.ErrNotFound
	if x.leads() {
		deletedHere = nil
	}
	m.folders++
	h := m.folder(x)
	op := m.rng.IntN(5)
	if h != nil {
		m.tell("folder op %d at %d on %s", op, x.i, h.Name)
	}
	switch {
	case op < 2 || h == nil:
		name := fmt.Sprint("F", m.rng.IntN(5))
		m.must(ignore(x.try(func(w *store.Writer) error {
			_, err := w.CreateFolder(name, "")
			return err
		}), store.ErrExists))
	case op == 2 && h.Name != "INBOX":
		name := fmt.Sprint("F", m.rng.IntN(5))
		m.must(ignore(ignore(x.try(func(w *store.Writer) error { return w.RenameFolder(h.Note, name) }),
			store.ErrExists), deletedHere))
	case op == 3:
		person, on, acl := persons[m.rng.IntN(2)], m.rng.IntN(2) == 0, []*note.ACL{nil,
			{Default: note.Reader}}[m.rng.IntN(2)]
		m.must(ignore(x.try(func(w *store.Writer) error {
			if err := w.Subscribe(h.Note, person, on); err != nil {
				return err
			}
			return w.SetFolderACL(h.Note, acl)
		}), deletedHere))
	case op == 4 && h.Name != "INBOX":
		m.must(ignore(x.try(func(w *store.Writer) error { return w.DeleteFolder(h.Note) }), store.ErrExists))
	}
}

func (m *clusterModel) info(x *clusterNode) {
	m.n++
	m.tell("title %d at %d", m.n, x.i)
	m.must(x.s.SetInfo(note.System, m.db, func(i *layout.Info) {
		i.Title, i.NoFullText = fmt.Sprint("title ", m.n), m.n%2 == 0
	}))
}

// work does a random operation at a node.
func (m *clusterModel) work(x *clusterNode) {
	switch op := m.rng.IntN(30); {
	case op < 9:
		m.deliver(x)
	case op < 13:
		m.flags(x)
	case op < 15:
		m.mark(x)
	case op < 18:
		m.move(x)
	case op < 21:
		m.expunge(x)
	case op < 23:
		m.document(x)
	case op < 25:
		m.edit(x)
	case op == 25:
		m.destroy(x)
	case op < 28:
		m.folderWork(x)
	case op == 28:
		m.info(x)
	case op == 29:
		m.must(x.s.Maintain(m.ctx, m.db))
	}
}

// trouble does something to the cluster.
func (m *clusterModel) trouble() {
	defer func() {
		text := ""
		for _, x := range m.nodes {
			text += fmt.Sprint(" ", x.group, ":", x.at())
		}
		m.tell("trouble:%s", text)
	}()
	switch m.rng.IntN(m.troubles) {
	case 8:
		m.age()
	case 9:
		x := m.node()
		if x.saved == nil {
			x.saved = x.f.Crash(0, m.rng.Uint64())
			return
		}
		m.restore(x)
	case 0: // the network splits
		for _, x := range m.nodes {
			x.group = m.rng.IntN(2)
		}
		m.elect(0)
		m.elect(1)
	case 1: // it heals
		for _, x := range m.nodes {
			x.group = 0
		}
	case 2:
		x := m.node()
		x.crash()
		if m.rng.IntN(2) == 0 {
			m.elect(x.group)
		}
	case 3:
		m.handOver()
	case 4: // a home is lost, or considered lost
		if x := m.leader(0); x != nil {
			x.group = 2
			m.elect(0)
		}
	default:
		m.elect(0)
		m.elect(1)
	}
}

// age lets a home forget expunges.
func (m *clusterModel) age() {
	x := m.leader(0)
	if x == nil {
		return
	}
	m.tell("forget: %s", x.at())
	x.forget()
	m.must(x.s.Lead(m.ctx, m.db, store.LeadOptions{}))
}

// restore resets a node to its backup. Everything that no other node has is lost, including the knowledge of deletions.
func (m *clusterModel) restore(x *clusterNode) {
	for _, f := range m.notes {
		f.dead = false
		elsewhere := false
		for _, y := range m.nodes {
			if y != x {
				y.read(func(r *store.Reader) error {
					_, err := r.Find(f.unid)
					elsewhere = elsewhere || err == nil
					return nil
				})
			}
		}
		f.removable = f.removable || !elsewhere
	}
	x.restore()
	m.stale = nil // their sender no longer exists in this state
}

func (m *clusterModel) handOver() {
	x, y := m.leader(0), m.node()
	if x == nil || x == y || y.group != 0 || y.leads() {
		return
	}
	for range 20 {
		if x.sendLedger(y, 4) {
			break
		}
	}
	m.tell("hand over %s to %s", x.at(), y.at())
	m.must(x.s.Follow(m.ctx, m.db))
	at := x.position()
	if p := y.position(); p.Last != at.Last || p.Partial {
		if err := y.s.Lead(m.ctx, m.db, store.LeadOptions{HandOver: &at}); !errors.Is(err, store.ErrBehind) {
			m.t.Fatalf("a replica that is behind was made home: %v", err)
		}
		return
	}
	m.must(y.s.Lead(m.ctx, m.db, store.LeadOptions{HandOver: &at}))
	if p := y.position(); p.Skip != at.Skip && p.UID <= at.UID {
		m.t.Fatalf("the open block did not go on: %+v after %+v", p, at)
	}
}

// verify checks that every note has its expected fate, at rest.
func (m *clusterModel) verify(home *clusterNode) {
	m.t.Helper()
	home.read(func(r *store.Reader) error {
		for _, f := range m.notes {
			id, err := r.Find(f.unid)
			var row *layout.Note
			if err == nil {
				row, err = r.Note(id)
			}
			live := err == nil
			m.must(ignore(ignore(err, store.ErrNotFound), store.ErrGrave))
			switch {
			case live && f.dead:
				m.t.Errorf("note %s was deleted and is back: %+v", f.unid, row)
			case !live && !f.removable:
				m.t.Errorf("note %s was acknowledged, nobody removed it, and it is gone: %v", f.unid, err)
			case live && f.mail && len(row.Members) == 0:
				m.t.Errorf("note %s is nowhere to be seen: %+v", f.unid, row)
			case live && f.mail:
				st, err := r.Message(row)
				m.must(err)
				b, err := st.AppendRange(nil, 0, math.MaxInt64)
				if err != nil || !slices.Equal(b[:len("Subject: ")+32], []byte("Subject: "+f.unid.String())) {
					m.t.Errorf("note %s has another message: %v", f.unid, err)
				}
			}
		}
		names := map[string]bool{}
		for _, h := range r.Folders() {
			if names[h.Name] {
				m.t.Errorf("two folders are named %s", h.Name)
			}
			names[h.Name] = true
		}
		return nil
	})
	for _, c := range m.clients {
		m.sync(c, home)
		home.read(func(r *store.Reader) error {
			h, err := r.FolderNamed(c.folder)
			if err != nil {
				return ignore(err, store.ErrNotFound)
			}
			for uid, text := range m.contents(r, h) {
				// A note that was moved out and back on the side of a split that does not survive keeps its UID there
				// (doc/cluster.md).
				unid, _, _ := strings.Cut(text, " ")
				if !c.plain[uid] && !m.left[leaving{unid, h.UNID}] {
					m.t.Errorf("%s: a client that goes by UIDNEXT, %d, has never been told of UID %d", c.folder,
						c.next, uid)
				}
			}
			return nil
		})
	}
}

// list compares the listings of every node with its rows, and puts all members into memory for the next step.
func (m *clusterModel) list() {
	for _, x := range m.nodes {
		if _, err := store.CompareListings(x.s, m.db); err != nil {
			m.t.Errorf("%s: %v", x.at(), err)
		}
		m.must(store.ListAll(x.s, m.db))
	}
}

func (m *clusterModel) step() {
	m.clock.Advance(time.Duration(m.rng.IntN(3000)) * time.Millisecond)
	switch op := m.rng.IntN(40); {
	case op < 16:
		m.work(m.node())
	case op < 32:
		m.node().replicate(m.node())
	case op < 34:
		if info, err := m.nodes[0].s.Info(m.db); err == nil && !info.Queue { // without graves a late note is a new one
			m.stray()
		}
	case op < 39:
		if x := m.node(); x.leads() {
			m.sync(m.clients[m.rng.IntN(len(m.clients))], x)
		}
	default:
		m.trouble()
	}
}

func TestClusterModel(t *testing.T) {
	t.Parallel()
	runs := slices.Clone(clusterFinds)
	for seed := range uint64(clusterSeeds) {
		runs = append(runs, clusterRun{seed: seed, troubles: clusterTroubles, keyed: seed%4 == 3})
	}
	for seed := range uint64(clusterEncrypted) {
		runs = append(runs, clusterRun{seed: seed, troubles: clusterTroubles, encrypted: true})
	}
	for _, run := range runs {
		seed := run.seed
		name := fmt.Sprintf("seed %d of %d troubles", seed, run.troubles)
		if run.encrypted {
			name += ", encrypted"
		}
		if run.keyed {
			name += ", keys"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			queue := seed%5 == 4
			m := &clusterModel{clusterWorld: newClusterWorldOf(t, 2+int(seed%3), seed, queue, run.encrypted),
				troubles: run.troubles, shown: map[string]string{}, left: map[leaving]bool{}}
			for _, name := range []string{"INBOX", "INBOX", "A", "B", "F0", "F1"} {
				m.clients = append(m.clients, &cachingClient{folder: name, cache: map[uint32]string{},
					plain: map[uint32]bool{}})
			}
			m.lossy = true
			for range 3 {
				m.lossy = true
				for range 150 {
					if run.keyed && m.rng.IntN(20) == 0 {
						m.rekey(m.node())
					}
					m.step()
					if m.list(); t.Failed() {
						return
					}
				}
				home := m.settle()
				m.list()
				m.verify(home)
				if m.compare(); t.Failed() {
					return
				}
			}
		})
	}
}

// clusterSeeds bounds the time of the test; a greater number covers more. clusterTroubles is 8 for the properties that
// must hold. With 9 (forgotten expunges) or 10 (also replicas restored from a backup) they do not hold for all seeds.
// Of 1,500 seeds, seed 662 fails in a case that doc/cluster.md excludes; the others fail because expunges were
// forgotten during a split.
const (
	clusterSeeds     = 12
	clusterEncrypted = 3 // seeds with encryption at rest
	clusterTroubles  = 8
)

// clusterRun is a run of the model.
type clusterRun struct {
	seed     uint64
	troubles int // the number of kinds of trouble
	// encrypted encrypts the files of each node. keyed gives replicas keys of their own, and takes them away.
	encrypted, keyed bool
}

// clusterFinds lists runs that have found bugs.
var clusterFinds = []clusterRun{{seed: 118, troubles: 8}, {seed: 257, troubles: 8}, {seed: 1204, troubles: 9},
	{seed: 164, troubles: 9}, {seed: 1133, troubles: 9}, {seed: 122, troubles: 9}}
