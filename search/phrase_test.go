package search

import (
	"fmt"
	"testing"
	"time"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
)

// TestPhraseReadsFew checks that a phrase is looked for in the texts of the messages that have it and of few others.
func TestPhraseReadsFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	h := w.hand()
	h.all()
	const all, every = 300, 60
	var want []note.ID
	for i := range all {
		body := fmt.Sprintf("the blue sky and the red rose %d", i)
		if i%every == 0 {
			body = fmt.Sprintf("the red sky and the blue rose %d", i)
		}
		id := w.deliver(mail("one", body), time.Unix(int64(i), 0), db)[0]
		if i%every == 0 {
			want = append(want, id)
		}
	}
	h.all()
	ask := func(s string) (hits int, looked uint64) {
		before := w.svc.stat.looked.Value()
		res, err := w.svc.Query(w.ctx, note.System, db, Request{Query: &query.Node{Op: query.OpText,
			Text: query.Phrase(text.Any, s)}})
		if err != nil {
			t.Fatal(err)
		}
		return len(res.Hits), w.svc.stat.looked.Value() - before
	}
	for _, s := range []string{"red sky", "the blue rose", "red sky and"} {
		if hits, looked := ask(s); hits != len(want) || looked > all/4 {
			t.Errorf("%q: %d hits by %d texts, want %d by at most %d", s, hits, looked, len(want), all/4)
		}
	}
	// The words at the ends of these may continue, so only the pairs within count.
	if hits, looked := ask("*d sky and*"); hits != len(want) || looked != all {
		t.Errorf("%d hits by %d texts, want %d by %d", hits, looked, len(want), all)
	}
	if hits, _ := ask("sky red"); hits != 0 {
		t.Errorf("%d messages have words in another order", hits)
	}
}
