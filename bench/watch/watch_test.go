package watch

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
)

func TestScrape(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "# HELP a b\n# TYPE a counter\na 5\nb{x=\"y z\",q=\"}\"} 1.5e3 1700000000\nc NaN\n\nd +Inf\n"+
			"no number here\n")
	}))
	defer s.Close()
	got, err := Scrape(t.Context(), s.URL+"/metrics")
	if want := map[string]float64{"a": 5, `b{x="y z",q="}"}`: 1500}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := Scrape(t.Context(), s.URL+"/other"); err == nil {
		t.Error("404 is no error")
	}
}

// TestChanges checks that a sample holds what changed, and that a server cannot make the run file grow without bound.
func TestChanges(t *testing.T) {
	t.Parallel()
	last := map[string]float64{}
	for i, c := range []struct{ now, want map[string]float64 }{
		{map[string]float64{"a": 0, "b": 2}, map[string]float64{"a": 0, "b": 2}},
		{map[string]float64{"a": 0, "b": 3}, map[string]float64{"b": 3}},
		{map[string]float64{"a": 0, "b": 3}, map[string]float64{}},
	} {
		if got := changes(last, c.now); !maps.Equal(got, c.want) {
			t.Errorf("sample %d: %v, want %v", i, got, c.want)
		}
	}
	many := map[string]float64{"a": 1}
	for i := range maxStatistics {
		many["x"+strconv.Itoa(i)] = 1
	}
	if got := changes(last, many); len(got) != maxStatistics-1 || got["a"] != 1 || len(last) != maxStatistics {
		t.Errorf("%d changes, %d statistics", len(got), len(last))
	}
}
