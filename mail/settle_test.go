package mail

import (
	"context"
	"strings"
	"testing"
	"time"

	"doublet/mail/outbound/sink"
)

// TestOutcomeWaits checks that a message whose outcome cannot be written, because the disk is full, is not sent again.
// The outcome is written when there is space.
func TestOutcomeWaits(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{Reply: func(_ int, line string) string {
		if strings.HasPrefix(line, "RCPT TO:<v@") {
			return "451 4.7.1 not now"
		}
		return ""
	}})
	f.stop()
	f.floor = 1 << 20
	f.fix.Faults.SetSpace(1 << 40)
	f.start()
	f.closed = false
	f.Router.outcomes.beforeSettle = func() {
		f.fix.Faults.SetSpace(1 << 19)
		f.clock.advance(2 * time.Second) // the store checks the space
	}
	f.deposit(f.from("alice@example.com", "u@far.example", "v@far.example"))
	f.flush()
	for range 3 {
		f.after(time.Hour)
	}
	if n := len(f.queue(1)[0].Recipients); n != 2 || f.sink.Count() != 1 {
		t.Fatalf("%d recipients wait, taken %d times", n, f.sink.Count())
	}
	f.Router.outcomes.beforeSettle = nil
	f.fix.Faults.SetSpace(1 << 40)
	f.clock.advance(2 * time.Second)
	f.Router.outcomes.settleStuck(0)
	f.flush()
	if e := f.queue(1)[0]; len(e.Recipients) != 1 || e.Recipients[0].Address != "v@far.example" ||
		e.Recipients[0].Attempts != 1 || f.sink.Count() != 1 {
		t.Errorf("taken %d times, %+v", f.sink.Count(), e)
	}
}

// TestStopWaitsForAnswer checks that a stopping server waits for the reply to a message in transfer, and does not send
// the message again after the restart.
func TestStopWaitsForAnswer(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	f := openFar(t, Options{}, sink.Options{Reply: func(_ int, line string) string {
		if line == "." {
			close(asked)
			<-answer
		}
		return ""
	}})
	f.deposit(f.from("alice@example.com", "u@far.example"))
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	go func() { ended <- f.Router.Run(ctx) }()
	<-asked
	cancel()
	time.Sleep(20 * time.Millisecond) // time for a connection to be closed wrongly
	close(answer)
	f.ok(<-ended)
	f.queue(0)
	if f.sink.Count() != 1 {
		t.Errorf("sent %d times", f.sink.Count())
	}
}
