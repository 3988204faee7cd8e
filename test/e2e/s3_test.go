package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/env"
	"doublet/store/blob"
	"doublet/test/external"
	"doublet/test/long"
	"doublet/test/program"
)

// gateway is versitygw, an S3 server that others wrote, over a folder. The module test/peer/s3 pins its version.
type gateway struct {
	t                     *testing.T
	dir, program, address string
	cmd                   *exec.Cmd
	log                   program.Output
}

// newGateway builds and starts a gateway with an empty bucket "mail".
func newGateway(t *testing.T) *gateway {
	t.Helper()
	long.Test(t)
	g := &gateway{t: t, dir: t.TempDir(), address: "127.0.0.1:" + program.FreePorts(t, 1)[0]}
	g.program = filepath.Join(g.dir, "versitygw")
	build := exec.Command("go", "build", "-C", "../peer/s3", "-trimpath", "-o", g.program, "tool")
	if out, err := build.CombinedOutput(); err != nil {
		external.Missing(t, "versitygw, a Go module", string(out))
	}
	err := errors.Join(os.MkdirAll(filepath.Join(g.dir, "root", "mail"), 0o700), os.WriteFile(g.credentials(),
		[]byte("[default]\naws_access_key_id = doublet\naws_secret_access_key = secret\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	g.start()
	t.Cleanup(g.stop)
	return g
}

func (g *gateway) credentials() string { return filepath.Join(g.dir, "credentials") }

// start starts the gateway and waits until it answers.
func (g *gateway) start() {
	g.t.Helper()
	g.cmd = exec.Command(g.program, "--port", g.address, "--access", "doublet", "--secret", "secret",
		"--region", "us-east-1", "posix", filepath.Join(g.dir, "root"))
	g.cmd.Stdout, g.cmd.Stderr = &g.log, &g.log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", g.address)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("versitygw does not answer: %v\n%s", err, g.log.String())
		}
	}
}

// stop kills the gateway.
func (g *gateway) stop() {
	_ = g.cmd.Process.Signal(syscall.SIGKILL)
	_ = g.cmd.Wait()
}

// place returns the URL of a prefix in the bucket.
func (g *gateway) place(prefix string) string {
	q := url.Values{"endpoint": {"http://" + g.address}, "credentials": {g.credentials()}, "timeout": {"30s"}}
	return "s3://mail/" + prefix + "?" + q.Encode()
}

// TestMomentInBucket is TestMoment with the archive in a bucket, whose server is away in between.
func TestMomentInBucket(t *testing.T) {
	g := newGateway(t)
	moment(t, g.place("archive"), func() {
		g.stop()
		time.Sleep(time.Second) // several transfers fail meanwhile
		g.start()
	})
}

// says sends commands to a door, and returns all that it answers.
func (s *encryptedServer) says(door, commands string) string {
	s.T.Helper()
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+s.Port[door], 10*time.Second)
	if err != nil {
		s.T.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.WriteString(c, commands); err != nil {
		s.T.Fatal(err)
	}
	out, err := io.ReadAll(c)
	if err != nil {
		s.T.Fatal(err)
	}
	return string(out)
}

// attachment fetches the attachment of a message. It returns the whole answer of the server.
func (s *encryptedServer) attachment(n int) string {
	s.T.Helper()
	return s.says("imap", fmt.Sprintf("a LOGIN alice demo\r\nb EXAMINE INBOX\r\nc FETCH %d (BODY.PEEK[2])\r\n"+
		"e LOGOUT\r\n", n))
}

// copies returns the figures of copies of segments.
func (s *encryptedServer) copies() (segments, evicted int) {
	s.T.Helper()
	for line := range strings.Lines(s.Doublet("show", "stat", "Database.DAOS.Copies")) {
		_, _ = fmt.Sscanf(strings.TrimSpace(line), "Database.DAOS.Copies.Segments = %d", &segments)
		_, _ = fmt.Sscanf(strings.TrimSpace(line), "Database.DAOS.Copies.Evicted.Segments = %d", &evicted)
	}
	return segments, evicted
}

// ship copies all segments but the one that is written to, and evicts all that the cache has no room for.
func (s *encryptedServer) ship(evicts bool) {
	s.T.Helper()
	s.Stop(syscall.SIGTERM) // the next start begins a new segment
	s.Start()
	s.Doublet("console", "-c", "load segments")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		segments, evicted := s.copies()
		if segments == len(s.segmentFiles())+evicted && segments > 0 && (!evicts || segments == evicted) {
			return
		}
		if time.Now().After(deadline) {
			s.T.Fatalf("%d segments have copies, %d are evicted, files: %v\n%s", segments, evicted, s.segmentFiles(),
				s.Out)
		}
	}
}

// segmentFiles returns the files of segments.
func (s *encryptedServer) segmentFiles() []string {
	s.T.Helper()
	list, err := filepath.Glob(filepath.Join(s.Data, "objects", "*.seg"))
	if err != nil {
		s.T.Fatal(err)
	}
	return list
}

