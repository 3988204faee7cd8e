package direct

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"testing"

	"doublet/bus"
)

func FuzzFrame(f *testing.F) {
	g := greeting{version: 1, instance: 7, grant: bus.DefaultGrant}
	f.Add(appendFrame(nil, frameLink, g.append(nil)))
	f.Add(appendFrame(nil, frameOpen, appendWords(nil, "verb", []byte("header"))))
	f.Add([]byte{frameData, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		kind, body, err := frame(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		if !bytes.HasPrefix(raw, appendFrame(nil, kind, body)) {
			t.Errorf("%q of %d bytes is written otherwise", kind, len(body))
		}
		if g, err := parseGreeting(body); err == nil && !bytes.HasPrefix(body, g.append(nil)) {
			t.Errorf("%+v is written otherwise", g)
		}
		if short, long, err := parseWords(body); err == nil && !bytes.Equal(appendWords(nil, short, long), body) {
			t.Errorf("%q and %d bytes are written otherwise", short, len(long))
		}
	})
}

// TestFrameCut checks that a truncated frame is not taken for the end.
func TestFrameCut(t *testing.T) {
	t.Parallel()
	whole := appendFrame(nil, frameData, []byte("data"))
	for n := range whole {
		_, _, err := frame(bufio.NewReader(bytes.NewReader(whole[:n])))
		if err == nil || n > frameHead && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := frame(bufio.NewReader(bytes.NewReader([]byte{frameData, 0xff, 0, 0}))); !errors.Is(err, errFrame) {
		t.Errorf("a frame of 16 MB: %v", err)
	}
}

func TestGreeting(t *testing.T) {
	t.Parallel()
	want := greeting{version: 3, instance: 1 << 63, grant: bus.Grant{Requests: 7, Bytes: 9}}
	got, err := parseGreeting(append(want.append(nil), "what a later version says"...))
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, g := range []greeting{{version: 0, grant: bus.DefaultGrant}, {version: 1},
		{version: 1, grant: bus.Grant{Requests: maxRequests + 1}},
		{version: 1, grant: bus.Grant{Requests: 1, Bytes: maxGrant + 1}}} {
		if _, err := parseGreeting(g.append(nil)); err == nil {
			t.Errorf("%+v is taken", g)
		}
	}
}
