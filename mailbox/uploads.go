package mailbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/note"
	"doublet/store"
)

// uploadsProfile names the profile note whose attachments are the uploads, oldest first. The name of an attachment is
// the time of the upload (Unix seconds), a blank, its UNID, and " used" once a message uses it.
const uploadsProfile = "Uploads"

// Limits on the uploads that a mail file keeps: maxUploads for those that no message uses yet, maxUsed for the others.
const (
	maxUploads = 500
	maxUsed    = 128
)

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
// that, Put drops the oldest. It also drops uploads older than age, but never the new one. Uploads that a message uses
// have a separate limit of room bytes, so that a client can write a draft again from the same uploads.
//
// Implements: RFC 8620 §6 the quota of unreferenced blobs
func (x Uploads) Put(ctx context.Context, content []byte, kind string, age time.Duration,
	room int64) (note.UNID, error) {
	f := x.f
	o, err := f.svc.store.Attach(ctx, content, f.db)
	if err != nil {
		return note.UNID{}, err
	}
	defer o.Release()
	u, now := f.svc.store.UNID(), f.svc.env.Clock.Now()
	var marked map[note.UNID]bool
	res, err := f.Change(ctx, 1, func(c *Changing, _ int) error {
		id := f.ProfileID(uploadsProfile)
		have, err := c.attachments(id)
		if err != nil {
			return err
		}
		marked = f.svc.used.of(f.db)
		r := upload{at: now, id: u, Attachment: note.Attachment{Type: kind, Digest: o.Digest, Size: o.Size}}
		keep := keptUploads(append(readUploads(have, marked), r), now.Add(-age), room)
		c.w.Keep(o)
		c.touched = true
		return c.putProfile(id, uploadsContent(keep))
	})
	if err = errors.Join(err, res.first()); err == nil {
		f.svc.used.forget(f.db, marked)
	}
	return u, err
}

// Use records that messages use these uploads, so that they no longer count as waiting. It does so in memory only; the
// next upload writes it to the database. If the process ends before, an upload may be dropped earlier or later than
// intended.
func (x Uploads) Use(ids []note.UNID) { x.f.svc.used.add(x.f.db, ids) }

// upload is an upload as listed in the profile note.
type upload struct {
	note.Attachment
	at   time.Time
	id   note.UNID
	used bool
}

// readUploads parses the attachments of the profile note. Uploads in marked count as used, too.
func readUploads(list []note.Attachment, marked map[note.UNID]bool) []upload {
	out := make([]upload, 0, len(list)+1)
	for _, a := range list {
		if u, ok := parseUpload(a); ok {
			u.used = u.used || marked[u.id]
			out = append(out, u)
		}
	}
	return out
}

// keptUploads drops the uploads that are not younger than stale, then the oldest ones beyond the limits. It always
// keeps the newest.
func keptUploads(list []upload, stale time.Time, room int64) []upload {
	type pool struct {
		count int
		bytes int64
	}
	waiting, used := pool{maxUploads, room}, pool{maxUsed, room}
	keep := make([]upload, 0, len(list))
	for i, u := range slices.Backward(list) {
		p := &waiting
		if u.used {
			p = &used
		}
		p.count--
		p.bytes -= int64(u.Size)
		if p.bytes < 0 {
			p.count = min(p.count, -1) // drop all older uploads of the pool, too
		}
		if i == len(list)-1 || p.count >= 0 && u.at.After(stale) {
			keep = append(keep, u)
		}
	}
	slices.Reverse(keep)
	return keep
}

// uploadsContent returns the content of the profile note that lists the uploads.
func uploadsContent(list []upload) note.Content {
	out := note.Content{Items: uploadItems, Attachments: make([]note.Attachment, len(list))}
	for i, u := range list {
		a := u.Attachment
		a.Name = strconv.FormatInt(u.at.Unix(), 10) + " " + u.id.String()
		if u.used {
			a.Name += usedMark
		}
		out.Attachments[i] = a
	}
	return out
}

// usedMark ends the name of an attachment that a message uses.
const usedMark = " used"

