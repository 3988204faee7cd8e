package mail

import (
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/env"
)

// TestTellOfGuesses checks the warning about wrong second-factor codes, at most one per day.
func TestTellOfGuesses(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	w := openOn(t, fix, Options{})
	alice := w.person("alice", func(s *directory.PersonSpec) { s.InternetAddress = "alice@example.com" })
	for range 3 {
		w.ok(TellOfGuesses(bg, w.Deposits, &alice, Guesses{From: "192.0.2.7"}))
	}
	got := w.has(alice, 1)[0]
	for _, want := range []string{"Return-Path: <>", "From: \"Mail server\" <postmaster@example.com>",
		"Auto-Submitted: auto-generated", "from the address 192.0.2.7.", "change it now"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "refused for a while") {
		t.Errorf("locked:\n%s", got)
	}
	fix.Time.Advance(24 * time.Hour)
	w.ok(TellOfGuesses(bg, w.Deposits, &alice, Guesses{Locked: true}))
	if got := w.has(alice, 2)[1]; !strings.Contains(got, "refused for a while") ||
		strings.Contains(got, "from the address") {
		t.Errorf("the next day:\n%s", got)
	}
	nobody := w.person("bob")
	nobody.InternetAddress = ""
	w.ok(TellOfGuesses(bg, w.Deposits, &nobody, Guesses{}))
	nobody.InternetAddress = "somebody@far.example"
	w.ok(TellOfGuesses(bg, w.Deposits, &nobody, Guesses{}))
}
