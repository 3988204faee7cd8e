package https

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"doublet/bus/pki"
	"doublet/replica"
	"doublet/store"
)

// Bounds of joining: servers join rarely, and whoever asks has shown nothing yet.
const (
	joins       = 4
	joinTime    = 30 * time.Second
	maxQuestion = 64 << 10
)

var (
	errJoining  = fmt.Errorf("%w: others are joining", replica.ErrBusy)
	errQuestion = fmt.Errorf("%w: the question of a server that joins", replica.ErrFormat)
)

// errNoToken answers who wants to join as earlier versions did, with the password of an administrator.
var errNoToken = fmt.Errorf("%w: a server joins a domain with a token: make one here with doublet domain token, "+
	"and use it on the other server with doublet domain join TOKEN (with a program that is as new as this one)", store.ErrDenied)

// admit takes a server into the domain. It has shown its key, and the question holds a token; nobody signs in.
func (h *Handler) admit(w http.ResponseWriter, r *http.Request) {
	h.requests.Inc()
	w.Header().Set("Cache-Control", "no-store")
	out, by, err := h.admitted(w, r)
	h.audit.joined(r, by, err)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out)
}

func (h *Handler) admitted(w http.ResponseWriter, r *http.Request) (out []byte, by string, err error) {
	key, shown := pki.PeerKey(r.TLS)
	if h.opt.Admit == nil || !shown {
		return nil, "", errNoToken
	}
	select {
	case h.joining <- struct{}{}:
		defer func() { <-h.joining }()
	default:
		return nil, key.String(), errJoining
	}
	end := h.env.Clock.Now().Add(joinTime)
	_ = http.NewResponseController(w).SetReadDeadline(end)
	_ = http.NewResponseController(w).SetWriteDeadline(end)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	if err != nil {
		return nil, key.String(), errQuestion
	}
	out, err = h.opt.Admit(r.Context(), key, body)
	return out, key.String(), err
}
