package push

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
)

// clientsOf is an environment variable that turns the test binary into many clients: kind, address and number.
const clientsOf = "DOUBLET_PUSH_CLIENTS"

func TestMain(m *testing.M) {
	if what := os.Getenv(clientsOf); what != "" {
		if err := crowd(what); err != nil {
			fmt.Println("crowd:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crowd opens connections, reports that, and holds them until its input ends. It reads and counts the pushes.
func crowd(what string) error {
	words := strings.Fields(what)
	n, err := strconv.Atoi(words[2])
	if err != nil {
		return err
	}
	if words[0] == "two" {
		return crowdOfTwo(words[1], n)
	}
	list := make([]net.Conn, 0, n)
	for i := range n {
		c, err := net.Dial("tcp", words[1])
		if err != nil {
			return err
		}
		if strings.HasSuffix(words[0], "s") { // under TLS
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		}
		path, more := "/events?types=*", ""
		if strings.HasPrefix(words[0], "socket") {
			path = "/ws"
			more = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: jmap\r\n"
		}
		if _, err := fmt.Fprintf(c,
			"GET %s HTTP/1.1\r\nHost: x\r\nNumber: %d\r\nAuthorization: Basic YWxpY2U6c2VjcmV0\r\n"+
				"User-Agent: some program or other\r\n%s\r\n", path, i, more); err != nil {
			return err
		}
		var head [1024]byte
		if n, err := c.Read(head[:]); err != nil || !strings.HasPrefix(string(head[:n]), "HTTP/1.1 ") {
			return fmt.Errorf("%q %w", head[:n], err)
		}
		if strings.HasPrefix(words[0], "socket") {
			text := `{"@type":"WebSocketPushEnable","dataTypes":null}`
			frame := append([]byte{0x81, 0x80 | byte(len(text)), 0, 0, 0, 0}, text...)
			if _, err := c.Write(frame); err != nil {
				return err
			}
		}
		list = append(list, c)
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	for {
		if _, err := in.ReadString('\n'); err != nil {
			return nil
		}
		// Each client must get one push.
		var b [512]byte
		for _, c := range list {
			if _, err := c.Read(b[:]); err != nil {
				return err
			}
		}
		fmt.Println("told")
	}
}

// crowdOfTwo opens connections like a crowd of browsers, each with an HTTP/2 connection of its own.
func crowdOfTwo(address string, n int) error {
	list := make([]io.ReadCloser, 0, n)
	for i := range n {
		t := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
		r, err := http.NewRequest("GET", "https://"+address+"/events?types=*", nil)
		if err != nil {
			return err
		}
		r.Header.Set("Number", strconv.Itoa(i))
		out, err := t.RoundTrip(r)
		if err != nil {
			return err
		}
		list = append(list, out.Body)
	}
	fmt.Println("ready")
	in := bufio.NewReader(os.Stdin)
	for {
		if _, err := in.ReadString('\n'); err != nil {
			return nil
		}
		var b [512]byte
		for _, c := range list {
			if _, err := c.Read(b[:]); err != nil {
				return err
			}
		}
		fmt.Println("told")
	}
}

// memory returns the memory of the process: the heap in use after a collection, and the stacks.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// BenchmarkConnections measures the cost of an idle connection for the server, with the clients in another process. It
// also measures the time until all clients have received a change. 10,000 clients need as many file descriptors.
func BenchmarkConnections(b *testing.B) {
	for _, kind := range []string{"events", "socket", "eventss", "sockets", "two"} {
		for _, n := range []int{2000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				for range b.N {
					connections(b, kind, n)
				}
			})
		}
	}
}

func connections(b *testing.B, kind string, n int) {
	src := newSource()
	e := env.TestRealTime(b)
	p := New(e.Env, src, Options{})
	for i := range n {
		src.give(note.UNID{byte(i), byte(i >> 8), 7}, note.DatabaseID(i+1))
	}
	mux := http.NewServeMux()
	who := func(r *http.Request) Caller {
		i, _ := strconv.Atoi(r.Header.Get("Number"))
		c := Caller{Credential: "app:0123456789abcdef"}
		c.Name, c.Address, c.Database = "Ada Lovelace", "ada@example.com", note.DatabaseID(i+1)
		c.Who.Person = note.UNID{byte(i), byte(i >> 8), 7}
		return c
	}
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) { p.Events(w, r, who(r)) })
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) { p.WebSocket(w, r, who(r)) })
	s := httptest.NewUnstartedServer(mux)
	if strings.HasSuffix(kind, "s") && kind != "events" || kind == "two" {
		s.EnableHTTP2 = kind == "two"
		s.StartTLS()
	} else {
		s.Start()
		kind = strings.TrimSuffix(kind, "s") + "_" // without TLS
	}
	before, routines := memory(), runtime.NumGoroutine()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), clientsOf+"="+fmt.Sprintf("%s %s %d", kind, s.Listener.Addr(), n))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		b.Skipf("the clients could not connect: %s %v", line, err)
	}
	for src.watching() < n {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
	b.ReportMetric(float64(memory()-before)/float64(n), "B/conn")
	b.ReportMetric(float64(runtime.NumGoroutine()-routines)/float64(n), "goroutines/conn")
	began := time.Now()
	if _, err := io.WriteString(in, "go\n"); err != nil {
		b.Fatal(err)
	}
	for i := range n {
		src.change(note.DatabaseID(i+1), "Email")
	}
	if line, err := lines.ReadString('\n'); err != nil || line != "told\n" {
		b.Fatal(line, err)
	}
	b.ReportMetric(float64(time.Since(began).Microseconds())/float64(n), "µs/change")
	time.Sleep(300 * time.Millisecond)
	b.ReportMetric(float64(memory()-before)/float64(n), "B/conn-after")
	_ = in.Close()
	_ = child.Wait()
	s.CloseClientConnections()
	s.Close()
	if err := p.Close(bg); err != nil {
		b.Error(err)
	}
}
