//go:build unix

package mailbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// BenchmarkSession does what a mail program does with a folder of 200 messages: it opens it, lists the last 50, reads
// five, marks two \Deleted and expunges them, while two new ones arrive. There are 20 mail files.
func BenchmarkSession(b *testing.B) {
	s, svc := onDisk(b, env.Real(slog.New(slog.DiscardHandler)))
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

// BenchmarkAppendLarge stores a message with an attachment of 10 MB, which does not compress, durably on a real disk,
// and then another message with the same attachment: as somebody sends a file, and files the message in Sent.
func BenchmarkAppendLarge(b *testing.B) {
	s, svc := onDisk(b, env.Real(slog.New(slog.DiscardHandler)))
	owner := s.UNID()
	id, err := svc.Make(context.Background(), owner, "user", 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	f := svc.File(note.Who{Person: owner}, id)
	data := make([]byte, 10<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data) // never fails
	raw := []byte("From: a@example.com\r\nTo: b@example.com\r\nSubject: 00000000\r\n" +
		"Content-Transfer-Encoding: base64\r\n\r\n")
	body := len(raw)
	raw = mime.AppendBase64Lines(raw, data, 76, true)
	subject := raw[bytes.IndexByte(raw, '0'):][:8]
	var n int
	for _, c := range []struct {
		name string
		step func()
	}{
		{"new", func() { n++; copy(raw[body:], fmt.Sprintf("%08d", n)) }},
		{"known", func() { n++; copy(subject, fmt.Sprintf("%08d", n)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			before := used()
			for b.Loop() {
				c.step()
				_, _, err := f.Append(context.Background(), "INBOX", raw, mailbox.Flags{}, time.Unix(1, 0))
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((used()-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}
