package attack

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/test/long"
	"doublet/test/program"
)

// idleConnections is the number of connections that a measurement opens.
const idleConnections = 1000

// TestMemoryOfIdle measures the memory of connections that wait for changes: IMAP in IDLE with and without TLS, and
// EventSource over HTTP/2, each stream on a connection of its own. The bounds are wide; doc/performance.md has the
// figures.
func TestMemoryOfIdle(t *testing.T) {
	long.Test(t)
	for name, value := range map[string]string{"LIMITS_SESSIONS_PER_PERSON": "0",
		"PUSH_CONNECTIONS_PER_PERSON": "100000"} {
		t.Setenv("DOUBLET_"+name, value)
	}
	trust := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the server's own certificate, on loopback
	for _, door := range []struct {
		name string
		most int // KB each
		open func(t *testing.T, port string) io.Closer
	}{
		{"imap", 12, func(t *testing.T, port string) io.Closer { return idleIMAP(t, port, nil) }},
		{"imaps", 20, func(t *testing.T, port string) io.Closer { return idleIMAP(t, port, trust) }},
		{"https", 100, func(t *testing.T, port string) io.Closer { return events(t, port, trust) }},
	} {
		t.Run(door.name, func(t *testing.T) {
			s := program.Demo(t)
			open := []io.Closer{door.open(t, s.Port[door.name])} // the first one fills caches
			before := settledMemory(t, s)
			var mu sync.Mutex
			var wg sync.WaitGroup
			for range 8 {
				wg.Add(1)
				go func() {
					defer wg.Done()
					for range idleConnections / 8 {
						c := door.open(t, s.Port[door.name])
						mu.Lock()
						open = append(open, c)
						mu.Unlock()
					}
				}()
			}
			wg.Wait()
			after := settledMemory(t, s)
			each := (after.objects + after.stacks - before.objects - before.stacks) / idleConnections
			t.Logf("%d connections at %s: %d KB each, %d KB of it stacks; %d KB of the process (PSS)",
				idleConnections, door.name, each, (after.stacks-before.stacks)/idleConnections,
				(after.process-before.process)/idleConnections)
			if each > door.most {
				t.Errorf("a connection at %s takes %d KB, want at most %d", door.name, each, door.most)
			}
			for _, c := range open {
				_ = c.Close()
			}
		})
	}
}

// memory is the memory in KB that objects and stacks of a process take, and the proportional set size of the process.
type memory struct{ objects, stacks, process int }

// settledMemory returns the memory of the process after collections of garbage, each of which may halve the stacks.
func settledMemory(t *testing.T, s *program.Server) memory {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", filepath.Join(s.Data, "doublet.sock"))
	}}}
	defer c.CloseIdleConnections()
	var text []byte
	for range 6 {
		a, err := c.Get("http://doublet/debug/pprof/heap?gc=1&debug=1")
		if err != nil {
			t.Fatal(err)
		}
		text, err = io.ReadAll(a.Body)
		if _ = a.Body.Close(); err != nil {
			t.Fatal(err)
		}
	}
	process, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	number := func(text []byte, pattern string) int {
		n, err := strconv.Atoi(first(t, text, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return memory{number(text, `(?m)^# HeapAlloc = (\d+)$`) >> 10, number(text, `(?m)^# Stack = (\d+) `) >> 10,
		number(process, `(?m)^Pss: +(\d+) kB$`)}
}

// idleIMAP signs in, opens INBOX, reads its list and waits in IDLE.
func idleIMAP(t *testing.T, port string, secure *tls.Config) io.Closer {
	c, err := net.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Error(err)
		return io.NopCloser(nil)
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	if secure != nil {
		c = tls.Client(c, secure)
	}
	r := bufio.NewReaderSize(c, 512)
	for _, step := range [][2]string{{"", "* OK"}, {"a LOGIN alice demo\r\n", "a OK"}, {"b SELECT INBOX\r\n", "b OK"},
		{"c FETCH 1:* (FLAGS ENVELOPE)\r\n", "c OK"}, {"d IDLE\r\n", "+"}} {
		_, err := io.WriteString(c, step[0])
		for line := ""; err == nil && !strings.HasPrefix(line, step[1]); {
			if line, err = r.ReadString('\n'); ended.MatchString(line) && !strings.HasPrefix(line, step[1]) {
				err = fmt.Errorf("%q: %s", step[0], line)
			}
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	return c
}

// ended matches the tagged reply that ends a command.
var ended = regexp.MustCompile(`^[a-d] `)

// events opens an event stream of JMAP over HTTP/2.
func events(t *testing.T, port string, secure *tls.Config) io.Closer {
	r, err := http.NewRequest(http.MethodGet,
		"https://127.0.0.1:"+port+"/jmap/eventsource/?types=*&closeafter=no&ping=300", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("alice", "demo")
	a, err := (&http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true}).RoundTrip(r)
	if err != nil {
		t.Error(err)
		return io.NopCloser(nil)
	}
	if a.StatusCode != http.StatusOK || a.ProtoMajor != 2 {
		t.Errorf("%s over %s", a.Status, a.Proto)
	}
	return a.Body
}
