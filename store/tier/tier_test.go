package tier

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"doublet/env"
	"doublet/store/blob"
	"doublet/store/layout"
	"doublet/store/object"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var ctx = context.Background()

// fault is a fault of a place in one request.
type fault int

const (
	none  fault = iota
	busy        // fails
	stall       // waits until the context ends
	cut         // returns fewer bytes, and an error
	wrong       // changes a byte
)

// flaky is a place that fails for some requests.
type flaky struct {
	blob.Place
	mu sync.Mutex
	// next returns the fault of a request.
	next func(request string) fault
	// waiting receives each request that stalls.
	waiting chan string
}

func (f *flaky) fault(request string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		return none
	}
	return f.next(request)
}

// set makes requests fail.
func (f *flaky) set(next func(string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = next
}

// apply returns the error of a request with a fault.
func (f *flaky) apply(ctx context.Context, k fault, request string) error {
	switch k {
	case busy, cut:
		return fmt.Errorf("%w: %s: 503", blob.ErrAway, request)
	case stall:
		if f.waiting != nil {
			f.waiting <- request
		}
		<-ctx.Done()
		return fmt.Errorf("%w: %s: %w", blob.ErrAway, request, ctx.Err())
	}
	return nil
}

// Write implements blob.Place.
func (f *flaky) Write(ctx context.Context, dir string, from blob.Source, size int64, name func() string) error {
	k := f.fault("write")
	if err := f.apply(ctx, k, "write"); err != nil {
		return err
	}
	if k == wrong {
		from = &changed{from}
	}
	return f.Place.Write(ctx, dir, from, size, name)
}

// changed changes what is read.
type changed struct{ blob.Source }

// Read implements blob.Source.
func (c *changed) Read(p []byte) (int, error) {
	b := make([]byte, len(p))
	n, err := c.Source.Read(b)
	if n > 0 {
		b[n/2] ^= 1
	}
	copy(p, b[:n])
	return n, err
}

// Remove implements blob.Place.
func (f *flaky) Remove(ctx context.Context, names ...string) error {
	if err := f.apply(ctx, f.fault("remove"), "remove"); err != nil {
		return err
	}
	return f.Place.Remove(ctx, names...)
}

// Open implements blob.Place.
func (f *flaky) Open(ctx context.Context, name string) (blob.Reader, error) {
	if err := f.apply(ctx, f.fault("open"), "open"); err != nil {
		return nil, err
	}
	r, err := f.Place.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &flakyReader{r, f, ctx}, nil
}

type flakyReader struct {
	blob.Reader
	f   *flaky
	ctx context.Context
}

// ReadAt implements blob.Reader.
func (r *flakyReader) ReadAt(p []byte, off int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", blob.ErrAway, err)
	}
	k := r.f.fault("read")
	if err := r.f.apply(r.ctx, k, "read"); err != nil {
		n := 0
		if k == cut {
			n, _ = r.Reader.ReadAt(p[:len(p)/2], off)
		}
		return n, err
	}
	n, err := r.Reader.ReadAt(p, off)
	if k == wrong && n > 0 {
		p[n/2] ^= 1
	}
	return n, err
}

type world struct {
	t     *testing.T
	f     *env.Fixture
	place *flaky
	tier  *Tier
	body  []byte
	copy  layout.Copy
}

const name = "segments/01/000000000001-aa"

// newWorld returns a place with the copy of a segment of several chunks.
func newWorld(t *testing.T) *world {
	t.Helper()
	f := env.Test(t)
	files := vfs.NewMem()
	if err := files.MkdirAll("place", 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, f: f, place: &flaky{Place: blob.Folder(files, "place")}, body: make([]byte, 3<<20+77)}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(w.body)
	identity, err := blob.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := blob.OwnKeys(identity)
	if err != nil {
		t.Fatal(err)
	}
	w.tier = New(f.Env, w.place, keys, 0)
	t.Cleanup(w.tier.Close)
	if w.copy, err = w.ship(); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) ship() (layout.Copy, error) {
	return w.tier.Ship(ctx, name, bytes.NewReader(w.body), int64(len(w.body)))
}

// read reads a part of the copy and compares it with the segment. It returns the error of the read.
func (w *world) read(r object.Source, off, n int) error {
	w.t.Helper()
	b := make([]byte, n)
	got, err := r.ReadAt(b, int64(off))
	want := w.body[min(off, len(w.body)):min(off+n, len(w.body))]
	if errors.Is(err, io.EOF) && len(want) < n {
		err = nil
	}
	if err == nil && !bytes.Equal(b[:got], want) {
		w.t.Fatalf("%d bytes at %d differ", n, off)
	}
	return err
}

// TestShip writes a copy and reads it. It is encrypted.
func TestShip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	raw, err := w.place.Get(ctx, name, 1<<30)
	if err != nil || int64(len(raw)) != w.copy.Stored || bytes.Contains(raw, w.body[1000:1100]) {
		t.Fatalf("%d bytes of %d are stored: %v", len(raw), w.copy.Stored, err)
	}
	r := w.tier.Open(w.copy)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		if err := w.read(r, rng.IntN(len(w.body)+10), 1+rng.IntN(100_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.read(r, 0, len(w.body)+1), r.Close(), w.read(r, 5, 500), r.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.tier.Check(ctx, &w.copy); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	if err := w.tier.Fetch(ctx, &w.copy, &all); err != nil || !bytes.Equal(all.Bytes(), w.body) {
		t.Errorf("fetched %d bytes: %v", all.Len(), err)
	}
	if err := errors.Join(w.tier.Remove(ctx, name), w.tier.Remove(ctx, name)); err != nil {
		t.Fatal(err)
	}
	if err := w.tier.Check(ctx, &w.copy); !errors.Is(err, object.ErrLost) {
		t.Errorf("a removed copy: %v", err)
	}
	// The place may be the wrong one: nobody may give the objects up.
	if err := w.read(r, 5, 500); !errors.Is(err, object.ErrAway) {
		t.Errorf("read of a removed copy: %v", err)
	}
}

// TestHeadIsLocal reads the start of a segment, which a backup needs of each, while the place is away.
func TestHeadIsLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.place.set(func(string) fault { return busy })
	if err := w.read(w.tier.Open(w.copy), 0, layout.HeadSize); err != nil {
		t.Error(err)
	}
	if err := w.read(w.tier.Open(w.copy), 1, layout.HeadSize); !errors.Is(err, object.ErrAway) {
		t.Error(err)
	}
}

