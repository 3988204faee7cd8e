//go:build unix

package cpu

import (
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
)

// TestSample checks a real profile: a goroutine that was started by a labelled one works until its label is seen.
func TestSample(t *testing.T) {
	tree := stat.New(env.TestRealTime(t).Clock)
	m := New(tree)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		Label("Busy")
		go func() {
			defer close(ended)
			for n := uint64(1); ; n = n*6364136223846793005 + 1 {
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}()
	defer func() { close(stop); <-ended }()
	for range 1000 { // the profile's clock needs some rounds on a machine that others use
		before := ProcessTime()
		if err := m.Sample(func() {
			for ProcessTime()-before < 50*time.Millisecond {
			}
		}); err != nil {
			t.Fatal(err)
		}
		if values(tree)["Server.CPU.Busy.Seconds"] > 0 {
			return
		}
	}
	t.Error("the label was never sampled")
}
