package webd

import (
	"context"
	"errors"
	"net/http"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/store"
)

// probeTime is the time that a read of the store may take before the store counts as stuck.
const probeTime = 5 * time.Second

// health responds with 200 if the store can be read. Otherwise the process should be restarted.
func (w *Server) health(out http.ResponseWriter, r *http.Request) { say(out, w.Alive(r.Context())) }

// ready responds with 200 if the server can take clients: it is healthy and not stopping, has free space, and its
// certificate is valid.
func (w *Server) ready(out http.ResponseWriter, r *http.Request) { say(out, w.Ready(r.Context())) }

// Ready returns the reason for which the server cannot take clients, or nil.
func (w *Server) Ready(ctx context.Context) error {
	err := w.Alive(ctx)
	switch {
	case w.stopping.Load():
		return errStopping
	case err == nil && !w.system.Store.HasSpace():
		return errSpace
	case err == nil && w.opts.Valid != nil:
		return w.opts.Valid()
	}
	return err
}

func say(out http.ResponseWriter, err error) {
	out.Header().Set("Content-Type", "text/plain; charset=utf-8")
	out.Header().Set("Cache-Control", "no-store")
	if err != nil {
		out.WriteHeader(http.StatusServiceUnavailable)
		_, _ = out.Write([]byte(err.Error() + "\n"))
		return
	}
	_, _ = out.Write([]byte("ok\n"))
}

var (
	errStopping = errors.New("stopping")
	errSpace    = errors.New("too little free space: writes are rejected")
	errStuck    = errors.New("store does not respond: its durable horizon does not advance")
	errStore    = errors.New("cannot read the store")
)

// Alive reads the directory, which waits until all earlier writes there are durable. It returns an error if that fails.
// If a probe is already in progress, it waits for that one.
func (w *Server) Alive(ctx context.Context) error {
	if !w.probing.CompareAndSwap(false, true) {
		return w.other(ctx)
	}
	done := make(chan error, 1)
	w.env.Go("health probe", func() {
		err := w.system.Store.Read(context.WithoutCancel(ctx), note.System, directory.ID,
			func(*store.Reader) error { return nil })
		w.failed.Store(err != nil)
		w.probing.Store(false)
		done <- err
	})
	select {
	case err := <-done:
		if err != nil {
			w.env.Log.Error("health probe failed", "error", err)
			return errStore
		}
		return nil
	case <-w.env.Clock.After(probeTime):
		return errStuck
	case <-ctx.Done():
		return ctx.Err()
	}
}

// other waits for the probe in progress.
func (w *Server) other(ctx context.Context) error {
	for range 50 {
		if !w.probing.Load() {
			if w.failed.Load() {
				return errStore
			}
			return nil
		}
		select {
		case <-w.env.Clock.After(probeTime / 50):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errStuck
}
