package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"

	"doublet/note"
	"doublet/stat/cpu"
)

// maxArgs is the maximum size of the arguments of one call, in bytes.
const maxArgs = 1 << 20

// line is one line of a response: any number of progress lines, then one result or error.
type line struct {
	Progress *Progress       `json:"progress,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    string          `json:"error,omitempty"`
	Kind     string          `json:"kind,omitempty"`
}

// description is a verb in the response to GET /admin.
type description struct {
	Name    string  `json:"name"`
	Help    string  `json:"help"`
	Long    string  `json:"long,omitempty"`
	Changes bool    `json:"changes,omitempty"`
	Machine bool    `json:"machine,omitempty"`
	Params  []Param `json:"params,omitempty"`
}

// Handler serves the verbs: POST /admin/user/add takes a JSON object of arguments; GET /admin lists the verbs. Every
// client acts as the server itself, so the handler must only be used behind the socket, which only the server's own
// account can open. A response consists of JSON lines: progress, then one result or error.
func Handler(s *Running) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin", func(w http.ResponseWriter, _ *http.Request) {
		list := make([]description, 0, len(table))
		for _, v := range table {
			list = append(list, description{v.Name, v.Help, v.Long, v.Changes, v.Machine, v.Params})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("POST /admin/{verb...}", func(w http.ResponseWriter, r *http.Request) {
		Answer(s, note.System, strings.ReplaceAll(r.PathValue("verb"), "/", " "), w, r)
	})
	// Profiles of the running server, for clients of the socket:
	// curl --unix-socket data/doublet.sock 'http://doublet/debug/pprof/profile?seconds=10' >cpu.prof
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		cpu.Exclusive(func() { pprof.Profile(w, r) }) // the task Stats takes short ones
	})
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// Answer runs a verb as who, with the arguments in the body of a request. It responds as Handler does.
func Answer(s *Running, who note.Who, name string, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	args, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxArgs))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_ = json.NewEncoder(w).Encode(line{Error: "read arguments: " + err.Error(), Kind: "usage"})
		return
	}
	out := json.NewEncoder(w)
	var mu sync.Mutex // several goroutines of a verb may report progress
	told := false
	progress := func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		told = true
		_ = out.Encode(line{Progress: &p})
		_ = http.NewResponseController(w).Flush()
	}
	result, err := s.Run(withOrigin(r.Context(), r.RemoteAddr), who, name, args, progress)
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		if !told { // otherwise the status was already sent, and the line holds the error
			w.WriteHeader(status(err))
		}
		_ = out.Encode(line{Error: err.Error(), Kind: Kind(err)})
		return
	}
	_ = out.Encode(line{Result: result})
}

func status(err error) int {
	switch {
	case errors.Is(err, ErrNoVerb):
		return http.StatusNotFound
	case Kind(err) == "usage":
		return http.StatusBadRequest
	case Kind(err) == "not found":
		return http.StatusNotFound
	case Kind(err) == "exists":
		return http.StatusConflict
	case Kind(err) == "denied":
		return http.StatusForbidden
	case Kind(err) == "no space":
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}
