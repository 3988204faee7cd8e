package replica

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// stage holds received objects that wait for the notes that name them, and partly received objects. Its memory is
// bounded: when it is full, it drops objects, which are then sent again. An object from a person is used only for notes
// of that person, because knowing an object's digest does not grant access to the object.
type stage struct {
	env  *env.Env
	most int64

	mu    sync.Mutex
	parts map[stageKey]*staged
	size  int64
}

type stageKey struct {
	who    note.UNID // zero for the server itself
	digest note.Digest
}

type staged struct {
	ref  store.ObjectRef
	data []byte
	// held is the number of bytes counted in stage.size, at least len(data).
	held int64
	at   time.Time
	busy bool
	done bool
}

// chunk is the number of bytes of an object read at a time.
const chunk = 256 << 10

// age drops parts that have waited too long. The lock is held.
func (s *stage) age(now time.Time) {
	for k, p := range s.parts {
		if !p.busy && now.Sub(p.at) > keepStaged {
			s.drop(k, p)
		}
	}
}

func (s *stage) drop(k stageKey, p *staged) {
	s.size -= p.held
	delete(s.parts, k)
}

// grow reserves n more bytes for a part and drops the parts that have waited longest if necessary.
func (s *stage) grow(p *staged, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.size+n > s.most {
		var oldest *staged
		var key stageKey
		for k, x := range s.parts {
			if !x.busy && (oldest == nil || x.at.Before(oldest.at)) {
				oldest, key = x, k
			}
		}
		if oldest == nil {
			return fmt.Errorf("%w: memory for received objects is full", ErrBusy)
		}
		s.drop(key, oldest)
	}
	s.size += n
	p.held += n
	return nil
}

// begin starts or resumes receiving a part at the offset from.
func (s *stage) begin(k stageKey, ref store.ObjectRef, from uint64) (*staged, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.env.Clock.Now()
	s.age(now)
	p := s.parts[k]
	switch {
	case p != nil && p.busy:
		return nil, fmt.Errorf("%w: object %s is being received already", ErrBusy, ref.Digest)
	case p != nil && p.ref != ref:
		s.drop(k, p)
		p = nil
	}
	if p == nil {
		p = &staged{ref: ref}
		s.parts[k] = p
	}
	have := uint64(len(p.data))
	switch {
	case p.done:
	case from == 0 && have > 0:
		p.data = p.data[:0]
	case from != have:
		return nil, formatError("object %s stands at %d, not at %d", ref.Digest, have, from)
	}
	p.busy, p.at = true, now
	return p, nil
}

func (s *stage) end(k stageKey, p *staged, spoiled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.busy, p.at = false, s.env.Clock.Now()
	if spoiled && s.parts[k] == p {
		s.drop(k, p)
	}
}

// put receives the rest of a part. After an interruption the received bytes are kept.
func (s *stage) put(k stageKey, ref store.ObjectRef, from uint64, r io.Reader) error {
	if ref.Size > uint64(s.most/2) {
		return fmt.Errorf("%w: object %s of %d bytes, at most %d", ErrTooLarge, ref.Digest, ref.Size, s.most/2)
	}
	p, err := s.begin(k, ref, from)
	if err != nil {
		return err
	}
	if p.done {
		s.end(k, p, false)
		return nil
	}
	for err == nil && uint64(len(p.data)) < ref.Size {
		if len(p.data) == cap(p.data) {
			// Memory grows with the bytes received, not with the size announced.
			room := min(int64(ref.Size), max(chunk, 2*int64(len(p.data))))
			if err = s.grow(p, room-p.held); err != nil {
				break
			}
			p.data = append(make([]byte, 0, room), p.data...)
		}
		at := len(p.data)
		n := min(chunk, cap(p.data)-at)
		p.data = p.data[:at+n]
		n, err = io.ReadFull(r, p.data[at:])
		p.data = p.data[:at+n]
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("replica: object %s was cut at %d of %d bytes: %w", ref.Digest, len(p.data), ref.Size,
			io.ErrUnexpectedEOF)
	}
	spoiled := false
	if err == nil {
		if note.Digest(sha256.Sum256(p.data)) != ref.Digest {
			spoiled, err = true, fmt.Errorf("%w: received bytes of object %s do not match its hash", store.ErrDamaged,
				ref.Digest)
		}
		p.done = err == nil
	}
	s.end(k, p, spoiled)
	return err
}

// take returns the bytes of a complete part, else nil.
func (s *stage) take(k stageKey, ref store.ObjectRef) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[k]
	if p == nil || !p.done || p.ref != ref {
		return nil
	}
	p.at = s.env.Clock.Now()
	return p.data
}

