package bayes

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"doublet/wire/mime"
)

// BenchmarkQuality trains on random messages of a corpus, classifies the others, and prints the errors:
// doc/performance.md shows them. It fails if more than the given per mille of the good messages are taken for junk.
// JUNK_CORPUS names a folder with the folders easy_ham and spam.
func BenchmarkQuality(t *testing.B) {
	good, junk := corpus(t, "easy_ham"), corpus(t, "spam")
	for _, c := range []struct{ junk, good, most int }{
		{20, 20, 40}, {20, 100, 5}, {50, 50, 30}, {50, 250, 2}, {100, 100, 20}, {100, 500, 2}, {250, 250, 10},
		{250, 1250, 1},
	} {
		const rounds = 8
		var wrong, missed, goods, junks int
		for seed := range uint64(rounds) {
			r := rand.New(rand.NewPCG(seed, 2))
			g, j := r.Perm(len(good)), r.Perm(len(junk))
			m := NewModel(16)
			for _, i := range j[:c.junk] {
				m.Learn(junk[i], Junk)
			}
			for _, i := range g[:c.good] {
				m.Learn(good[i], Good)
			}
			for _, i := range g[c.good:] {
				if goods++; m.Score(good[i]) >= 0.99 {
					wrong++
				}
			}
			for _, i := range j[c.junk:] {
				if junks++; m.Score(junk[i]) < 0.99 {
					missed++
				}
			}
		}
		t.Logf("%d junk and %d good learned: %d of %d good taken for junk (%.2f %%), %d of %d junk missed (%.0f %%)",
			c.junk, c.good, wrong, goods, 100*float64(wrong)/float64(goods), missed, junks,
			100*float64(missed)/float64(junks))
		if wrong*1000 > c.most*goods {
			t.Errorf("more than %d per mille of the good messages", c.most)
		}
	}
}

// corpus returns the tokens of the messages in a folder of the corpus.
func corpus(t *testing.B, folder string) (out []Tokens) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("JUNK_CORPUS"), folder, "*"))
	if err != nil || len(files) == 0 {
		t.Skipf("JUNK_CORPUS has no messages in %s: %v", folder, err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(raw, []byte("From ")) {
			raw = raw[bytes.IndexByte(raw, '\n')+1:]
		}
		raw = mime.AppendCRLF(nil, raw)
		out = append(out, Read(raw, mime.Parse(raw, mime.Limits{})))
	}
	return out
}
