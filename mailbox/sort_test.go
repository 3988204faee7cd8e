package mailbox_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/test/external"
	"doublet/wire/imap"
	"doublet/wire/mime"
)

// letter is a message as the reference implementation sees it.
type letter struct {
	seq, uid uint32
	size     int
	date     time.Time // INTERNALDATE
	sent     time.Time
	e        *mime.Envelope
}

// post stores messages with random INTERNALDATEs.
func (w *world) post(messages []string) (all []letter) {
	w.t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	var made []*mailbox.Composed // released after they are stored
	err := w.s.Update(w.ctx, w.who, []note.DatabaseID{w.db}, func(tx *store.Tx) error {
		db, err := tx.Database(w.db)
		if err != nil {
			return err
		}
		inbox, err := db.FolderNamed(mailbox.Inbox)
		for i, raw := range messages {
			if err != nil {
				return err
			}
			var c *mailbox.Composed
			if c, err = w.svc.Compose(w.ctx, []byte(raw)); err != nil {
				return err
			}
			made = append(made, c)
			date := time.Unix(1_000_000_000+random.Int64N(1000), 0).UTC()
			n := c.New(date)
			n.Folders = []note.ID{inbox.Note}
			id, err := db.Create(n)
			if err != nil {
				return err
			}
			e := mime.Parse([]byte(raw), mime.DefaultLimits).Envelope
			l := letter{seq: uint32(i + 1), uid: db.UID(id, inbox.Note), size: len(raw), date: date, e: e}
			var ok bool
			if l.sent, ok = mime.ParseDate(e.Date); !ok {
				l.sent = date
			}
			all = append(all, l)
		}
		return err
	})
	for _, c := range made {
		c.Release()
	}
	w.must(err)
	return all
}

func shown(list []mime.Address) string {
	switch {
	case len(list) == 0:
		return ""
	case list[0].Group:
		return mime.DecodeWords(list[0].Mailbox)
	case list[0].Name != "":
		return mime.DecodeWords(list[0].Name)
	case list[0].Host == "":
		return list[0].Mailbox
	}
	return list[0].Mailbox + "@" + list[0].Host
}

func local(list []mime.Address) string {
	if len(list) == 0 {
		return ""
	}
	return list[0].Mailbox
}

// compareBy is a second implementation of a sort key that compares values instead of bytes.
func compareBy(f imap.SortField) func(a, b *letter) int {
	text := func(of func(*letter) string) func(a, b *letter) int {
		short := func(l *letter) string { s := mime.Casemap(of(l)); return s[:min(len(s), 256)] }
		return func(a, b *letter) int { return strings.Compare(short(a), short(b)) }
	}
	switch f {
	case imap.SortArrival:
		return func(a, b *letter) int { return a.date.Compare(b.date) }
	case imap.SortDate:
		return func(a, b *letter) int { return a.sent.Compare(b.sent) }
	case imap.SortSize:
		return func(a, b *letter) int { return cmp.Compare(a.size, b.size) }
	case imap.SortSubject:
		return text(func(l *letter) string { return mime.BaseSubject(mime.DecodeWords(l.e.Subject)) })
	case imap.SortFrom:
		return text(func(l *letter) string { return local(l.e.From) })
	case imap.SortTo:
		return text(func(l *letter) string { return local(l.e.To) })
	case imap.SortCc:
		return text(func(l *letter) string { return local(l.e.Cc) })
	case imap.SortDisplayFrom:
		return text(func(l *letter) string { return shown(l.e.From) })
	}
	return text(func(l *letter) string { return shown(l.e.To) })
}

func uidsOf(found []mailbox.Match) (out []uint32) {
	for _, m := range found {
		out = append(out, m.UID)
	}
	return out
}

// TestSortCorpus sorts real messages by random keys and compares the result with a stable sort by values.
//
// Implements: RFC 5256 §3 SORT, checked against brute force
func TestSortCorpus(t *testing.T) {
	t.Parallel()
	messages := external.Corpus(t, 600)
	w := newWorld(t, 0)
	all := w.post(messages)
	v := w.open("INBOX")
	random := rand.New(rand.NewPCG(3, 4))
	for range 60 {
		var by []imap.SortKey
		for range 1 + random.IntN(3) {
			by = append(by, imap.SortKey{Field: imap.SortField(random.IntN(int(imap.SortDisplayTo) + 1)),
				Reverse: random.IntN(2) == 0})
		}
		got, err := v.Sort(w.ctx, &mailbox.Criteria{}, by, mailbox.SearchOptions{})
		w.must(err)
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b letter) int {
			for _, k := range by {
				n := compareBy(k.Field)(&a, &b)
				if k.Reverse {
					n = -n
				}
				if n != 0 {
					return n
				}
			}
			return 0
		})
		var uids []uint32
		for _, l := range want {
			uids = append(uids, l.uid)
		}
		if !slices.Equal(uidsOf(got), uids) {
			t.Fatalf("%+v: another order", by)
		}
	}
}

