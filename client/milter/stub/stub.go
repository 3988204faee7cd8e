// Package stub is a milter for tests: it says what it is told to say, and remembers what it was told.
package stub

import (
	"bufio"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"doublet/env"
	wire "doublet/wire/milter"
)

// Filter is a milter. Its fields are set before Start.
type Filter struct {
	// Options are what it negotiates; the zero value is All.
	Options wire.Options
	// Answers are what it says to each code; Continue where there is none.
	Answers map[wire.Code][]wire.Answer
	// Hangs is a code to which it says nothing. Repeats says its answers again until the connection ends.
	Hangs   wire.Code
	Repeats bool

	mu    sync.Mutex
	heard []string
}

// All are the options of a milter that may do everything and is asked about everything.
func All() wire.Options { return wire.Options{Version: 6, Actions: 0x1ff, Steps: wire.LeadingSpace} }

// Heard is what it was told on the latest connection: each packet as its code, a blank and its data, with ~ for NUL,
// and | between two.
func (f *Filter) Heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.heard, "|")
}

// Start serves on a network, tcp or unix, until the test is over, and returns the address.
func (f *Filter) Start(t testing.TB, network string) (address string) {
	t.Helper()
	address = "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "m.sock")
	}
	e := env.Real(slog.New(slog.DiscardHandler))
	l, err := e.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	e.Go("milter", func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			e.Go("milter session", func() { f.serve(nc) })
		}
	})
	return l.Addr().String()
}

func (f *Filter) serve(nc net.Conn) {
	defer nc.Close()
	r := bufio.NewReader(nc)
	for {
		var head [4]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return
		}
		b := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(r, b); err != nil || len(b) == 0 {
			return
		}
		c := wire.Code(b[0])
		f.hear(c, b[1:])
		if c == wire.Quit {
			return
		}
		out := f.say(c)
		for len(out) > 0 {
			if _, err := nc.Write(out); err != nil {
				return
			}
			if !f.Repeats || c == wire.Negotiate {
				break
			}
		}
	}
}

func (f *Filter) hear(c wire.Code, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c == wire.Negotiate {
		f.heard = nil
		return
	}
	f.heard = append(f.heard, string(rune(c))+" "+strings.ReplaceAll(string(data), "\x00", "~"))
}

// say gives the packets that answer one.
func (f *Filter) say(c wire.Code) (out []byte) {
	o := f.Options
	if o.Version == 0 {
		o = All()
	}
	switch {
	case c == f.Hangs, c == wire.Macros, c == wire.Abort:
		return nil
	case c == wire.Header && o.Steps&wire.NoReplyHeader != 0, c == wire.Body && o.Steps&wire.NoReplyBody != 0:
		return nil
	case c == wire.Negotiate:
		return wire.AppendOptions(nil, o)
	}
	answers, ok := f.Answers[c]
	if !ok {
		answers = []wire.Answer{{Code: wire.Continue}}
	}
	for _, a := range answers {
		out = a.Append(out)
	}
	return out
}
