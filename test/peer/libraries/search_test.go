package libraries

import (
	"context"
	"encoding/gob"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2"
	"github.com/blevesearch/bleve/v2/analysis/analyzer/simple"
	"github.com/blevesearch/bleve/v2/mapping"

	"doublet/env"
	"doublet/note"
	"doublet/search"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/test/external"
	"doublet/wire/mime"
)

// asked is the number of questions of each kind: words, and phrases of two words.
const asked = 300

// questions returns pieces of the messages, always the same.
func questions(messages []string, words int) []string {
	rng := rand.New(rand.NewPCG(7, uint64(words)))
	var out []string
	for len(out) < asked {
		d := text.Message([]byte(messages[rng.IntN(len(messages))]), text.Limits{})
		fields := strings.Fields(d.Stretches[rng.IntN(len(d.Stretches))].Text)
		if len(fields) < words {
			continue
		}
		at := rng.IntN(len(fields) - words + 1)
		piece := strings.Join(fields[at:at+words], " ")
		if strings.Trim(piece, " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			out = append(out, piece)
		}
	}
	return out
}

// engine indexes messages, then answers how many pass.
type engine interface {
	index(messages []string) error
	word(s string) (int, error)
	phrase(s string) (int, error)
	close() error
}

// cpu returns the processor time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// size returns the bytes in a folder.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, e := d.Info(); e == nil {
				n += info.Size()
			}
		}
		return err
	})
	return n
}

// measure prints what an engine takes.
func measure(e engine, messages []string, dir string) error {
	begun, used := time.Now(), cpu()
	if err := e.index(messages); err != nil {
		return err
	}
	each := float64((cpu() - used).Microseconds()) / 1000 / float64(len(messages))
	fmt.Printf("index %.1f s, CPU %.2f ms a message", time.Since(begun).Seconds(), each)
	for words, ask := range map[int]func(string) (int, error){1: e.word, 2: e.phrase} {
		var times []time.Duration
		hits := 0
		for _, q := range questions(messages, words) {
			begun := time.Now()
			n, err := ask(q)
			if err != nil {
				return err
			}
			times = append(times, time.Since(begun))
			hits += n
		}
		slices.Sort(times)
		p50, p95 := times[len(times)/2].Round(time.Microsecond), times[len(times)*95/100].Round(time.Microsecond)
		fmt.Printf("; %d words: p50 %s p95 %s, %d hits", words, p50, p95, hits)
	}
	if err := e.close(); err != nil {
		return err
	}
	fmt.Printf("; %.1f MB", float64(size(dir))/1e6)
	return nil
}

type oursEngine struct {
	dir  string
	s    *store.Store
	svc  *search.Service
	db   note.DatabaseID
	stop func() error
}

func (o *oursEngine) fill(messages []string) (err error) {
	e := env.Real(slog.New(slog.DiscardHandler))
	if o.s, err = store.Open(e, filepath.Join(o.dir, "store"), store.Options{}); err != nil {
		return err
	}
	if o.db, err = o.s.CreateDatabase(note.System, store.Create{Title: "db", Kind: "mail"}); err != nil {
		return err
	}
	ctx := context.Background()
	for i, raw := range messages {
		b := []byte(raw)
		m, err := o.s.Prepare(ctx, b, mime.SplitLeaves(b, mime.Parse(b, mime.DefaultLimits), store.PartSize))
		if err != nil {
			return err
		}
		err = o.s.Update(ctx, note.System, []note.DatabaseID{o.db}, func(tx *store.Tx) error {
			x, err := tx.Database(o.db)
			if err == nil {
				_, err = x.Create(store.New{Message: m, Date: int64(i)})
			}
			return err
		})
		if m.Release(); err != nil {
			return err
		}
	}
	o.svc = search.New(o.s, e, search.Options{
		Dir: filepath.Join(o.dir, "index"), Share: 100, RebuildShare: 100,
		Kinds: map[string]func(*note.Content) []text.Stretch{"mail": nil},
	})
	return nil
}

