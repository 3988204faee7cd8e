package pop3d

import (
	"fmt"
	"log/slog"
	"testing"

	"doublet/env"
	"doublet/serve/condition"
)

// TestConditions: a command that fails is answered as the table of all doors says.
func TestConditions(t *testing.T) {
	t.Parallel()
	for _, c := range condition.All {
		for _, err := range c.Errors() {
			s := &session{srv: &Server{env: env.Real(slog.New(slog.DiscardHandler))}}
			s.trouble("command failed", fmt.Errorf("below: %w", err))
			if want := "-ERR [" + c.POP3 + "] " + c.IMAPText + "\r\n"; string(s.out.B) != want {
				t.Errorf("%v: %q, want %q", err, s.out.B, want)
			}
		}
	}
}
