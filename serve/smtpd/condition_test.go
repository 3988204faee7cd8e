package smtpd

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/serve/condition"
)

// TestConditions checks that a failed delivery has the reply of the common error table.
func TestConditions(t *testing.T) {
	t.Parallel()
	b := &backend{env: env.Real(slog.New(slog.DiscardHandler))}
	for _, c := range condition.All {
		for _, err := range c.Errors() {
			if got := b.answer(note.UNID{}, fmt.Errorf("below: %w", err)); got.Error() != c.SMTP.Error() {
				t.Errorf("%v: %v, want %v", err, got, c.SMTP)
			}
		}
	}
	if got := b.answer(note.UNID{}, errors.New("?")); got.Error() != condition.Trouble.SMTP.Error() {
		t.Errorf("an unknown error: %v", got)
	}
}
