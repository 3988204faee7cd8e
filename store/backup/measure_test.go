package backup

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/wire/mime"
)

var (
	measureDir = flag.String("measure", "",
		"folder for TestMeasure: a backup of a store of some size, beside a user at work")
	measureMB = flag.Int("measure-mb", 2048, "size of that store")
)

// TestMeasure only measures. It prints the rate of a full and of an incremental backup, and how long a user's
// deliveries take with and without a running backup.
func TestMeasure(t *testing.T) {
	if *measureDir == "" {
		t.Skip("measures only when it is told where")
	}
	e := env.Real(newDiscard())
	o := store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 64 << 20, CacheSize: 256 << 20}
	s, err := store.Open(e, *measureDir+"/data", o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := s.CreateDatabase(note.System, store.Create{Title: "m", Kind: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	update := func(fn func(w *store.Writer) error) {
		t.Helper()
		if err := s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			return fn(w)
		}); err != nil {
			t.Fatal(err)
		}
	}
	update(func(w *store.Writer) error { _, err := w.CreateFolder("INBOX", ""); return err })
	rng := rand.New(rand.NewPCG(1, 1))
	body := make([]byte, 300<<10)
	deliver := func(n int) {
		for i := 0; i < n; i += 8 {
			body[i] = byte(rng.Uint32())
			body[i+1], body[i+3], body[i+5] = byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())
		}
		raw := mime.AppendBase64Lines([]byte(fmt.Sprintf("Subject: %d\r\nContent-Transfer-Encoding: base64\r\n\r\n",
			rng.Uint64())), body[:n], 76, true)
		m, err := s.Prepare(context.Background(), raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits),
			store.PartSize))
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		update(func(w *store.Writer) error {
			_, err := w.Create(store.New{Message: m, Folders: []note.ID{1}})
			return err
		})
	}
	for total := 0; total < *measureMB<<20; {
		deliver(300 << 10)
		total += 200 << 10
		for range 12 {
			deliver(8 << 10)
			total += 8 << 10
		}
	}
	user := func(stop <-chan struct{}) (took []time.Duration) {
		for {
			select {
			case <-stop:
				return took
			case <-time.After(5 * time.Millisecond):
			}
			start := time.Now()
			deliver(4 << 10)
			took = append(took, time.Since(start))
		}
	}
	measure := func(name string, while func()) {
		stop, done := make(chan struct{}), make(chan []time.Duration)
		go func() { done <- user(stop) }()
		while()
		close(stop)
		took := <-done
		slices.Sort(took)
		t.Logf("%s: %d deliveries, median %v, p99 %v, most %v", name, len(took), took[len(took)/2],
			took[len(took)*99/100], took[len(took)-1])
	}
	measure("without", func() { time.Sleep(15 * time.Second) })
	for _, rate := range []int64{0, 0, 50 << 20, 1 << 40} {
		dir := fmt.Sprint(*measureDir, "/backup-", rate)
		measure(fmt.Sprint("with a backup at rate ", rate), func() {
			g, err := Take(context.Background(), e, s, dir, Options{Rate: rate})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d MB of %d MB in %v: %.0f MB/s", g.Copied>>20, g.Bytes>>20, g.Took(),
				float64(g.Copied)/1e6/g.Took().Seconds())
		})
	}
}