var uploadItems = note.MakeItems(note.Item{Name: "Form", Value: note.Text(uploadsProfile)})

// first returns the first error of an item, or nil.
func (r *Result) first() error {
	for _, err := range r.Errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func parseUpload(a note.Attachment) (u upload, ok bool) {
	name, used := strings.CutSuffix(a.Name, usedMark)
	sec, id, ok := strings.Cut(name, " ")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil || !ok {
		return u, false
	}
	unid, err := note.ParseUNID(id)
	return upload{a, time.Unix(n, 0), unid, used}, err == nil
}

func (d *Reading) attachments(u note.UNID) ([]note.Attachment, error) {
	id, err := d.r.Find(u)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := d.r.Content(id)
	if err != nil {
		return nil, err
	}
	return c.Content.Attachments, nil
}

// Upload opens an uploaded blob. It returns store.ErrNotFound if the blob does not exist or was dropped.
func (d *Reading) Upload(u note.UNID) (Upload, error) {
	profile := d.f.ProfileID(uploadsProfile)
	list, err := d.attachments(profile)
	if err != nil {
		return Upload{}, err
	}
	for _, a := range list {
		if up, ok := parseUpload(a); ok && up.id == u {
			n, err := d.r.Find(profile)
			if err != nil {
				return Upload{}, err
			}
			body, err := d.r.Attachment(n, a.Digest, int64(a.Size))
			return Upload{u, a.Type, a.Size, body}, err
		}
	}
	return Upload{}, fmt.Errorf("%w: upload %s", store.ErrNotFound, u)
}

// PurgeUploads removes the uploads of a mail file that are older than age, and returns their number.
func (s *Service) PurgeUploads(ctx context.Context, db note.DatabaseID, age time.Duration) (n int, err error) {
	f, stale := s.File(note.System, db), s.env.Clock.Now().Add(-age)
	id := f.ProfileID(uploadsProfile)
	marked := s.used.of(db)
	old := false
	err = f.Read(ctx, func(d *Reading) error {
		list, err := d.attachments(id)
		old = slices.ContainsFunc(list, func(a note.Attachment) bool {
			u, ok := parseUpload(a)
			return !ok || !u.at.After(stale)
		})
		return err
	})
	if err != nil || !old && len(marked) == 0 {
		return 0, err
	}
	res, err := f.Change(ctx, 1, func(c *Changing, _ int) error {
		list, err := c.attachments(id)
		if err != nil {
			return err
		}
		keep := slices.DeleteFunc(readUploads(list, marked), func(u upload) bool { return !u.at.After(stale) })
		n = len(list) - len(keep)
		return c.putProfile(id, uploadsContent(keep))
	})
	if err = errors.Join(err, res.first()); err == nil {
		s.used.forget(db, marked)
	}
	return n, err
}

// usedUploads holds the uploads that messages use but that the profile note does not mark as used yet.
type usedUploads struct {
	mu     sync.Mutex
	byFile map[note.DatabaseID]map[note.UNID]bool
}

// add adds uploads of a mail file, up to maxUploads.
func (x *usedUploads) add(db note.DatabaseID, ids []note.UNID) {
	if len(ids) == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.byFile == nil {
		x.byFile = map[note.DatabaseID]map[note.UNID]bool{}
	}
	m := x.byFile[db]
	if m == nil {
		m = map[note.UNID]bool{}
		x.byFile[db] = m
	}
	for _, id := range ids {
		if len(m) < maxUploads {
			m[id] = true
		}
	}
}

// of returns a copy of the set for a mail file.
func (x *usedUploads) of(db note.DatabaseID) map[note.UNID]bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.byFile[db])
}

// forget removes the uploads that are now marked in the profile note.
func (x *usedUploads) forget(db note.DatabaseID, ids map[note.UNID]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.DeleteFunc(x.byFile[db], func(id note.UNID, _ bool) bool { return ids[id] })
	if len(x.byFile[db]) == 0 {
		delete(x.byFile, db)
	}
}