// TestSortEdges sorts texts that are prefixes of each other, NULs in encoded words, and missing fields.
func TestSortEdges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for _, subject := range []string{"ab", "a", "=?utf-8?q?a=00?=", "=?utf-8?q?a=01?=", "Re: A", "",
		"=?utf-8?q?=C3=84b?=", "ac", "a" + strings.Repeat("x", 2000)} {
		w.append("INBOX", "Subject: "+subject+"\r\n\r\n", mailbox.Flags{})
	}
	w.append("INBOX", "From: x@y\r\n\r\n", mailbox.Flags{})
	sorted := func(reverse bool) []uint32 {
		got, err := w.open("INBOX").Sort(w.ctx, &mailbox.Criteria{},
			[]imap.SortKey{{Field: imap.SortSubject, Reverse: reverse}}, mailbox.SearchOptions{})
		w.must(err)
		return uidsOf(got)
	}
	if got, want := sorted(false), []uint32{6, 10, 2, 5, 3, 4, 7, 1, 8, 9}; !slices.Equal(got, want) &&
		!slices.Equal(got, []uint32{6, 10, 2, 5, 3, 4, 1, 8, 9, 7}) {
		t.Errorf("%v, want %v", got, want)
	}
	up, down := sorted(false), sorted(true)
	// In reverse order, equal messages keep their order in the mailbox.
	slices.Reverse(down)
	if up[0] != down[1] || up[1] != down[0] || up[2] != down[3] || !slices.Equal(up[4:], down[4:]) {
		t.Errorf("%v, reversed %v", up, down)
	}
}

// TestSearchOptions checks that a search with progress reports finds the same messages. A search without memory ends
// with ErrLimit, and reports how much it took.
func TestSearchOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	for i := range 100 {
		w.append("INBOX", plain(i), mailbox.Flags{})
	}
	v, other := w.open("INBOX"), w.open("INBOX")
	var told []uint32
	found, err := v.Search(w.ctx, &mailbox.Criteria{}, mailbox.SearchOptions{Tell: func(done, all uint32) error {
		told = append(told, done)
		if all != 100 {
			t.Errorf("%d of %d", done, all)
		}
		// Changes by others do not change any sequence number.
		w.must(other.Expunge(w.ctx, nil))
		if done == 32 {
			_, err := other.Move(w.ctx, mailbox.Set{{Start: 1, Stop: 1}, {Start: 50, Stop: 50}}, false, "Trash")
			w.must(err)
		}
		return nil
	}})
	w.must(err)
	if !slices.Equal(told, []uint32{16, 32, 48, 64, 80, 96}) || len(found) != 99 {
		t.Errorf("told %v, found %d", told, len(found))
	}
	for _, m := range found {
		if m.Seq != m.UID {
			t.Fatalf("UID %d has the number %d", m.UID, m.Seq)
		}
	}
	stop := errors.New("stop")
	if _, err := v.Search(w.ctx, &mailbox.Criteria{},
		mailbox.SearchOptions{Tell: func(uint32, uint32) error { return stop }}); !errors.Is(err, stop) {
		t.Error(err)
	}
	if _, err := v.Sort(w.ctx, &mailbox.Criteria{}, nil,
		mailbox.SearchOptions{Room: func(int64) bool { return false }}); !errors.Is(err, mailbox.ErrLimit) {
		t.Error(err)
	}
}

// TestWithin tests RFC 5032, which uses INTERNALDATE and the clock.
func TestWithin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	now := w.f.Clock.Now()
	for _, age := range []time.Duration{0, 30 * time.Minute, 3 * time.Hour} {
		_, _, err := w.mf.Append(w.ctx, "INBOX", []byte("a: b\r\n\r\n"), mailbox.Flags{}, now.Add(-age))
		w.must(err)
	}
	for _, c := range []struct {
		test    mailbox.Test
		seconds uint64
		want    []uint32
	}{{mailbox.TestYounger, 3600, []uint32{1, 2}}, {mailbox.TestOlder, 3600, []uint32{3}},
		{mailbox.TestOlder, 1000, []uint32{2, 3}}, {mailbox.TestYounger, 1 << 32, []uint32{1, 2, 3}}} {
		got, err := w.open("INBOX").Search(w.ctx, &mailbox.Criteria{Test: c.test, Number: c.seconds},
			mailbox.SearchOptions{})
		w.must(err)
		if !slices.Equal(uidsOf(got), c.want) {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// BenchmarkSort sorts and threads a folder of 100,000 messages.
func BenchmarkSort(b *testing.B) {
	e := env.Real(slog.New(slog.DiscardHandler))
	s, err := store.Open(e, b.TempDir(), store.Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	f := filled(b, s, mailbox.New(s, e, mailbox.Options{}), 100_000)
	ctx := context.Background()
	for _, by := range []imap.SortField{imap.SortArrival, imap.SortDate, imap.SortSubject, imap.SortDisplayFrom} {
		b.Run(fmt.Sprint(by), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, _, _ := f.Open(ctx, "INBOX", true)
				if got, err := v.Sort(ctx, &mailbox.Criteria{}, []imap.SortKey{{Field: by, Reverse: true}},
					mailbox.SearchOptions{}); err != nil || len(got) != 100_000 {
					b.Fatal(len(got), err)
				}
			}
		})
	}
	for _, a := range []mailbox.Algorithm{mailbox.OrderedSubject, mailbox.References} {
		b.Run(fmt.Sprint("thread", a), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v, _, _ := f.Open(ctx, "INBOX", true)
				if got, err := v.Thread(ctx, &mailbox.Criteria{}, a, true, mailbox.SearchOptions{}); err != nil ||
					len(got) != 100_000 {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
