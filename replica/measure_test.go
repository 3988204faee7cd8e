package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// fill puts n messages of the given size into the INBOX.
func (x *server) fill(b *testing.B, n, size int) {
	rng := rand.New(rand.NewPCG(1, 5))
	ctx := context.Background()
	for i := 0; i < n; {
		var list []*mailbox.Composed
		for range min(500, n-i) {
			c, err := x.mail.Compose(ctx, letter(rng, size))
			if err != nil {
				b.Fatal(err)
			}
			list = append(list, c)
		}
		err := x.update(testDB, func(w *store.Writer) error {
			f, err := w.FolderNamed("INBOX")
			if err != nil {
				return err
			}
			for _, c := range list {
				m := c.New(x.f.Env.Clock.Now())
				m.Folders = []note.ID{f.Note}
				if _, err := w.Create(m); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range list {
			c.Release()
		}
		i += len(list)
	}
}

// BenchmarkCopy sends a whole mail file to an empty copy, and BenchmarkCatchUp to an empty follower: messages of 3 KB,
// encoded, in memory.
func BenchmarkCopy(b *testing.B)    { benchmark(b, false) }
func BenchmarkCatchUp(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, ledger bool) {
	const n = 5000
	for i := range b.N {
		b.StopTimer()
		t := &testing.T{}
		home := newBench(b, t, fmt.Sprint("home", i), 64<<20)
		mate := newBench(b, t, fmt.Sprint("mate", i), 64<<20)
		if _, err := home.s.CreateDatabase(note.System, store.Create{ID: testDB, Title: "Mail",
			Kind: "mail"}); err != nil {
			b.Fatal(err)
		}
		if err := home.update(testDB,
			func(w *store.Writer) error { _, err := w.CreateFolder("INBOX", ""); return err }); err != nil {
			b.Fatal(err)
		}
		if ledger {
			if err := home.s.Share(context.Background(), testDB, 0); err != nil {
				b.Fatal(err)
			}
			info, err := home.s.Info(testDB)
			if err != nil {
				b.Fatal(err)
			}
			if err := mate.s.CreateReplica(note.System, info, 1); err != nil {
				b.Fatal(err)
			}
		} else if _, err := mate.s.CreateDatabase(note.System,
			store.Create{ID: testDB, Title: "Mail", Kind: "mail"}); err != nil {
			b.Fatal(err)
		}
		home.fill(b, n, 1500)
		b.StartTimer()
		far := NewRemote(Served{Side: mate.side()})
		r, err := Send(context.Background(), home.side(), far, testDB, SendOptions{})
		if err != nil || r.Added < n {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "notes/s")
}
