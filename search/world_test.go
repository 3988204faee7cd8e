package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/wire/mime"
)

// world is a store with mail files and its search service.
type world struct {
	t   testing.TB
	ctx context.Context
	f   *env.Fixture
	s   *store.Store
	svc *Service
	o   Options
	so  store.Options
	// stop ends Run and waits for it.
	stop func()
}

const kindMail = "mail"

func storeOptions() store.Options {
	return store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20, CacheSize: 4 << 20,
		LogSyncInterval: 20 * time.Microsecond, OnFatal: func(error) {}}
}

func searchOptions() Options {
	return Options{
		Dir: "data/search", CacheSize: 2 << 20, MemTableSize: 256 << 10, Share: 100, RebuildShare: 100, Tail: 1,
		Limits: text.Limits{Attached: func(p *mime.Part) bool {
			return len(p.Children) > 1 && p.Children[1].Disposition == "attachment"
		}},
		Kinds: map[string]func(*note.Content) []text.Stretch{kindMail: nil, "directory": Directory},
	}
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, ctx: context.Background(), f: env.TestRealTime(t), o: searchOptions(), so: storeOptions()}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.t.Helper()
	s, err := store.Open(w.f.Env, "data", w.so)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = s
	w.svc = New(s, w.f.Env, w.o)
	w.stop = func() {}
}

// reopen opens the world anew with another Options.Tail.
func (w *world) reopen(tail int) {
	w.close()
	w.o.Tail = tail
	w.open()
}

// run starts the indexer.
func (w *world) run() {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	svc := w.svc
	go func() { done <- svc.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run: %v", err)
		}
		w.stop = func() {}
	}
}

func (w *world) close() {
	w.stop()
	if err := w.s.Close(); err != nil && !errors.Is(err, store.ErrClosed) {
		w.t.Error(err)
	}
}

// catch waits until the index is complete.
func (w *world) catch() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 60*time.Second)
	defer cancel()
	if err := w.svc.Catch(ctx); err != nil {
		st, e := w.svc.Status(w.ctx)
		w.t.Fatalf("the index does not catch up: %v, %+v, %v", err, st, e)
	}
}

func (w *world) database(kind string) note.DatabaseID {
	w.t.Helper()
	id, err := w.s.CreateDatabase(note.System, store.Create{Title: "db", Kind: kind})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// update changes a database.
func (w *world) update(db note.DatabaseID, fn func(*store.Writer) error) {
	w.t.Helper()
	if err := w.s.Update(w.ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		x, err := tx.Database(db)
		if err != nil {
			return err
		}
		return fn(x)
	}); err != nil {
		w.t.Fatal(err)
	}
}