// have returns the number of bytes of a part that are there, and whether the part is complete.
func (s *stage) have(k stageKey, ref store.ObjectRef) (uint64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[k]
	if p == nil || p.ref != ref {
		return 0, false
	}
	if p.busy {
		return 0, false
	}
	return uint64(len(p.data)), p.done
}

// used drops the parts whose notes have been applied.
func (s *stage) used(who note.UNID, refs []store.ObjectRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ref := range refs {
		k := stageKey{who, ref.Digest}
		if p := s.parts[k]; p != nil && !p.busy {
			s.drop(k, p)
		}
	}
}

func (l *Local) key(d note.Digest) stageKey {
	if l.who.System {
		return stageKey{digest: d}
	}
	return stageKey{l.who.Person, d}
}

// Lacks implements Side. A person is told only about objects that this person sent.
func (l *Local) Lacks(ctx context.Context, db note.DatabaseID, refs []store.ObjectRef) ([]Lack, error) {
	err := l.mayPush(ctx, db)
	if err != nil {
		return nil, err
	}
	if l.who.System {
		if refs, err = l.s.Lacks(refs); err != nil {
			return nil, err
		}
	}
	var out []Lack
	for _, ref := range refs {
		if have, done := l.stage.have(l.key(ref.Digest), ref); !done {
			out = append(out, Lack{ObjectRef: ref, Have: have})
		}
	}
	return out, nil
}

// PutObject implements Side.
func (l *Local) PutObject(ctx context.Context, db note.DatabaseID, ref store.ObjectRef, from uint64,
	r io.Reader) error {
	err := l.mayPush(ctx, db)
	if err != nil {
		return err
	}
	if err := l.stage.put(l.key(ref.Digest), ref, from, r); err != nil {
		return err
	}
	l.stat.received.Inc()
	l.stat.objects.Add(ref.Size)
	return nil
}

// Object implements Side.
func (l *Local) Object(ctx context.Context, db note.DatabaseID, of note.UNID, ref store.ObjectRef,
	from uint64) (io.ReadCloser, error) {
	err := l.read(ctx, db, func(r *store.Reader, g *grant) error {
		n, err := l.note(r, g, of)
		if err != nil {
			return err
		}
		if n == nil || g.may()&MayPull == 0 {
			return store.ErrNotFound
		}
		list, err := objectsOf(n)
		if err != nil {
			return err
		}
		for _, x := range list {
			if x == ref {
				return nil
			}
		}
		return fmt.Errorf("%w: note %s names no object %s", store.ErrNotFound, of, ref.Digest)
	})
	if err != nil {
		return nil, err
	}
	if from > ref.Size {
		return nil, formatError("object %s has %d bytes", ref.Digest, ref.Size)
	}
	return &objectReader{ctx: ctx, s: l.s, ref: ref, at: from}, nil
}

// objectReader reads an object one chunk at a time, so that it buffers only one chunk.
type objectReader struct {
	ctx context.Context
	s   *store.Store
	ref store.ObjectRef
	at  uint64
	buf []byte
	off int
}

func (r *objectReader) Read(p []byte) (int, error) {
	if r.off == len(r.buf) {
		if r.at >= r.ref.Size {
			return 0, io.EOF
		}
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		n := min(chunk, r.ref.Size-r.at)
		b, err := r.s.ObjectBytes(r.buf[:0], r.ref.Digest, int64(r.at), int64(n))
		if err != nil {
			return 0, err
		}
		if uint64(len(b)) != n {
			return 0, fmt.Errorf("%w: object %s", store.ErrDamaged, r.ref.Digest)
		}
		r.buf, r.off = b, 0
		r.at += n
	}
	n := copy(p, r.buf[r.off:])
	r.off += n
	return n, nil
}

func (r *objectReader) Close() error { return nil }

// objectsOf lists the objects that a note names, each once: the large parts of its message and the attachments of all
// leaves.
func objectsOf(n *store.Remote) (list []store.ObjectRef, err error) {
	seen := map[note.Digest]bool{}
	add := func(ref store.ObjectRef) {
		if !seen[ref.Digest] {
			seen[ref.Digest] = true
			list = append(list, ref)
		}
	}
	if len(n.Message) > 0 {
		_, _, parts, err := store.RecipeParts(n.Message)
		if err != nil {
			return nil, err
		}
		for _, p := range parts {
			add(p)
		}
	}
	for _, rev := range liveLeaves(n) {
		for _, a := range n.Contents[rev].Attachments {
			add(store.ObjectRef{Digest: a.Digest, Size: a.Size})
		}
	}
	return list, nil
}
