package mailbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/search"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"
)

// TestSearchIndexed checks that a search finds the same messages with an index (lagging, running, complete) as without
// one.
func TestSearchIndexed(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	plain, indexed := mailbox.New(s, f.Env, mailbox.Options{}), mailbox.New(s, f.Env, mailbox.Options{})
	full := search.New(s, f.Env, search.Options{
		Dir: "data/search", Share: 100, RebuildShare: 100,
		Kinds: map[string]func(*note.Content) []text.Stretch{mailbox.Kind: nil}, Parts: mailbox.PartsOf,
		Limits: text.Limits{Attached: mailbox.HasAttachment},
	})
	indexed.UseSearch(full)
	owner := note.UNID{7}
	who := note.Who{Person: owner}
	db, err := plain.Make(ctx, owner, "file", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("report Report quarterly müller Muller straße strasse 東京 東京都 foo foobar bar x-ray " +
		"ann@example.com über % café cafe")
	some := func(n int) string {
		var out []string
		for range n {
			out = append(out, words[rng.IntN(len(words))])
		}
		return strings.Join(out, []string{" ", ", ", "-"}[rng.IntN(3)])
	}
	add := func(n int) {
		for range n {
			raw := fmt.Sprintf("From: %s <p%d@example.com>\r\nTo: %s <q@example.org>\r\nCc: c%d@example.net\r\n"+
				"Subject: %s\r\nMessage-ID: <%d@x>\r\nX-Topic: %s\r\nReceived: by %s\r\nReferences: <%d@ref>\r\n"+
				"Content-Type: text/%s; charset=utf-8\r\n\r\n<p>%s</p>\r\n> %s\r\n",
				some(1), rng.IntN(5), some(1), rng.IntN(5), some(3), rng.IntN(1000), some(2), some(1), rng.IntN(100),
				[]string{"plain", "html"}[rng.IntN(2)], some(8), some(2))
			if rng.IntN(20) == 0 {
				raw = strings.Replace(raw, "\r\n\r\n", "\r\n\r\n"+strings.Repeat("filler ", 12_000), 1)
			}
			folder := []string{"INBOX", "Archive"}[rng.IntN(2)]
			if _, _, err := plain.File(who, db).Append(ctx, folder, []byte(raw), mailbox.Flags{},
				time.Unix(int64(rng.IntN(1e6)), 0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var random func(depth int) mailbox.Criteria
	random = func(depth int) mailbox.Criteria {
		if depth > 0 && rng.IntN(3) > 0 {
			c := mailbox.Criteria{Test: []mailbox.Test{mailbox.TestAll, mailbox.TestAny, mailbox.TestNot}[rng.IntN(3)]}
			for range 1 + rng.IntN(2) {
				c.All = append(c.All, random(depth-1))
			}
			return c
		}
		if rng.IntN(8) == 0 {
			return mailbox.Criteria{Test: mailbox.TestLarger, Number: uint64(200 + rng.IntN(300))}
		}
		r := []rune(some(1 + rng.IntN(2)))
		i := rng.IntN(len(r))
		c := mailbox.Criteria{
			Test: []mailbox.Test{mailbox.TestText, mailbox.TestBody, mailbox.TestSubject, mailbox.TestFrom,
				mailbox.TestTo, mailbox.TestCc, mailbox.TestHeader}[rng.IntN(7)],
			Text: string(r[i:min(len(r), i+1+rng.IntN(9))]), Words: rng.IntN(2) == 0,
			Name: []string{"Subject", "X-Topic", "received", "message-id", "References", "To"}[rng.IntN(6)],
		}
		if rng.IntN(20) == 0 {
			c.Text = ""
		}
		return c
	}
	compare := func(n int) {
		t.Helper()
		for _, folder := range []string{"INBOX", "Archive"} {
			a, _, err := plain.File(who, db).Open(ctx, folder, true)
			if err != nil {
				t.Fatal(err)
			}
			b, _, err := indexed.File(who, db).Open(ctx, folder, true)
			if err != nil {
				t.Fatal(err)
			}
			for range n {
				c := random(2)
				want, err := a.Search(ctx, &c, mailbox.SearchOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got, err := b.Search(ctx, &c, mailbox.SearchOptions{})
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: %+v finds %v, %v, without an index %v", folder, c, got, err, want)
				}
			}
		}
		for range n {
			q := mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterText, Text: random(2)}, Limit: 50,
				Total: true}
			want, err := plain.File(who, db).Query(ctx, &q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := indexed.File(who, db).Query(ctx, &q)
			if err != nil || !slices.Equal(got.Hits, want.Hits) || got.Total != want.Total {
				t.Errorf("%+v finds %v, %v, without an index %v", q.Filter, got, err, want)
			}
		}
	}
	add(60)
	compare(10) // no index yet
	run, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- full.Run(run) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	for range 4 {
		add(60)
		compare(15)
		if err := full.Catch(ctx); err != nil {
			t.Fatal(err)
		}
		compare(25)
	}
	// Switched off and on again, for this database alone, it finds the same.
	for _, off := range []bool{true, false, true, false} {
		if err := s.SetInfo(note.System, db, func(i *layout.Info) { i.NoFullText = off }); err != nil {
			t.Fatal(err)
		}
		compare(5)
		add(20)
		if err := full.Catch(ctx); err != nil {
			t.Fatal(err)
		}
		compare(10)
		if st, err := full.Status(ctx); err != nil || (st.Databases == 0) != off || (st.Notes == 0) != off {
			t.Errorf("off is %v: %+v, %v", off, st, err)
		}
	}
	// A match that the index knows for certain is counted without reading the message.
	for _, test := range []mailbox.Test{mailbox.TestSubject, mailbox.TestText} {
		q := mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterText,
			Text: mailbox.Criteria{Test: test, Text: "quarterly", Words: true}}, Limit: 5, Total: true}
		if looks, total, err := mailbox.Looks(ctx, indexed.File(who, db), &q); err != nil || looks > 0 || total < 20 {
			t.Errorf("%d looks for %d messages with the word, %v", looks, total, err)
		}
	}
	// A rare word is looked up in the index, not searched for in all messages.
	v, _, err := indexed.File(who, db).Open(ctx, "INBOX", true)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := v.Search(ctx, &mailbox.Criteria{Test: mailbox.TestBody, Text: "nowhere"},
		mailbox.SearchOptions{}); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	sn, err := indexed.File(who, db).Snippets(ctx, &mailbox.Criteria{Test: mailbox.TestText, Text: "report"},
		[]note.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})
	if err != nil || !slices.ContainsFunc(sn,
		func(s search.Snippet) bool { return strings.Contains(s.Subject+s.Preview, "<mark>") }) {
		t.Errorf("%v, %v", sn, err)
	}
}

// TestSearchPanic checks that a search of each kind finds the other messages if the code that reads the text of one
// panics, before the index has read them and after.
func TestSearchPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	full := search.New(w.s, w.f.Env, search.Options{
		Dir: "data/search", Share: 100, RebuildShare: 100,
		Kinds: map[string]func(*note.Content) []text.Stretch{mailbox.Kind: nil}, Parts: mailbox.PartsOf,
		Limits: text.Limits{Attached: func(p *mime.Part) bool {
			if strings.Contains(string(p.Envelope.Subject), "poison") {
				panic("a bad text")
			}
			return false
		}},
	})
	w.svc.UseSearch(full)
	for _, subject := range []string{"one", "poison", "two"} {
		w.append("INBOX", "From: a@example.com\r\nSubject: "+subject+"\r\n\r\napple\r\n", mailbox.Flags{})
	}
	found := func(when string) {
		t.Helper()
		c := mailbox.Criteria{Test: mailbox.TestText, Text: "apple", Words: true}
		got, err := w.open("INBOX").Search(w.ctx, &c, mailbox.SearchOptions{})
		if err != nil || len(got) != 2 || got[0].Seq != 1 || got[1].Seq != 3 {
			t.Errorf("%s: View.Search finds %v, %v", when, got, err)
		}
		q := mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterText, Text: c}, Limit: 10, Total: true}
		if res, err := w.mf.Query(w.ctx, &q); err != nil || len(res.Hits) != 2 || res.Total != 2 {
			t.Errorf("%s: File.Query finds %+v, %v", when, res, err)
		}
	}
	found("before")
	run, stop := context.WithCancel(w.ctx)
	done := make(chan error, 1)
	go func() { done <- full.Run(run) }()
	w.must(full.Catch(w.ctx))
	found("after")
	stop()
	w.must(<-done)
}
