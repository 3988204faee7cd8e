package run

import (
	"context"
	"testing"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/workload"
)

// waiting is the session of a server that answers at once; to wait takes the time that the workload says.
type waiting struct{ speed float64 }

func (w waiting) Do(_ context.Context, p *workload.Planned) (drive.Traffic, error) {
	held := time.Duration(float64(p.Hold) / w.speed)
	time.Sleep(held + 10*time.Millisecond)
	return drive.Traffic{Received: 5, Held: held}, nil
}

func (waiting) Close() error { return nil }

// TestBuiltinSettles checks that every workload can be measured: with a server that answers at once, its load settles,
// also where people only wait or come all at once.
func TestBuiltinSettles(t *testing.T) {
	t.Parallel()
	all, err := workload.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all {
		for _, speed := range []float64{1, 20} {
			if speed == 1 && w.Name != "idle" && w.Name != "login-storm" {
				continue // takes long, and differs in nothing
			}
			run := simulate(t, &fake{}, func(p *Plan) {
				p.Workload, p.Protocol, p.Speed, p.Steps, p.Interval = w, w.Protocol, speed, []int{40}, 0
				p.LoginRate, p.Window = 1200, time.Duration(float64(20*time.Minute)/speed)
				p.Open = func(context.Context, *drive.User) (drive.Session, drive.Traffic, error) {
					return waiting{speed}, drive.Traffic{}, nil
				}
			})
			if s := run.Steps[0]; s.Outcome != record.Measured {
				t.Errorf("%s, %v times the speed: %s: %s", w.Name, speed, s.Outcome, s.Reason)
			}
		}
	}
}
