package session

import (
	"bytes"
	"context"
	"crypto/hmac"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/note"
	"doublet/store"
)

// Someone who knows a person's password and guesses the codes of the second factor is slowed down. The delay depends on
// the number of wrong codes within guessesKept, on all members of the cluster. A guess is stored before its code is
// checked, so that concurrent guesses gain nothing over sequential ones. It is marked afterwards if the code was right.
//
// A browser in which a code was correct before has a count of its own, so that guesses from elsewhere do not lock it
// out. A new password starts a new count, because nobody can guess codes without knowing it.

const (
	guessesKept = 30 * 24 * time.Hour
	// freeGuesses is the number of wrong codes without a delay. The next delay is guessDelay; it doubles each time, up
	// to longestDelay.
	freeGuesses  = 5
	guessDelay   = time.Minute
	longestDelay = 24 * time.Hour
	// browserKnown is the time for which a browser stays known after a correct code.
	browserKnown = 180 * 24 * time.Hour
)

// Guess is an attempt to enter a code.
type Guess struct {
	Person note.UNID
	// PasswordID identifies the password that was given with the code.
	PasswordID string
	// Browser is a browser's token from KnowBrowser. "" and tokens of other people mean an unknown browser.
	Browser string
	Address string
}

// Guessing is the decision about a guess.
type Guessing struct {
	// ID identifies the guess, for Right. It is zero if the guess may not be made now.
	ID note.UNID
	// After is the time when the next guess may be made. It is set if this one may not.
	After time.Time
}

// guesses counts guesses at second factors, and stores used codes, for the whole cluster.
type guesses struct{ *base }

// bucket returns the id under which a guess is counted.
func (gs *guesses) bucket(g *Guess) note.UNID {
	if id, ok := gs.browser(g.Browser, g.Person); ok {
		return note.DeriveUNID([]byte("guess of browser"), g.Person[:], id[:], []byte(g.PasswordID))
	}
	return note.DeriveUNID([]byte("guess"), g.Person[:], []byte(g.PasswordID))
}

// CountedGuess is the form of a guess that members send to each other, as JSON.
type CountedGuess struct {
	Person, Bucket note.UNID
	Address        string
}

// Guess counts an attempt to enter a code. Call it before checking the code.
func (gs *guesses) Guess(ctx context.Context, g Guess) (Guessing, error) {
	c := CountedGuess{g.Person, gs.bucket(&g), short(g.Address)}
	if m := gs.opt.Mates; m != nil {
		if out, asked := m.Guess(ctx, c); asked {
			return out, nil
		}
	}
	return gs.guess(ctx, &c)
}

// GuessAtHome is Guess, called for a mate. Errors: ErrNotHome.
func (gs *guesses) GuessAtHome(ctx context.Context, c CountedGuess) (Guessing, error) {
	if gs.adopt(ctx); gs.place.id() != SharedID || !gs.s.Leads(SharedID) {
		return Guessing{}, ErrNotHome
	}
	return gs.guess(ctx, &c)
}

func (gs *guesses) guess(ctx context.Context, c *CountedGuess) (out Guessing, err error) {
	now := gs.now()
	id := gs.s.UNID()
	err = gs.update(ctx, func(w *store.Writer) error {
		out = Guessing{}
		list, err := wrongCodes(&w.Reader, c.Person, now)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(g madeGuess) bool { return g.bucket != c.Bucket })
		if n := len(list); n >= freeGuesses {
			after := list[n-1].at.Add(delayOf(n))
			if now.Before(after) {
				out.After = after
				return nil
			}
		}
		items := note.Items(nil).With(itemForm, note.Text(formGuess)).With(itemPerson,
			note.Text(c.Person.String())).With(itemBucket, note.Text(c.Bucket.String())).
			With(itemCreated, note.Int(now.Unix())).With(itemAddress, note.Text(c.Address)).With(itemEnds,
			note.Int(now.Add(guessesKept).Unix()))
		_, err = w.Create(store.New{UNID: id, Content: note.Content{Items: items}})
		out.ID = id
		return err
	})
	if err != nil {
		return Guessing{}, fmt.Errorf("session: guess: %w", err)
	}
	return out, nil
}

// delayOf returns the delay after the last of n wrong codes.
func delayOf(n int) time.Duration {
	d := guessDelay
	for ; n > freeGuesses && d < longestDelay; n-- {
		d *= 2
	}
	return min(d, longestDelay)
}

