package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"doublet/note"
	"doublet/store/layout"
)

// draft holds what an update has changed so far in one database: notes, and a private copy of the state. Readers see
// none of it before the commit.
type draft struct {
	Reader
	made  map[note.UNID]note.ID // notes that the update created
	order []note.ID             // changed notes, in order of first change
	// private means that st is this draft's own copy.
	private bool
	// infoChanged means that the description of the database changed.
	infoChanged bool
	objects     []*Object   // attachments that the update adds
	graves      []note.UNID // UNIDs of deleted notes that were never here
}

// folderHeads changes the heads of folders. A head is cloned before its first change, because readers share it. The
// UIDVALIDITY that a name has shown never goes down.
type folderHeads struct {
	draft
	cloned   map[note.ID]bool  // heads that are clones
	madeHead bool              // a folder got a head: notes may wait for it
	dropped  []note.ID         // folders removed
	names    map[string]uint32 // the UIDVALIDITY that each name shows now
}

// numbering assigns UIDs and MODSEQs. No other type takes a number from the ledger, so that none is assigned twice.
type numbering struct {
	folderHeads
	// numbers means that this replica assigns numbers: it is not shared, or it leads. Otherwise notes change
	// unnumbered, or as a page of the home's ledger dictates.
	numbers bool
	// leading is the new value of the replica's leadership when the update is applied, or nil if it does not change.
	leading *bool
	renewed bool // the MODSEQs start again
	// gone holds the memberships that ended, and goneMods their MODSEQs. trimmed holds the MODSEQs of those to forget.
	gone     []layout.Change
	goneMods []note.ModSeq
	trimmed  []note.ModSeq
}

// Writer changes one database within an Update. Its methods that read single notes see the changes of the update. Its
// ranges (Members, Notes, Changes, ranks) show the state before it.
type Writer struct {
	numbering
	Peers       Peers
	settlement  settlement
	unconfirmed bool // the update does not wait until a mate has the change
	told        bool // a client is told of numbers that the update assigns
}

func newWriter(s *Store, db *database, who *note.Who) *Writer {
	w := &Writer{}
	w.who, w.snapshot = who, snapshot{s: s, db: db, eng: s.eng}
	w.Peers.d, w.settlement.Writer = &w.draft, w
	return w
}

// txNote is a note that the update changes.
type txNote struct {
	id   note.ID
	orig *layout.Note // nil for a new note
	row  *layout.Note // nil once destroyed
	// before is the content at the start of the update, if it was loaded. content is the new content, if it changed.
	before, content *layout.Content
	leaves          map[note.Revision]*note.Content // leaf rows: nil removes the row
	message         *Message
	// named and wasNamed are the objects that the stored revisions reference, after and before,
	// by their names; named has their digests.
	named     map[note.Digest]note.Digest
	wasNamed  map[note.Digest]bool
	hadLeaves bool
	// renewed assigns new numbers to the note although nothing of it changed; again assigns only a new MODSEQ.
	renewed, again bool
	// given means that the numbers come from the home, or were removed, so settle must not derive them.
	given bool
	// saved means that the note was restored although it is in no folder: an edit wins over a deletion.
	saved bool
}

func (num *numbering) begin() {
	num.st = num.db.cur.Load()
	num.rights = num.st.info.ACL.Rights(num.who)
	num.dirty = make(map[note.ID]*txNote)
	num.numbers = !num.st.counters.Ledger.Shared || num.s.leaders.has(num.db.id)
}

// Home returns ErrNotHome if this replica does not assign numbers.
func (num *numbering) Home() error {
	if !num.numbers {
		return fmt.Errorf("%w: %s", ErrNotHome, num.st.info.Title)
	}
	return nil
}

// Unconfirmed skips the wait for a mate's confirmation of the changes in this database, whatever its acknowledgement
// setting, because no client is told of them. The other databases of the update are confirmed as usual.
func (w *Writer) Unconfirmed() { w.unconfirmed = true }

