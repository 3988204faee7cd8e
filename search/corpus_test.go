package search

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/test/external"
)

// languages holds messages in languages that the corpus lacks.
var languages = []string{
	"From: Jürgen Weiß <jw@example.org>\r\nSubject: Straßenbahnfahrplanänderung\r\n\r\n" +
		"Die Straßenbahn fährt während der Bauarbeiten am Großen Bärenplatz nicht. Für Fahrgäste gibt es Busse.\r\n",
	"From: 田中 <t@example.jp>\r\nSubject: =?utf-8?B?5p2x5Lqs44Gu5Lya6K2w?=\r\n" +
		"Content-Type: text/plain; charset=utf-8\r\n\r\n明日の会議は東京駅で行います。資料を忘れないでください。\r\n",
	"From: 김 <k@example.kr>\r\nSubject: x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n내일 회의는 서울역에서 합니다.\r\n",
	"From: =?utf-8?Q?=D0=98=D0=B2=D0=B0=D0=BD?= <i@example.ru>\r\nSubject: x\r\n" +
		"Content-Type: text/plain; charset=koi8-r\r\nContent-Transfer-Encoding: base64\r\n\r\n" +
		"8NLJ18XULCDLwcsgxMXMwT8=\r\n",
	"From: a <a@example.gr>\r\nSubject: x\r\nContent-Type: text/html; charset=utf-8\r\n\r\n" +
		"<p>Η <b>Αθή</b>να είναι όμορφη &amp; μεγάλη</p>\r\n",
	"From: a <a@example.th>\r\nSubject: x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" +
		"พบกันพรุ่งนี้ที่กรุงเทพ\r\n",
	"From: a <a@example.il>\r\nSubject: x\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nניפגש מחר בתל אביב\r\n",
}

// TestCorpus searches real messages, and some in other languages, for words, prefixes, phrases and strings that occur
// in them exactly or almost. The index must find the same messages as brute force.
func TestCorpus(t *testing.T) {
	t.Parallel()
	messages := append(external.Corpus(t, 250), languages...)
	w := newWorld(t)
	db := w.database(kindMail)
	for i, raw := range messages {
		w.deliver(raw, time.Unix(int64(i), 0), db)
	}
	w.run()
	w.catch()
	var docs map[note.ID]*text.Document
	w.read(db, func(r *store.Reader) error {
		docs = w.documents(r)
		return nil
	})
	rng := rand.New(rand.NewPCG(3, 9))
	var all []*text.Document
	for id := note.ID(1); len(all) < len(docs); id++ {
		if d := docs[id]; d != nil {
			all = append(all, d)
		}
	}
	// some returns a piece of a text: n words from the middle or the start, or with the last letter changed.
	some := func() (piece string, words []string) {
		for {
			d := all[rng.IntN(len(all))]
			if rng.IntN(4) == 0 {
				d = all[len(all)-1-rng.IntN(len(languages))]
			}
			s := d.Stretches[rng.IntN(len(d.Stretches))].Text
			words = strings.Fields(s)
			if len(words) == 0 {
				continue
			}
			i := rng.IntN(len(words))
			words = words[i:min(len(words), i+1+rng.IntN(3))]
			r := []rune(strings.Join(words, " "))
			from := rng.IntN(len(r))
			if piece = string(r[from:min(len(r), from+2+rng.IntN(12))]); strings.TrimSpace(piece) != "" {
				return piece, words
			}
		}
	}
	found := 0
	for range 400 {
		piece, words := some()
		f := allFields[rng.IntN(len(allFields))]
		var x *query.Text
		switch rng.IntN(4) {
		case 0:
			x = query.Substring(f, piece)
		case 1:
			x = query.Phrase(f, words[0])
		case 2:
			r := []rune(words[0])
			x = query.Phrase(f, string(r[:(len(r)+1)/2])+"*")
		default:
			x = query.Phrase(f, strings.Join(words, " "))
		}
		n := &query.Node{Op: query.OpText, Text: x}
		res, err := w.svc.Query(w.ctx, note.System, db, Request{Query: n})
		if err != nil {
			t.Fatal(describe(n), err)
		}
		got := map[note.ID]bool{}
		for _, h := range res.Hits {
			got[h.ID] = true
		}
		for id, d := range docs {
			if want := x.In(d); got[id] != want {
				t.Errorf("%s: note %d is found: %v, stands in it: %v", describe(n), id, got[id], want)
			}
		}
		found += len(got)
	}
	if found < 1000 {
		t.Errorf("400 questions found %d notes: they ask for nothing", found)
	}
	t.Log(fmt.Sprint(len(docs), " notes, ", found, " hits"))
}
