//go:build unix

package mailbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/search"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/test/external"
)

// shelf is a store on a real disk with a search service configured as in the server.
type shelf struct {
	b   *testing.B
	s   *store.Store
	svc *mailbox.Service
	x   *search.Service
	dir string
	end func()
}

func newShelf(b *testing.B, share int) *shelf {
	b.Helper()
	e := env.Real(slog.New(slog.DiscardHandler))
	h := &shelf{b: b, dir: b.TempDir()}
	var err error
	if h.s, err = store.Open(e, filepath.Join(h.dir, "data"), store.Options{Ballast: -1}); err != nil {
		b.Fatal(err)
	}
	h.svc = mailbox.New(h.s, e, mailbox.Options{})
	h.x = search.New(h.s, e, search.Options{
		Dir: filepath.Join(h.dir, "search"), CacheSize: 64 << 20, MemTableSize: 16 << 20, DocsSize: 32 << 20,
		Share: share, RebuildShare: share,
		Limits: text.Limits{Part: 1 << 20, Message: 2 << 20, Attachment: 20 << 20, Attached: mailbox.HasAttachment},
		Kinds:  map[string]func(*note.Content) []text.Stretch{mailbox.Kind: nil}, Parts: mailbox.PartsOf,
	})
	h.end = func() {}
	b.Cleanup(func() {
		h.end()
		if err := h.s.Close(); err != nil {
			b.Error(err)
		}
	})
	return h
}

// index starts the indexer.
func (h *shelf) index() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.x.Run(ctx) }()
	h.end = func() {
		cancel()
		if err := <-done; err != nil {
			h.b.Error(err)
		}
		h.end = func() {}
	}
}

func (h *shelf) file(name string) (note.Who, note.DatabaseID, *mailbox.File) {
	h.b.Helper()
	owner := h.s.UNID()
	id, err := h.svc.Make(context.Background(), owner, name, 0, 0)
	if err != nil {
		h.b.Fatal(err)
	}
	who := note.Who{Person: owner}
	return who, id, h.svc.File(who, id)
}

// fill stores n messages of the corpus, each with a unique word and subject, in commits of a hundred.
func (h *shelf) fill(db note.DatabaseID, messages []string, n int) {
	h.b.Helper()
	ctx := context.Background()
	for at := 0; at < n; at += 100 {
		var made []*mailbox.Composed
		err := h.s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			f, err := w.FolderNamed("INBOX")
			if err != nil {
				return err
			}
			for i := at; i < min(n, at+100); i++ {
				c, err := h.svc.Compose(ctx, fmt.Appendf(nil, "X-Number: n%dn\r\n%s", i, messages[i%len(messages)]))
				if err != nil {
					return err
				}
				made = append(made, c)
				x := c.New(time.Unix(1_600_000_000+int64(i)*60, 0))
				x.Folders = []note.ID{f.Note}
				if _, err := w.Create(x); err != nil {
					return err
				}
			}
			return nil
		})
		for _, c := range made {
			c.Release()
		}
		if err != nil {
			h.b.Fatal(err)
		}
	}
}

func (h *shelf) catch() {
	h.b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := h.x.Catch(ctx); err != nil {
		h.b.Fatal(err)
	}
}

// used returns the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIndexing indexes the corpus. It reports the processor time per message, and the size of the index relative
// to the text.
func BenchmarkIndexing(b *testing.B) {
	messages := external.Corpus(b, 0)
	for b.Loop() {
		h := newShelf(b, 100)
		_, db, _ := h.file("all")
		h.fill(db, messages, len(messages))
		before := used()
		h.index()
		h.catch()
		b.ReportMetric(float64(used()-before)/float64(time.Millisecond)/float64(len(messages)), "cpu-ms/message")
		st, err := h.x.Status(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(st.Totals.Text)/float64(len(messages)), "text-B/message")
		h.end() // flushes the data in memory
		b.ReportMetric(100*float64(diskUse(b, filepath.Join(h.dir, "search")))/float64(st.Totals.Text),
			"index-%-of-text")
	}
}