// AsServer calls fn with the rights of the server, for what follows from a change that the writer may make, in folders
// that nobody may look up. The caller checks the rights.
func (dr *draft) AsServer(fn func() error) error {
	who, rights := dr.who, dr.rights
	dr.who, dr.rights = &note.System, note.All
	defer func() { dr.who, dr.rights = who, rights }()
	return fn()
}

// mutable makes st this writer's own copy, so that it can be changed.
func (dr *draft) mutable() *state {
	if !dr.private {
		st := *dr.st
		dr.st, dr.private = &st, true
	}
	return dr.st
}

// head returns a folder's head for changing.
func (fh *folderHeads) head(id note.ID) (*layout.Folder, error) {
	if fh.st.folder(id) == nil {
		return nil, fmt.Errorf("%w: folder %d", ErrNotFound, id)
	}
	if fh.cloned == nil {
		fh.cloned = make(map[note.ID]bool)
		st := fh.mutable()
		st.folders = slices.Clone(st.folders)
	}
	i, _ := slices.BinarySearchFunc(fh.st.folders, id, func(f *layout.Folder,
		id note.ID) int {
		return cmp.Compare(f.Note, id)
	})
	if !fh.cloned[id] {
		f := *fh.st.folders[i]
		fh.st.folders[i] = &f
		fh.cloned[id] = true
	}
	return fh.st.folders[i], nil
}

// describe replaces the description of the database.
func (dr *draft) describe(info *layout.Info) { dr.mutable().info, dr.infoChanged = info, true }

func (dr *draft) changed() bool { return dr.private || len(dr.order) > 0 }

// change returns a note for changing.
func (dr *draft) change(id note.ID) (*txNote, error) {
	if t, ok := dr.dirty[id]; ok {
		if t.row == nil {
			return nil, ErrNotFound
		}
		return t, nil
	}
	n, err := dr.note(id)
	if err != nil {
		return nil, err
	}
	t := &txNote{id: id, orig: n, row: n.Clone()}
	dr.add(id, t)
	return t, nil
}

func (dr *draft) add(id note.ID, t *txNote) {
	if t.orig == nil {
		if dr.made == nil {
			dr.made = make(map[note.UNID]note.ID)
		}
		dr.made[t.row.UNID] = id
	}
	dr.dirty[id] = t
	dr.order = append(dr.order, id)
}

// need finds a live note that the writer may read, and checks a right on it.
func (w *Writer) need(id note.ID, right, ifOwn note.Rights) (*txNote, error) {
	n, err := w.Note(id)
	if err != nil {
		return nil, err
	}
	if !w.grants(n, right, ifOwn) {
		return nil, ErrDenied
	}
	return w.change(id)
}

// New describes a new note.
type New struct {
	// UNID is chosen at random if it is zero. An existing one causes ErrExists, that of a deleted note ErrGrave.
	UNID    note.UNID
	Class   note.Class // Document if 0
	Content note.Content
	Summary []byte
	// Message is the stored message if the note is mail: see Prepare.
	Message *Message
	Date    int64 // INTERNALDATE, Unix seconds
	Thread  note.UNID
	// Folders are the ids of the folders that the note is put in. A note created in folders is deleted when it leaves
	// the last one. On a replica that is not the home it gets its UIDs later, from the home.
	Folders  []note.ID
	Keywords []string // in canonical spelling
	SeenBy   []note.UNID
	// MarkDeleted creates the memberships with \Deleted set.
	MarkDeleted bool
}

// checkFolders returns an error unless each folder exists, and is named once.
func (w *Writer) checkFolders(folders []note.ID) error {
	for i, f := range folders {
		if _, err := w.folderUNID(f); err != nil {
			return err
		}
		if slices.Contains(folders[:i], f) {
			return fmt.Errorf("%w: folder %d twice", ErrExists, f)
		}
	}
	return nil
}

