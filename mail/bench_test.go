//go:build unix

package mail

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail/journal"
	"doublet/mailbox"
	"doublet/stat"
	"doublet/store"
	"doublet/store/crypt"
)

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// with has the switches of a benchmark.
type with struct{ journal, encryption, keys bool }

// encrypted returns an environment in which the store in dir is encrypted.
func encrypted(b *testing.B, e *env.Env, dir string) *env.Env {
	b.Helper()
	file := newKeyFile(b, e)
	var err error
	at := store.PlacesOf(e.FS, dir, store.Options{})
	inside := *e
	if inside.FS, err = crypt.Open(e, crypt.Options{Dir: dir, Folders: []string{at.Index, at.Segments},
		KeyFile: file}); err != nil {
		b.Fatal(err)
	}
	return &inside
}

func newKeyFile(b *testing.B, e *env.Env) string {
	b.Helper()
	key, err := crypt.NewKey(e)
	if err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(b.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

// benchmark deposits messages durably on the real disk, 32 at a time, to n recipients each out of 200 people.
func benchmark(b *testing.B, size, n int, on with) {
	e, dir := env.Real(slog.New(slog.DiscardHandler)), b.TempDir()
	if on.encryption {
		e = encrypted(b, e, dir)
	}
	s, err := store.Open(e, dir, store.Options{Ballast: -1,
		Indexes: slices.Concat(directory.Indexes(), journal.Indexes())})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	w := &world{db: s, t: b, fix: &env.Fixture{Env: e}}
	w.people, err = directory.Open(s, e, password.New(e, 2, 100), directory.Options{Domain: "example.com"})
	w.ok(err)
	defer w.people.Close()
	w.files = mailbox.New(s, e, mailbox.Options{})
	o := Options{Hostname: "mx.example.com"}
	if on.journal {
		o.Journal, err = journal.Open(s, e, w.people, journal.Options{On: true, Stats: stat.New(e.Clock)})
		w.ok(err)
	}
	w.Service, err = Open(s, e, w.people, w.files, o)
	w.ok(err)
	var to [200]Recipient
	file := newKeyFile(b, e)
	for i := range to {
		p := w.person(fmt.Sprintf("p%d", i))
		if on.keys {
			w.ok(w.people.People.EnsureMailFile(bg, p.ID))
			p, err = w.people.Names.Person(bg, p.ID)
			w.ok(err)
			w.ok(s.SetKey(p.MailDatabase, file))
			w.ok(s.Settle(bg, p.MailDatabase, nil))
		}
		to[i] = w.to(p.InternetAddress)[0]
	}
	body := strings.Repeat(strings.Repeat("x", 74)+"\r\n", size/76)
	var count atomic.Int64
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 1024+size+1024)
		recipients := make([]Recipient, n)
		results := make([]error, n)
		for pb.Next() {
			i := int(count.Add(1))
			for k := range recipients {
				recipients[k] = to[(i*n+k)%len(to)]
			}
			m := fmt.Appendf(buf[1024:1024],
				"From: Eve <eve@far.example>\r\nTo: p@example.com\r\nSubject: message %d\r\n"+
					"Message-ID: <%d@far.example>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\n\r\n%s", i, i, body)
			sub := Submission{
				From: path("eve@far.example"), Recipients: recipients, Message: m, Head: buf[: 1024 : 1024+len(m)],
				Received: &Received{Helo: "far.example", Protocol: "ESMTP"},
			}
			if _, err := w.Deposits.Deposit(bg, &sub, results); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/msg")
}

func BenchmarkDeposit1K(b *testing.B) { benchmark(b, 1<<10, 1, with{}) }

func BenchmarkDeposit100Kx3(b *testing.B) { benchmark(b, 100<<10, 3, with{}) }

// The same with the journal on, encrypted to one key.

func BenchmarkDeposit1KJournal(b *testing.B) { benchmark(b, 1<<10, 1, with{journal: true}) }

func BenchmarkDeposit100Kx3Journal(b *testing.B) { benchmark(b, 100<<10, 3, with{journal: true}) }

// The same with the files of the store encrypted.

func BenchmarkDeposit1KEncrypted(b *testing.B) { benchmark(b, 1<<10, 1, with{encryption: true}) }

func BenchmarkDeposit100Kx3Encrypted(b *testing.B) { benchmark(b, 100<<10, 3, with{encryption: true}) }

// The same with a key of its own for each mail file.

func BenchmarkDeposit1KKeys(b *testing.B) { benchmark(b, 1<<10, 1, with{keys: true}) }

func BenchmarkDeposit100Kx3Keys(b *testing.B) { benchmark(b, 100<<10, 3, with{keys: true}) }
