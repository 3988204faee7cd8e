package smtpd

import (
	"context"
	"testing"
)

// A shutdown lets a message in transfer finish, and sends 421 to idle clients.
func TestShutdown(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	idle, busy := h.hello(), h.hello()
	script(t, idle, `
		> MAIL FROM:<>
		< 250 2.1.0`)
	script(t, busy, begin)
	if err := busy.Send([]byte("Subject: x\r\n\r\nhalf ")); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- h.Front.Shutdown(context.Background()) }()
	script(t, idle, `
		< 421 4.3.2 Server is shutting down
		EOF`)
	if err := busy.Send([]byte("whole\r\n.\r\nNOOP\r\n")); err != nil {
		t.Fatal(err)
	}
	script(t, busy, `
		< 250 2.0.0 OK id1
		< 421 4.3.2
		EOF`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if d := h.backend.delivered(); len(d) != 1 || d[0].msg != "Subject: x\r\n\r\nhalf whole\r\n" {
		t.Errorf("%+v", d)
	}
}
