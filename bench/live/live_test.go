package live

import (
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/bench/record"
	"doublet/bench/run"
)

func header() record.Header {
	return record.Header{Label: "<b>", Marks: []string{"window of 1m"},
		Workload: record.Workload{Name: "n8mail", Protocol: "imap"}, Target: record.Target{Name: "doublet"}}
}

func get(t *testing.T, p *Page, path string) string {
	t.Helper()
	s := httptest.NewServer(p.Server().Handler)
	defer s.Close()
	resp, err := s.Client().Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.Status, err)
	}
	return string(b)
}

func TestPage(t *testing.T) {
	t.Parallel()
	p := New(header())
	_ = get(t, p, "/") // before the first interval
	at := time.Unix(1000, 0)
	for i := range 5 {
		p.Add(at.Add(time.Duration(i)*time.Minute), run.Progress{Step: 1, Steps: 4, Users: 400, Active: 390,
			Phase: record.Measure, Rate: 1234, P50: 2 * time.Millisecond, P99: 3 * time.Second, Errors: 2, Missed: 1})
	}
	text := get(t, p, "/")
	for _, want := range []string{"n8mail over imap against doublet", "step 2 of 4", "390", "1,234", "2.00 ms",
		"3.00 s", "window of 1m", "<svg", "&lt;b&gt;", "5 missed"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, never := range []string{"http://", "https://", "src=", "NaN", "%!"} {
		if strings.Contains(text, never) {
			t.Errorf("%q is in the page", never)
		}
	}
	var s struct {
		Active int    `json:"active"`
		Errors uint64 `json:"errors"`
	}
	if err := json.Unmarshal([]byte(get(t, p, "/state")), &s); err != nil || s.Active != 390 || s.Errors != 10 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestLongRunsStaySmall checks that the page of a day is as long as that of an hour, and still covers the run from its
// beginning to its end.
func TestLongRunsStaySmall(t *testing.T) {
	t.Parallel()
	p := New(header())
	at := time.Unix(1000, 0)
	for i := range 50_000 {
		p.Add(at.Add(time.Duration(i)*time.Second), run.Progress{Rate: 1})
	}
	if n := len(p.points); n > kept || n < kept/4 || p.points[n-1].at < 49_000*time.Second ||
		p.points[0].at > 500*time.Second {
		t.Errorf("%d points from %v to %v", n, p.points[0].at, p.points[n-1].at)
	}
}
