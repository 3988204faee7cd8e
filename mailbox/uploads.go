package mailbox

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// ErrUploads says that there are too many uploads that no message uses yet.
var ErrUploads = errors.New("too many uploads wait to be used")

// uploadsProfile is the profile note whose attachments are the uploads, each under when it came, a blank, and its UNID.
const uploadsProfile = "Uploads"

// maxUploads bounds the uploads of a mail file that are kept.
const maxUploads = 500

// Upload is a blob that a client has sent and no message uses yet.
type Upload struct {
	UNID note.UNID
	Type string
	Size uint64
	Body *store.Stored
}

// PutUpload keeps a blob, durably; those older than age go. The uploads of a mail file hold at most room bytes together
// (ErrUploads).
func (f *File) PutUpload(ctx context.Context, content []byte, kind string, age time.Duration, room int64) (note.UNID, error) {
	o, err := f.svc.store.Attach(ctx, content)
	if err != nil {
		return note.UNID{}, err
	}
	defer o.Release()
	u, now := f.svc.store.UNID(), f.svc.env.Clock.Now()
	res, err := f.Change(ctx, 1, func(c *Changing, _ int) error {
		id := f.ProfileID(uploadsProfile)
		have, err := c.attachments(id)
		if err != nil {
			return err
		}
		keep, size := make([]note.Attachment, 0, len(have)+1), int64(o.Size)
		for _, a := range have {
			if at, _, ok := parseUpload(a.Name); ok && now.Sub(at) < age {
				keep = append(keep, a)
				size += int64(a.Size)
			}
		}
		if size > room || len(keep) >= maxUploads {
			return fmt.Errorf("%w: %d with %d bytes", ErrUploads, len(keep), size)
		}
		c.w.Keep(o)
		c.touched = true
		name := strconv.FormatInt(now.Unix(), 10) + " " + u.String()
		keep = append(keep, note.Attachment{Name: name, Type: kind, Digest: o.Digest, Size: o.Size})
		return c.putProfile(id, note.Content{Items: uploadItems, Attachments: keep})
	})
	return u, errors.Join(err, res.first())
}

var uploadItems = note.MakeItems(note.Item{Name: "Form", Value: note.Text(uploadsProfile)})

// first is the first error of an item.
func (r *Result) first() error {
	for _, err := range r.Errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func parseUpload(name string) (at time.Time, u note.UNID, ok bool) {
	sec, id, ok := strings.Cut(name, " ")
	n, err := strconv.ParseInt(sec, 10, 64)
	if err != nil || !ok {
		return at, u, false
	}
	u, err = note.ParseUNID(id)
	return time.Unix(n, 0), u, err == nil
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

// Upload opens a blob that was uploaded; store.ErrNotFound: there is none of that name, or no longer.
func (d *Reading) Upload(u note.UNID) (Upload, error) {
	profile := d.f.ProfileID(uploadsProfile)
	list, err := d.attachments(profile)
	if err != nil {
		return Upload{}, err
	}
	for _, a := range list {
		if _, id, ok := parseUpload(a.Name); ok && id == u {
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

// PurgeUploads removes the uploads of a mail file that are older than age, and says how many.
func (s *Service) PurgeUploads(ctx context.Context, db note.DatabaseID, age time.Duration) (n int, err error) {
	f, now := s.File(note.System, db), s.env.Clock.Now()
	old := 0
	id := f.ProfileID(uploadsProfile)
	stale := func(a note.Attachment) bool {
		at, _, ok := parseUpload(a.Name)
		return !ok || now.Sub(at) >= age
	}
	err = f.Read(ctx, func(d *Reading) error {
		list, err := d.attachments(id)
		for _, a := range list {
			if stale(a) {
				old++
			}
		}
		return err
	})
	if err != nil || old == 0 {
		return 0, err
	}
	res, err := f.Change(ctx, 1, func(c *Changing, _ int) error {
		list, err := c.attachments(id)
		if err != nil {
			return err
		}
		keep := make([]note.Attachment, 0, len(list))
		for _, a := range list {
			if !stale(a) {
				keep = append(keep, a)
			}
		}
		n = len(list) - len(keep)
		return c.putProfile(id, note.Content{Items: uploadItems, Attachments: keep})
	})
	return n, errors.Join(err, res.first())
}
