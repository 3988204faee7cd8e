package cpu

import (
	"bytes"
	"math"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"

	"github.com/google/pprof/profile"
)

func values(tree *stat.Tree) map[string]float64 {
	out := map[string]float64{}
	for _, e := range tree.Snapshot("Server.CPU") {
		out[e.Name] = e.Value
	}
	return out
}

// TestDivide checks that the tasks' times add up to the process's, in proportion to their samples, and that time
// without samples goes to the next division.
func TestDivide(t *testing.T) {
	t.Parallel()
	tree := stat.New(env.Test(t).Clock)
	used := 3 * time.Second
	m := newMeter(tree, func() time.Duration { return used })
	used = 7 * time.Second
	m.divide(map[string]int64{"Router": 3, other: 1})
	used = 9 * time.Second
	m.divide(nil)
	used = 11 * time.Second
	m.divide(map[string]int64{"Router": 1, "imap": 1})
	want := map[string]float64{"Server.CPU.Router.Seconds": 5, "Server.CPU.Server.Seconds": 3 + 1,
		"Server.CPU.imap.Seconds": 2}
	got := values(tree)
	for name, v := range want {
		if math.Abs(got[name]-v) > 1e-9 {
			t.Errorf("%s = %v, want %v", name, got[name], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}

func TestSamplesOf(t *testing.T) {
	t.Parallel()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		Sample: []*profile.Sample{
			{Value: []int64{2}, Label: map[string][]string{label: {"Router"}}},
			{Value: []int64{3}}, {Value: []int64{4}, Label: map[string][]string{label: {"Router"}}},
		}}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	back, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	if n := samplesOf(back); n["Router"] != 6 || n[other] != 3 {
		t.Errorf("%v", n)
	}
}