// Create creates a note and returns its id.
func (w *Writer) Create(n New) (note.ID, error) {
	if n.Class == 0 {
		n.Class = note.Document
	}
	if err := w.mayCreate(&n); err != nil {
		return 0, err
	}
	if err := w.s.space.admit(); err != nil {
		return 0, err
	}
	if n.UNID.IsZero() {
		n.UNID = w.s.UNID()
	} else if id, err := w.findOwn(n.UNID); err == nil {
		return id, ErrExists
	} else if !errors.Is(err, ErrNotFound) {
		return 0, err
	}
	if err := w.checkFolders(n.Folders); err != nil {
		return 0, err
	}
	row := &layout.Note{UNID: n.UNID, Class: n.Class, Date: n.Date, Thread: n.Thread, Author: w.who.Person}
	if n.Message != nil {
		var err error
		if n.Message, err = w.formOf(n.Message); err != nil {
			return 0, err
		}
		n.Content.Message = n.Message.Digest
		row.Size, row.Recipe = n.Message.Size, n.Message.recipe
	}
	tree := note.Tree{{Rev: note.NextRevision(note.Revision{}, n.Class, false, &n.Content)}}
	t := &txNote{row: row, message: n.Message, content: &layout.Content{Tree: tree, Content: n.Content,
		Summary: n.Summary}}
	st := w.mutable()
	id := st.counters.NextNote
	st.counters.NextNote++
	w.add(id, t)
	t.id = id
	at := w.stamp(note.Stamp{})
	for _, k := range n.Keywords {
		row.State = row.State.Set(note.Keyword, k, note.On, at)
	}
	for _, p := range n.SeenBy {
		row.State = row.State.Set(note.Seen, string(p[:]), note.On, at)
	}
	for _, f := range n.Folders {
		if _, err := w.join(t, f, n.MarkDeleted, at); err != nil {
			return 0, err
		}
	}
	return id, nil
}

// findOwn finds a UNID among the rows and among the notes that this update created.
func (dr *draft) findOwn(u note.UNID) (note.ID, error) {
	if id, ok := dr.made[u]; ok {
		return id, nil
	}
	return dr.Find(u)
}

// Made returns the id of a note that this update created.
func (dr *draft) Made(u note.UNID) (note.ID, bool) {
	id, ok := dr.made[u]
	return id, ok
}

func (w *Writer) mayCreate(n *New) error {
	if w.who.System {
		return nil
	}
	right := note.Insert | note.Post
	if n.Class != note.Document {
		right = note.Create
	}
	if len(n.Folders) == 0 {
		if w.rights&right == 0 {
			return ErrDenied
		}
		return nil
	}
	for _, id := range n.Folders {
		granted := w.rights
		if f := w.st.folder(id); f != nil {
			granted = w.FolderRights(f)
		} else if _, err := w.folderUNID(id); err != nil {
			return err
		}
		if granted&right == 0 {
			return ErrDenied
		}
	}
	return nil
}

func (dr *draft) stamp(above note.Stamp) note.Stamp {
	return dr.s.stamp(dr.st.info.Replica, above)
}

// setState writes one state item with a stamp above the one that it replaces. Writing the present value changes
// nothing.
func (dr *draft) setState(t *txNote, kind note.StateKind, key string, value uint8) {
	have, at := t.row.State.Get(kind, key)
	if have == value {
		return
	}
	t.row.State = t.row.State.Set(kind, key, value, dr.stamp(at))
}

func onOff(on bool) uint8 {
	if on {
		return note.On
	}
	return note.Off
}

// SetKeyword sets or clears a keyword, given in canonical spelling.
func (w *Writer) SetKeyword(id note.ID, keyword string, on bool) error {
	t, err := w.need(id, note.Write, note.WriteOwn)
	if err != nil {
		return err
	}
	w.setState(t, note.Keyword, keyword, onOff(on))
	return nil
}

// SetSeen sets or clears the mark that a person has seen a note. The mark is the person's own, so it needs only the
// right to keep it (KeepSeen).
func (w *Writer) SetSeen(id note.ID, person note.UNID, on bool) error {
	if !w.who.System && person != w.who.Person {
		return ErrDenied
	}
	t, err := w.need(id, note.KeepSeen, 0)
	if err != nil {
		return err
	}
	w.setState(t, note.Seen, string(person[:]), onOff(on))
	return nil
}

