package mailbox_test

import (
	"strings"
	"testing"

	"doublet/mailbox"
	"doublet/wire/mime"
)

func TestComposeLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	compose := func(l mime.Limits, raw string) string {
		c, err := mailbox.New(w.s, w.f.Env, mailbox.Options{Limits: l}).Compose(w.ctx, []byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		return c.Envelope.Subject
	}
	raw := "X-Long: " + strings.Repeat("x", 900) + "\r\nSubject: late\r\n\r\nbody\r\n"
	if got := compose(mime.Limits{}, raw); got != "late" {
		t.Errorf("without limits the subject is %q", got)
	}
	if got := compose(mime.Limits{HeaderBytes: 500}, raw); got != "" {
		t.Errorf("beyond the limit of the header the subject is %q", got)
	}
}
