package imapd

import (
	"bufio"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// packed is the client side of a connection with DEFLATE.
type packed struct {
	net.Conn
	w   *flate.Writer
	out *bytes.Buffer // of w
	r   io.Reader
}

func pack(t *testing.T, c net.Conn) *packed {
	t.Helper()
	out := &bytes.Buffer{}
	w, err := flate.NewWriter(out, 9)
	if err != nil {
		t.Fatal(err)
	}
	return &packed{c, w, out, flate.NewReader(c)}
}

func (p *packed) Read(b []byte) (int, error) { return p.r.Read(b) }

// Write sends b in one piece. After the text of LOGOUT the server closes the connection, and could reset it before the
// end of the block came in a second one.
func (p *packed) Write(b []byte) (int, error) {
	if _, err := p.w.Write(b); err != nil {
		return 0, err
	}
	if err := p.w.Flush(); err != nil {
		return 0, err
	}
	_, err := p.Conn.Write(p.out.Bytes())
	p.out.Reset()
	return len(b), err
}

// TestCompress checks that everything after the response to COMPRESS is compressed, in both directions: long messages,
// literals, changes in IDLE.
//
// Implements: RFC 4978 §3 COMPRESS=DEFLATE
func TestCompress(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c, r := h.raw(t)
	if got := talk(t, c, r, "a LOGIN alice demo"); !strings.Contains(got, " COMPRESS=DEFLATE ") {
		t.Error(got)
	}
	if got := talk(t, c, r, "b COMPRESS DEFLATE"); !strings.HasPrefix(got, "b OK") {
		t.Fatal(got)
	}
	z := pack(t, c)
	r = bufio.NewReaderSize(z, 1<<20)
	if got := talk(t, z, r, "c CAPABILITY"); strings.Contains(got, "COMPRESS") {
		t.Error(got)
	}
	if got := talk(t, z, r, "d COMPRESS DEFLATE"); !strings.HasPrefix(got, "d NO [COMPRESSIONACTIVE]") {
		t.Error(got)
	}
	msg := "Subject: x\r\n\r\n" + strings.Repeat("lorem ipsum dolor sit amet\r\n", 10_000)
	if got := talk(t, z, r, fmt.Sprintf("e APPEND INBOX {%d+}\r\n%s", len(msg), msg)); !strings.HasPrefix(got, "e OK") {
		t.Fatal(got)
	}
	if got := talk(t, z, r, "f SELECT INBOX"); !strings.Contains(got, "* 1 EXISTS") {
		t.Fatal(got)
	}
	if got := talk(t, z, r, "g FETCH 1 BODY.PEEK[]"); !strings.Contains(got, msg) {
		t.Errorf("%.200q", got)
	}
	if _, err := io.WriteString(z, "h IDLE\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "+ ") {
		t.Fatal(line, err)
	}
	h.fill(t, 1, "Subject: news\r\n\r\n")
	if line, err = r.ReadString('\n'); err != nil || line != "* 2 EXISTS\r\n" {
		t.Fatal(line, err)
	}
	// A client must not send the next command before the response.
	other, or := h.raw(t)
	talk(t, other, or, "a LOGIN bob demo")
	if got := talk(t, other, or, "b COMPRESS DEFLATE\r\nc NOOP"); !strings.HasPrefix(got, "b BAD") {
		t.Error(got)
	}
}
