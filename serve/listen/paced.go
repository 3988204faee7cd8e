package listen

import (
	"io"
	"net/http"
	"time"

	"doublet/env"
)

// Patience is how long an HTTP client may take for a piece of an upload or download.
const Patience = 30 * time.Second

// Paced reads a request's body, for whose every piece the client has time, however long the whole takes.
func Paced(e *env.Env, w http.ResponseWriter, body io.Reader) io.Reader {
	return &paced{e, http.NewResponseController(w), body}
}

type paced struct {
	env *env.Env
	c   *http.ResponseController
	io.Reader
}

func (p *paced) Read(b []byte) (int, error) {
	_ = p.c.SetReadDeadline(p.env.Clock.Now().Add(Patience)) // what cannot set one has none
	return p.Reader.Read(b)
}
