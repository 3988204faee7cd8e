package mailbox_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/crypt"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// upload uploads a blob.
func (w *world) upload(content string, room int64) note.UNID {
	w.t.Helper()
	u, err := w.mf.Uploads().Put(w.ctx, []byte(content), "text/plain", 24*time.Hour, room)
	w.must(err)
	return u
}

// uploaded returns the content of an upload, and whether it exists.
func (w *world) uploaded(u note.UNID) (content string, ok bool) {
	w.t.Helper()
	err := w.mf.Read(w.ctx, func(d *mailbox.Reading) error {
		x, err := d.Upload(u)
		if err != nil {
			return err
		}
		b, err := x.Body.AppendRange(nil, 0, x.Body.Size())
		if content = string(b); x.Type != "text/plain" || x.Size != uint64(len(b)) || x.UNID != u {
			w.t.Errorf("upload %s is %+v", u, x)
		}
		return err
	})
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		w.t.Fatal(err)
	}
	return content, err == nil
}

// seal gives the mail file a key of its own.
func (w *world) seal() {
	w.t.Helper()
	line, err := crypt.NewKey(w.f.Env)
	w.must(err)
	k, err := w.f.FS.Create("own.key", vfs.WriteCategoryUnspecified)
	w.must(err)
	_, err = k.Write([]byte(line))
	w.must(errors.Join(err, k.Close(), w.s.SetKey(w.db, "own.key"), w.s.Settle(w.ctx, w.db, nil)))
}

// TestUploadCost uploads and uses blobs until the limit of used ones is reached many times. An upload changes its own
// note and that of the one used before, and writes contents of one attachment each; only a pass, at most every
// sixteenth upload, changes more.
func TestUploadCost(t *testing.T) {
	w := newWorldOn(t, env.Test(t), 0)
	passes, since := 0, note.ModSeq(0)
	for i := range 400 {
		u := w.upload(fmt.Sprint("blob ", i), 1<<20)
		w.mf.Uploads().Use([]note.UNID{u})
		changed := 0
		w.must(w.s.Read(w.ctx, note.System, w.db, func(r *store.Reader) error {
			last := r.Counters().Ledger.Last
			defer func() { since = last }()
			var ids []note.ID
			err := r.Changes(since, func(_ note.ModSeq, c layout.Change) bool {
				if changed++; !c.Expunged {
					ids = append(ids, c.Note)
				}
				return true
			})
			for _, id := range ids {
				c, err := r.Content(id)
				if err != nil {
					return err
				}
				if n := len(c.Content.Attachments); n > 1 {
					t.Fatalf("upload %d writes a note with %d attachments", i, n)
				}
			}
			return err
		}))
		if i > 0 && changed > 2 {
			passes++
		}
	}
	if passes > 400/16 {
		t.Errorf("%d of 400 uploads changed the notes of others", passes)
	}
}

// TestUploadsModel uploads, uses and purges at random, restarts the service, and lets time pass; every second mail file
// has a key of its own. After each step, the newest upload exists, no content is mixed up, the limits hold, and an
// upload is gone only if it is stale, or if there are newer ones for most of the room.
func TestUploadsModel(t *testing.T) {
	const room, age = 40 << 10, 24 * time.Hour
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			f := env.Test(t)
			w := newWorldOn(t, f, 0)
			if seed%2 == 1 {
				w.seal()
			}
			r := rand.New(rand.NewPCG(seed, 30))
			type blob struct {
				id      note.UNID
				content string
				at      time.Time
				used    bool
			}
			var list []*blob
			for step := range 600 {
				f.Time.Advance(time.Duration(r.Int64N(int64(4 * time.Minute))))
				var newest *blob
				switch n := r.IntN(40); {
				case n < 25 || len(list) == 0:
					b := &blob{content: fmt.Sprint(step) + strings.Repeat("x", r.IntN(2000)), at: f.Clock.Now()}
					b.id = w.upload(b.content, room)
					list, newest = append(list, b), b
				case n < 35:
					for range 1 + r.IntN(3) {
						b := list[len(list)-1-r.IntN(min(5, len(list)))]
						b.used = true
						w.mf.Uploads().Use([]note.UNID{b.id})
					}
				case n < 38:
					_, err := w.svc.PurgeUploads(w.ctx, w.db, age)
					w.must(err)
				case n < 39:
					_, err := w.svc.PurgeUploads(w.ctx, w.db, age) // marks those that are used
					w.must(err)
					w.svc = mailbox.New(w.s, w.f.Env, mailbox.Options{MessageSize: 1 << 20})
					w.mf = w.svc.File(w.who, w.db)
				default:
					f.Time.Advance(time.Duration(r.Int64N(int64(age))))
				}
				var bytes, above [2]int
				var left []*blob
				for i := len(list) - 1; i >= 0; i-- {
					b, k := list[i], 0
					if b.used {
						k = 1
					}
					content, there := w.uploaded(b.id)
					above[k] += len(b.content)
					stale := !b.at.After(f.Clock.Now().Add(-age))
					switch {
					case there && content != b.content:
						t.Fatalf("step %d: upload %d has the content of another", step, i)
					case there:
						bytes[k] += len(content)
						left = append([]*blob{b}, left...)
					case b == newest:
						t.Fatalf("step %d: the newest is gone", step)
					case !stale && above[k] <= room-room/8:
						t.Fatalf("step %d: upload %d of %d (used %v) is gone, with newer ones of %d bytes", step, i,
							len(list), b.used, above[k])
					}
				}
				if bytes[0] > room || bytes[0]+bytes[1] > 2*room || newest != nil && bytes[1] > room {
					t.Fatalf("step %d: %d bytes wait and %d are used, where %d each are allowed", step, bytes[0],
						bytes[1], room)
				}
				list = left
			}
		})
	}
}

