package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// Mending fetches objects that are missing or damaged here from mates. Concurrent requests for one object share a
// fetch. An object that no mate has is not requested again for a while.
type Mending struct {
	*core

	mu     sync.Mutex
	under  map[note.Digest]chan struct{} // closed when the fetch has ended
	failed map[note.Digest]time.Time
}

// Limits: the time that a reader waits for an object from a mate, the time before an object that no mate has is
// requested again, and the number of such objects that are remembered.
const (
	mendWithin  = 10 * time.Second
	mendAgain   = time.Minute
	maxUnmended = 10_000
)

// Mend fetches an object from a mate and stores it.
func (m *Mending) Mend(ctx context.Context, d note.Digest) error {
	for {
		other, err := m.begin(d)
		if err != nil {
			return err
		}
		if other == nil {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, err := m.store.ObjectSize(d); err == nil {
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, mendWithin)
	defer cancel()
	err := m.fetch(ctx, d)
	m.end(d, err)
	if err != nil {
		m.stat.unrepaired.Inc()
		m.log(slog.LevelError, "cannot fetch a missing or damaged object", "object", d.String(), "err", err)
	}
	return err
}

// begin marks an object as being fetched. If it already is, begin returns a channel that is closed at the end of that
// fetch.
func (m *Mending) begin(d note.Digest) (other chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.under[d]; other != nil {
		return other, nil
	}
	if at, ok := m.failed[d]; ok && m.now().Sub(at) < mendAgain {
		return nil, fmt.Errorf("%w: no mate had object %s", store.ErrNotFound, d)
	}
	if m.under == nil {
		m.under = map[note.Digest]chan struct{}{}
	}
	m.under[d] = make(chan struct{})
	return nil, nil
}

func (m *Mending) end(d note.Digest, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed == nil || len(m.failed) >= maxUnmended {
		m.failed = map[note.Digest]time.Time{}
	}
	delete(m.failed, d)
	if err != nil {
		m.failed[d] = m.now()
	}
	close(m.under[d])
	delete(m.under, d)
}

// fetch asks the live mates one after the other.
func (m *Mending) fetch(ctx context.Context, d note.Digest) error {
	last := fmt.Errorf("%w: no mate has object %s", store.ErrNotFound, d)
	for _, mate := range m.members.view().mates {
		if v := m.members.view(); !v.alive(mate) {
			continue
		}
		err := m.fetchFrom(ctx, mate, d)
		if err == nil {
			m.stat.repaired.Inc()
			m.log(slog.LevelWarn, "object restored from a mate", "object", d.String(), "from", m.name(mate))
			return nil
		}
		if !errors.Is(err, store.ErrNotFound) {
			last = err
		}
	}
	return last
}

func (m *Mending) fetchFrom(ctx context.Context, mate note.UNID, d note.Digest) error {
	ctx, cancel := m.limited(ctx)
	defer cancel()
	answer, err := m.bus.Request(ctx, mate, verbObject, d[:])
	if err != nil {
		return remoteError(err)
	}
	if len(answer) != 8 {
		return errFormat
	}
	size := binary.BigEndian.Uint64(answer)
	if size > maxObject {
		return fmt.Errorf("%w: object %s of %d bytes", replica.ErrTooLarge, d, size)
	}
	s, err := m.bus.Stream(ctx, mate, verbObject, d[:])
	if err != nil {
		return remoteError(err)
	}
	defer s.Close()
	defer deadline(ctx, s)()
	if err := s.CloseWrite(); err != nil {
		return remoteError(err)
	}
	b, err := io.ReadAll(io.LimitReader(s, int64(size)+1))
	if err != nil {
		return remoteError(err)
	}
	return m.store.MendObject(ctx, store.ObjectRef{Digest: d, Size: size}, b)
}

// maxObject is the maximum size of an object that is read into memory, in bytes.
const maxObject = 1 << 30

// answerObject returns the size of a local object.
func (m *Mending) answerObject(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	var d note.Digest
	if len(body) != len(d) {
		return nil, errFormat
	}
	copy(d[:], body)
	size, err := m.store.ObjectSize(d)
	if err != nil {
		return nil, refusal(err)
	}
	return binary.BigEndian.AppendUint64(nil, size), nil
}

// objectStep is the number of bytes of an object read at a time.
const objectStep = 256 << 10

// serveObject sends an object to a member that has lost it.
func (m *Mending) serveObject(_ context.Context, _ bus.ServerID, header []byte, s bus.Stream) error {
	var d note.Digest
	if len(header) != len(d) {
		return errFormat
	}
	copy(d[:], header)
	for off := int64(0); ; off += objectStep {
		b, err := m.store.ObjectBytes(nil, d, off, objectStep)
		if err != nil {
			return refusal(err)
		}
		if _, err := s.Write(b); err != nil || len(b) < objectStep {
			return err
		}
	}
}