func diskUse(b *testing.B, dir string) (sum int64) {
	err := filepath.Walk(dir, func(_ string, i os.FileInfo, err error) error {
		if err == nil && !i.IsDir() {
			sum += i.Size()
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return sum
}

// BenchmarkFind searches a mail file of 100,000 messages for the 50 latest hits, with common to rare words, phrases,
// prefixes and fields. It reports percentiles over all queries, of their time and of the processor time.
func BenchmarkFind(b *testing.B) {
	messages := external.Corpus(b, 0)
	h := newShelf(b, 100)
	who, db, _ := h.file("all")
	h.fill(db, messages, 100_000)
	h.index()
	h.catch()
	kinds := questions(messages)
	for _, kind := range []string{"word", "two words", "phrase", "beginning", "subject", "number", "string"} {
		b.Run(kind, func(b *testing.B) {
			var took, cpu []time.Duration
			i := 0
			for b.Loop() {
				asked := kinds[kind][i%len(kinds[kind])]
				i++
				parsed, err := query.Parse(asked, query.Context{Now: time.Unix(1_700_000_000, 0)})
				if err != nil {
					b.Fatal(err)
				}
				q := parsed.Node()
				if kind == "string" { // as IMAP does
					q = &query.Node{Op: query.OpText, Text: query.Substring(text.Any, asked)}
				}
				begun, before := time.Now(), used()
				if _, err := h.x.Query(context.Background(), who, db, search.Request{Query: q, Limit: 50}); err != nil {
					b.Fatal(err)
				}
				took, cpu = append(took, time.Since(begun)), append(cpu, used()-before)
			}
			for name, list := range map[string][]time.Duration{"ms": took, "cpu-ms": cpu} {
				slices.Sort(list)
				b.ReportMetric(float64(list[len(list)/2].Microseconds())/1000, "p50-"+name)
				b.ReportMetric(float64(list[len(list)*95/100].Microseconds())/1000, "p95-"+name)
			}
		})
	}
}

// questions returns texts to search for, by kind.
func questions(messages []string) map[string][]string {
	rng := rand.New(rand.NewPCG(4, 2))
	out := map[string][]string{}
	plain := func(s string) bool {
		return len(s) > 2 && strings.IndexFunc(s, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
	}
	for len(out["phrase"]) < 200 {
		_, body, _ := strings.Cut(messages[rng.IntN(len(messages))], "\r\n\r\n")
		f := strings.Fields(body)
		if len(f) < 3 {
			continue
		}
		i := rng.IntN(len(f) - 1)
		if !plain(f[i]) || !plain(f[i+1]) {
			continue
		}
		out["word"] = append(out["word"], f[i])
		out["two words"] = append(out["two words"], f[i]+" "+f[i+1])
		out["phrase"] = append(out["phrase"], `"`+f[i]+" "+f[i+1]+`"`)
		out["beginning"] = append(out["beginning"], f[i][:3]+"*")
		out["subject"] = append(out["subject"], "subject:"+f[i])
		out["string"] = append(out["string"], f[i][1:])
		out["number"] = append(out["number"], fmt.Sprintf("n%dn", rng.IntN(100_000)))
	}
	return out
}

// BenchmarkFollow delivers 1,000 messages per second into 1,000 mail files, without and with an index. It reports the
// time of a delivery, the cost per message, and the maximum lag of the index.
func BenchmarkFollow(b *testing.B) {
	messages := external.Corpus(b, 0)
	messages = slices.DeleteFunc(messages, func(s string) bool { return len(s) > 20_000 })
	const rate, files = 1000, 1000
	for _, indexed := range []bool{false, true} {
		b.Run(fmt.Sprintf("indexed=%v", indexed), func(b *testing.B) {
			h := newShelf(b, 50)
			all := make([]*mailbox.File, files)
			for i := range all {
				_, _, all[i] = h.file(fmt.Sprint("user ", i))
			}
			if indexed {
				h.index()
				h.catch()
			}
			var mu sync.Mutex
			var took []time.Duration
			var worst atomic.Int64
			stop := make(chan struct{})
			var watch sync.WaitGroup
			watch.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
						if _, since := h.x.Lag(); indexed && int64(since) > worst.Load() {
							worst.Store(int64(since))
						}
					}
				}
			})
			before, begun := used(), time.Now()
			var running sync.WaitGroup
			places := make(chan struct{}, 64)
			i := 0
			for b.Loop() {
				n := i
				i++
				time.Sleep(time.Until(begun.Add(time.Duration(n) * time.Second / rate)))
				places <- struct{}{}
				due := begun.Add(time.Duration(n) * time.Second / rate)
				running.Go(func() {
					defer func() { <-places }()
					raw := []byte(messages[n%len(messages)])
					if _, _, err := all[n*7919%files].Append(context.Background(), "INBOX", raw, mailbox.Flags{},
						time.Unix(1_700_000_000, 0)); err != nil {
						b.Error(err)
						return
					}
					d := time.Since(due)
					mu.Lock()
					took = append(took, d)
					mu.Unlock()
				})
			}
			running.Wait()
			spent := time.Since(begun)
			close(stop)
			watch.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(len(took))/spent.Seconds(), "deliveries/s")
			b.ReportMetric(float64(used()-before)/float64(time.Millisecond)/float64(len(took)), "cpu-ms/message")
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			if indexed {
				b.ReportMetric(float64(worst.Load())/1e6, "behind-ms")
			}
			h.end()
		})
	}
}