// TestSegmentsInBucket keeps segments in a bucket. All are evicted and read there; while the bucket is away, reads fail
// for now and deliveries go on; segments whose files are lost come back.
func TestSegmentsInBucket(t *testing.T) {
	g := newGateway(t)
	t.Setenv("DOUBLET_DATA_SEGMENTS_ARCHIVE", g.place("segments"))
	t.Setenv("DOUBLET_STORE_SEGMENTS_CACHE", "0B")
	s := &encryptedServer{Server: program.Demo(t)}
	deliver := func(subject string) (n int) {
		t.Helper()
		if err := s.deliver(subject); err != nil {
			t.Fatal(err)
		}
		out := s.says("imap", "a LOGIN alice demo\r\nb EXAMINE INBOX\r\nc LOGOUT\r\n")
		for line := range strings.Lines(out) {
			_, _ = fmt.Sscanf(line, "* %d EXISTS", &n)
		}
		if n == 0 {
			t.Fatal(out)
		}
		return n
	}
	whole := func(n int, subject string) {
		t.Helper()
		if out := s.attachment(n); strings.Count(out, secretWord+","+subject) != 4000 {
			t.Errorf("message %d:\n%.2000s", n, out)
		}
	}
	one, two := deliver("one"), deliver("two")
	s.ship(true)
	whole(one, "one")
	whole(two, "two")
	program.Want(t, s.Doublet("check"), "clean", "only at data.segments_archive")
	program.Want(t, s.Doublet("check", "--deep"), "clean")

	g.stop()
	s.Stop(syscall.SIGTERM) // what was read is in memory; a start does not need the bucket
	s.Start()
	program.Want(t, s.attachment(one), "c NO [UNAVAILABLE]", "e OK")
	program.Want(t, s.says("pop3", fmt.Sprintf("USER alice\r\nPASS demo\r\nRETR %d\r\nQUIT\r\n", one)),
		"-ERR [SYS/TEMP]")
	three := deliver("three")
	whole(three, "three")
	g.start()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.attachment(one), "\nc OK"); {
		if time.Now().After(deadline) {
			t.Fatal("reads fail though the bucket is back")
		}
		time.Sleep(time.Second) // after a failure the server does not ask the bucket for some seconds
	}
	whole(one, "one")

	t.Setenv("DOUBLET_STORE_SEGMENTS_CACHE", "10GB")
	s.ship(false)
	s.Stop(syscall.SIGTERM)
	lost := s.segmentFiles()
	for _, path := range lost {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if len(lost) == 0 {
		t.Error("no segment has a file")
	}
	t.Setenv("DOUBLET_DATA_SEGMENTS_ARCHIVE", "")
	if out, err := s.Try("user", "list"); err == nil || !strings.Contains(out, "data.segments_archive") {
		t.Errorf("the store opened without the bucket: %s", out)
	}
	t.Setenv("DOUBLET_DATA_SEGMENTS_ARCHIVE", g.place("segments"))
	s.Start()
	for n, subject := range map[int]string{one: "one", two: "two", three: "three"} {
		whole(n, subject)
	}
	s.Stop(syscall.SIGTERM)
}

// source is a blob.Source.
type source struct{ *bytes.Reader }

// Reset implements blob.Source.
func (s source) Reset() error {
	_, err := s.Seek(0, io.SeekStart)
	return err
}

// TestBucket writes, lists, reads and removes objects of a bucket, in pages, parts and ranges.
func TestBucket(t *testing.T) {
	ctx := context.Background()
	p, err := blob.Open(env.Real(slog.New(slog.DiscardHandler)), newGateway(t).place("one"))
	if err != nil {
		t.Fatal(err)
	}
	const n = 1100 // more than a page of a listing
	for i := range n {
		if err := p.Put(ctx, fmt.Sprintf("a/%04d", i), []byte("content")); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Put(ctx, "ab c+d", []byte("x")); err != nil {
		t.Fatal(err)
	}
	list, err := p.List(ctx, "a/")
	if err != nil || len(list) != n || list[n-1] != (blob.Info{Name: "a/1099", Size: 7}) {
		t.Fatalf("%d objects, %v", len(list), err)
	}
	if list, err := p.List(ctx, "ab"); err != nil || fmt.Sprint(list) != "[{ab c+d 1}]" {
		t.Errorf("%v %v", list, err)
	}
	if b, err := p.Get(ctx, "a/0007", 7); err != nil || string(b) != "content" {
		t.Errorf("%q %v", b, err)
	}
	err = errors.Join(p.Remove(ctx, "a/0007"), p.Remove(ctx, "a/0007", "a/0008"), p.Remove(ctx, "a/none"))
	if err != nil {
		t.Error(err)
	}
	_, gone := p.Get(ctx, "a/0007", 7)
	_, closed := p.Open(ctx, "a/0007")
	if !errors.Is(gone, blob.ErrNotFound) || !errors.Is(closed, blob.ErrNotFound) {
		t.Error(gone, closed)
	}
	big := make([]byte, 33<<20+5) // three parts
	_, _ = rand.NewChaCha8([32]byte{}).Read(big)
	err = p.Write(ctx, "parts", source{bytes.NewReader(big)}, int64(len(big)), func() string { return "big" })
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Open(ctx, "parts/big")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	if err != nil || !bytes.Equal(all, big) {
		t.Errorf("%d bytes, %v", len(all), err)
	}
	b := make([]byte, 1000)
	if _, err := r.ReadAt(b, 20<<20+3); err != nil || !bytes.Equal(b, big[20<<20+3:][:1000]) {
		t.Errorf("a range: %v", err)
	}
}