func (o *oursEngine) index([]string) error {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.svc.Run(ctx) }()
	o.stop = func() error { cancel(); return <-done }
	return o.svc.Catch(ctx)
}

func (o *oursEngine) word(s string) (int, error) {
	n := &query.Node{Op: query.OpText, Text: query.Phrase(text.Any, s)}
	r, err := o.svc.Query(context.Background(), note.System, o.db, search.Request{Query: n, Limit: 50, Total: true})
	return r.Total, err
}

func (o *oursEngine) phrase(s string) (int, error) { return o.word(s) }

func (o *oursEngine) close() error {
	if err := o.stop(); err != nil {
		return err
	}
	return o.s.Close()
}

type bleveEngine struct {
	dir string
	x   bleve.Index
}

func (b *bleveEngine) index(messages []string) (err error) {
	body := bleve.NewTextFieldMapping()
	body.Store, body.DocValues, body.Analyzer, body.IncludeInAll = false, false, simple.Name, false
	date := bleve.NewNumericFieldMapping()
	date.Store, date.IncludeInAll = false, false
	doc := mapping.NewDocumentStaticMapping()
	doc.AddFieldMappingsAt("text", body)
	doc.AddFieldMappingsAt("date", date)
	m := bleve.NewIndexMapping()
	m.DefaultMapping = doc
	if b.x, err = bleve.New(filepath.Join(b.dir, "index"), m); err != nil {
		return err
	}
	batch := b.x.NewBatch()
	for i, raw := range messages {
		var stretches []string
		for _, s := range text.Message([]byte(raw), text.Limits{}).Stretches {
			stretches = append(stretches, s.Text)
		}
		if err := batch.Index(strconv.Itoa(i), map[string]any{"text": stretches, "date": float64(i)}); err != nil {
			return err
		}
		if batch.Size() == 64 || i == len(messages)-1 {
			if err := b.x.Batch(batch); err != nil {
				return err
			}
			batch.Reset()
		}
	}
	return nil
}

func (b *bleveEngine) word(s string) (int, error) {
	q := bleve.NewMatchQuery(s)
	q.SetField("text")
	r := bleve.NewSearchRequestOptions(q, 50, 0, false)
	r.SortBy([]string{"-date"})
	out, err := b.x.Search(r)
	if err != nil {
		return 0, err
	}
	return int(out.Total), nil
}

func (b *bleveEngine) phrase(s string) (int, error) {
	q := bleve.NewMatchPhraseQuery(s)
	q.SetField("text")
	r := bleve.NewSearchRequestOptions(q, 50, 0, false)
	r.SortBy([]string{"-date"})
	out, err := b.x.Search(r)
	if err != nil {
		return 0, err
	}
	return int(out.Total), nil
}

func (b *bleveEngine) close() error { return b.x.Close() }

func init() {
	load := func() (messages []string, err error) {
		f, err := os.Open(os.Getenv("FILE"))
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return messages, gob.NewDecoder(f).Decode(&messages)
	}
	probes["search ours"] = func() error {
		messages, err := load()
		if err != nil {
			return err
		}
		o := &oursEngine{dir: os.Getenv("DIR")}
		if err := o.fill(messages); err != nil {
			return err
		}
		return measure(o, messages, filepath.Join(o.dir, "index"))
	}
	probes["search bleve"] = func() error {
		messages, err := load()
		if err != nil {
			return err
		}
		b := &bleveEngine{dir: os.Getenv("DIR")}
		return measure(b, messages, filepath.Join(b.dir, "index"))
	}
}

// TestSearch indexes real mail by both, three times in turn (LONG=1, and the corpus beside the repository). The memory
// of ours includes that of the store, which holds the messages.
func TestSearch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "messages")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := gob.NewEncoder(f).Encode(external.Corpus(t, 0)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, name := range []string{"search ours", "search bleve"} {
			if o := runFor(t, 5*time.Minute, name, "FILE="+file, "DIR="+t.TempDir()); !o.ended || o.failed {
				t.Errorf("%s: %+v", name, o)
			}
		}
	}
}
