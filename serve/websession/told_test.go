package websession

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"doublet/directory"
	"doublet/serve/signin"
)

// TestGuessed checks that a user is notified of wrong codes once a day, from the third on, even if the attacker does
// not wait.
func TestGuessed(t *testing.T) {
	t.Parallel()
	var told []string
	fail := errors.New("no room")
	w := open(t, signin.Options{Guessed: func(ctx context.Context, p *directory.Person, from string,
		locked bool) error {
		told = append(told, fmt.Sprint(p.ShortName, " ", from != "", " ", locked, " ", ctx.Err()))
		return fail
	}})
	own := w.signedIn("alice")
	own.enrol(m{"password": "secret-alice"})
	w.fix.Time.Advance(time.Minute)
	guess := func(n, status int) {
		t.Helper()
		for range n {
			w.is("a guess", w.browser().json(PathSignIn, m{"user": "alice", "password": "secret-alice",
				"code": "000000"}), status, "")
		}
	}
	expect := func(want ...string) {
		t.Helper()
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told %q, want %q", told, want)
		}
		told = nil
	}
	w.is("a wrong password", w.browser().json(PathSignIn, m{"user": "alice", "password": "wrong", "code": "000000"}),
		401, "")
	guess(2, 401)
	expect()
	guess(1, 401)
	expect("alice true false <nil>")
	fail = nil
	guess(1, 401)
	expect("alice true false <nil>")
	guess(1, 401)
	guess(3, 429)
	expect()
	w.fix.Time.Advance(24 * time.Hour)
	guess(1, 401)
	guess(1, 429)
	expect("alice true false <nil>")
}