// TestReadFaults reads with a fault in each request. A read returns the right bytes or fails, and succeeds afterwards.
func TestReadFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, k := range []fault{busy, cut, wrong} {
		for at := 0; ; at++ {
			r, n := w.tier.Open(w.copy), 0
			w.place.set(func(request string) fault {
				if n++; n-1 == at {
					return k
				}
				return none
			})
			err := errors.Join(w.read(r, 100_000, 300_000), w.read(r, 2<<20, 200_000))
			if done := n <= at; done {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				break
			}
			if k == wrong && err != nil { // it was read again
				t.Errorf("fault %d in request %d: %v", k, at, err)
			}
			if err != nil && !errors.Is(err, object.ErrAway) {
				t.Errorf("fault %d in request %d: %v", k, at, err)
			}
			w.place.set(nil)
			w.f.Time.Advance(pause)
			if err := w.read(r, 100_000, 300_000); err != nil {
				t.Errorf("after fault %d in request %d: %v", k, at, err)
			}
		}
	}
	// A copy that is changed for good is damaged, and not away.
	w.place.set(func(request string) fault {
		if request == "read" {
			return wrong
		}
		return none
	})
	if err := w.read(w.tier.Open(w.copy), 100_000, 10); err == nil || errors.Is(err, object.ErrAway) {
		t.Errorf("a changed copy: %v", err)
	}
}

// TestStall reads while the place does not answer. The read fails after its time limit, and those that wait behind it
// fail with it.
func TestStall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.place.waiting = make(chan string, 1)
	r := w.tier.Open(w.copy)
	const readers = 20
	ended := make(chan error, readers)
	for _, request := range []string{"open", "read"} {
		w.place.set(func(is string) fault {
			if is == request {
				return stall
			}
			return none
		})
		for range readers {
			go func() {
				_, err := r.ReadAt(make([]byte, 10), 100_000)
				ended <- err
			}()
		}
		<-w.place.waiting
		w.f.Time.Advance(patience)
		for range readers {
			if err := <-ended; !errors.Is(err, object.ErrAway) {
				t.Fatalf("%s: %v", request, err)
			}
		}
		w.place.set(nil)
		if err := w.read(r, 100_000, 10); !errors.Is(err, object.ErrAway) {
			t.Errorf("a read right after a failed one: %v", err)
		}
		w.f.Time.Advance(pause)
		if err := w.read(r, 100_000, 10); err != nil {
			t.Errorf("%s: afterwards: %v", request, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s := w.tier.Stats(); s.Failed != 2*readers+2 {
		t.Errorf("%+v", s)
	}
}

// TestCloseEndsReads closes the tier while a read waits for the place.
func TestCloseEndsReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.place.waiting = make(chan string, 1)
	w.place.set(func(string) fault { return stall })
	ended := make(chan error)
	go func() {
		_, err := w.tier.Open(w.copy).ReadAt(make([]byte, 10), 100_000)
		ended <- err
	}()
	<-w.place.waiting
	w.tier.Close()
	if err := <-ended; !errors.Is(err, object.ErrAway) {
		t.Error(err)
	}
}

// TestShipFaults writes copies with a fault in each request. A copy that is not what the segment is has no row.
func TestShipFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, k := range []fault{busy, cut, wrong} {
		for at := 0; ; at++ {
			n := 0
			w.place.set(func(string) fault {
				if n++; n-1 == at {
					return k
				}
				return none
			})
			_, err := w.ship()
			w.place.set(nil)
			if n <= at {
				if err != nil {
					t.Fatalf("without a fault: %v", err)
				}
				break
			}
			if harmless := k == wrong && at == 1; err == nil && !harmless { // the second request opens the copy
				t.Errorf("fault %d in request %d is not noticed", k, at)
			}
		}
	}
	w.place.waiting = make(chan string, 1)
	for _, request := range []string{"write", "open", "read"} {
		w.place.set(func(is string) fault {
			if is == request {
				return stall
			}
			return none
		})
		ended := make(chan error)
		go func() {
			_, err := w.ship()
			ended <- err
		}()
		<-w.place.waiting
		w.f.Time.Advance(stalled)
		if err := <-ended; err == nil {
			t.Errorf("%s stalls: no error", request)
		}
	}
}

// TestRate copies a segment at a rate.
func TestRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tier.rate = int64(len(w.body))
	began := w.f.Time.Now()
	ended := make(chan error)
	go func() {
		_, err := w.ship()
		ended <- err
	}()
	for {
		select {
		case err := <-ended:
			if took := w.f.Time.Now().Sub(began); err != nil || took < 1900*time.Millisecond {
				t.Errorf("took %s: %v", took, err)
			}
			return
		default:
			if w.f.Time.Pending() > 1 { // the transfer waits: the other timer ends one that stalls
				w.f.Time.Advance(10 * time.Millisecond)
			}
			runtime.Gosched()
		}
	}
}
