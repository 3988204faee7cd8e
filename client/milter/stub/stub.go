// Package stub implements a scriptable milter for tests. It records the packets that it receives.
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

// Filter is a milter. Its fields must be set before Start.
type Filter struct {
	// Options are the options that it negotiates; the zero value means All.
	Options wire.Options
	// Answers are its answers to each code. The default is Continue.
	Answers map[wire.Code][]wire.Answer
	// Hangs is a code that it does not answer. Repeats makes it repeat its answers until the connection ends.
	Hangs   wire.Code
	Repeats bool

	mu    sync.Mutex
	heard []string
}

// All returns the options of a milter that may do everything and sees every step.
func All() wire.Options { return wire.Options{Version: 6, Actions: 0x1ff, Steps: wire.LeadingSpace} }

// Heard returns the packets of the latest connection. Each packet is its code, a blank and its data, with ~ in place of
// NUL; packets are separated by |.
func (f *Filter) Heard() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.heard, "|")
}

// Start serves on a network, tcp or unix, until the end of the test, and returns the address.
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

// say returns the packets that answer a packet with the code c.
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
