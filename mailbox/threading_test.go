package mailbox

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
)

// TestThreadOlderMessages checks that messages whose summaries lack fieldThreading are threaded by their headers.
func TestThreadOlderMessages(t *testing.T) {
	t.Parallel()
	f, ctx := env.TestRealTime(t), context.Background()
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		CacheSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	svc, who := New(s, f.Env, Options{}), note.Who{Person: s.UNID()}
	db, err := svc.Make(ctx, who.Person, "alice", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"Message-ID: <1@x>\r\nSubject: a\r\n\r\n",
		"Message-ID: <2@x>\r\nReferences: <1@x>\r\nSubject: b\r\n\r\n"} {
		c, err := svc.Compose(ctx, []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		end := 0
		for range fieldPreview + 1 {
			n, k := binary.Uvarint(c.summary[end:])
			end += k + int(n)
		}
		for i := range end {
			if b, err := summaryField(c.summary[:i], fieldThreading); i > 0 && err == nil && b != nil {
				t.Errorf("%d bytes of a summary hold %x", i, b)
			}
		}
		c.summary = c.summary[:end]
		err = s.Update(ctx, who, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			inbox, err := w.FolderNamed(Inbox)
			if err != nil {
				return err
			}
			n := c.New(time.Unix(1, 0))
			n.Folders = []note.ID{inbox.Note}
			_, err = w.Create(n)
			return err
		})
		c.Release()
		if err != nil {
			t.Fatal(err)
		}
	}
	v, _, err := svc.File(who, db).Open(ctx, Inbox, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.Thread(ctx, &Criteria{}, References, false, SearchOptions{})
	if err != nil || string(imap.AppendThread(nil, got)) != "* THREAD (1 2)\r\n" {
		t.Errorf("%q %v", imap.AppendThread(nil, got), err)
	}
}
