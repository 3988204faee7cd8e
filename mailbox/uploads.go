package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/note"
	"doublet/store"
)

// An upload is a profile note with one attachment, so it costs its own size however many others are kept. An index
// lists the uploads by time. Uploads that messages use have the keyword usedUpload: to set it, the store rewrites the
// row of the note, but not its content.
const (
	uploadForm   = "Upload"
	itemUploaded = "Uploaded" // Unix nanoseconds
	usedUpload   = "$used"
)

// Uploads that no message uses yet wait. Those that wait and those that are used have limits of their own.
const waitingPool, usedPool = 0, 1

// Limits on the uploads that a mail file keeps: maxUploads for those that wait, maxUsed for the others.
// A pass that finds one exceeded drops uploads down to 7/8 of it, so that not every upload needs a pass.
const (
	maxUploads = 500
	maxUsed    = 128
)

// indexUploads lists the uploads by time: the key is the time of the upload (hexadecimal, so that keys sort), a blank
// and the size.
const indexUploads uint64 = 41

// Indexes returns the index of uploads, for store.Options.
func Indexes() []store.Index {
	return []store.Index{{Number: indexUploads, Kind: Kind, Keys: func(c note.Class, x *note.Content) [][]byte {
		if !isUpload(c, x) {
			return nil
		}
		return [][]byte{fmt.Appendf(nil, "%016x %x", uint64(x.Items.Get(itemUploaded).AsInt()), x.Attachments[0].Size)}
	}}}
}

func isUpload(c note.Class, x *note.Content) bool {
	return c == note.Profile && len(x.Attachments) == 1 && x.Items.Get("Form").AsText() == uploadForm
}

// Upload is a blob that a client has uploaded.
type Upload struct {
	UNID note.UNID
	Type string
	Size uint64
	Body *store.Stored
}

// Uploads manages the uploads of a mail file.
type Uploads struct{ f *File }

// Uploads returns the uploads of the mail file.
func (f *File) Uploads() Uploads { return Uploads{f} }

// Put stores a blob durably and returns its UNID. The uploads that no message uses may take room bytes together: beyond
// that, Put drops the oldest. It then also drops uploads older than age, but never the new one. Uploads that a message
// uses have a separate limit of room bytes, so that a client can write a draft again from the same uploads.
//
// Implements: RFC 8620 §6 the quota of unreferenced blobs
func (x Uploads) Put(ctx context.Context, content []byte, kind string, age time.Duration,
	room int64) (note.UNID, error) {
	f, book := x.f, &x.f.svc.uploads
	o, err := f.svc.store.Attach(ctx, content, f.db)
	if err != nil {
		return note.UNID{}, err
	}
	defer o.Release()
	u, now, size := f.svc.store.UNID(), f.svc.env.Clock.Now(), int64(o.Size)
	var marked []note.UNID
	err = f.update(ctx, func(w *store.Writer) error {
		w.Keep(o)
		if _, err := w.Create(store.New{UNID: u, Class: note.Profile, Content: note.Content{
			Items: note.MakeItems(note.Item{Name: "Form", Value: note.Text(uploadForm)},
				note.Item{Name: itemUploaded, Value: note.Int(now.UnixNano())}),
			Attachments: []note.Attachment{{Type: kind, Digest: o.Digest, Size: o.Size}},
		}}); err != nil {
			return err
		}
		marked = book.usedOf(f.db)
		return w.AsServer(func() error {
			turned, err := markUsed(w, marked)
			if err != nil || book.charge(f.db, leadOf(w), turned, pool{1, size}) {
				return err
			}
			left, err := trimUploads(w, now.Add(-age), size, room)
			book.refill(f.db, leadOf(w), left)
			return errors.Join(err, f.dropListed(w, now.Add(-age)))
		})
	})
	if err != nil {
		book.spend(f.db) // the pass may not have happened
		return u, err
	}
	book.forget(f.db, marked)
	return u, nil
}

