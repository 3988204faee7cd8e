package forward

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/bus"
	"doublet/cluster"
	"doublet/serve/listen"
)

// TestRequestsMove checks that requests that arrive while their mail file is handed over wait, and are served at its
// new home. A hand-over waits for running requests, but not for a slow client.
func TestRequestsMove(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	running, done := make(chan struct{}), make(chan struct{})
	handler := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				close(running)
				<-done
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprint(w, name, " ", len(b))
		})
	}
	who := func(http.ResponseWriter, *http.Request) (Caller, bool) {
		return Caller{Account: anna, Credential: "session:1"}, true
	}
	for _, s := range []*server{front, home} {
		t.Cleanup(func() { _ = s.Close() })
	}
	web := httptest.NewServer(front.Web(DoorWeb, who, handler("front")))
	defer web.Close()
	home.Web(DoorWeb, who, handler("home"))
	post := func(path string, body io.Reader) chan string {
		out := make(chan string, 1)
		go func() {
			a, err := http.Post(web.URL+path, "text/plain", body)
			if err != nil {
				out <- err.Error()
				return
			}
			b, err := io.ReadAll(a.Body)
			_ = a.Body.Close()
			out <- fmt.Sprint(a.StatusCode, " ", string(b), err)
		}()
		return out
	}
	front.place.self.Store(true)
	home.place.self.Store(false)

	long := post("/long", nil)
	<-running
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := front.Vacate(short, anna.Database); !errors.Is(err, cluster.ErrBusy) {
		t.Fatalf("a request runs: %v", err)
	}
	close(done)
	if got := <-long; got != "200 front 0<nil>" {
		t.Fatal(got)
	}

	slow, feed := io.Pipe()
	waiting := post("/slow", slow)
	if _, err := io.WriteString(feed, "first"); err != nil {
		t.Fatal(err)
	}
	resume, err := front.Vacate(context.Background(), anna.Database) // its body is still arriving
	if err != nil {
		t.Fatal(err)
	}
	if _, err := front.Vacate(context.Background(), anna.Database); !errors.Is(err, cluster.ErrBusy) {
		t.Fatalf("handed over twice: %v", err)
	}
	held := post("/held", strings.NewReader("held"))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		front.gates.mu.Lock()
		users := front.gates.by[anna.Database].users
		front.gates.mu.Unlock()
		if users == 3 { // two requests and the hand-over
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d use the database", users)
		}
	}
	front.place.self.Store(false)
	home.place.self.Store(true)
	resume()
	if got := <-held; got != "200 home 4<nil>" {
		t.Error(got)
	}
	_ = feed.Close()
	if got := <-waiting; got != "200 front 5<nil>" && got != "200 home 5<nil>" { // it may have begun or not
		t.Error(got)
	}
	front.gates.mu.Lock()
	defer front.gates.mu.Unlock()
	if len(front.gates.by) != 0 {
		t.Errorf("%d gates are left", len(front.gates.by))
	}
}

// TestSlowReader checks that a hand-over does not wait for a client that does not read its response, whether the
// response is written or flushed.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	front, _ := servers(t)
	front.place.self.Store(true)
	t.Cleanup(func() { _ = front.Close() })
	piece := make([]byte, 64<<10)
	for path, answer := range map[string]func(http.ResponseWriter) error{
		"/write": func(w http.ResponseWriter) error {
			_, err := w.Write(piece)
			return err
		},
		"/flush": func(w http.ResponseWriter) error {
			_, _ = w.Write(piece[:1])
			return http.NewResponseController(w).Flush()
		},
	} {
		t.Run(path[1:], func(t *testing.T) {
			begun, ended := make(chan struct{}), make(chan struct{})
			who := func(http.ResponseWriter, *http.Request) (Caller, bool) { return Caller{Account: anna}, true }
			web := httptest.NewServer(front.Web(DoorLite, who,
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					defer close(ended)
					close(begun)
					for answer(w) == nil { // until the client hangs up
					}
				})))
			defer web.Close()
			c, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", path)
			<-begun
			resume, err := front.Vacate(context.Background(), anna.Database)
			if err != nil {
				t.Fatal(err)
			}
			resume()
			_ = c.Close()
			<-ended
		})
	}
}

