package imapd

import (
	"fmt"
	"log/slog"
	"testing"

	"doublet/env"
	"doublet/serve/condition"
	"doublet/wire/imap"
)

// TestConditions checks that errors are answered as in the table for all protocols.
func TestConditions(t *testing.T) {
	t.Parallel()
	s := &session{srv: &Server{env: env.Real(slog.New(slog.DiscardHandler))}}
	for _, c := range condition.All {
		for _, err := range c.Errors() {
			code, text := s.refusal(&imap.Command{Name: "FETCH"}, fmt.Errorf("below: %w", err))
			if code != c.IMAP || text != c.IMAPText {
				t.Errorf("%v: [%s] %s, want [%s] %s", err, code, text, c.IMAP, c.IMAPText)
			}
		}
	}
}