// TestUploadsHomes uploads blobs to a mail file whose home moves to another server and back. The limit holds, though
// each server counts only its own uploads.
func TestUploadsHomes(t *testing.T) {
	const room, size = 40 << 10, 1 << 10
	w := newWorldOn(t, env.Test(t), 0)
	w.must(w.s.Share(w.ctx, w.db, 0))
	there := mailbox.New(w.s, w.f.Env, mailbox.Options{MessageSize: 1 << 20})
	var all []note.UNID
	for turn := range 4 {
		for range []int{1, 38, 38, 38}[turn] {
			all = append(all, w.upload(fmt.Sprintf("%4d%s", len(all), strings.Repeat("x", size-4)), room))
		}
		kept := 0
		for _, u := range all {
			if _, ok := w.uploaded(u); ok {
				kept++
			}
		}
		if kept*size > room || kept < min(len(all), 35) {
			t.Errorf("after turn %d, %d of %d uploads are kept", turn, kept, len(all))
		}
		w.must(w.s.Follow(w.ctx, w.db))
		w.must(w.s.Lead(w.ctx, w.db, store.LeadOptions{}))
		w.svc, there = there, w.svc
		w.mf = w.svc.File(w.who, w.db)
	}
}

// TestUploadsTurned uses many uploads at once that have waited: the limit of used ones holds with the next upload.
func TestUploadsTurned(t *testing.T) {
	w := newWorldOn(t, env.Test(t), 0)
	var all []note.UNID
	for i := range 200 {
		all = append(all, w.upload(fmt.Sprint("blob ", i), 1<<20))
	}
	w.mf.Uploads().Use(all)
	w.upload("next", 1<<20)
	kept := 0
	for _, u := range all {
		if _, ok := w.uploaded(u); ok {
			kept++
		}
	}
	if kept != 112 { // 128 less an eighth
		t.Errorf("%d used uploads are kept", kept)
	}
}

// TestListedUploads reads the uploads that an earlier release has stored in one note, and keeps them until the newest
// is stale.
func TestListedUploads(t *testing.T) {
	f := env.Test(t)
	w := newWorldOn(t, f, 0)
	now := f.Clock.Now()
	listed := w.mf.ProfileID("Uploads")
	first, second := w.s.UNID(), w.s.UNID()
	var list []note.Attachment
	var objects []*store.Object
	for i, u := range []note.UNID{first, second} {
		content := fmt.Sprint("old ", i)
		o, err := w.s.Attach(w.ctx, []byte(content), w.db)
		w.must(err)
		defer o.Release()
		name := fmt.Sprint(now.Unix()+int64(i)*3600, " ", u)
		if i == 0 {
			name += " used"
		}
		list = append(list, note.Attachment{Name: name, Type: "text/plain", Digest: o.Digest, Size: o.Size})
		objects = append(objects, o)
	}
	w.must(w.s.Update(w.ctx, note.System, []note.DatabaseID{w.db}, func(tx *store.Tx) error {
		d, err := tx.Home(w.db)
		if err != nil {
			return err
		}
		for _, o := range objects {
			d.Keep(o)
		}
		_, err = d.Create(store.New{UNID: listed, Class: note.Profile, Content: note.Content{
			Items: note.MakeItems(note.Item{Name: "Form", Value: note.Text("Uploads")}), Attachments: list}})
		return err
	}))
	have := func(when string, want ...string) {
		t.Helper()
		for i, u := range []note.UNID{first, second} {
			content, ok := w.uploaded(u)
			if ok != (len(want) > 0) || ok && content != want[i] {
				t.Errorf("%s: upload %d is %q, %v", when, i, content, ok)
			}
		}
	}
	have("at first", "old 0", "old 1")
	w.mf.Uploads().Use([]note.UNID{first})
	w.upload("new", 1<<20)
	have("after an upload", "old 0", "old 1")
	f.Time.Advance(24*time.Hour + 30*time.Minute)
	_, err := w.svc.PurgeUploads(w.ctx, w.db, 24*time.Hour)
	w.must(err)
	have("while one is younger", "old 0", "old 1")
	f.Time.Advance(time.Hour)
	_, err = w.svc.PurgeUploads(w.ctx, w.db, 24*time.Hour)
	w.must(err)
	have("a day later")
	w.must(w.s.Read(w.ctx, note.System, w.db, func(r *store.Reader) error {
		id, err := r.Find(listed)
		if err != nil {
			return err
		}
		c, err := r.Content(id)
		if err == nil && len(c.Content.Attachments) > 0 {
			t.Error("the old note still has attachments")
		}
		return err
	}))
}
