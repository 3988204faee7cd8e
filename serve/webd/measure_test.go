package webd

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"doublet/env"
	"doublet/stat"
)

// TestMeasured checks that a request counts once, by its final status, that a health check does not count, and that a
// handler still reaches the methods of the connection.
func TestMeasured(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	w := &Server{env: f.Env, measures: newMeasures(stat.New(f.Clock))}
	for path, statuses := range map[string][]int{"/a": {103, 500, 200}, "/b": {}, "/readyz": {503}} {
		out := httptest.NewRecorder()
		m := w.measured(out, httptest.NewRequest(http.MethodGet, path, nil))
		for _, s := range statuses {
			m.WriteHeader(s)
		}
		_, _ = m.Write([]byte("x"))
		if err := http.NewResponseController(m).Flush(); err != nil || !out.Flushed {
			t.Errorf("flush: %v", err)
		}
	}
	if n := w.measures.took.Distribution().Count; n != 2 || w.measures.failed.Value() != 1 {
		t.Errorf("%d answers, %d errors", n, w.measures.failed.Value())
	}
}