// Subscribe sets or clears a person's subscription to a folder.
func (w *Writer) Subscribe(folder note.ID, person note.UNID, on bool) error {
	f, err := w.head(folder)
	if err != nil {
		return err
	}
	if w.FolderRights(f)&note.Lookup == 0 {
		return ErrNotFound
	}
	t, err := w.change(folder)
	if err != nil {
		return err
	}
	if t.row.Stub {
		return ErrNotFound
	}
	w.setState(t, note.Subscribed, string(person[:]), onOff(on))
	if !w.numbers {
		return nil
	}
	f.Subscribed = slices.DeleteFunc(slices.Clone(f.Subscribed), func(p note.UNID) bool { return p == person })
	if on {
		f.Subscribed = append(f.Subscribed, person)
	}
	return nil
}

// Rewrite writes a new revision of a note above the winner.
func (w *Writer) Rewrite(id note.ID, c note.Content) error {
	have, err := w.Content(id)
	if err != nil {
		return err
	}
	winner, ok := have.Tree.Winner()
	if !ok {
		return fmt.Errorf("%w: note %d has no revision", ErrDamaged, id)
	}
	_, err = w.Revise(id, winner.Rev, c, nil)
	return err
}

// Put calls Rewrite for the note with this UNID, or creates the note if it does not exist. A note that was deleted for
// good causes ErrGrave.
func (w *Writer) Put(u note.UNID, class note.Class, c note.Content) error {
	id, err := w.Find(u)
	if errors.Is(err, ErrNotFound) {
		_, err = w.Create(New{UNID: u, Class: class, Content: c})
		return err
	}
	if err != nil {
		return err
	}
	return w.Rewrite(id, c)
}

// Revise writes a new revision of a note above parent, which must be a leaf; otherwise it returns ErrConflict. Above
// the winner, the new revision becomes the one that all readers see. Above a leaf that lost, it replaces that leaf.
func (w *Writer) Revise(id note.ID, parent note.Revision, c note.Content, summary []byte) (note.Revision, error) {
	t, err := w.need(id, note.Write, note.WriteOwn)
	if err != nil {
		return note.Revision{}, err
	}
	if err := w.s.space.admit(); err != nil {
		return note.Revision{}, err
	}
	cur, err := w.load(id, t)
	if err != nil {
		return note.Revision{}, err
	}
	base := &cur.Content
	winner, _ := cur.Tree.Winner()
	if winner.Rev != parent {
		if !slices.ContainsFunc(cur.Tree.Conflicts(), func(n note.Node) bool { return n.Rev == parent }) {
			return note.Revision{}, ErrConflict
		}
		if base, err = w.Leaf(id, parent); err != nil {
			return note.Revision{}, err
		}
	}
	c.Message = base.Message
	node := note.Node{Rev: note.NextRevision(parent, t.row.Class, false, &c), Parent: parent,
		Changed: note.Changes(base, &c)}
	w.graft(t, cur, []grown{{node, &c, summary}})
	if w.alone() && len(t.content.Tree) > 2*historyKept {
		// No other replica can still have an older revision.
		t.content.Tree = t.content.Tree.Prune(historyKept)
	}
	return node.Rev, nil
}

// historyKept is the number of revisions of a branch that a database without other replicas keeps.
const historyKept = 50

// load returns a note's content for changing.
func (dr *draft) load(id note.ID, t *txNote) (*layout.Content, error) {
	if t.content != nil {
		return t.content, nil
	}
	c, err := dr.content(id)
	if err != nil {
		return nil, err
	}
	if t.before == nil {
		t.before = c
	}
	return c, nil
}

// grown is a revision to add to a tree, with its content.
type grown struct {
	node    note.Node
	content *note.Content
	summary []byte
}

// leafContents returns the content of every live leaf.
func (dr *draft) leafContents(id note.ID, cur *layout.Content) map[note.Revision]*note.Content {
	contents := map[note.Revision]*note.Content{}
	if win, ok := cur.Tree.Winner(); ok && !win.Deleted {
		contents[win.Rev] = &cur.Content
	}
	for _, n := range cur.Tree.Conflicts() {
		// A leaf whose row is damaged is left out: check reports it, and the winner stays usable.
		if c, err := dr.Leaf(id, n.Rev); err == nil {
			contents[n.Rev] = c
		}
	}
	return contents
}

