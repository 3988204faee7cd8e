package replica

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/check"
)

// server is a store with its replication.
type server struct {
	t    *testing.T
	name string
	f    *env.Fixture
	s    *store.Store
	mail *mailbox.Service
	svc  *Service
	opt  Options
	// cache is the size of the store's cache. It is small, so that tests read evicted pages.
	cache uint64
}

func newServer(t *testing.T, name string) *server {
	t.Helper()
	return newBench(t, t, name, 4<<20)
}

// newBench is newServer for benchmarks. It closes its servers when b ends.
func newBench(b testing.TB, t *testing.T, name string, cache uint64) *server {
	b.Helper()
	x := &server{t: t, name: name, f: env.TestRealTime(b), cache: cache}
	u := note.DeriveUNID([]byte(name))
	x.f.Env.Rand = env.Seeded(binary.BigEndian.Uint64(u[:]))
	x.open()
	b.Cleanup(func() { _ = x.s.Close() })
	return x
}

func (x *server) open() {
	x.t.Helper()
	var err error
	x.s, err = store.Open(x.f.Env, "data", store.Options{
		FloorBytes: -1, Ballast: -1, MemTableSize: x.cache / 4, CacheSize: int64(x.cache),
		LogSyncInterval: 20 * time.Microsecond,
		OnFatal:         func(err error) { x.t.Error(err) },
	})
	x.must(err)
	x.mail = mailbox.New(x.s, x.f.Env, mailbox.Options{})
	x.svc = New(x.s, x.mail, x.f.Env, x.opt)
}

func (x *server) reopen() {
	x.t.Helper()
	x.must(x.s.Close())
	x.open()
}

func (x *server) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("%s: %v", x.name, err)
	}
}

func (x *server) side() *Local { return x.svc.As(note.System) }

// make creates a database, with the same id at each server.
func (x *server) make(id note.DatabaseID, c store.Create) {
	x.t.Helper()
	c.ID = id
	_, err := x.s.CreateDatabase(note.System, c)
	x.must(err)
}

func (x *server) update(db note.DatabaseID, fn func(w *store.Writer) error) error {
	return x.s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		w, err := tx.Database(db)
		if err != nil {
			return err
		}
		return fn(w)
	})
}

func (x *server) read(db note.DatabaseID, fn func(r *store.Reader) error) {
	x.t.Helper()
	x.must(x.s.Read(context.Background(), note.System, db, fn))
}

func (x *server) check() {
	x.t.Helper()
	rep, err := check.Run(context.Background(), x.s, check.Options{Deep: true})
	x.must(err)
	for _, f := range rep.Findings {
		x.t.Errorf("%s: check: %v", x.name, f)
	}
}

// picture returns everything in which replicas must agree: history, state, content and message of every note.
func (x *server) picture(db note.DatabaseID) map[string]string {
	x.t.Helper()
	out := map[string]string{}
	x.read(db, func(r *store.Reader) error {
		return r.Since(0, func(_ uint64, id note.ID) bool {
			n, err := r.Remote(id)
			x.must(err)
			if stub(n) {
				return true // a tombstone, kept as long as a replica may need it
			}
			text := fmt.Sprint(n.Class, n.Tree, n.State, n.Foldered, n.Date, n.Size)
			for _, l := range n.Tree.Leaves() {
				text += fmt.Sprint(l.Rev, n.Contents[l.Rev])
			}
			if row, err := r.Note(id); err == nil && row.Recipe != 0 {
				m, err := r.Message(row)
				x.must(err)
				var b bytes.Buffer
				_, err = m.WriteTo(&b)
				x.must(err)
				text += fmt.Sprint(len(b.Bytes()), note.DeriveUNID(b.Bytes()))
			}
			out[n.UNID.String()] = text
			return true
		})
	})
	return out
}

// places returns the notes of each folder, by folder name.
func (x *server) places(db note.DatabaseID) map[string][]string {
	x.t.Helper()
	out := map[string][]string{}
	x.read(db, func(r *store.Reader) error {
		for _, f := range r.Folders() {
			list := []string{}
			x.must(r.Members(f.Note, 1, note.MaxUID, func(_ uint32, id note.ID) bool {
				n, err := r.Note(id)
				x.must(err)
				list = append(list, n.UNID.String())
				return true
			}))
			slices.Sort(list)
			out[f.Name] = list
		}
		return nil
	})
	return out
}

