package cluster

import (
	"bytes"
	"testing"
	"time"

	"doublet/note"
	"doublet/store"
)

// travels lists the types of messages: a sample, and a function that decodes and encodes it.
var travels = []struct {
	name  string
	full  []byte
	again func([]byte) ([]byte, error)
}{
	{"hello", appendHello(&hello{
		version: Version, boot: 1, incarnation: 2, serving: true, full: true, index: 100, threshold: 50, users: 3,
		databases: 4, leads: 5, caught: true,
		hears: []heard{{note.UNID{1}, time.Second}}, clock: 1_800_000_000_000, flush: time.Millisecond, noRoom: true,
	}), func(b []byte) ([]byte, error) {
		h, err := readHello(b)
		return appendHello(&h), err
	}},
	{"told", appendReports([]report{{db: 1, missing: true}, {db: 2, leads: true, slot: 3, pos: sampleAt()}}),
		func(b []byte) ([]byte, error) {
			l, err := readReports(b)
			return appendReports(l), err
		}},
	{"request", appendRequest(&request{db: 7, boot: 8, pos: sampleAt()}), func(b []byte) ([]byte, error) {
		q, err := readRequest(b)
		return appendRequest(&q), err
	}},
	{"databases", appendDatabases([]note.DatabaseID{1, 2, 3}), func(b []byte) ([]byte, error) {
		l, err := readDatabases(b)
		return appendDatabases(l), err
	}},
	{"places", appendPlaces([]place{{db: 1, server: note.UNID{2}, leads: true}, {db: 3}}),
		func(b []byte) ([]byte, error) {
			l, err := readPlaces(b)
			return appendPlaces(l), err
		}},
	{"entries",
		appendEntries([]*Entry{{ID: 1, Kind: "mail", Title: "t", Queue: true,
			Replicas: []Replica{{Server: note.UNID{1}, Slot: 2, Order: -3, Incarnation: 4}}}}),
		func(b []byte) ([]byte, error) {
			l, err := readEntries(b)
			return appendEntries(l), err
		}},
}

func sampleAt() store.Position {
	l := note.Ledger{Slot: 3, Shared: true, UID: 70_000, Last: 17<<33 | 9, Ended: []note.End{{Last: 12, UID: 4}},
		Healed: []note.Healed{{At: 13, Behind: 12, Known: 4, Shown: 9}}}
	return store.Position{Ledger: l, LastUIDValidity: 1_700_000_000}
}

// TestWire checks that messages decode to their input, and that truncated or extended messages are rejected.
func TestWire(t *testing.T) {
	t.Parallel()
	for _, x := range travels {
		if out, err := x.again(x.full); err != nil || !bytes.Equal(out, x.full) {
			t.Errorf("%s: %x became %x: %v", x.name, x.full, out, err)
		}
		for n := range x.full {
			if _, err := x.again(x.full[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes were taken", x.name, n, len(x.full))
			}
		}
		if _, err := x.again(append(bytes.Clone(x.full), 0)); err == nil {
			t.Errorf("%s: a byte too many was taken", x.name)
		}
	}
}

// FuzzWire checks that no message causes a panic, and that decoded messages encode to themselves.
func FuzzWire(f *testing.F) {
	for i, x := range travels {
		f.Add(uint8(i), x.full)
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		x := &travels[int(kind)%len(travels)]
		out, err := x.again(b)
		if err != nil {
			return
		}
		again, err := x.again(out)
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("%s: %x was read as %x, and that as %x: %v", x.name, b, out, again, err)
		}
	})
}
