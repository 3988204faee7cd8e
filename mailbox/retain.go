package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"doublet/directory/retention"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// retainScan is the number of notes that Retain reads from one snapshot.
const retainScan = 20_000

// Retention holds the policies of a mail file.
type Retention struct {
	Policies []retention.Policy
	// Spare returns the UNIDs of messages that stay whatever the policies say; a nil Spare returns none.
	Spare func(*Reading) (map[note.UNID]bool, error)
}

// Retained is a message that Retain moves or deletes. It is valid during the call that it is passed to.
type Retained struct {
	*Email
	Policy int // number in Retention.Policies
	// Folders are the full names of the folders that the message is in.
	Folders []string
}

// RetainedSum counts the messages that Retain has moved to the Trash, and those that it has deleted, with their bytes.
type RetainedSum struct {
	Trashed, Deleted           int
	TrashedBytes, DeletedBytes uint64
	// Failed counts the messages that could not be moved or deleted. First is the error of the first one.
	Failed int
	First  error
}

// retaining applies a Retention to messages of one snapshot or update.
type retaining struct {
	*Reading
	x       *Retention
	choose  *retention.Chooser
	folders []retention.Folder
	number  map[note.ID]int // of a folder in folders
	bins    []*layout.Folder
	spared  map[note.UNID]bool
	now     int64
}

// retaining returns nil if a hold of the mail file is on.
func (d *Reading) retaining(x *Retention) (*retaining, error) {
	on, err := Held(d.r)
	if on || err != nil {
		return nil, err
	}
	t := &retaining{Reading: d, x: x, number: map[note.ID]int{}, bins: bins(d.r), now: d.f.svc.env.Clock.Now().Unix()}
	t.list()
	t.choose = retention.NewChooser(x.Policies, t.folders)
	if x.Spare != nil {
		t.spared, err = x.Spare(d)
	}
	return t, err
}

// list lists the folders of mail with their uses. A standard folder without its special use has it by its name.
func (t *retaining) list() {
	uses := map[note.ID]string{}
	for _, use := range append([]string{UseSnoozed}, Uses...) {
		if id, err := FindUse(t.r, use); err == nil {
			uses[id] = use
		}
	}
	trash := UseTrash
	for _, h := range t.r.AllFolders() {
		if !ofMail(h) {
			continue
		}
		f := retention.Folder{Name: h.Name, Use: h.SpecialUse}
		if use := uses[h.Note]; use != "" {
			f.Use = use
		}
		f.Spared = f.Use == UseDrafts || f.Use == UseSnoozed
		if f.Use == UseTrash {
			f.Trash, trash = true, f.Name
		}
		t.number[h.Note] = len(t.folders)
		t.folders = append(t.folders, f)
	}
	for i := range t.folders {
		f := &t.folders[i]
		f.Trash = f.Trash || strings.HasPrefix(f.Name, trash+"/")
	}
}

// due returns the policy that acts on a message now; ok is false if the message stays.
func (t *retaining) due(n *layout.Note) (out retention.Choice, places []retention.Place, ok bool) {
	if !isMessage(n) || n.Date > t.choose.Newest(t.now) || t.spared[n.UNID] || hasKeyword(n, Draft) ||
		hasKeyword(n, ReminderKeyword) {
		return out, nil, false
	}
	for i := range n.Members {
		m := &n.Members[i]
		if at, known := t.number[m.Folder]; known {
			places = append(places, retention.Place{Folder: at, Since: m.Saved})
		} else if !t.binned(m.Folder) {
			return out, nil, false // no folder of mail, or one that is being deleted
		}
	}
	out, ok = t.choose.Choose(t.message(n, places))
	return out, places, ok && out.Due <= t.now
}

// keeps reports whether a policy keeps a deleted message, which is in a bin alone: by the folders that it goes back to,
// and by those that it was in last, which may be the Trash or deleted folders. Days in the Trash count from the time at
// which it left the Trash, because the time at which it came there is not known any more.
func (t *retaining) keeps(n *layout.Note, bin *layout.Folder) bool {
	if len(t.x.Policies) == 0 {
		return false
	}
	in, _ := n.Member(bin.Note)
	var places []retention.Place
	for _, h := range origin(t.r, n, bin) {
		places = append(places, retention.Place{Folder: t.number[h.Note]})
	}
	_, began := n.State.Get(note.Member, string(bin.UNID[:]))
	var last note.Stamp // at which it left the last folder other than the Trash
	gone := false       // that folder was deleted
	for _, it := range n.State {
		if it.Kind != note.Member || it.Value != note.Off {
			continue
		}
		at, ok := t.place(it.Key)
		if !ok {
			continue
		}
		if began.Less(it.Stamp) {
			places = append(places, retention.Place{Folder: at, Since: in.Saved})
		}
		if last.Less(it.Stamp) && (at == retention.Gone || !t.folders[at].Trash) {
			last, gone = it.Stamp, at == retention.Gone
		}
	}
	if gone {
		places = append(places, retention.Place{Folder: retention.Gone})
	}
	return t.choose.KeptUntil(t.message(n, places)) > t.now
}

// place returns the number of the folder with a UNID, retention.Gone if it was deleted or is being deleted. ok is false
// for a folder that is not one of mail.
func (t *retaining) place(unid string) (at int, ok bool) {
	for _, h := range t.r.AllFolders() {
		if string(h.UNID[:]) == unid && !strings.HasPrefix(h.Name, doomed) {
			at, ok = t.number[h.Note]
			return at, ok
		}
	}
	return retention.Gone, true
}

