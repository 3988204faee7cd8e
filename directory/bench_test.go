package directory

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// benchPeople is the size of the directory for which the design is measured.
const benchPeople = 495_000

// BenchmarkResolve fills a directory on disk with 495,000 people and then looks up random ones, with the name cache
// off. It reports the times to fill and to open the directory, and the percentiles of one lookup.
func BenchmarkResolve(b *testing.B) {
	e := env.Real(slog.New(slog.DiscardHandler))
	dir := b.TempDir()
	var opened [2]time.Duration // store, directory
	start := func() (*store.Store, *Directory) {
		began := time.Now()
		o := storeOptions()
		s, err := store.Open(e, dir, o)
		if err != nil {
			b.Fatal(err)
		}
		opened[0], began = time.Since(began), time.Now()
		d, err := Open(s, e, password.New(e, 1, 1), Options{Domain: "example.com", NameCache: -1})
		if err != nil {
			b.Fatal(err)
		}
		opened[1] = time.Since(began)
		return s, d
	}
	s, d := start()
	began := time.Now()
	specs := make([]PersonSpec, 0, 10_000)
	for i := 0; i < benchPeople; i += len(specs) {
		specs = specs[:0]
		for j := i; j < min(i+cap(specs), benchPeople); j++ {
			specs = append(specs, PersonSpec{PersonFields: PersonFields{
				FullName: []string{fmt.Sprintf("Person Number %d", j)}, ShortName: fmt.Sprintf("user%d", j),
				MailAddress: []string{fmt.Sprintf("person.number.%d@example.com", j)},
			}})
		}
		if res, err := d.People.Import(context.Background(), note.System, specs, ImportOptions{}); err != nil ||
			res.Failed > 0 {
			b.Fatal(res, err)
		}
	}
	fill := time.Since(began)
	d.Close()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	s, d = start()
	defer func() {
		d.Close()
		_ = s.Close()
	}()
	for _, c := range []struct{ name, format string }{
		{"address", "user%d@example.com"}, {"alias", "Person.Number.%d+detail@example.com"},
		{"nobody", "none%d@example.com"},
	} {
		b.Run(c.name, func(b *testing.B) {
			rnd := rand.New(rand.NewPCG(1, 2))
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				address := fmt.Sprintf(c.format, rnd.IntN(benchPeople))
				at := time.Now()
				_, err := d.Names.Resolve(context.Background(), address)
				took = append(took, time.Since(at))
				if (err != nil) != (c.name == "nobody") {
					b.Fatal(address, err)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
			b.ReportMetric(fill.Seconds(), "fill-s")
			b.ReportMetric(float64(opened[0].Milliseconds()), "open-store-ms")
			b.ReportMetric(float64(opened[1].Microseconds())/1e3, "open-directory-ms")
		})
	}
}

// BenchmarkResolveCached measures a lookup that the name cache answers.
func BenchmarkResolveCached(b *testing.B) {
	w := open(b)
	w.add("Alice", "alice")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Names.Resolve(bg, "alice@example.com"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBigGroup adds one member to a group of thousands, and removes it again.
func BenchmarkBigGroup(b *testing.B) {
	w := open(b, func(o *Options) { o.MaxMembers = 10_000 })
	specs := make([]PersonSpec, 9_000)
	for i := range specs {
		specs[i].FullName = []string{fmt.Sprint("Person ", i)}
	}
	if _, err := w.People.Import(bg, note.System, specs, ImportOptions{}); err != nil {
		b.Fatal(err)
	}
	var members []string
	for after := ""; ; {
		list, next, err := w.People.List(bg, "", 0, after)
		w.ok(err)
		for i := range list {
			members = append(members, list[i].ID.String())
		}
		if after = next; next == "" {
			break
		}
	}
	last := len(members) - 1
	g := w.group("All", "all@example.com", members[:last]...)
	in := false
	for b.Loop() {
		_, err := w.Groups.Set(bg, note.System, g.ID, func(f *GroupFields) error {
			if f.Members = f.Members[:last]; !in {
				f.Members = append(f.Members, members[last])
			}
			in = !in
			return nil
		})
		w.ok(err)
	}
}