// TestFrames checks that framed data is read back unchanged, and no stream can make a member allocate more than
// maxState.
func TestFrames(t *testing.T) {
	t.Parallel()
	m := &Moved{State: []byte("state"), Input: []byte("a NOOP\r\n")}
	b := binary.BigEndian.AppendUint32(nil, uint32(len(m.State)))
	b = append(append(b, m.State...), m.Input...)
	budget := listen.NewBudget(1 << 10)
	got, err := readMoved(strings.NewReader(string(b)), len(b), listen.Share{Budget: budget})
	if err != nil || string(got.State) != "state" || string(got.Input) != "a NOOP\r\n" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, {0, 0, 0}, {0, 0, 0, 9, 1}, {255, 255, 255, 255}} {
		if m, err := readMoved(strings.NewReader(string(bad)), len(bad), listen.Share{Budget: budget}); err == nil {
			t.Errorf("%x is %+v", bad, m)
		}
	}
	if n := budget.Used(); n != int64(len(b)) {
		t.Errorf("%d bytes are reserved", n)
	}
	if _, err := readMoved(nil, 1<<10, listen.Share{Budget: budget}); !errors.Is(err, listen.ErrMemory) {
		t.Errorf("a state that the budget has no room for: %v", err)
	}
}

// TestFrameOrder checks that a session ends if its home sends a state without a warning, or anything but a state after
// the warning: the client's input would be read twice, or lost.
func TestFrameOrder(t *testing.T) {
	t.Parallel()
	state := append(appendFrameHead(nil, frameState, 4), 0, 0, 0, 0)
	moving := appendFrameHead(nil, frameMoving, 0)
	for name, frames := range map[string][]byte{
		"a state without a warning":  state,
		"two warnings":               slices.Concat(moving, moving),
		"compression after it":       append(slices.Concat(moving, appendFrameHead(nil, frameDeflate, 2)), "{}"...),
		"a malformed compression":    append(appendFrameHead(nil, frameDeflate, 1), 'x'),
		"an unknown frame":           appendFrameHead(nil, 'X', 0),
		"a warning that has content": append(appendFrameHead(nil, frameMoving, 1), 'x'),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front, home := servers(t)
			home.wire.HandleStream(verbMovable, func(_ context.Context, _ bus.ServerID, _ []byte,
				stream bus.Stream) error {
				_, err := stream.Write(append([]byte{'+'}, frames...))
				if err == nil {
					_, err = io.Copy(io.Discard, stream)
				}
				return err
			})
			c, in, _ := client(t, front, anna)
			_, _ = io.WriteString(c, "login\r\n")
			expect(t, in, "OK login")
			expect(t, in, "BYE")
			if _, err := in.ReadByte(); err == nil {
				t.Error("the connection goes on")
			}
		})
	}
}

// dated is a connection that records its deadlines.
type dated struct {
	net.Conn
	read, written []time.Time
}

func (d *dated) Read([]byte) (int, error)    { return 1, nil }
func (d *dated) Write(p []byte) (int, error) { return len(p), nil }
func (d *dated) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return nil
}
func (d *dated) SetWriteDeadline(at time.Time) error {
	d.written = append(d.written, at)
	return nil
}

// TestCarriedDeadlines checks that a carried client that is silent, or does not read, is given up after a bounded time,
// and that the deadlines are not set again for each piece.
func TestCarriedDeadlines(t *testing.T) {
	t.Parallel()
	d := &dated{}
	in := &fromClient{socket: d, silence: time.Hour}
	out := &toClient{socket: d}
	began := time.Now()
	for range 100 {
		_, _ = in.Read(nil)
		_, _ = out.Write([]byte("x"))
	}
	took := time.Since(began)
	within := func(list []time.Time, limit time.Duration) {
		t.Helper()
		if len(list) == 0 || list[0].Before(began.Add(limit)) || list[0].After(began.Add(took+limit+limit/4)) {
			t.Errorf("deadlines %v, began %v", list, began)
		}
		if len(list) > 1 && took < limit/8 {
			t.Errorf("set %d times", len(list))
		}
	}
	within(d.read, time.Hour)
	within(d.written, writeWithin)
	d.read = nil
	if err := in.pause(); err != nil || len(d.read) != 1 || d.read[0].After(began) {
		t.Errorf("paused: %v, %v", d.read, err)
	}
	in.deadline = armed{}
	if _, _ = in.Read(nil); len(d.read) != 1 {
		t.Error("a read after the pause has set the deadline again")
	}
}
