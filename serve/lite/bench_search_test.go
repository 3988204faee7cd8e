//go:build unix

package lite

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/search"
	"doublet/search/text"
	"doublet/store"
)

// BenchmarkSearch renders search results among 10,000 messages with an index, as on a real server: for a word in few
// messages, in a tenth of them, and in all.
func BenchmarkSearch(b *testing.B) {
	w := open(b, 0)
	e := env.Real(slog.New(slog.DiscardHandler))
	x := search.New(w.store, e, search.Options{
		Dir: b.TempDir(), CacheSize: 64 << 20, MemTableSize: 16 << 20, DocsSize: 32 << 20, Share: 100,
		RebuildShare: 100,
		Limits: text.Limits{Part: 1 << 20, Message: 2 << 20, Attachment: 20 << 20,
			Attached: mailbox.HasAttachment},
		Kinds: map[string]func(*note.Content) []text.Stretch{mailbox.Kind: nil}, Parts: mailbox.PartsOf,
	})
	w.files.UseSearch(x)
	db := w.people["alice"].MailDatabase
	const all = 10_000
	for at := 0; at < all; at += 100 {
		var made []*mailbox.Composed
		w.ok(w.store.Update(bg, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			d, err := tx.Database(db)
			if err != nil {
				return err
			}
			f, err := d.FolderNamed("INBOX")
			if err != nil {
				return err
			}
			for i := at; i < at+100; i++ {
				few := ""
				if i%10 == 0 {
					few = "tenth"
				}
				if i%1000 == 0 {
					few += " seldom"
				}
				c, err := w.files.Compose(bg, fmt.Appendf(nil,
					"From: Eve Example <eve%d@far.example>\r\nTo: alice@example.com\r\n"+
						"Subject: Subject of message %d with some words\r\nMessage-ID: <%d@far.example>\r\n\r\n"+
						"What everybody writes, %s, in number n%dn.\r\n", i%50, i, i, few, i))
				if err != nil {
					return err
				}
				made = append(made, c)
				n := c.New(w.fix.Clock.Now())
				n.Folders = []note.ID{f.Note}
				if _, err := d.Create(n); err != nil {
					return err
				}
			}
			return nil
		}))
		for _, c := range made {
			c.Release()
		}
	}
	ctx, stop := context.WithCancel(bg)
	done := make(chan error, 1)
	go func() { done <- x.Run(ctx) }()
	b.Cleanup(func() { stop(); w.ok(<-done) })
	w.ok(x.Catch(bg))
	who := w.signed("alice")
	for _, page := range []struct{ name, at string }{
		{"few", "?q=seldom"}, {"tenth", "?q=tenth"}, {"all", "?q=everybody"}, {"all-last", "?q=everybody&p=400"},
		{"two", "?q=everybody+tenth"}, {"sender", "?q=from:eve7"}, {"none", "?q=nowhere"},
	} {
		b.Run(page.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			began := cpu(b)
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, Path+page.at, nil)
				r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
				for _, c := range who.cookies {
					r.AddCookie(c)
				}
				out := httptest.NewRecorder()
				w.lite.ServeHTTP(out, r)
				if n = out.Body.Len(); out.Code != 200 || n > 30_000 {
					b.Fatal(out.Code, n)
				}
			}
			b.ReportMetric(float64(cpu(b)-began)/1e3/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(n), "page-B")
		})
	}
}
