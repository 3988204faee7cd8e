package direct

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"
	"doublet/stat"
)

// pair opens the ports of two members. serve handles the streams that the first opens to the second.
func pair(t *testing.T, serve bus.StreamHandler) (first *Port, second bus.ServerID) {
	t.Helper()
	f := bustest.Found(t)
	var ports []*Port
	var members []bus.Member
	for _, name := range []string{"one", "two"} {
		folder := f.Folder(name)
		p, err := Open(f.Env.Env, Options{
			Listen: "127.0.0.1:0", Identity: folder, Up: func(*Link) {}, Down: func(*Link) {},
			Stream: func(string) bus.StreamHandler { return serve }, Stats: stat.New(f.Env.Clock),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		id := folder.Identity()
		ports = append(ports, p)
		members = append(members, bus.Member{ID: id.ID, Name: name, Key: id.Key, Direct: p.Addr().String()})
	}
	for _, p := range ports {
		p.SetMembers(members)
	}
	return ports[0], members[1].ID
}

// much is more than the buffers between two servers hold.
const much = 64 << 20

// ends waits until fn returns, and reports a failure if it does not.
func ends(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal(what + " does not end")
	}
}

// TestCloseInterruptsWrite checks that Close, on either side, ends a Write to a server that does not read, and does not
// wait for it.
func TestCloseInterruptsWrite(t *testing.T) {
	t.Parallel()
	t.Run("opener", func(t *testing.T) {
		t.Parallel()
		begun, release := make(chan struct{}), make(chan struct{})
		defer close(release)
		p, id := pair(t, func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			_, err := s.Read(make([]byte, 1))
			close(begun)
			<-release
			return err
		})
		s, err := p.Stream(context.Background(), id, "test", nil)
		if err != nil {
			t.Fatal(err)
		}
		wrote := make(chan error, 1)
		go func() {
			_, err := s.Write(make([]byte, much))
			wrote <- err
		}()
		<-begun // the Write is in progress, and cannot end
		ends(t, "Close", func() { _ = s.Close() })
		ends(t, "Write", func() {
			if err := <-wrote; err == nil {
				t.Error("data was written that nobody read")
			}
		})
	})
	t.Run("handler", func(t *testing.T) {
		t.Parallel()
		given, wrote := make(chan bus.Stream, 1), make(chan error, 1)
		p, id := pair(t, func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			given <- s
			_, err := s.Write(make([]byte, much))
			wrote <- err
			return err
		})
		s, err := p.Stream(context.Background(), id, "test", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		there := <-given
		ends(t, "Close", func() { _ = there.Close() })
		ends(t, "Write", func() {
			if err := <-wrote; err == nil {
				t.Error("data was written that nobody read")
			}
		})
	})
}

// TestCloseBehindFullBuffers checks that Close ends although the last frame cannot be sent: the other side has ended
// its direction, and does not read.
func TestCloseBehindFullBuffers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	defer close(release)
	p, id := pair(t, func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
		err := s.CloseWrite()
		<-release
		return err
	})
	s, err := p.Stream(context.Background(), id, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	// Fill the socket below TLS, which a Write with a deadline would spoil.
	socket := s.(*stream).conn.(tracked).socket
	for _, size := range []int{1 << 20, 1} { // to the last byte
		for piece := make([]byte, size); ; {
			if err := socket.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
				t.Fatal(err)
			}
			if _, err := socket.Write(piece); err != nil {
				break
			}
		}
	}
	if err := socket.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	ends(t, "Close", func() { _ = s.Close() })
}