// deliver stores a message in databases.
func (w *world) deliver(raw string, date time.Time, dbs ...note.DatabaseID) []note.ID {
	w.t.Helper()
	b := []byte(raw)
	m, err := w.s.Prepare(w.ctx, b, mime.SplitLeaves(b, mime.Parse(b, mime.DefaultLimits), store.PartSize))
	if err != nil {
		w.t.Fatal(err)
	}
	defer m.Release()
	var out []note.ID
	if err := w.s.Update(w.ctx, note.System, dbs, func(tx *store.Tx) error {
		out = out[:0]
		for _, db := range dbs {
			x, err := tx.Database(db)
			if err != nil {
				return err
			}
			id, err := x.Create(store.New{Message: m, Date: date.Unix()})
			if err != nil {
				return err
			}
			out = append(out, id)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func (w *world) read(db note.DatabaseID, fn func(r *store.Reader) error) {
	w.t.Helper()
	if err := w.s.Read(w.ctx, note.System, db, fn); err != nil {
		w.t.Fatal(err)
	}
}

// brute returns the notes that pass a query, by reading the whole text of every note.
func (w *world) brute(db note.DatabaseID, n *query.Node) map[note.ID]bool {
	w.t.Helper()
	out := map[note.ID]bool{}
	w.read(db, func(r *store.Reader) error {
		for id, d := range w.documents(r) {
			row, err := r.Note(id)
			if err != nil {
				return err
			}
			a := asking{r: r}
			var pass func(n *query.Node) bool
			pass = func(n *query.Node) bool {
				switch n.Op {
				case query.OpAll, query.OpAny:
					for _, k := range n.Kids {
						if pass(k) == (n.Op == query.OpAny) {
							return n.Op == query.OpAny
						}
					}
					return n.Op == query.OpAll
				case query.OpNot:
					return !pass(n.Kids[0])
				case query.OpText:
					return n.Text.In(d)
				case query.OpAttachment:
					return d.HasAttachment
				}
				return a.rowPasses(n, row)
			}
			if pass(n) {
				out[id] = true
			}
		}
		return nil
	})
	return out
}

// documents returns the whole texts of a database's notes.
func (w *world) documents(r *store.Reader) map[note.ID]*text.Document {
	out := map[note.ID]*text.Document{}
	var ids []note.ID
	if err := r.Notes(1, func(id note.ID, _ *layoutNote) bool {
		ids = append(ids, id)
		return true
	}); err != nil {
		w.t.Fatal(err)
	}
	for _, id := range ids {
		row, err := r.Note(id)
		if err != nil {
			w.t.Fatal(err)
		}
		if row.Class != note.Document {
			continue
		}
		if row.Recipe == 0 {
			c, err := r.Content(id)
			if err != nil {
				w.t.Fatal(err)
			}
			out[id] = &text.Document{}
			if kind := w.o.Kinds[r.Info().Kind]; kind != nil {
				out[id].Stretches = kind(&c.Content)
			}
			continue
		}
		raw, err := message(r, row)
		if err != nil {
			w.t.Fatal(err)
		}
		out[id] = text.Whole(raw, w.o.Limits)
	}
	return out
}

// same compares Query and Find with brute force.
func (w *world) same(db note.DatabaseID, n *query.Node, what string) {
	w.t.Helper()
	want := w.brute(db, n)
	for _, order := range []Order{ByDate, ByRelevance} {
		got, err := w.svc.Query(w.ctx, note.System, db, Request{Query: n, Order: order, Total: true})
		if err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		seen := map[note.ID]bool{}
		for i, h := range got.Hits {
			if seen[h.ID] || !want[h.ID] {
				w.t.Errorf("%s: %d is no hit, or found twice", what, h.ID)
			}
			seen[h.ID] = true
			if i > 0 {
				a, b := got.Hits[i-1], h
				if order == ByDate && a.Date < b.Date || order == ByRelevance && a.Score < b.Score {
					w.t.Errorf("%s: hit %d is out of order: %+v before %+v", what, i, a, b)
				}
			}
		}
		if len(seen) != len(want) || got.Total != len(want) {
			for id := range want {
				if !seen[id] {
					w.t.Errorf("%s: %d is missed", what, id)
				}
			}
			w.t.Errorf("%s: %d hits, %d in all, want %d", what, len(seen), got.Total, len(want))
		}
	}
	// Compare the verdicts on each test.
	n.Texts(func(t *query.Text, _ bool) {
		w.read(db, func(r *store.Reader) error {
			v, err := w.svc.Find(w.ctx, r, []*query.Text{t})
			if err != nil {
				return err
			}
			for id, d := range w.documents(r) {
				on, in := v[0].On(id), t.In(d)
				if on == Yes && !in || on == No && in {
					w.t.Errorf("%s: the verdict of %q on %d is %d, but %v", what, t.Source, id, on, in)
				}
				row, err := r.Note(id)
				if err != nil {
					return err
				}
				if got, err := w.svc.Look(w.ctx, r, id, row).Passes(t); got != in || err != nil {
					w.t.Errorf("%s: a look at %d for %q says %v, %v", what, id, t.Source, got, err)
				}
			}
			return nil
		})
	})
}

// vocabulary holds the words of random texts.
var vocabulary = strings.Fields(strings.NewReplacer("HYPHEN", "\u00ad", "JOINER",
	"\u200d").Replace(`the report of Monday quarterly annual customer office Müller Mueller Straße strasse GROSSE
	Bücher Kaufvertrag Vertrag
	vertraglich Hauptbahnhof café cafe CAFÉ naïve résumé foo foobar barfoo bar don't l’avion user@example.com
	2025-03-01 3.14 snake_case C++ →
	東京都 東京 京都 私は日本語を 日本 コンピューター 数字を確認 北京的天气 학교에서 학교 배웠다 สวัสดีครับ Привет мир ёлка שָׁלוֹם שלום كِتَاب İstanbul ısı ﬁle
	softHYPHENhyphen zeroJOINERwidth
	abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz0123456789 😀 % a b c ab bc abc`))

// writer generates random messages.
type writer struct{ rng *rand.Rand }

func (g *writer) words(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(vocabulary[g.rng.IntN(len(vocabulary))])
		b.WriteString([]string{" ", " ", " ", ", ", "\r\n", ". ", "-", ""}[g.rng.IntN(8)])
	}
	return b.String()
}

func (g *writer) line(n int) string {
	return strings.ReplaceAll(g.words(n), "\r\n", " ")
}

func (g *writer) message() string {
	var b strings.Builder
	fmt.Fprintf(&b, "From: %s <p%d@example.com>\r\nTo: %s <q%d@example.org>, other@example.net\r\n", g.line(1),
		g.rng.IntN(9), g.line(1), g.rng.IntN(9))
	if g.rng.IntN(3) == 0 {
		fmt.Fprintf(&b, "Cc: %s <c@example.com>\r\n", g.line(2))
	}
	fmt.Fprintf(&b, "Subject: %s\r\nMessage-ID: <%d@example.com>\r\nX-Topic: %s\r\nReceived: from secret\r\n",
		g.line(4), g.rng.Int64(), g.line(2))
	switch g.rng.IntN(4) {
	case 0:
		fmt.Fprintf(&b, "Content-Type: text/html; charset=utf-8\r\n\r\n"+
			"<p>%s</p><style>hidden { }</style><blockquote>%s</blockquote><b>%s</b>", g.words(8), g.words(4),
			g.words(2))
	case 1:
		fmt.Fprintf(&b, "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n"+
			"Content-Type: text/plain; charset=utf-8\r\n\r\n%s\r\n--b\r\nContent-Type: application/octet-stream\r\n"+
			"Content-Disposition: attachment; filename=\"%s.odt\"\r\nContent-Transfer-Encoding: base64\r\n\r\n%s\r\n"+
			"--b--\r\n",
			g.words(8), strings.NewReplacer("\"", "", "\r\n", "", "/", "").Replace(g.line(1)), odt(g.words(6)))
	default:
		fmt.Fprintf(&b, "Content-Type: text/plain; charset=utf-8\r\n\r\n%s\r\n> %s\r\n%s\r\n", g.words(10), g.line(4),
			g.words(3))
	}
	return b.String()
}
