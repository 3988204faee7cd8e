package store

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// workspaceSize bounds the memory in bytes that large parts of messages and attachments take, all together, while they are
// made into objects: decoded, and compressed. It comes beside what a door has counted for the message itself. A part that
// needs more has all of it.
const workspaceSize = 64 << 20

// workspace lets large parts be made into objects as far as there is memory for it.
type workspace struct{ free *semaphore.Weighted }

func newWorkspace() workspace { return workspace{semaphore.NewWeighted(workspaceSize)} }

// enter waits until a part of size bytes may be made; leave ends that.
func (w workspace) enter(ctx context.Context, size int) (leave func(), err error) {
	cost := min(2*int64(size), workspaceSize)
	if err := w.free.Acquire(ctx, cost); err != nil {
		return nil, err
	}
	return func() { w.free.Release(cost) }, nil
}
