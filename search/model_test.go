package search

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/note"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
	"doublet/test/long"
)

type layoutNote = layout.Note

// odt returns an OpenDocument text, encoded in lines of base64.
func odt(s string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create("content.xml")
	if err == nil {
		_, err = fmt.Fprintf(w, "<office:text><text:p>%s</text:p></office:text>",
			strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(s))
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err)
	}
	e := base64.StdEncoding.EncodeToString(b.Bytes())
	var out strings.Builder
	for len(e) > 76 {
		out.WriteString(e[:76] + "\r\n")
		e = e[76:]
	}
	return out.String() + e
}

// asks generates random queries.
type asks struct{ *writer }

var allFields = []text.Field{text.Any, text.Any, text.Content, text.Body, text.Subject, text.From, text.To, text.Cc,
	text.Header, text.Filename, text.Attached, text.Quoted, text.Subject | text.Body}

// piece returns a part of a random text, cut at arbitrary places.
func (a *asks) piece() string {
	s := []rune(a.line(1 + a.rng.IntN(3)))
	if len(s) == 0 {
		return "x"
	}
	i := a.rng.IntN(len(s))
	j := min(len(s), i+1+a.rng.IntN(12))
	return string(s[i:j])
}

func (a *asks) text() *query.Node {
	f := allFields[a.rng.IntN(len(allFields))]
	var t *query.Text
	switch a.rng.IntN(6) {
	case 0, 1:
		t = query.Substring(f, a.piece())
	case 2:
		t = query.Phrase(f, a.line(2+a.rng.IntN(2)))
	case 3:
		t = query.Phrase(f, []string{"*", ""}[a.rng.IntN(2)]+strings.TrimSpace(a.piece())+
			[]string{"*", ""}[a.rng.IntN(2)])
	default:
		t = query.Phrase(f, a.line(1))
	}
	return &query.Node{Op: query.OpText, Text: t}
}

func (a *asks) query(depth int) *query.Node {
	if depth == 0 || a.rng.IntN(3) == 0 {
		switch a.rng.IntN(9) {
		case 0:
			return &query.Node{Op: query.OpAttachment}
		case 1:
			return &query.Node{Op: query.OpLarger, Number: uint64(300 + a.rng.IntN(400))}
		case 2:
			return &query.Node{Op: query.OpAfter, Time: time.Unix(int64(a.rng.IntN(1000)), 0)}
		case 3:
			return &query.Node{Op: query.OpKeyword, Word: "$flagged"}
		}
		return a.text()
	}
	n := &query.Node{Op: []query.Op{query.OpAll, query.OpAll, query.OpAny, query.OpNot}[a.rng.IntN(4)]}
	kids := 2 + a.rng.IntN(2)
	if n.Op == query.OpNot {
		kids = 1
	}
	for range kids {
		n.Kids = append(n.Kids, a.query(depth-1))
	}
	return n
}

// describe returns a description of a query.
func describe(n *query.Node) string {
	if n.Op == query.OpText {
		kind := "words"
		if n.Text.IsSubstring() {
			kind = "string"
		}
		return fmt.Sprintf("%s %q in %x", kind, n.Text.Source, n.Text.Fields)
	}
	var kids []string
	for _, k := range n.Kids {
		kids = append(kids, describe(k))
	}
	return fmt.Sprintf("%d(%s)", n.Op, strings.Join(kids, "; "))
}

// TestModel delivers, flags and deletes random messages and runs random queries while the index is lagging, running and
// complete. The answers must always be those of brute force.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 3; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.reopen([]int{1, 12, 128}[seed%3])
			g := &asks{&writer{rand.New(rand.NewPCG(seed, 7))}}
			dbs := []note.DatabaseID{w.database(kindMail), w.database(kindMail)}
			live := map[note.DatabaseID][]note.ID{}
			rounds, each := long.Pick(3, 8), 90
			for round := range rounds {
				if round == 1 {
					w.run()
				}
				for range each {
					w.change(g, dbs, live)
				}
				if round%2 == 0 && round > 0 {
					w.catch()
				}
				if round == 4 { // restart
					w.close()
					w.open()
					w.run()
				}
				for range 12 {
					n := g.query(2)
					w.same(dbs[g.rng.IntN(2)], n, fmt.Sprintf("round %d: %s", round, describe(n)))
				}
			}
			w.catch()
			st, err := w.svc.Status(w.ctx)
			if err != nil || st.Databases != 2 || st.Notes == 0 || st.Waiting != 0 {
				t.Errorf("%+v, %v", st, err)
			}
		})
	}
}

// change makes a random change in one of the databases.
func (w *world) change(g *asks, dbs []note.DatabaseID, live map[note.DatabaseID][]note.ID) {
	db := dbs[g.rng.IntN(len(dbs))]
	switch n := g.rng.IntN(10); {
	case n < 7 || len(live[db]) == 0:
		to := []note.DatabaseID{db}
		if g.rng.IntN(4) == 0 {
			to = dbs
		}
		date := time.Unix(int64(g.rng.IntN(1000)), 0)
		for i, id := range w.deliver(g.message(), date, to...) {
			live[to[i]] = append(live[to[i]], id)
		}
	case n < 9:
		i := g.rng.IntN(len(live[db]))
		id := live[db][i]
		live[db] = append(live[db][:i:i], live[db][i+1:]...)
		w.update(db, func(x *store.Writer) error { return x.Destroy(id) })
	default:
		id := live[db][g.rng.IntN(len(live[db]))]
		w.update(db, func(x *store.Writer) error { return x.SetKeyword(id, "$flagged", g.rng.IntN(2) == 0) })
	}
}
