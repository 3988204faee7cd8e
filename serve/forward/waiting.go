package forward

import (
	"context"
	"io"
	"net/http"
)

// waitingBody is the body of a request. It does not delay a hand-over while it waits for data.
type waitingBody struct {
	io.ReadCloser
	x   *Session
	ctx context.Context
}

func (b *waitingBody) Read(p []byte) (n int, err error) {
	err = b.x.Waits(b.ctx, func() error {
		var err error
		n, err = b.ReadCloser.Read(p)
		return err
	})
	return n, err
}

// waitingWriter is the response to a request. It does not delay a hand-over while the client does not read.
type waitingWriter struct {
	http.ResponseWriter
	x   *Session
	ctx context.Context
}

func (w *waitingWriter) Write(p []byte) (n int, err error) {
	err = w.x.Waits(w.ctx, func() error {
		var err error
		n, err = w.ResponseWriter.Write(p)
		return err
	})
	return n, err
}

// FlushError is called by http.ResponseController.
func (w *waitingWriter) FlushError() error {
	return w.x.Waits(w.ctx, http.NewResponseController(w.ResponseWriter).Flush)
}

// Unwrap is called by http.ResponseController for all other methods.
func (w *waitingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
