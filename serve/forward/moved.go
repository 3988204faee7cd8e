package forward

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"doublet/bus"
	"doublet/env"
	"doublet/serve/listen"
)

// Moved is a session that moves to another member.
type Moved struct {
	// State is the state from which the door continues the session.
	State []byte
	// Input is the input from the client that no command has consumed.
	Input []byte

	reserved
}

// reserved is a part of the budget for messages in flight.
type reserved struct {
	of listen.Share
	n  int64
}

// take reserves n more bytes. It returns listen.ErrMemory if the budget is used up.
func (r *reserved) take(of listen.Share, n int64) error {
	if !of.Take(n) {
		return fmt.Errorf("forward: %d bytes for a session that moves: %w", n, listen.ErrMemory)
	}
	r.of, r.n = of, r.n+n
	return nil
}

// free ends the reservation.
func (r *reserved) free() {
	if r.n > 0 {
		r.of.Give(r.n)
		r.n = 0
	}
}

// readReserved reads n bytes into memory of a budget.
func readReserved(r io.Reader, n int, of listen.Share) (b []byte, held reserved, err error) {
	if err := held.take(of, int64(n)); err != nil {
		return nil, held, err
	}
	b = make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		held.free()
		return nil, held, err
	}
	return b, held, nil
}

// readMoved reads the content of a frameState.
func readMoved(r io.Reader, n int, of listen.Share) (*Moved, error) {
	b, held, err := readReserved(r, n, of)
	if err != nil {
		return nil, err
	}
	if n < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(n-4) {
		held.free()
		return nil, fmt.Errorf("forward: malformed state of a session, %d bytes", n)
	}
	state := 4 + int(binary.BigEndian.Uint32(b))
	return &Moved{State: b[4:state:state], Input: b[state:], reserved: held}, nil
}

// readAhead reads what the client sent until its member stopped sending, at most maxAhead bytes.
func readAhead(r io.Reader, of listen.Share) (ahead []byte, held reserved, err error) {
	for size := 4 << 10; ; size *= 4 {
		if err := held.take(of, int64(size)); err != nil {
			held.free()
			return nil, held, err
		}
		next := make([]byte, len(ahead)+size)
		copy(next, ahead)
		n, err := io.ReadFull(r, next[len(ahead):])
		ahead = next[:len(ahead)+n]
		switch {
		case len(ahead) > maxAhead:
			err = fmt.Errorf("more than %d bytes", maxAhead)
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return ahead, held, nil
		}
		if err != nil {
			held.free()
			return nil, held, fmt.Errorf("forward: read pipelined input of the client: %w", err)
		}
	}
}

// handBack returns the session to the member that the client is connected to.
func (x *carried) handBack(m *Moved) error {
	if len(m.State)+len(m.Input) > maxState-maxAhead-4 {
		return fmt.Errorf("forward: the state of a session has %d bytes", len(m.State)+len(m.Input))
	}
	if err := x.SetDeadline(env.Deadline(moveWithin)); err != nil {
		return err
	}
	if _, err := x.Stream.Write(appendFrameHead(nil, frameMoving, 0)); err != nil {
		return err
	}
	ahead, held, err := readAhead(x.Stream, x.share())
	if err != nil {
		return err
	}
	defer held.free()
	head := appendFrameHead(nil, frameState, 4+len(m.State)+len(m.Input)+len(ahead))
	head = binary.BigEndian.AppendUint32(head, uint32(len(m.State)))
	for _, b := range [][]byte{head, m.State, m.Input, ahead} {
		if len(b) == 0 {
			continue
		}
		if _, err := x.Stream.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// sendState sends the new home the state from which a session continues.
func sendState(stream bus.Stream, state []byte) error {
	if err := stream.SetDeadline(env.Deadline(moveWithin)); err != nil {
		return err
	}
	_, err := stream.Write(binary.BigEndian.AppendUint32(nil, uint32(len(state))))
	if err == nil && len(state) > 0 {
		_, err = stream.Write(state)
	}
	return err
}

// receiveState reads the state that sendState sent.
func receiveState(stream bus.Stream, of listen.Share) (state []byte, held reserved, err error) {
	if err := stream.SetReadDeadline(env.Deadline(moveWithin)); err != nil {
		return nil, held, err
	}
	var head [4]byte
	if _, err := io.ReadFull(stream, head[:]); err != nil {
		return nil, held, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxState {
		return nil, held, fmt.Errorf("forward: the state of a session has %d bytes", n)
	}
	if state, held, err = readReserved(stream, int(n), of); err != nil {
		return nil, held, err
	}
	return state, held, stream.SetReadDeadline(time.Time{})
}
