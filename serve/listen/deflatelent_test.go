package listen

import (
	"bytes"
	stdflate "compress/flate"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
)

// scripted is a connection whose input comes in pieces. waits is called when there is none, and Read times out then.
type scripted struct {
	net.Conn
	pieces [][]byte
	waits  func()
}

func (s *scripted) Read(p []byte) (int, error) {
	if len(s.pieces) == 0 {
		s.waits()
		return 0, os.ErrDeadlineExceeded
	}
	n := copy(p, s.pieces[0])
	if s.pieces[0] = s.pieces[0][n:]; len(s.pieces[0]) == 0 {
		s.pieces = s.pieces[1:]
	}
	return n, nil
}

// TestDeflateLent checks the reads of a lent connection, on which nobody calls Await: while it waits for input it holds
// neither a buffer nor a decoder, and a read that times out loses nothing.
func TestDeflateLent(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 7))
	waits := 0
	wire := &scripted{}
	d := &deflated{Conn: wire}
	inBlock := false
	wire.waits = func() {
		waits++
		if d.packBuf != nil || len(d.packed) > 0 || len(d.clear) > 0 {
			t.Errorf("it waits with a buffer of %d bytes, %d to decode, %d to read", len(d.packBuf.b), len(d.packed),
				len(d.clear))
		}
		if !inBlock && !d.in.Resting() {
			t.Error("it waits with a decoder")
		}
	}
	var packed bytes.Buffer
	w, err := stdflate.NewWriter(&packed, stdflate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []byte
	read := func() {
		t.Helper()
		for {
			p := make([]byte, 1+r.IntN(3000))
			n, err := d.Read(p)
			got = append(got, p[:n]...)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 200 {
		line := fmt.Sprintf("%d %x again and again\r\n", i, make([]byte, r.IntN(40_000)))
		want = append(want, line...)
		if _, err = io.WriteString(w, line); err == nil {
			err = w.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		// A part of the command comes first, and its last byte ends in the middle of a block.
		b := bytes.Clone(packed.Bytes())
		packed.Reset()
		cut := 1 + r.IntN(len(b)-5)
		wire.pieces, inBlock = [][]byte{b[:cut]}, true
		read()
		wire.pieces, inBlock = [][]byte{b[cut:]}, false
		read()
		if !bytes.Equal(got, want) {
			t.Fatalf("line %d: %d bytes of %d came", i, len(got), len(want))
		}
	}
	if waits != 400 {
		t.Errorf("waited %d times", waits)
	}
}
