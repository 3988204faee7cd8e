package pop3d

import (
	"fmt"
	"log/slog"
	"testing"

	"doublet/env"
	"doublet/serve/condition"
)

// TestConditions checks that errors are answered as in the table for all protocols.
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
