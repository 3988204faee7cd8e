package https

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"doublet/bus/pki"
	"doublet/replica"
	"doublet/store"
)

// Limits on joining. Servers join rarely, and the client of such a request is not authenticated yet.
const (
	joins       = 32
	joinsOfOne  = 2 // per address
	joinTime    = 10 * time.Second
	maxQuestion = 64 << 10
)

var (
	errJoining  = fmt.Errorf("%w: other servers are joining", replica.ErrBusy)
	errQuestion = fmt.Errorf("%w: request to join", replica.ErrFormat)
)

// errNoToken rejects a request to join with an administrator's password, as earlier versions sent it.
var errNoToken = fmt.Errorf("%w: run doublet domain token here, and doublet domain join TOKEN with the same version "+
	"there", store.ErrDenied)

// admit adds a server to the domain. The server has proven its key over TLS, and the request contains a token; no user
// signs in.
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
	place := network(r)
	if !h.joining.enter(place) {
		return nil, key.String(), errJoining
	}
	defer h.joining.leave(place)
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

// joiners counts the servers that are joining, so that requests from one address do not block those from others.
type joiners struct {
	mu  sync.Mutex
	all int
	of  map[string]int
}

// enter counts a joining server. It returns false if too many are joining.
func (j *joiners) enter(from string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.all >= joins || j.of[from] >= joinsOfOne {
		return false
	}
	if j.of == nil {
		j.of = map[string]int{}
	}
	j.all++
	j.of[from]++
	return true
}

func (j *joiners) leave(from string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all--
	if j.of[from]--; j.of[from] <= 0 {
		delete(j.of, from)
	}
}
