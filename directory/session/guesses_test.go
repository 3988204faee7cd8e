package session

import (
	"errors"
	"slices"
	"testing"
	"time"

	"doublet/note"
)

// guess makes a guess. It returns the guess's id, or the time when the next one may be made.
func (w *world) guess(g Guess) (note.UNID, time.Time) {
	w.t.Helper()
	out, err := w.Guess(bg, g)
	w.ok(err)
	return out.ID, out.After
}

// TestGuesses checks that each wrong code increases the delay, over days and after a restart. A right code has no cost.
// A known browser and a new password have their own counts.
func TestGuesses(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	g := Guess{Person: alice, PasswordID: "p", Address: "192.0.2.1"}
	for range 3 * freeGuesses { // any number of right codes
		id, _ := w.guess(g)
		w.ok(w.Right(bg, id))
	}
	may := func(want bool) {
		t.Helper()
		if id, after := w.guess(g); id.IsZero() == want || after.IsZero() != want {
			t.Fatalf("may be made: %v, after %v", !id.IsZero(), after)
		}
	}
	for range freeGuesses {
		may(true)
	}
	tries := 0
	for _, d := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440, 1440} {
		may(false)
		w.fix.Time.Advance(d*time.Minute - time.Second)
		if tries++; tries == 4 {
			w.stop()
			w.start()
		}
		may(false)
		w.fix.Time.Advance(time.Second)
		may(true)
	}
	if _, after := w.guess(g); after.Sub(w.fix.Clock.Now()) > longestDelay {
		t.Errorf("the delay has no end: %v", after)
	}
	other := g
	other.Person = bob
	if id, _ := w.guess(other); id.IsZero() {
		t.Error("guesses of one person shut out another")
	}
	other = g
	other.PasswordID = "new"
	if id, _ := w.guess(other); id.IsZero() {
		t.Error("guesses with the old password count for the new one")
	}
	// A known browser may continue, with its own count.
	for _, token := range []string{"", "x", w.KnowBrowser("", bob), w.KnowBrowser("", alice)[1:],
		"B" + w.KnowBrowser("", alice)[1:]} {
		other = g
		other.Browser = token
		if id, _ := w.guess(other); !id.IsZero() {
			t.Errorf("%q is a known browser", token)
		}
	}
	token := w.KnowBrowser("", alice)
	if again := w.KnowBrowser(token, alice); again != token {
		t.Error("a known browser gets another name")
	}
	other = g
	for range 2 {
		other.Browser = token
		for i := range freeGuesses {
			if id, _ := w.guess(other); id.IsZero() {
				t.Fatalf("the known browser is shut out at its guess %d", i)
			}
		}
		if id, _ := w.guess(other); !id.IsZero() {
			t.Error("a known browser guesses for ever")
		}
		token = w.KnowBrowser("", alice)
	}
	other.Browser = token
	w.fix.Time.Advance(browserKnown)
	if _, ok := w.browser(token, alice); ok {
		t.Error("a browser is known for ever")
	}
}

// TestWrongCodes checks that the summary for a person contains wrong codes and no right ones. Codes are forgotten after
// guessesKept.
func TestWrongCodes(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	told := func(count int, addresses ...string) {
		t.Helper()
		got, err := w.WrongCodes(bg, alice)
		w.ok(err)
		if got.Count != count || !slices.Equal(got.Addresses, addresses) {
			t.Errorf("%+v; want %d from %v", got, count, addresses)
		}
	}
	told(0)
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1", ""} {
		w.guess(Guess{Person: alice, PasswordID: "p", Address: a})
		w.fix.Time.Advance(time.Second)
	}
	id, _ := w.guess(Guess{Person: alice, PasswordID: "p", Address: "192.0.2.9"})
	told(5, "192.0.2.9", "192.0.2.1", "192.0.2.2")
	w.ok(w.Right(bg, id))
	w.ok(w.Right(bg, id))
	told(4, "192.0.2.1", "192.0.2.2")
	w.fix.Time.Advance(guessesKept + 2*time.Hour)
	told(0)
	if n, err := w.Sweep(bg); err != nil || n < 6 {
		t.Errorf("swept %d, %v", n, err)
	}
	told(0)
}

// TestGuessesOfMates checks that the home counts. If it does not answer, this server counts.
func TestGuessesOfMates(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	m := &mates{home: true}
	w.Service.opt.Mates = m
	g := Guess{Person: alice, PasswordID: "p"}
	m.guessing.After = w.fix.Clock.Now().Add(time.Hour)
	if id, after := w.guess(g); !id.IsZero() || after != m.guessing.After {
		t.Error("the home's word does not count")
	}
	m.guessing = Guessing{ID: note.UNID{7}}
	for range 2 * freeGuesses {
		if id, _ := w.guess(g); id != m.guessing.ID {
			t.Error("the home's word does not count")
		}
	}
	w.ok(w.Right(bg, m.guessing.ID)) // before the guess is replicated to this server
	m.home = false
	for range freeGuesses {
		w.guess(g)
	}
	if id, _ := w.guess(g); !id.IsZero() {
		t.Error("nobody counts where the home is away")
	}
	if _, err := w.GuessAtHome(bg, CountedGuess{Person: alice}); !errors.Is(err, ErrNotHome) {
		t.Error("a server that is no home counts for others:", err)
	}
}