// graft adds revisions to a note's tree and keeps the content of every live leaf: the winner's in the content row, the
// others' in leaf rows.
func (dr *draft) graft(t *txNote, cur *layout.Content, add []grown) {
	contents := dr.leafContents(t.id, cur)
	next := &layout.Content{Tree: cur.Tree, Summary: cur.Summary}
	for _, g := range add {
		next.Tree = next.Tree.Add(g.node)
		if g.content != nil && !g.node.Deleted {
			contents[g.node.Rev] = g.content
		}
	}
	winner, _ := next.Tree.Winner()
	if c := contents[winner.Rev]; c != nil {
		next.Content = *c
	}
	for _, g := range add {
		if g.node.Rev == winner.Rev && g.summary != nil {
			next.Summary = g.summary
		}
	}
	if t.leaves == nil {
		t.leaves = make(map[note.Revision]*note.Content)
	}
	for _, n := range cur.Tree.Conflicts() {
		t.leaves[n.Rev] = nil
	}
	for _, n := range next.Tree.Conflicts() {
		t.leaves[n.Rev] = contents[n.Rev]
	}
	t.content = next
}

// Destroy deletes a note for good, with all its conflicts. It needs the rights t and e in every folder that the note is
// in.
func (w *Writer) Destroy(id note.ID) error {
	n, err := w.Note(id)
	if err != nil {
		return err
	}
	if !w.mayDestroy(n) {
		return ErrDenied
	}
	t, err := w.change(id)
	if err != nil {
		return err
	}
	if t.row.Class == note.Folder {
		return fmt.Errorf("%w: a folder is deleted with DeleteFolder", ErrDenied)
	}
	for _, m := range slices.Clone(t.row.Members) {
		w.leave(t, m.Folder)
	}
	if !w.numbers && w.leaveAll(t) {
		return nil // only the home writes the deleting revision of a note that was in a folder
	}
	return w.bury(id, t)
}

// leaveAll ends all memberships in a note's state, and reports whether there were any there or among its numbered ones.
func (dr *draft) leaveAll(t *txNote) bool {
	had := len(t.row.Members) > 0
	for _, it := range t.row.State {
		if it.Kind == note.Member && it.Value != note.Off {
			dr.setState(t, note.Member, it.Key, note.Off)
			had = true
		}
	}
	return had
}

// alone reports whether no other replica can hold the database's notes.
func (dr *draft) alone() bool { return len(dr.st.peers) == 0 && !dr.st.counters.Ledger.Shared }

func (w *Writer) mayDestroy(n *layout.Note) bool {
	const both = note.DeleteMark | note.Expunge
	has := func(g note.Rights) bool { return g&both == both || g&note.ExpungeOwn != 0 && w.Reader.own(n) }
	if w.who.System || len(n.Members) == 0 {
		return w.who.System || has(w.rights)
	}
	return !slices.ContainsFunc(n.Members, func(m layout.Membership) bool {
		f := w.st.folder(m.Folder)
		return f == nil || !has(w.FolderRights(f))
	})
}

// bury writes the deleting revision. If a known replica may still hold the note, its deletion stub is kept until that
// replica has passed it. If the database is alone, the note becomes a grave at once.
func (dr *draft) bury(id note.ID, t *txNote) error {
	if dr.alone() {
		t.row = nil
		return nil
	}
	cur, err := dr.load(id, t)
	if err != nil {
		return err
	}
	var add []grown
	empty := note.Content{}
	for _, leaf := range cur.Tree.Leaves() {
		if !leaf.Deleted {
			rev := note.NextRevision(leaf.Rev, t.row.Class, true, &empty)
			add = append(add, grown{node: note.Node{Rev: rev, Parent: leaf.Rev, Deleted: true}})
		}
	}
	dr.graft(t, cur, add)
	t.content.Content, t.content.Summary = note.Content{}, nil
	t.row.Stub = true
	t.dropMessage()
	return nil
}

// dropMessage removes the message from a note.
func (t *txNote) dropMessage() { t.message, t.row.Recipe, t.row.Size = nil, 0, 0 }
