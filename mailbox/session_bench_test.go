//go:build unix

package mailbox_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/store"
)

// BenchmarkSession does what a mail program does with a folder of 200 messages: it opens it, lists the last 50, reads
// five, marks two \Deleted and expunges them, while two new ones arrive. There are 20 mail files.
func BenchmarkSession(b *testing.B) {
	e := env.Real(slog.New(slog.DiscardHandler))
	s, err := store.Open(e, b.TempDir(), store.Options{Ballast: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	svc := mailbox.New(s, e, mailbox.Options{})
	files := make([]*mailbox.File, 20)
	for i := range files {
		files[i] = filled(b, s, svc, 200)
	}
	before, i := used(), 0
	for b.Loop() {
		i++
		if err := workOn(files[i%len(files)], i); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-us/op")
}

func workOn(f *mailbox.File, i int) error {
	ctx := context.Background()
	v, _, err := f.Open(ctx, mailbox.Inbox, false)
	if err != nil {
		return err
	}
	last := mailbox.Set{{Start: v.Exists() - 49, Stop: v.Exists()}}
	var uids []uint32
	err = v.Fetch(ctx, last, false, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		if !m.Flags().Deleted {
			uids = append(uids, m.UID)
		}
		_, err := m.Envelope()
		return false, err
	}, func() error { return nil })
	if err != nil {
		return err
	}
	for k := range 7 {
		n := (i*7 + k*11) % len(uids)
		set := mailbox.Set{{Start: uids[n], Stop: uids[n]}}
		if k == 2 || k == 5 {
			uids = append(uids[:n], uids[n+1:]...)
			mark := mailbox.StoreOp{Mode: mailbox.Add, Flags: mailbox.Flags{Deleted: true}}
			if _, err := v.Store(ctx, set, true, mark, func(*mailbox.Message) {}); err != nil {
				return err
			}
			if err := v.Expunge(ctx, nil); err != nil {
				return err
			}
			raw := fmt.Appendf(nil, "From: a@example.com\r\nSubject: new %d %d\r\n\r\nHello.\r\n", i, k)
			if _, _, err := f.Append(ctx, mailbox.Inbox, raw, mailbox.Flags{}, time.Unix(int64(i), 0)); err != nil {
				return err
			}
		} else if err := v.Fetch(ctx, set, true, mailbox.FetchOptions{MarkSeen: true},
			func(m *mailbox.Message) (bool, error) {
				body, err := m.Body()
				if err == nil {
					_, err = body.WriteTo(io.Discard)
				}
				return false, err
			}, func() error { return nil }); err != nil {
			return err
		}
		if err := v.Poll(ctx, true, nobody{}); err != nil {
			return err
		}
	}
	return nil
}
