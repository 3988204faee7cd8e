package mailbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
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

// BenchmarkAppend stores messages of 1 KB durably on the real disk, 32 at a time, over 200 mail files.
func BenchmarkAppend(b *testing.B) {
	e := env.Real(slog.New(slog.DiscardHandler))
	s, err := store.Open(e, b.TempDir(), store.Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	svc := mailbox.New(s, e, mailbox.Options{})
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
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			i := n.Add(1)
			raw := fmt.Appendf(nil, "From: Sender <a@example.com>\r\nTo: b@example.com\r\nSubject: test message %d\r\nMessage-ID: <%d@example.com>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\n\r\n%1000s\r\n", i, i, "x")
			if _, _, err := files[i%200].Append(context.Background(), "INBOX", raw, mailbox.Flags{}, time.Unix(1, 0)); err != nil {
				b.Error(err)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(written()-before)/float64(b.N), "written-B/op")
}

// written is how many bytes this process has sent to disks (Linux; 0 elsewhere).
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
