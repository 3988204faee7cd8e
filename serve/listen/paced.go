package listen

import (
	"io"
	"net/http"
	"os"
	"time"

	"doublet/env"
)

// Patience is the timeout for a piece of an HTTP client's upload or download.
const Patience = 30 * time.Second

// Paced returns a reader for a request's body with a timeout for each piece, but none for the whole. A client that
// sends more slowly than MinRate gets os.ErrDeadlineExceeded.
func Paced(e *env.Env, w http.ResponseWriter, body io.Reader) io.Reader {
	return &paced{env: e, c: http.NewResponseController(w), Reader: body}
}

type paced struct {
	env  *env.Env
	c    *http.ResponseController
	pace pace
	io.Reader
}

func (p *paced) Read(b []byte) (int, error) {
	left := p.pace.left(Patience)
	if left <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	began := p.env.Clock.Now()
	_ = p.c.SetReadDeadline(began.Add(left)) // a writer without deadlines reads without one
	n, err := p.Reader.Read(b)
	p.pace.came(n, p.env.Clock.Now().Sub(began))
	return n, err
}

// pacedPiece is the size of a piece of a response, in bytes. The client must accept each piece within Patience.
const pacedPiece = 256 << 10

// WritePaced writes a response from memory. A client that does not accept a piece in time loses the connection.
func WritePaced(e *env.Env, w http.ResponseWriter, b []byte) error {
	c := http.NewResponseController(w)
	for len(b) > 0 {
		n := min(len(b), pacedPiece)
		_ = c.SetWriteDeadline(e.Clock.Now().Add(Patience))
		if _, err := w.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