// Use records that messages use these uploads, so that they no longer count as waiting. It does so in memory only; the
// next upload writes it to the database. If the process ends before, an upload may be dropped earlier or later than
// intended.
func (x Uploads) Use(ids []note.UNID) { x.f.svc.uploads.use(x.f.db, ids) }

// upload is an upload as the index lists it.
type upload struct {
	id   note.ID
	at   time.Time
	size int64
	used bool
}

// uploadsUntil returns the uploads that are not younger than a time (Unix nanoseconds), oldest first, without used. In
// an update, it returns those from before the update.
func uploadsUntil(r *store.Reader, until int64) (list []upload, err error) {
	err = r.Scan(indexUploads, nil, func(key []byte, id note.ID) bool {
		at, size, _ := strings.Cut(string(key), " ")
		ns, err := strconv.ParseUint(at, 16, 64)
		n, err2 := strconv.ParseInt(size, 16, 64)
		if err != nil || err2 != nil {
			return true
		}
		if int64(ns) > until {
			return false
		}
		list = append(list, upload{id: id, at: time.Unix(0, int64(ns)), size: n})
		return true
	})
	return list, err
}

// trimUploads drops the surplus uploads. It counts in a new one of size bytes that the update has created. It returns
// the room that is left until the next pass.
func trimUploads(w *store.Writer, stale time.Time, size, room int64) (left [2]pool, err error) {
	list, err := uploadsUntil(&w.Reader, math.MaxInt64)
	if err != nil {
		return left, err
	}
	for i := range list {
		row, err := w.Note(list[i].id)
		if err != nil {
			return left, err
		}
		list[i].used = hasKeyword(row, usedUpload)
	}
	drop, left := surplus(append(list, upload{at: stale, size: size}), stale, room)
	return left, dropUploads(w, drop)
}

func dropUploads(w *store.Writer, list []upload) error {
	for _, u := range list {
		if err := w.Destroy(u.id); err != nil {
			return err
		}
	}
	return nil
}

// pool is a number of uploads and their total size.
type pool struct {
	count int
	bytes int64
}

func (p pool) with(u upload) pool { return p.plus(pool{1, u.size}) }

func (p pool) plus(o pool) pool { return pool{p.count + o.count, p.bytes + o.bytes} }

func (p pool) minus(o pool) pool { return pool{p.count - o.count, p.bytes - o.bytes} }

func (p pool) within(most pool) bool { return p.count <= most.count && p.bytes <= most.bytes }

// surplus returns the uploads to drop: those that are not younger than stale, and the oldest ones of a pool that
// exceeds its limits. The last of the list is the newest and always stays. left is the room of each pool until its
// limits are reached.
func surplus(list []upload, stale time.Time, room int64) (drop []upload, left [2]pool) {
	most := [...]pool{waitingPool: {maxUploads, room}, usedPool: {maxUsed, room}}
	in := func(u upload) int {
		if u.used {
			return usedPool
		}
		return waitingPool
	}
	fresh := func(i int) bool { return i == len(list)-1 || list[i].at.After(stale) }
	limits := most
	var all, kept [2]pool
	var full [2]bool
	for i, u := range list {
		if fresh(i) {
			all[in(u)] = all[in(u)].with(u)
		}
	}
	for k := range limits {
		if !all[k].within(most[k]) {
			limits[k].count -= limits[k].count / 8
			limits[k].bytes -= limits[k].bytes / 8
		}
	}
	for i, u := range slices.Backward(list) {
		k := in(u)
		next := kept[k].with(u)
		full[k] = full[k] || !next.within(limits[k])
		if i == len(list)-1 || fresh(i) && !full[k] {
			kept[k] = next
		} else {
			drop = append(drop, u)
		}
	}
	for k := range left {
		left[k] = most[k].minus(kept[k])
	}
	return drop, left
}

