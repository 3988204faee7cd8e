package replica

import (
	"context"
	"sync"

	"doublet/note"
)

// Transfers coordinates the objects that concurrent Sends transfer to one target, so that an object that several notes
// name travels once: a message to several people lies in a database of each. The zero value is empty. Methods are safe
// for concurrent use.
type Transfers struct {
	mu sync.Mutex
	by map[note.Digest]*transfer
}

// transfer is an object under way. err is set before done is closed.
type transfer struct {
	done chan struct{}
	err  error
}

// once calls send for an object, unless another Send transfers it: then it waits for that one, and calls send only if
// that one failed. t may be nil.
func (t *Transfers) once(ctx context.Context, d note.Digest, send func() error) error {
	if t == nil {
		return send()
	}
	for {
		mine, other := t.begin(d)
		if other == nil {
			mine.err = send()
			t.end(d, mine)
			return mine.err
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if other.err == nil {
			return nil
		}
	}
}

// begin returns the transfer of an object that is under way, or else begins one.
func (t *Transfers) begin(d note.Digest) (mine, other *transfer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.by[d]; other != nil {
		return nil, other
	}
	if t.by == nil {
		t.by = make(map[note.Digest]*transfer)
	}
	mine = &transfer{done: make(chan struct{})}
	t.by[d] = mine
	return mine, nil
}

func (t *Transfers) end(d note.Digest, mine *transfer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.by, d)
	close(mine.done)
}
