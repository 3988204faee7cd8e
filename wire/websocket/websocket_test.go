package websocket

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHandshake covers the example of RFC 6455 section 1.3 and invalid handshakes.
func TestHandshake(t *testing.T) {
	t.Parallel()
	if got := Accept("dGhlIHNhbXBsZSBub25jZQ=="); got != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Error(got)
	}
	request := func(change ...string) *http.Request {
		r := httptest.NewRequest("GET", "/ws", nil)
		for k, v := range map[string]string{"Connection": "keep-alive, Upgrade", "Upgrade": "WebSocket",
			"Sec-Websocket-Version": "13", "Sec-Websocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
			"Sec-Websocket-Protocol": "chat, jmap"} {
			r.Header.Set(k, v)
		}
		for i := 0; i < len(change); i += 2 {
			r.Header.Set(change[i], change[i+1])
		}
		return r
	}
	post := request()
	post.Method = "POST"
	two := request()
	two.ProtoMajor = 2
	for _, c := range []struct {
		what string
		r    *http.Request
		want error
	}{
		{"good", request(), nil}, {"POST", post, ErrNoUpgrade}, {"HTTP/2", two, ErrNoUpgrade},
		{"no upgrade", request("Connection", "keep-alive"), ErrNoUpgrade},
		{"another", request("Upgrade", "h2c"), ErrNoUpgrade},
		{"old", request("Sec-WebSocket-Version", "8"), ErrVersion},
		{"key", request("Sec-WebSocket-Key", "c2hvcnQ="), ErrKey},
		{"no key", request("Sec-WebSocket-Key", ""), ErrKey}, {"protocol", request("Sec-WebSocket-Protocol", "jmapx"),
			ErrProtocol},
	} {
		if err := CheckUpgrade(c.r, "jmap"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// got is a message that was read.
type got struct {
	op   Opcode
	text string
}

func readAll(r *Reader, src io.Reader) (all []got, err error) {
	var buf []byte
	for {
		op, payload, err := r.Next(src, buf)
		if err != nil {
			return all, err
		}
		all = append(all, got{op, string(payload)})
		buf = payload
	}
}

func frame(first byte, payload string) string {
	mask := [4]byte{1, 2, 3, 4}
	b := AppendMasked(nil, 0, []byte(payload), mask)
	b[0] = first
	return string(b)
}

func TestMessages(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70_000)
	in := frame(0x81, "hello") + frame(0x01, "a") + frame(0x89, "ping") + frame(0x00, "") + frame(0x80, "b") +
		frame(0x82, "\xff") + frame(0x81, long[:126]) + frame(0x81, long)
	all, err := readAll(&Reader{Masked: true, Max: 1 << 20}, strings.NewReader(in))
	want := []got{{Text, "hello"}, {Ping, "ping"}, {Text, "ab"}, {Binary, "\xff"}, {Text, long[:126]}, {Text, long}}
	if err != io.EOF || len(all) != len(want) {
		t.Fatalf("%d messages, %v", len(all), err)
	}
	for i := range want {
		if all[i] != want[i] {
			t.Errorf("%d: %d %.40q", i, all[i].op, all[i].text)
		}
	}
	// Frames of a server.
	b := Append(AppendClose(nil, TooBig, strings.Repeat("ü", 100)), Text, []byte("x"))
	all, err = readAll(&Reader{Max: 10}, bytes.NewReader(b))
	if err != io.EOF || len(all) != 2 || all[1].text != "x" {
		t.Fatal(all, err)
	}
	if code, reason, err := ParseClose([]byte(all[0].text)); code != TooBig || len(reason) != 122 || err != nil {
		t.Error(code, len(reason), err)
	}
}

func TestViolations(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		in   string
		code int
	}{
		"reserved bit": {frame(0xc1, "x"), Protocol}, "opcode 3": {frame(0x83, "x"), Protocol},
		"opcode 11": {frame(0x8b, "x"), Protocol},
		"unmasked":  {string(Append(nil, Text, []byte("x"))), Protocol}, "ping in fragments": {frame(0x09, "x"),
			Protocol}, "long ping": {frame(0x89, strings.Repeat("x", 126)), Protocol},
		"fragment of nothing":  {frame(0x80, "x"), Protocol},
		"two messages at once": {frame(0x01, "x") + frame(0x81, "y"), Protocol},
		"not UTF-8":            {frame(0x81, "\xff"), Malformed}, "half a rune at the end": {frame(0x01, "ü") +
			frame(0x80, "\xc3"), Malformed},
		"too big": {frame(0x81, strings.Repeat("x", 1001)), TooBig},
		"too big in pieces": {frame(0x01, strings.Repeat("x", 600)) + frame(0x80, strings.Repeat("x", 600)),
			TooBig},
		"length in a longer form": {"\x81\xfe\x00\x05\x00\x00\x00\x00hello", Protocol},
		"length in the longest":   {"\x81\xff\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00", Protocol},
		"negative length":         {"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00", Protocol},
	} {
		_, err := readAll(&Reader{Masked: true, Max: 1000}, strings.NewReader(c.in))
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A character may be split between two fragments.
	all, err := readAll(&Reader{Masked: true, Max: 1000}, strings.NewReader(frame(0x01, "\xc3")+frame(0x80, "\xbc")))
	if err != io.EOF || len(all) != 1 || all[0].text != "ü" {
		t.Error(all, err)
	}
	if _, err := readAll(&Reader{Masked: true, Max: 1000},
		strings.NewReader(frame(0x81, "hello")[:8])); err != io.ErrUnexpectedEOF {
		t.Error("cut off:", err)
	}
	for payload, ok := range map[string]bool{"": true, "\x03\xe8": true, "\x03\xe8bye": true, "\x03": false,
		"\x03\xed": false, "\x03\xe7": false, "\x13\x88": false, "\x03\xe8\xff": false, "\x0b\xb8": true} {
		if _, _, err := ParseClose([]byte(payload)); (err == nil) != ok {
			t.Errorf("%x: %v", payload, err)
		}
	}
}

// greedy records the largest buffer that it gets.
type greedy struct {
	io.Reader
	most int
}

func (g *greedy) Read(p []byte) (int, error) {
	g.most = max(g.most, len(p))
	return g.Reader.Read(p)
}

// TestMemoryComesWithData checks that a header alone, whatever its length field, allocates no more than step bytes.
func TestMemoryComesWithData(t *testing.T) {
	t.Parallel()
	src := &greedy{Reader: strings.NewReader("\x81\xff\x00\x00\x00\x00\x3f\xff\xff\xff\x00\x00\x00\x00xx")}
	if _, _, err := (&Reader{Masked: true, Max: 1 << 30}).Next(src, nil); err != io.ErrUnexpectedEOF ||
		src.most > step {
		t.Errorf("%d octets asked for at once, %v", src.most, err)
	}
	// Room is called before memory is allocated, and a message without room is rejected.
	taken := 0
	r := &Reader{Masked: true, Max: 1 << 30, Room: func(n int) bool { taken += n; return taken <= 300_000 }}
	if _, b, err := r.Next(strings.NewReader(frame(0x81, strings.Repeat("x", 200_000))), nil); err != nil ||
		len(b) != 200_000 || taken < len(b) {
		t.Error(len(b), taken, err)
	}
	var e *Error
	if _, _, err := r.Next(strings.NewReader(frame(0x81, strings.Repeat("x", 200_000))), nil); !errors.As(err, &e) ||
		e.Code != TryAgain {
		t.Error(err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(frame(0x81, "hello")+frame(0x01, "a")+frame(0x89, "p")+frame(0x80, "b")), true)
	f.Add(AppendClose(nil, 1000, "x"), false)
	f.Fuzz(func(t *testing.T, b []byte, masked bool) {
		all, err := readAll(&Reader{Masked: masked, Max: 4096}, bytes.NewReader(b))
		if err == nil {
			t.Fatal("no end")
		}
		// Messages that were read, encoded and read again are the same.
		var again []byte
		for _, m := range all {
			if masked {
				again = AppendMasked(again, m.op, []byte(m.text), [4]byte{byte(rand.Uint32()), 1, 2, 3})
			} else {
				again = Append(again, m.op, []byte(m.text))
			}
			if m.op == Close {
				_, _, _ = ParseClose([]byte(m.text))
			}
		}
		twice, err := readAll(&Reader{Masked: masked, Max: 4096}, bytes.NewReader(again))
		if err != io.EOF || len(twice) != len(all) {
			t.Fatalf("%d again %d, %v", len(all), len(twice), err)
		}
		for i := range all {
			if all[i] != twice[i] {
				t.Fatalf("%d: %v %v", i, all[i], twice[i])
			}
		}
	})
}