func same(t *testing.T, what string, db note.DatabaseID, a, b *server) {
	t.Helper()
	if p, q := a.picture(db), b.picture(db); !maps.Equal(p, q) {
		for k, v := range p {
			if q[k] != v {
				t.Errorf("%s: note %s\n%s: %s\n%s: %s", what, k, a.name, v, b.name, q[k])
			}
		}
		for k, v := range q {
			if p[k] == "" {
				t.Errorf("%s: note %s is at %s alone: %s", what, k, b.name, v)
			}
		}
		t.FailNow()
	}
	if p, q := a.places(db), b.places(db); !maps.EqualFunc(p, q, slices.Equal) {
		t.Fatalf("%s: folders\n%s: %v\n%s: %v", what, a.name, p, b.name, q)
	}
}

// lossy is a Carrier that loses requests and replies, and that repeats, reorders and truncates them.
type lossy struct {
	Carrier
	mu   sync.Mutex
	rng  *rand.Rand
	rate float64
	// late holds requests that will be delivered a second time.
	late []func()
	// Number of faults of each kind, and of bytes.
	lost, unanswered, repeated, reordered, cut int
	bytes                                      int
}

var errLost = errors.New("the line is cut")

func (l *lossy) chance() bool { return l.rate > 0 && l.rng.Float64() < l.rate }

func (l *lossy) Call(ctx context.Context, verb string, body []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes += len(body)
	if l.chance() {
		l.lost++
		return nil, errLost
	}
	if l.chance() {
		again := bytes.Clone(body)
		l.late = append(l.late, func() { _, _ = l.Carrier.Call(ctx, verb, again) })
	}
	out, err := l.Carrier.Call(ctx, verb, bytes.Clone(body))
	l.bytes += len(out)
	if err != nil {
		err = &RemoteError{Kind: ErrorKind(err), Text: err.Error()}
	}
	if l.chance() {
		l.repeated++
		out, err = l.Carrier.Call(ctx, verb, bytes.Clone(body))
	}
	if len(l.late) > 0 && l.chance() {
		l.reordered++
		i := l.rng.IntN(len(l.late))
		l.late[i]()
		l.late = slices.Delete(l.late, i, i+1)
	}
	if l.chance() {
		l.unanswered++
		return nil, errLost
	}
	return out, err
}

// cutter truncates a stream.
type cutter struct {
	r    io.Reader
	left int
}

func (c *cutter) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errLost
	}
	n, err := c.r.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *cutter) Close() error { return nil }

func (l *lossy) Get(ctx context.Context, verb string, head []byte) (io.ReadCloser, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, err := l.Carrier.Get(ctx, verb, head)
	if err != nil {
		return nil, &RemoteError{Kind: ErrorKind(err), Text: err.Error()}
	}
	if l.chance() {
		l.cut++
		return &cutter{r, l.rng.IntN(100_000)}, nil
	}
	return &counting{r, l}, nil
}

type counting struct {
	io.ReadCloser
	l *lossy
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.l.bytes += n
	return n, err
}

func (l *lossy) Put(ctx context.Context, verb string, head []byte, body io.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.chance() {
		l.cut++
		body = &cutter{body, l.rng.IntN(100_000)}
	}
	err := l.Carrier.Put(ctx, verb, head, &counting{io.NopCloser(body), l})
	if l.chance() {
		l.unanswered++
		return errLost
	}
	if err != nil {
		return &RemoteError{Kind: ErrorKind(err), Text: err.Error()}
	}
	return nil
}

// far returns the Side of a server behind a lossy line.
func (x *server) far(who note.Who, rng *rand.Rand, rate float64) (*Remote, *lossy) {
	l := &lossy{Carrier: Served{Side: x.svc.As(who)}, rng: rng, rate: rate}
	return NewRemote(l), l
}

// letter returns a message with an attachment of the given size.
func letter(rng *rand.Rand, n int) []byte {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	text := base64.StdEncoding.EncodeToString(raw)
	var b strings.Builder
	fmt.Fprintf(&b, "From: a@example.com\r\nTo: b@example.com\r\nSubject: %x\r\nMessage-ID: <%x@x>\r\n"+
		"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n"+
		"\r\nhello\r\n--b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n",
		rng.Uint64(), rng.Uint64())
	for len(text) > 0 {
		k := min(76, len(text))
		b.WriteString(text[:k] + "\r\n")
		text = text[k:]
	}
	b.WriteString("--b--\r\n")
	return []byte(b.String())
}

// deliver puts a message into a folder.
func (x *server) deliver(db note.DatabaseID, folder string, raw []byte) {
	x.t.Helper()
	c, err := x.mail.Compose(context.Background(), raw)
	x.must(err)
	defer c.Release()
	x.must(x.update(db, func(w *store.Writer) error {
		f, err := w.FolderNamed(folder)
		if err != nil {
			return err
		}
		n := c.New(time.Unix(1_700_000_000, 0))
		n.Folders = []note.ID{f.Note}
		_, err = w.Create(n)
		return err
	}))
}
