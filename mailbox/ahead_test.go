package mailbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/search"
	"doublet/search/text"
)

// aheadWorld makes a mail file in which a third of the messages have a phrase, and others have its words. No message is
// indexed, so all texts are read. It returns the UIDs of the messages with the phrase, in order.
func aheadWorld(t *testing.T, n int) (w *world, uids []uint32) {
	w = newWorld(t, 0)
	w.svc.UseSearch(search.New(w.s, w.f.Env, search.Options{
		Dir: "data/search", Kinds: map[string]func(*note.Content) []text.Stretch{mailbox.Kind: nil},
	}))
	rng := rand.New(rand.NewPCG(1, 9))
	for i := range n {
		body := "the blue sky and the red rose"
		has := rng.IntN(3) == 0
		if has {
			body = "the red sky and the blue rose"
		}
		raw := fmt.Appendf(nil, "From: a@example.com\r\nSubject: s%d\r\n\r\n%s\r\n", rng.IntN(1000), body)
		_, uid, err := w.mf.Append(w.ctx, "INBOX", raw, mailbox.Flags{}, time.Unix(int64(1000+i), 0))
		if err != nil {
			t.Fatal(err)
		}
		if has {
			uids = append(uids, uid)
		}
	}
	return w, uids
}

var phrase = mailbox.Criteria{Test: mailbox.TestText, Text: `"red sky and the blue"`, Words: true}

// TestQueryAhead checks windows of a query whose texts are read by several goroutines.
func TestQueryAhead(t *testing.T) {
	t.Parallel()
	const n = 150
	w, uids := aheadWorld(t, n)
	all, err := w.mf.Query(w.ctx, &mailbox.Query{Limit: n, Sort: []mailbox.Order{{Kind: mailbox.OrderReceived}}})
	if err != nil || len(all.Hits) != n {
		t.Fatal(len(all.Hits), err)
	}
	var want []mailbox.Hit
	for _, uid := range uids { // the messages came in the order of their UIDs
		want = append(want, all.Hits[uid-1])
	}
	latest := slices.Clone(want)
	slices.Reverse(latest)
	filter := mailbox.Filter{Kind: mailbox.FilterText, Text: phrase}
	for _, limit := range []int{1, 5, 20, 1000} {
		for _, position := range []int64{0, 3, 30} {
			for _, total := range []bool{false, true} {
				for _, c := range []struct {
					sort []mailbox.Order
					want []mailbox.Hit
				}{{nil, latest}, {[]mailbox.Order{{Kind: mailbox.OrderReceived}}, want}} {
					q := mailbox.Query{Filter: filter, Sort: c.sort, Limit: limit, Position: position, Total: total}
					got, err := w.mf.Query(w.ctx, &q)
					window := c.want[position:]
					window = window[:min(limit, len(window))]
					if err != nil || !slices.Equal(got.Hits, window) || total && got.Total != len(want) {
						t.Errorf("%+v: %v of %d, %v; want %v", q, got.Hits, got.Total, err, window)
					}
				}
			}
		}
	}
	// Sorted by subject, all matches are the same.
	got, err := w.mf.Query(w.ctx, &mailbox.Query{Filter: filter, Limit: n,
		Sort: []mailbox.Order{{Kind: mailbox.OrderSubject}}})
	if err != nil || len(got.Hits) != len(want) {
		t.Errorf("%d of %d by subject, %v", len(got.Hits), len(want), err)
	}
	for _, h := range got.Hits {
		if !slices.Contains(want, h) {
			t.Errorf("%v does not match", h)
		}
	}
	// Combined with another filter.
	not := mailbox.Filter{Kind: mailbox.FilterAnd, Of: []mailbox.Filter{
		{Kind: mailbox.FilterNot, Of: []mailbox.Filter{filter}},
		{Kind: mailbox.FilterBefore, Time: time.Unix(1000+n/2, 0)},
	}}
	rest, err := w.mf.Query(w.ctx, &mailbox.Query{Filter: not, Limit: n, Total: true})
	early := 0
	for _, uid := range uids {
		if uid <= n/2 {
			early++
		}
	}
	if err != nil || rest.Total != n/2-early {
		t.Errorf("%d without the phrase in the first half, %v, want %d", rest.Total, err, n/2-early)
	}
}

// TestSearchAhead checks that a search of IMAP finds messages in order, counts those that it has examined, and ends
// with its context, while several goroutines read texts.
func TestSearchAhead(t *testing.T) {
	t.Parallel()
	const n = 150
	w, uids := aheadWorld(t, n)
	v := w.open("INBOX")
	for _, c := range []struct {
		ask  mailbox.Criteria
		want int
	}{
		{phrase, len(uids)},
		{mailbox.Criteria{Test: mailbox.TestBody, Text: "SKY AND THE BLUE"}, len(uids)},
		{mailbox.Criteria{Test: mailbox.TestNot, All: []mailbox.Criteria{phrase}}, n - len(uids)},
		{mailbox.Criteria{Test: mailbox.TestHeader, Name: "From", Text: "a@EXAMPLE"}, n},
	} {
		told := uint32(0)
		found, err := v.Search(w.ctx, &c.ask, mailbox.SearchOptions{Tell: func(done, all uint32) error {
			if done <= told || done%16 != 0 || all != n {
				t.Errorf("%d of %d were examined, after %d", done, all, told)
			}
			told = done
			return nil
		}})
		if err != nil || len(found) != c.want || told != n/16*16 {
			t.Errorf("%+v: %d found, want %d, told of %d, %v", c.ask, len(found), c.want, told, err)
		}
		for i, m := range found {
			if has := slices.Contains(uids, m.UID); c.want == len(uids) && !has || c.want == n-len(uids) && has {
				t.Errorf("%+v finds %d", c.ask, m.UID)
			}
			if m.Seq != m.UID || i > 0 && m.UID <= found[i-1].UID {
				t.Errorf("%+v is out of order: %+v", c.ask, m)
			}
		}
	}
	ctx := &ending{Context: w.ctx}
	ctx.left.Store(30)
	if found, err := v.Search(ctx, &phrase, mailbox.SearchOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%d found, %v", len(found), err)
	}
	ctx.left.Store(30)
	if _, err := w.mf.Query(ctx, &mailbox.Query{Filter: mailbox.Filter{Kind: mailbox.FilterText, Text: phrase},
		Limit: 1000}); !errors.Is(err, context.Canceled) {
		t.Errorf("a query: %v", err)
	}
}

// ending is a context that ends after a number of looks at it.
type ending struct {
	context.Context
	left atomic.Int64
}

func (e *ending) Err() error {
	if e.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}
