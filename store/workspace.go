package store

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// workspaceSize bounds the total memory in bytes for decoding and compressing large parts of messages and attachments.
// It comes in addition to the memory that the protocol servers count for the message itself. A part that needs more
// gets all of it.
const workspaceSize = 64 << 20

// workspace limits the memory for making large parts into objects.
type workspace struct{ free *semaphore.Weighted }

func newWorkspace() workspace { return workspace{semaphore.NewWeighted(workspaceSize)} }

// enter waits until there is memory for a part of size bytes. The caller calls leave when the part is done.
func (w workspace) enter(ctx context.Context, size int) (leave func(), err error) {
	cost := min(2*int64(size), workspaceSize)
	if err := w.free.Acquire(ctx, cost); err != nil {
		return nil, err
	}
	return func() { w.free.Release(cost) }, nil
}