// markUsed marks the uploads that messages use, and returns the sum of those that had no mark. Those that are gone need
// none.
func markUsed(w *store.Writer, ids []note.UNID) (turned pool, err error) {
	for _, u := range ids {
		id, err := w.Find(u)
		if isGone(err) {
			continue
		}
		if err != nil {
			return turned, err
		}
		row, err := w.Note(id)
		if err != nil {
			return turned, err
		}
		if hasKeyword(row, usedUpload) {
			continue
		}
		size, err := uploadSize(w, id)
		if err == nil {
			err = w.SetKeyword(id, usedUpload, true)
		}
		if err != nil {
			return turned, err
		}
		turned = turned.plus(pool{1, size})
	}
	return turned, nil
}

// uploadSize returns the size of an upload. One that cannot be read has none: it must not stop other uploads.
func uploadSize(w *store.Writer, id note.ID) (int64, error) {
	c, err := w.Content(id)
	if errors.Is(err, store.ErrDamaged) {
		return 0, nil
	}
	if err != nil || len(c.Content.Attachments) == 0 {
		return 0, err
	}
	return int64(c.Content.Attachments[0].Size), nil
}

func isGone(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave)
}

// Upload opens an uploaded blob. It returns store.ErrNotFound if the blob does not exist or was dropped.
func (d *Reading) Upload(u note.UNID) (Upload, error) {
	id, err := d.r.Find(u)
	if isGone(err) {
		return d.listedUpload(u)
	}
	if err != nil {
		return Upload{}, err
	}
	n, c, err := d.r.Document(id)
	if err != nil {
		return Upload{}, err
	}
	if !isUpload(n.Class, &c.Content) {
		return Upload{}, fmt.Errorf("%w: upload %s", store.ErrNotFound, u)
	}
	a := &c.Content.Attachments[0]
	body, err := d.r.Attachment(id, a.Digest, int64(a.Size))
	return Upload{u, a.Type, a.Size, body}, err
}

// PurgeUploads removes the uploads of a mail file that are older than age, and returns their number.
func (s *Service) PurgeUploads(ctx context.Context, db note.DatabaseID, age time.Duration) (n int, err error) {
	f, stale := s.File(note.System, db), s.env.Clock.Now().Add(-age)
	marked := s.uploads.usedOf(db)
	old := len(marked) > 0
	err = f.read(ctx, func(r *store.Reader) error {
		list, err := uploadsUntil(r, stale.UnixNano())
		if err != nil {
			return err
		}
		_, listed, err := f.listed(r)
		old = old || len(list) > 0 || allStale(listed, stale)
		return err
	})
	if err != nil || !old {
		return 0, err
	}
	err = f.update(ctx, func(w *store.Writer) error {
		s.uploads.spend(db)
		if _, err := markUsed(w, marked); err != nil {
			return err
		}
		list, err := uploadsUntil(&w.Reader, stale.UnixNano())
		if err != nil {
			return err
		}
		n = len(list)
		return errors.Join(dropUploads(w, list), f.dropListed(w, stale))
	})
	if err != nil {
		return 0, err
	}
	s.uploads.forget(db, marked)
	return n, nil
}

// listedUploads names the profile note that held all uploads until 2026-11: its attachments, each named by the time
// (Unix seconds), a blank, the UNID, and " used" once a message uses it. Uploads are read from it until all are stale;
// then it is emptied. It is not removed, because a server of an earlier release in the same cluster still writes it.
const listedUploads = "Uploads"

// listed returns the id and the attachments of the note of listedUploads.
func (f *File) listed(r *store.Reader) (id note.ID, list []note.Attachment, err error) {
	id, err = r.Find(f.ProfileID(listedUploads))
	if isGone(err) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	c, err := r.Content(id)
	if err != nil {
		return 0, nil, err
	}
	return id, c.Content.Attachments, nil
}

func parseListed(a note.Attachment) (u note.UNID, at time.Time, ok bool) {
	sec, id, ok := strings.Cut(strings.TrimSuffix(a.Name, " used"), " ")
	n, err := strconv.ParseInt(sec, 10, 64)
	u, err2 := note.ParseUNID(id)
	return u, time.Unix(n, 0), ok && err == nil && err2 == nil
}

