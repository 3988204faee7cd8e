package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/mime"
)

// TestSwitches checks compression and the size of objects. The statistics show what each saves, and a store that was
// written with one setting is read with another.
func TestSwitches(t *testing.T) {
	t.Parallel()
	var text, noise strings.Builder // lines that compress well, and lines that hardly do
	for i := range 3000 {
		fmt.Fprintf(&text, "line %d of a text that repeats itself\r\n", i)
		sum := sha256.Sum256([]byte(strconv.Itoa(i)))
		noise.WriteString(base64.RawStdEncoding.EncodeToString(sum[:]) + "\r\n")
	}
	large := []byte("Subject: a\r\n\r\n" + text.String())
	small := []byte("Subject: b\r\n\r\n" + noise.String()[:20<<10])
	for _, c := range []struct {
		name    string
		options Options
		objects float64
		dense   bool // objects take less than half of their bytes
	}{
		{"default", Options{}, 1, true},
		{"without compression", Options{NoCompression: true}, 1, false},
		{"objects from 8 KB", Options{ObjectSize: 8 << 10}, 2, true},
		{"objects from 96 KB", Options{ObjectSize: 96 << 10}, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := env.TestRealTime(t)
			o := crashOptions()
			o.NoCompression, o.ObjectSize, o.Stats = c.options.NoCompression, c.options.ObjectSize, stat.New(f.Clock)
			s, err := Open(f.Env, "data", o)
			if err != nil {
				t.Fatal(err)
			}
			db, err := s.CreateDatabase(note.System, Create{Title: "a", Kind: "a"})
			if err != nil {
				t.Fatal(err)
			}
			want := map[note.ID][]byte{}
			for _, raw := range [][]byte{large, small, large} {
				want[createMail(t, s, db, raw)] = raw
			}
			v := map[string]float64{}
			for _, e := range o.Stats.Snapshot("Database.DAOS.Objects.*") {
				v[strings.TrimPrefix(e.Name, "Database.DAOS.Objects.")] = e.Value
			}
			if v["Appended"] != c.objects || (v["StoredBytes"] < v["RawBytes"]/2) != c.dense ||
				v["RawBytes"] < float64(len(text.String())) {
				t.Errorf("%v", v)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			o = crashOptions()
			o.NoCompression = !c.options.NoCompression
			if s, err = Open(f.Env, "data", o); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			createMail(t, s, db, small)
			for id, raw := range want {
				if got := readMail(t, s, db, id); !bytes.Equal(got, raw) {
					t.Errorf("note %d has %d bytes, want %d", id, len(got), len(raw))
				}
			}
		})
	}
}

// TestSharedObjects checks the statistics of parts that several messages have in common.
func TestSharedObjects(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	o := crashOptions()
	o.Stats = stat.New(f.Clock)
	s, err := Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := s.CreateDatabase(note.System, Create{Title: "a", Kind: "a"})
	if err != nil {
		t.Fatal(err)
	}
	body := strings.Repeat("0123456789\r\n", 4000)
	for i := range 3 {
		createMail(t, s, db, fmt.Appendf(nil, "Subject: %d\r\n\r\n%s", i, body))
	}
	for name, want := range map[string]float64{"Shared": 2, "SharedBytes": float64(2 * len(body)), "Appended": 1} {
		e := o.Stats.Snapshot("Database.DAOS.Objects." + name)
		if len(e) != 1 || e[0].Value != want {
			t.Errorf("%s: %v, want %v", name, e, want)
		}
	}
}

func createMail(t *testing.T, s *Store, db note.DatabaseID, raw []byte) (id note.ID) {
	t.Helper()
	ctx := context.Background()
	m, err := s.Prepare(ctx, raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits), s.LeastObject()))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	err = s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *Tx) error {
		w, err := tx.Database(db)
		if err == nil {
			id, err = w.Create(New{Message: m})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func readMail(t *testing.T, s *Store, db note.DatabaseID, id note.ID) (raw []byte) {
	t.Helper()
	err := s.Read(context.Background(), note.System, db, func(r *Reader) error {
		n, err := r.Note(id)
		if err != nil {
			return err
		}
		m, err := r.Message(n)
		if err == nil {
			raw, err = m.AppendRange(nil, 0, m.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
