package mailbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// onDisk opens a store in a folder of its own on the real disk.
func onDisk(b *testing.B, e *env.Env) (*store.Store, *mailbox.Service) {
	b.Helper()
	s, err := store.Open(e, b.TempDir(), store.Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s, mailbox.New(s, e, mailbox.Options{})
}

// BenchmarkAppend stores messages of 1 KB durably on a real disk, with 32 concurrent clients and 200 mail files.
func BenchmarkAppend(b *testing.B) { benchmarkAppend(b, 32, 0) }

// BenchmarkAppendSlowDisk does the same with 256 concurrent clients on a disk with slow flushes, which group commit has
// to compensate for.
func BenchmarkAppendSlowDisk(b *testing.B) {
	for _, slow := range []time.Duration{0, 2 * time.Millisecond, 5 * time.Millisecond} {
		b.Run(slow.String(), func(b *testing.B) { benchmarkAppend(b, 256, slow) })
	}
}

func benchmarkAppend(b *testing.B, writers int, slow time.Duration) {
	e := env.Real(slog.New(slog.DiscardHandler))
	if slow > 0 {
		e.FS = env.SlowSync(e.FS, e.Clock, slow)
	}
	s, svc := onDisk(b, e)
	files := make([]*mailbox.File, 200)
	for i := range files {
		owner := s.UNID()
		id, err := svc.Make(context.Background(), owner, fmt.Sprint("user ", i), 0, 0)
		if err != nil {
			b.Fatal(err)
		}
		files[i] = svc.File(note.Who{Person: owner}, id)
	}
	before := written()
	var n atomic.Int64
	b.SetParallelism(max(1, writers/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			i := n.Add(1)
			raw := fmt.Appendf(nil,
				"From: Sender <a@example.com>\r\nTo: b@example.com\r\nSubject: test message %d\r\n"+
					"Message-ID: <%d@example.com>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\n\r\n%1000s\r\n", i, i, "x")
			if _, _, err := files[i%200].Append(context.Background(), "INBOX", raw, mailbox.Flags{},
				time.Unix(1, 0)); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(written()-before)/float64(b.N), "written-B/op")
}

// BenchmarkOpenFolder opens a folder and lists the envelopes of its last 50 messages, for two sizes of the folder.
func BenchmarkOpenFolder(b *testing.B) {
	for _, size := range []int{100, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			e := env.Real(slog.New(slog.DiscardHandler))
			s, err := store.Open(e, b.TempDir(), store.Options{Ballast: -1})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			f := filled(b, s, mailbox.New(s, e, mailbox.Options{}), size)
			b.ResetTimer()
			for range b.N {
				v, _, err := f.Open(context.Background(), "INBOX", false)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				err = v.Fetch(context.Background(), mailbox.Set{{Start: v.Exists() - 49, Stop: v.Exists()}}, false,
					mailbox.FetchOptions{},
					func(m *mailbox.Message) (bool, error) {
						n++
						_, err := m.Envelope()
						return false, err
					}, func() error { return nil })
				if err != nil || n != 50 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// filled creates a mail file with size messages in INBOX.
func filled(b *testing.B, s *store.Store, svc *mailbox.Service, size int) *mailbox.File {
	ctx := context.Background()
	owner := s.UNID()
	db, err := svc.Make(ctx, owner, "big", 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	for done := 0; done < size; {
		err := s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			inbox, err := w.FolderNamed(mailbox.Inbox)
			for i := 0; i < 100 && err == nil; i++ {
				done++
				raw := fmt.Appendf(nil, "From: a@example.com\r\nSubject: message %d\r\n\r\nHello.\r\n", done)
				var c *mailbox.Composed
				if c, err = svc.Compose(ctx, raw); err != nil {
					break
				}
				n := c.New(time.Unix(int64(done), 0))
				n.Folders = []note.ID{inbox.Note}
				_, err = w.Create(n)
				defer c.Release()
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return svc.File(note.Who{Person: owner}, db)
}

// written returns the number of bytes that this process has written to disks (Linux; 0 elsewhere).
func written() int64 {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// BenchmarkFirstUnseen finds the only unseen message of 100,000, which is the last one.
func BenchmarkFirstUnseen(b *testing.B) {
	e := env.Real(slog.New(slog.DiscardHandler))
	s, err := store.Open(e, b.TempDir(), store.Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	f := filled(b, s, mailbox.New(s, e, mailbox.Options{}), 100_000)
	ctx := context.Background()
	v, _, err := f.Open(ctx, mailbox.Inbox, false)
	if err != nil {
		b.Fatal(err)
	}
	seen := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Seen: true}}
	if _, err := v.Store(ctx, mailbox.Set{{Start: 1, Stop: 99_999}}, false, seen,
		func(*mailbox.Message) {}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if n, err := v.FirstUnseen(ctx); err != nil || n != 100_000 {
			b.Fatal(n, err)
		}
	}
}
