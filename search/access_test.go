package search

import (
	"context"
	"slices"
	"testing"
	"time"

	"doublet/note"
	"doublet/search/query"
	"doublet/store"
	"doublet/store/layout"
)

// TestAccess checks that nobody finds notes that they may not read.
func TestAccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	w.run()
	var in, out note.ID
	reader := note.Who{Person: note.UNID{1}}
	if err := w.s.SetInfo(note.System, db,
		func(i *layout.Info) { i.ACL = note.ACL{Default: note.Reader} }); err != nil {
		t.Fatal(err)
	}
	m, err := w.s.Prepare(w.ctx, []byte(mail("x", "apple")), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	w.update(db, func(x *store.Writer) error {
		open, err := x.CreateFolder("Open", "Archive")
		if err != nil {
			return err
		}
		closed, err := x.CreateFolder("Closed", "")
		if err != nil {
			return err
		}
		if err := x.SetFolderACL(closed, &note.ACL{Default: note.NoAccess}); err != nil {
			return err
		}
		if in, err = x.Create(store.New{Message: m, Folders: []note.ID{open},
			SeenBy: []note.UNID{reader.Person}}); err != nil {
			return err
		}
		out, err = x.Create(store.New{Message: m, Folders: []note.ID{closed}})
		return err
	})
	for range 2 {
		for _, c := range []struct {
			who  note.Who
			ask  string
			want []note.ID
		}{
			{reader, "apple", []note.ID{in}}, {note.System, "apple", []note.ID{out, in}}, {reader, "in:closed", nil},
			{reader, "in:Archive apple", []note.ID{in}},
			{reader, "is:unread", nil}, {reader, "is:read", []note.ID{in}},
			{note.System, "is:unread", []note.ID{out, in}}, {reader, "", []note.ID{in}},
		} {
			n, err := query.Parse(c.ask, query.Context{Now: day})
			if err != nil {
				t.Fatal(err)
			}
			got, err := w.svc.Query(w.ctx, c.who, db, Request{Query: n.Node()})
			if err != nil {
				t.Fatal(err)
			}
			var ids []note.ID
			for _, h := range got.Hits {
				ids = append(ids, h.ID)
			}
			if !slices.Equal(ids, c.want) {
				t.Errorf("%q: %v, want %v", c.ask, ids, c.want)
			}
		}
		sn, err := w.svc.Snippets(w.ctx, w.s, reader, db, &query.Node{}, []note.ID{in, out})
		if err != nil || len(sn) != 1 || sn[0].ID != in {
			t.Errorf("%v, %v", sn, err)
		}
		w.catch()
	}
	stranger := note.Who{Person: note.UNID{2}}
	if err := w.s.SetInfo(note.System, db,
		func(i *layout.Info) { i.ACL = note.ACL{Default: note.NoAccess} }); err != nil {
		t.Fatal(err)
	}
	got, err := w.svc.Query(w.ctx, stranger, db, Request{Query: &query.Node{}})
	if err == nil && len(got.Hits) > 0 {
		t.Errorf("%v", got)
	}
}

// TestRemoved checks that nothing remains of a removed database.
func TestRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db, other := w.database(kindMail), w.database("mail.box")
	w.run()
	w.deliver(mail("one", "apple"), day, db, other)
	w.catch()
	if st, err := w.svc.Status(w.ctx); err != nil || st.Databases != 1 || st.Notes != 1 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := w.s.RemoveDatabase(note.System, db); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		st, err := w.svc.Status(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if st.Databases == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("it is still there")
}

// TestLag checks that the lag of the index is reported.
func TestLag(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	h := w.hand()
	h.all()
	w.svc.lag.read(h.k.cur.Seq, true, time.Time{})
	if n, d := w.svc.Lag(); n != 0 || d != 0 {
		t.Errorf("%d, %s", n, d)
	}
	w.deliver(mail("one", "apple"), day, db)
	w.svc.lag.moved(w.f.Clock.Now().Add(-time.Minute))
	if n, d := w.svc.Lag(); n == 0 || d < time.Minute {
		t.Errorf("%d, %s", n, d)
	}
	ctx, cancel := context.WithTimeout(w.ctx, 50*time.Millisecond)
	defer cancel()
	if err := w.svc.Catch(ctx); err == nil {
		t.Error("it has caught up")
	}
}
