package search

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat/cpu"
)

// BenchmarkIndex measures the processor time that the index takes for a message, with all that follows: merges and the
// engine's own work. The messages are those of the neutral driver (doc/performance.md): words of a vocabulary of 4,000,
// and random attachments, in 20 mail files. The index reads them whenever each file has 128 of them.
func BenchmarkIndex(b *testing.B) {
	for _, s := range []struct {
		name  string
		bytes int
		to    int
	}{{"1KB", 1 << 10, 1}, {"24KB", 24 << 10, 1}, {"100KB-to-3", 100 << 10, 3}} {
		b.Run(s.name, func(b *testing.B) { benchmarkIndex(b, s.bytes, s.to) })
	}
}

func benchmarkIndex(b *testing.B, size, to int) {
	w := &world{t: b, ctx: b.Context(), o: searchOptions(), so: storeOptions(),
		f: &env.Fixture{Env: env.Real(slog.New(slog.DiscardHandler))}}
	// As the server comes.
	w.o.CacheSize, w.o.MemTableSize, w.o.Tail = 0, 0, 0
	w.so.CacheSize, w.so.MemTableSize, w.so.LogSyncInterval = 0, 0, 0
	b.Chdir(b.TempDir())
	w.open()
	defer w.close()
	var files []note.DatabaseID
	for range 20 {
		files = append(files, w.database(kindMail))
	}
	r := rand.New(rand.NewPCG(1, 2))
	vocabulary := benchmarkWords(r)
	date := time.Unix(1_700_000_000, 0)
	spent := time.Duration(0)
	index := func() {
		begun := cpu.ProcessTime()
		b.StartTimer()
		w.run()
		w.catch()
		w.stop()
		b.StopTimer()
		spent += cpu.ProcessTime() - begun
	}
	index()
	spent = 0
	b.ResetTimer()
	b.StopTimer()
	for i := range b.N {
		dbs := make([]note.DatabaseID, to)
		for j := range dbs {
			dbs[j] = files[(i+7*j)%len(files)]
		}
		w.deliver(benchmarkMessage(r, vocabulary, i, size), date, dbs...)
		if (i+1)*to%(128*len(files)) < to { // the newest notes of each file are now enough to be indexed
			index()
		}
	}
	index()
	b.ReportMetric(float64(spent.Microseconds())/float64(b.N), "cpu-µs/message")
}

func benchmarkWords(r *rand.Rand) []string {
	words := make([]string, 4000)
	for i := range words {
		w := make([]byte, 2+r.IntN(9))
		for j := range w {
			w[j] = "etaoinshrdlucmfwypvbgkjqxz"[int(math.Abs(r.NormFloat64()*6))%26]
		}
		words[i] = string(w)
	}
	return words
}

func benchmarkMessage(r *rand.Rand, words []string, n, size int) string {
	var text, out bytes.Buffer
	multi := size > 4096
	end := size
	if multi {
		end = size / 4
	}
	for line := 0; text.Len() < end; {
		w := words[min(len(words)-1, int(r.ExpFloat64()*400))]
		text.WriteString(w)
		if line += len(w) + 1; line > 70 {
			text.WriteString("\r\n")
			line = 0
		} else {
			text.WriteByte(' ')
		}
	}
	fmt.Fprintf(&out, "From: Sender <u%d@example.org>\r\nTo: u%d@example.org\r\nSubject: message %d about %s %s\r\n"+
		"Message-ID: <%d.%d@example.org>\r\nMIME-Version: 1.0\r\n", n%200, n%199, n, words[n%4000], words[n*7%4000], n,
		r.Uint64())
	if !multi {
		fmt.Fprintf(&out, "Content-Type: text/plain; charset=us-ascii\r\n\r\n%s\r\n", text.Bytes())
		return out.String()
	}
	fmt.Fprintf(&out, "Content-Type: multipart/mixed; boundary=b\r\n\r\n"+
		"--b\r\nContent-Type: text/plain\r\n\r\n%s\r\n--b\r\n"+
		"Content-Type: application/octet-stream; name=a.bin\r\nContent-Transfer-Encoding: base64\r\n"+
		"Content-Disposition: attachment; filename=a.bin\r\n\r\n", text.Bytes())
	line := make([]byte, 57)
	for out.Len() < size {
		for i := range line {
			line[i] = byte(r.Uint32())
		}
		out.WriteString(base64.StdEncoding.EncodeToString(line))
		out.WriteString("\r\n")
	}
	out.WriteString("--b--\r\n")
	return out.String()
}