// message returns the properties of a message that policies test.
func (t *retaining) message(n *layout.Note, places []retention.Place) *retention.Message {
	return &retention.Message{Delivered: n.Date, Flagged: hasKeyword(n, Flagged), Places: places,
		Labelled: func(k string) bool { return hasKeyword(n, k) }}
}

func (t *retaining) binned(folder note.ID) bool {
	for _, h := range t.bins {
		if h.Note == folder {
			return true
		}
	}
	return false
}

// EachRetained calls fn for the messages that Retain would move or delete now, in order of arrival. It reports a hold,
// during which there are none.
func (s *Service) EachRetained(ctx context.Context, db note.DatabaseID, x *Retention,
	fn func(*Retained) error) (hold bool, err error) {
	for from := note.ID(0); err == nil; {
		if from, hold, err = s.eachRetained(ctx, db, x, from, fn); from == 0 {
			break
		}
	}
	return hold, err
}

// eachRetained looks at retainScan notes from one on, and returns the next one; 0 if there is none.
func (s *Service) eachRetained(ctx context.Context, db note.DatabaseID, x *Retention, from note.ID,
	fn func(*Retained) error) (next note.ID, hold bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	err = s.File(note.System, db).Read(ctx, func(d *Reading) error {
		t, err := d.retaining(x)
		if hold = err == nil && t == nil; hold || err != nil {
			return err
		}
		seen := 0
		var inner error
		err = d.r.Notes(from, func(id note.ID, n *layout.Note) bool {
			if seen++; seen > retainScan {
				next = id
				return false
			}
			if choice, places, ok := t.due(n); ok {
				inner = fn(&Retained{&Email{ID: id, d: d, row: n}, choice.Policy, t.names(places)})
			}
			return inner == nil
		})
		return errors.Join(err, inner)
	})
	return next, hold, err
}

func (t *retaining) names(places []retention.Place) []string {
	out := make([]string, len(places))
	for i := range places {
		out[i] = t.folders[places[i].Folder].Name
	}
	return out
}

// Retain moves and deletes the messages of a mail file whose time is over. Each update holds a bounded number of them,
// and tests each again, so Retain may end anywhere and be repeated. It does nothing at a replica that is not the
// primary, and nothing during a hold. It returns what is done, also with an error. A message that fails stays, and does
// not stop the others.
func (s *Service) Retain(ctx context.Context, db note.DatabaseID, x *Retention) (sum RetainedSum, err error) {
	for from, more := note.ID(0), true; more; {
		if !s.store.Leads(db) {
			return sum, nil
		}
		var part []note.ID
		next, hold, err := s.eachRetained(ctx, db, x, from, func(m *Retained) error {
			part = append(part, m.ID)
			return nil
		})
		if hold || err != nil {
			return sum, err
		}
		for len(part) > 0 {
			some := part[:min(batch, len(part))]
			part = part[len(some):]
			err := s.retainSome(ctx, db, x, some, &sum)
			if errors.Is(err, store.ErrNotHome) { // another server leads it since a moment ago
				return sum, nil
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return sum, err
			}
		}
		from, more = next, next != 0
	}
	return sum, nil
}

// retainSome applies the policies to some messages in one update.
func (s *Service) retainSome(ctx context.Context, db note.DatabaseID, x *Retention, ids []note.ID,
	sum *RetainedSum) error {
	var in *Changing
	var t *retaining
	done := make([]RetainedSum, len(ids))
	res, err := s.File(note.System, db).Change(ctx, len(ids), func(c *Changing, i int) (err error) {
		done[i] = RetainedSum{}
		if in != c {
			if t, err = c.retaining(x); err != nil {
				return store.Abort(err)
			}
			in = c
		}
		if t != nil {
			done[i], err = t.apply(c, ids[i])
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("mailbox: retention of %s: %w", db, err)
	}
	for i, failed := range res.Errs {
		if failed != nil {
			done[i] = RetainedSum{Failed: 1, First: fmt.Errorf("retention of message %d of %s: %w", ids[i], db, failed)}
		}
		sum.Add(&done[i])
	}
	return nil
}

// Add adds the messages of another sum.
func (x *RetainedSum) Add(y *RetainedSum) {
	x.Trashed += y.Trashed
	x.Deleted += y.Deleted
	x.TrashedBytes += y.TrashedBytes
	x.DeletedBytes += y.DeletedBytes
	x.Failed += y.Failed
	x.First = cmp.Or(x.First, y.First)
}

// apply moves or deletes one message, if that is still due.
func (t *retaining) apply(c *Changing, id note.ID) (sum RetainedSum, err error) {
	n, err := c.w.Note(id)
	if err != nil {
		return sum, ignoreGone(err)
	}
	choice, _, ok := t.due(n)
	if !ok {
		return sum, nil
	}
	if t.x.Policies[choice.Policy].Action == retention.Delete {
		return RetainedSum{Deleted: 1, DeletedBytes: n.Size}, c.Destroy(id)
	}
	trash, err := c.ForUse(UseTrash)
	if err != nil {
		return sum, err
	}
	var leaves []note.UNID
	for _, m := range n.Members {
		if _, known := t.number[m.Folder]; !known {
			continue
		}
		h, err := c.w.Folder(m.Folder)
		if err != nil {
			return sum, err
		}
		if h.UNID != trash {
			leaves = append(leaves, h.UNID)
		}
	}
	return RetainedSum{Trashed: 1, TrashedBytes: n.Size}, c.SetFolders(id, []note.UNID{trash}, leaves)
}
