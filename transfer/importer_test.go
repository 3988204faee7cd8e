package transfer

import (
	"context"
	"errors"
	"testing"

	"doublet/mailbox"
)

// TestCancelledImportReleases checks that an import that is cancelled between two messages releases the first one,
// which is composed and not committed.
func TestCancelledImportReleases(t *testing.T) {
	t.Parallel()
	s := newService(t)
	add(t, s, "Ada", "ada")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	queued := make(chan struct{})
	_, err := s.job().importInto(ctx, "ada", func(ctx context.Context, im *importer) error {
		defer close(queued)
		// The committing goroutine waits in the mark until both messages are queued, so they become one batch.
		err := im.emit(ctx, &piece{mark: func(context.Context) error { <-queued; return nil }})
		if err != nil {
			return err
		}
		good := &piece{folder: mailbox.Inbox, where: "good", raw: []byte("Subject: x\r\n\r\nx\r\n")}
		if err := im.emit(ctx, good); err != nil {
			return err
		}
		if err := im.emit(ctx, &piece{where: "bad", err: errors.New("cannot be read")}); err != nil {
			return err
		}
		<-good.ready
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the import was not cancelled: %v", err)
	}
	if !s.memory.all.TryAcquire(memoryBytes) {
		t.Error("the cancelled import still holds memory")
	}
}
