package mail

import (
	"context"
	"strings"
	"testing"
	"time"

	"doublet/mail/outbound/sink"
)

// TestOutcomeWaits: while the disk is too full for writing down that another server has taken a message, it is
// not sent again; it is written down when there is room.
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
		f.clock.advance(2 * time.Second) // for the store to look
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
	if e := f.queue(1)[0]; len(e.Recipients) != 1 || e.Recipients[0].Address != "v@far.example" || e.Recipients[0].Attempts != 1 || f.sink.Count() != 1 {
		t.Errorf("taken %d times, %+v", f.sink.Count(), e)
	}
}

// TestStopWaitsForAnswer: a server that stops while another one has not yet answered for a message waits for the
// answer, and does not send it again when it starts.
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
	time.Sleep(20 * time.Millisecond) // for a connection that would be closed
	close(answer)
	f.ok(<-ended)
	f.queue(0)
	if f.sink.Count() != 1 {
		t.Errorf("sent %d times", f.sink.Count())
	}
}