// Right marks a guess as correct, so that it no longer counts. The mark is a separate note that nobody edits, because
// the guess may not have been replicated to this server yet.
func (gs *guesses) Right(ctx context.Context, guess note.UNID) error {
	items := note.Items(nil).With(itemForm, note.Text(formRight)).With(itemEnds,
		note.Int(gs.now().Add(guessesKept+time.Hour).Unix()))
	err := gs.update(ctx, func(w *store.Writer) error {
		_, err := w.Create(store.New{UNID: rightOf(guess), Content: note.Content{Items: items}})
		return err
	})
	if err != nil && !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrGrave) {
		return fmt.Errorf("session: guess: %w", err)
	}
	return nil
}

func rightOf(guess note.UNID) note.UNID { return note.DeriveUNID([]byte("right guess"), guess[:]) }

// madeGuess is a stored guess.
type madeGuess struct {
	bucket  note.UNID
	at      time.Time
	address string
}

// wrongCodes returns a person's guesses that were not right, the oldest first.
func wrongCodes(r *store.Reader, person note.UNID, now time.Time) (list []madeGuess, err error) {
	ids, err := r.Lookup(indexGuesses, personKey(person))
	for _, id := range ids {
		u, items, bad := document(r, id)
		if bad != nil {
			return nil, bad
		}
		_, bad = r.Find(rightOf(u))
		if bad == nil || errors.Is(bad, store.ErrGrave) || unix(items.Get(itemEnds)).Before(now) {
			continue
		}
		if !errors.Is(bad, store.ErrNotFound) {
			return nil, bad
		}
		b, bad := note.ParseUNID(items.Get(itemBucket).AsText())
		if bad != nil {
			return nil, fmt.Errorf("%w: guess %s", store.ErrDamaged, u)
		}
		list = append(list, madeGuess{b, unix(items.Get(itemCreated)), items.Get(itemAddress).AsText()})
	}
	slices.SortStableFunc(list, func(a, b madeGuess) int { return a.at.Compare(b.at) })
	return list, err
}

// Wrong summarizes the wrong codes that were entered with a person's password.
type Wrong struct {
	Count     int       `json:"count"`
	Since     time.Time `json:"since,omitzero"`
	Last      time.Time `json:"last,omitzero"`
	Addresses []string  `json:"addresses,omitempty"`
}

// From returns the addresses as text for display.
func (w *Wrong) From() string { return strings.Join(w.Addresses, ", ") }

// maxAddresses is the maximum number of addresses in Wrong. The most recent ones are kept.
const maxAddresses = 10

// WrongCodes returns a summary of a person's wrong codes of the last 30 days.
func (gs *guesses) WrongCodes(ctx context.Context, person note.UNID) (out Wrong, err error) {
	err = gs.read(ctx, func(r *store.Reader) error {
		list, err := wrongCodes(r, person, gs.now())
		if out = (Wrong{Count: len(list)}); len(list) == 0 {
			return err
		}
		out.Since, out.Last = list[0].at, list[len(list)-1].at
		for _, g := range slices.Backward(list) {
			if g.address != "" && len(out.Addresses) < maxAddresses && !slices.Contains(out.Addresses, g.address) {
				out.Addresses = append(out.Addresses, g.address)
			}
		}
		return err
	})
	if err != nil {
		return Wrong{}, fmt.Errorf("session: %w", err)
	}
	return out, nil
}

// browserToken is the length of a browser's token without its keyed hash: person, id and creation time.
const browserToken = 16 + 16 + 8

// KnowBrowser returns a new token for a browser in which a person has entered a correct code. It keeps the id of a
// valid old token.
func (gs *guesses) KnowBrowser(old string, person note.UNID) string {
	id, ok := gs.browser(old, person)
	if !ok {
		gs.env.Fill(id[:])
	}
	b := append(append(person[:len(person):len(person)], id[:]...),
		binary.BigEndian.AppendUint64(nil, uint64(gs.now().Unix()))...)
	return base64.RawURLEncoding.EncodeToString(append(b, gs.mac("browser", string(b))[:16]...))
}

// BrowserLife returns the time for which a browser keeps its token.
func (gs *guesses) BrowserLife() time.Duration { return browserKnown }

// browser returns the id in a token, if the token is valid for a person.
func (gs *guesses) browser(token string, person note.UNID) (id note.UNID, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) != browserToken+16 || !bytes.Equal(b[:16], person[:]) ||
		!hmac.Equal(b[browserToken:], gs.mac("browser", string(b[:browserToken]))[:16]) {
		return id, false
	}
	made := time.Unix(int64(binary.BigEndian.Uint64(b[32:browserToken])), 0)
	copy(id[:], b[16:])
	return id, gs.now().Before(made.Add(browserKnown))
}