func (d *Reading) listedUpload(u note.UNID) (Upload, error) {
	id, list, err := d.f.listed(d.r)
	if err != nil {
		return Upload{}, err
	}
	for _, a := range list {
		if have, _, ok := parseListed(a); ok && have == u {
			body, err := d.r.Attachment(id, a.Digest, int64(a.Size))
			return Upload{u, a.Type, a.Size, body}, err
		}
	}
	return Upload{}, fmt.Errorf("%w: upload %s", store.ErrNotFound, u)
}

// allStale reports whether there are listed uploads, and all of them are stale.
func allStale(list []note.Attachment, stale time.Time) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(a note.Attachment) bool {
		_, at, ok := parseListed(a)
		return ok && at.After(stale)
	})
}

// dropListed empties the note of listedUploads if all its uploads are stale.
func (f *File) dropListed(w *store.Writer, stale time.Time) error {
	id, list, err := f.listed(&w.Reader)
	if err != nil || !allStale(list, stale) {
		return err
	}
	return w.Rewrite(id, note.Content{
		Items: note.MakeItems(note.Item{Name: "Form", Value: note.Text(listedUploads)})})
}

// uploadBook holds, for each mail file, the uploads that messages use but whose notes are not marked yet, and the room
// for more uploads until a pass has to look for surplus ones. A mail file without an entry needs a pass first.
type uploadBook struct {
	mu   sync.Mutex
	used map[note.DatabaseID]map[note.UNID]bool
	left map[note.DatabaseID]uploadRoom
}

// uploadRoom is the room for more uploads in each pool. It counts only while this replica leads without a break: a home
// in between has taken uploads that this book does not know.
type uploadRoom struct {
	lead lead
	left [2]pool
}

// lead identifies the time for which a replica leads. Each home has a higher term than the one before it, until the
// numbering starts again in another epoch.
type lead struct{ epoch, term uint32 }

func leadOf(w *store.Writer) lead {
	l := w.Counters().Ledger
	return lead{l.Epoch, l.Last.Term()}
}

// charge books a new upload that waits, and those that turned from waiting to used. It returns false if there may not
// be enough room: then a pass is due.
func (x *uploadBook) charge(db note.DatabaseID, by lead, turned, added pool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := x.left[db]
	if r.lead != by {
		return false
	}
	r.left[waitingPool] = r.left[waitingPool].plus(turned).minus(added)
	r.left[usedPool] = r.left[usedPool].minus(turned)
	if !(pool{}).within(r.left[waitingPool]) || !(pool{}).within(r.left[usedPool]) {
		return false
	}
	x.left[db] = r
	return true
}

// refill records the room that a pass has found.
func (x *uploadBook) refill(db note.DatabaseID, by lead, left [2]pool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.left == nil {
		x.left = map[note.DatabaseID]uploadRoom{}
	}
	x.left[db] = uploadRoom{by, left}
}

// spend forgets the room of a mail file, so that the next upload needs a pass.
func (x *uploadBook) spend(db note.DatabaseID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.left, db)
}

// use adds uploads of a mail file that messages use, up to maxUploads.
func (x *uploadBook) use(db note.DatabaseID, ids []note.UNID) {
	if len(ids) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.used == nil {
		x.used = map[note.DatabaseID]map[note.UNID]bool{}
	}
	m := x.used[db]
	if m == nil {
		m = map[note.UNID]bool{}
		x.used[db] = m
	}
	for _, id := range ids {
		if len(m) < maxUploads {
			m[id] = true
		}
	}
}

// usedOf returns the uploads of a mail file that are used and not marked, sorted.
func (x *uploadBook) usedOf(db note.DatabaseID) []note.UNID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Keys(x.used[db]), func(a, b note.UNID) int { return bytes.Compare(a[:], b[:]) })
}

// forget removes uploads that are now marked.
func (x *uploadBook) forget(db note.DatabaseID, ids []note.UNID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, id := range ids {
		delete(x.used[db], id)
	}
	if len(x.used[db]) == 0 {
		delete(x.used, db)
	}
}
