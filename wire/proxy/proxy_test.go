package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
)

func v2(command, family byte, rest string) string {
	return signed + string([]byte{0x20 | command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

const (
	four = "\xc0\x00\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb"
	six  = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" + "\x00\x50\x01\xbb"
)

// feed passes a stream to Parse like a socket: never more than need bytes at a time.
func feed(t *testing.T, stream string) (h Header, used int, err error) {
	t.Helper()
	need := MinSize
	for used < len(stream) {
		used += need
		if used > len(stream) {
			return h, len(stream), errors.New("cut off")
		}
		if h, need, err = Parse([]byte(stream[:used])); err != nil || need == 0 {
			return h, used, err
		}
		if used+need > MaxSize {
			t.Fatalf("asks for %d bytes", used+need)
		}
	}
	return h, used, errors.New("cut off")
}

func TestParse(t *testing.T) {
	t.Parallel()
	for header, source := range map[string]string{
		"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n":            "192.0.2.1:56324",
		"PROXY TCP6 2001:db8::1 2001:db8::2 80 443\r\n":              "[2001:db8::1]:80",
		"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n": "255.255.255.255:65535",
		"PROXY UNKNOWN\r\n": "",
		"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n": "",
		v2(1, 0x11, four):                     "192.0.2.1:56324",
		v2(1, 0x21, six):                      "[2001:db8::1]:80",
		v2(1, 0x11, four+"\x04\x00\x03abc"):   "192.0.2.1:56324",
		v2(1, 0x31, strings.Repeat("x", 216)): "",
		v2(1, 0x00, ""):                       "",
		v2(0, 0x00, ""):                       "",
		v2(0, 0x11, four):                     "",
		v2(1, 0x21, strings.Repeat("\x00", 10)+"\xff\xff\xc0\x00\x02\x01"+six[16:]): "192.0.2.1:80",
	} {
		h, used, err := feed(t, header+"EHLO x\r\n")
		got := ""
		if h.Source.IsValid() {
			got = h.Source.String()
		}
		if err != nil || got != source || used != len(header) {
			t.Errorf("%q: %s, %d bytes, %v", header, got, used, err)
		}
	}
}

func TestHostile(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]error{
		"EHLO there.example.org\r\n":                                       ErrNone,
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00\x00\x00\x00": ErrNone,
		"proxy TCP4 192.0.2.1 198.51.100.1 1 2\r\n":                        ErrNone,
		"PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n":                          ErrMalformed,
		"PROXY TCP4  192.0.2.1 198.51.100.1 1 2\r\n":                       ErrMalformed,
		"PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n":                      ErrMalformed,
		"PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n":                          ErrMalformed,
		"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n":                       ErrMalformed,
		"PROXY TCP6 192.0.2.1 198.51.100.1 1 2\r\n":                        ErrMalformed,
		"PROXY TCP6 fe80::1%eth0 fe80::2 1 2\r\n":                          ErrMalformed,
		"PROXY TCP4 192.0.2.1 198.51.100.1 65536 2\r\n":                    ErrMalformed,
		"PROXY TCP4 192.0.2.1 198.51.100.1 -1 2\r\n":                       ErrMalformed,
		"PROXY TCP4 192.0.2.1 198.51.100.1 01 2\r\n":                       ErrMalformed,
		"PROXY TCP4 192.0.2.256 198.51.100.1 1 2\r\n":                      ErrMalformed,
		"PROXY UDP4 192.0.2.1 198.51.100.1 1 2\r\n":                        ErrMalformed,
		"PROXY UNKNOWNX 1\r\n":                                             ErrMalformed,
		"PROXY TCP4 " + strings.Repeat("1", 200) + "\r\n":                  ErrTooLong,
		signed + "\x31\x11\x00\x0c" + four:                                 ErrMalformed,
		signed + "\x22\x11\x00\x0c" + four:                                 ErrMalformed,
		signed + "\x21\x99\x00\x0c" + four:                                 ErrMalformed,
		v2(1, 0x11, four[:11]):                                             ErrMalformed,
		v2(1, 0x21, six[:35]):                                              ErrMalformed,
		signed + "\x21\x11\xff\xff" + four:                                 ErrTooLong,
	} {
		if _, _, err := feed(t, header); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
}

// FuzzParse checks that the other library parses the same addresses from every header that Parse accepts, and that no
// input makes Parse ask for bytes without end.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n", "PROXY UNKNOWN\r\n",
		v2(1, 0x11, four), v2(1, 0x21, six), v2(0, 0, ""), "EHLO there.example\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		h, used, err := feed(t, string(stream))
		if err != nil || !h.Source.IsValid() {
			return
		}
		other, err := proxyproto.Read(bufio.NewReader(bytes.NewReader(stream[:used])))
		if err != nil {
			if used > fixed && bytes.HasPrefix(stream, []byte(signed)) {
				return // the other library also checks extensions
			}
			t.Fatalf("%q: taken here, there %v", stream[:used], err)
		}
		if a, ok := other.SourceAddr.(*net.TCPAddr); !ok || a.AddrPort().Addr().Unmap() != h.Source.Addr() ||
			a.AddrPort().Port() != h.Source.Port() {
			t.Fatalf("%q: %v here, %v there", stream[:used], h.Source, other.SourceAddr)
		}
	})
}
