package listen

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
)

// pieces is a socket that sends its output in pieces of at most size bytes, or holds it back.
type pieces struct {
	net.Conn
	size int // 0: whole
	hold bool
	held []byte
}

func (p *pieces) Write(b []byte) (int, error) {
	p.held = append(p.held, b...)
	if !p.hold {
		p.send(len(p.held))
	}
	return len(b), nil
}

// send sends the first n bytes of the output held back.
func (p *pieces) send(n int) {
	out := p.held[:n]
	p.held = p.held[n:]
	for len(out) > 0 {
		k := len(out)
		if p.size > 0 {
			k = min(k, p.size)
		}
		_, _ = p.Conn.Write(out[:k]) // the test then misses the answer
		out = out[k:]
	}
}

// TestAwaitSecure checks that a session under TLS gets its input, however the client's records arrive, and that a wake
// in the middle of a record loses none of it.
func TestAwaitSecure(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			t.Parallel()
			conns := make(chan *Conn, 1)
			s, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", TLS: testCertificate(t), Implicit: true,
				Serve: func(c *Conn) {
					conns <- c
					echo(c)
				}})
			p := &pieces{Conn: dial(t, a)}
			c := tls.Client(p, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
			expect(t, c, "hi\n")
			server := <-conns
			for _, p.size = range []int{0, 1, 7} {
				for _, in := range []string{"a\n", "b\nc\n", strings.Repeat("x", 99) + "\n",
					strings.Repeat("many\n", 5000)} {
					_, _ = io.WriteString(c, in)
					expect(t, c, in)
				}
			}
			p.size = 0
			// Several records in one packet, the last one incomplete.
			p.hold = true
			for _, in := range []string{"one\n", "two\n", "three\n"} {
				_, _ = io.WriteString(c, in)
			}
			p.send(len(p.held) - 1)
			expect(t, c, "one\ntwo\n")
			for range 3 {
				server.Wake()
				expect(t, c, "woken\n")
			}
			p.send(1)
			expect(t, c, "three\n")
			_, _ = io.WriteString(c, "four\n")
			p.send(3) // less than the header of a record
			server.Wake()
			expect(t, c, "woken\n")
			p.send(len(p.held))
			expect(t, c, "four\n")
			p.hold = false
			go shutdown(t, s)
			expect(t, c, "bye\n")
			expectEnd(t, c)
		})
	}
}

// TestAwaitSecureEnds checks that a session under TLS ends with its client.
func TestAwaitSecureEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 1)
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", TLS: testCertificate(t), Implicit: true,
		Serve: func(c *Conn) {
			echo(c)
			ended <- struct{}{}
		}})
	for _, polite := range []bool{true, false} {
		raw := dial(t, a)
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		expect(t, c, "hi\n")
		if polite {
			_ = c.Close()
		} else {
			_ = raw.Close()
		}
		<-ended
	}
}

// TestAwaitSecureDeflated checks a session with compression under TLS: a wake in the middle of a record, between two
// pieces of a compressed line, loses no input.
func TestAwaitSecureDeflated(t *testing.T) {
	t.Parallel()
	conns := make(chan *Conn, 1)
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", TLS: testCertificate(t), Implicit: true,
		Serve: func(c *Conn) {
			if c.Compress() == nil {
				conns <- c
				echo(c)
			}
		}})
	p := &pieces{Conn: dial(t, a)}
	c := squeeze(tls.Client(p, &tls.Config{InsecureSkipVerify: true}))
	expect(t, c, "hi\n")
	server := <-conns
	for _, p.size = range []int{0, 1, 7} {
		for _, in := range []string{"a\n", "a\na\n", strings.Repeat("x", 99) + "\n", strings.Repeat("many\n", 5000)} {
			_, _ = io.WriteString(c, in)
			expect(t, c, in)
		}
	}
	p.size, p.hold = 0, true
	_, _ = io.WriteString(c, "one\ntwo\n")
	first := len(p.held)
	_, _ = io.WriteString(c, "three three three\n")
	p.send(first + 10) // the header of a record, and a part of it
	expect(t, c, "one\ntwo\n")
	for range 3 {
		server.Wake()
		expect(t, c, "woken\n")
	}
	p.send(len(p.held))
	expect(t, c, "three three three\n")
}
