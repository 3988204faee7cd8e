package webd

import (
	"net/http"
	"time"

	"doublet/stat"
)

// measures are the statistics of requests.
type measures struct {
	failed *stat.Counter
	took   *stat.Histogram
}

func newMeasures(t *stat.Tree) measures {
	return measures{
		failed: t.Counter("HTTP.Errors", "requests that were answered with a status from 500 on"),
		took:   t.Histogram("HTTP.ResponseTime", "time from a request to the head of its answer", stat.Seconds),
	}
}

// measured counts the answer of a request when its head is written. The time of what follows depends on the client: a
// push stays open for hours. Health checks are left out: they fail because they tell of a fault.
func (w *Server) measured(out http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		return out
	}
	return &measuredWriter{ResponseWriter: out, server: w, began: w.env.Clock.Now()}
}

type measuredWriter struct {
	http.ResponseWriter
	server *Server
	began  time.Time
	done   bool
}

// Unwrap is called by http.ResponseController for all other methods.
func (w *measuredWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter. An informational head (RFC 9110 section 15.2) is not the answer yet.
func (w *measuredWriter) WriteHeader(status int) {
	if !w.done && status >= 200 {
		w.done = true
		w.server.measures.took.ObserveDuration(w.server.env.Clock.Now().Sub(w.began))
		if status >= 500 {
			w.server.measures.failed.Inc()
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *measuredWriter) Write(p []byte) (int, error) {
	if !w.done {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}
